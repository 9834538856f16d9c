//! Which choice to take: the cheapest one shown to be good enough everywhere.
//!
//! Good enough means non-inferior: its upper bound Uᵢ on the distance from the best lies within
//! ln(1 + x) in *every* profile. The claim for one cell in every profile needs no further
//! correction, since each profile has to prove it by itself (intersection–union; Berger 1982).
//! Choosing among several cells could in the worst case add up the errors of the profiles; in
//! simulated sessions over four profiles what is proven is true in 98 to 99 %.
//! Cheapest means what leaves everything to the system, then the smallest footprint, then the least CPU per unit, then
//! the earliest in the plan.
//!
//! Where nothing is shown, nothing speaks for a change: what leaves everything to the system is named, unless it is shown to be
//! dearer than another, or another is bounded far more closely. Else the choice that is bounded most closely is. All bounds of a group hold at once, so that to
//! choose among them costs nothing; and a cell that is shown to be dearer than another does not have the lower bound of the
//! two, since standard errors of differences obey the triangle inequality (but for what critical values differ by). A cell
//! that plain means speak against is named only where they speak against all.
//!
//! Never recommends from a group whose twin alarms, and never calls a cell proven that some profile
//! did not confirm.

use crate::budget::more_blocks;
use crate::group::{CellInput, GroupInput, GroupVerdict, Method};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// Why the recommendation is as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// The cell is shown to be within the margin of the best confirmed in every profile.
    Proven,
    /// Bounds are too wide, or no single cell is good enough in every profile.
    NotProven,
    /// A twin alarms in the profile of this index: nothing is proven.
    TwinAlarm {
        /// Index into the profiles given.
        profile: usize,
    },
    /// The profile of this index is inconclusive; its verdict says why.
    Inconclusive {
        /// Index into the profiles given.
        profile: usize,
    },
    /// No cell was confirmed in every profile.
    NoCommonCell,
}

/// A cheaper cell that was not recommended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Passed {
    /// The cell.
    pub cell: usize,
    /// The profile that speaks most against it.
    pub profile: usize,
    /// Its largest upper bound over the profiles, in ln.
    pub worst_upper: f64,
    /// Its largest lower bound over the profiles, in ln.
    pub worst_lower: f64,
    /// Whether it is shown to be worse than the margin in some profile; otherwise it is open.
    pub shown_worse: bool,
}

/// A recommendation over one or several profiles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recommendation {
    /// The cell to take when proven; otherwise the one that changes nothing, the one with the least bound (its worst over the
    /// profiles), or where there are no bounds the one with the least estimate. `None` when no cell was confirmed in every profile.
    pub cell: Option<usize>,
    /// Whether the cell is proven.
    pub proven: bool,
    /// Why.
    pub reason: Reason,
    /// The cell's largest upper bound over the profiles, in ln (expm1 gives the share), at least 0: so much
    /// dearer than the best confirmed it is at most, proven or not. `None` if some profile has no bound for it.
    pub worst_upper: Option<f64>,
    /// The profile in which that bound is reached.
    pub worst_profile: Option<usize>,
    /// The cell's largest point estimate of its distance from the best, in ln.
    pub worst_excess: Option<f64>,
    /// Every cell proven in every profile, cheapest first.
    pub proven_cells: Vec<usize>,
    /// Cells cheaper than the recommended one and why not they, cheapest first.
    pub passed: Vec<Passed>,
    /// Further blocks in every profile after which some cell should be proven, if its
    /// estimates stay as they are. `None` when proven or when no number of blocks would do.
    pub blocks_more_needed: Option<usize>,
    /// The cheapest proven cell of each profile by itself: where these differ, the boundary can be
    /// put in words.
    pub boundary: Vec<Option<usize>>,
}

/// Recommends one cell for all `profiles` at once (one profile is a list of one). The same index
/// means the same choice in each.
///
/// # Panics
/// If the profiles differ in their number of cells, or there are none.
#[must_use]
pub fn over_profiles(profiles: &[(&GroupInput, &GroupVerdict)], method: &Method) -> Recommendation {
    let cells = profiles.first().expect("a recommendation needs a profile").0.cells.len();
    assert!(profiles.iter().all(|(input, _)| input.cells.len() == cells), "profiles differ in their number of cells");
    let ranked = cheapest_first(profiles, cells);
    let proves_everywhere = |&cell: &usize| profiles.iter().all(|(_, v)| v.proves(cell, method));
    let proven_cells: Vec<usize> = ranked.iter().copied().filter(proves_everywhere).collect();
    let proven = !proven_cells.is_empty();
    let candidate = |&cell: &usize| Candidate {
        is_default: profiles[0].0.cells[cell].is_default,
        proven: proves_everywhere(&cell),
        may_be_best: profiles.iter().all(|(_, v)| v.best_set.contains(&cell) && !v.spoken_against.contains(&cell)),
        bound: worst_over(profiles, |v| v.upper[cell]).map(|(_, upper)| upper),
    };
    let candidates: Vec<Candidate> = ranked.iter().map(candidate).collect();
    let closest = closest_bounded(profiles, cells).and_then(|closest| ranked.iter().position(|cell| *cell == closest));
    let cell = named(&candidates, closest).map(|place| ranked[place]);
    let worst = cell.and_then(|cell| worst_over(profiles, |v| v.upper[cell]));
    Recommendation {
        cell,
        proven,
        reason: if proven { Reason::Proven } else { why_not(profiles, cell) },
        worst_upper: worst.map(|(_, upper)| upper),
        worst_profile: worst.map(|(profile, _)| profile),
        worst_excess: cell.and_then(|cell| worst_over(profiles, |v| v.excess[cell])).map(|(_, x)| x),
        passed: cell.map_or_else(Vec::new, |cell| passed(profiles, &ranked, cell, method)),
        blocks_more_needed: if proven { None } else { blocks_needed(profiles, cells, method) },
        boundary: profiles
            .iter()
            .map(|(_, verdict)| ranked.iter().copied().find(|&cell| verdict.proves(cell, method)))
            .collect(),
        proven_cells,
    }
}

/// Orders two cells by cost to the user: what changes nothing, then footprint, then CPU per unit, then place in the plan.
/// Footprints count only where both have one; a cell without a CPU figure comes after one with it.
#[must_use]
pub fn cheaper(a: &CellInput, b: &CellInput) -> Ordering {
    let footprint = match (a.footprint_bytes, b.footprint_bytes) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        _ => Ordering::Equal,
    };
    let cpu = |cell: &CellInput| cell.cpu_per_unit.unwrap_or(f64::INFINITY);
    b.is_default.cmp(&a.is_default).then(footprint).then(cpu(a).total_cmp(&cpu(b))).then(a.order.cmp(&b.order))
}

/// Cells cheapest first. A cell counts at the dearest it is in any profile; if any cell lacks a
/// footprint, footprints decide nothing, so that the order stays an order.
fn cheapest_first(profiles: &[(&GroupInput, &GroupVerdict)], cells: usize) -> Vec<usize> {
    let dearest = |read: &dyn Fn(&CellInput) -> Option<f64>, cell: usize| {
        let values = profiles.iter().map(|(input, _)| read(&input.cells[cell]));
        values.reduce(|a, b| Some(a?.max(b?))).flatten()
    };
    let mut costs: Vec<CellInput> = (0..cells)
        .map(|cell| CellInput {
            footprint_bytes: dearest(&|c| c.footprint_bytes, cell),
            cpu_per_unit: dearest(&|c| c.cpu_per_unit, cell),
            order: profiles[0].0.cells[cell].order,
            is_default: profiles[0].0.cells[cell].is_default,
            unfit: false,
        })
        .collect();
    if costs.iter().any(|cost| cost.footprint_bytes.is_none()) {
        costs.iter_mut().for_each(|cost| cost.footprint_bytes = None);
    }
    let mut ranked: Vec<usize> = (0..cells).collect();
    ranked.sort_by(|&a, &b| cheaper(&costs[a], &costs[b]));
    ranked
}

/// The largest value over the profiles and where it is; `None` if any profile has none.
fn worst_over(
    profiles: &[(&GroupInput, &GroupVerdict)],
    read: impl Fn(&GroupVerdict) -> Option<f64>,
) -> Option<(usize, f64)> {
    let values: Option<Vec<f64>> = profiles.iter().map(|(_, verdict)| read(verdict)).collect();
    values?.into_iter().enumerate().reduce(|a, b| if b.1 > a.1 { b } else { a })
}

fn closest_bounded(profiles: &[(&GroupInput, &GroupVerdict)], cells: usize) -> Option<usize> {
    let spoken_against = |cell: usize| profiles.iter().any(|(_, v)| v.spoken_against.contains(&cell));
    let rank = |cell: usize| {
        let bound = worst_over(profiles, |v| v.upper[cell]).map_or(f64::INFINITY, |(_, upper)| upper);
        let (_, excess) = worst_over(profiles, |v| v.excess[cell])?;
        Some((spoken_against(cell), bound, excess, cell))
    };
    (0..cells)
        .filter_map(rank)
        .min_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.total_cmp(&b.2)))
        .map(|(.., cell)| cell)
}

/// A bound so many times as wide (in ln) as the least one is no reason to change anything: it may be noise's alone.
const AS_CLOSE: f64 = 1.5;

/// A least bound that excludes not even a double, ln, is no answer at all.
const TWOFOLD: f64 = std::f64::consts::LN_2;

/// A choice as the rule sees it that says which one is named: of one session, of several, or of several questions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// It leaves everything that varies to the system: whoever takes it changes nothing.
    pub is_default: bool,
    /// It is shown to be good enough wherever that is asked.
    pub proven: bool,
    /// It is nowhere shown to be dearer than another one, and nothing else speaks against it.
    pub may_be_best: bool,
    /// Its upper bound on the distance from the best, in ln; `None` where it has none.
    pub bound: Option<f64>,
}

/// Which of the choices, given cheapest first, is named: the first that is proven; else the one that changes nothing, where none
/// is shown to be cheaper and its bound is about as close as that of `closest`, the one that is bounded most closely, or
/// that one's bound is no answer either; else `closest`.
#[must_use]
pub fn named(cheapest_first: &[Candidate], closest: Option<usize>) -> Option<usize> {
    let stands = |default: &Candidate, closest: usize| {
        let bounds = default.bound.zip(cheapest_first[closest].bound);
        default.may_be_best && bounds.is_some_and(|(own, least)| own <= AS_CLOSE * least || least >= TWOFOLD)
    };
    cheapest_first.iter().position(|candidate| candidate.proven).or_else(|| {
        let closest = closest?;
        let default = cheapest_first.iter().position(|candidate| candidate.is_default);
        Some(default.filter(|&default| stands(&cheapest_first[default], closest)).unwrap_or(closest))
    })
}

fn why_not(profiles: &[(&GroupInput, &GroupVerdict)], cell: Option<usize>) -> Reason {
    let first = |test: &dyn Fn(&GroupVerdict) -> bool| profiles.iter().position(|(_, v)| test(v));
    if let Some(profile) = first(&|v| v.twin_alarm) {
        Reason::TwinAlarm { profile }
    } else if let Some(profile) = first(&|v| v.inconclusive.is_some()) {
        Reason::Inconclusive { profile }
    } else if cell.is_none() {
        Reason::NoCommonCell
    } else {
        Reason::NotProven
    }
}

fn passed(profiles: &[(&GroupInput, &GroupVerdict)], ranked: &[usize], chosen: usize, method: &Method) -> Vec<Passed> {
    let cheaper = ranked.iter().copied().take_while(|&cell| cell != chosen);
    let judged = cheaper.filter_map(|cell| {
        let (profile, worst_upper) = worst_over(profiles, |v| v.upper[cell])?;
        let (_, worst_lower) = worst_over(profiles, |v| v.lower[cell])?;
        let shown_worse = worst_lower > method.ln_margin();
        Some(Passed { cell, profile, worst_upper, worst_lower, shown_worse })
    });
    judged.collect()
}

/// The fewest further blocks that would prove some cell in every profile. A twin alarm is not cured
/// by more blocks.
fn blocks_needed(profiles: &[(&GroupInput, &GroupVerdict)], cells: usize, method: &Method) -> Option<usize> {
    let needed = |cell: usize| -> Option<usize> {
        let each: Option<Vec<usize>> = profiles.iter().map(|(_, verdict)| more_blocks(verdict, cell, method)).collect();
        each?.into_iter().max()
    };
    (0..cells).filter_map(needed).min()
}

#[cfg(test)]
#[path = "recommend_tests.rs"]
mod tests;
