//! The first stage: how long a path takes to settle, by MSER-5 on a few longer trials.
//!
//! Profiles of one family share their calibration, one trial each in turn: the path is what settles (slow
//! start, window autotuning, the scheduler's choice), and sixty seconds are short.

use std::collections::BTreeMap;

use bytegauge_model::session::Stage;
use bytegauge_model::{Bin, Cell, GroupId, Level, Outcome, Trial};
use bytegauge_plan::Family;
use bytegauge_stats::warmup::{Warmup, fixed_warmup};
use bytegauge_sys::clock::monotonic_ns;
use serde_json::json;

use crate::block::BlockTask;
use crate::run::{Run, RunError};
use crate::time_limit::reduction;

/// The shortest warm-up: laps need time to find their length, and threads have just woken.
const WARMUP_MIN_NS: u64 = 1_000_000;

/// The first run of a program is repeated if it took less than this share of the budget: its caches were cold, but a
/// forecast is not worth more.
const COLD_MAX: f64 = 0.1;

/// After this time the rates of Unix and TCP streams were within 10 % of their final level (docs/research/statistics.md).
const SETTLED_NS: u64 = 2_500_000;

/// After this multiple of its planned time, calibration continues with one trial per group.
const CALIBRATION_MOST: f64 = 1.5;

/// Calibration of a program ends when it has taken this part of a stated time, as the divisor.
const RUNS_MOST: u64 = 5;

/// Whether a calibration trial is dropped to leave time for reported trials; the first of its kind never is.
fn gives_way(turn: usize, spent_ns: u64, planned_ns: u64) -> bool {
    turn > 0 && spent_ns as f64 > CALIBRATION_MOST * planned_ns as f64
}

impl Run<'_> {
    /// Finds the warm-up of every group that has none yet. `false` if interrupted.
    pub(crate) fn calibrate(&mut self) -> Result<bool, RunError> {
        let families = self.plan.families.clone();
        let sets: Vec<(Family, Vec<GroupId>)> = families
            .iter()
            .flat_map(|family| self.same_place(family).into_iter().map(|set| (family.clone(), set)))
            .filter(|(_, set)| set.iter().any(|group| self.plan.design.calibrates(self.conditions(group))))
            // A resumed session keeps the warm-up of its confirmation.
            .filter(|(_, set)| !set.iter().all(|group| self.is_calibrated(group)))
            .collect();
        let trials = sets.iter().map(|(family, _)| self.plan.calibration_trials(family)).sum();
        // A trial of calibration is a block of its own.
        self.record.tell_stage(Stage::Calibrate, trials, trials);
        let (began_ns, planned_ns) = (monotonic_ns(), self.plan.schedule().calibrate_ns);
        let mut kept_trials = 0;
        for (family, groups) in sets {
            let mut series = Vec::new();
            let mut kept = None;
            for turn in 0..self.plan.calibration_trials(&family) as usize {
                // A given number of blocks is measured whatever the time.
                let spent_ns = monotonic_ns() - began_ns;
                let is_late = match self.plan.task {
                    None => gives_way(turn, spent_ns, planned_ns),
                    // The time of its runs is not planned; a first, cold one and another show how long they take.
                    Some(_) => turn > 1 && self.plan.budget_is_stated() && spent_ns > self.plan.budget_ns / RUNS_MOST,
                };
                if is_late && self.plan.blocks.is_none() {
                    break;
                }
                kept_trials += 1;
                let group = &groups[turn % groups.len()];
                let Some(cell) = self.calibrated_cell(group, turn).filter(|cell| kept.as_ref() != Some(&cell.id))
                else {
                    continue;
                };
                // In a group that only measures the finalists, this cell is measured before they are chosen.
                self.record.store.add_cells(self.record.session, std::slice::from_ref(&cell))?;
                let (cells, window_ns) = (std::slice::from_ref(&cell), self.plan.design.calibration_ns);
                let task = BlockTask { stage: Stage::Calibrate, group, cells, window_ns };
                if !self.visit(&task)? {
                    return Ok(false);
                }
                if turn == 0 && self.plan.task.is_some() {
                    match self.overhead_ns(group) as f64 <= self.plan.budget_ns as f64 * COLD_MAX {
                        true => self.times.forget_overheads(),
                        false => kept = Some(cell.id),
                    }
                }
                series.extend(self.done.last_series.take());
            }
            if series.is_empty() {
                // Nothing was measured, so nothing is learnt about when it would settle.
                continue;
            }
            let found = fixed_warmup(&series, BIN_NS as f64);
            for group in &groups {
                let explicit_ns = self.live_cells(group).find_map(|cell| cell.factors.duration());
                self.settle(group, &found, explicit_ns.unwrap_or(family.trial_ns))?;
            }
        }
        if self.plan.task.is_none() {
            self.note_reductions(reduction(kept_trials, trials, "trials of calibration").as_slice())?;
        }
        Ok(true)
    }

    /// Whether a group needs no calibration: it has its warm-up, or its blocks are fixed.
    fn is_calibrated(&self, group: &GroupId) -> bool {
        self.done.warmup.contains_key(group) || self.done.first_blocks.contains_key(group)
    }

    /// The measurable groups of a family by placement.
    fn same_place(&self, family: &Family) -> Vec<Vec<GroupId>> {
        let mut by_place: BTreeMap<String, Vec<GroupId>> = BTreeMap::new();
        for id in &family.groups {
            if let Some(group) = self.plan.group(id).filter(|_| self.plan.measurable(id).next().is_some()) {
                by_place
                    .entry(group.factors.placement().map_or(Level::Absent.to_string(), |place| place.to_string()))
                    .or_default()
                    .push(id.clone());
            }
        }
        by_place.into_values().collect()
    }

    /// The middle cell; for a program, whose runs depend on its values, one cell after the other.
    fn calibrated_cell(&self, group: &GroupId, turn: usize) -> Option<Cell> {
        let cells: Vec<&Cell> = self.live_cells(group).collect();
        let at = match self.plan.task {
            Some(_) => self.plan.calibrated_values(cells.len()).get(turn).copied()?,
            None => cells.len() / 2,
        };
        cells.get(at).map(|cell| (*cell).clone())
    }

    /// Stores a group's warm-up. It is limited to a quarter of a trial, or to [`SETTLED_NS`]: a longer one would use up the
    /// budget, and within a block the rest of a drift is common to the compared cells.
    fn settle(&mut self, group: &GroupId, found: &Warmup, trial_ns: u64) -> Result<(), RunError> {
        let ns = (found.ns as u64).clamp(WARMUP_MIN_NS, (trial_ns / 4).max(SETTLED_NS));
        self.done.warmup.insert(group.clone(), ns);
        self.record.set_fact(group, "warmup_ns", &json!(ns))?;
        self.record.set_fact(group, "warmup_found_ns", &json!(found.ns as u64))?;
        self.record.set_fact(group, "steady", &json!(found.steady))?;
        Ok(())
    }
}

// Converts a calibration trial's laps into bins of equal length for the statistics.

/// Bins of a calibration series, nanoseconds.
pub(crate) const BIN_NS: u64 = 1_000_000;

/// Rates of a calibration trial's first flow in bins of equal length. Laps are about as long, but the first
/// ones, which learn their length, are shorter, and those of a slow path longer.
pub(crate) fn series(trial: &Trial) -> Option<Vec<f64>> {
    if trial.outcome != Outcome::Measured {
        return None;
    }
    // In calls the client keeps the series: bytes both ways, which are proportional to calls.
    let flow = trial.ends.measuring()?.flows.first()?;
    let bytes = Bin::by_interval(&flow.series, BIN_NS);
    (!bytes.is_empty()).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_calibration_drops_all_but_the_first() {
        let check =
            |turn, spent_ns, expected| assert_eq!(gives_way(turn, spent_ns, 100), expected, "{turn} {spent_ns}");
        check(1, 150, false);
        check(1, 151, true);
        check(2, 40, false);
        check(0, 9999, false);
    }
}
