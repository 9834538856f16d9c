//! Shortens a plan until it fits its budget. Never reads the clock.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use bytegauge_model::session::SLOWER;
use bytegauge_model::unit::{counted, forecast};
use bytegauge_model::{Group, GroupId, Level, Nanos, factor};

use crate::PlanError;
use crate::design::{FINALISTS, FINALISTS_MIN, Finalists, OVERTIME};
use crate::plan::{Family, Index, Plan};

/// The most of the budget that calibration takes before its trials become shorter.
const CALIBRATION_MAX: f64 = 0.08;

/// By how much they become shorter at a time, which is also their least length, nanoseconds.
const CALIBRATION_STEP_NS: u64 = 50_000_000;

/// Lists of levels that an error names.
const LISTS_NAMED: usize = 3;

impl Plan {
    /// Fits the budget before anything is measured. A plan that takes more than `overrun` times the budget is refused.
    pub(crate) fn fit_or_refuse(&mut self, overrun: f64) -> Result<(), PlanError> {
        let given_ns = self.budget_ns;
        let notes = self.fit_budget();
        // The forecast, not the budget, which is rounded up.
        if self.budget_ns > given_ns && self.schedule().total_ns() as f64 > given_ns as f64 * overrun {
            let (given, needed_s) = (Nanos(given_ns), self.budget_ns.div_ceil(1_000_000_000));
            return Err(PlanError::Budget(format!(
                "a budget of {given} is too short for {} options in {}: give --time {needed_s}s or more{}",
                self.cells.len(),
                counted(self.groups.len(), "test"),
                self.shorter()
            )));
        }
        self.notes.extend(notes);
        Ok(())
    }

    /// Names the longest lists of levels, and a screening, which would make the plan shorter. A single test keeps two levels.
    fn shorter(&self) -> String {
        let levels = |name: &str| {
            let levels = self.cells.iter().map(|cell| cell.factors.get(name)).filter(|level| *level != Level::Absent);
            levels.collect::<BTreeSet<Level>>().len()
        };
        let mut lists: Vec<(usize, String)> = factor::of(self.workload)
            .map(|row| (levels(row.name), row.flag()))
            .filter(|(levels, _)| *levels > if self.families.len() > 1 { 1 } else { 2 })
            .collect();
        lists.sort_by_key(|(levels, _)| Reverse(*levels));
        let lists: Vec<String> =
            lists.iter().take(LISTS_NAMED).map(|(levels, flag)| format!("--{flag} has {levels}")).collect();
        let mut text =
            if lists.is_empty() { String::new() } else { format!(", or fewer levels ({})", lists.join(", ")) };
        if self.families.iter().any(|family| family.named && family.choices > FINALISTS) {
            text.push_str(&format!(", or --finalists {FINALISTS} to confirm only the best of a screening"));
        }
        text
    }

    /// Shortens what may be shortened, then confirms fewer options, until the minimum number of blocks fits. If they still do
    /// not fit, extends the budget. Returns notes for the user.
    pub fn fit_budget(&mut self) -> Vec<String> {
        let budget_ns = self.budget_ns;
        // Walks all cells once: whether a cell can be measured, and in what group, does not change here.
        let index = Index::of(self);
        let calibration_share = |plan: &Plan| plan.schedule_of(&index).calibrate_ns as f64 / budget_ns as f64;
        while self.seen.calibrated_ns.is_none()
            && calibration_share(self) > CALIBRATION_MAX
            && self.design.calibration_ns > CALIBRATION_STEP_NS
        {
            self.design.calibration_ns -= CALIBRATION_STEP_NS;
        }
        if self.blocks.is_some() {
            return Vec::new();
        }
        // An excess within the error of a forecast removes no option, and changes nothing after the start.
        let total_ns = |plan: &Plan| plan.schedule_of(&index).total_ns();
        let far_over = |plan: &Plan| total_ns(plan) as f64 > budget_ns as f64 * OVERTIME;
        let begun = self.seen.calibrated_ns.is_some();
        let over = |plan: &Plan| if begun { far_over(plan) } else { total_ns(plan) > budget_ns };
        let steps: [fn(&mut Plan); 4] = [
            |plan| plan.design.narrow_blocks = 1,
            |plan| {
                for lengths in [&mut plan.design.fresh, &mut plan.design.steady] {
                    lengths.screen_ns = lengths.shortest_ns.0;
                }
            },
            |plan| plan.design.screen_blocks = 1,
            |plan| {
                let by_id: HashMap<&GroupId, &Group> = plan.groups.iter().map(|group| (&group.id, group)).collect();
                for family in &mut plan.families {
                    // Groups are in the order of the plan.
                    let conditions = family.groups.first().and_then(|group| by_id.get(group));
                    let shortest_ns = conditions.map(|group| plan.design.shortest_confirm_ns(&group.factors));
                    family.trial_ns = family.trial_ns.min(shortest_ns.unwrap_or(family.trial_ns));
                }
            },
        ];
        for step in steps {
            if !over(self) {
                return Vec::new();
            }
            step(self);
        }
        let mut notes = Vec::new();
        let (before, before_ns) = (self.most_confirmed(), total_ns(self));
        for most in (FINALISTS_MIN..=FINALISTS).rev() {
            if far_over(self) {
                self.confirm_at_most(most, &index);
            }
        }
        let kept = self.most_confirmed();
        if kept < before {
            notes.push(match begun {
                true => format!("{SLOWER}{kept} of {before} options of a test confirmed"),
                false => format!(
                    "a budget of {} is too short to confirm all options, which takes about {}: {kept} of {before} options of a \
 test are confirmed, the best of a screening",
                    Nanos(budget_ns),
                    forecast(before_ns)
                ),
            });
        }
        if over(self) {
            let needed = forecast((total_ns(self) as f64 / (1.0 - self.design.reserve)) as u64);
            self.budget_ns = needed.0;
            notes.push(self.takes_longer(needed, Nanos(budget_ns)));
        }
        notes
    }

    /// The note for a session that takes longer than given or planned, since the minimum number of blocks does.
    pub fn takes_longer(&self, needed: Nanos, planned: Nanos) -> String {
        let why = if self.seen.calibrated_ns.is_some() { " (trials take longer here than planned)" } else { "" };
        format!(
            "this takes about {needed}, not {planned}: at least {} blocks are necessary{why}; shorter lists, of \
             conditions or of options, take less",
            self.design.blocks_min
        )
    }

    fn most_confirmed(&self) -> usize {
        self.families.iter().map(Family::confirmed).max().unwrap_or(0)
    }

    /// Confirms at most `most` options of each family that usually has more, the best of a screening, where
    /// that takes less time.
    fn confirm_at_most(&mut self, most: usize, index: &Index) {
        let (before, before_ns) = (self.families.clone(), self.schedule_of(index).total_ns());
        for family in self.families.iter_mut().filter(|family| !family.named && family.choices > FINALISTS) {
            family.finalists = Finalists::Cap(family.confirmed().min(most));
            if family.screened.is_empty() {
                family.screened.clone_from(&family.groups);
            }
        }
        self.screen_what_is_left(index);
        if self.schedule_of(index).total_ns() >= before_ns {
            self.families = before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::parse;
    use crate::missing_features::Catalog;
    use crate::plan::SeenPace;
    use crate::resolve::resolve;

    /// Calls with a connection each, with the given receive buffers under two conditions, all of them confirmed.
    fn calls(rcvbuf: &str, budget: &str) -> Result<Plan, PlanError> {
        let text = format!(
            "workload = \"call\"\ntransport = \"tcp\"\nprofile = \"rpc\"\nplacement = \"cross-core\"\nflows = 20\n\
             competing-flows = \"0,20\"\nconnect-per-call = \"on\"\nfinalists = \"all\"\ntrial = \"80ms\"\n\
             server-engine = \"blocking,epoll\"\nrcvbuf = \"{rcvbuf}\"\ntime = \"{budget}\""
        );
        resolve(&parse("t", &text).unwrap(), &Catalog::default(), 1)
    }

    const MANY: &str = "auto,1K,2K,4K,8K,16K,32K,64K,128K,256K,512K,1M";

    #[test]
    fn fewer_options_are_confirmed_in_a_short_budget() {
        let plan = calls(MANY, "120s").unwrap();
        assert!(!plan.families[0].is_screened() && plan.notes.is_empty(), "{:?}", plan.notes);
        let plan = calls(MANY, "15s").unwrap();
        let schedule = plan.schedule();
        assert!(plan.families[0].is_screened() && plan.families[0].screened.len() == 2, "{:?}", plan.families[0]);
        assert!(schedule.screen_ns > 0 && schedule.blocks >= 6 && schedule.total_ns() <= plan.budget_ns);
        let kept = plan.families[0].confirmed();
        assert!((2..=6).contains(&kept), "{kept}");
        let expected = format!("{kept} of 24 options of a test are confirmed, the best of a screening");
        assert!(plan.notes.iter().any(|note| note.contains(&expected)), "{:?}", plan.notes);
    }

    #[test]
    fn a_short_budget_grows_for_fewest_blocks() {
        // Two options: no further shortening is possible.
        let plan = calls("auto", "3100ms").unwrap();
        let schedule = plan.schedule();
        assert!(plan.budget_ns > 3_100_000_000 && schedule.total_ns() <= plan.budget_ns, "{schedule:?}");
        assert!(schedule.blocks >= 6, "{schedule:?}");
        let expected = format!("this takes about {}, not 3.1 s", Nanos(plan.budget_ns));
        assert!(plan.notes.iter().any(|note| note.starts_with(&expected)), "{:?}", plan.notes);
        // A plan that takes far longer is refused.
        let refused = calls("auto", "1s").unwrap_err().to_string();
        assert!(refused.contains(&format!("give --time {}s", plan.budget_ns / 1_000_000_000)), "{refused}");
    }

    #[test]
    fn a_session_with_slow_calls_is_fitted_again() {
        let mut plan = calls(MANY, "120s").unwrap();
        let seen = |per_second: f64| SeenPace {
            calibrated_ns: Some(2_000_000_000),
            paces: plan.groups.iter().map(|group| (group.id.clone(), per_second)).collect(),
            overheads_ns: Default::default(),
        };
        let (usual, slow, slowest) = (seen(2_500.0), seen(500.0), seen(1.0));
        plan.seen = usual;
        assert_eq!(plan.fit_budget(), Vec::<String>::new());
        assert!(!plan.families[0].is_screened());
        plan.seen = slow;
        let notes = plan.fit_budget();
        let kept = plan.families[0].confirmed();
        assert_eq!(notes, [format!("slower than planned, so only {kept} of 24 options of a test confirmed")]);
        assert!(kept <= 6 && plan.budget_ns == 120_000_000_000);
        plan.seen = slowest;
        plan.budget_ns = 15_000_000_000;
        let notes = plan.fit_budget();
        let note = notes.last().unwrap();
        assert!(note.starts_with(&format!("this takes about {}, not 15 s", Nanos(plan.budget_ns))), "{note}");
        assert!(note.contains("trials take longer here than planned"), "{note}");
        assert!(plan.schedule().total_ns() <= plan.budget_ns);
    }
}
