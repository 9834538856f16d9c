//! `cargo lab mesh ranks`: the memory and the control traffic of rank 0 for many ranks.
//!
//! Rank 0 is the real program. The other ranks are threads of this one, which use its protocol and report each test at
//! once, with rates as large as real ones. Counts the bytes of their connections in both directions.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command as Process, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytegauge_mesh::coordinator::SlotEnd;
use bytegauge_mesh::message::{TO_RANK_MAX, VERSION};
use bytegauge_mesh::{Rank, RankHello, RateSample, ToRank, ToRankZero};
use bytegauge_model::Bytes;
use bytegauge_wire::{Key, Receiver, Sender, connect};
use clap::{Arg, ArgMatches, Command, value_parser};
use serde_json::to_vec;
use xtask::product;

use super::peak;

/// How long ranks wait for rank 0.
const PATIENCE: Duration = Duration::from_secs(300);

/// The stack of a thread, bytes.
const STACK: usize = 256 << 10;

/// `cargo lab mesh ranks`.
pub fn command() -> Command {
    let ranks = Arg::new("ranks").long("ranks").value_name("N").value_parser(value_parser!(u32).range(2..=4_096));
    Command::new("ranks")
        .about("Measure memory and control traffic of rank 0 with many simulated ranks")
        .arg(ranks.default_value("1000").help("Number of ranks"))
}

/// Messages and their bytes before encryption, which adds 18 to each.
#[derive(Debug, Default)]
struct ControlTraffic {
    messages: AtomicU64,
    bytes: AtomicU64,
}

impl ControlTraffic {
    fn count(&self, message: &impl serde::Serialize) {
        self.messages.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(to_vec(message).map_or(0, |text| text.len() as u64), Ordering::Relaxed);
    }

    fn text(&self) -> String {
        let (messages, bytes) = (self.messages.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed));
        format!("{messages} messages of {} bytes on average", bytes.checked_div(messages).unwrap_or(0))
    }
}

/// State of all simulated ranks.
struct Simulation {
    ranks: u32,
    key: Key,
    zero: SocketAddr,
    to_zero: ControlTraffic,
    from_zero: ControlTraffic,
}

/// Runs a whole mesh.
///
/// # Errors
/// When the program does not run.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let ranks = matches.get_one::<u32>("ranks").copied().unwrap_or(1_000);
    let program = product::built()?;
    let folder = tempfile::tempdir().context("making a folder")?;
    let key_file = folder.path().join("key");
    let made = Process::new(&program).args(["agent", "--init", "--key-file"]).arg(&key_file).output()?;
    ensure!(made.status.success(), "making a key: {}", String::from_utf8_lossy(&made.stderr));
    let zero = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let simulation = Arc::new(Simulation {
        ranks,
        key: Key::read(&key_file)?,
        zero,
        to_zero: ControlTraffic::default(),
        from_zero: ControlTraffic::default(),
    });
    let mut child = start(&program, folder.path(), ranks, zero)?;
    let threads: Vec<_> = (1..ranks)
        .map(|rank| {
            let simulation = Arc::clone(&simulation);
            let run = move || simulation.run(rank);
            thread::Builder::new().stack_size(STACK).spawn(run).context("starting a thread")
        })
        .collect::<Result<_>>()?;
    let used = peak::wait(&mut child)?;
    let failed = threads.into_iter().filter_map(|thread| thread.join().ok()?.err());
    if let Some(error) = failed.into_iter().next() {
        bail!("a simulated rank: {error:#}");
    }
    ensure!(used.status.success(), "bytegauge mesh: {}", used.status);
    println!(
        "{ranks} ranks: rank 0 took {:.1} s and {} of memory; to rank 0: {}; from rank 0: {}",
        used.time.as_secs_f64(),
        Bytes(used.memory >> 20 << 20),
        simulation.to_zero.text(),
        simulation.from_zero.text()
    );
    Ok(())
}

fn start(program: &Path, folder: &Path, ranks: u32, zero: SocketAddr) -> Result<std::process::Child> {
    let mut command = Process::new(program);
    command.args(["mesh", "--rank", "0", "--replicates", "1", "--yes", "--seed", "1", "--join-timeout", "120s"]);
    command.args(["--size", &ranks.to_string(), "--coordinator", &zero.to_string()]).current_dir(folder);
    command.args(["--key-file", "key", "--out", "out"]).stdout(Stdio::null());
    command.spawn().context("starting bytegauge mesh")
}

impl Simulation {
    /// One rank, from its hello to the end of the mesh.
    fn run(&self, rank: Rank) -> Result<()> {
        let (mut sender, mut receiver) = self.join()?;
        let hello = RankHello {
            rank,
            size: self.ranks,
            program: env!("CARGO_PKG_VERSION").into(),
            host: format!("node{rank}"),
            rack: Some(format!("rack{}", rank / 40)),
            agent: ([127, 0, 0, 1], 9).into(),
        };
        self.send(&mut sender, &ToRankZero::Hello(Box::new(hello)))?;
        loop {
            let message: ToRank = receiver.receive(TO_RANK_MAX, Some(Instant::now() + PATIENCE))?;
            self.from_zero.count(&message);
            match message {
                ToRank::Welcome { .. } => self.send(&mut sender, &ToRankZero::Done(Vec::new()))?,
                ToRank::Refused(reason) => bail!("rank {rank} was refused: {reason}"),
                ToRank::Alive => self.send(&mut sender, &ToRankZero::Alive)?,
                ToRank::Start { place, .. } => {
                    let rate = |sender, receiver| (0, RateSample { sender, receiver, ln_rate: 23.456_789_012_345_6 });
                    let rates = vec![rate(place.client, place.hub), rate(place.hub, place.client)];
                    let report = ToRankZero::Report { slot: place.slot, end: SlotEnd::Measured, rates };
                    self.send(&mut sender, &report)?;
                }
                ToRank::Cancel { .. } => {}
                ToRank::Finish => return Ok(()),
            }
        }
    }

    fn join(&self) -> Result<(Sender, Receiver)> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let joined = TcpStream::connect(self.zero)
                .map_err(Into::into)
                .and_then(|stream| connect(stream, &self.key, VERSION, Instant::now() + Duration::from_secs(60)));
            match joined {
                Ok(joined) => return Ok(joined),
                Err(error) if Instant::now() > deadline => return Err(error).context("joining"),
                Err(_) => thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    fn send(&self, sender: &mut Sender, message: &ToRankZero) -> Result<()> {
        self.to_zero.count(message);
        Ok(sender.send(message)?)
    }
}
