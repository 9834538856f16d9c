//! Selects the recommended option of a group: the cheapest one shown to be good enough.
//!
//! Good enough means non-inferior: the upper bound Uᵢ of its distance from the best is within ln(1 + x).
//!
//! Cheapest means the default first, then the smallest footprint, then the least CPU per unit, then the earliest in the
//! plan.
//!
//! Without a significant result there is no reason to change a setting. Then a default is recommended, unless it
//! is significantly worse than another option or another option has a much smaller bound; otherwise the option with the
//! smallest bound is. All bounds of a group hold simultaneously, so selecting among them needs no correction. A cell
//! that is significantly worse than another does not have the smaller bound of the two, since standard errors of
//! differences obey the triangle inequality (except for differences between critical values). A cell that plain means
//! contradict is recommended only if they contradict all cells.
//!
//! Never calls a cell proven in a group whose A/A control raises an alarm.
//!
//! The report may then name another option: a present value that is as good, or none where every option is harmful (`used` in
//! `report`'s `results`).

use std::cmp::Ordering;

use crate::group::{CellInput, GroupInput, GroupVerdict, Method};
use crate::interim::more_blocks;

/// The recommendation of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct OptionRecommendation {
    /// A proven cell; otherwise a default, or the one with the smallest bound, or without bounds the one with the least
    /// estimate. `None` when no cell was confirmed.
    pub cell: Option<usize>,
    /// Whether the cell is proven.
    pub proven: bool,
    /// The cell's upper bound, in ln (expm1 gives the share), at least 0. It holds whether the cell is proven or not.
    pub upper: Option<f64>,
    /// The cell's point estimate of its distance from the best, in ln.
    pub excess: Option<f64>,
    /// Every proven cell, cheapest first.
    pub proven_cells: Vec<usize>,
    /// Further blocks after which some cell should be proven, if its estimates do not change. `None` when proven or when
    /// more blocks would not help.
    pub blocks_more_needed: Option<usize>,
}

/// Recommends one cell of a group.
pub fn recommend(input: &GroupInput, verdict: &GroupVerdict, method: &Method) -> OptionRecommendation {
    let ranked = cheapest_first(&input.cells);
    let proven_cells: Vec<usize> = ranked.iter().copied().filter(|&cell| verdict.proves(cell, method)).collect();
    let proven = !proven_cells.is_empty();
    let candidate = |&cell: &usize| Candidate {
        is_default: input.cells[cell].is_default,
        proven: verdict.proves(cell, method),
        may_be_best: verdict.best_set.contains(&cell) && !verdict.contradicted.contains(&cell),
        bound: verdict.upper[cell],
    };
    let candidates: Vec<Candidate> = ranked.iter().map(candidate).collect();
    let closest = with_smallest_bound(verdict).and_then(|closest| ranked.iter().position(|cell| *cell == closest));
    let cell = named(&candidates, closest).map(|place| ranked[place]);
    let needed = || (0..input.cells.len()).filter_map(|cell| more_blocks(verdict, cell, method)).min();
    OptionRecommendation {
        cell,
        proven,
        upper: cell.and_then(|cell| verdict.upper[cell]),
        excess: cell.and_then(|cell| verdict.excess[cell]),
        blocks_more_needed: if proven { None } else { needed() },
        proven_cells,
    }
}

/// Orders two cells by cost to the user: defaults first, then footprint, then CPU per unit, then position in the
/// plan. Footprints count only where both have one; a cell without a CPU figure comes after one with it.
pub fn cheaper(a: &CellInput, b: &CellInput) -> Ordering {
    let footprint = match (a.footprint_bytes, b.footprint_bytes) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        _ => Ordering::Equal,
    };
    let cpu = |cell: &CellInput| cell.cpu_per_unit.unwrap_or(f64::INFINITY);
    b.is_default.cmp(&a.is_default).then(footprint).then(cpu(a).total_cmp(&cpu(b))).then(a.order.cmp(&b.order))
}

/// Cells cheapest first. If any cell has no footprint, footprints are ignored, so that the order stays total.
fn cheapest_first(cells: &[CellInput]) -> Vec<usize> {
    let mut costs = cells.to_vec();
    if costs.iter().any(|cost| cost.footprint_bytes.is_none()) {
        costs.iter_mut().for_each(|cost| cost.footprint_bytes = None);
    }
    let mut ranked: Vec<usize> = (0..cells.len()).collect();
    ranked.sort_by(|&a, &b| cheaper(&costs[a], &costs[b]));
    ranked
}

fn with_smallest_bound(verdict: &GroupVerdict) -> Option<usize> {
    let rank = |cell: usize| {
        let bound = verdict.upper[cell].unwrap_or(f64::INFINITY);
        Some((verdict.contradicted.contains(&cell), bound, verdict.excess[cell]?, cell))
    };
    (0..verdict.upper.len())
        .filter_map(rank)
        .min_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.total_cmp(&b.2)))
        .map(|(.., cell)| cell)
}

/// A bound up to this factor above the least one (in ln) is no reason to change a setting: the difference may be noise.
const CLOSE_FACTOR: f64 = 1.5;

/// If the least bound is above this value (a factor of 2, in ln), it is no evidence for its option.
const TWOFOLD: f64 = std::f64::consts::LN_2;

/// An option as seen by [`named`]: from one session, several sessions, or several groups.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// It leaves everything that varies to the system.
    pub is_default: bool,
    /// It is significantly good enough.
    pub proven: bool,
    /// It is nowhere significantly worse than another option, and no other evidence contradicts it.
    pub may_be_best: bool,
    /// Its upper bound on the distance from the best, in ln; `None` without a bound.
    pub bound: Option<f64>,
}

/// Selects the recommended option from candidates in order of cost. The first proven one wins. Otherwise a default
/// wins, the one with the smallest bound, if it may be the best and its bound is close to that of `closest`, the option with
/// the smallest bound of all, or if that bound is too wide to matter. Otherwise `closest` wins.
pub fn named(cheapest_first: &[Candidate], closest: Option<usize>) -> Option<usize> {
    let is_kept = |default: &Candidate, closest: usize| {
        let bounds = default.bound.zip(cheapest_first[closest].bound);
        default.may_be_best && bounds.is_some_and(|(own, least)| own <= CLOSE_FACTOR * least || least >= TWOFOLD)
    };
    let bound_of = |candidate: &Candidate| candidate.bound.unwrap_or(f64::INFINITY);
    cheapest_first.iter().position(|candidate| candidate.proven).or_else(|| {
        let closest = closest?;
        let kept = cheapest_first.iter().enumerate().filter(|(_, one)| one.is_default && is_kept(one, closest));
        let kept = kept.min_by(|(_, a), (_, b)| bound_of(a).total_cmp(&bound_of(b))).map(|(place, _)| place);
        Some(kept.unwrap_or(closest))
    })
}
