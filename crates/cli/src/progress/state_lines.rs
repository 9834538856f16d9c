//! The state of a running session as lines of text. Pure: has no clock and no terminal.

use std::collections::{BTreeMap, HashMap};

use bytegauge_model::forecast::forecast;
use bytegauge_model::session::Stage;
use bytegauge_model::unit::significant;
use bytegauge_model::{BlockRecord, Cell, CellId, CellKind, Counted, GroupId, Trial, Workload};
use bytegauge_report::words::fit::columns as columns_of;
use bytegauge_report::words::phrase::rate_unit;
use bytegauge_stats::interval::sign_interval;

use super::test_names::TestNames;

/// A smaller share of CPU time is no disturbance.
const STEAL_MIN: f64 = 0.005;

/// Fewer CPUs used by other programs are no disturbance.
const OTHERS_MIN: f64 = 0.05;

/// The state of a session.
#[derive(Debug, Default)]
pub struct SessionProgress {
    stage: Option<Stage>,
    blocks_done: u64,
    blocks: u64,
    left_ns: Option<u64>,
    /// The sign of a program's server that is not ready, and the rest of its time, nanoseconds.
    waiting: Option<(String, u64)>,
    further_ns: u64,
    surroundings: Disturbances,
    names: TestNames,
    tests: BTreeMap<GroupId, TestStanding>,
    visits: u64,
}

/// The state of a test in this stage.
#[derive(Debug, Default)]
struct TestStanding {
    /// When it was visited last, in visits of all tests.
    visited: u64,
    options: HashMap<CellId, OptionStanding>,
}

/// The state of an option in this stage.
#[derive(Debug)]
struct OptionStanding {
    measure: LeadMeasure,
    values: Vec<f64>,
}

/// By what options are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeadMeasure {
    /// A rate in this unit: the highest leads.
    Rate(&'static str),
    /// The time of a run of a program: the shortest leads.
    RunTime,
    /// CPU time of a unit of work, where the load is offered, or the metric of a program: the lowest leads.
    Cpu(Workload),
}

impl LeadMeasure {
    /// As the table of the report compares them.
    fn of(cell: &Cell, trial: &Trial) -> LeadMeasure {
        let workload = cell.factors.workload();
        match trial.task().map(|task| task.counted) {
            _ if cell.factors.offers_load() => LeadMeasure::Cpu(workload),
            Some(Counted::CpuTime) => LeadMeasure::Cpu(workload),
            Some(Counted::Runs) => LeadMeasure::RunTime,
            Some(Counted::Bytes) => LeadMeasure::Rate("bytes/s"),
            Some(Counted::Printed) => LeadMeasure::Rate("printed"),
            Some(Counted::Events) => LeadMeasure::Rate("runs/M events"),
            None => LeadMeasure::Rate(workload.row().unit.metric.1),
        }
    }

    fn value(self, trial: &Trial) -> Option<f64> {
        match self {
            LeadMeasure::Rate(_) => trial.rate(),
            LeadMeasure::RunTime => trial.cost_ns(false),
            LeadMeasure::Cpu(_) => trial.cost_ns(true),
        }
    }

    fn is_better(self, value: f64, than: f64) -> bool {
        match self {
            LeadMeasure::Rate(_) => value > than,
            LeadMeasure::RunTime | LeadMeasure::Cpu(_) => value < than,
        }
    }

    /// The divisor in which a value is read best, and the name of its unit.
    fn scale(self, value: f64) -> (f64, &'static str) {
        match self {
            LeadMeasure::Rate(unit) => rate_unit(unit, value),
            LeadMeasure::RunTime if value >= 1e9 => (1e9, "s a run"),
            LeadMeasure::RunTime => (1e6, "ms a run"),
            LeadMeasure::Cpu(workload) => {
                let (scale, unit) = workload.row().unit.cpu;
                (1.0 / scale, unit)
            }
        }
    }
}

/// The disturbance of the blocks of this session, weighted by their lengths.
#[derive(Debug, Default)]
struct Disturbances {
    wall_ns: f64,
    stolen_ns: f64,
    others_ns: f64,
}

impl SessionProgress {
    /// A stage begins. Further analyses continue the stage that confirms.
    pub fn begin(&mut self, stage: Stage, blocks: u64, names: TestNames) {
        if self.stage != Some(stage) {
            self.tests.clear();
        }
        (self.stage, self.blocks, self.blocks_done) = (Some(stage), blocks, 0);
        self.names = names;
    }

    /// A trial ended; `left_ns` until the end of this analysis, `further_ns` more for the later ones.
    pub fn trial(&mut self, cell: &Cell, trial: &Trial, left_ns: u64, further_ns: u64) {
        (self.left_ns, self.further_ns, self.waiting) = (Some(left_ns), further_ns, None);
        self.add(cell, trial);
    }

    /// The server of a program is not ready; without time left it is.
    pub fn wait(&mut self, ready: String, left_ns: u64) {
        self.waiting = Some((ready, left_ns)).filter(|_| left_ns > 0);
    }

    /// Adds a trial of an earlier run of this session.
    pub fn add(&mut self, cell: &Cell, trial: &Trial) {
        if cell.kind != CellKind::Candidate {
            return;
        }
        let measure = LeadMeasure::of(cell, trial);
        let Some(value) = measure.value(trial) else { return };
        self.visits += 1;
        let test = self.tests.entry(cell.group.clone()).or_default();
        test.visited = self.visits;
        let option = test.options.entry(cell.id.clone());
        option.or_insert_with(|| OptionStanding { measure, values: Vec::new() }).values.push(value);
    }

    /// A block ended.
    pub fn block(&mut self, block: &BlockRecord) {
        self.blocks_done += u64::from(block.complete);
        let around = &block.surroundings;
        let wall_ns = around.wall_ns as f64;
        self.surroundings.wall_ns += wall_ns;
        self.surroundings.stolen_ns += around.steal_share.unwrap_or(0.0) * wall_ns;
        self.surroundings.others_ns += around.foreign_cpus.unwrap_or(0.0) * wall_ns;
    }

    /// Whether every block of the stage is complete.
    pub fn is_stage_complete(&self) -> bool {
        self.blocks_done >= self.blocks
    }

    /// `confirmation: 30 % of 4 tests, 35 s left, steal 2 %`, as far as the columns suffice.
    pub fn progress(&self, columns: usize) -> String {
        let (short, full) = (self.progress_of(false), self.progress_of(true));
        if columns_of(&full) <= columns { full } else { short }
    }

    fn progress_of(&self, full: bool) -> String {
        let stage = self.stage.map_or("start", stage_name);
        let tests = self.names.tests.len();
        let of_tests = if tests > 1 { format!(" of {tests} tests") } else { String::new() };
        // A block that failed was repeated beyond the plan.
        let per_cent = 100 * self.blocks_done / self.blocks.max(self.blocks_done).max(1);
        let mut parts = vec![format!("{stage}: {per_cent} %{of_tests}")];
        if let Some((ready, left_ns)) = &self.waiting {
            let seconds = left_ns.div_ceil(1_000_000_000);
            parts.push(format!("waiting for the server, at most {seconds} s more: {ready}"));
            return parts.join(", ");
        }
        if let Some(left_ns) = self.left_ns.filter(|ns| *ns >= LEFT_MIN_NS) {
            let further = match self.further_ns {
                0 => String::new(),
                _ if !full => String::new(),
                ns => format!(" ({} if undecided)", forecast(left_ns.saturating_add(ns))),
            };
            parts.push(format!("{} left{further}", forecast(left_ns)));
        }
        let share = |ns: f64| ns / self.surroundings.wall_ns.max(1.0);
        let (steal, others) = (share(self.surroundings.stolen_ns), share(self.surroundings.others_ns));
        if steal >= STEAL_MIN {
            parts.push(format!("steal {} %", significant(steal * 100.0, 2)));
        }
        if others >= OTHERS_MIN {
            parts.push(format!("other load {} CPUs", significant(others, 2)));
        }
        parts.join(", ")
    }

    /// Tests with their leaders: the last visited ones, in the order of the plan.
    pub fn leaders(&self, most: usize) -> Vec<Leader> {
        let mut visited: Vec<u64> = self.tests.values().map(|test| test.visited).collect();
        visited.sort_unstable_by(|a, b| b.cmp(a));
        let oldest = visited.get(most.saturating_sub(1)).or(visited.last()).copied().unwrap_or(0);
        let shown = |id: &GroupId| self.tests.get(id).filter(|test| test.visited >= oldest);
        let leaders = self.names.tests.iter().filter_map(|(id, name)| self.leader(name, shown(id)?));
        leaders.take(most).collect()
    }

    fn leader(&self, test: &str, standing: &TestStanding) -> Option<Leader> {
        let medians = standing.options.iter().filter_map(|(id, option)| {
            let estimate = sign_interval(&option.values, 0.95);
            Some((estimate.median?, estimate, id, option.measure))
        });
        let best = medians.reduce(|best, one| match one.3.is_better(one.0, best.0) {
            true => one,
            // The order of a hash table is no order.
            false if one.0 == best.0 && one.2 < best.2 => one,
            false => best,
        });
        let (median, estimate, id, measure) = best?;
        // One unit for all numbers of a line.
        let (divisor, unit) = measure.scale(median);
        let shown = |value: f64| significant(value / divisor, 3);
        let ends = estimate.lower.zip(estimate.upper);
        let interval = ends.map_or_else(String::new, |(lower, upper)| format!(" ({}–{})", shown(lower), shown(upper)));
        let option = self.names.options.get(id).cloned().unwrap_or_else(|| id.to_string());
        Some(Leader { test: test.to_owned(), option, rate: format!("{} {unit}", shown(median)), interval })
    }
}

/// The option that leads a test so far.
#[derive(Debug, PartialEq, Eq)]
pub struct Leader {
    /// The test.
    pub test: String,
    /// The option.
    pub option: String,
    /// Its median rate: `2.96 GiB/s`.
    pub rate: String,
    /// The 95 % interval of the median, once there is one: ` (2.81–3.1)`.
    pub interval: String,
}

/// A shorter time is not shown: blocks that are left may take longer than those before.
const LEFT_MIN_NS: u64 = 1_000_000_000;

fn stage_name(stage: Stage) -> &'static str {
    match stage {
        Stage::Calibrate => "calibration",
        Stage::Screen => "screening",
        Stage::Narrow => "second screening",
        Stage::Confirm => "confirmation",
        Stage::Audit => "long-trial check",
    }
}

#[cfg(test)]
mod tests {
    use bytegauge_model::factor::find;
    use bytegauge_model::session::Surroundings;
    use bytegauge_model::{EndReport, EndReports, EndRole, Outcome, TaskReport};

    use super::*;

    fn cell(id: &str, group: &str, factors: &[(&str, &str)]) -> Cell {
        let level = |name: &str, text: &str| find(name).expect("a factor").kind.parse(text).expect("a level");
        Cell {
            id: CellId(id.into()),
            group: GroupId(group.into()),
            kind: CellKind::Candidate,
            twin_of: None,
            factors: factors.iter().map(|(name, text)| (*name, level(name, text))).collect(),
        }
    }

    fn trial(cell: &Cell, gib_per_s: f64) -> Trial {
        Trial {
            cell: cell.id.clone(),
            workload: Workload::Stream,
            stage: Stage::Confirm,
            block: 0,
            position: 0,
            started_unix_ns: 0,
            outcome: Outcome::Measured,
            bytes: (gib_per_s * f64::from(1 << 30)) as u64,
            calls: 0,
            wall_ns: 1_000_000_000,
            warmup_ns: 0,
            cpus: Default::default(),
            ends: EndReports::default(),
            machine: None,
        }
    }

    fn names(tests: &[(&str, &str)], options: &[(&str, &str)]) -> TestNames {
        TestNames {
            tests: tests.iter().map(|(id, name)| (GroupId((*id).into()), (*name).to_owned())).collect(),
            options: options.iter().map(|(id, name)| (CellId((*id).into()), (*name).to_owned())).collect(),
        }
    }

    fn block(steal_share: f64, foreign_cpus: f64, complete: bool) -> BlockRecord {
        let (steal_share, foreign_cpus) = (Some(steal_share), Some(foreign_cpus));
        BlockRecord {
            index: 0,
            group: GroupId("g1".into()),
            stage: Stage::Confirm,
            started_unix_ns: 0,
            complete,
            surroundings: Surroundings { wall_ns: 100, steal_share, foreign_cpus, ..Surroundings::default() },
        }
    }

    #[test]
    fn progress_states_stage_blocks_time_and_disturbances() {
        let mut standing = SessionProgress::default();
        standing.begin(Stage::Confirm, 40, TestNames::default());
        assert_eq!(standing.progress(80), "confirmation: 0 %");
        let stream = cell("c1", "g1", &[("transport", "tcp")]);
        standing.trial(&stream, &trial(&stream, 1.0), 57_900_000_000, 0);
        standing.block(&block(0.0, 0.0, true));
        assert_eq!(standing.progress(80), "confirmation: 2 %, 58 s left");
        standing.trial(&stream, &trial(&stream, 1.0), 5_000_000_000, 115_000_000_000);
        standing.block(&block(0.1, 0.5, false));
        let full = "confirmation: 2 %, 5 s left (120 s if undecided), steal 5 %, other load 0.25 CPUs";
        assert_eq!(standing.progress(200), full);
        let short = full.replace(" (120 s if undecided)", "");
        assert_eq!(standing.progress(80), short);
        standing.trial(&stream, &trial(&stream, 1.0), 900_000_000, 0);
        assert_eq!(standing.progress(80), short.replace(", 5 s left", ""));
    }

    #[test]
    fn each_test_has_a_line_with_its_leader() {
        let mut standing = SessionProgress::default();
        let tests = [("g1", "Read from TCP"), ("g2", "Read from a pipe")];
        standing.begin(Stage::Confirm, 9, names(&tests, &[("c1", "4K"), ("c2", "64K"), ("c3", "4K")]));
        let cells = [("c1", "g1"), ("c2", "g1"), ("c3", "g2")].map(|(id, group)| cell(id, group, &[]));
        let leader = |test: &str, option: &str, rate: &str, interval: &str| Leader {
            test: test.into(),
            option: option.into(),
            rate: rate.into(),
            interval: interval.into(),
        };
        assert_eq!((standing.leaders(9), standing.progress(80).as_str()), (vec![], "confirmation: 0 % of 2 tests"));
        standing.add(&cells[2], &trial(&cells[2], 1.5));
        for at in 0..8 {
            standing.add(&cells[0], &trial(&cells[0], 0.4));
            standing.add(&cells[1], &trial(&cells[1], 0.9 + f64::from(at) / 10.0));
        }
        let (tcp, pipe) = (
            leader("Read from TCP", "64K", "1.25 GiB/s", " (0.9–1.6)"),
            leader("Read from a pipe", "4K", "1.5 GiB/s", ""),
        );
        assert_eq!(standing.leaders(9), [tcp, pipe]);
        // Fewer rows than tests: the test that was visited last.
        standing.add(&cells[2], &trial(&cells[2], 1.5));
        assert_eq!(standing.leaders(1), [leader("Read from a pipe", "4K", "1.5 GiB/s", "")]);
        // Another stage begins a new comparison.
        standing.begin(Stage::Audit, 3, names(&tests, &[]));
        assert_eq!(standing.leaders(9), []);
    }

    #[test]
    fn a_wait_for_a_server_is_shown() {
        let mut standing = SessionProgress::default();
        standing.begin(Stage::Calibrate, 4, names(&[("g1", "server")], &[]));
        standing.wait("tcp:7007".into(), 28_400_000_000);
        assert_eq!(standing.progress(80), "calibration: 0 %, waiting for the server, at most 29 s more: tcp:7007");
        standing.wait("tcp:7007".into(), 0);
        assert_eq!(standing.progress(80), "calibration: 0 %");
        standing.wait("tcp:7007".into(), 1);
        let cell = cell("c1", "g1", &[("value", "4K")]);
        standing.trial(&cell, &trial(&cell, 1.0), 0, 0);
        assert_eq!(standing.progress(80), "calibration: 0 %");
    }

    fn shown(measure: LeadMeasure, value: f64) -> String {
        let (divisor, unit) = measure.scale(value);
        format!("{} {unit}", significant(value / divisor, 3))
    }

    #[test]
    fn offered_load_is_compared_by_cpu_time() {
        let offered = cell("c1", "g1", &[("transport", "tcp"), ("rate", "1G")]);
        assert_eq!(LeadMeasure::of(&offered, &trial(&offered, 1.0)), LeadMeasure::Cpu(Workload::Stream));
        assert_eq!(shown(LeadMeasure::Cpu(Workload::Stream), 0.5), "0.537 s CPU/GiB");
        assert_eq!(shown(LeadMeasure::Cpu(Workload::Call), 5100.0), "5.1 µs CPU/call");
        let rate = LeadMeasure::Rate("calls/s");
        assert!(LeadMeasure::Cpu(Workload::Call).is_better(1.0, 2.0) && rate.is_better(2.0, 1.0));
    }

    #[test]
    fn programs_are_compared_by_their_metric() {
        let program = cell("c1", "g1", &[("value", "4K")]);
        let check = |counted: Counted, rate: f64, expected: &str| {
            let task = Some(Box::new(TaskReport { rate, counted, ..TaskReport::default() }));
            let mut end = EndReport { task, ..EndReport::default() };
            end.counts.cpu_ns = 64_000_000;
            let ends = [(EndRole::Command, end)].into_iter().collect();
            let run = Trial { workload: Workload::Check, calls: 1, ends, ..trial(&program, 0.0) };
            let measure = LeadMeasure::of(&program, &run);
            assert_eq!(shown(measure, measure.value(&run).expect("a value")), expected);
        };
        check(Counted::Runs, 20.0, "50 ms a run");
        check(Counted::Runs, 0.5, "2 s a run");
        check(Counted::CpuTime, 1e9 / 64e6, "64 ms CPU/run");
        check(Counted::Bytes, f64::from(1 << 30), "1 GiB/s");
        check(Counted::Printed, 12.0, "12 printed");
        check(Counted::Events, 2.0, "2 runs/M events");
    }
}
