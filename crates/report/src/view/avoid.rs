//! Levels that the screening found significantly slower: the unselected factorial, in which every level meets that of the
//! recommended cell in every column. Options with intervals of their own need no such result.

use std::collections::{BTreeMap, HashMap};

use bytegauge_model::{Level, Role, Spec, Stage, Trial};
use bytegauge_stats::avoid::{GridPlace, against};
use serde_json::{Value, to_value};

use super::compare::GroupAnalysis;
use super::counted_trials::Settled;
use super::document::AvoidView;
use super::document::difference::share;
use super::levels::moves_nothing;
use super::recommendation::Conditions;

/// The levels that are slower than the level of the cell `reference` by significantly more than the margin, factor by factor,
/// ascending. None if the group was not screened or varies nothing.
pub fn avoid(judged: &GroupAnalysis, reference: Option<usize>, conditions: &Conditions) -> Vec<AvoidView> {
    let settled = conditions.settled;
    let Some(reference) = reference else { return Vec::new() };
    let mut found = Vec::new();
    let candidates: Vec<&Settled> =
        judged.candidates.iter().map(|&at| &settled[at]).filter(|cell| !moves_nothing(&cell.cell.factors)).collect();
    let choices: Vec<Spec> = candidates.iter().map(|cell| cell.cell.factors.of_role(Role::Choice)).collect();
    let blocks = screening(&candidates, judged.offered);
    let wanted = &settled[reference].cell.factors;
    let levels_of = |factor: &str| {
        let mut levels: Vec<Level> =
            choices.iter().map(|choice| choice.get(factor)).filter(|level| *level != Level::Absent).collect();
        levels.sort();
        levels.dedup();
        levels
    };
    let has = |cell: usize, factor: &str, level: &Level| settled[cell].cell.factors.get(factor) == *level;
    let may_be_best = |level: &Level, factor: &str| {
        let is_at = |choice: &usize| judged.cell(Some(*choice)).is_some_and(|cell| has(cell, factor, level));
        judged.verdict.present.len() > 1 && judged.verdict.best_set.iter().any(is_at)
    };
    let is_compared = |level: &Level, factor: &str| {
        let mut with = judged.candidates.iter().filter(|&&cell| has(cell, factor, level));
        with.all(|cell| judged.cells.contains(cell))
    };
    let comparisons: usize = judged.varied.iter().map(|factor| levels_of(factor).len().saturating_sub(1)).sum();
    for factor in &judged.varied {
        let levels = levels_of(factor);
        let Some(kept) = levels.iter().position(|level| *level == wanted.get(factor)) else { continue };
        let places = places(factor, &choices, &levels);
        let compared = against(&places, &blocks, kept, comparisons, conditions.level);
        let to_avoid = compared.into_iter().filter(|one| {
            let level = &levels[one.level];
            // The screening measured its cells once or twice: no evidence against a confirmed one.
            one.is_to_avoid(conditions.margin.ln_1p()) && !may_be_best(level, factor) && !is_compared(level, factor)
        });
        found.extend(to_avoid.map(|one| AvoidView {
            factor: factor.clone(),
            level: value(&levels[one.level]),
            against: value(&levels[kept]),
            slower_lower: one.lower.exp_m1(),
            slower_upper: share(one.upper),
            pairs: one.pairs,
            age_ns: None,
        }));
    }
    found
}

/// Costs of the screening blocks, one row per block, one column per candidate. Cells that were screened again were selected by
/// their results, so these do not count.
fn screening(candidates: &[&Settled], offered: bool) -> Vec<Vec<Option<f64>>> {
    let mut blocks: BTreeMap<u64, Vec<Option<f64>>> = BTreeMap::new();
    for (at, cell) in candidates.iter().enumerate() {
        let screened = |trial: &&&Trial| trial.stage == Stage::Screen;
        for trial in cell.measured.iter().filter(screened) {
            blocks.entry(trial.block).or_insert_with(|| vec![None; candidates.len()])[at] = trial.cost_ns(offered);
        }
    }
    blocks.into_values().collect()
}

/// The level of every candidate in a factor; candidates without a level each get a column of their own.
fn places(factor: &str, choices: &[Spec], levels: &[Level]) -> Vec<GridPlace> {
    let mut columns: HashMap<Spec, usize> = HashMap::new();
    let place = |choice: &Spec| {
        let mut others = choice.clone();
        let level = levels.binary_search(&choice.get(factor)).ok();
        if level.is_some() {
            others.retain(|name| name != factor);
        }
        let next = columns.len();
        let column = *columns.entry(others).or_insert(next);
        GridPlace { level: level.unwrap_or(levels.len()), column }
    };
    choices.iter().map(place).collect()
}

fn value(level: &Level) -> Value {
    to_value(level).unwrap_or(Value::Null)
}
