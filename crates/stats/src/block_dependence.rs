//! Makes intervals valid where consecutive blocks depend on each other: merges blocks, and widens standard errors.
//!
//! Intervals from dependent blocks are too narrow. Two statistics compare neighbours: the lag-1 product of the values
//! (detects waves and drift) and of their signs (the runs test of Wald and Wolfowitz; robust against outliers). Both
//! are compared with random orders of the same blocks, so several series of one group, which share their noise, are
//! tested together with one valid p-value. Only *positive* dependence counts: negative dependence makes intervals too
//! wide.
//!
//! Merged blocks are batch means. Where few are left the test has little power, so standard errors also grow by the lag-1
//! correlation that the merged blocks show. Independent blocks pay 3 to 7 % of their intervals for this.

use crate::quantile::median;
use crate::rng::seeded;

/// Random orders with which the two statistics are compared.
const ORDERS: usize = 999;
/// The chance of calling independent blocks dependent, for both statistics together.
const ALPHA: f64 = 0.05;
/// The fewest blocks that can be tested (as many as a 95 % sign interval needs).
pub const MIN_BLOCKS: usize = 6;
/// The fewest blocks that have an interval: below [`MIN_BLOCKS`] it is Student's, which is wide and takes the noise to be near normal.
pub const FEW_BLOCKS: usize = 2;

/// How the blocks of a set of series are merged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Merge {
    /// Number of neighbouring blocks that become one, from 1.
    pub by: usize,
    /// Blocks left after merging.
    pub blocks: usize,
    /// Whether these show no dependence, as far as a test can tell.
    pub independent: bool,
    /// Factor by which standard errors grow, from 1.
    pub widening: f64,
}

/// Lag-1 autocorrelation: the sum of neighbours' products over the sum of squares, both about the mean. `None` for
/// fewer than 3 values or a constant series.
pub fn lag1(series: &[f64]) -> Option<f64> {
    if series.len() < 3 {
        return None;
    }
    let centred = centre(series);
    let square: f64 = centred.iter().map(|x| x * x).sum();
    (square > 0.0).then(|| neighbours(&centred) / square)
}

/// Whether neighbours in the series (all of one length, one per comparison) are more similar than chance allows, at 5 %
/// for all series together. `false` for fewer than six values.
///
/// # Panics
/// If the series differ in length.
pub fn dependent(series: &[Vec<f64>], seed: u64) -> bool {
    let n = series.first().map_or(0, Vec::len);
    assert!(series.iter().all(|one| one.len() == n), "series differ in length");
    if n < MIN_BLOCKS {
        return false;
    }
    let values = by_block(&standardised(series, centre));
    let signs = by_block(&standardised(series, about_median));
    let mut random = seeded(seed, 0x5e71a1);
    let mut order: Vec<usize> = (0..n).collect();
    let (seen_values, seen_signs) = (statistic(&values, &order), statistic(&signs, &order));
    let (mut as_high_values, mut as_high_signs) = (1, 1);
    for _ in 0..ORDERS {
        random.shuffle(&mut order);
        as_high_values += usize::from(statistic(&values, &order) >= seen_values);
        as_high_signs += usize::from(statistic(&signs, &order) >= seen_signs);
        // The counts only grow: once both are too high, further orders cannot change the result.
        if !significant(as_high_values.min(as_high_signs)) {
            return false;
        }
    }
    true
}

/// Whether `as_high` of all orders, the observed one included, are few enough for either of the two tests.
fn significant(as_high: usize) -> bool {
    as_high as f64 / (ORDERS + 1) as f64 <= ALPHA / 2.0
}

/// How to merge neighbouring blocks of the series (paired differences, one value per block): until no dependence is found,
/// as long as six are left. The correlation that is estimated then widens standard errors; a few blocks cannot show more.
pub fn merging(differences: &[Vec<f64>], seed: u64) -> Merge {
    let n = differences.first().map_or(0, Vec::len);
    let merged = |by: usize| -> Vec<Vec<f64>> { differences.iter().map(|one| merge(one, by)).collect() };
    let (mut by, mut series) = (1, differences.to_vec());
    let mut independent = !dependent(&series, seed);
    while !independent && n / next(by) >= MIN_BLOCKS {
        by = next(by);
        series = merged(by);
        independent = !dependent(&series, seed);
    }
    Merge { by, blocks: n / by, independent, widening: widening(&series) }
}

/// 1, 2, 3, 5, 8, 12, …
fn next(by: usize) -> usize {
    by + by.div_ceil(2)
}

/// The largest correlation that [`widening`] allows for.
const CORRELATION_MAX: f64 = 0.8;

/// The factor from the standard error of independent values to that of values with the lag-1 correlation of the series: the
/// square root of (1 + r) / (1 − r), for an autoregressive process. The estimate of r from n values is too low by about
/// (1 + 3r) / n (Kendall 1954).
fn widening(series: &[Vec<f64>]) -> f64 {
    let found: Vec<f64> = series.iter().filter_map(|one| lag1(one)).collect();
    if found.is_empty() {
        return 1.0;
    }
    let n = series[0].len() as f64;
    let mean = found.iter().sum::<f64>() / found.len() as f64;
    let correlation = (mean + (1.0 + 3.0 * mean) / n).clamp(0.0, CORRELATION_MAX);
    ((1.0 + correlation) / (1.0 - correlation)).sqrt()
}

/// The means of `by` neighbours each. Remaining blocks at the end join the last group, so that no data is dropped.
///
/// # Panics
/// If `by` is 0.
pub fn merge(series: &[f64], by: usize) -> Vec<f64> {
    assert!(by > 0, "blocks cannot be merged by 0");
    let groups = series.len() / by;
    (0..groups)
        .map(|group| {
            let end = if group + 1 == groups { series.len() } else { (group + 1) * by };
            let members = &series[group * by..end];
            members.iter().sum::<f64>() / members.len() as f64
        })
        .collect()
}

/// Scales every series to unit squares, so that a noisy cell does not dominate. Constant series are left out.
fn standardised(series: &[Vec<f64>], prepare: impl Fn(&[f64]) -> Vec<f64>) -> Vec<Vec<f64>> {
    let prepared = series.iter().map(|one| prepare(one)).filter_map(|mut one| {
        let norm = one.iter().map(|x| x * x).sum::<f64>().sqrt();
        one.iter_mut().for_each(|x| *x /= norm);
        (norm > 0.0).then_some(one)
    });
    prepared.collect()
}

/// The series transposed, one row per block, so that two neighbours need two memory accesses for any number of series.
fn by_block(series: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let blocks = series.first().map_or(0, Vec::len);
    (0..blocks).map(|block| series.iter().map(|one| one[block]).collect()).collect()
}

/// The lag-1 products of all series for one order of their blocks.
fn statistic(blocks: &[Vec<f64>], order: &[usize]) -> f64 {
    let product = |pair: &[usize]| -> f64 { blocks[pair[0]].iter().zip(&blocks[pair[1]]).map(|(x, y)| x * y).sum() };
    // Rounded, so that orders that differ only in summation order count as equal.
    let sum: f64 = if blocks.is_empty() { 0.0 } else { order.windows(2).map(product).sum() };
    (sum * 1e9).round()
}

fn neighbours(values: &[f64]) -> f64 {
    values.windows(2).map(|pair| pair[0] * pair[1]).sum()
}

fn centre(series: &[f64]) -> Vec<f64> {
    let mean = series.iter().sum::<f64>() / series.len() as f64;
    series.iter().map(|x| x - mean).collect()
}

fn about_median(series: &[f64]) -> Vec<f64> {
    let middle = median(series).unwrap_or(0.0);
    series.iter().map(|x| side(*x, middle)).collect()
}

/// 1 for a value above another one, -1 below it, 0 for equal ones.
fn side(x: f64, other: f64) -> f64 {
    f64::from(i8::from(x > other) - i8::from(x < other))
}

// Tests whether a series rose or fell. Never explains why, and corrects nothing.

/// The fewest values that can have a trend: three thirds of three.
const TREND_MIN: usize = 9;

/// How values in time order rise or fall: the median of the last third divided by that of the first, and rising pairs minus falling
/// pairs, in standard deviations expected by chance, without its sign (Mann and Kendall's test; Kendall, *Rank Correlation Methods*,
/// 1975). That exceeds 2.58 in one of a hundred series without a trend. `None` for fewer than nine values.
fn trend(values: &[f64]) -> Option<(f64, f64)> {
    let n = values.len();
    if n < TREND_MIN {
        return None;
    }
    let pairs = values.iter().enumerate().flat_map(|(at, one)| values[at + 1..].iter().map(move |other| (one, other)));
    let s: f64 = pairs.map(|(one, other)| side(*other, *one)).sum();
    let size = n as f64;
    let variance = size * (size - 1.0) * (2.0 * size + 5.0) / 18.0;
    // Minus one as continuity correction.
    let z = (s.abs() - 1.0).max(0.0) / variance.sqrt();
    Some((median(&values[n - n / 3..])? / median(&values[..n / 3])?, z))
}

/// Standard deviations beyond which a trend is significant: exceeded in one of a hundred series without a trend.
const Z_SIGNIFICANT: f64 = 2.58;
/// The smallest ratio of end and start that counts as a change.
const RATIO_LEAST: f64 = 1.25;

/// Whether positive values in time order have a significant trend that changes them by a quarter or more.
pub fn drifts(values: &[f64]) -> bool {
    trend(values).is_some_and(|(ratio, z)| z > Z_SIGNIFICANT && ratio.max(1.0 / ratio) >= RATIO_LEAST)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::rng::seeded;

    use super::*;

    fn autoregressive(rho: f64, n: usize, seed: u64) -> Vec<f64> {
        let mut stream = seeded(seed, 0);
        let mut value = stream.normal();
        (0..n)
            .map(|_| {
                value = rho * value + (1.0 - rho * rho).sqrt() * stream.normal();
                value
            })
            .collect()
    }

    fn check(rho: f64, n: usize, expected_share: std::ops::RangeInclusive<f64>) {
        let runs = 300;
        let found = (0..runs)
            .filter(|&seed| dependent(&[autoregressive(rho, n, seed), autoregressive(rho, n, seed + 9999)], seed))
            .count();
        let share = found as f64 / runs as f64;
        assert!(expected_share.contains(&share), "rho {rho}, n {n}: called dependent in {share}");
    }

    #[test]
    fn independent_series_pass_and_dependent_ones_do_not() {
        check(0.0, 12, 0.0..=0.08);
        check(0.0, 48, 0.0..=0.08);
        check(0.5, 48, 0.97..=1.0);
        check(0.9, 24, 0.97..=1.0);
        check(-0.5, 48, 0.0..=0.01);
    }

    #[test]
    fn lag1_of_a_known_series() {
        assert_eq!(lag1(&[1.0, 2.0, 3.0, 4.0, 5.0]), Some(0.4));
        assert_eq!(lag1(&[1.0, -1.0, 1.0, -1.0]), Some(-0.75));
        assert_eq!(lag1(&[2.0, 2.0, 2.0]), None);
    }

    fn check_merging(rho: f64, n: usize, by: std::ops::RangeInclusive<usize>, widening: std::ops::RangeInclusive<f64>) {
        let series: Vec<Vec<f64>> = (0..6).map(|seed| autoregressive(rho, n, seed)).collect();
        let got = merging(&series, 1);
        assert!(by.contains(&got.by) && widening.contains(&got.widening) && got.blocks == n / got.by, "{got:?}");
    }

    #[test]
    fn dependence_merges_and_widens_but_never_refuses() {
        check_merging(0.0, 48, 1..=2, 1.0..=1.3);
        check_merging(0.9, 8, 1..=1, 1.0..=3.0);
        check_merging(0.9, 48, 2..=8, 1.0..=3.0);
        check_merging(0.9, 400, 5..=66, 1.0..=3.0);
        assert_eq!(merging(&[vec![1.0]], 1), Merge { by: 1, blocks: 1, independent: true, widening: 1.0 });
    }

    proptest! {
        #[test]
        fn merging_keeps_every_value(series in prop::collection::vec(-1e3_f64..1e3, 1..50), by in 1_usize..4) {
            let merged = merge(&series, by);
            prop_assert_eq!(merged.len(), series.len() / by);
            if series.len() % by == 0 && !merged.is_empty() {
                let before = series.iter().sum::<f64>() / series.len() as f64;
                let after = merged.iter().sum::<f64>() / merged.len() as f64;
                prop_assert!((before - after).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn a_fall_is_found_and_noise_rarely() {
        let falling: Vec<f64> = (0..12).map(|at| 100.0 / f64::from(at + 1)).collect();
        let (ratio, z) = trend(&falling).unwrap();
        assert!(z > 2.58 && ratio < 0.25 && drifts(&falling), "{ratio} {z}");
        let hardly: Vec<f64> = (0..12).map(|at| 100.0 + f64::from(at)).collect();
        assert!(trend(&hardly).unwrap().1 > 2.58 && !drifts(&hardly));
        let mut random = seeded(3, 7);
        let taken = (0..2000).filter(|_| {
            let noise: Vec<f64> = (0..20).map(|_| random.normal()).collect();
            trend(&noise).unwrap().1 > 2.58
        });
        let taken = taken.count();
        // One in a hundred is expected, of 2,000.
        assert!((6..=40).contains(&taken), "{taken}");
    }

    #[test]
    fn few_values_and_equal_ones_have_no_trend() {
        assert_eq!(trend(&[1.0; 8]), None);
        assert_eq!(trend(&[1.0; 9]).unwrap().1, 0.0);
    }
}
