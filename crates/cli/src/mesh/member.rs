//! A rank: runs an agent for its partners, and measures when rank 0 tells it to.

use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytegauge_agent::{Agent, AgentLink, AgentSetup, FarError, Limits};
use bytegauge_harness::host_visit::{PairVisit, VisitPartner};
use bytegauge_harness::this_machine;
use bytegauge_mesh::coordinator::SlotEnd;
use bytegauge_mesh::files::{FileHeader, RankFile};
use bytegauge_mesh::message::{TO_RANK_MAX, VERSION};
use bytegauge_mesh::{MeshRow, MeshSettings, RankHello, SlotPlace, ToRank, ToRankZero};
use bytegauge_model::{Cell, Outcome, Place, Trial};
use bytegauge_sys::clock::unix_ns;
use bytegauge_traffic::RemoteHost;
use bytegauge_wire::{Key, LineError, Receiver, Sender, connect};

use super::flags::MeshFlags;
use super::rendezvous::{self, Rendezvous};
use crate::exit_code::Failure;
use bytegauge_traffic::lock;

/// How often both sides of a connection to rank 0 give a sign of life.
pub const ALIVE_EVERY: Duration = Duration::from_secs(2);

/// How long rank 0 may be silent.
const SILENCE: Duration = Duration::from_secs(30);

/// How often a rank looks for rank 0, and whether it shall stop.
const LOOK_AFTER: Duration = Duration::from_millis(200);

/// How long one attempt to reach an address of rank 0 may take.
const ATTEMPT: Duration = Duration::from_secs(3);

/// How long a file may name the port of another program, before that is an error: it may be left from an earlier run.
const STALE_FILE: Duration = Duration::from_secs(3);

/// Agents of ranks have ports from here on: another host must not make this one connect to its services.
const PRIVILEGED: u16 = 1024;

/// One rank before it has joined.
pub struct Member {
    flags: MeshFlags,
    key: Key,
    stop: Arc<AtomicBool>,
}

/// How a member ended.
pub enum MemberEnd {
    /// The mesh is over, and the file of this rank is whole.
    Finished,
    /// The mesh is over, and the file has all rows of this rank.
    Complete(RankFile),
    /// This rank was interrupted.
    Interrupted(RankFile),
}

/// The connection to rank 0, shared by the threads of a member.
type SharedSender = Arc<Mutex<Sender>>;

/// The name of this host: that of its Slurm node, if it has one.
pub fn host_name() -> String {
    let slurm = std::env::var("SLURMD_NODENAME").ok();
    let kernel = || fs::read_to_string("/proc/sys/kernel/hostname").ok().map(|name| name.trim().to_owned());
    slurm.or_else(kernel).filter(|name| !name.is_empty()).unwrap_or_else(|| "unknown".into())
}

impl Member {
    /// A rank with these flags.
    pub fn new(flags: &MeshFlags, key: Key, stop: Arc<AtomicBool>) -> Member {
        Member { flags: flags.clone(), key, stop }
    }

    /// Joins the mesh and takes part until it is over.
    ///
    /// # Errors
    /// [`Failure`] if rank 0 is not found, refuses or is lost, or the file cannot be written.
    pub fn run(&self, ways: &[Rendezvous]) -> Result<MemberEnd, Failure> {
        let (sender, mut receiver, near) = self.find(ways)?;
        let agent = self.agent(near)?;
        let listens = agent.place().map_err(|fault| Failure::failed(fault.to_string()))?;
        let serving = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&serving);
        let served = thread::Builder::new().name("mesh-agent".into()).spawn(move || agent.serve(&ends));
        let served = served.map_err(|error| Failure::failed(format!("no thread can be made: {error}")))?;
        let sender = Arc::new(Mutex::new(sender));
        let ended = self.take_part(&sender, &mut receiver, listens).and_then(|end| self.finish(end));
        if let Err(failure) = &ended {
            let _ = lock(&sender).send(&ToRankZero::Leave(failure.to_string()));
        }
        lock(&sender).hang_up();
        serving.store(true, Ordering::Relaxed);
        let _ = served.join();
        ended
    }

    /// Finishes the file before this rank leaves, so that rank 0 finds it. Rank 0 itself adds rows to its own first.
    fn finish(&self, end: MemberEnd) -> Result<MemberEnd, Failure> {
        match end {
            MemberEnd::Complete(file) if self.flags.rank() != 0 => {
                file.finish().map_err(|error| Failure::failed(error.to_string()))?;
                Ok(MemberEnd::Finished)
            }
            end => Ok(end),
        }
    }

    /// Finds rank 0 and proves that this rank has the key.
    fn find(&self, ways: &[Rendezvous]) -> Result<(Sender, Receiver, SocketAddr), Failure> {
        let until = Instant::now() + self.flags.join;
        let mut last = "there is no answer".to_owned();
        // Another program at the address in the file, and since when.
        let mut other = None;
        while Instant::now() < until && !self.stop.load(Ordering::Relaxed) {
            let addresses = |way: &Rendezvous| {
                let is_given = way.is_given();
                way.addresses().into_iter().map(move |address| (address, is_given))
            };
            for (address, is_given) in ways.iter().flat_map(addresses) {
                let attempt =
                    TcpStream::connect_timeout(&address, ATTEMPT).map_err(LineError::from).and_then(|stream| {
                        let near = stream.local_addr()?;
                        let (sender, receiver) = connect(stream, &self.key, VERSION, Instant::now() + ATTEMPT)?;
                        Ok((sender, receiver, near))
                    });
                match attempt {
                    Ok(found) => return Ok(found),
                    Err(error @ (LineError::OtherKey | LineError::Version { .. })) => {
                        let failure = Failure::failed(format!("rank 0 at {address}: {error}"));
                        if is_given {
                            return Err(failure);
                        }
                        other.get_or_insert((Instant::now(), failure));
                    }
                    Err(error) => last = format!("{address}: {error}"),
                }
            }
            if let Some((_, failure)) = other.take_if(|(since, _)| since.elapsed() >= STALE_FILE) {
                return Err(failure);
            }
            thread::sleep(LOOK_AFTER);
        }
        let ways: Vec<String> = ways.iter().map(Rendezvous::described).collect();
        Err(Failure::failed(format!(
            "rank {} did not find rank 0 by {} ({last}): start all ranks within --join-timeout, and see that they reach rank 0",
            self.flags.rank(),
            ways.join(" and ")
        )))
    }

    /// The agent of this host. It is reached at the address by which this rank reaches rank 0.
    fn agent(&self, near: SocketAddr) -> Result<Agent, Failure> {
        let ip = if self.flags.rank() == 0 { rendezvous::unspecified(near.ip()) } else { near.ip() };
        let place = Place::Ip(self.flags.listen.unwrap_or(SocketAddr::new(ip, 0)));
        let sessions = self.flags.pattern.clients(self.flags.place.size) as usize;
        // Streams that load the path of calls have a session of their own.
        let limits =
            Limits { sessions: if self.flags.has_load { 2 * sessions } else { sessions }, ..Limits::default() };
        let setup =
            AgentSetup { key: self.key.clone(), limits, program: program()?, machine: this_machine, log: |_| {} };
        Agent::listen(&place, setup).map_err(|fault| Failure::failed(fault.to_string()))
    }

    fn take_part(
        &self,
        sender: &SharedSender,
        receiver: &mut Receiver,
        agent: SocketAddr,
    ) -> Result<MemberEnd, Failure> {
        let hello = RankHello {
            rank: self.flags.rank(),
            size: self.flags.place.size,
            program: env!("CARGO_PKG_VERSION").into(),
            host: host_name(),
            rack: self.flags.rack.clone(),
            agent,
        };
        let rank = hello.rank;
        let failed = |error: LineError| Failure::failed(format!("rank {rank}: rank 0: {error}"));
        lock(sender).send(&ToRankZero::Hello(Box::new(hello.clone()))).map_err(failed)?;
        let (settings, clock) = match receiver
            .receive(TO_RANK_MAX, Some(Instant::now() + SILENCE))
            .map(ToRank::within_caps)
            .map_err(failed)?
        {
            ToRank::Welcome { settings, unix_ns: there } => (*settings, ClockOfRankZero::at(there)),
            ToRank::Refused(reason) => return Err(Failure::failed(format!("rank 0 refuses: {reason}"))),
            _ => {
                return Err(Failure::failed(
                    "rank 0 does not welcome this rank: use one version of bytegauge on all hosts",
                ));
            }
        };
        settings.check().map_err(|why| Failure::failed(format!("rank 0 sends settings with {why}")))?;
        let header = FileHeader { settings, hello };
        let begun = RankFile::begin(&self.flags.out, &header, self.flags.resume);
        let (file, before) = begun.map_err(|error| Failure::failed(error.to_string()))?;
        lock(sender).send(&ToRankZero::Done(done(&header.settings, &before))).map_err(failed)?;
        let mut visits = Visits {
            settings: Arc::new(header.settings),
            clock,
            program: program()?,
            key: self.key.clone(),
            server: self.flags.server.clone(),
            file: Arc::new(Mutex::new(file)),
            sender: Arc::clone(sender),
            running: None,
        };
        let over = Arc::new(AtomicBool::new(false));
        let alive = self.keep_alive(sender, &over)?;
        let is_complete = self.obey(receiver, &mut visits);
        let written = visits.cancel_all();
        over.store(true, Ordering::Relaxed);
        let _ = alive.join();
        // A file that cannot be written explains why rank 0 has closed the connection.
        written?;
        let Visits { file, .. } = visits;
        let file = Arc::into_inner(file).ok_or_else(|| Failure::failed("a test is still running: this is a bug"))?;
        let file = file.into_inner().unwrap_or_else(PoisonError::into_inner);
        is_complete
            .map(|is_complete| if is_complete { MemberEnd::Complete(file) } else { MemberEnd::Interrupted(file) })
    }

    /// Carries out the orders of rank 0 until it finishes (`true`) or this rank is interrupted (`false`).
    fn obey(&self, receiver: &mut Receiver, visits: &mut Visits) -> Result<bool, Failure> {
        loop {
            // The coordinator of this process may be silent while the process is stopped.
            let until = (self.flags.rank() != 0).then(|| Instant::now() + SILENCE);
            let message = match receiver.receive(TO_RANK_MAX, until).map(ToRank::within_caps) {
                Ok(message) => message,
                Err(_) if self.stop.load(Ordering::Relaxed) => return Ok(false),
                Err(error) => {
                    return Err(Failure::failed(format!(
                        "rank {}: rank 0 is lost ({error}): the measured pairs are in {}; --resume measures the rest",
                        self.flags.rank(),
                        self.flags.out.display()
                    )));
                }
            };
            match message {
                ToRank::Start { place, agent } => {
                    let checked = place.check(&visits.settings).and(Ok(place.client == self.flags.rank()));
                    if checked != Ok(true) {
                        return Err(Failure::failed(format!(
                            "rank 0 starts a test that is none of this rank: {place:?}"
                        )));
                    }
                    visits.start(place, agent)?;
                }
                ToRank::Cancel { slot } => visits.cancel(slot),
                ToRank::Finish => return Ok(true),
                ToRank::Refused(reason) => return Err(Failure::failed(format!("rank 0 refuses: {reason}"))),
                ToRank::Alive | ToRank::Welcome { .. } => {}
            }
        }
    }

    /// Sends signs of life, and ends the connection when this rank is interrupted.
    fn keep_alive(&self, sender: &SharedSender, over: &Arc<AtomicBool>) -> Result<JoinHandle<()>, Failure> {
        let (sender, over, stop) = (Arc::clone(sender), Arc::clone(over), Arc::clone(&self.stop));
        let alive = move || {
            let mut sent = Instant::now();
            while !over.load(Ordering::Relaxed) {
                thread::sleep(LOOK_AFTER);
                if stop.load(Ordering::Relaxed) {
                    lock(&sender).hang_up();
                    return;
                }
                if sent.elapsed() >= ALIVE_EVERY {
                    sent = Instant::now();
                    if lock(&sender).send(&ToRankZero::Alive).is_err() {
                        return;
                    }
                }
            }
        };
        let thread = thread::Builder::new().name("mesh-alive".into()).spawn(alive);
        thread.map_err(|error| Failure::failed(format!("no thread can be made: {error}")))
    }
}

/// Converts times of this host's clock, which may be wrong, to those of rank 0's clock.
#[derive(Clone, Copy, Debug)]
struct ClockOfRankZero {
    /// How far it is ahead of this host's clock, nanoseconds.
    ahead_ns: i64,
}

impl ClockOfRankZero {
    /// The clock of rank 0 shows `there_ns` now.
    fn at(there_ns: u64) -> ClockOfRankZero {
        ClockOfRankZero { ahead_ns: there_ns.wrapping_sub(unix_ns()).cast_signed() }
    }

    fn date(self, row: MeshRow) -> MeshRow {
        MeshRow { started_unix_ns: row.started_unix_ns.saturating_add_signed(self.ahead_ns), ..row }
    }
}

/// The tests that this rank measures, one after the other.
struct Visits {
    settings: Arc<MeshSettings>,
    clock: ClockOfRankZero,
    program: PathBuf,
    key: Key,
    /// The external server that the user of this rank has named.
    server: Option<Place>,
    file: Arc<Mutex<RankFile>>,
    sender: SharedSender,
    running: Option<RunningVisit>,
}

/// A test that is being measured.
struct RunningVisit {
    slot: u32,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), String>>,
}

impl Visits {
    fn start(&mut self, place: SlotPlace, agent: Option<SocketAddr>) -> Result<(), Failure> {
        // Rank 0 starts a test after the report of the one before it. If it does not wait for that, the earlier test is given up:
        // meanwhile no other message is read, and no interruption seen.
        self.cancel_all()?;
        let stop = Arc::new(AtomicBool::new(false));
        let (settings, program, key) = (Arc::clone(&self.settings), self.program.clone(), self.key.clone());
        let (file, sender, stopped) = (Arc::clone(&self.file), Arc::clone(&self.sender), Arc::clone(&stop));
        let (clock, server) = (self.clock, self.server.clone());
        let measure = move || {
            let rows = measure(&settings, program, &key, (place, agent), server.as_ref(), &stopped);
            let rows: Vec<MeshRow> = rows.into_iter().map(|row| clock.date(row)).collect();
            if let Err(error) = lock(&file).add(&rows) {
                // The others go on without this rank.
                let _ = lock(&sender).send(&ToRankZero::Leave(error.to_string()));
                return Err(error.to_string());
            }
            let rates = rows.iter().filter_map(|row| Some((row.option?, row.sample()?))).collect();
            let report = ToRankZero::Report { slot: place.slot, end: end_of(&rows), rates };
            // A rank 0 that is gone is noticed by the thread that receives.
            let _ = lock(&sender).send(&report);
            Ok(())
        };
        let thread = thread::Builder::new().name("mesh-test".into()).spawn(measure);
        let thread = thread.map_err(|error| Failure::failed(format!("no thread can be made: {error}")))?;
        self.running = Some(RunningVisit { slot: place.slot, stop, thread });
        Ok(())
    }

    fn cancel(&self, slot: u32) {
        if let Some(visit) = self.running.as_ref().filter(|visit| visit.slot == slot) {
            visit.stop.store(true, Ordering::Relaxed);
        }
    }

    fn cancel_all(&mut self) -> Result<(), Failure> {
        if let Some(visit) = &self.running {
            visit.stop.store(true, Ordering::Relaxed);
        }
        self.wait()
    }

    /// Waits for the test that runs.
    fn wait(&mut self) -> Result<(), Failure> {
        let Some(visit) = self.running.take() else { return Ok(()) };
        match visit.thread.join() {
            Ok(written) => written.map_err(Failure::failed),
            Err(_) => Err(Failure::failed("a test ended by an error of its own: this is a bug")),
        }
    }
}

/// Measures every option in every direction with the agent of a hub, or with the server `own` of this rank's user.
fn measure(
    settings: &MeshSettings,
    program: PathBuf,
    key: &Key,
    (place, agent): (SlotPlace, Option<SocketAddr>),
    own: Option<&Place>,
    stop: &AtomicBool,
) -> Vec<MeshRow> {
    let partner = match partner(settings, own, key, place, agent) {
        Ok(partner) => partner,
        Err(reason) => return vec![failed_row(place, reason)],
    };
    let cells: Vec<Cell> = settings.cells.iter().map(|cell| cell.cell.clone()).collect();
    let visit = PairVisit {
        program,
        ends: settings.ends,
        verify: settings.verify,
        warmup_ns: settings.warmup_ns,
        window_ns: settings.window_ns,
        seed: settings.seed,
        limits: Arc::new(Limits::default()),
        number: u64::from(place.slot),
    };
    let trials = visit.measure(&cells, &partner, stop);
    let rows: Vec<MeshRow> = trials.iter().flat_map(|trial| rows(settings, place, trial)).collect();
    if rows.is_empty() { vec![failed_row(place, "the test was cancelled".into())] } else { rows }
}

/// The other end of a test, or why there is none.
fn partner(
    settings: &MeshSettings,
    own: Option<&Place>,
    key: &Key,
    place: SlotPlace,
    agent: Option<SocketAddr>,
) -> Result<VisitPartner, String> {
    let Some(agent) = agent else {
        // Rank 0 does not decide which server other hosts call.
        let server = own.cloned().ok_or("this rank was started without --connect: use the same flags on all hosts")?;
        return Ok(VisitPartner::Server(server));
    };
    if agent.port() < PRIVILEGED {
        return Err(format!("the agent of its partner would be at the privileged port {agent}"));
    }
    let sessions = if PairVisit::needs_second_link(settings.cells.iter().map(|cell| &cell.cell)) { 2 } else { 1 };
    let link = || AgentLink::open(agent, key, settings.slot_ns().saturating_mul(4));
    let links = (0..sessions).map(|_| link().map(|link| Arc::new(link) as Arc<dyn RemoteHost>));
    links.collect::<Result<_, FarError>>().map(VisitPartner::Agent).map_err(|error| match error {
        // An agent of a mesh is not started by hand.
        FarError::Silent(agent, error) => format!("rank {} does not answer at {agent}: {error}", place.hub),
        error => error.to_string(),
    })
}

fn rows(settings: &MeshSettings, place: SlotPlace, trial: &Trial) -> Vec<MeshRow> {
    let cell = settings.cells.iter().find(|cell| cell.cell.id == trial.cell);
    cell.map_or_else(Vec::new, |cell| MeshRow::all_of(place, cell, trial))
}

fn failed_row(place: SlotPlace, reason: String) -> MeshRow {
    MeshRow { sender: Some(place.client), ..MeshRow::without_numbers(place, Outcome::Failed(reason), unix_ns()) }
}

/// How a part ended: measured if any trial was, else as the first one.
fn end_of(rows: &[MeshRow]) -> SlotEnd {
    if rows.iter().any(|row| row.outcome == Outcome::Measured) {
        return SlotEnd::Measured;
    }
    match rows.first().map(|row| &row.outcome) {
        Some(Outcome::Skipped(reason)) => SlotEnd::Skipped(reason.clone()),
        Some(outcome) => SlotEnd::Failed(outcome.reason().unwrap_or("no reason").to_owned()),
        None => SlotEnd::Failed("nothing was measured".into()),
    }
}

/// Slots of an earlier run whose part is complete: every cell was measured in each of its directions.
fn done(settings: &MeshSettings, rows: &[MeshRow]) -> Vec<u32> {
    let mut counts = BTreeMap::new();
    for row in rows.iter().filter(|row| row.outcome == Outcome::Measured) {
        *counts.entry(row.place.slot).or_insert(0) += 1;
    }
    counts.into_iter().filter(|(_, count)| *count >= settings.rows_of_part()).map(|(slot, _)| slot).collect()
}

fn program() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::failed(format!("this program's own file is unknown ({error}): mount /proc")))
}
