//! Finds the cells that may still be the best, and bounds how far each can be from it.
//!
//! All differences are paired by block: d̄ᵢⱼ is the mean over blocks of ln(cost i / cost j), seᵢⱼ its standard error.
//! Suppose j is truly the best. Then, with 95 % confidence, all differences from j are estimated within cⱼ standard
//! errors, where cⱼ comes from random sign flips of whole blocks, and of fewer than six blocks from Student's distribution. Hence
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
//!
//! Also the paired differences, and their critical values by sign flips, below.

use crate::block_dependence::MIN_BLOCKS;
use crate::group::Method;
use crate::quantile::student_critical;
use crate::rng::seeded;

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

/// Judges cells by their ln costs: one row per block, one column per cell. Critical values grow by the factor `widening`, and each bound
/// by `systematic`, in ln: an error that more blocks do not reduce. Defined for two or more blocks.
///
/// # Panics
/// If the rows differ in length.
pub fn best_set(ln_cost: &[Vec<f64>], widening: f64, systematic: f64, method: &Method) -> BestSet {
    let pairs = PairedCosts::of(ln_cost);
    let critical: Vec<f64> = critical_values(&pairs, method).into_iter().map(|c| c * widening).collect();
    let reach = |c: f64, error: f64| systematic + random(c, error, pairs.blocks());
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

/// Half the width of an interval. A pair without spread is certain; in few blocks it does not show the spread.
pub(crate) fn random(critical: f64, error: f64, blocks: usize) -> f64 {
    match error > 0.0 {
        // An infinite critical value of a pair without spread would make the product NaN.
        true => critical * error,
        false if blocks < MIN_BLOCKS => f64::INFINITY,
        false => 0.0,
    }
}

// Paired differences of the costs of cells, block by block.

/// All paired differences of a set of cells. A pair is computed on demand: all pairs of the 20,000 cells of an imported
/// table would take gigabytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PairedCosts {
    blocks: usize,
    mean: Vec<f64>,
    /// ln costs minus the mean of their cell, cell by cell.
    centred: Vec<f64>,
}

impl PairedCosts {
    /// Computes the differences of ln costs, one row per block, one column per cell.
    ///
    /// # Panics
    /// If the rows differ in length.
    pub fn of(ln_cost: &[Vec<f64>]) -> Self {
        let cells = ln_cost.first().map_or(0, Vec::len);
        assert!(ln_cost.iter().all(|row| row.len() == cells), "blocks differ in their number of cells");
        let n = ln_cost.len() as f64;
        let mean: Vec<f64> = (0..cells).map(|i| ln_cost.iter().map(|row| row[i]).sum::<f64>() / n).collect();
        let of_cell = |i: usize| ln_cost.iter().map(move |row| row[i]);
        let centred = (0..cells).flat_map(|i| of_cell(i).map(|x| x - mean[i]).collect::<Vec<_>>()).collect();
        Self { blocks: ln_cost.len(), mean, centred }
    }

    /// A cell's ln costs minus their mean, by block.
    pub(crate) fn centred(&self, i: usize) -> &[f64] {
        &self.centred[i * self.blocks..][..self.blocks]
    }

    /// The sum of squares of the centred differences of two cells.
    pub(crate) fn square(&self, i: usize, j: usize) -> f64 {
        let square: f64 = self.centred(i).iter().zip(self.centred(j)).map(|(i, j)| (i - j).powi(2)).sum();
        // A rounding error of equal numbers is not spread.
        if square < 1e-24 * self.blocks as f64 { 0.0 } else { square }
    }

    /// d̄ᵢⱼ: the mean of ln(cost i / cost j).
    pub fn mean(&self, i: usize, j: usize) -> f64 {
        self.mean[i] - self.mean[j]
    }

    /// seᵢⱼ: the standard error of d̄ᵢⱼ, in ln; NaN for fewer than two blocks.
    pub fn error(&self, i: usize, j: usize) -> f64 {
        let n = self.blocks as f64;
        (self.square(i, j) / (n * (n - 1.0))).sqrt()
    }

    /// Number of blocks of every pair.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Number of compared cells.
    pub fn cells(&self) -> usize {
        self.mean.len()
    }

    /// The largest `bound(j)` over the cells j except `i` that are `rivals`; 0 without any.
    pub(crate) fn worst(&self, i: usize, rivals: impl Fn(usize) -> bool, bound: impl Fn(usize) -> f64) -> f64 {
        (0..self.cells()).filter(|&j| j != i && rivals(j)).map(bound).reduce(f64::max).unwrap_or(0.0)
    }
}

// Critical values by random sign flips of whole blocks, re-studentised at every flip.
//
// Flipping a block's sign keeps the size of its centred paired differences and removes their direction, whatever their
// distribution. The largest studentised difference from a reference under flips shows how large it may be by chance.
// The standard error must be recomputed at every flip: with the observed one kept fixed, equal cells survive only 79 %
// (6 blocks) to 91 % (12 blocks) of the time. Recomputing is cheap, since flips do not change the sum of squares. With
// sum of squares Q and flipped mean m, u = m·√(n/Q) is in −1..1, and t = u·√(n−1)/√(1−u²) grows with u. So the search
// for the largest t is a search for the largest u.
//
// Never flips single values: noise that the cells of a block share must stay shared.

/// Up to this many blocks all 2ⁿ flips are used.
const EXACT_BLOCKS: usize = 12;
/// Flips that are processed together: their sums for several dozen cells fit into the first-level cache.
const FLIPS_AT_ONCE: usize = 256;
/// Blocks whose signs one word holds.
const WORD: usize = u64::BITS as usize;

/// One critical value per cell: the `level` quantile, over flips, of the largest t of "cell minus any other".
fn critical_values(pairs: &PairedCosts, method: &Method) -> Vec<f64> {
    let (blocks, cells) = (pairs.blocks(), pairs.cells());
    if cells < 2 || blocks < 2 {
        return vec![0.0; cells];
    }
    if blocks < MIN_BLOCKS {
        return vec![student(blocks, cells - 1, method.level); cells];
    }
    let exact = blocks <= EXACT_BLOCKS;
    let flips = if exact { 1 << blocks } else { method.random_flips };
    let signs_of_flips = signs_of_flips(blocks, flips, method.seed);
    let mut largest = vec![vec![f64::NEG_INFINITY; flips]; cells];
    // Process a part of the flips at a time, so that the sums of all cells stay in the cache.
    for from in (0..flips).step_by(FLIPS_AT_ONCE) {
        let part = from..(from + FLIPS_AT_ONCE).min(flips);
        largest_of_each(pairs, &signs_of_flips[part.clone()], &mut largest, part.start);
    }
    largest
        .iter_mut()
        .map(|all| studentised(upper_quantile(all, method.level, exact), blocks, method.studentise_each_flip))
        .collect()
}

/// Student's critical value of `rivals` differences together (Bonferroni), of so few blocks that their flips are too few. In simulations of
/// two to five blocks the bound from below, of which claims are made, holds in 99 % of cases, with slow trials of one cell alone too
/// (`few_blocks_hold`).
fn student(blocks: usize, rivals: usize, level: f64) -> f64 {
    student_critical(blocks as f64 - 1.0, 1.0 - (1.0 - level) / rivals as f64).expect("two blocks or more")
}

/// The signs of the blocks, one row per flip, one bit per block: all combinations, or random ones above
/// [`EXACT_BLOCKS`].
fn signs_of_flips(blocks: usize, flips: usize, seed: u64) -> Vec<Vec<u64>> {
    let mut random = seeded(seed, 0xf11b5);
    let mut row = |flip: usize| -> Vec<u64> {
        if blocks <= EXACT_BLOCKS {
            return vec![flip as u64];
        }
        (0..blocks.div_ceil(WORD)).map(|_| random.bits()).collect()
    };
    (0..flips).map(&mut row).collect()
}

/// The sum of every cell's values under every flip, one row per cell. The inner loop runs over flips, whose sums are
/// independent, so that they do not wait for each other.
fn flipped_sums(pairs: &PairedCosts, signs_of_flips: &[Vec<u64>]) -> Vec<Vec<f64>> {
    let mut sums = vec![vec![0.0; signs_of_flips.len()]; pairs.cells()];
    let mut signs = vec![0.0; signs_of_flips.len()];
    for first in (0..pairs.blocks()).step_by(WORD) {
        let words: Vec<u64> = signs_of_flips.iter().map(|row| row[first / WORD]).collect();
        for block in first..(first + WORD).min(pairs.blocks()) {
            for (sign, word) in signs.iter_mut().zip(&words) {
                // Moves the lowest bit into the sign.
                *sign = f64::from_bits(1_f64.to_bits() | word >> (block - first) << (WORD - 1));
            }
            for (cell, sums) in sums.iter_mut().enumerate() {
                let value = pairs.centred(cell)[block];
                for (sum, sign) in sums.iter_mut().zip(&signs) {
                    *sum += sign * value;
                }
            }
        }
    }
    sums
}

/// For every cell i and flip the largest |u| of "i minus j" over all j. Without the absolute value intervals would be too narrow
/// where the cells of a group have noise of different skewness.
fn largest_of_each(pairs: &PairedCosts, signs_of_flips: &[Vec<u64>], largest: &mut [Vec<f64>], from: usize) {
    let sums = flipped_sums(pairs, signs_of_flips);
    for i in 0..pairs.cells() {
        let (head, tail) = largest.split_at_mut(i + 1);
        let of_i = &mut head[i][from..from + signs_of_flips.len()];
        for (j, of_j) in (i + 1..).zip(tail) {
            let square = pairs.square(i, j);
            // Two cells that differ by the same amount in every block have no random part.
            let scale = if square > 0.0 { 1.0 / (square * pairs.blocks() as f64).sqrt() } else { 0.0 };
            let of_j = &mut of_j[from..from + signs_of_flips.len()];
            let sums = sums[i].iter().zip(&sums[j]);
            for ((of_i, of_j), (i, j)) in of_i.iter_mut().zip(of_j).zip(sums) {
                let u = ((i - j) * scale).abs();
                *of_i = of_i.max(u);
                *of_j = of_j.max(u);
            }
        }
    }
}

/// The smallest value that at least `level` of the flips do not exceed. A random sample counts the observation itself
/// as one more flip (Phipson and Smyth 2010).
fn upper_quantile(values: &mut [f64], level: f64, exact: bool) -> f64 {
    let population = values.len() + usize::from(!exact);
    let rank = (level * population as f64 - 1e-9).ceil() as usize;
    let index = rank.clamp(1, values.len()) - 1;
    *values.select_nth_unstable_by(index, f64::total_cmp).1
}

fn studentised(u: f64, blocks: usize, each_flip: bool) -> f64 {
    let u = u.clamp(-1.0, 1.0);
    let t = u * (blocks as f64 - 1.0).sqrt();
    if each_flip { t / (1.0 - u * u).sqrt() } else { t }
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
        let got = best_set(&world(effects, spread, blocks, 1), 1.0, 0.0, &Method::default());
        assert_eq!(got.kept, expected_kept, "{got:?}");
    }

    #[test]
    fn clear_cases() {
        check(&[0.0], 0.1, 6, &[true]);
        check(&[0.0, 0.2, 0.3], 0.01, 10, &[true, false, false]);
        check(&[0.2, 0.0, 0.001], 0.02, 20, &[false, true, true]);
    }

    /// Coverage by few blocks of three cells: by normal noise, and where a sixth of the trials of one cell takes twice the time.
    #[test]
    fn few_blocks_hold() {
        for (slow_share, least) in [(0.0, 940), (1.0 / 6.0, 880)] {
            for blocks in 2..6 {
                let mut random = seeded(blocks as u64, 3);
                let mut noise = |cell: usize| {
                    let is_slow = cell == 0 && random.uniform() < slow_share;
                    0.1 * random.normal() + if is_slow { std::f64::consts::LN_2 } else { 0.0 }
                };
                let (mut both, mut lower) = (0, 0);
                let mean = slow_share * std::f64::consts::LN_2;
                for _ in 0..1000 {
                    let rows: Vec<Vec<f64>> = (0..blocks).map(|_| vec![1.0 + noise(0), noise(1), noise(2)]).collect();
                    let got = best_set(&rows, 1.0, 0.0, &Method::default());
                    let reach = |j: usize| got.critical[j] * got.pairs.error(0, j);
                    let off = |j: usize| got.pairs.mean(0, j) - 1.0 - mean;
                    both += usize::from((1..3).all(|j| off(j).abs() <= reach(j)));
                    lower += usize::from((1..3).all(|j| off(j) <= reach(j)));
                }
                assert!(both >= least && lower >= 970, "{slow_share} {blocks} {both} {lower}");
            }
        }
    }

    #[test]
    fn cells_that_differ_by_a_constant_are_certain() {
        let rows: Vec<Vec<f64>> = (0..8).map(|b| vec![f64::from(b), f64::from(b) + 0.5]).collect();
        let got = best_set(&rows, 1.0, 0.0, &Method::default());
        assert_eq!((got.kept, got.upper), (vec![true, false], vec![0.0, 0.5]));
    }

    proptest! {
        #[test]
        fn laws(seed: u64, cells in 2_usize..6, blocks in 6_usize..20) {
            let mut random = seeded(seed, 1);
            let effects: Vec<f64> = (0..cells).map(|_| 0.02 * random.normal()).collect();
            let rows = world(&effects, 0.02, blocks, seed);
            let method = Method { random_flips: 499, ..Method::default() };
            let got = best_set(&rows, 1.0, 0.0, &method);
            // Some cell is the best, and the cell with the least mean is never rejected.
            let leader = (0..cells).min_by(|&a, &b| got.pairs.mean(a, b).total_cmp(&0.0)).unwrap();
            prop_assert!(got.kept[leader]);
            prop_assert!(got.lower.iter().zip(&got.upper).all(|(lower, upper)| lower <= upper));
            // Levels common to a block cancel: shifting a block changes nothing but rounding.
            let shifted: Vec<Vec<f64>> = rows.iter().enumerate()
                .map(|(b, row)| row.iter().map(|x| x + b as f64).collect()).collect();
            let again = best_set(&shifted, 1.0, 0.0, &method);
            for (a, b) in got.upper.iter().zip(&again.upper) {
                prop_assert!((a - b).abs() < 1e-6);
            }
            prop_assert_eq!(&got, &best_set(&rows, 1.0, 0.0, &method));
        }
    }
}

#[cfg(test)]
mod sign_flips_tests {
    use super::*;
    use crate::rng::seeded;

    /// The same values, computed directly from the definition: every flip, every mean, every standard error.
    fn by_definition(centred: &[Vec<f64>], level: f64) -> Vec<f64> {
        let (blocks, cells) = (centred.len(), centred[0].len());
        let flips = 1 << blocks;
        (0..cells)
            .map(|i| {
                let mut largest: Vec<f64> = (0..flips)
                    .map(|flip: usize| {
                        let t = |j: usize| {
                            let signed = |b: usize| {
                                let sign = if flip >> b & 1 == 1 { -1.0 } else { 1.0 };
                                sign * (centred[b][i] - centred[b][j])
                            };
                            let n = blocks as f64;
                            let mean = (0..blocks).map(signed).sum::<f64>() / n;
                            let variance = (0..blocks).map(|b| (signed(b) - mean).powi(2)).sum::<f64>() / (n - 1.0);
                            (mean / (variance / n).sqrt()).abs()
                        };
                        (0..cells).filter(|&j| j != i).map(t).fold(f64::NEG_INFINITY, f64::max)
                    })
                    .collect();
                upper_quantile(&mut largest, level, true)
            })
            .collect()
    }

    fn check(blocks: usize, cells: usize, seed: u64) {
        let mut random = seeded(seed, 0);
        let mut centred: Vec<Vec<f64>> = (0..blocks).map(|_| (0..cells).map(|_| random.normal()).collect()).collect();
        for i in 0..cells {
            let mean = centred.iter().map(|row| row[i]).sum::<f64>() / blocks as f64;
            centred.iter_mut().for_each(|row| row[i] -= mean);
        }
        let method = Method { seed, ..Method::default() };
        let got = critical_values(&PairedCosts::of(&centred), &method);
        let expected = by_definition(&centred, 0.95);
        for (got, expected) in got.iter().zip(&expected) {
            assert!((got - expected).abs() < 1e-6 * expected, "{got} is not {expected} (seed {seed})");
        }
    }

    #[test]
    fn fast_method_equals_the_definition() {
        for seed in 0..5 {
            check(6, 2, seed);
            check(9, 4, seed);
            check(10, 3, seed);
        }
    }
}
