//! What a program of the user's asks of a plan: that its values fit its command, that the value which is there now is
//! among them, and that a run takes no longer than the budget has room for.

use bytegauge_model::{Level, Nanos, Workload, factor};

use crate::design::{BLOCKS_STATED_MAX, Design};
use crate::plan::{Family, Plan};
use crate::spec::{PlanError, Spec};

/// The factor whose levels are tried.
pub(crate) const VALUE: &str = "value";

/// Part of the budget that the fewest blocks may be forecast to take: forecasts of one run are no better.
const SPARE: f64 = 1.25;

/// A task without values that fit it, or a workload without its task.
pub(crate) fn refuse_what_no_task_can(spec: &Spec) -> Result<(), PlanError> {
    let task = match (&spec.task, spec.workload) {
        (Some(task), Workload::Check) => task,
        (None, Workload::Check) => return Err(PlanError::NoTask),
        _ => return Ok(()),
    };
    if spec.verify {
        return Err(PlanError::NoBytes);
    }
    let named = |name: &str| factor::find(name);
    for part in &spec.parts {
        let levels = named(VALUE).map(|factor| part.levels(spec.workload, factor, None)).unwrap_or_default();
        task.check(&levels).map_err(|error| PlanError::ProgramTask(error.to_string()))?;
        let placements = named("placement").map(|factor| part.levels(spec.workload, factor, None)).unwrap_or_default();
        let apart = |level: &&Level| !matches!(level.name(), Some("unpinned" | "same-cpu"));
        if let Some(placement) = placements.iter().find(apart).filter(|_| task.server.is_none()) {
            return Err(PlanError::ProgramTask(format!(
                "--placement {placement} sets two programs apart, and there is one: use unpinned or same-cpu, or name a \
                 server with --start"
            )));
        }
    }
    Ok(())
}

impl Plan {
    /// Whether a choice is confirmed whatever screening shows: it is what the user has now, and what is gained over it is
    /// asked; or what an earlier session advised, and whether that holds is asked.
    pub fn always_confirms(&self, choice: &bytegauge_model::Levels) -> bool {
        let asked = self.task.iter().flat_map(|task| {
            let advised = task.advice.iter().flat_map(|advice| &advice.values);
            task.default.iter().chain(advised.map(|advised| &advised.value))
        });
        asked.into_iter().any(|value| choice.get(VALUE) == value)
    }

    /// Once it is known what a run takes: the budget that the fewest blocks need, where it is more than there is.
    /// `None` where it suffices, or where no task is run.
    pub fn budget_for_runs(&self, run_ns: u64) -> Option<u64> {
        self.task.as_ref()?;
        let Design { screen_blocks, narrow_blocks, narrow_cells, blocks_min, .. } = self.design;
        let runs = |family: &Family| {
            let (choices, screened) = (family.choices as u64, family.screened.len() as u64);
            let screening = screened * (screen_blocks * choices + narrow_blocks * choices.min(narrow_cells as u64));
            // With a twin, and what is always confirmed.
            let confirmed = family.confirmed() as u64 + 2;
            screening + family.groups.len() as u64 * blocks_min * confirmed
        };
        let runs: u64 = self.families.iter().map(runs).sum();
        let needed_ns = (runs.saturating_mul(self.stretch() * run_ns) as f64 * SPARE) as u64;
        (self.blocks.is_none() && needed_ns > self.budget_ns).then_some(needed_ns)
    }

    /// Whether the user said how long the session may take.
    pub fn budget_is_stated(&self) -> bool {
        self.design.blocks_max == BLOCKS_STATED_MAX
    }

    /// What to do where a stated budget is too short for runs that take so long.
    pub fn too_short_for(&self, run_ns: u64, needed_ns: u64) -> String {
        let seconds = needed_ns.div_ceil(1_000_000_000);
        format!(
            "a run takes about {}, so the fewest blocks that prove anything take {}: give --budget {seconds}s, fewer \
             values, or less to do in a run",
            Nanos(run_ns),
            Nanos(seconds * 1_000_000_000)
        )
    }
}

#[cfg(test)]
mod tests {
    use bytegauge_model::task::{Advice, AdvisedValue};
    use bytegauge_model::{Metric, ProgramTask};

    use super::*;
    use crate::{Catalog, resolve};

    fn spec(words: &[&str], flags: &[(&str, &str)]) -> Spec {
        let mut spec = Spec::named("check", Workload::Check);
        spec.task = Some(ProgramTask {
            command: words.iter().map(|word| (*word).to_owned()).collect(),
            by_value: Default::default(),
            prepare: None,
            server: None,
            metric: Metric::Wall,
            default: Some(Level::Number(512)),
            advice: None,
        });
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
        assert!(plan.cells.iter().all(|cell| cell.factors.workload() == Workload::Check));
        let always = |plan: &Plan| plan.cells.iter().filter(|cell| plan.always_confirms(&cell.factors)).count();
        assert_eq!(always(&plan), 1);
        let mut advised = plan.clone();
        let value = |value| AdvisedValue {
            value: Level::Number(value),
            question: "TCP".into(),
            factor: "read_size".into(),
            against_default: None,
        };
        let advice = Advice { session: 1, values: vec![value(512), value(65_536), value(7)] };
        advised.task.as_mut().unwrap().advice = Some(advice);
        assert_eq!(always(&advised), 2, "what is there now, and the advised value that is among those tried");
        let schedule = plan.schedule();
        assert!(schedule.total_ns() <= plan.budget_ns && schedule.blocks >= 6, "{schedule:?}");
    }

    #[test]
    fn what_no_command_can_be_is_refused() {
        let check = |words: &[&str], flags: &[(&str, &str)], expected: &str| {
            let error = plan(words, flags).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(&["dd", "bs=4096"], &[], "{value} stands nowhere in the command");
        check(&["dd", "count={count:1M}"], &[("value", "3K,4K")], "3 KiB does not divide the 1 MiB");
        check(&["dd", "bs={value}"], &[("placement", "cross-core")], "sets two programs apart, and there is one");
        let mut without = spec(&["dd"], &[]);
        without.task = None;
        assert_eq!(resolve(&without, &Catalog::default(), 1).unwrap_err(), PlanError::NoTask);
    }

    #[test]
    fn long_runs_need_a_longer_budget() {
        let plan = plan(&["dd", "bs={value}"], &[("value", "512,4K,8K")]).unwrap();
        assert_eq!(plan.budget_for_runs(100_000_000), None);
        // Three values, a twin and one more, six times, and a quarter to spare.
        assert_eq!(plan.budget_for_runs(10_000_000_000), Some(375_000_000_000));
        assert!(plan.too_short_for(10_000_000_000, 375_000_000_000).contains("--budget 375s"));
    }
}
