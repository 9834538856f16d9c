//! Levels to avoid. Where a group varies one factor and its cells were confirmed, by the bounds of that comparison: how much
//! dearer than the best each is at least. Else from the screening: the unselected factorial, in which every level meets
//! the recommended cell's in every column.

use std::collections::BTreeMap;

use bytegauge_model::{Level, Levels, Role, Stage, Trial};
use bytegauge_stats::avoid::{Place, against};
use serde_json::{Value, to_value};

use super::compare::{Judged, moves_nothing};
use super::document::AvoidView;
use super::settled::Settled;
use crate::view::scope::Scope;

/// The levels that are shown to be dearer than the level of the cell `reference` by more than the margin, factor by
/// factor, ascending. Nothing where the group was not screened or varies nothing.
pub fn avoid(judged: &Judged, reference: Option<usize>, settled: &[Settled], scope: &Scope) -> Vec<AvoidView> {
    let Some(reference) = reference else { return Vec::new() };
    let mut found = confirmed(judged, settled, scope);
    let candidates: Vec<&Settled> =
        judged.candidates.iter().map(|&at| &settled[at]).filter(|cell| !moves_nothing(&cell.cell.factors)).collect();
    let choices: Vec<Levels> = candidates.iter().map(|cell| cell.cell.factors.of_role(Role::Choice)).collect();
    let blocks = screening(&candidates, judged.offered);
    let wanted = &settled[reference].cell.factors;
    let levels_of = |factor: &str| {
        let mut levels: Vec<&Level> =
            choices.iter().map(|choice| choice.get(factor)).filter(|level| **level != Level::Absent).collect();
        levels.sort();
        levels.dedup();
        levels
    };
    let comparisons: usize = judged.varied.iter().map(|factor| levels_of(factor).len().saturating_sub(1)).sum();
    for factor in &judged.varied {
        let levels = levels_of(factor);
        let Some(kept) = levels.iter().position(|level| *level == wanted.get(factor)) else { continue };
        let places = places(factor, &choices, &levels);
        let compared = against(&places, &blocks, kept, comparisons, scope.level);
        let to_avoid = compared.into_iter().filter(|one| one.is_to_avoid(scope.margin.ln_1p()));
        let to_avoid: Vec<AvoidView> = to_avoid
            .map(|one| AvoidView {
                factor: factor.clone(),
                level: value(levels[one.level]),
                against: value(levels[kept]),
                dearer_lower: one.lower.exp_m1(),
                dearer_upper: Some(one.upper.exp_m1()).filter(|share| share.is_finite()),
                pairs: one.pairs,
            })
            // What confirmation shows needs no look at the screening.
            .filter(|one| !found.iter().any(|known| known.level == one.level && known.factor == one.factor))
            .collect();
        found.extend(to_avoid);
    }
    found
}

/// What confirmation shows to be dearer than the best by more than the margin, of groups in which a level is a cell. All
/// bounds of a group hold together, whichever cell is the best.
fn confirmed(judged: &Judged, settled: &[Settled], scope: &Scope) -> Vec<AvoidView> {
    let [factor] = judged.varied.as_slice() else { return Vec::new() };
    let verdict = &judged.verdict;
    if verdict.twin_alarm || !judged.standing.proves {
        return Vec::new();
    }
    let shown = verdict.present.iter().filter_map(|&choice| {
        let lower = verdict.lower.get(choice).copied().flatten().filter(|lower| *lower > scope.margin.ln_1p())?;
        let levels = &settled[judged.cell(Some(choice))?].cell.factors;
        Some(AvoidView {
            factor: factor.clone(),
            level: value(levels.get(factor)),
            against: Value::Null,
            dearer_lower: lower.exp_m1(),
            dearer_upper: verdict.upper[choice].map(f64::exp_m1).filter(|share| share.is_finite()),
            pairs: verdict.blocks_used,
        })
    });
    shown.filter(|one| one.level != Value::Null).collect()
}

/// Costs of the screening blocks, one row a block, one column a candidate. What was screened again was chosen by
/// what had been seen, so it does not count.
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

/// Where every candidate stands along a factor; those in which it does not exist stand apart, each in a column of its
/// own.
fn places(factor: &str, choices: &[Levels], levels: &[&Level]) -> Vec<Place> {
    let mut columns: BTreeMap<Levels, usize> = BTreeMap::new();
    let place = |choice: &Levels| {
        let mut others = choice.clone();
        let level = levels.iter().position(|level| *level == choice.get(factor));
        if level.is_some() {
            others.by_name.remove(factor);
        }
        let next = columns.len();
        let column = *columns.entry(others).or_insert(next);
        Place { level: level.unwrap_or(levels.len()), column }
    };
    choices.iter().map(place).collect()
}

fn value(level: &Level) -> Value {
    to_value(level).unwrap_or(Value::Null)
}
