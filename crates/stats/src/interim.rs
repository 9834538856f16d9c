//! Interim analyses: the numbers of blocks after which a session may stop early.
//!
//! Stopping at a moment chosen from the results inflates the error. So the moments are declared beforehand, at 1, 2 and
//! 4 times the blocks, and the error of 5 % is divided evenly (Bonferroni: 98.3 % per analysis). Whichever analysis is
//! the last, its claims are wrong in at most 5 % of cases. Every analysis uses all blocks from the first one on. Blocks
//! after the last completed analysis are not used.
//!
//! Three analyses with doubling blocks lose little. In groups resampled from real sessions, a fixed 64 blocks prove 76
//! % of groups and 256 prove 95 %; analyses at 64, 128 and 256 prove as many as 256, in about 100 blocks on average.
//!
//! The number and the places of analyses never depend on the measurements.

use crate::block_dependence::FEW_BLOCKS;
use crate::group::{GroupVerdict, Inconclusive, Method};

/// The default number of analyses of a session.
pub const ANALYSES: usize = 3;

/// One interim analysis, declared beforehand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InterimAnalysis {
    /// Its number, from 1.
    pub number: usize,
    /// The largest number of analyses.
    pub of: usize,
    /// The number of blocks of a group, from the first, after which it takes place.
    pub blocks: usize,
    /// Confidence of the analysis, as a share: [`Method::level`](crate::group::Method::level).
    pub level: f64,
}

/// The level of each of `of` analyses that together keep `overall` (a share, 0.95).
pub fn level(overall: f64, of: usize) -> f64 {
    1.0 - (1.0 - overall) / of.max(1) as f64
}

/// All analyses of a group whose first one takes place after `first_blocks` blocks; each has twice the blocks of the
/// previous one. A single analysis has a fixed number of blocks and the full level.
pub fn schedule(first_blocks: usize, of: usize, overall: f64) -> Vec<InterimAnalysis> {
    let of = of.max(1);
    let blocks = |number: usize| {
        let times = u32::try_from(number - 1).ok().and_then(|power| 2_usize.checked_pow(power)).unwrap_or(usize::MAX);
        first_blocks.saturating_mul(times)
    };
    (1..=of).map(|number| InterimAnalysis { number, of, blocks: blocks(number), level: level(overall, of) }).collect()
}

/// The last analysis that a group with `blocks` complete blocks has reached.
pub fn completed(analyses: &[InterimAnalysis], blocks: usize) -> Option<InterimAnalysis> {
    analyses.iter().copied().rfind(|analysis| analysis.blocks <= blocks)
}

/// The next analysis of a group with `blocks` complete blocks; `None` after the last.
pub fn next(analyses: &[InterimAnalysis], blocks: usize) -> Option<InterimAnalysis> {
    analyses.iter().copied().find(|analysis| analysis.blocks > blocks)
}

// Forecasts how many more blocks a group needs for a significant result.
//
// The bound of cell i compared with j is d̄ᵢⱼ + cⱼ·seᵢⱼ, and seᵢⱼ shrinks with the square root of the number of
// blocks. If the estimates do not change, n·(cⱼ·seᵢⱼ / (ln(1 + x) − d̄ᵢⱼ))² blocks reduce the bound to the margin x.
// This is a forecast and never enters a result: the number of blocks of a session is fixed before they start.

/// Further blocks after which `cell` should be shown to be within the margin of the best: 0 if it is already.
///
/// Returns `None` if its estimate is beyond the margin, the plain means contradict it, or the cell was not confirmed.
pub fn more_blocks(verdict: &GroupVerdict, cell: usize, method: &Method) -> Option<usize> {
    let holds = |cells: &[usize]| cells.binary_search(&cell).is_ok();
    if !holds(&verdict.present) || holds(&verdict.contradicted) {
        return None;
    }
    match verdict.inconclusive {
        Some(Inconclusive::TooFewBlocks(blocks)) => return Some(FEW_BLOCKS - blocks),
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

/// The factor by which the number of blocks must grow so that the interval of a difference should exclude 0 or be within the margin
/// `ln_margin`: 1 if it does, infinite if more blocks do not help. In logarithms it is `mean` ± (`reach` + `fixed`); only
/// `reach` shrinks.
pub fn growth_to_decide(mean: f64, reach: f64, fixed: f64, ln_margin: f64) -> f64 {
    let gap = mean.abs().max(ln_margin - mean.abs()) - fixed;
    if gap > 0.0 { (reach / gap).powi(2).max(1.0) } else { f64::INFINITY }
}

/// The factor by which the number of blocks must grow so that the bound of `cell` compared with `j` meets the margin.
fn growth(verdict: &GroupVerdict, cell: usize, j: usize, method: &Method) -> Option<f64> {
    let pair = verdict.pair(cell, j)?;
    let gap = method.ln_margin() - pair.mean - pair.systematic;
    if gap <= 0.0 {
        return None;
    }
    let factor = (pair.random / gap).powi(2);
    factor.is_finite().then_some(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn analyses_double_and_share_the_error() {
        let analyses = schedule(64, ANALYSES, 0.95);
        let ends: Vec<usize> = analyses.iter().map(|analysis| analysis.blocks).collect();
        assert_eq!(ends, [64, 128, 256]);
        assert!(analyses.iter().all(|analysis| (analysis.level - 0.983_333).abs() < 1e-6), "{analyses:?}");
        assert!((schedule(64, 1, 0.95)[0].level - 0.95).abs() < 1e-12);
        assert_eq!(schedule(usize::MAX, 80, 0.95).last().map(|analysis| analysis.blocks), Some(usize::MAX));
    }

    #[test]
    fn a_difference_is_decided_by_its_distance() {
        assert!((growth_to_decide(-2.0, 2.8, 0.0, 0.05) - 1.96).abs() < 1e-9);
        assert!(growth_to_decide(0.08, 0.1, 0.1, 0.05).is_infinite());
        // Near 0 it is the margin that must contain the interval.
        assert!((growth_to_decide(0.01, 0.08, 0.0, 0.05) - 4.0).abs() < 1e-9);
        assert!((growth_to_decide(0.2, 0.1, 0.0, 0.05) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn blocks_between_analyses_belong_to_neither() {
        let analyses = schedule(10, ANALYSES, 0.95);
        for (blocks, done, ahead) in [
            (9, None, Some(1)),
            (10, Some(1), Some(2)),
            (39, Some(2), Some(3)),
            (40, Some(3), None),
            (99, Some(3), None),
        ] {
            let number = |analysis: Option<InterimAnalysis>| analysis.map(|analysis| analysis.number);
            assert_eq!(
                (number(completed(&analyses, blocks)), number(next(&analyses, blocks))),
                (done, ahead),
                "{blocks}"
            );
        }
    }
}
