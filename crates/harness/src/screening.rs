//! The second stage: every cell briefly, the better ones again, and the choice of finalists.
//!
//! Screening only chooses. No reported number with an interval comes from here.
//!
//! Also the stage before it: the calibration of warm-ups.

use std::collections::BTreeMap;
use std::iter::repeat;

use bytegauge_model::cell::{BUFFERS, footprint};
use bytegauge_model::session::Stage;
use bytegauge_model::{Bin, Cell, CellId, GroupId, Level, Outcome, Spec, Trial};
use bytegauge_plan::{BLOCKS_WANTED, FINALISTS_MIN, Family};
use bytegauge_stats::finalists::{choose_over_profiles, score};
use bytegauge_stats::warmup::{Warmup, fixed_warmup};
use bytegauge_sys::clock::monotonic_ns;
use serde_json::json;

use crate::block::BlockTask;
use crate::run::{Run, RunError};
use crate::time_limit::reduction;

/// Costs of one block: nanoseconds per byte of each option, by its index in the family.
type Costs = Vec<Option<f64>>;

impl Run<'_> {
    /// Screens every family that needs it and fixes the finalists of all. `false` if interrupted.
    pub(crate) fn screen(&mut self) -> Result<bool, RunError> {
        let families = self.plan.families.clone();
        let design = self.plan.design;
        let screened: Vec<&Family> = families.iter().filter(|family| family.is_screened()).collect();
        let mut rounds = 0;
        let all: Vec<_> = screened.iter().map(|family| (*family, None)).collect();
        if !self.screen_rounds(Stage::Screen, design.screen_blocks, &all, &mut rounds)? {
            return Ok(false);
        }
        let better = |family: &&Family| Some(self.ranked(family, design.narrow_cells));
        let better: Vec<_> = screened.iter().map(|family| (*family, better(family))).collect();
        if !self.screen_rounds(Stage::Narrow, design.narrow_blocks, &better, &mut rounds)? {
            return Ok(false);
        }
        let fixed =
            families.iter().flat_map(|family| &family.groups).all(|group| self.done.finalists.contains_key(group));
        // Where as many as fit are wanted, fewer are no reduction.
        let most = (!self.plan.screens_changes()).then(|| self.finalists_that_fit());
        if let Some(most) = most.filter(|_| !screened.is_empty() && !fixed) {
            let planned = design.screen_blocks + design.narrow_blocks;
            let rounds = reduction(rounds, planned, "rounds of screening");
            let reductions = rounds.into_iter().chain(self.finalists_text(most));
            self.note_reductions(&reductions.collect::<Vec<_>>())?;
        }
        for family in &families {
            let most = most.unwrap_or_else(|| self.wanted_that_fit(family));
            self.fix_finalists(family, most)?;
        }
        Ok(true)
    }

    /// The rounds of a stage for families, each with the options that are left, or all of them. Counts the rounds for which there
    /// is time. `false` if interrupted.
    fn screen_rounds(
        &mut self,
        stage: Stage,
        blocks: u64,
        families: &[(&Family, Option<Vec<usize>>)],
        rounds: &mut u64,
    ) -> Result<bool, RunError> {
        let size = |family: &Family, only: &Option<Vec<usize>>| only.as_ref().map_or(family.choices, Vec::len);
        let sized: Vec<(&Family, usize)> =
            families.iter().map(|(family, only)| (*family, size(family, only))).collect();
        // Trials from before a resume are not measured again.
        let left = |group: &GroupId| blocks.saturating_sub(self.visits(group, stage));
        let due = |family: &Family| family.screened.iter().map(left).sum::<u64>();
        let trials = sized.iter().map(|(family, cells)| *cells as u64 * due(family)).sum();
        let visits = sized.iter().map(|(family, _)| due(family)).sum();
        if trials > 0 {
            self.record.tell_stage(stage, trials, visits);
        }
        for round in 0..blocks {
            if !self.fits_round(&sized, stage, round) {
                break;
            }
            *rounds += 1;
            for (group, (family, only)) in families.iter().flat_map(|of| of.0.screened.iter().zip(repeat(of))) {
                if self.visits(group, stage) > round {
                    continue;
                }
                let choices = self.choices(family);
                let keeps = |cell: &Cell| only.as_ref().is_none_or(|only| only.contains(&choices[&choice(cell)]));
                // The watched run was one of the program as it is.
                let is_known = |cell: &Cell| self.plan.has_long_runs() && self.plan.is_unchanged(&cell.factors);
                let cells = self.live_cells(group).filter(|cell| keeps(cell) && !is_known(cell));
                let cells: Vec<Cell> = cells.cloned().collect();
                if cells.is_empty() {
                    continue;
                }
                let (_, window_ns) = self.screening(group);
                let task = BlockTask { stage, group, cells: &cells, window_ns };
                if !self.visit(&task)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// The better cells of a family, by their worst excess over the screened profiles.
    fn ranked(&self, family: &Family, keep: usize) -> Vec<usize> {
        let (scores, footprints) = self.scores(family);
        choose_over_profiles(&scores, &footprints, keep, self.plan.margin)
    }

    /// Decides which cells are confirmed, and the cell of the A/A control: the same options in every group of the family. Screened
    /// families have at most `most`.
    fn fix_finalists(&mut self, family: &Family, most: usize) -> Result<(), RunError> {
        let chosen = family.is_screened().then(|| self.chosen(family, most));
        for group in &family.groups {
            if self.done.finalists.contains_key(group) {
                continue;
            }
            let ids: Vec<CellId> = match &chosen {
                Some(chosen) => {
                    let of = |wanted: &Spec| self.live_cells(group).find(|cell| choice(cell) == *wanted);
                    chosen.iter().filter_map(|wanted| Some(of(wanted)?.id.clone())).collect()
                }
                // All of them, even two with equal settings: the user may ask for their difference.
                None => self.live_cells(group).map(|cell| cell.id.clone()).collect(),
            };
            let cells: Vec<Cell> = self.plan.cells.iter().filter(|cell| ids.contains(&cell.id)).cloned().collect();
            self.record.store.add_cells(self.record.session, &cells)?;
            self.record.set_fact(group, "finalists", &json!(ids))?;
            self.done.finalists.insert(group.clone(), ids);
        }
        Ok(())
    }

    /// The options of a screened family that are confirmed: the best ones, then those that always are.
    fn chosen(&self, family: &Family, most: usize) -> Vec<Spec> {
        let choices = self.choices(family);
        let ranked = self.ranked(family, family.confirmed().min(most));
        let always =
            choices.iter().filter(|(choice, index)| !ranked.contains(index) && self.plan.always_confirms(choice));
        let of = |wanted: &usize| choices.iter().find(|(_, index)| *index == wanted).map(|(choice, _)| choice.clone());
        ranked.iter().filter_map(of).chain(always.map(|(choice, _)| choice.clone())).collect()
    }

    /// How many of a program's options, the best of the screening, get enough blocks in the time that is left.
    fn wanted_that_fit(&self, family: &Family) -> usize {
        let ranked = self.ranked(family, family.choices);
        let choices = self.choices(family);
        let mean_ns = self.times.mean_run_ns().unwrap_or(self.plan.design.overhead_ns);
        let mut of_choice = vec![(mean_ns, false); family.choices];
        for cell in self.plan.cells.iter().filter(|cell| family.groups.contains(&cell.group)) {
            let (run_ns, always) = &mut of_choice[choices[&choice(cell)]];
            *run_ns = self.times.run_ns(&cell.id).unwrap_or(*run_ns);
            *always = self.plan.always_confirms(&choice(cell));
        }
        let best = |finalists: usize| &ranked[..finalists.min(ranked.len())];
        // Every group has its blocks.
        let blocks = self.plan.stretch() * self.plan.groups.len() as u64;
        let block_ns = |finalists: usize| blocks * block_of_runs_ns(&of_choice, best(finalists));
        let fits = |finalists: &usize| (block_ns(*finalists) * BLOCKS_WANTED) as f64 <= self.left_of_budget_ns();
        (FINALISTS_MIN..=family.choices).rev().find(fits).unwrap_or(FINALISTS_MIN)
    }

    /// The score of every option under every screened condition, and its footprint by buffer sizes.
    fn scores(&self, family: &Family) -> (Vec<Costs>, Vec<Option<f64>>) {
        let choices = self.choices(family);
        let mut footprints = vec![None; family.choices];
        let members: Vec<&Cell> = self.plan.cells.iter().filter(|cell| family.groups.contains(&cell.group)).collect();
        let differs = |name: &&str| members.iter().any(|cell| cell.factors.get(name) != members[0].factors.get(name));
        let varied: Vec<String> = BUFFERS.into_iter().chain(["read_size"]).filter(differs).map(str::to_owned).collect();
        let scores = family
            .screened
            .iter()
            .map(|group| {
                let cells: BTreeMap<&CellId, usize> = self
                    .plan
                    .cells
                    .iter()
                    .filter(|cell| cell.group == *group)
                    .map(|cell| (&cell.id, choices[&choice(cell)]))
                    .collect();
                for cell in self.plan.cells.iter().filter(|cell| cell.group == *group) {
                    footprints[choices[&choice(cell)]] =
                        footprint(&cell.factors, &[], &varied).map(|bytes| bytes as f64);
                }
                let mut blocks: BTreeMap<u64, Costs> = BTreeMap::new();
                for (id, block, cost) in &self.done.screening {
                    if let Some(index) = cells.get(id) {
                        let row = blocks.entry(*block).or_insert_with(|| vec![None; family.choices]);
                        row[*index] = Some(*cost);
                    }
                }
                let left = |index: usize| cells.iter().any(|(id, i)| *i == index && self.cells.left.contains(*id));
                let mut scores = score(&blocks.into_values().collect::<Vec<_>>());
                scores.resize(family.choices, None);
                scores.iter().enumerate().map(|(i, s)| s.filter(|_| !left(i))).collect()
            })
            .collect();
        (scores, footprints)
    }

    /// The index of every combination of choices in a family.
    fn choices(&self, family: &Family) -> BTreeMap<Spec, usize> {
        let mut known = BTreeMap::new();
        for cell in self.plan.cells.iter().filter(|cell| family.groups.contains(&cell.group)) {
            let next = known.len();
            known.entry(choice(cell)).or_insert(next);
        }
        known
    }
}

/// Time of a block of a program's options, each with the time of its run and whether it is always confirmed: of those, of the best
/// ones, and of the leader once more, as the A/A control. Nanoseconds.
fn block_of_runs_ns(of_choice: &[(u64, bool)], best: &[usize]) -> u64 {
    let is_run = |index: &usize| of_choice[*index].1 || best.contains(index);
    let runs = (0..of_choice.len()).filter(is_run).chain(best.first().copied());
    runs.map(|index| of_choice[index].0).sum()
}

fn choice(cell: &Cell) -> Spec {
    cell.factors.of_role(bytegauge_model::Role::Choice)
}

// The first stage: how long a path takes to settle, by MSER-5 on a few longer trials.
//
// Profiles of one family share their calibration, one trial each in turn: the path is what settles (slow
// start, window autotuning, the scheduler's choice), and sixty seconds are short.

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
    fn a_block_has_the_best_and_those_that_are_always_confirmed() {
        // As it is, the removal of a call, and two other options of which the last one leads.
        let runs = [(1000, true), (100, true), (900, false), (10, false)];
        assert_eq!(block_of_runs_ns(&runs, &[3, 1]), 1000 + 100 + 10 + 10);
        assert_eq!(block_of_runs_ns(&runs, &[3, 1, 2]), 2020);
        assert_eq!(block_of_runs_ns(&runs, &[1, 0, 2, 3]), 2010 + 100);
        assert_eq!(block_of_runs_ns(&runs, &[]), 1100);
    }
}

#[cfg(test)]
mod calibrate_tests {
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
