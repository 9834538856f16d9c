//! Forecasts how many more blocks a group needs for a significant result.
//!
//! The bound of cell i compared with j is d̄ᵢⱼ + cⱼ·seᵢⱼ, and seᵢⱼ shrinks with the square root of the number of
//! blocks. If the estimates do not change, n·(cⱼ·seᵢⱼ / (ln(1 + x) − d̄ᵢⱼ))² blocks reduce the bound to the margin x.
//! This is a forecast and never enters a result: the number of blocks of a session is fixed before they start.

use crate::block_dependence::MIN_BLOCKS;
use crate::group::{GroupVerdict, Inconclusive, Method};

/// Further blocks after which `cell` should be shown to be within the margin of the best: 0 if it is already.
///
/// Returns `None` if its estimate is beyond the margin, the A/A control raises an alarm, the plain means contradict it,
/// or the cell was not confirmed.
#[must_use]
pub fn more_blocks(verdict: &GroupVerdict, cell: usize, method: &Method) -> Option<usize> {
    let holds = |cells: &[usize]| cells.binary_search(&cell).is_ok();
    if verdict.twin_alarm || !holds(&verdict.present) || holds(&verdict.contradicted) {
        return None;
    }
    match verdict.inconclusive {
        Some(Inconclusive::TooFewBlocks { blocks, merged_by }) => {
            return Some((MIN_BLOCKS - blocks) * merged_by);
        }
        Some(Inconclusive::NoCells) => return None,
        None => {}
    }
    let rivals = verdict.best_set.iter().copied().filter(|&j| j != cell);
    let factors: Option<Vec<f64>> = rivals.map(|j| growth(verdict, cell, j, method)).collect();
    let factor = factors?.into_iter().fold(1.0, f64::max);
    let merged = verdict.judged.pairs.blocks();
    let more = ((factor - 1.0) * merged as f64 - 1e-9).ceil() as usize;
    Some(more * verdict.merged_by)
}

/// The factor by which the number of blocks must grow so that the bound of `cell` compared with `j` meets the margin.
fn growth(verdict: &GroupVerdict, cell: usize, j: usize, method: &Method) -> Option<f64> {
    let pair = verdict.pair(cell, j)?;
    let gap = method.ln_margin() - pair.mean;
    if gap <= 0.0 {
        return None;
    }
    let reach = if pair.error > 0.0 { pair.critical * pair.error } else { 0.0 };
    let factor = (reach / gap).powi(2);
    factor.is_finite().then_some(factor)
}
