//! Finds the cells that may still be the best, and bounds how far each can be from it.
//!
//! All differences are paired by block: d̄ᵢⱼ is the mean over blocks of ln(cost i / cost j), seᵢⱼ its standard error.
//! Suppose j is truly the best. Then, with 95 % confidence, all differences from j are estimated within cⱼ standard
//! errors, where cⱼ comes from random sign flips of whole blocks. Hence
//!
//! - cell i stays in the *best set* unless some d̄ᵢⱼ/seᵢⱼ exceeds cᵢ;
//! - Uᵢ = maxⱼ (d̄ᵢⱼ + cⱼ·seᵢⱼ) over the other cells j of the best set bounds how much worse than the best cell i is
//!   (multiple comparisons with the best; Hsu 1984); it is 0 for the only cell of the set;
//! - Lᵢ = maxⱼ (d̄ᵢⱼ − cᵢ·seᵢⱼ) bounds it from below.
//!
//! The first two claims fail together: both fail only when a difference from the true best is underestimated. So max t
//! (one-sided) would suffice for both where noise is symmetric: it keeps the best of equal cells in 95.0 % of cases.
//! Where the cells of a group have noise of different skewness, max t keeps only 92 to 93 %, while max |t| keeps 96 %.
//! This module therefore uses max |t|, which keeps 97.5 % where the cells have equal noise.
//!
//! Never compares cells from different blocks.

use crate::group::Method;
use crate::pairs::PairedCosts;
use crate::sign_flips::{FlipMethod, critical_values};

/// The result for a set of cells. Vectors are in cell order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BestSet {
    /// The paired differences.
    pub pairs: PairedCosts,
    /// cᵢ: critical value with cell i as the reference.
    pub critical: Vec<f64>,
    /// Whether the cell may still be the best.
    pub kept: Vec<bool>,
    /// Uᵢ: upper bound of ln(cost i / cost of the best), simultaneous over all cells.
    pub upper: Vec<f64>,
    /// Lᵢ: lower bound of the same, for each cell separately.
    pub lower: Vec<f64>,
}

/// Judges cells by their ln costs: one row per block, one column per cell. Critical values grow by the factor `widening`. Defined for two or more blocks, useful from
/// six; [`crate::group::analyse`] enforces six.
///
/// # Panics
/// If the rows differ in length.
#[must_use]
pub fn best_set(ln_cost: &[Vec<f64>], widening: f64, method: &Method) -> BestSet {
    let pairs = PairedCosts::of(ln_cost);
    let flips = FlipMethod {
        level: method.level,
        seed: method.seed,
        random_flips: method.random_flips,
        studentise_each_flip: method.studentise_each_flip,
    };
    let critical: Vec<f64> = critical_values(&pairs, &flips).into_iter().map(|c| c * widening).collect();
    // A pair without spread has no error to multiply; an infinite critical value would make the product NaN.
    let reach = |c: f64, error: f64| if error > 0.0 { c * error } else { 0.0 };
    let cells = 0..pairs.cells();
    let lower: Vec<f64> = cells
        .clone()
        .map(|i| pairs.worst(i, |_| true, |j| pairs.mean(i, j) - reach(critical[i], pairs.error(i, j))))
        .collect();
    let kept: Vec<bool> = lower.iter().map(|&bound| bound <= 0.0).collect();
    let upper = cells
        .map(|i| pairs.worst(i, |j| kept[j], |j| pairs.mean(i, j) + reach(critical[j], pairs.error(i, j))))
        .collect();
    BestSet { kept, pairs, critical, upper, lower }
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
        let got = best_set(&world(effects, spread, blocks, 1), 1.0, &Method::default());
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
        let got = best_set(&rows, 1.0, &Method::default());
        assert_eq!((got.kept, got.upper), (vec![true, false], vec![0.0, 0.5]));
    }

    proptest! {
        #[test]
        fn laws(seed: u64, cells in 2_usize..6, blocks in 6_usize..20) {
            let mut random = seeded(seed, 1);
            let effects: Vec<f64> = (0..cells).map(|_| 0.02 * random.normal()).collect();
            let rows = world(&effects, 0.02, blocks, seed);
            let method = Method { random_flips: 499, ..Method::default() };
            let got = best_set(&rows, 1.0, &method);
            // Some cell is the best, and the cell with the least mean is never rejected.
            let leader = (0..cells).min_by(|&a, &b| got.pairs.mean(a, b).total_cmp(&0.0)).unwrap();
            prop_assert!(got.kept[leader]);
            prop_assert!(got.lower.iter().zip(&got.upper).all(|(lower, upper)| lower <= upper));
            // Levels common to a block cancel: shifting a block changes nothing but rounding.
            let shifted: Vec<Vec<f64>> = rows.iter().enumerate()
                .map(|(b, row)| row.iter().map(|x| x + b as f64).collect()).collect();
            let again = best_set(&shifted, 1.0, &method);
            for (a, b) in got.upper.iter().zip(&again.upper) {
                prop_assert!((a - b).abs() < 1e-6);
            }
            prop_assert_eq!(&got, &best_set(&rows, 1.0, &method));
        }
    }
}
