//! One trial: opens its ends, starts them, collects their counts, and checks them.
//!
//! Every trial follows one script (`script`), whatever its workload. `checks` decides whether their counts agree.
//!
//! Also streams that load the path of calls, and an extra trial with a profiler.

mod checks;
mod script;

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytegauge_model::{
    ByRole, Cell, EndReport, EndReports, EndRole, Iperf3Report, MachineUse, Outcome, RelayChoice, Trial,
};
use bytegauge_plan::Plan;
use bytegauge_sys::proc_stat::MachineSample;
use bytegauge_sys::topology::Topology;
use bytegauge_traffic::end::LATE;
use bytegauge_traffic::{Command, EndPool, Setup, relay};
use checks::{check_counts, checked_link, forwards_elsewhere};
use script::{Answers, LONG_NS, Script, WaitTimes};

use crate::cpu_placement;
use crate::environment::{ProtocolCounts, machine_use};

/// The result of a trial.
#[derive(Debug)]
pub struct TrialResult {
    /// How it ended.
    pub outcome: Outcome,
    /// Counts of the ends that reported.
    pub ends: EndReports,
    /// Whether the ends can be used again.
    pub ends_are_sound: bool,
    /// Counts of the machine during the trial; absent if no byte was sent, or without a counter.
    pub machine: Option<MachineUse>,
}

impl TrialResult {
    /// The result of a trial without a number.
    pub fn nothing(outcome: Outcome) -> TrialResult {
        TrialResult { outcome, ends: EndReports::default(), ends_are_sound: false, machine: None }
    }

    /// The counts of the end of a role.
    pub fn end(&self, role: EndRole) -> Option<&EndReport> {
        self.ends.get(role)
    }

    /// Bytes at the end that measures and the length of the window that all its flows share; a ring moves none. In a
    /// stream they are the sink's, or the source's if the sink is external; in calls, the client's bytes both ways.
    pub fn throughput(&self) -> (u64, u64) {
        match self.ends.measuring() {
            None => (0, 0),
            Some(end) => match (&end.call, &end.ring) {
                (Some(call), _) => (end.bytes, call.window_ns),
                (None, Some(_)) => (0, end.window_ns),
                (None, None) => (delivered(end), end.window_ns),
            },
        }
    }

    /// The trial with these results, at a place in a session.
    pub fn recorded(self, setup: &Setup, place: Trial) -> Trial {
        let (bytes, wall_ns) = self.throughput();
        Trial {
            bytes,
            calls: self.calls(),
            wall_ns,
            warmup_ns: setup.warmup_ns,
            cpus: cpus(setup),
            outcome: self.outcome,
            ends: self.ends,
            machine: self.machine,
            ..place
        }
    }

    /// Units other than bytes: calls that the client completed, completions that were taken from a ring, runs of
    /// a program.
    pub fn calls(&self) -> u64 {
        let client = self.end(EndRole::Client).and_then(|client| client.call.as_ref()).map(|call| call.calls);
        let alone = || [EndRole::Ring, EndRole::Command].into_iter().find_map(|role| self.end(role));
        client.or_else(|| alone().map(|end| end.calls)).unwrap_or(0)
    }
}

/// Bytes in the window; of datagrams to an iperf3 server its share that arrived, by the server's count over the whole test.
fn delivered(end: &EndReport) -> u64 {
    let share = end.iperf3.as_deref().map_or(1.0, Iperf3Report::delivered_share);
    if share < 1.0 { (end.bytes as f64 * share) as u64 } else { end.bytes }
}

/// Runs one trial. `None` if `stop` was set in the middle of a long one.
pub fn measure(pool: &mut EndPool, setup: &Setup, stop: &AtomicBool) -> Option<TrialResult> {
    // An emulated link's networks are not visible in this one.
    let transport = setup.spec.transport().filter(|_| setup.spec.emulated_link().is_none());
    let counted = ProtocolCounts::read(transport);
    let script = Script::of(setup);
    let patience = patience(&[setup.warmup_ns, setup.window_ns, setup.grace_ns, script.longer_ns]);
    let due =
        Duration::from_nanos(setup.warmup_ns.saturating_add(setup.window_ns).saturating_add(script.longer_ns)) + LATE;
    let link = setup.link();
    let joined = pool.joined(setup.far, link, setup.seed).and_then(|()| pool.program_networks(setup));
    let networks = match joined {
        Ok(networks) => networks,
        Err(fault) => return Some(TrialResult::nothing(fault.outcome())),
    };
    let setup = &Setup { networks, ..setup.clone() };
    // Where a connection never comes, the other end may still wait for it.
    let opened =
        PathLoad::open(setup, pool, patience).and_then(|load| script.open(setup, pool, patience).map(|()| load));
    let load = match opened {
        Ok(load) => load,
        Err(outcome) => return Some(TrialResult::nothing(outcome)),
    };
    // The cost of starting a program is not part of the trial.
    let before = MachineSample::read().ok();
    let roles: Vec<EndRole> = load.iter().flat_map(PathLoad::roles).chain(script.roles()).collect();
    let started = roles.into_iter().try_for_each(|role| pool.end(role)?.send(Command::Go));
    if let Err(error) = started {
        return Some(TrialResult::nothing(error.into()));
    }
    // A run of a program may hang however short it is, and its user need not wait for its time-out.
    let window_ns = if script.measures == EndRole::Command { LONG_NS } else { setup.window_ns };
    let mut answers = script.collect(pool, WaitTimes { window_ns, due, patience }, stop)?;
    let mut machine = machine_use(before.as_ref());
    let joined = checked_link(pool, link.as_ref(), machine.as_mut());
    script.collect_late(pool, patience, &mut answers);
    let outcome = answers.trouble().or(joined).unwrap_or_else(|| check_counts(setup, &answers));
    let outcome = match answers.served_no_call() {
        true => forwards_elsewhere(setup, outcome),
        false => outcome,
    };
    let (outcome, load_is_sound) = match load {
        Some(load) => load.end(pool, patience, &mut answers, outcome),
        None => (outcome, true),
    };
    if let Some(machine) = &mut machine {
        ProtocolCounts::read(transport).since(&counted, machine);
    }
    let ends_are_sound = load_is_sound && answers.by_role.values().all(|answer| answer.sound);
    let ends = answers.by_role.into_iter().filter_map(|(role, answer)| Some((role, answer.report?))).collect();
    Some(TrialResult { outcome, ends, ends_are_sound, machine })
}

/// The CPU of the first flow of each end that takes part in a trial, where it is pinned.
pub fn cpus(setup: &Setup) -> ByRole<usize> {
    Script::of(setup).roles().filter_map(|role| Some((role, setup.cpu(role, 0)?))).collect()
}

/// How long an end may take before it counts as stuck. Its own watchdog expires first.
fn patience(parts_ns: &[u64]) -> Duration {
    let ns = parts_ns.iter().fold(0, |sum: u64, part| sum.saturating_add(*part));
    Duration::from_nanos(ns) + Duration::from_secs(5)
}

// Streams that load the path of calls while these are measured.
//
// They run in both directions over connections of their own, from before the first call until after the last one, and are
// measured in a window of the same length. A trial whose load moved nothing fails: its calls were made on an idle path.

/// The ends of a load that are open.
struct PathLoad {
    setup: Setup,
    script: Script,
}

impl PathLoad {
    /// Opens the ends of the load of a trial; `None` without a load.
    fn open(setup: &Setup, pool: &mut EndPool, patience: Duration) -> Result<Option<PathLoad>, Outcome> {
        let Some(setup) = setup.load().map_err(|fault| fault.outcome())? else { return Ok(None) };
        let script = Script::of(&setup);
        script.open(&setup, pool, patience).map_err(named)?;
        Ok(Some(PathLoad { setup, script }))
    }

    /// Its ends, in the order in which they are started.
    fn roles(&self) -> impl Iterator<Item = EndRole> {
        self.script.roles()
    }

    /// Ends the load after the calls and adds its counts to theirs: the outcome of the trial, and whether the ends of the load can be
    /// used again. After calls that failed early, its window may be far from over: its ends are given up.
    fn end(self, pool: &mut EndPool, patience: Duration, calls: &mut Answers, outcome: Outcome) -> (Outcome, bool) {
        if outcome != Outcome::Measured {
            return (outcome, false);
        }
        let PathLoad { setup, script } = self;
        let times = WaitTimes { window_ns: 0, due: LATE, patience };
        let Some(load) = script.collect(pool, times, &AtomicBool::new(false)) else { return (outcome, false) };
        let of_load = load.trouble().unwrap_or_else(|| check_counts(&setup, &load));
        calls.by_role.extend(load.by_role);
        (named(of_load), true)
    }
}

/// The outcome of a trial of calls by that of its load.
fn named(mut of_load: Outcome) -> Outcome {
    if let Some(reason) = of_load.reason_mut() {
        reason.insert_str(0, "the load of the path: ");
    }
    of_load
}

// An extra trial in which a profiler samples the relay's processes. It comes after all judged trials, so that sampling does
// not affect reported results. Nothing of it is stored.

/// Warm-up of such a trial, nanoseconds: it is sampled as well.
const WARMUP_NS: u64 = 100_000_000;

/// Its window, nanoseconds: about a thousand samples of every CPU that the relay keeps busy.
const WINDOW_NS: u64 = 2_000_000_000;

/// Runs a trial of a cell that has a relay. Before it begins, `sample` gets the processes in which, or below which, the
/// relay will run; its return value is passed to `finish` after the trial, while these processes still live.
///
/// # Errors
/// Why the relay could not be sampled, with what to do.
pub fn carry<T>(
    (plan, cell): (&Plan, &Cell),
    program: &Path,
    stop: &AtomicBool,
    sample: impl FnOnce(&[u32]) -> Result<T, String>,
    finish: impl FnOnce(T) -> Result<(), String>,
) -> Result<(), String> {
    let cpus = cpu_placement::cpus(&cell.factors, &Topology::read().unwrap_or_default(), false);
    let (warmup_ns, window_ns, seed) = (WARMUP_NS, WINDOW_NS, plan.seed);
    let of_cell = Setup::of(&cell.factors).map_err(|error| error.to_string())?;
    let setup = Setup { warmup_ns, window_ns, seed, cpus, ..of_cell };
    let mut pool = EndPool::new(plan.ends, program);
    let pids = match cell.factors.relay().and_then(RelayChoice::running) {
        Some(running) => relay::processes_of(running),
        // Threads or programs that it starts are sampled with it.
        None => {
            let relay = pool.end(EndRole::Relay).map_err(|error| error.to_string())?;
            relay.process_id().into_iter().collect()
        }
    };
    if pids.is_empty() {
        return Err("its processes are not visible: add the @PID of a running relay, or run as root".into());
    }
    let sampler = sample(&pids)?;
    match measure(&mut pool, &setup, stop).ok_or("it was interrupted")?.outcome {
        Outcome::Measured => finish(sampler),
        outcome => Err(format!("its trial failed: {}", outcome.reason().unwrap_or_default())),
    }
}
