//! Reductions if measuring is slower than planned: rounds of screening first, then finalists, so that the minimum number
//! of blocks still has its time.
//!
//! Only the pace of the trials and the clock decide, never their results. One round of screening, two finalists and a block
//! in progress are always kept, since a result needs them.

use std::collections::BTreeSet;

use bytegauge_model::session::{SLOWER, Stage};
use bytegauge_model::{Cell, GroupId};
use bytegauge_plan::{FINALISTS_MIN, Family};

use crate::confirm::SHORTEST_SHARE;
use crate::run::{Run, RunError};

/// The kept number of a planned number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) kept: u64,
    pub(crate) planned: u64,
}

impl Given {
    /// `1 of 4 rounds of screening`; nothing if all are kept.
    pub(crate) fn text(self, what: &str) -> Option<String> {
        (self.kept < self.planned).then(|| format!("{} of {} {what}", self.kept, self.planned))
    }
}

impl Run<'_> {
    /// Whether there is time for one more round of screening, with a number of cells per family, and for the later stages.
    pub(crate) fn fits_round(&self, round: &[(&Family, usize)], stage: Stage, number: u64) -> bool {
        // The first round of all chooses the finalists.
        if self.plan.blocks.is_some() || stage == Stage::Screen && number == 0 {
            return true;
        }
        let of_family = |(family, cells): &(&Family, usize)| -> f64 {
            let due = family.screened.iter().filter(|group| self.visits(group, stage) <= number);
            let block_ns = |group| self.block_ns(*cells as u64 * self.trial_ns(group, self.screening(group)));
            due.map(|group| block_ns(group) as f64).sum()
        };
        let round_ns: f64 = round.iter().map(of_family).sum();
        round_ns <= 0.0 || fits(self.left_of_budget_ns(), round_ns, self.fewest_ns(usize::MAX))
    }

    /// The largest number of finalists per family that leaves time for the minimum number of blocks.
    pub(crate) fn finalists_that_fit(&self) -> usize {
        match self.plan.blocks {
            Some(_) => usize::MAX,
            None => {
                most_that_fit(self.left_of_budget_ns(), self.most_finalists(), |finalists| self.fewest_ns(finalists))
            }
        }
    }

    /// Notes the reductions, and stores the note with the session.
    pub(crate) fn note_reductions(&mut self, parts: &[String]) -> Result<(), RunError> {
        if !parts.is_empty() {
            let text = format!("{SLOWER}{}", parts.join(", "));
            self.record.note(text)?;
        }
        Ok(())
    }

    /// The text of a reduction to `fit` finalists.
    pub(crate) fn finalists_text(&self, fit: usize) -> Option<String> {
        let planned = self.most_finalists();
        let given = Given { kept: fit.min(planned) as u64, planned: planned as u64 };
        given.text("finalists of the screening")
    }

    fn most_finalists(&self) -> usize {
        let screened = self.plan.families.iter().filter(|family| family.is_screened());
        screened.map(Family::confirmed).max().unwrap_or(0)
    }

    /// The rest of the budget without its reserve, nanoseconds; below 0 if more was spent.
    pub(crate) fn left_of_budget_ns(&self) -> f64 {
        let spent_ns = (self.clock.spent_ns()) as f64;
        self.plan.budget_ns as f64 * (1.0 - self.plan.design.reserve) - spent_ns
    }

    /// Time of the minimum number of blocks at the pace so far, in the shortest possible trials and with at most this number of
    /// finalists in screened families, nanoseconds.
    fn fewest_ns(&self, finalists: usize) -> f64 {
        let design = &self.plan.design;
        let of_group = |family: &Family, group: &GroupId| {
            let confirmed = family.fewest_confirmed().min(if family.is_screened() { finalists } else { usize::MAX });
            let shortest_ns = design.shortest_confirm_ns(self.conditions(group)).min(family.trial_ns);
            let window_ns = ((family.trial_ns as f64 * SHORTEST_SHARE) as u64).max(shortest_ns);
            // With an A/A control, and the harness's floor.
            let trials_ns = (confirmed as u64 + 1) * self.trial_ns(group, (self.warmup(group), window_ns));
            self.block_ns(trials_ns + self.floor_trial_ns(group)) as f64
        };
        let left = |cell: &&Cell| !self.cells.left.contains(&cell.id);
        let live: BTreeSet<&GroupId> = self.plan.cells.iter().filter(left).map(|cell| &cell.group).collect();
        let each = self.plan.families.iter().flat_map(|family| family.groups.iter().map(move |group| (family, group)));
        let each = each.filter(|(_, group)| live.contains(group));
        each.map(|(family, group)| of_group(family, group)).sum::<f64>() * design.blocks_min as f64
    }
}

/// Whether there is time for a round and the later stages.
fn fits(left_ns: f64, round_ns: f64, fewest_ns: f64) -> bool {
    round_ns + fewest_ns <= left_ns
}

/// The most finalists with time for the minimum number of blocks; at least [`FINALISTS_MIN`], or all if they are fewer.
fn most_that_fit(left_ns: f64, planned: usize, fewest_ns: impl Fn(usize) -> f64) -> usize {
    (FINALISTS_MIN..=planned).rev().find(|finalists| fewest_ns(*finalists) <= left_ns).unwrap_or(FINALISTS_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_leaves_time_for_the_fewest_blocks() {
        // The unit does not matter: seconds here.
        assert!(fits(60.0, 10.0, 50.0));
        assert!(!fits(60.0, 10.0, 50.1));
        assert!(!fits(-3.0, 10.0, 50.0));
    }

    #[test]
    fn finalists_are_reduced_until_their_blocks_fit() {
        // Six blocks of the finalists and an A/A control, at a planted pace of seconds per trial.
        let check = |left: f64, planned, pace: f64, expected| {
            let fewest = |finalists: usize| 6.0 * (finalists + 1) as f64 * pace;
            assert_eq!(most_that_fit(left, planned, fewest), expected, "{left} {planned} {pace}");
        };
        check(60.0, 6, 0.05, 6);
        check(60.0, 6, 2.0, 4);
        check(60.0, 6, 5.0, 2);
        check(-5.0, 6, 0.05, 2);
        // One block must be complete, however long it takes: a result needs a comparison of two finalists.
        check(1.0, 2, 50.0, 2);
    }

    #[test]
    fn only_reductions_have_a_text() {
        let text = |kept, planned| Given { kept, planned }.text("rounds of screening");
        assert_eq!(text(4, 4), None);
        assert_eq!(text(0, 0), None);
        assert_eq!(text(1, 4).as_deref(), Some("1 of 4 rounds of screening"));
    }
}
