//! The first run of a program, in which nothing is changed: the sockets that it opens and the options that it sets itself. After a
//! short one, a second run shows its calls.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use bytegauge_model::sockets_seen::{OpenedSocket, Opening, ProgramCalls};
use bytegauge_model::{
    EndReport, EndRole, Ends, Level, Metric, ProgramTask, SocketChanges, SocketsSeen, Spec, Transport,
};
use bytegauge_observe::{Signals, ToObserve, observe};
use bytegauge_report::words::phrase::join;
use bytegauge_sys::process_tree;
use bytegauge_traffic::end::{Channel, ChannelError};
use bytegauge_traffic::{Command, EndPool, Reply, Setup, StartNetwork};

/// What a watched run showed.
#[derive(Clone, Debug)]
pub struct Watched {
    /// The sockets of the program: of its server, where both were watched.
    pub seen: SocketsSeen,
    /// Those of the client, where both were watched.
    pub client: Option<SocketsSeen>,
    /// The calls of its programs, as samples showed.
    pub calls: Vec<ProgramCalls>,
    /// Time of the command, nanoseconds.
    pub run_ns: u64,
    /// Time of the run with the start and end of its programs, nanoseconds.
    pub whole_ns: u64,
}

impl Watched {
    /// Whether the client waits for what an option of its own may change, and its server does not.
    pub fn only_the_client_waits(&self) -> bool {
        let waits = |seen: &SocketsSeen| seen.waits.diagnoses().iter().any(|one| one.option.is_some());
        self.client.as_ref().is_some_and(waits) && !waits(&self.seen)
    }
}

/// How often `stop` is checked.
const LOOK: Duration = Duration::from_millis(50);

/// The length of a sample of the calls.
const SAMPLE: Duration = Duration::from_millis(10);

/// The run is repeated with samples of its calls if it took at most the session's time divided by this.
const SAMPLED_SHARE: u64 = 20;

/// How often programs that have started are looked for; a look takes a millisecond or two.
const LOOK_FOR_PROGRAMS: Duration = Duration::from_millis(20);

/// The most processes that are sampled with what they start: a server, a command, and what they leave to their end.
const PROGRAMS_MAX: usize = 16;

/// How long the end may take beyond the time limits of the programs.
const LATE: Duration = Duration::from_secs(30);

/// Runs a program as it is at an end of its own, which outlives a killed session until the program is ended; where the session's time
/// of `budget_ns` permits, once more with samples of its calls, which may slow it or even make it fail. `stop` ends the run; `own` is
/// this program's file. `changes` are those of the session; the kernel must take all of their settings. `ready_ns` is how long the
/// server may take until it is ready.
///
/// # Errors
/// The reason if it cannot be run, or fails without samples.
pub fn watch(
    task: &ProgramTask,
    changes: &SocketChanges,
    spec: &Spec,
    ready_ns: u64,
    budget_ns: u64,
    (own, start_network): (&Path, StartNetwork),
    stop: &AtomicBool,
) -> Result<Watched, String> {
    let mut pool = EndPool::new(Ends::Processes, own).with_network(Some(start_network));
    pool.joined(None, spec.emulated_link(), 0).map_err(|error| error.to_string())?;
    let set_up = |pool: &mut EndPool, task: &ProgramTask, value: Level| -> Result<Setup, String> {
        let changes = SocketChanges { watches: true, ..changes.clone() };
        let mut spec = spec.clone();
        spec.set("value", value);
        let setup = Setup::of_program(&spec, &ProgramTask { changes: Some(changes), ..task.clone() });
        let networks = pool.program_networks(&setup).map_err(|error| error.to_string())?;
        Ok(Setup { networks, ready_ns: Some(ready_ns.min(setup.run_timeout_ns())), ..setup })
    };
    for value in changes.by_value.keys() {
        set_up(&mut pool, task, Level::Name(value.clone()))?;
    }
    let setup = set_up(&mut pool, task, Level::Absent)?;
    let began = Instant::now();
    let report = at_an_end(&mut pool, setup, stop, None).map_err(|error| error.to_string())??;
    let whole_ns = began.elapsed().as_nanos() as u64;
    let mut calls = Vec::new();
    if whole_ns <= budget_ns / SAMPLED_SHARE {
        // Without a command that asks for the metric, which is none of the programs.
        let task = ProgramTask { metric: Metric::Wall, ..task.clone() };
        if let Ok(setup) = set_up(&mut pool, &task, Level::Absent) {
            // What fails by the samples alone is no fault of the program.
            let _ = at_an_end(&mut pool, setup, stop, Some((own, &mut calls)));
        }
    }
    let run_ns = report.counts.window_ns;
    let [seen, client] = report.task.map_or([None, None], |task| [task.sockets, task.command_sockets]);
    let seen = seen.map(|seen| *seen).unwrap_or_default();
    Ok(Watched { seen, client: client.map(|seen| *seen), calls, run_ns, whole_ns })
}

/// Runs the programs at an end, and samples their calls if asked: with this program's own file, and where to put them.
fn at_an_end(
    pool: &mut EndPool,
    setup: Setup,
    stop: &AtomicBool,
    sampled: Option<(&Path, &mut Vec<ProgramCalls>)>,
) -> Result<Result<EndReport, String>, ChannelError> {
    let until = Instant::now() + Duration::from_nanos(setup.programs_ns()) + LATE;
    let end = pool.end(EndRole::Command)?;
    end.send(Command::Open(EndRole::Command, Box::new(setup), None))?;
    let (Some((own, calls)), Some(pid)) = (sampled, end.process_id()) else { return report_of(end, until, stop) };
    let over = Arc::new(AtomicBool::new(false));
    thread::scope(|scope| {
        // Without another thread the run is not sampled.
        let sampling = thread::Builder::new().spawn_scoped(scope, || calls_below(pid, own, &over)).ok();
        let report = report_of(end, until, stop);
        over.store(true, Ordering::Relaxed);
        *calls = sampling.and_then(|thread| thread.join().ok()).unwrap_or_default();
        report
    })
}

/// The calls of the programs that an end starts, until `over`.
fn calls_below(end: u32, own: &Path, over: &Arc<AtomicBool>) -> Vec<ProgramCalls> {
    let is_program = |pid: &u32| *pid != end && fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|file| file != own);
    let observed = |pid| {
        let signals = Signals { stop: Arc::clone(over), ..Signals::default() };
        observe(&ToObserve { pid, time: Duration::MAX, sample: SAMPLE, is_stopped: false }, &signals)
    };
    thread::scope(|scope| {
        let mut found = BTreeMap::new();
        while found.len() < PROGRAMS_MAX && !over.load(Ordering::Relaxed) {
            let below = process_tree::tree(end).unwrap_or_default().into_iter().filter(is_program).collect();
            for pid in process_tree::heads(&below).unwrap_or_default() {
                let sampling = || thread::Builder::new().spawn_scoped(scope, move || observed(pid)).ok();
                found.entry(pid).or_insert_with(sampling);
            }
            thread::sleep(LOOK_FOR_PROGRAMS);
        }
        let observed = found.into_values().filter_map(|thread| thread?.join().ok()?.ok());
        observed.filter_map(|program| program.socket_calls()).collect()
    })
}

/// The report of an end whose programs run.
fn report_of(end: &mut Channel, until: Instant, stop: &AtomicBool) -> Result<Result<EndReport, String>, ChannelError> {
    loop {
        match end.reply(LOOK) {
            Ok(Reply::Ready) => end.send(Command::Go)?,
            Ok(Reply::Done(report)) => return Ok(Ok(*report)),
            Ok(Reply::Skipped(reason) | Reply::Failed(reason, _)) => return Ok(Err(reason)),
            Ok(_) => {}
            Err(ChannelError::Silent(_)) if Instant::now() < until && !stop.load(Ordering::Relaxed) => {}
            Err(error) => return Err(error),
        }
    }
}

/// What a program did with its sockets, as a sentence without its end: `2 TCP connections out; sets SO_RCVBUF = 65536
/// itself`.
pub(crate) fn sentence(seen: &SocketsSeen) -> String {
    let each = |(socket, count): (&OpenedSocket, &u64)| {
        let name = match &socket.transport {
            unix if unix.is_unix() => "Unix".to_owned(),
            Transport::Tcp6 => "TCP over IPv6".to_owned(),
            Transport::Udp6 => "UDP over IPv6".to_owned(),
            other => other.to_string().to_uppercase(),
        };
        let plural = if *count == 1 { "" } else { "s" };
        match socket.call {
            Opening::Listen => format!("listens on {count} {name} socket{plural}"),
            Opening::Bind => format!("binds {count} {name} socket{plural}"),
            Opening::Connect => format!("opens {count} {name} connection{plural}"),
        }
    };
    let mut parts: Vec<String> = seen.opened.iter().map(each).collect();
    if seen.rings > 0 {
        parts.push("uses io_uring, whose own connections are not seen".to_owned());
    }
    let own: Vec<String> = seen.own.iter().map(|(name, own)| format!("{name} = {}", own.value)).collect();
    if !own.is_empty() {
        parts.push(format!("sets {} itself", join(&own, "and")));
    }
    if !seen.waits.congestion.is_empty() {
        let names: Vec<&str> = seen.waits.congestion.iter().map(String::as_str).collect();
        parts.push(format!("congestion control {}", names.join(", ")));
    }
    if parts.is_empty() { "opens no socket".to_owned() } else { parts.join("; ") }
}

#[cfg(test)]
mod tests {
    use bytegauge_model::sockets_seen::OwnOption;

    use super::*;

    #[test]
    fn a_program_is_described() {
        let mut seen = SocketsSeen::default();
        assert_eq!(sentence(&seen), "opens no socket");
        let opened = [("tcp connect", 2), ("udp6 bind", 1)];
        seen.opened = opened.map(|(socket, count)| (socket.parse().unwrap(), count)).into();
        let own = OwnOption { option: Some("rcvbuf".into()), value: "65536".into(), calls: 2 };
        seen.own.insert("SO_RCVBUF".into(), own);
        assert_eq!(
            sentence(&seen),
            "opens 2 TCP connections; binds 1 UDP over IPv6 socket; sets SO_RCVBUF = 65536 itself"
        );
    }
}
