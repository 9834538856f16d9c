//! Levels to avoid. If all cells of a level were confirmed, by the bounds of that comparison: how much slower than the best they
//! are at least; for a level that is no size, those of its cells that are significantly slow. Else by the screening: the
//! unselected factorial, in which every level meets the recommended cell's in every column.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytegauge_model::{Level, Role, Spec, Stage, Trial};
use bytegauge_stats::avoid::{GridPlace, against};
use serde_json::{Value, to_value};

use super::compare::{Judged, moves_nothing};
use super::document::{AvoidView, Factors};
use super::recommendation::Conditions;
use super::settled::Settled;

/// The levels that are slower than the level of the cell `reference` by significantly more than the margin, factor by factor,
/// ascending. None if the group was not screened or varies nothing.
pub fn avoid(judged: &Judged, reference: Option<usize>, conditions: &Conditions) -> Vec<AvoidView> {
    let settled = conditions.settled;
    let Some(reference) = reference else { return Vec::new() };
    let mut found = confirmed(judged, settled, conditions.margin);
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
    let may_be_best = |level: &Value, factor: &str| {
        let is_at = |choice: &usize| {
            judged.cell(Some(*choice)).is_some_and(|cell| value(&settled[cell].cell.factors.get(factor)) == *level)
        };
        judged.verdict.present.len() > 1 && judged.verdict.best_set.iter().any(is_at)
    };
    let comparisons: usize = judged.varied.iter().map(|factor| levels_of(factor).len().saturating_sub(1)).sum();
    for factor in &judged.varied {
        let levels = levels_of(factor);
        let Some(kept) = levels.iter().position(|level| *level == wanted.get(factor)) else { continue };
        let places = places(factor, &choices, &levels);
        let compared = against(&places, &blocks, kept, comparisons, conditions.level);
        let to_avoid = compared.into_iter().filter(|one| one.is_to_avoid(conditions.margin.ln_1p()));
        let to_avoid: Vec<AvoidView> = to_avoid
            .map(|one| AvoidView {
                factor: factor.clone(),
                level: value(&levels[one.level]),
                against: value(&levels[kept]),
                dearer_lower: one.lower.exp_m1(),
                dearer_upper: Some(one.upper.exp_m1()).filter(|share| share.is_finite()),
                pairs: one.pairs,
                with: Vec::new(),
                age_ns: None,
            })
            // The screening measured its cells once or twice; for a confirmed one that may be the best it is no evidence.
            .filter(|one| !may_be_best(&one.level, factor))
            // A result of the confirmation for a whole level needs no screening.
            .filter(|one| !found.iter().any(|known| is_same(known, one) && known.with.is_empty()))
            .collect();
        // A result for a whole level holds for a part of it.
        found.retain(|known| known.with.is_empty() || !to_avoid.iter().any(|one| is_same(known, one)));
        found.extend(to_avoid);
    }
    found
}

impl AvoidView {
    /// Whether it is a result of the screening, which compares with one level; the confirmation compares with the best.
    pub fn is_screened(&self) -> bool {
        !self.against.is_null()
    }
}

fn is_same(one: &AvoidView, other: &AvoidView) -> bool {
    one.level == other.level && one.factor == other.factor
}

/// Levels of which every cell was confirmed and is slower than the best by significantly more than the margin; at least by the
/// smallest of their bounds. All bounds of a group hold together, whichever cell is the best. If some cells of a level were only
/// screened, or are not significantly slow, there is no result for the level; if it is no size, such as congestion control, the
/// result names the other levels with which it holds.
fn confirmed(judged: &Judged, settled: &[Settled], margin: f64) -> Vec<AvoidView> {
    let verdict = &judged.verdict;
    if verdict.twin_alarm || !judged.standing.proves {
        return Vec::new();
    }
    let of_factor = |factor: &String| {
        let with = |choices: &[usize]| -> Vec<Factors> {
            let cells = choices.iter().filter_map(|&choice| judged.cell(Some(choice)));
            let others = |cell: usize| {
                let levels = &settled[cell].cell.factors;
                let others = judged.varied.iter().filter(|other| *other != factor);
                let present = others.filter(|other| levels.get(other) != Level::Absent);
                present.map(|other| (other.clone(), value(&levels.get(other)))).collect()
            };
            cells.map(others).collect()
        };
        // The common levels of two choices that differ only in this factor.
        let shared = |choice: usize| -> Option<Vec<Level>> {
            let levels = &settled[judged.cell(Some(choice))?].cell.factors;
            Some(judged.varied.iter().filter(|name| *name != factor).map(|name| levels.get(name)).collect())
        };
        let mut siblings: BTreeMap<Vec<Level>, Vec<usize>> = BTreeMap::new();
        for &choice in &verdict.present {
            if let Some(shared) = shared(choice) {
                siblings.entry(shared).or_default().push(choice);
            }
        }
        let mut by_level: BTreeMap<Level, Vec<usize>> = BTreeMap::new();
        for &choice in &verdict.present {
            let level = judged.cell(Some(choice)).map(|cell| settled[cell].cell.factors.get(factor));
            if let Some(level) = level.filter(|level| *level != Level::Absent) {
                by_level.entry(level).or_default().push(choice);
            }
        }
        let mut asked: BTreeMap<Level, usize> = BTreeMap::new();
        for &cell in &judged.candidates {
            *asked.entry(settled[cell].cell.factors.get(factor)).or_default() += 1;
        }
        // A size is one of many: the results of other sizes explain why its confirmed cells are slow.
        let is_size = judged.candidates.iter().any(|&cell| settled[cell].cell.factors.get(factor).number().is_some());
        let shown = by_level.into_iter().filter_map(|(level, mut choices)| {
            let bound_of = |bounds: &[Option<f64>], choice: usize| bounds.get(choice).copied().flatten();
            let is_dear =
                |choice: &usize| bound_of(&verdict.lower, *choice).is_some_and(|lower| lower > margin.ln_1p());
            choices.retain(is_dear);
            let all = asked.get(&level) == Some(&choices.len());
            if !all {
                // If the same may be as slow at every other level of this factor, another factor is the cause.
                choices.retain(|&choice| {
                    let lower = bound_of(&verdict.lower, choice);
                    let is_less = |other: usize| !is_dear(&other) || bound_of(&verdict.upper, other) < lower;
                    let same = shared(choice).and_then(|shared| siblings.get(&shared));
                    let mut others = same.into_iter().flatten().copied().filter(|&other| other != choice).peekable();
                    others.peek().is_none() || others.any(is_less)
                });
            }
            if (is_size && !all) || choices.is_empty() {
                return None;
            }
            let bound = |bounds: &[Option<f64>], pick: fn(f64, f64) -> f64| -> Option<f64> {
                let of_each = choices.iter().map(|&choice| bound_of(bounds, choice));
                of_each.reduce(|one, other| Some(pick(one?, other?))).flatten()
            };
            let lower = bound(&verdict.lower, f64::min)?;
            let partly: BTreeSet<usize> = if all { BTreeSet::new() } else { choices.iter().copied().collect() };
            let view = AvoidView {
                factor: factor.clone(),
                level: value(&level),
                against: Value::Null,
                dearer_lower: lower.exp_m1(),
                dearer_upper: bound(&verdict.upper, f64::max).map(f64::exp_m1).filter(|share| share.is_finite()),
                pairs: verdict.blocks_used,
                with: if all { Vec::new() } else { with(&choices) },
                age_ns: None,
            };
            Some((partly, view))
        });
        shown.collect::<Vec<_>>()
    };
    // The same cells are not reported for two levels: which of the two is the cause is unknown.
    let mut reported: BTreeSet<BTreeSet<usize>> = BTreeSet::new();
    let all = judged.varied.iter().flat_map(of_factor);
    all.filter(|(partly, _)| partly.is_empty() || reported.insert(partly.clone())).map(|(_, view)| view).collect()
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
