//! How long a plan takes, and what of it is shortened until it fits its budget. Never reads the clock.

use bytegauge_model::forecast::audit_after_ns;
use bytegauge_model::slo::PACE_ASSUMED;
use bytegauge_model::unit::counted;
use bytegauge_model::{GroupId, Nanos};

use crate::design::{AUDIT_CELLS_MIN, Schedule};
use crate::index::{Index, NO_LEVELS};
use crate::missing::connections;
use crate::plan::Plan;
use crate::search;
use crate::spec::PlanError;

impl Plan {
    /// What each stage takes, with the warm-ups that the design assumes.
    pub fn schedule(&self) -> Schedule {
        let design = &self.design;
        let mut schedule = Schedule::default();
        let index = Index::of(self);
        let stretch = self.stretch();
        let mut shortest_audit_ns: Option<u64> = None;
        for family in &self.families {
            let live: Vec<&GroupId> = family.groups.iter().filter(|group| index.is_live(group)).collect();
            let conditions = || live.iter().filter_map(|group| index.conditions.get(*group).copied());
            let screened = family.screened.len() as u64;
            let most_flows = conditions().map(connections).max().unwrap_or(0);
            let overhead_ns = design.overhead_ns + most_flows * design.flow_overhead_ns;
            let mut placements: Vec<_> = conditions().map(|levels| levels.get("placement")).collect();
            placements.sort_unstable();
            placements.dedup();
            if conditions().any(|levels| design.calibrates(levels)) {
                let trial_ns = design.calibration_ns + design.fresh.warmup_ns + overhead_ns;
                schedule.calibrate_ns += stretch * placements.len() as u64 * self.calibration_trials(family) * trial_ns;
            }
            if family.is_screened() {
                let cells = family.choices as u64;
                let narrowed = cells.min(design.narrow_cells as u64);
                // A family has one objective, or none.
                let conditions = conditions().next().unwrap_or(&NO_LEVELS);
                let (warmup_ns, window_ns) = design.screening_ns(conditions, None);
                let trial_ns = search::trial_ns(conditions, window_ns, warmup_ns + overhead_ns, PACE_ASSUMED);
                schedule.screen_ns += stretch * screened * cells * design.screen_blocks * trial_ns;
                schedule.narrow_ns += stretch * screened * narrowed * design.narrow_blocks * trial_ns;
            }
            for group in live {
                let cells = index.cells.get(group).map_or(&[][..], Vec::as_slice);
                let explicit = cells.iter().find_map(|cell| cell.factors.get("duration").number());
                let conditions = index.conditions.get(group).copied().unwrap_or(&NO_LEVELS);
                let window_ns = explicit.unwrap_or(family.trial_ns);
                let each_ns = design.confirm_warmup_ns(conditions, None) + overhead_ns;
                let trial_ns = search::trial_ns(conditions, window_ns, each_ns, PACE_ASSUMED);
                let is_audited = family.confirmed() > 1 && explicit.is_none_or(|ns| ns < design.audit_ns);
                if is_audited && design.audits(conditions) {
                    let block_ns = stretch * AUDIT_CELLS_MIN * (design.audit_ns + each_ns);
                    shortest_audit_ns = Some(shortest_audit_ns.map_or(block_ns, |ns| ns.min(block_ns)));
                }
                let beside = index.artefacts.get(group).copied().unwrap_or(0);
                let trials = family.confirmed() as u64 + u64::from(family.confirmed() > 1) + beside;
                let round_ns = stretch * (trials * trial_ns + design.floor_ns + design.overhead_ns);
                if family.aside.contains(group) {
                    schedule.aside_round_ns += round_ns;
                } else {
                    schedule.confirm_round_ns += round_ns;
                }
            }
        }
        let fixed_ns = schedule.calibrate_ns + schedule.screen_ns + schedule.narrow_ns;
        let left_ns = self.budget_ns as f64 * (1.0 - design.reserve) - fixed_ns as f64;
        let rounds = (schedule.confirm_round_ns as f64, schedule.aside_round_ns as f64);
        let confirm = |schedule: &mut Schedule, left_ns: f64| {
            schedule.blocks = self.blocks.unwrap_or_else(|| design.fitting_blocks(left_ns, rounds.0, rounds.1));
            schedule.aside_blocks = design.aside_blocks(schedule.blocks);
        };
        // What is audited is no more than what is left once the fewest blocks that prove anything have their time.
        let (fewest, aside) = (design.blocks_min, design.aside_blocks(design.blocks_min));
        let fewest_ns = rounds.0 * fewest as f64 + rounds.1 * aside as f64;
        let share_ns = (self.budget_ns as f64 * self.audit).min(left_ns - fewest_ns).max(0.0);
        confirm(&mut schedule, left_ns - share_ns);
        let done_ns = schedule.total_ns();
        schedule.audit_ns = match self.blocks {
            // As much as goes with what was asked for; else of a budget, of which less may be needed.
            Some(_) => audit_after_ns(self.audit, done_ns),
            None => audit_after_ns(self.audit, done_ns).min(share_ns as u64),
        };
        if shortest_audit_ns.is_none_or(|block_ns| schedule.audit_ns < block_ns) {
            schedule.audit_ns = 0;
            confirm(&mut schedule, left_ns);
        }
        schedule
    }

    /// Shortens what may be shortened until at least the fewest useful blocks fit.
    pub(crate) fn fit_budget(&mut self) -> Result<(), PlanError> {
        let budget_ns = self.budget_ns;
        let over = |plan: &Plan| plan.blocks.is_none() && plan.schedule().total_ns() > budget_ns;
        let calibration_share = |plan: &Plan| plan.schedule().calibrate_ns as f64 / budget_ns as f64;
        while calibration_share(self) > 0.08 && self.design.calibration_ns > 50_000_000 {
            self.design.calibration_ns -= 50_000_000;
        }
        let steps: [fn(&mut Plan); 4] = [
            |plan| plan.design.narrow_blocks = 1,
            |plan| {
                for lengths in [&mut plan.design.fresh, &mut plan.design.steady] {
                    lengths.screen_ns = lengths.shortest_ns.0;
                }
            },
            |plan| plan.design.screen_blocks = 1,
            |plan| {
                for family in &mut plan.families {
                    let conditions = plan.groups.iter().find(|group| family.groups.contains(&group.id));
                    let shortest_ns = conditions.map(|group| plan.design.shortest_confirm_ns(&group.factors));
                    family.trial_ns = family.trial_ns.min(shortest_ns.unwrap_or(family.trial_ns));
                }
            },
        ];
        for step in steps {
            if !over(self) {
                return Ok(());
            }
            step(self);
        }
        if over(self) {
            let needed_s = (self.schedule().total_ns() as f64 / (1.0 - self.design.reserve) / 1e9).ceil();
            return Err(PlanError::Budget {
                budget: Nanos(budget_ns).to_string(),
                cells: self.cells.len(),
                of: counted(self.groups.len(), "group"),
                needed: format!("{needed_s}s"),
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;
    use crate::file::parse;
    use crate::resolve::resolve;
    use crate::spec::Spec;

    fn schedule(text: &str) -> Schedule {
        let unix = if text.contains("transport") { "" } else { "transport = \"unix\"\nwrite-size = \"64K\"\n" };
        let text = format!("{unix}read-size = \"4K,64K\"\n{text}");
        resolve(&parse("t", &text).unwrap(), &Catalog::default(), 1).unwrap().schedule()
    }

    #[test]
    fn an_audit_has_its_share_and_leaves_the_fewest_blocks_theirs() {
        let check = |text: &str, audited: bool| {
            let with = schedule(text);
            let without = schedule(&format!("{text}\naudit = false"));
            assert_eq!((with.audit_ns > 0, without.audit_ns), (audited, 0), "{text}: {with:?}");
            let others_ns = with.total_ns() - with.audit_ns;
            assert!(with.audit_ns <= others_ns / 9 + 1, "{text}: {with:?}");
            assert!(with.blocks >= 6 && with.blocks <= without.blocks, "{text}: {with:?} {without:?}");
        };
        check("budget = \"60s\"", true);
        check("blocks = 100", true);
        check("blocks = 6", false);
        check("budget = \"5s\"", false);
        check("budget = \"60s\"\nduration = \"300ms\"", false);
        check("budget = \"60s\"\ntransport = \"/dev/zero\"", false);
    }

    #[test]
    fn the_audit_of_later_judgements_goes_with_their_blocks() {
        // Screened before: sixteen sizes.
        let text = "transport = \"unix\"\nwrite-size = \"64K\"\nread-size = \"1..32K\"\nbudget = \"60s\"";
        let plan = resolve(&parse("t", text).unwrap(), &Catalog::default(), 1).unwrap();
        let schedule = plan.schedule();
        assert!(schedule.screen_ns > 0 && schedule.audit_ns > 0, "{schedule:?}");
        let (blocks, ns) = schedule.added_by(2);
        assert_eq!(blocks, schedule.blocks);
        let audit_ns = ns - schedule.confirm_ns();
        assert!(audit_ns > 0 && audit_ns <= audit_after_ns(plan.audit, schedule.confirm_ns()) + 1, "{schedule:?} {ns}");
    }

    #[test]
    fn rests_are_a_part_of_the_plan() {
        let check = |text: &str| {
            let text = format!("transport = \"unix\"\nwrite-size = \"64K\"\nread-size = \"4K,64K\"\n{text}");
            let spec = parse("t", &text).unwrap();
            let steady = resolve(&spec, &Catalog::default(), 1).unwrap().schedule();
            let gentle = resolve(&Spec { gentle: true, ..spec }, &Catalog::default(), 1).unwrap();
            let budget_ns = gentle.budget_ns;
            let gentle = gentle.schedule();
            assert_eq!(gentle.confirm_round_ns, 2 * steady.confirm_round_ns, "{text}");
            assert!(gentle.blocks < steady.blocks && gentle.blocks >= 6, "{text}: {gentle:?} {steady:?}");
            assert!(gentle.total_ns() <= budget_ns, "{text}: {gentle:?}");
        };
        check("budget = \"20s\"");
        check("budget = \"60s\"");
        check("budget = \"60s\"\naudit = false");
    }
}
