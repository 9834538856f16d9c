//! The time that a trial, a block and all stages of a plan take: by assumption before anything is measured, then as measured. Never
//! reads the clock.

use std::collections::HashSet;

use bytegauge_model::unit::audit_after_ns;
use bytegauge_model::{GroupId, Spec, Workload};

use crate::design::{AUDIT_CELLS_MIN, StageTimes};
use crate::missing_features::connections;
use crate::plan::{GroupFacts, Index, Plan};
use crate::trial_length::{assumed, lengths_ns, search_trial_ns};

/// Assumed time until each byte of a flow's request has memory at both ends, nanoseconds: 1,000 flows of 32 KiB took 0.2 s.
const FLOW_BYTE_NS: u64 = 6;

impl Plan {
    /// Calls per second in a group: as measured, else as assumed for its conditions.
    pub fn pace(&self, group: &GroupId, conditions: &Spec) -> f64 {
        self.seen.paces.get(group).copied().unwrap_or_else(|| assumed(conditions))
    }

    /// What a trial takes in addition to its warm-up and its window: as measured, else as assumed for its conditions,
    /// nanoseconds.
    pub fn overhead_ns(&self, conditions: &Spec, measured_ns: Option<u64>) -> u64 {
        let flow_ns = self.design.flow_overhead_ns + conditions.request().unwrap_or(0) * FLOW_BYTE_NS;
        measured_ns.unwrap_or_else(|| self.design.overhead_ns + connections(conditions) * flow_ns)
    }

    /// A trial of the harness's own loop, which has one flow regardless of the cells, nanoseconds; 0 for a program, since the
    /// harness costs nothing while one runs.
    pub fn floor_trial_ns(&self, measured_ns: Option<u64>) -> u64 {
        let measured_ns = measured_ns.filter(|_| self.workload != Workload::Call);
        match self.workload {
            Workload::Tune => 0,
            _ => self.design.floor_ns + measured_ns.unwrap_or(self.design.overhead_ns),
        }
    }

    /// A block whose trials take this time, with their rests and its own overhead, nanoseconds.
    pub fn block_ns(&self, trials_ns: u64, overhead_ns: u64) -> u64 {
        self.stretch() * trials_ns + overhead_ns
    }

    /// The time of each stage, with the warm-ups that the design assumes.
    pub fn schedule(&self) -> StageTimes {
        self.schedule_of(&Index::of(self))
    }

    /// The same by an index of this plan's groups, which stays valid while lengths, counts and families change.
    pub(crate) fn schedule_of(&self, index: &Index) -> StageTimes {
        let (design, asked) = (&self.design, self.objective);
        let mut schedule = StageTimes::default();
        let measured_ns = |group: &GroupId| self.seen.overheads_ns.get(group).copied();
        let mut shortest_audit_ns: Option<u64> = None;
        for family in &self.families {
            let live: Vec<&GroupId> = family.groups.iter().filter(|group| index.is_live(group)).collect();
            let conditions = || live.iter().map(|group| index.conditions(self, group));
            let of = |group: &GroupId| {
                let conditions = index.conditions(self, group);
                (conditions, self.overhead_ns(conditions, measured_ns(group)), self.pace(group, conditions))
            };
            let placements: HashSet<_> = conditions().map(Spec::placement).collect();
            if conditions().any(|levels| design.calibrates(levels)) {
                let trial_ns = |group: &&GroupId| {
                    let (conditions, overhead_ns, pace) = of(group);
                    let lengths = (design.fresh.warmup_ns, design.calibration_ns);
                    let (warmup_ns, window_ns) = lengths_ns(conditions, asked, lengths, pace);
                    warmup_ns + window_ns + overhead_ns
                };
                let trial_ns = live.iter().map(trial_ns).max().unwrap_or(0);
                let trials = placements.len() as u64 * self.calibration_trials(family);
                schedule.calibrate_ns += self.block_ns(trials * trial_ns, 0);
            }
            if family.is_screened() {
                let cells = family.choices as u64;
                let narrowed = cells.min(design.narrow_cells as u64);
                for group in &family.screened {
                    let (conditions, overhead_ns, pace) = of(group);
                    let lengths = design.screening_ns(conditions, None);
                    let trial_ns = search_trial_ns(conditions, asked, lengths, overhead_ns, pace);
                    schedule.screen_ns += design.screen_blocks * self.block_ns(cells * trial_ns, 0);
                    schedule.narrow_ns += design.narrow_blocks * self.block_ns(narrowed * trial_ns, 0);
                }
            }
            for group in live {
                let GroupFacts { duration_ns: explicit, artefacts, .. } = index.get(group);
                let (conditions, overhead_ns, pace) = of(group);
                let window_ns = explicit.unwrap_or(family.trial_ns);
                let warmup_ns = design.confirm_warmup_ns(conditions, None);
                let trial_ns = search_trial_ns(conditions, asked, (warmup_ns, window_ns), overhead_ns, pace);
                let needed_ns =
                    explicit.unwrap_or_else(|| lengths_ns(conditions, asked, (warmup_ns, window_ns), pace).1);
                if family.confirmed() > 1 && design.audits(conditions, needed_ns) {
                    let block_ns = self.block_ns(AUDIT_CELLS_MIN * (design.audit_ns + warmup_ns + overhead_ns), 0);
                    shortest_audit_ns = Some(shortest_audit_ns.map_or(block_ns, |ns| ns.min(block_ns)));
                }
                let trials = family.fewest_confirmed() as u64 + u64::from(family.confirmed() > 1) + artefacts;
                schedule.confirm_round_ns +=
                    self.block_ns(trials * trial_ns + self.floor_trial_ns(measured_ns(group)), 0);
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
        let round_ns = schedule.confirm_round_ns as f64;
        let blocks_in = |left_ns: f64| self.blocks.unwrap_or_else(|| design.fitting_blocks(left_ns, round_ns));
        // The long-trial check gets at most the time that is left after the minimum number of blocks.
        let fewest_ns = round_ns * design.blocks_min as f64;
        let share_ns = (self.budget_ns as f64 * self.audit).min(left_ns - fewest_ns).max(0.0);
        schedule.blocks = blocks_in(left_ns - share_ns);
        let done_ns = schedule.total_ns();
        schedule.audit_ns = match self.blocks {
            // In proportion to the requested blocks; else in proportion to the budget, of which less may be needed.
            Some(_) => audit_after_ns(self.audit, done_ns),
            None => audit_after_ns(self.audit, done_ns).min(share_ns as u64),
        };
        if shortest_audit_ns.is_none_or(|block_ns| schedule.audit_ns < block_ns) {
            schedule.audit_ns = 0;
            schedule.blocks = blocks_in(left_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::parse;
    use crate::missing_features::Catalog;
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
