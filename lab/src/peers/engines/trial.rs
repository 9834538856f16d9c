//! One trial: the measured end, ours or in C, with the same C programs at the other end.
//!
//! Both are measured from outside in the same way. The rate is that of a counter in memory which the other end shares with
//! this program, or the kernel's count of datagrams. The CPU time is that of the measured end's whole process. So an end
//! of bytegauge pays for its own counting and clock reads, and the C program has none.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command as Program, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytegauge_model::{EndRole, Level, Spec, Workload};
use bytegauge_traffic::{Address, Command, Reply, Setup};

use super::rows::{EngineCase, Entrant, RELAY_BUFFER, Traffic};
use crate::peers::CONGESTION;
use crate::peers::programs::{self, ServerProcess};

/// Time before anything counts.
const WARM_UP: Duration = Duration::from_millis(100);
/// How long an end of bytegauge continues after the last sample.
const MARGIN: Duration = Duration::from_secs(5);
/// Least size of a read or a write at the other end of a stream, so that it is not the slower one.
const OTHER_SIZE: u64 = 64 << 10;
/// Bytes of a receive of joined datagrams.
const JOINED: u64 = 64 << 10;

/// Bytes of a read of servers and clients: that of the C programs (`SERVER_READ` in `lab/peers/c/peer.h`).
const CALL_READ: u64 = 16 << 10;
/// Where the kernel counts packets of UDP. Both sides put 64 datagrams into one with `gso`, and else one.
const KERNEL_COUNTS: &str = "/proc/net/snmp";

/// The programs of a comparison.
pub(super) struct EnginePrograms {
    /// bytegauge.
    pub(super) ours: PathBuf,
    /// Where the C programs were built.
    pub(super) folder: PathBuf,
    /// The file that the other end counts in.
    pub(super) counter: PathBuf,
}

/// The CPU of the measured end, and that of the others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cpus {
    pub(super) measured: usize,
    pub(super) others: usize,
}

/// The result of one trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RunOutcome {
    /// Units per second: bytes, calls or packets.
    pub(super) rate: f64,
    /// CPU time of the measured process for a unit, nanoseconds.
    pub(super) cpu_ns: f64,
}

/// Which of the two programs is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ProgramSide {
    Ours,
    InC,
}

/// An end of bytegauge as a process.
struct OurEnd {
    child: Child,
    input: ChildStdin,
    replies: BufReader<ChildStdout>,
}

/// The measured end, running.
enum MeasuredEnd {
    Ours(OurEnd),
    InC(ServerProcess),
}

impl EnginePrograms {
    /// Runs one trial.
    ///
    /// # Errors
    /// When a program does not start, or nothing was moved.
    pub(super) fn trial(
        &self,
        case: &EngineCase,
        entrant: &Entrant,
        side: ProgramSide,
        cpus: Cpus,
        window: Duration,
    ) -> Result<RunOutcome> {
        fs::write(&self.counter, 0u64.to_ne_bytes()).context("making the counter")?;
        let count = || self.counter.display().to_string();
        let other = |program: &str, mode: &str, role: &str, counter: &str, address: &str| {
            let size = if case.traffic == Traffic::Stream { case.size.max(OTHER_SIZE) } else { case.size };
            self.in_c(case, (program, mode, role), size, counter, address)
        };
        let start_other = |mut command: Program| ServerProcess::start(&mut command, Some(cpus.others), "listening on");
        let batch = if entrant.mode == "gso" { "gso" } else { "mmsg" };
        let (measured, _behind, _before) = match (case.end, case.traffic) {
            (EndRole::Source, Traffic::Datagrams) => {
                let reader = start_other(other("datagram", batch, "reader", "-", ""))?;
                let writer = self.start(case, entrant, side, cpus, reader.place())?;
                (writer, Some(reader), None)
            }
            (EndRole::Source, _) => {
                let reader = start_other(other("blocking", "-", "reader", &count(), ""))?;
                let writer = self.start(case, entrant, side, cpus, reader.place())?;
                (writer, Some(reader), None)
            }
            (EndRole::Client, _) => {
                let server = start_other(other("epoll", "-", "server", &count(), ""))?;
                let client = self.start(case, entrant, side, cpus, server.place())?;
                (client, Some(server), None)
            }
            (EndRole::Relay, traffic) => {
                let (program, behind, before) = match traffic {
                    Traffic::Calls => ("epoll", "server", "client"),
                    _ => ("blocking", "reader", "writer"),
                };
                let behind = start_other(other(program, "-", behind, &count(), ""))?;
                let relay = self.start(case, entrant, side, cpus, behind.place())?;
                let before = other(program, "-", before, "-", &relay.place);
                (relay, Some(behind), Some(Background::start(before, cpus.others)?))
            }
            (_, traffic) => {
                let (program, mode, role) = match traffic {
                    Traffic::Stream => ("blocking", "-", "writer"),
                    Traffic::Calls => ("epoll", "-", "client"),
                    Traffic::Datagrams => ("datagram", batch, "writer"),
                };
                let measured = self.start(case, entrant, side, cpus, "")?;
                let before = other(program, mode, role, &count(), &measured.place);
                (measured, None, Some(Background::start(before, cpus.others)?))
            }
        };
        let mut measured = measured;
        measured.let_go()?;
        sleep(WARM_UP);
        let (before, began) = (self.sample(case, &measured)?, Instant::now());
        sleep(window);
        let (after, took) = (self.sample(case, &measured)?, began.elapsed());
        let units = (after.units - before.units) as f64;
        let cpu_ns = (after.cpu_ns - before.cpu_ns) as f64;
        ensure!(units > 0.0 && cpu_ns > 0.0, "nothing was moved");
        let per_unit = if case.traffic == Traffic::Calls { case.size as f64 } else { 1.0 };
        let units = units / per_unit;
        Ok(RunOutcome { rate: units / took.as_secs_f64(), cpu_ns: cpu_ns / units })
    }

    /// A C program with its arguments; see `peer.h`.
    fn in_c(&self, case: &EngineCase, who: (&str, &str, &str), size: u64, counter: &str, address: &str) -> Program {
        let (program, mode, role) = who;
        let mut command = Program::new(self.folder.join(program));
        command
            .args([mode, role, case.transport])
            .args([size, case.connections as u64].map(|number| number.to_string()));
        command.args([counter, address]);
        command
    }

    /// Starts the measured end, which connects to a place or listens.
    fn start(
        &self,
        case: &EngineCase,
        entrant: &Entrant,
        side: ProgramSide,
        cpus: Cpus,
        place: &str,
    ) -> Result<StartedEnd> {
        if side == ProgramSide::Ours {
            return self.start_ours(case, entrant, cpus, place);
        }
        let mut command = self.in_c(case, (entrant.program, entrant.mode, case.end_name()), case.size, "-", place);
        let (program, place) = if case.end.is_connected_to() || case.end == EndRole::Relay {
            let server = ServerProcess::start(&mut command, Some(cpus.measured), "listening on")?;
            let place = server.place().to_owned();
            (server, place)
        } else {
            (ServerProcess::started(&mut command, Some(cpus.measured))?, String::new())
        };
        Ok(StartedEnd { end: MeasuredEnd::InC(program), place, is_ready: true })
    }

    fn start_ours(&self, case: &EngineCase, entrant: &Entrant, cpus: Cpus, place: &str) -> Result<StartedEnd> {
        let mut end = OurEnd::start(&self.ours, case.end, cpus.measured)?;
        let there = if place.is_empty() { None } else { Some(address(case, place)?) };
        end.send(&Command::Open(case.end, Box::new(setup(case, entrant)?), there))?;
        if !(case.end.is_connected_to() || case.end == EndRole::Relay) {
            end.ready()?;
            return Ok(StartedEnd { end: MeasuredEnd::Ours(end), place: String::new(), is_ready: true });
        }
        let place = match end.reply()? {
            Reply::Listening(Address::Ip(at)) => at.to_string(),
            Reply::Listening(Address::Ports(ports)) => ports.first().context("no port")?.to_string(),
            Reply::Listening(Address::Abstract(name)) => format!("@{name}"),
            other => bail!("the end replied {other:?}"),
        };
        // A reader is ready when its writer has connected.
        let is_ready = case.end != EndRole::Sink;
        if is_ready {
            end.ready()?;
        }
        Ok(StartedEnd { end: MeasuredEnd::Ours(end), place, is_ready })
    }

    fn sample(&self, case: &EngineCase, measured: &StartedEnd) -> Result<Sample> {
        let cpu_ns = match &measured.end {
            MeasuredEnd::Ours(end) => bytegauge_sys::process::cpu_time_ns(end.child.id())?,
            MeasuredEnd::InC(program) => program.cpu_ns()?,
        };
        let units = match (case.traffic, case.end) {
            (Traffic::Datagrams, EndRole::Source) => kernel_count("OutDatagrams")?,
            (Traffic::Datagrams, _) => kernel_count("InDatagrams")?,
            _ => counted(&self.counter)?,
        };
        Ok(Sample { units, cpu_ns })
    }
}

struct Sample {
    units: u64,
    cpu_ns: u64,
}

/// The measured end before it starts.
struct StartedEnd {
    end: MeasuredEnd,
    /// Where it listens.
    place: String,
    is_ready: bool,
}

impl StartedEnd {
    fn let_go(&mut self) -> Result<()> {
        let MeasuredEnd::Ours(end) = &mut self.end else { return Ok(()) };
        if !self.is_ready {
            end.ready()?;
        }
        end.send(&Command::Go)
    }
}

impl OurEnd {
    fn start(program: &Path, role: EndRole, cpu: usize) -> Result<OurEnd> {
        let mut command = Program::new(program);
        command.args(["end", role.name()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = programs::spawn(&mut command, Some(cpu))?;
        let (input, output) = (child.stdin.take().context("no input")?, child.stdout.take().context("no output")?);
        let mut end = OurEnd { child, input, replies: BufReader::new(output) };
        let hello = end.reply()?;
        ensure!(matches!(hello, Reply::Hello(_)), "the end replied {hello:?}");
        Ok(end)
    }

    fn send(&mut self, command: &Command) -> Result<()> {
        let line = serde_json::to_string(command)?;
        writeln!(self.input, "{line}").context("commanding an end of bytegauge")
    }

    fn reply(&mut self) -> Result<Reply> {
        let mut line = String::new();
        self.replies.read_line(&mut line).context("reading the reply of an end of bytegauge")?;
        serde_json::from_str(&line).with_context(|| format!("an end of bytegauge replied `{}`", line.trim()))
    }

    fn ready(&mut self) -> Result<()> {
        let reply = self.reply()?;
        ensure!(reply == Reply::Ready, "the end replied {reply:?}");
        Ok(())
    }
}

impl Drop for OurEnd {
    fn drop(&mut self) {
        // It may have ended, and then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program that prints nothing.
struct Background {
    _program: ServerProcess,
}

impl Background {
    fn start(mut command: Program, cpu: usize) -> Result<Background> {
        Ok(Background { _program: ServerProcess::started(&mut command, Some(cpu))? })
    }
}

/// The setup of an end of bytegauge: as a session would send it, with the options that the C programs set.
fn setup(case: &EngineCase, entrant: &Entrant) -> Result<Setup> {
    let named = |text: &str| Level::Name(text.to_owned());
    let mut levels =
        Spec::from([("transport", named(case.transport)), ("flows", Level::from(case.connections as u64))]);
    let mut set = |factors: &[&str], level: Level| factors.iter().for_each(|factor| levels.set(factor, level.clone()));
    match case.traffic {
        Traffic::Calls => {
            set(&["request"], case.size.into());
            set(&["read_size"], CALL_READ.into());
        }
        _ => set(&["read_size", "write_size"], case.size.into()),
    }
    match case.end {
        EndRole::Server => set(&["server_engine"], named(entrant.ours)),
        EndRole::Client => set(&["client_engine"], named(entrant.ours)),
        EndRole::Relay => {
            set(&["relay"], named(entrant.ours));
            if entrant.ours != "splice" {
                set(&["relay_buffer"], RELAY_BUFFER.into());
            }
        }
        _ => set(&["engine"], named(entrant.ours)),
    }
    if entrant.ours == "gso" {
        // Joined datagrams need the room that the C program has.
        set(&["read_size"], JOINED.into());
    }
    if case.transport == "tcp" {
        set(&["congestion"], named(CONGESTION));
        if matches!(case.end, EndRole::Server | EndRole::Client) {
            set(&["nodelay"], Level::Switch(true));
        }
    }
    let workload = if case.traffic == Traffic::Calls { Workload::Call } else { Workload::Stream };
    let mut setup = Setup::of(&levels.with_workload(workload))?;
    // It continues until it is killed.
    setup.window_ns = u64::try_from((WARM_UP + MARGIN).as_nanos())?;
    Ok(setup)
}

fn address(case: &EngineCase, place: &str) -> Result<Address> {
    if let Some(name) = place.strip_prefix('@') {
        return Ok(Address::Abstract(name.to_owned()));
    }
    let at = place.parse().with_context(|| format!("the address {place}"))?;
    Ok(if case.traffic == Traffic::Datagrams { Address::Ports(vec![at]) } else { Address::Ip(at) })
}

fn counted(file: &Path) -> Result<u64> {
    let bytes = fs::read(file).context("reading the counter")?;
    let bytes: [u8; 8] = bytes.as_slice().try_into().context("a counter has 8 bytes")?;
    Ok(u64::from_ne_bytes(bytes))
}

fn kernel_count(name: &str) -> Result<u64> {
    let text = fs::read_to_string(KERNEL_COUNTS).with_context(|| format!("reading {KERNEL_COUNTS}"))?;
    udp_count(&text, name).with_context(|| format!("{KERNEL_COUNTS} counts no {name}"))
}

/// A count of UDP: one line names the columns, the next one has the numbers (proc_pid_net(5)).
fn udp_count(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let at = names.split_whitespace().position(|column| column == name)?;
    numbers.split_whitespace().nth(at)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::peers::engines::rows::cases;

    #[test]
    fn datagrams_are_counted_by_the_kernel() {
        let text =
            "Tcp: A\nTcp: 9\nUdp: InDatagrams NoPorts OutDatagrams\nUdp: 5 6 7\nUdpLite: InDatagrams\nUdpLite: 8\n";
        assert_eq!((udp_count(text, "InDatagrams"), udp_count(text, "OutDatagrams")), (Some(5), Some(7)));
        assert_eq!(udp_count(text, "Other"), None);
    }

    #[test]
    fn every_row_has_a_setup() {
        for case in cases() {
            for entrant in case.entrants() {
                let setup = setup(&case, &entrant).unwrap();
                assert_eq!(setup.flows(), case.connections, "{case}");
                assert_eq!(setup.relay().is_some(), case.end == EndRole::Relay, "{case}");
            }
        }
    }
}
