//! Which levels of a factor to avoid, from the screening of all cells.
//!
//! Screening visits every cell of a grid before any selection, so it is an unselected factorial design. A level of one
//! factor and the reference level meet in every *column* of every block; a column is one combination of the levels of
//! all other factors. The ln cost ratios, one per column and block, give the sign interval of their median (Conover,
//! *Practical Nonparametric Statistics*, 3.2). A result therefore holds *in the median column*, not in each column. The
//! error is divided among all compared levels (Bonferroni), so all intervals of a group hold together.
//!
//! Never uses blocks whose cells were selected by earlier results. Never judges a single cell: two or four screening
//! trials are too few.

use crate::interval::sign_interval;
use serde::{Deserialize, Serialize};

/// The position of a cell in the grid, along one factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GridPlace {
    /// Index of its level of the factor.
    pub level: usize,
    /// Index of the combination of its other levels.
    pub column: usize,
}

/// One level of a factor compared with the reference level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LevelDifference {
    /// Index of the level.
    pub level: usize,
    /// Lower end of the interval of the median of ln(cost at the level / cost at the reference).
    pub lower: f64,
    /// Upper end.
    pub upper: f64,
    /// Number of pairs: columns times blocks.
    pub pairs: usize,
}

impl LevelDifference {
    /// Whether the level costs significantly more, by more than `ln_margin`, in the median column.
    #[must_use]
    pub fn is_to_avoid(&self, ln_margin: f64) -> bool {
        self.lower > ln_margin
    }
}

/// Compares every level of a factor with the level `reference`. `blocks` holds the costs of the screening blocks: one
/// row per block, one column per cell, in the order of `places`. A missing or non-positive cost removes its pair.
/// `level` is the joint confidence of all `comparisons` of the group, as a share. Levels with too few pairs for an
/// interval are left out.
///
/// # Panics
/// If a block has a different number of cells than `places`, or the level is not between 0 and 1.
#[must_use]
pub fn against(
    places: &[GridPlace],
    blocks: &[Vec<Option<f64>>],
    reference: usize,
    comparisons: usize,
    level: f64,
) -> Vec<LevelDifference> {
    assert!(blocks.iter().all(|block| block.len() == places.len()), "a block has one cost a cell");
    let each = 1.0 - (1.0 - level) / comparisons.max(1) as f64;
    let levels = places.iter().map(|place| place.level + 1).max().unwrap_or(0);
    let compared = (0..levels).filter(|&other| other != reference).filter_map(|other| {
        let found = sign_interval(&pairs(places, blocks, other, reference), each);
        Some(LevelDifference { level: other, lower: found.lower?, upper: found.upper?, pairs: found.n })
    });
    compared.collect()
}

/// ln(cost at `level` / cost at `reference`), one value per column and block in which both were measured.
fn pairs(places: &[GridPlace], blocks: &[Vec<Option<f64>>], level: usize, reference: usize) -> Vec<f64> {
    let at = |level: usize, column: usize| places.iter().position(|place| *place == GridPlace { level, column });
    let columns = places.iter().filter(|place| place.level == level).map(|place| place.column);
    let met: Vec<(usize, usize)> =
        columns.filter_map(|column| Some((at(level, column)?, at(reference, column)?))).collect();
    let cost = |block: &[Option<f64>], cell: usize| block[cell].filter(|cost| cost.is_finite() && *cost > 0.0);
    let ratio =
        |block: &[Option<f64>], (one, other): (usize, usize)| Some((cost(block, one)? / cost(block, other)?).ln());
    blocks.iter().flat_map(|block| met.iter().filter_map(|&cells| ratio(block, cells)).collect::<Vec<_>>()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three levels by `columns` columns; level 1 costs 1.5 times level 0, level 2 the same.
    fn grid(columns: usize) -> Vec<GridPlace> {
        (0..3 * columns).map(|cell| GridPlace { level: cell / columns, column: cell % columns }).collect()
    }

    fn block(columns: usize, swing: f64) -> Vec<Option<f64>> {
        let cost = |cell: usize| [1.0, 1.5, 1.0][cell / columns] * (1.0 + 0.1 * (cell % columns) as f64) * swing;
        (0..3 * columns).map(|cell| Some(cost(cell))).collect()
    }

    #[test]
    fn levels_are_compared_within_column_and_block() {
        let blocks = [block(5, 1.0), block(5, 7.0)];
        let got = against(&grid(5), &blocks, 0, 2, 0.95);
        assert_eq!(got.iter().map(|a| (a.level, a.pairs)).collect::<Vec<_>>(), [(1, 10), (2, 10)]);
        assert!((got[0].lower - 1.5_f64.ln()).abs() < 1e-9 && (got[0].upper - got[0].lower).abs() < 1e-9, "{got:?}");
        assert!(got[0].is_to_avoid(0.05) && !got[1].is_to_avoid(0.0));
    }

    #[test]
    fn too_few_pairs_give_no_interval() {
        assert_eq!(against(&grid(1), &[block(1, 1.0), block(1, 1.0)], 0, 2, 0.95), []);
        assert_eq!(against(&[], &[], 0, 0, 0.95), []);
    }

    #[test]
    fn a_failed_trial_removes_its_pair() {
        let mut one = block(5, 1.0);
        (one[0], one[6]) = (None, Some(f64::NAN));
        let got = against(&grid(5), &[one, block(5, 2.0)], 0, 2, 0.95);
        assert_eq!(got.iter().map(|a| a.pairs).collect::<Vec<_>>(), [8, 9]);
    }
}
