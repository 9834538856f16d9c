//! Which cells may still be the best, and how far each can be from it.
//!
//! Everything is paired by block: d̄ᵢⱼ is the mean over blocks of ln(cost i / cost j), seᵢⱼ its
//! standard error. Suppose j is truly the best. With 95 % confidence all differences from j are then
//! estimated within cⱼ standard errors, with cⱼ from random sign flips of whole blocks. Hence
//!
//! - cell i stays in the *best set* unless some d̄ᵢⱼ/seᵢⱼ exceeds cᵢ;
//! - Uᵢ = maxⱼ (d̄ᵢⱼ + cⱼ·seᵢⱼ) bounds how much worse than the best cell i is (multiple comparisons
//!   with the best; Hsu 1984);
//! - Lᵢ = maxⱼ (d̄ᵢⱼ − cᵢ·seᵢⱼ) bounds it from below.
//!
//! The first two claims fail together or not at all (both fail only when a difference from the true
//! best is underestimated), so one side of t would be enough for both where noise is symmetric: it
//! keeps the best of equal cells in 95.0 %. But where the cells of a group have noise of unlike
//! skewness it keeps only 92 to 93 %, and max |t| keeps 96 %. So max |t| it is, at 97.5 % for cells
//! alike.
//!
//! Never compares cells from different blocks.

use crate::flips::{FlipMethod, critical_values};
use crate::group::Method;
use serde::{Deserialize, Serialize};

/// All paired differences of a set of cells. A pair is worked out when it is asked for: of the 20,000 cells of an
/// imported table all pairs together would fill gigabytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pairs {
    blocks: usize,
    mean: Vec<f64>,
    /// ln costs less the mean of their cell, cell by cell.
    centred: Vec<f64>,
}

impl Pairs {
    /// From ln costs, one row a block, one column a cell.
    ///
    /// # Panics
    /// If the rows differ in length.
    #[must_use]
    pub fn of(ln_cost: &[Vec<f64>]) -> Self {
        let cells = ln_cost.first().map_or(0, Vec::len);
        assert!(ln_cost.iter().all(|row| row.len() == cells), "blocks differ in their number of cells");
        let n = ln_cost.len() as f64;
        let mean: Vec<f64> = (0..cells).map(|i| ln_cost.iter().map(|row| row[i]).sum::<f64>() / n).collect();
        let of_cell = |i: usize| ln_cost.iter().map(move |row| row[i]);
        let centred = (0..cells).flat_map(|i| of_cell(i).map(|x| x - mean[i]).collect::<Vec<_>>()).collect();
        Self { blocks: ln_cost.len(), mean, centred }
    }

    /// A cell's ln costs less their mean, by block.
    pub(crate) fn centred(&self, i: usize) -> &[f64] {
        &self.centred[i * self.blocks..][..self.blocks]
    }

    /// The sum of squares of the centred differences of two cells.
    pub(crate) fn square(&self, i: usize, j: usize) -> f64 {
        let square: f64 = self.centred(i).iter().zip(self.centred(j)).map(|(i, j)| (i - j).powi(2)).sum();
        // What is left of equal numbers after rounding is not spread.
        if square < 1e-24 * self.blocks as f64 { 0.0 } else { square }
    }

    /// d̄ᵢⱼ: the mean of ln(cost i / cost j).
    #[must_use]
    pub fn mean(&self, i: usize, j: usize) -> f64 {
        self.mean[i] - self.mean[j]
    }

    /// seᵢⱼ: the standard error of d̄ᵢⱼ, in ln; NaN for fewer than two blocks.
    #[must_use]
    pub fn error(&self, i: usize, j: usize) -> f64 {
        let n = self.blocks as f64;
        (self.square(i, j) / (n * (n - 1.0))).sqrt()
    }

    /// How many blocks stand behind every pair.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// How many cells are compared.
    #[must_use]
    pub fn cells(&self) -> usize {
        self.mean.len()
    }

    /// The largest `bound(j)` over all cells but `i`; 0 for a cell without rivals, which is the best
    /// of its group.
    fn worst(&self, i: usize, bound: impl Fn(usize) -> f64) -> f64 {
        let rivals = (0..self.cells()).filter(|&j| j != i);
        rivals.map(bound).reduce(f64::max).unwrap_or(0.0)
    }
}

/// The judgement on a set of cells. Vectors are in cell order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BestSet {
    /// The paired differences it rests on.
    pub pairs: Pairs,
    /// cᵢ: critical value with cell i as the reference.
    pub critical: Vec<f64>,
    /// Whether the cell may still be the best.
    pub kept: Vec<bool>,
    /// Uᵢ: upper bound of ln(cost i / cost of the best), for all cells at once at the level.
    pub upper: Vec<f64>,
    /// Lᵢ: lower bound of the same, for each cell alone.
    pub lower: Vec<f64>,
}

/// Judges cells by their ln costs, one row a block, one column a cell. Needs two blocks to be
/// defined and six to be of use; [`crate::group::analyse`] sees to that.
///
/// # Panics
/// If the rows differ in length.
#[must_use]
pub fn best_set(ln_cost: &[Vec<f64>], method: &Method) -> BestSet {
    let pairs = Pairs::of(ln_cost);
    let flips = FlipMethod {
        level: method.level,
        seed: method.seed,
        random_flips: method.random_flips,
        two_sided: method.two_sided,
        studentise_each_flip: method.studentise_each_flip,
    };
    let critical = critical_values(&pairs, &flips);
    // A pair without spread has no error to multiply; an infinite critical value must not make it NaN.
    let reach = |c: f64, error: f64| if error > 0.0 { c * error } else { 0.0 };
    let cells = 0..pairs.cells();
    let upper: Vec<f64> =
        cells.clone().map(|i| pairs.worst(i, |j| pairs.mean(i, j) + reach(critical[j], pairs.error(i, j)))).collect();
    let lower: Vec<f64> =
        cells.map(|i| pairs.worst(i, |j| pairs.mean(i, j) - reach(critical[i], pairs.error(i, j)))).collect();
    BestSet { kept: lower.iter().map(|&bound| bound <= 0.0).collect(), pairs, critical, upper, lower }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::seeded;
    use proptest::prelude::*;

    fn world(effects: &[f64], spread: f64, blocks: usize, seed: u64) -> Vec<Vec<f64>> {
        let mut random = seeded(seed, 0);
        (0..blocks)
            .map(|_| {
                let swing = 0.2 * random.normal();
                effects.iter().map(|effect| effect + swing + spread * random.normal()).collect()
            })
            .collect()
    }

    fn check(effects: &[f64], spread: f64, blocks: usize, expected_kept: &[bool]) {
        let got = best_set(&world(effects, spread, blocks, 1), &Method::default());
        assert_eq!(got.kept, expected_kept, "{got:?}");
    }

    #[test]
    fn clear_cases() {
        check(&[0.0], 0.1, 6, &[true]);
        check(&[0.0, 0.2, 0.3], 0.01, 10, &[true, false, false]);
        check(&[0.2, 0.0, 0.001], 0.02, 20, &[false, true, true]);
    }

    #[test]
    fn cells_that_differ_by_a_constant_are_certain() {
        let rows: Vec<Vec<f64>> = (0..8).map(|b| vec![f64::from(b), f64::from(b) + 0.5]).collect();
        let got = best_set(&rows, &Method::default());
        assert_eq!((got.kept, got.upper), (vec![true, false], vec![-0.5, 0.5]));
    }

    proptest! {
        #[test]
        fn laws(seed: u64, cells in 2_usize..6, blocks in 6_usize..20) {
            let mut random = seeded(seed, 1);
            let effects: Vec<f64> = (0..cells).map(|_| 0.02 * random.normal()).collect();
            let rows = world(&effects, 0.02, blocks, seed);
            let method = Method { random_flips: 499, ..Method::default() };
            let got = best_set(&rows, &method);
            // Somebody is the best, and the cell with the least mean is never thrown out.
            let leader = (0..cells).min_by(|&a, &b| got.pairs.mean(a, b).total_cmp(&0.0)).unwrap();
            prop_assert!(got.kept[leader]);
            prop_assert!(got.lower.iter().zip(&got.upper).all(|(lower, upper)| lower <= upper));
            // What a block shares cancels: shifting a block changes nothing but rounding.
            let shifted: Vec<Vec<f64>> = rows.iter().enumerate()
                .map(|(b, row)| row.iter().map(|x| x + b as f64).collect()).collect();
            let again = best_set(&shifted, &method);
            for (a, b) in got.upper.iter().zip(&again.upper) {
                prop_assert!((a - b).abs() < 1e-6);
            }
            prop_assert_eq!(&got, &best_set(&rows, &method));
        }
    }
}
