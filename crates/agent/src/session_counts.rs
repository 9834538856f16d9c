//! Counts trials, bytes and CPU time of a session's ends, at its agent.
//!
//! Bytes are those in the ends' reports. An end without a report (it died or was given up) is charged the most that it can
//! have moved. A caller whose ends die therefore moves no more than others, and is charged no more than such an end can move.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytegauge_model::{EndRole, Workload};
use bytegauge_traffic::call::memory_at_most;
use bytegauge_traffic::message::{Command, Reply};
use bytegauge_traffic::setup::{Bound, Setup};
use bytegauge_traffic::stream::file_memory;
use bytegauge_traffic::{datagram, lock};
use bytegauge_wire::LineError;

use crate::limits::{Between, Limits, length_ns};
use crate::protocol::COMMANDS_MAX;

/// Bytes per second charged for an end without a report: more than a machine can move.
const MOST_PER_SECOND: u64 = 32 << 30;

/// The counts of a session.
#[derive(Default)]
pub(super) struct AgentCounts {
    pub(super) trials: AtomicU64,
    /// CPU time of ends that have left, nanoseconds.
    pub(super) cpu_ns: AtomicU64,
    moved: Mutex<(Spent, Option<Moves>)>,
}

/// Bytes that count against a session's limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spent {
    pub(super) bytes: u64,
    /// Those of them charged for ends without a report.
    pub(super) charged: u64,
}

/// An open end that has not reported.
#[derive(Clone, Copy, Debug)]
struct Moves {
    /// When it began to move bytes.
    since: Option<Instant>,
    bound: Bound,
    /// When the end ends by itself at the latest, once known.
    until: Option<Instant>,
}

impl Moves {
    /// The most that it can have moved by now, bytes.
    fn most(&self, now: Instant) -> u64 {
        let until = self.until.map_or(now, |until| until.min(now));
        let micros = self.since.map_or(0, |since| until.saturating_duration_since(since).as_micros());
        let bytes = u128::from(MOST_PER_SECOND) * micros / 1_000_000;
        bytes.min(u128::from(self.bound.bytes)) as u64
    }
}

impl AgentCounts {
    /// The bytes of the session so far.
    pub(super) fn spent(&self) -> Spent {
        lock(&self.moved).0
    }

    /// An end is opened. A server (`serves`) moves bytes from now on, other ends from `Go`.
    pub(super) fn opens(&self, bound: Bound, serves: bool) {
        let moves = &mut lock(&self.moved).1;
        // Opening an end again does not reduce its bytes.
        let since = moves.and_then(|moves| moves.since).or_else(|| serves.then(Instant::now));
        *moves = Some(Moves { since, bound, until: None });
    }

    /// Whether an end was opened and has not reported.
    pub(super) fn is_open(&self) -> bool {
        lock(&self.moved).1.is_some()
    }

    /// The end received `Go`: its time runs from now on.
    pub(super) fn goes(&self) {
        if let Some(moves) = &mut lock(&self.moved).1 {
            let now = Instant::now();
            moves.since = moves.since.or(Some(now));
            moves.until = moves.until.or_else(|| now.checked_add(Duration::from_nanos(moves.bound.lasts_ns)));
        }
    }

    /// An end reported its bytes, or will not report any.
    pub(super) fn settles(&self, bytes: Option<u64>) {
        let (spent, moves) = &mut *lock(&self.moved);
        let unsaid = || moves.map_or(0, |moves| moves.most(Instant::now()));
        let add = bytes.unwrap_or_else(unsaid);
        spent.bytes = spent.bytes.saturating_add(add);
        spent.charged = spent.charged.saturating_add(if bytes.is_none() { add } else { 0 });
        *moves = None;
    }
}

// The connections, threads, memory and load that an end needs, as an agent counts them.

/// The needs of an end.
pub(super) struct EndDemand {
    /// Connections.
    pub(super) flows: usize,
    /// Bytes per second, if limited.
    pub(super) rate: Option<u64>,
    /// Buffer bytes per connection.
    pub(super) largest: u64,
    pub(super) threads: usize,
    /// Buffer bytes independent of the number of connections.
    pub(super) besides: u64,
}

impl EndDemand {
    pub(super) fn of(role: EndRole, setup: &Setup) -> Result<EndDemand, String> {
        match setup.workload() {
            Workload::Stream => Ok(EndDemand::of_stream(setup)),
            Workload::Call => Ok(EndDemand::of_call(role, setup)),
            _ => Err(not_made_for("anything but streams and calls")),
        }
    }

    fn of_stream(setup: &Setup) -> EndDemand {
        let largest = setup.read_size().saturating_add(setup.write_size().unwrap_or(0));
        let at_once = if setup.transport().is_datagram() { datagram::at_most(setup) } else { 1 };
        let largest = largest.saturating_mul(at_once).saturating_mul(if setup.goes_both_ways() { 2 } else { 1 });
        let largest = largest.saturating_add(setup.working_set()) as u64;
        EndDemand { flows: setup.joined(), rate: setup.rate(), largest, threads: 1, besides: file_memory(setup) }
    }

    fn of_call(role: EndRole, setup: &Setup) -> EndDemand {
        let flows = setup.flows().saturating_add(setup.idle_flows()).saturating_add(setup.competing_flows());
        let message = setup.request().saturating_add(setup.response());
        let depth = message.saturating_mul(setup.depth().max(1));
        let threads = setup.server_threads().max(setup.client_threads()).max(1);
        let rate = setup.rate().map(|calls| calls.saturating_mul(message as u64));
        if setup.transport().is_datagram() {
            let one = setup.read_size().saturating_add(message);
            let at_once = setup.call_batch().max(setup.outstanding()).saturating_mul(threads);
            let largest = depth.saturating_add(setup.working_set()) as u64;
            return EndDemand { flows, rate, largest, threads, besides: one.saturating_mul(at_once) as u64 };
        }
        let largest = setup.read_size().saturating_add(depth) as u64;
        let besides = match role {
            EndRole::Server => memory_at_most(setup).saturating_mul(threads as u64),
            _ => 0,
        };
        EndDemand { flows, rate, largest, threads, besides }
    }
}

/// The refusal of a task that an agent does not have.
pub(super) fn not_made_for(what: &str) -> String {
    format!("the agent does not run {what}: measure that on one host")
}

// The commands of a caller to its end, and the end's replies: which are admitted, and what of them counts against the limits.
//
// Has no socket, no process and no thread, so that tests and the fuzzer step through it.

/// The state of one end's commands.
#[derive(Debug, Default)]
pub(super) struct EndCommands {
    /// The longest time of its trial.
    trial: Duration,
    /// Commands since it was last opened.
    commands: usize,
}

impl EndCommands {
    /// The longest time of the end's trial; 0 before the first.
    pub(super) fn trial(&self) -> Duration {
        self.trial
    }

    /// Takes a command: the one to pass on, within the limits, or the reason of a refusal for the caller's user.
    ///
    /// # Errors
    /// [`LineError::Garbled`] if the caller breaks the protocol: its session ends.
    pub(super) fn take(
        &mut self,
        command: Command,
        (limits, between): (&Limits, Between),
        counted: &AgentCounts,
    ) -> Result<Result<Command, String>, LineError> {
        let is_open = matches!(command, Command::Open(..));
        // Its allowance was granted once; opening it again before its report would grant it twice.
        if is_open && counted.is_open() {
            return Err(LineError::Garbled("an end is opened before it has reported"));
        }
        // Fewer than the channel holds, so that sending never blocks.
        if !is_open && self.commands >= COMMANDS_MAX {
            return Err(LineError::Garbled("too many commands for a trial"));
        }
        let command = match limits.admitted(command, between, counted.spent()) {
            Ok(command) => command,
            Err(reason) => return Ok(Err(reason)),
        };
        self.commands = if is_open { 0 } else { self.commands + 1 };
        match &command {
            // A server and a relay serve before `Go`.
            Command::Open(role, setup, _) => {
                let serves = matches!(role, EndRole::Server | EndRole::Relay);
                setup.bound.iter().for_each(|bound| counted.opens(*bound, serves));
                self.trial = Duration::from_nanos(length_ns(setup));
                counted.trials.fetch_add(1, Ordering::Relaxed);
            }
            Command::Go => counted.goes(),
            Command::Stop | Command::Quit => {}
        }
        Ok(Ok(command))
    }
}

/// The reply to pass on after its bytes are counted; for an end at its limit, the reason.
pub(super) fn counted(reply: Reply, counted: &AgentCounts, limits: &Limits) -> Reply {
    match &reply {
        Reply::Done(report) | Reply::Failed(_, report) => {
            let calls = report.call.as_ref().map_or(0, |_| report.bytes);
            counted.settles(Some(report.total_bytes.max(calls)));
        }
        Reply::Skipped(_) => counted.settles(None),
        Reply::Hello(_) | Reply::Listening(_) | Reply::Ready | Reply::Closed => {}
    }
    let spent = counted.spent();
    match reply {
        Reply::Failed(..) if spent.bytes >= limits.bytes => Reply::Skipped(limits.used_up(spent)),
        reply => reply,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn silent_end_is_charged_what_it_could_move() {
        let since = Instant::now();
        let check = |bytes: u64, goes_on: Option<Duration>, after: Duration, expected: u64| {
            let bound = Bound { bytes, lasts_ns: 0 };
            let moves = Moves { since: Some(since), bound, until: goes_on.map(|lasts| since + lasts) };
            assert_eq!(moves.most(since + after), expected);
        };
        check(u64::MAX, None, 3 * SECOND, 3 * MOST_PER_SECOND);
        check(u64::MAX, Some(5 * SECOND), 3 * SECOND, 3 * MOST_PER_SECOND);
        // However late this is noticed: the end stops by itself.
        check(u64::MAX, Some(5 * SECOND), 3600 * SECOND, 5 * MOST_PER_SECOND);
        check(1000, Some(5 * SECOND), 3 * SECOND, 1000);
        check(u64::MAX, None, Duration::ZERO, 0);
    }

    #[test]
    fn unreported_bytes_are_charged() {
        let (counted, bound) = (AgentCounts::default(), Bound { bytes: 1000, lasts_ns: u64::MAX });
        counted.opens(bound, false);
        counted.settles(None);
        assert_eq!(counted.spent(), Spent::default(), "it did not receive Go");
        counted.opens(bound, false);
        counted.goes();
        counted.settles(Some(70));
        counted.settles(None);
        assert_eq!(counted.spent(), Spent { bytes: 70, charged: 0 });
        for serves in [true, false] {
            counted.opens(bound, serves);
            if !serves {
                counted.goes();
            }
            // Longer than its limit.
            std::thread::sleep(Duration::from_millis(1));
            counted.opens(bound, false);
            counted.settles(None);
        }
        assert_eq!(counted.spent(), Spent { bytes: 2070, charged: 2000 });
    }
}

#[cfg(test)]
mod commands_tests {
    use bytegauge_model::Spec;

    use super::*;
    use bytegauge_traffic::setup::Setup;

    fn take(commands: &mut EndCommands, command: Command) -> Result<Result<Command, String>, LineError> {
        let between = Between { here: [192, 0, 2, 1].into(), peer: [192, 0, 2, 9].into(), port: 0 };
        commands.take(command, (&Limits::default(), between), &AgentCounts::default())
    }

    #[test]
    fn refused_trial_allows_no_more_commands() {
        let mut commands = EndCommands::default();
        let refused = || {
            let levels = [("transport", "unix".into()), ("read_size", 1.into()), ("write_size", 1.into())];
            Command::Open(EndRole::Sink, Box::new(Setup::of(&Spec::from(levels)).unwrap()), None)
        };
        for _ in 0..COMMANDS_MAX {
            assert!(matches!(take(&mut commands, refused()), Ok(Err(_))));
            assert_eq!(take(&mut commands, Command::Go).unwrap(), Ok(Command::Go));
        }
        assert!(matches!(take(&mut commands, refused()), Ok(Err(_))));
        assert!(take(&mut commands, Command::Go).is_err());
    }
}
