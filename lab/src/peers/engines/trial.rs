//! One trial: the measured end, ours or in C, with the same C programs at the other end.
//!
//! Both are measured from outside in the same way. The rate is that of a counter in memory which the other end shares with
//! this program, or the kernel's count of datagrams. The CPU time is that of the measured end's whole process. So an end
//! of bytegauge pays for its own counting and clock reads, and the C program has none.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command as Program;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytegauge_model::{EndRole, Ends, Level, Spec, Workload};
use bytegauge_sys::network::NetworkTables;
use bytegauge_sys::snmp::KernelCounts;
use bytegauge_traffic::{Address, Command, EndPool, Reply, Setup};

use super::{EngineCase, Entrant, RELAY_BUFFER, Traffic};
use crate::peers::programs::{self, ServerProcess};
use crate::peers::{CONGESTION, Cpus, TrialRates};

/// Time before anything counts.
const WARM_UP: Duration = Duration::from_millis(100);
/// How long an end of bytegauge continues after the last sample.
const MARGIN: Duration = Duration::from_secs(5);
/// How long an end of bytegauge may take to reply.
const PATIENCE: Duration = Duration::from_secs(30);
/// Least size of a read or a write at the other end of a stream, so that it is not the slower one.
const OTHER_SIZE: u64 = 64 << 10;
/// Bytes of a receive of joined datagrams.
const JOINED: u64 = 64 << 10;
/// Bytes of a read of servers and clients: that of the C programs (`SERVER_READ` in `lab/peers/c/peer.h`).
const CALL_READ: u64 = 16 << 10;
/// The programs of a comparison.
pub(super) struct EnginePrograms {
    /// Where the C programs were built.
    pub(super) folder: PathBuf,
    /// The file that the other end counts in.
    pub(super) counter: String,
}

/// The measured end, running.
enum MeasuredEnd {
    Ours(EndPool),
    InC(ServerProcess),
}

impl EnginePrograms {
    /// Runs one trial, of `ours` or of the C program.
    ///
    /// # Errors
    /// When a program does not start, or nothing was moved.
    pub(super) fn trial(
        &self,
        case: &EngineCase,
        entrant: &Entrant,
        ours: Option<&Path>,
        cpus: Cpus,
        window: Duration,
    ) -> Result<TrialRates> {
        fs::write(&self.counter, 0u64.to_ne_bytes()).context("making the counter")?;
        let (program, size, [behind, before]) = match case.traffic {
            Traffic::Stream => ("blocking", case.size.max(OTHER_SIZE), ["reader", "writer"]),
            Traffic::Calls => ("epoll", case.size, ["server", "client"]),
            Traffic::Datagrams => ("datagram", case.size, ["reader", "writer"]),
        };
        let mode = if entrant.mode == "gso" { "gso" } else { "mmsg" };
        let other = |role, counter: &str, place: &str| self.in_c(case, [program, mode, role], size, counter, place);
        // An end that connects has a program behind it, one that listens has a program before it, and a relay has both.
        let behind = (!case.end.is_connected_to())
            .then(|| ServerProcess::listening(&mut other(behind, &self.counter, ""), cpus.others))
            .transpose()?;
        let place = behind.as_ref().map_or("", ServerProcess::place);
        let (mut measured, listens_at) = self.start(case, entrant, ours, cpus, place)?;
        let counter = if behind.is_some() { "-" } else { &self.counter };
        let _before = listens_at
            .map(|place| ServerProcess::started(&mut other(before, counter, &place), cpus.others))
            .transpose()?;
        let id = measured.go(case.end)?;
        sleep(WARM_UP);
        let sample = || anyhow::Ok((self.units(case)? as f64, programs::cpu_ns(id)? as f64 / 1e9));
        let (before, began) = (sample()?, Instant::now());
        sleep(window);
        let (after, took) = (sample()?, began.elapsed());
        let (units, cpu_seconds) = (after.0 - before.0, after.1 - before.1);
        ensure!(units > 0.0 && cpu_seconds > 0.0, "nothing was moved");
        let units = if case.traffic == Traffic::Calls { units / case.size as f64 } else { units };
        Ok([units / took.as_secs_f64(), units / cpu_seconds])
    }

    /// A C program, its mode and its role, with its other arguments; see `peer.h`.
    fn in_c(&self, case: &EngineCase, words: [&str; 3], size: u64, counter: &str, place: &str) -> Program {
        let [program, mode, role] = words;
        let mut command = Program::new(self.folder.join(program));
        command.args([mode, role, case.transport, &size.to_string(), &case.connections.to_string(), counter, place]);
        command
    }

    /// Starts the measured end, which connects to a place unless it only listens. Where it listens, if it does.
    fn start(
        &self,
        case: &EngineCase,
        entrant: &Entrant,
        ours: Option<&Path>,
        cpus: Cpus,
        place: &str,
    ) -> Result<(MeasuredEnd, Option<String>)> {
        let listens = case.end.is_connected_to() || case.end == EndRole::Relay;
        let Some(ours) = ours else {
            let mut command = self.in_c(case, [entrant.program, entrant.mode, case.end_name()], case.size, "-", place);
            let start = if listens { ServerProcess::listening } else { ServerProcess::started };
            let program = start(&mut command, cpus.measured)?;
            let place = listens.then(|| program.place().to_owned());
            return Ok((MeasuredEnd::InC(program), place));
        };
        let mut pool = EndPool::new(Ends::Processes, ours);
        let end = programs::on_cpu(cpus.measured, || Ok(pool.end(case.end)?))?;
        let there = if place.is_empty() { None } else { Some(address(case, place)?) };
        end.send(Command::Open(case.end, Box::new(setup(case, entrant)?), there))?;
        let place = match listens.then(|| end.reply(PATIENCE)).transpose()? {
            None => None,
            Some(Reply::Listening(Address::Ip(at))) => Some(at.to_string()),
            Some(Reply::Listening(Address::Ports(ports))) => ports.first().map(ToString::to_string),
            Some(Reply::Listening(Address::Abstract(name))) => Some(format!("@{name}")),
            Some(other) => bail!("the end replied {other:?}"),
        };
        Ok((MeasuredEnd::Ours(pool), place))
    }

    /// Units moved so far.
    fn units(&self, case: &EngineCase) -> Result<u64> {
        if case.traffic == Traffic::Datagrams {
            let name = if case.end == EndRole::Source { "OutDatagrams" } else { "InDatagrams" };
            let counts = KernelCounts::read(NetworkTables::own()).context("reading the kernel's counts")?;
            // Both sides put 64 datagrams into one packet with `gso`, and else one.
            return counts.count("Udp", name).with_context(|| format!("the kernel counts no {name}"));
        }
        let bytes = fs::read(&self.counter).context("reading the counter")?;
        Ok(u64::from_ne_bytes(bytes.as_slice().try_into().context("a counter has 8 bytes")?))
    }
}

impl MeasuredEnd {
    /// Lets an end of bytegauge begin, as soon as it is ready. Its process, or that of the C program.
    fn go(&mut self, role: EndRole) -> Result<u32> {
        match self {
            MeasuredEnd::InC(program) => Ok(program.id()),
            MeasuredEnd::Ours(pool) => {
                let end = pool.end(role)?;
                let reply = end.reply(PATIENCE)?;
                ensure!(reply == Reply::Ready, "the end replied {reply:?}");
                end.send(Command::Go)?;
                end.process_id().context("the end is a process")
            }
        }
    }
}

/// The setup of an end of bytegauge: as a session would send it, with the options that the C programs set.
fn setup(case: &EngineCase, entrant: &Entrant) -> Result<Setup> {
    let engine = match case.end {
        EndRole::Server => "server_engine",
        EndRole::Client => "client_engine",
        EndRole::Relay => "relay",
        _ => "engine",
    };
    let mut levels = Spec::from([
        ("transport", case.transport.into()),
        ("flows", case.connections.into()),
        (engine, entrant.ours.into()),
    ]);
    let mut set = |factor: &str, level: Level| levels.set(factor, level);
    if case.traffic == Traffic::Calls {
        set("request", case.size.into());
        set("read_size", CALL_READ.into());
    } else {
        // Joined datagrams need the room that the C program has.
        set("read_size", if entrant.ours == "gso" { JOINED } else { case.size }.into());
        set("write_size", case.size.into());
    }
    if case.end == EndRole::Relay && entrant.ours != "splice" {
        set("relay_buffer", RELAY_BUFFER.into());
    }
    if case.transport == "tcp" {
        set("congestion", CONGESTION.into());
        if matches!(case.end, EndRole::Server | EndRole::Client) {
            set("nodelay", Level::Switch(true));
        }
    }
    let workload = if case.traffic == Traffic::Calls { Workload::Call } else { Workload::Stream };
    let mut setup = Setup::of(&levels.with_workload(workload))?;
    // It continues until it is stopped.
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

#[cfg(test)]
mod tests {
    use super::*;

    use super::super::cases;

    #[test]
    fn every_row_has_a_setup() {
        for case in cases() {
            for entrant in case.entrants() {
                let setup = setup(&case, &entrant).unwrap();
                assert_eq!(setup.flows() as u64, case.connections, "{case}");
                assert_eq!(setup.relay().is_some(), case.end == EndRole::Relay, "{case}");
            }
        }
    }
}
