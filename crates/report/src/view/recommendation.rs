//! The recommendation of a test, from the results of its comparison. The statistics are done already.

use bytegauge_model::CellId;
use bytegauge_stats::group::Method;

use super::audit::is_withdrawn;
use super::compare::GroupAnalysis;
use super::counted_trials::Settled;
use super::numbers::difference::share;
use super::numbers::{AuditSummary, CellView, GroupRecommendation};
use crate::phrase;

/// The input of recommendations, in addition to the comparison.
pub struct Conditions<'a> {
    /// The cells, as they will be printed; in the order of the settled ones.
    pub cells: &'a [CellView],
    /// The same cells with their trials.
    pub settled: &'a [Settled<'a>],
    /// It was measured here, and can continue here.
    pub resumable: bool,
    /// "Within x of the best", as a share.
    pub margin: f64,
    /// The results of long trials for all groups together.
    pub audit: Option<AuditSummary>,
}

impl Conditions<'_> {
    /// The id of the cell that takes a choice in a group.
    pub fn id(&self, group: &GroupAnalysis, choice: Option<usize>) -> Option<CellId> {
        group.cell(choice).map(|at| self.cells[at].id.clone())
    }

    /// Whether the reader of a group discards the bytes; a reader that compares them does not.
    pub fn throw_away(&self, group: &GroupAnalysis) -> bool {
        let verifies = |at: &usize| self.cells[*at].counters.verified_bytes.is_some();
        phrase::throws_away(&group.row.group.factors) && !group.candidates.iter().any(verifies)
    }
}

/// The recommendation of a group. Empty without two compared options, unless one alone carries a load.
pub fn recommendation(group: &GroupAnalysis, conditions: &Conditions) -> GroupRecommendation {
    let id = |choice: Option<usize>| conditions.id(group, choice);
    let nothing = GroupRecommendation { margin: conditions.margin, ..GroupRecommendation::default() };
    let is_left_alone = || (0..group.cells.len()).any(|choice| group.behind(choice).is_some());
    if group.verdict.present.len() < 2 && !is_left_alone() {
        return nothing;
    }
    let own = GroupRecommendation { cell: id(group.alone.cell), best: id(group.verdict.leader()), ..nothing };
    // A session that stopped before its first analysis may have been stopped because of its results.
    if !group.standing.proves || own.cell.is_none() {
        return own;
    }
    let proven = group.alone.proven && !is_withdrawn(group, conditions);
    let bound = group.alone.upper.and_then(share);
    GroupRecommendation {
        proven,
        bound,
        survives_exchange: survives_exchange(group, conditions.margin).filter(|_| proven),
        more_blocks: blocks_left(group, conditions),
        ..own
    }
}

/// Whether the result holds with the A/A control in its cell's place; `None` without a result, or without a control.
fn survives_exchange(group: &GroupAnalysis, margin: f64) -> Option<bool> {
    let cell = group.alone.cell.filter(|_| group.alone.proven)?;
    group.verdict.survives_exchange(cell, &Method { margin, ..Method::default() })
}

/// Whether the same option measured twice differs by more than the margin: no result is more precise. Unless all other options
/// (`slower`, at least, as shares) are slower than the best by more than that.
pub fn is_control_wide(reach: Option<f64>, margin: f64, slower: &[f64]) -> bool {
    let is_clear = |reach: f64| !slower.is_empty() && slower.iter().all(|lower| *lower > reach);
    reach.is_some_and(|reach| reach > margin && !is_clear(reach))
}

/// The same for an option of a group.
fn is_wide(group: &GroupAnalysis, own: Option<usize>, margin: f64) -> bool {
    let others = group.verdict.present.iter().filter(|&&choice| own.is_some_and(|own| own != choice));
    let slower: Vec<f64> = others.filter_map(|&choice| group.verdict.lower[choice]).map(f64::exp_m1).collect();
    is_control_wide(group.twin_reach(), margin, &slower)
}

/// Whether more blocks may decide a test. `false` for one that is decided.
fn more_blocks_help(group: &GroupAnalysis, conditions: &Conditions) -> bool {
    let (verdict, margin) = (&group.verdict, conditions.margin);
    let is_wide = is_wide(group, group.alone.cell, margin);
    // More blocks narrow the interval of the A/A control, but do not move its middle.
    if is_wide && verdict.twin.is_some_and(|twin| twin.difference.abs() >= margin.ln_1p()) {
        return false;
    }
    match group.alone.proven {
        false => group.alone.blocks_more_needed.is_some(),
        true => (is_wide || survives_exchange(group, margin) == Some(false)) && !is_withdrawn(group, conditions),
    }
}

/// The blocks of the remaining analyses; `None` if they would not reduce the bound.
fn blocks_left(group: &GroupAnalysis, conditions: &Conditions) -> Option<u64> {
    if !conditions.resumable || !more_blocks_help(group, conditions) {
        return None;
    }
    let analysis = group.standing.view.as_ref()?;
    let last = analysis.left_until()?;
    Some((last as u64).saturating_sub((analysis.blocks + analysis.so_far) as u64))
}
