//! The second stage: every cell briefly, the better ones again, and the choice of finalists.
//!
//! Screening only chooses. No reported number with an interval comes from here.

use std::collections::BTreeMap;
use std::iter::repeat;

use bytegauge_model::cell::{BUFFERS, footprint};
use bytegauge_model::session::Stage;
use bytegauge_model::{Cell, CellId, GroupId, Spec};
use bytegauge_plan::{BLOCKS_WANTED, FINALISTS_MIN, Family};
use bytegauge_stats::finalists::{choose_over_profiles, score};
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
