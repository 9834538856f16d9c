//! The requirements of a user's program: values that fit its command, its present value among
//! them, and runs that fit the budget.

use bytegauge_model::{Cell, Level, Nanos, SocketChanges, Workload};

use crate::PlanError;
use crate::design::{BLOCKS_STATED_MAX, Design, Finalists};
use crate::engines::NO_BYTES;
use crate::plan::{Family, Plan};
use crate::spec::PlanSpec;

/// The factor whose levels are tried.
pub(crate) const VALUE: &str = "value";

/// Safety factor of a forecast from few runs: it stays within a third of what was needed.
const SPARE: f64 = 1.15;

/// Runs of a program are long from this share of the session's time on: its first runs and the fewest blocks do not fit.
const LONG_RUN: f64 = 0.03;

/// A first run of a changed program may take this multiple of the shortest run.
const LIMIT: u64 = 4;

/// A server may take this time until it is ready, however short the session is, nanoseconds.
const READY_MIN_NS: u64 = 5_000_000_000;

/// A plan of a program without the program.
const NO_TASK: &str = "the workload tune needs a program: use bytegauge tune --values LIST -- CMD … {value} …";

/// A task without values that fit it, or a workload without its task.
pub(crate) fn refuse_what_no_task_can(spec: &PlanSpec) -> Result<(), PlanError> {
    let task = match (&spec.task, spec.workload) {
        (Some(task), Workload::Tune) => task,
        (None, Workload::Tune) => return PlanError::usage(NO_TASK),
        _ => return Ok(()),
    };
    if spec.verify {
        return PlanError::usage(NO_BYTES);
    }
    for part in &spec.parts {
        let levels = part.levels_of(spec.workload, VALUE);
        task.check(&levels).map_err(|error| PlanError::Usage(error.to_string()))?;
        let placements = part.levels_of(spec.workload, "placement");
        let apart = |level: &&Level| !matches!(level.name(), Some("unpinned" | "same-cpu"));
        if let Some(placement) = placements.iter().find(apart).filter(|_| task.server.is_none()) {
            return PlanError::usage(format!(
                "--placement {placement} separates two programs, but there is only one: use unpinned or same-cpu, or name a \
                 server with --start"
            ));
        }
    }
    Ok(())
}

impl Plan {
    /// Whether an option is confirmed regardless of screening: the user's present value, since the gain over it matters, the
    /// recommendation of an earlier session, since it is to be checked, or the removal of a call that the program makes itself,
    /// since that is the first suspect.
    pub fn always_confirms(&self, choice: &bytegauge_model::Spec) -> bool {
        let (Some(task), Some(value)) = (&self.task, choice.value()) else { return false };
        let advised = task.advice.iter().flat_map(|advice| &advice.values);
        let removes = |changes: &SocketChanges| changes.options_of(&value).iter().any(|one| one.level.is_none());
        let mut asked = task.default.iter().chain(advised.map(|advised| &advised.value));
        asked.any(|asked| *asked == value) || self.screens_changes() && task.changes.as_ref().is_some_and(removes)
    }

    /// Whether an option is the present value of a program.
    pub fn is_unchanged(&self, choice: &bytegauge_model::Spec) -> bool {
        self.task.as_ref().is_some_and(|task| task.default.is_some() && task.default == choice.value())
    }

    /// Whether changes of a program are screened: as many as fit are confirmed.
    pub fn screens_changes(&self) -> bool {
        self.families.iter().any(|family| family.finalists == Finalists::ThatFit)
    }

    /// Time of the watched run of a program whose sockets are changed, nanoseconds; 0 without one.
    pub fn watched_ns(&self) -> u64 {
        self.task.as_ref().and_then(|task| task.changes.as_ref()?.watched_ns).unwrap_or(0)
    }

    /// Whether the watched run of a program took so long that few runs of it fit the session's time.
    pub fn has_long_runs(&self) -> bool {
        self.is_long_run(self.watched_ns())
    }

    /// Whether few runs that take this time, nanoseconds, fit the session's time.
    pub fn is_long_run(&self, ns: u64) -> bool {
        self.blocks.is_none() && ns as f64 > self.budget_ns as f64 * LONG_RUN
    }

    /// How long a first run of a changed program may take where one of the session took `shortest_ns`, nanoseconds: one that takes many
    /// times as long is not among the best, and one that exceeds a long run of the program as it is helps as little. In any case it may
    /// take a share of the session's time. `None` where each change gets a number of blocks.
    pub fn run_limit_ns(&self, shortest_ns: u64) -> Option<u64> {
        let watched_ns = self.watched_ns();
        let (most_ns, least_ns) = match self.has_long_runs() {
            // Runs of a busy machine differ by half and more: only a very long one has less room.
            true => ((self.budget_ns * 3 / 10).clamp(watched_ns * 5 / 4, watched_ns * 2), self.budget_ns / 50),
            false => (u64::MAX, self.budget_ns / 20),
        };
        let limit_ns = (LIMIT * shortest_ns).min(most_ns).max(least_ns);
        (watched_ns > 0 && self.blocks.is_none()).then_some(limit_ns)
    }

    /// Calibration trials of a family; for a program the first run, and one each of a few values.
    pub fn calibration_trials(&self, family: &Family) -> u64 {
        match self.task {
            // A long run was watched, and shows how long runs take.
            Some(_) if self.has_long_runs() => 0,
            // A run was watched before, and a screening of all follows.
            Some(_) if self.screens_changes() => 2,
            Some(_) => self.design.calibration_trials.min(family.choices as u64 + 1),
            None => self.design.calibration_trials,
        }
    }

    /// The value that each calibration run of a program takes, among `values`: the middle one twice, since the first run
    /// meets cold caches, and others up to both ends, since the time of a run depends on its value.
    pub fn calibrated_values(&self, values: usize) -> Vec<usize> {
        let others = (self.design.calibration_trials as usize).saturating_sub(1).min(values);
        let middle = values / 2;
        let spread = |at: usize| if others < 2 { middle } else { at * (values - 1) / (others - 1) };
        std::iter::once(middle).chain((0..others).map(spread)).take_while(|_| values > 0).collect()
    }

    /// After calibration: the budget that the fewest blocks need, if it exceeds the given one. `run_ns` is the time of a run of any value, and
    /// `confirmed_ns` that of one of those that are likely confirmed: the slow ones are not. `None` if the budget suffices, without
    /// a task, and for a single value, where any number of blocks is useful.
    pub fn budget_for_runs(&self, run_ns: u64, confirmed_ns: u64, spent_ns: u64) -> Option<u64> {
        self.task.as_ref()?;
        if self.families.iter().all(|family| family.choices < 2) {
            return None;
        }
        let runs = |family: &Family| {
            let (screening, confirmed) = self.fewest_runs(family);
            let each_ns = if family.is_screened() { confirmed_ns } else { run_ns };
            screening.saturating_mul(run_ns).saturating_add(confirmed.saturating_mul(each_ns))
        };
        let runs_ns: u64 = self.families.iter().map(runs).fold(0, u64::saturating_add);
        let runs_ns = runs_ns.saturating_mul(self.stretch());
        let needed_ns = spent_ns + (runs_ns as f64 * SPARE) as u64;
        (self.blocks.is_none() && spent_ns + runs_ns > self.budget_ns).then_some(needed_ns)
    }

    /// The runs of screening, and those of the fewest blocks.
    fn fewest_runs(&self, family: &Family) -> (u64, u64) {
        let Design { screen_blocks, narrow_blocks, narrow_cells, blocks_min, .. } = self.design;
        let (choices, screened) = (family.choices as u64, family.screened.len() as u64);
        let screening = screened * (screen_blocks * choices + narrow_blocks * choices.min(narrow_cells as u64));
        // With an A/A control, and values that are confirmed although they are no finalists.
        let is_kept = |cell: &&Cell| cell.group == family.groups[0] && self.always_confirms(&cell.factors);
        let always = self.cells.iter().filter(is_kept).count() as u64;
        let confirmed = (family.fewest_confirmed() as u64 + always).min(choices) + 1;
        (screening, family.groups.len() as u64 * blocks_min * confirmed)
    }

    /// How long a program's server may take until it is ready, nanoseconds: no longer than a run, and a session of a given time is
    /// useless with a server that takes half of it.
    pub fn ready_ns(&self, run_timeout_ns: u64) -> u64 {
        let is_bound = self.blocks.is_none() && self.budget_is_stated();
        let most = if is_bound { READY_MIN_NS.max(self.budget_ns / 2) } else { u64::MAX };
        most.min(run_timeout_ns)
    }

    /// Whether the user gave the session's time.
    pub fn budget_is_stated(&self) -> bool {
        self.design.blocks_max == BLOCKS_STATED_MAX
    }

    /// Whether the session's time is kept however long runs take: the user gave it, or a watched run shows what fits.
    pub fn keeps_budget(&self) -> bool {
        self.budget_is_stated() || self.watched_ns() > 0
    }

    /// The note if the budget is too short for these runs. A stated budget is kept, and only the blocks that fit are
    /// measured.
    pub fn too_short_for(&self, run_ns: u64, needed_ns: u64) -> String {
        let seconds = needed_ns.div_ceil(1_000_000_000);
        let (blocks, needed) = (self.design.blocks_min, Nanos(seconds * 1_000_000_000));
        let task = self.task.as_ref();
        let run = Nanos(if run_ns < 1_000_000 { run_ns } else { run_ns / 1_000_000 * 1_000_000 });
        let with = if task.is_some_and(|task| task.server.is_some()) { " with its server" } else { "" };
        let options = if task.is_some_and(|task| task.changes.is_some()) { "changes by --option" } else { "values" };
        let fewest = format!("a run{with} takes about {run}, so the minimum of {blocks} blocks needs about {needed}");
        match self.keeps_budget() {
            true => format!(
                "{fewest}: the blocks that fit the budget of {} show large effects only; for others give --time \
                 {seconds}s, fewer {options}, or less to do in a run",
                Nanos(self.budget_ns)
            ),
            false => {
                format!("{fewest}, which the session takes; --time, fewer {options} or shorter runs reduce it")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytegauge_model::factor;
    use bytegauge_model::task::{Advice, AdvisedValue};
    use bytegauge_model::{Metric, OptionChange, ProgramChange, ProgramTask};

    use super::*;
    use crate::{Catalog, resolve};

    fn spec(words: &[&str], flags: &[(&str, &str)]) -> PlanSpec {
        let mut spec = PlanSpec::named("tune", Workload::Tune);
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        spec.task = Some(ProgramTask { default: Some(Level::Number(512)), ..ProgramTask::of(words, Metric::Wall) });
        let flags: Vec<_> =
            flags.iter().map(|(name, text)| (factor::find(name).unwrap(), (*text).to_owned())).collect();
        spec.set_all(&flags).unwrap();
        spec
    }

    fn plan(words: &[&str], flags: &[(&str, &str)]) -> Result<Plan, PlanError> {
        resolve(&spec(words, flags), &Catalog::default(), 1)
    }

    #[test]
    fn values_are_cells_of_one_group() {
        let plan = plan(&["dd", "bs={value}"], &[("value", "512,4K..1M")]).unwrap();
        assert_eq!((plan.groups.len(), plan.cells.len(), plan.families.len()), (1, 10, 1));
        assert!(plan.families[0].is_screened());
        assert!(plan.cells.iter().all(|cell| cell.factors.workload() == Workload::Tune));
        let always = |plan: &Plan| plan.cells.iter().filter(|cell| plan.always_confirms(&cell.factors)).count();
        assert_eq!(always(&plan), 1);
        let mut advised = plan.clone();
        let value =
            |value| AdvisedValue { value: Level::Number(value), question: "TCP".into(), factor: "read_size".into() };
        let advice = Advice { session: 1, values: vec![value(512), value(65_536), value(7)] };
        advised.task.as_mut().unwrap().advice = Some(advice);
        assert_eq!(always(&advised), 2, "the present value, and the recommended one");
        let schedule = plan.schedule();
        assert!(schedule.total_ns() <= plan.budget_ns && schedule.blocks >= 6, "{schedule:?}");
    }

    #[test]
    fn proposed_changes_are_screened() {
        let changed = |are_proposed: bool, flags: &[(&str, &str)], blocks: Option<u64>| {
            let mut spec = spec(&["./client"], flags);
            let set = |level| ProgramChange::from(OptionChange { option: "rcvbuf".into(), level, on: None });
            let mut changes = SocketChanges { are_proposed, ..SocketChanges::default() };
            for level in [None, Some(Level::Number(65_536)), Some(Level::Number(131_072))] {
                changes.add(vec![set(level)]);
            }
            let task = spec.task.as_mut().unwrap();
            (task.changes, task.default) = (Some(changes), Some(Level::Name("as-it-is".into())));
            spec.blocks = blocks;
            resolve(&spec, &Catalog::default(), 1).unwrap()
        };
        let values = [("value", "as-it-is,rcvbuf=unset,rcvbuf=64K,rcvbuf=128K")];
        let family = |plan: &Plan| (plan.families[0].is_screened(), plan.families[0].finalists);
        let proposed = changed(true, &values, None);
        assert_eq!(family(&proposed), (true, Finalists::ThatFit));
        let always = proposed.cells.iter().filter(|cell| proposed.always_confirms(&cell.factors));
        let always: Vec<String> = always.map(|cell| cell.factors.get("value").to_string()).collect();
        assert_eq!(always, ["as-it-is", "rcvbuf=unset"], "the program as it is, and without its own call");
        // The user wants each of these, or gave the number of blocks.
        assert_eq!(family(&changed(false, &values, None)), (false, Finalists::All));
        assert_eq!(family(&changed(true, &values, Some(6))), (false, Finalists::All));
        // A watched run of 4 s: few fit a minute, and a first run of a change is ended when it shows nothing more.
        let watched = |seconds: u64| {
            let mut plan = proposed.clone();
            let changes = plan.task.as_mut().and_then(|task| task.changes.as_mut()).unwrap();
            changes.watched_ns = Some(seconds * 1_000_000_000).filter(|ns| *ns > 0);
            plan
        };
        let limits = |seconds: u64, shortest_ns: u64| watched(seconds).run_limit_ns(shortest_ns);
        assert_eq!([1, 4].map(|seconds| watched(seconds).has_long_runs()), [false, true]);
        assert_eq!([0, 1, 4].map(|seconds| watched(seconds).keeps_budget()), [false, true, true]);
        assert_eq!(limits(0, 1), None, "no run was watched");
        assert_eq!(limits(1, 1_000_000_000), Some(4_000_000_000), "four times the shortest");
        assert_eq!(limits(1, 1_000_000), Some(3_000_000_000), "a share of the minute in any case");
        assert_eq!(limits(4, 4_000_000_000), Some(8_000_000_000), "twice as long as it is");
        assert_eq!(limits(26, 26_000_000_000), Some(32_500_000_000), "little longer");
        assert_eq!(limits(4, 1_000_000), Some(1_200_000_000));
        assert_eq!(watched(4).calibration_trials(&proposed.families[0]), 0);
    }

    #[test]
    fn impossible_commands_are_refused() {
        let check = |words: &[&str], flags: &[(&str, &str)], expected: &str| {
            let error = plan(words, flags).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(&["dd", "bs=4096"], &[], "{value} is not in the command");
        check(&["dd", "count={1M/value}"], &[("value", "3K,4K")], "3 KiB does not divide the 1 MiB");
        check(&["dd", "bs={value}"], &[("placement", "cross-core")], "separates two programs, but there is only one");
        let mut without = spec(&["dd"], &[]);
        without.task = None;
        assert_eq!(resolve(&without, &Catalog::default(), 1).unwrap_err().to_string(), NO_TASK);
    }

    #[test]
    fn long_runs_need_a_longer_budget() {
        let plan = plan(&["dd", "bs={value}"], &[("value", "512,4K,8K")]).unwrap();
        const SECOND: u64 = 1_000_000_000;
        assert_eq!(plan.budget_for_runs(SECOND / 10, SECOND / 10, 0), None);
        // Three values and an A/A control, six times, with some time to spare, and the time of calibration. No value leaves.
        for confirmed_ns in [SECOND, 10 * SECOND] {
            assert_eq!(plan.budget_for_runs(10 * SECOND, confirmed_ns, 0), Some(276 * SECOND));
            assert_eq!(plan.budget_for_runs(10 * SECOND, confirmed_ns, 7 * SECOND), Some(283 * SECOND));
        }
        assert!(!plan.too_short_for(10 * SECOND, 300 * SECOND).contains("show large effects only"));
        let stated = self::plan(&["dd", "bs={value}"], &[("value", "512,4K,8K")]).map(|mut plan| {
            plan.design.blocks_max = BLOCKS_STATED_MAX;
            plan.too_short_for(10 * SECOND, 300 * SECOND)
        });
        assert!(stated.is_ok_and(|note| note.contains("show large effects only; for others give --time 300s")));
        // A single value has no comparison, however many blocks there are.
        let one = self::plan(&["dd", "bs={value}"], &[("value", "512")]).unwrap();
        assert_eq!(one.budget_for_runs(10 * SECOND, 10 * SECOND, 0), None);
        // The fast ones of ten values are confirmed.
        let ten = self::plan(&["dd", "bs={value}"], &[("value", "512,4K..1M")]).unwrap();
        let needs = |confirmed: u64| ten.budget_for_runs(10 * SECOND, confirmed * SECOND, 0).expect("more time");
        assert!(needs(1) < needs(10) / 2, "{} {}", needs(1), needs(10));
    }

    #[test]
    fn a_stated_time_bounds_waits_for_servers() {
        let ready_ns = |stated: bool, budget_ns: u64| {
            let mut plan = plan(&["dd", "bs={value}"], &[]).unwrap();
            plan.budget_ns = budget_ns;
            if stated {
                plan.design.blocks_max = BLOCKS_STATED_MAX;
            }
            plan.ready_ns(60_000_000_000)
        };
        assert_eq!(ready_ns(true, 30_000_000_000), 15_000_000_000);
        assert_eq!(ready_ns(true, 3_000_000_000), READY_MIN_NS);
        assert_eq!(ready_ns(true, 300_000_000_000), 60_000_000_000);
        assert_eq!(ready_ns(false, 30_000_000_000), 60_000_000_000);
    }

    #[test]
    fn calibration_runs_both_ends_of_the_values() {
        let check = |values: usize, list: &str, expected: &[usize]| {
            let plan = plan(&["dd", "bs={value}"], &[("value", list)]).unwrap();
            assert_eq!(plan.calibrated_values(values), expected, "{list}");
            assert_eq!(plan.calibration_trials(&plan.families[0]), expected.len() as u64, "{list}");
        };
        check(1, "512", &[0, 0]);
        check(2, "512,1K", &[1, 0, 1]);
        check(3, "512,1K,2K", &[1, 0, 1, 2]);
        check(5, "512,1K,2K,4K,8K", &[2, 0, 2, 4]);
        assert_eq!(plan(&["dd", "bs={value}"], &[("value", "512")]).unwrap().calibrated_values(0), [0_usize; 0]);
    }
}
