//! The parts of a session in progress: its record, the machine, its clock, measured times, and what stages and cells have come to.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytegauge_model::session::Stage;
use bytegauge_model::{Cell, CellId, CellKind, GroupId, Outcome, Probe, SessionId, Trial};
use bytegauge_plan::Plan;
use bytegauge_store::{SessionLock, Store, StoreError};
use bytegauge_sys::clock::monotonic_ns;
use bytegauge_sys::topology::Topology;
use bytegauge_traffic::EndPool;
use bytegauge_traffic::program::running_service::ServiceRecord;
use serde_json::Value;

use crate::harm_guard::HarmGuard;
use crate::stages::{Event, Observer};

/// What is written and reported of a session.
pub(crate) struct SessionWriter<'a> {
    pub(crate) store: &'a mut Store,
    pub(crate) session: SessionId,
    pub(crate) observer: &'a mut dyn Observer,
    /// Held until the run is over: no other process measures this session.
    pub(crate) _owner: SessionLock,
}

impl SessionWriter<'_> {
    /// Tells the observer.
    pub(crate) fn tell(&mut self, text: impl Into<String>) {
        self.observer.hear(&Event::Note(text.into()));
    }

    /// Writes a note, and tells the observer.
    pub(crate) fn note(&mut self, text: String) -> Result<(), StoreError> {
        self.store.add_note(self.session, &text)?;
        self.tell(text);
        Ok(())
    }

    /// Reports to the observer that a stage begins, with its trials and blocks.
    pub(crate) fn tell_stage(&mut self, stage: Stage, trials: u64, blocks: u64) {
        self.observer.hear(&Event::Stage { stage, trials, blocks, session: self.session, store: &*self.store });
    }

    /// Writes a fact of a group.
    pub(crate) fn set_fact(&mut self, group: &GroupId, name: &str, value: &Value) -> Result<(), StoreError> {
        self.store.set_group_fact(self.session, group, name, value)
    }
}

/// The machine of a session, and the ends on it.
pub(crate) struct RunMachine {
    pub(crate) topology: Topology,
    /// The kernel's name for this boot of this machine.
    pub(crate) boot_id: Option<String>,
    pub(crate) pool: Option<EndPool>,
    /// The running program whose options are changed.
    pub(crate) service: Option<ServiceRecord>,
}

/// The time of a session, nanoseconds of the monotonic clock.
#[derive(Debug, Default)]
pub(crate) struct RunClock {
    pub(crate) began_ns: u64,
    /// Whether it continues an earlier run.
    pub(crate) resumed: bool,
    /// Time spent in long-trial checks.
    pub(crate) audited_ns: u64,
    /// Expected time of the present analysis, and when it began; 0 before the first.
    pub(crate) confirm_ns: u64,
    pub(crate) confirm_began_ns: u64,
}

impl RunClock {
    /// Time of the session so far.
    pub(crate) fn spent_ns(&self) -> u64 {
        monotonic_ns().saturating_sub(self.began_ns)
    }

    /// Leaves a wait out of the session's time.
    pub(crate) fn leave_out(&mut self, waited_ns: u64) {
        self.began_ns += waited_ns;
        if self.confirm_began_ns > 0 {
            self.confirm_began_ns += waited_ns;
        }
    }
}

/// A sum of times, and how many they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TimeSum {
    pub(crate) ns: u64,
    pub(crate) count: u64,
}

impl TimeSum {
    pub(crate) fn add(&mut self, ns: u64, count: u64) {
        self.ns += ns;
        self.count += count;
    }

    /// `None` without a time.
    pub(crate) fn mean_ns(self) -> Option<u64> {
        self.ns.checked_div(self.count)
    }
}

/// Times as measured so far, nanoseconds: the rest of a session is planned with them.
#[derive(Debug, Default)]
pub(crate) struct RunTimes {
    /// Overheads of trials, by group.
    overheads: BTreeMap<GroupId, TimeSum>,
    /// Trials of a program with their overhead, by cell.
    runs: BTreeMap<CellId, TimeSum>,
    /// Time spent in trials.
    pub(crate) trials_ns: u64,
    /// Overheads of blocks in addition to their trials.
    pub(crate) block_overheads: TimeSum,
    /// Confirmation blocks, by group.
    pub(crate) blocks: BTreeMap<GroupId, TimeSum>,
}

impl RunTimes {
    /// What the watched run of a program shows, if there was one.
    pub(crate) fn after_watched(plan: &Plan) -> RunTimes {
        let (mut times, ns) = (RunTimes::default(), plan.watched_ns());
        for cell in plan.cells.iter().filter(|cell| ns > 0 && plan.is_unchanged(&cell.factors)) {
            times.runs.entry(cell.id.clone()).or_default().add(ns, 1);
        }
        times
    }

    /// The shortest run of a program with its overhead, of any value.
    pub(crate) fn shortest_run_ns(&self) -> Option<u64> {
        self.runs.values().filter_map(|runs| runs.mean_ns()).min()
    }

    /// Overhead of a trial in addition to its warm-up and window: in its group (with many flows it is far more than with one),
    /// else in all groups.
    pub(crate) fn overhead_ns(&self, group: &GroupId) -> Option<u64> {
        let mut all = TimeSum::default();
        self.overheads.values().for_each(|one| all.add(one.ns, one.count));
        self.overheads.get(group).copied().unwrap_or(all).mean_ns()
    }

    /// Time of a trial of a program with the value of a cell: its run and its overhead. `None` without a measurement, or without
    /// a program.
    pub(crate) fn run_ns(&self, cell: &CellId) -> Option<u64> {
        self.runs.get(cell)?.mean_ns()
    }

    /// Mean time of a trial of a program over the measured values.
    pub(crate) fn mean_run_ns(&self) -> Option<u64> {
        mean_ns(self.runs.values().filter_map(|runs| runs.mean_ns()))
    }

    /// Time of a trial of those values that are likely confirmed: the fast half of the measured ones, and those that are confirmed
    /// whatever they are. `None` if none was measured.
    pub(crate) fn confirmed_run_ns(&self, is_kept: impl Fn(&CellId) -> bool) -> Option<u64> {
        let mut seen: Vec<(u64, bool)> =
            self.runs.iter().filter_map(|(cell, runs)| Some((runs.mean_ns()?, is_kept(cell)))).collect();
        seen.sort_unstable();
        let fast = seen.len().div_ceil(2);
        mean_ns(seen.iter().enumerate().filter(|(at, (_, kept))| *at < fast || *kept).map(|(_, (ns, _))| *ns))
    }

    /// Forgets the time of the first run of a program, which differs from the others: caches were cold.
    pub(crate) fn forget_overheads(&mut self) {
        self.overheads.clear();
        self.runs.clear();
    }

    /// Learns from a trial of one window, or of a search with several probes.
    pub(crate) fn learn_overhead(
        &mut self,
        trial: &Trial,
        window_ns: u64,
        spent_ns: u64,
        cell: &Cell,
        is_program: bool,
    ) {
        self.trials_ns += spent_ns;
        // A search for a loss keeps no probes.
        let is_search = cell.factors.max_loss().is_some() && trial.stage != Stage::Calibrate;
        if cell.kind == CellKind::Floor || is_search {
            return;
        }
        let probes = search(trial);
        let windows_ns = if probes.is_empty() { window_ns } else { probes.iter().map(|probe| probe.window_ns).sum() };
        let measurements = probes.len().max(1) as u64;
        let overhead_ns = spent_ns.saturating_sub(windows_ns + measurements * trial.warmup_ns);
        self.overheads.entry(cell.group.clone()).or_default().add(overhead_ns, measurements);
        if is_program {
            self.runs.entry(cell.subject().clone()).or_default().add(spent_ns, 1);
        }
    }
}

fn mean_ns(times: impl Iterator<Item = u64>) -> Option<u64> {
    let mut sum = TimeSum::default();
    times.for_each(|ns| sum.add(ns, 1));
    sum.mean_ns()
}

/// The probes of a trial that searched.
pub(crate) fn search(trial: &Trial) -> &[Probe] {
    trial.client().map_or(&[], |call| &call.search)
}

/// The part of a trial that screening needs: its cell, its block and its cost.
pub(crate) type Screened = (CellId, u64, f64);

/// What the stages have fixed and measured.
#[derive(Debug, Default)]
pub(crate) struct StageResults {
    pub(crate) next_block: u64,
    pub(crate) visited: BTreeMap<(GroupId, Stage), u64>,
    pub(crate) warmup: BTreeMap<GroupId, u64>,
    pub(crate) last_series: Option<Vec<f64>>,
    pub(crate) screening: Vec<Screened>,
    pub(crate) finalists: BTreeMap<GroupId, Vec<CellId>>,
    /// Blocks of every group until its first analysis, once they are fixed.
    pub(crate) first_blocks: BTreeMap<GroupId, u64>,
    /// Trials that were shortened before the session was interrupted, nanoseconds.
    pub(crate) shortened: BTreeMap<GroupId, u64>,
}

/// What has come of the cells.
#[derive(Debug, Default)]
pub(crate) struct CellStates {
    /// Cells that are not measured any more.
    pub(crate) left: BTreeSet<CellId>,
    /// Lengthened trials of cells with slow calls, nanoseconds.
    pub(crate) lengthened: BTreeMap<CellId, u64>,
    pub(crate) failures: BTreeMap<CellId, Failures>,
    /// Incomplete blocks of a group since its last complete one.
    pub(crate) incomplete: BTreeMap<GroupId, u32>,
    /// Reasons of failures in notes, without digits: each is written once.
    pub(crate) noted_reasons: BTreeSet<String>,
    /// The first value with which a user's server was not ready, and the reason.
    pub(crate) unserved: Option<(CellId, Outcome)>,
    /// The trials of a running program, which no change may harm.
    pub(crate) guard: HarmGuard,
}

/// Sleeps for a time in steps, unless it is to stop.
pub(crate) fn sleep_unless(stops: impl Fn() -> bool, time: Duration, step: Duration) {
    let until_ns = monotonic_ns() + time.as_nanos() as u64;
    while !stops() {
        let Some(left_ns) = until_ns.checked_sub(monotonic_ns()) else { return };
        std::thread::sleep(step.min(Duration::from_nanos(left_ns)));
    }
}

// When a cell leaves its group because its trials fail.

/// Failures of a cell less its measured trials, of which at most [`CREDIT`] count. It leaves when two are left, since single
/// failures may be caused by the machine: at its second trial if it always fails.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Failures(i32);

/// The most measured trials that count, so that a cell which stops working leaves after five failures.
const CREDIT: i32 = 3;

impl Failures {
    /// Counts a measured trial.
    pub(crate) fn succeed(&mut self) {
        self.0 = (self.0 - 1).max(-CREDIT);
    }

    /// Counts a failure. Returns whether the cell leaves.
    pub(crate) fn fail(&mut self) -> bool {
        self.0 += 1;
        self.0 >= 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of trials (`+` measured, `-` failed) after which a cell leaves.
    fn leaves_after(trials: &str) -> Option<usize> {
        let mut failures = Failures::default();
        let leaves = |trial| {
            if trial == '+' {
                failures.succeed();
            }
            trial == '-' && failures.fail()
        };
        trials.chars().position(leaves).map(|at| at + 1)
    }

    #[test]
    fn only_mostly_failing_cells_leave() {
        for (trials, expected) in [
            ("--", Some(2)),
            ("+--", None),
            ("-+--", Some(4)),
            ("-+-+-+-+", None),
            ("++++++++++--++--+--", None),
            ("++++++++++-----", Some(15)),
        ] {
            assert_eq!(leaves_after(trials), expected, "{trials}");
        }
    }
}
