//! Forecasts the time of a plan, and shortens the plan until it fits its budget. Never reads the clock.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};

use bytegauge_model::forecast::{audit_after_ns, forecast};
use bytegauge_model::session::SLOWER;
use bytegauge_model::unit::counted;
use bytegauge_model::{Group, GroupId, Level, Nanos, Spec, factor};

use crate::design::{AUDIT_CELLS_MIN, FINALISTS, FINALISTS_MIN, Finalists, OVERTIME, StageTimes};
use crate::error::PlanError;
use crate::index::{GroupFacts, Index};
use crate::missing_features::connections;
use crate::plan::{Family, Plan};
use crate::{search, trial_length};

/// Assumed time until each byte of a flow's request has memory at both ends, nanoseconds: 1,000 flows of 32 KiB took 0.2 s.
const FLOW_BYTE_NS: u64 = 6;

/// The most of the budget that calibration takes before its trials become shorter.
const CALIBRATION_MAX: f64 = 0.08;

/// By how much they become shorter at a time, which is also their least length, nanoseconds.
const CALIBRATION_STEP_NS: u64 = 50_000_000;

/// Lists of levels that an error names.
const LISTS_NAMED: usize = 3;

impl Plan {
    /// Calls per second in a group: as measured, else as assumed for its conditions.
    pub fn pace(&self, group: &GroupId, conditions: &Spec) -> f64 {
        self.seen.paces.get(group).copied().unwrap_or_else(|| trial_length::assumed(conditions))
    }

    /// The time of each stage, with the warm-ups that the design assumes.
    pub fn schedule(&self) -> StageTimes {
        self.schedule_of(&Index::of(self))
    }

    /// The same by an index of this plan's groups, which stays valid while lengths, counts and families change.
    fn schedule_of(&self, index: &Index) -> StageTimes {
        let design = &self.design;
        let mut schedule = StageTimes::default();
        let stretch = self.stretch();
        let mut shortest_audit_ns: Option<u64> = None;
        for family in &self.families {
            let live: Vec<&GroupId> = family.groups.iter().filter(|group| index.is_live(group)).collect();
            let conditions = || live.iter().map(|group| index.conditions(self, group));
            let of = |group: &GroupId| {
                let conditions = index.conditions(self, group);
                let flow_ns = design.flow_overhead_ns + conditions.request().unwrap_or(0) * FLOW_BYTE_NS;
                let assumed_ns = design.overhead_ns + connections(conditions) * flow_ns;
                let seen_ns = self.seen.overheads_ns.get(group).copied();
                (conditions, seen_ns.unwrap_or(assumed_ns), self.pace(group, conditions))
            };
            let placements: HashSet<_> = conditions().map(Spec::placement).collect();
            if conditions().any(|levels| design.calibrates(levels)) {
                let trial_ns = |group: &&GroupId| {
                    let (conditions, overhead_ns, pace) = of(group);
                    let lengths = (design.fresh.warmup_ns, design.calibration_ns);
                    trial_length::trial_ns(conditions, lengths, overhead_ns, pace)
                };
                let trial_ns = live.iter().map(trial_ns).max().unwrap_or(0);
                schedule.calibrate_ns += stretch * placements.len() as u64 * self.calibration_trials(family) * trial_ns;
            }
            if family.is_screened() {
                let cells = family.choices as u64;
                let narrowed = cells.min(design.narrow_cells as u64);
                for group in &family.screened {
                    let (conditions, overhead_ns, pace) = of(group);
                    let lengths = design.screening_ns(conditions, None);
                    let trial_ns = search::trial_ns(conditions, lengths, overhead_ns, pace);
                    schedule.screen_ns += stretch * cells * design.screen_blocks * trial_ns;
                    schedule.narrow_ns += stretch * narrowed * design.narrow_blocks * trial_ns;
                }
            }
            let aside: HashSet<&GroupId> = family.aside.iter().collect();
            for group in live {
                let GroupFacts { duration_ns: explicit, artefacts, .. } = index.get(group);
                let (conditions, overhead_ns, pace) = of(group);
                let window_ns = explicit.unwrap_or(family.trial_ns);
                let warmup_ns = design.confirm_warmup_ns(conditions, None);
                let trial_ns = search::trial_ns(conditions, (warmup_ns, window_ns), overhead_ns, pace);
                let needed_ns =
                    explicit.unwrap_or_else(|| trial_length::lengths_ns(conditions, (warmup_ns, window_ns), pace).1);
                if family.confirmed() > 1 && design.audits(conditions, needed_ns) {
                    let block_ns = stretch * AUDIT_CELLS_MIN * (design.audit_ns + warmup_ns + overhead_ns);
                    shortest_audit_ns = Some(shortest_audit_ns.map_or(block_ns, |ns| ns.min(block_ns)));
                }
                let trials = family.fewest_confirmed() as u64 + u64::from(family.confirmed() > 1) + artefacts;
                // The harness costs nothing while a program runs, so it has no trial then.
                let floor_ns = if self.task.is_some() { 0 } else { design.floor_ns + design.overhead_ns };
                let round_ns = stretch * (trials * trial_ns + floor_ns);
                if aside.contains(group) {
                    schedule.aside_round_ns += round_ns;
                } else {
                    schedule.confirm_round_ns += round_ns;
                }
            }
        }
        if let Some(calibrated_ns) = self.seen.calibrated_ns {
            schedule.calibrate_ns = calibrated_ns;
        }
        self.share_time(&mut schedule, shortest_audit_ns);
        schedule
    }

    /// Divides the time that calibration and screening leave between confirmation and the long-trial check, which gets none if it
    /// would be shorter than a block.
    fn share_time(&self, schedule: &mut StageTimes, shortest_audit_ns: Option<u64>) {
        let design = &self.design;
        let fixed_ns = schedule.calibrate_ns + schedule.screen_ns + schedule.narrow_ns;
        let left_ns = self.budget_ns as f64 * (1.0 - design.reserve) - fixed_ns as f64;
        let rounds = (schedule.confirm_round_ns as f64, schedule.aside_round_ns as f64);
        let confirm = |schedule: &mut StageTimes, left_ns: f64| {
            schedule.blocks = self.blocks.unwrap_or_else(|| design.fitting_blocks(left_ns, rounds.0, rounds.1));
            schedule.aside_blocks = design.aside_blocks(schedule.blocks);
        };
        // The long-trial check gets at most the time that is left after the minimum number of blocks.
        let (fewest, aside) = (design.blocks_min, design.aside_blocks(design.blocks_min));
        let fewest_ns = rounds.0 * fewest as f64 + rounds.1 * aside as f64;
        let share_ns = (self.budget_ns as f64 * self.audit).min(left_ns - fewest_ns).max(0.0);
        confirm(schedule, left_ns - share_ns);
        let done_ns = schedule.total_ns();
        schedule.audit_ns = match self.blocks {
            // In proportion to the requested blocks; else in proportion to the budget, of which less may be needed.
            Some(_) => audit_after_ns(self.audit, done_ns),
            None => audit_after_ns(self.audit, done_ns).min(share_ns as u64),
        };
        if shortest_audit_ns.is_none_or(|block_ns| schedule.audit_ns < block_ns) {
            schedule.audit_ns = 0;
            confirm(schedule, left_ns);
        }
    }

    /// Fits the budget before anything is measured. A plan that takes more than `overrun` times the budget is refused.
    pub(crate) fn fit_or_refuse(&mut self, overrun: f64) -> Result<(), PlanError> {
        let given_ns = self.budget_ns;
        let notes = self.fit_budget();
        // The forecast, not the budget, which is rounded up.
        if self.budget_ns > given_ns && self.schedule().total_ns() as f64 > given_ns as f64 * overrun {
            return Err(PlanError::Budget {
                budget: Nanos(given_ns).to_string(),
                cells: self.cells.len(),
                of: counted(self.groups.len(), "test"),
                needed: format!("{}s", self.budget_ns.div_ceil(1_000_000_000)),
                shorter: self.shorter(),
            });
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
    use crate::capabilities::Catalog;
    use crate::file::parse;
    use crate::plan::SeenPace;
    use crate::resolve::resolve;
    use crate::spec::PlanSpec;

    fn schedule(text: &str) -> StageTimes {
        let unix = if text.contains("transport") { "" } else { "transport = \"unix\"\nwrite-size = \"64K\"\n" };
        let text = format!("{unix}read-size = \"4K,64K\"\n{text}");
        resolve(&parse("t", &text).unwrap(), &Catalog::default(), 1).unwrap().schedule()
    }

    #[test]
    fn a_check_leaves_time_for_the_fewest_blocks() {
        let check = |text: &str, audited: bool| {
            let with = schedule(text);
            let without = schedule(&format!("{text}\nlong-trials = false"));
            assert_eq!((with.audit_ns > 0, without.audit_ns), (audited, 0), "{text}: {with:?}");
            let others_ns = with.total_ns() - with.audit_ns;
            assert!(with.audit_ns <= others_ns / 9 + 1, "{text}: {with:?}");
            assert!(with.blocks >= 6 && with.blocks <= without.blocks, "{text}: {with:?} {without:?}");
        };
        check("time = \"60s\"", true);
        check("blocks = 100", true);
        check("blocks = 6", false);
        check("time = \"5s\"", false);
        check("time = \"60s\"\ntrial-time = \"300ms\"", false);
        check("time = \"60s\"\ntransport = \"/dev/zero\"", false);
    }

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

    #[test]
    fn rests_are_a_part_of_the_plan() {
        let check = |text: &str| {
            let text = format!("transport = \"unix\"\nwrite-size = \"64K\"\nread-size = \"4K,64K\"\n{text}");
            let spec = parse("t", &text).unwrap();
            let steady = resolve(&spec, &Catalog::default(), 1).unwrap().schedule();
            let gentle = resolve(&PlanSpec { gentle: true, ..spec }, &Catalog::default(), 1).unwrap();
            let budget_ns = gentle.budget_ns;
            let gentle = gentle.schedule();
            assert_eq!(gentle.confirm_round_ns, 2 * steady.confirm_round_ns, "{text}");
            assert!(gentle.blocks < steady.blocks && gentle.blocks >= 6, "{text}: {gentle:?} {steady:?}");
            assert!(gentle.total_ns() <= budget_ns, "{text}: {gentle:?}");
        };
        check("time = \"20s\"");
        check("time = \"60s\"");
        check("time = \"60s\"\nlong-trials = false");
    }
}
