//! Which levels of a factor to avoid, from the screening of all cells.
//!
//! Screening visits every cell of a grid, before anything is chosen, so it is an unselected factorial: a level of one
//! factor and the reference level meet in every *column* (one combination of the levels of all other factors) of every
//! block. Their ln cost ratios there, one a column and block, give the sign interval of their median (Conover,
//! *Practical Nonparametric Statistics*, 3.2): what is said holds *in the median column*, not in each. The error is
//! shared between all levels that are compared (Bonferroni), so all intervals of a group hold together.
//!
//! Never looks at blocks whose cells were chosen by what was seen before, and never at a cell's own pair: of two or
//! four screening trials alone nothing can be said.

use crate::interval::sign_interval;
use serde::{Deserialize, Serialize};

/// Where a cell stands in the grid, seen along one factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Index of its level of the factor.
    pub level: usize,
    /// Index of the combination of its other levels.
    pub column: usize,
}

/// One level of a factor against the reference level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Against {
    /// Index of the level.
    pub level: usize,
    /// Lower end of the interval of the median of ln(cost at the level / cost at the reference).
    pub lower: f64,
    /// Upper end.
    pub upper: f64,
    /// Columns times blocks behind it.
    pub pairs: usize,
}

impl Against {
    /// Whether the level is shown to be dearer by more than `ln_margin` in the median column.
    #[must_use]
    pub fn is_to_avoid(&self, ln_margin: f64) -> bool {
        self.lower > ln_margin
    }
}

/// Compares every level of a factor with the level `reference`. `blocks` holds the costs of the screening blocks, one
/// row a block, one column a cell, in the order of `places`; what is missing or not positive takes its pair out.
/// `level` is the confidence of all `comparisons` of the group together, as a share. Levels with too few pairs for an
/// interval are left out.
///
/// # Panics
/// If a block has another number of cells than `places`, or the level is not between 0 and 1.
#[must_use]
pub fn against(
    places: &[Place],
    blocks: &[Vec<Option<f64>>],
    reference: usize,
    comparisons: usize,
    level: f64,
) -> Vec<Against> {
    assert!(blocks.iter().all(|block| block.len() == places.len()), "a block has one cost a cell");
    let each = 1.0 - (1.0 - level) / comparisons.max(1) as f64;
    let levels = places.iter().map(|place| place.level + 1).max().unwrap_or(0);
    let compared = (0..levels).filter(|&other| other != reference).filter_map(|other| {
        let found = sign_interval(&pairs(places, blocks, other, reference), each);
        Some(Against { level: other, lower: found.lower?, upper: found.upper?, pairs: found.n })
    });
    compared.collect()
}

/// ln(cost at `level` / cost at `reference`), one value a column and block in which both were measured.
fn pairs(places: &[Place], blocks: &[Vec<Option<f64>>], level: usize, reference: usize) -> Vec<f64> {
    let at = |level: usize, column: usize| places.iter().position(|place| *place == Place { level, column });
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
    fn grid(columns: usize) -> Vec<Place> {
        (0..3 * columns).map(|cell| Place { level: cell / columns, column: cell % columns }).collect()
    }

    fn block(columns: usize, swing: f64) -> Vec<Option<f64>> {
        let cost = |cell: usize| [1.0, 1.5, 1.0][cell / columns] * (1.0 + 0.1 * (cell % columns) as f64) * swing;
        (0..3 * columns).map(|cell| Some(cost(cell))).collect()
    }

    #[test]
    fn a_level_is_compared_within_its_column_and_block() {
        let blocks = [block(5, 1.0), block(5, 7.0)];
        let got = against(&grid(5), &blocks, 0, 2, 0.95);
        assert_eq!(got.iter().map(|a| (a.level, a.pairs)).collect::<Vec<_>>(), [(1, 10), (2, 10)]);
        assert!((got[0].lower - 1.5_f64.ln()).abs() < 1e-9 && (got[0].upper - got[0].lower).abs() < 1e-9, "{got:?}");
        assert!(got[0].is_to_avoid(0.05) && !got[1].is_to_avoid(0.0));
    }

    #[test]
    fn too_few_pairs_say_nothing() {
        assert_eq!(against(&grid(1), &[block(1, 1.0), block(1, 1.0)], 0, 2, 0.95), []);
        assert_eq!(against(&[], &[], 0, 0, 0.95), []);
    }

    #[test]
    fn what_failed_takes_its_pair_out() {
        let mut one = block(5, 1.0);
        (one[0], one[6]) = (None, Some(f64::NAN));
        let got = against(&grid(5), &[one, block(5, 2.0)], 0, 2, 0.95);
        assert_eq!(got.iter().map(|a| a.pairs).collect::<Vec<_>>(), [8, 9]);
    }
}
