//! What gives way where measuring goes slower than planned: rounds of screening first, then finalists, so that the fewest
//! blocks that prove anything still have their time.
//!
//! By the pace of the trials so far and by the clock alone, never by what they show. One round of screening, two finalists
//! and a block that was begun give way to nothing: of less there is no answer.

use std::collections::BTreeSet;

use bytegauge_model::session::{SLOWER, Stage};
use bytegauge_model::{Cell, GroupId, Spec};
use bytegauge_plan::{FINALISTS_MIN, Family, search};
use bytegauge_sys::clock::monotonic_ns;

use crate::confirm::SHORTEST_SHARE;
use crate::event::Event;
use crate::run::{Run, RunError};

/// Of how much of something was planned so much is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) kept: u64,
    pub(crate) planned: u64,
}

impl Given {
    /// `1 of 4 rounds of screening`; nothing where all are kept.
    pub(crate) fn told(self, what: &str) -> Option<String> {
        (self.kept < self.planned).then(|| format!("{} of {} {what}", self.kept, self.planned))
    }
}

impl Run<'_> {
    /// Whether there is time for one more round of screening, each family with so many cells, and for what has to follow.
    pub(crate) fn fits_round(&self, round: &[(&Family, usize)], stage: Stage, number: u64) -> bool {
        // The first round of all is what finalists are chosen by.
        if self.plan.blocks.is_some() || stage == Stage::Screen && number == 0 {
            return true;
        }
        let of_family = |(family, cells): &(&Family, usize)| -> f64 {
            let due = family.screened.iter().filter(|group| self.visits(group, stage) <= number);
            due.map(|group| self.round_of_ns(group, *cells, self.screening(group))).sum()
        };
        let round_ns: f64 = round.iter().map(of_family).sum();
        round_ns <= 0.0 || fits(self.left_of_budget_ns(), round_ns, self.fewest_ns(usize::MAX))
    }

    /// So many finalists a family has at most, that the fewest blocks of them have their time.
    pub(crate) fn finalists_that_fit(&self) -> usize {
        match self.plan.blocks {
            Some(_) => usize::MAX,
            None => {
                most_that_fit(self.left_of_budget_ns(), self.most_finalists(), |finalists| self.fewest_ns(finalists))
            }
        }
    }

    /// Says what gave way, and keeps it with the session.
    pub(crate) fn tell_what_gave_way(&mut self, parts: &[String]) -> Result<(), RunError> {
        if !parts.is_empty() {
            let text = format!("{SLOWER}{}", parts.join(", "));
            self.store.add_note(self.session, &text)?;
            self.observer.hear(&Event::Note(text));
        }
        Ok(())
    }

    /// What is said where so many finalists fit.
    pub(crate) fn told_of_finalists(&self, fit: usize) -> Option<String> {
        let planned = self.most_finalists();
        let given = Given { kept: fit.min(planned) as u64, planned: planned as u64 };
        given.told("finalists of the screening")
    }

    fn most_finalists(&self) -> usize {
        let screened = self.plan.families.iter().filter(|family| family.is_screened());
        screened.map(Family::confirmed).max().unwrap_or(0)
    }

    /// What is left of the budget, but for its reserve, nanoseconds; below 0 where more was spent.
    pub(crate) fn left_of_budget_ns(&self) -> f64 {
        let spent_ns = (monotonic_ns() - self.began_ns) as f64;
        self.plan.budget_ns as f64 * (1.0 - self.plan.design.reserve) - spent_ns
    }

    /// What the fewest blocks take at the pace so far, in the shortest trials that there may be and with so many finalists
    /// at most where cells were screened, nanoseconds.
    fn fewest_ns(&self, finalists: usize) -> f64 {
        let design = &self.plan.design;
        let of_group = |family: &Family, group: &GroupId| {
            let confirmed = family.confirmed().min(if family.is_screened() { finalists } else { usize::MAX });
            let shortest_ns = design.shortest_confirm_ns(self.conditions(group)).min(family.trial_ns);
            let window_ns = ((family.trial_ns as f64 * SHORTEST_SHARE) as u64).max(shortest_ns);
            // With a twin, and the harness's floor.
            let floor_ns = self.plan.stretch() * self.floor_trial_ns(group);
            self.round_of_ns(group, confirmed + 1, (self.warmup(group), window_ns)) + floor_ns as f64
        };
        let left = |cell: &&Cell| !self.left.contains(&cell.id);
        let live: BTreeSet<&GroupId> = self.plan.cells.iter().filter(left).map(|cell| &cell.group).collect();
        let each = self.plan.families.iter().flat_map(|family| family.groups.iter().map(move |group| (family, group)));
        let each = each.filter(|(_, group)| live.contains(group));
        each.map(|(family, group)| of_group(family, group)).sum::<f64>() * design.blocks_min as f64
    }

    /// One block of a group with so many cells at the pace so far, nanoseconds.
    fn round_of_ns(&self, group: &GroupId, cells: usize, lengths_ns: (u64, u64)) -> f64 {
        let conditions: &Spec = self.conditions(group);
        let trial_ns = search::trial_ns(conditions, lengths_ns, self.overhead_ns(group), self.pace(group));
        (self.block_overhead_ns() + self.plan.stretch() * cells as u64 * trial_ns) as f64
    }
}

/// Whether a round has its time, and what must follow it.
fn fits(left_ns: f64, round_ns: f64, fewest_ns: f64) -> bool {
    round_ns + fewest_ns <= left_ns
}

/// The most finalists whose fewest blocks have their time; at least [`FINALISTS_MIN`], or all where they are fewer.
fn most_that_fit(left_ns: f64, planned: usize, fewest_ns: impl Fn(usize) -> f64) -> usize {
    (FINALISTS_MIN..=planned).rev().find(|finalists| fewest_ns(*finalists) <= left_ns).unwrap_or(FINALISTS_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_measured_only_where_the_fewest_blocks_have_their_time_as_well() {
        // Seconds serve as well as nanoseconds.
        assert!(fits(60.0, 10.0, 50.0));
        assert!(!fits(60.0, 10.0, 50.1));
        assert!(!fits(-3.0, 10.0, 50.0));
    }

    #[test]
    fn finalists_give_way_until_their_fewest_blocks_fit() {
        // Six blocks of the finalists and a twin, at a planted pace of seconds a trial.
        let check = |left: f64, planned, pace: f64, expected| {
            let fewest = |finalists: usize| 6.0 * (finalists + 1) as f64 * pace;
            assert_eq!(most_that_fit(left, planned, fewest), expected, "{left} {planned} {pace}");
        };
        check(60.0, 6, 0.05, 6);
        check(60.0, 6, 2.0, 4);
        check(60.0, 6, 5.0, 2);
        check(-5.0, 6, 0.05, 2);
        // One block must be whole, however long it takes: two finalists are compared, or there is no answer.
        check(1.0, 2, 50.0, 2);
    }

    #[test]
    fn what_gave_way_is_told_and_nothing_else() {
        let told = |kept, planned| Given { kept, planned }.told("rounds of screening");
        assert_eq!(told(4, 4), None);
        assert_eq!(told(0, 0), None);
        assert_eq!(told(1, 4).as_deref(), Some("1 of 4 rounds of screening"));
    }
}
