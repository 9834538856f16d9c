//! The time limit of a session: when no further block begins, and the note that the time will not suffice.
//!
//! Also the reductions if measuring is slower than planned.

use std::collections::BTreeSet;

use bytegauge_model::session::{self, Stage};
use bytegauge_model::unit::forecast;
use bytegauge_model::{Cell, GroupId, Nanos};
use bytegauge_plan::{FINALISTS_MIN, Family, OVERTIME};
use bytegauge_stats::block_dependence::FEW_BLOCKS;

use crate::confirm::{ConfirmedGroup, SHORTEST_SHARE};
use crate::run::{Run, RunError};

/// The most time of the minimum number of blocks, as a multiple of the budget.
const OVERTIME_FEWEST: f64 = 1.5;

/// The next note of a longer time is due from this multiple of the last one on.
const TOLD_AGAIN: f64 = 1.5;

impl Run<'_> {
    /// Time limit of an analysis from the session's begin, nanoseconds: for the first one the budget and a little more, for a
    /// later one the user's limit. `None` if a number of blocks was given.
    pub(crate) fn limit_ns(&self) -> Option<f64> {
        match self.analysis {
            1 => Some(self.plan.budget_ns as f64 * OVERTIME).filter(|_| self.plan.blocks.is_none()),
            _ => self.options.until_max_ns.map(|cap_ns| cap_ns as f64).filter(|_| self.options.until_proven),
        }
    }

    /// Whether the time is over. Only the clock decides, never the result of a comparison. The minimum number of blocks gets
    /// half of the budget more, and in a session that is resumed for its analysis all the time it needs. The time of a
    /// program's runs may be unknown: one block of it is measured in any case, since a session without a block is useless. Where a
    /// watched run shows that the minimum does not fit, the time is kept. No
    /// block begins that would end beyond a limit set by the user, or beyond that of a program's runs. The last block of the
    /// minimum of a program may do so.
    pub(crate) fn is_out_of_time(&self, rounds_done: u64, next: &ConfirmedGroup) -> bool {
        let (design, is_program) = (&self.plan.design, self.plan.task.is_some());
        let (spent_ns, next_ns) = (self.clock.spent_ns() as f64, self.forecast_ns(next));
        // A program's runs may be long, and few blocks show large effects.
        let fewest = if is_program { FEW_BLOCKS as u64 } else { design.blocks_min };
        let missing = if self.analysis == 1 { fewest.saturating_sub(rounds_done) } else { 0 };
        let is_hopeless = self.plan.has_long_runs()
            && spent_ns + missing as f64 * next_ns > self.plan.budget_ns as f64 * OVERTIME_FEWEST;
        let needed = if is_hopeless { 0 } else { missing };
        let is_resumed = self.clock.resumed && self.analysis == 1 && rounds_done < design.blocks_min;
        if is_resumed || (is_program && rounds_done == 0 && needed > 0) {
            return false;
        }
        let (patience, is_strict) = leeway(needed, is_program, self.analysis);
        let end_ns = if is_strict { spent_ns + next_ns } else { spent_ns };
        self.limit_ns().is_some_and(|limit_ns| end_ns > limit_ns * patience)
    }

    /// Whether even the minimum number of blocks would have no more time.
    pub(crate) fn is_beyond_overtime(&self) -> bool {
        let spent_ns = self.clock.spent_ns() as f64;
        self.limit_ns().is_some_and(|limit_ns| spent_ns > limit_ns * OVERTIME_FEWEST / OVERTIME)
    }

    /// Whether a first run of a changed program fits the time, if runs are long: with one of the program as it is, if another change
    /// is to be compared with it.
    pub(crate) fn fits_long_run(&self) -> bool {
        let as_it_is_ns = self.plan.watched_ns();
        let limit_ns = self.times.shortest_run_ns().and_then(|ns| self.plan.run_limit_ns(ns)).unwrap_or(0);
        let then_ns = if limit_ns < as_it_is_ns { as_it_is_ns } else { 0 };
        !self.plan.has_long_runs() || self.clock.spent_ns() + limit_ns + then_ns <= self.plan.budget_ns
    }

    /// Warns before the minimum number of blocks exceeds the time: one timed block of every group gives a forecast.
    pub(crate) fn warn_of_slow_blocks(&mut self, groups: &[ConfirmedGroup]) -> Result<(), RunError> {
        let Some(limit_ns) = self.limit_ns().filter(|_| self.analysis == 1) else { return Ok(()) };
        let fewest = |confirmed: &ConfirmedGroup| {
            let target = self.target(&confirmed.group, 1).min(self.plan.design.blocks_min);
            let due = target.saturating_sub(self.visits(&confirmed.group, Stage::Confirm));
            due * self.forecast_ns(confirmed) as u64
        };
        let end_ns = self.clock.spent_ns() + groups.iter().map(fewest).sum::<u64>();
        if end_ns as f64 > limit_ns { self.take_longer(end_ns) } else { Ok(()) }
    }

    /// Notes that the minimum number of blocks ends later than planned, and when, and extends the budget: fewer blocks would
    /// give no result. For a program, whose runs may take any time, a stated budget is kept except for its overtime.
    pub(crate) fn take_longer(&mut self, end_ns: u64) -> Result<(), RunError> {
        let (end, planned) = (forecast(end_ns), Nanos(self.plan.budget_ns));
        let is_kept = self.plan.task.is_some() && self.plan.keeps_budget();
        if self.plan.task.is_none() || self.plan.screens_changes() && !is_kept {
            self.plan.budget_ns = end.0;
        }
        // A session that keeps its time has one note, even if a later forecast is longer.
        let is_near = is_kept || (end.0 as f64) < planned.0 as f64 * TOLD_AGAIN;
        if std::mem::replace(&mut self.noted_time, true) && is_near {
            return Ok(());
        }
        let as_it_is_ns = Some(self.plan.watched_ns()).filter(|_| self.plan.has_long_runs());
        let run = as_it_is_ns.or_else(|| self.times.mean_run_ns());
        match run.filter(|_| self.plan.screens_changes()) {
            Some(run) => self.record.note(self.plan.too_short_for(run, end_ns) + &self.stops_at(end_ns))?,
            None => self.record.tell(self.plan.takes_longer(end, planned) + &self.stops_at(end_ns)),
        }
        Ok(())
    }

    /// When a program's session that would end at this time stops, as the end of a note; empty where it does not.
    pub(crate) fn stops_at(&self, end_ns: u64) -> String {
        let last_ns = self.plan.budget_ns as f64 * if self.plan.has_long_runs() { OVERTIME } else { OVERTIME_FEWEST };
        if self.plan.task.is_none() || end_ns as f64 <= last_ns || self.clock.resumed {
            return String::new();
        }
        let last = Nanos((last_ns / 1e9) as u64 * 1_000_000_000);
        format!("; measuring stops at {last}, and --resume goes on")
    }
}

/// What a block is allowed that begins near the limit, where `needed` blocks are missing without which there is no result: a
/// multiple of the limit, and whether its end must be within it. Blocks of a program are long compared with the overtime, but the
/// last one that is needed is worth it.
fn leeway(needed: u64, is_program: bool, analysis: u64) -> (f64, bool) {
    let patience = if needed > 0 { OVERTIME_FEWEST / OVERTIME } else { 1.0 };
    (patience, analysis > 1 || (is_program && needed != 1))
}

// Times that are shown before they have passed.

/// A time that leaves a forecast a tenth of room, in whole seconds.
pub(crate) fn with_spare(ns: u64) -> Nanos {
    const SECOND: u64 = 1_000_000_000;
    Nanos((ns + ns / 10).div_ceil(SECOND) * SECOND)
}

// Reductions if measuring is slower than planned: rounds of screening first, then finalists, so that the minimum number
// of blocks still has its time.
//
// Only the pace of the trials and the clock decide, never their results. One round of screening, two finalists and a block
// in progress are always kept, since a result needs them.

/// `1 of 4 rounds of screening`; nothing if all are kept.
pub(crate) fn reduction(kept: u64, planned: u64, what: &str) -> Option<String> {
    (kept < planned).then(|| format!("{kept} of {planned} {what}"))
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
            let text = format!("{}{}", session::SLOWER, parts.join(", "));
            self.record.note(text)?;
        }
        Ok(())
    }

    /// The text of a reduction to `fit` finalists.
    pub(crate) fn finalists_text(&self, fit: usize) -> Option<String> {
        let planned = self.most_finalists();
        reduction(fit.min(planned) as u64, planned as u64, "finalists of the screening")
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
    fn needed_blocks_may_exceed_the_limit() {
        const MORE: f64 = OVERTIME_FEWEST / OVERTIME;
        for (needed, is_program, analysis, expected) in [
            (6, false, 1, (MORE, false)),
            (0, false, 1, (1.0, false)),
            (0, false, 2, (1.0, true)),
            (3, true, 1, (MORE, true)),
            (1, true, 1, (MORE, false)),
            (0, true, 1, (1.0, true)),
            (0, true, 2, (1.0, true)),
        ] {
            assert_eq!(leeway(needed, is_program, analysis), expected, "{needed} {is_program} {analysis}");
        }
    }

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
        let text = |kept, planned| reduction(kept, planned, "rounds of screening");
        assert_eq!(text(4, 4), None);
        assert_eq!(text(0, 0), None);
        assert_eq!(text(1, 4).as_deref(), Some("1 of 4 rounds of screening"));
    }
}
