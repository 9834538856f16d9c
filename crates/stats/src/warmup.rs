//! Finds when a trial has settled, by MSER-5.
//!
//! The truncation point minimises the estimated error of the mean of the rest (White 1997, "An effective truncation
//! heuristic for bias reduction in simulation output"; bins averaged by fives: White, Cobb and Spratt 2000). A point in
//! the second half means that the series never settled, or that it is too short.
//!
//! Uses calibration trials only, never the reported ones.

use crate::quantile::median;

/// Bins averaged into one value before the search, the "5" of MSER-5.
const BATCH_BINS: usize = 5;
/// Batches at the end that no truncation point may enter: with few values left, the error estimate is small by chance.
const TAIL_BATCHES: usize = 5;

/// The point where a series settles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncation {
    /// Bins to leave out at the start.
    pub index: usize,
    /// Whether the point is in the first half of the series. If not, the series is not steady.
    pub steady: bool,
}

/// The fixed warm-up of a group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Warmup {
    /// Time to leave out at the start of every trial, in ns.
    pub ns: f64,
    /// Whether most calibration trials settled in their first half.
    pub steady: bool,
}

/// The MSER-5 truncation point of one series of equally long bins (bytes a bin, or a rate).
///
/// Fewer than 20 bins cannot be judged: nothing is left out and the series is not steady.
pub fn mser5(bins: &[f64]) -> Truncation {
    let batches: Vec<f64> =
        bins.chunks_exact(BATCH_BINS).map(|batch| batch.iter().sum::<f64>() / BATCH_BINS as f64).collect();
    if batches.len() < 4 {
        return Truncation { index: 0, steady: false };
    }
    let last_start = batches.len().saturating_sub(TAIL_BATCHES).max(1);
    // Suffix sums make the cost per candidate O(1). Deviations from the overall mean keep the squares small, so that a
    // flat series at 5e9 keeps its digits.
    let centre = batches.iter().sum::<f64>() / batches.len() as f64;
    let (mut sum, mut square) = (0.0, 0.0);
    let mut best = (f64::INFINITY, 0);
    for start in (0..batches.len()).rev() {
        let deviation = batches[start] - centre;
        sum += deviation;
        square += deviation * deviation;
        let left = (batches.len() - start) as f64;
        let error = (square - sum * sum / left).max(0.0) / (left * left);
        // `<=`: the earliest of equally good points wins.
        if start < last_start && error <= best.0 {
            best = (error, start);
        }
    }
    Truncation { index: best.1 * BATCH_BINS, steady: best.1 * 2 <= batches.len() }
}

/// The warm-up of a group from its calibration trials (usually three), each a series of bins of `bin_ns` ns. It is the
/// median of the truncation points of the trials that settled, or of all trials when most did not. The median is used
/// because the search occasionally returns a far too late point for a flat series, and one such trial must not use up
/// the budget of a group.
///
/// Without trials: no warm-up, not steady.
pub fn fixed_warmup(trials: &[Vec<f64>], bin_ns: f64) -> Warmup {
    let found: Vec<Truncation> = trials.iter().map(|bins| mser5(bins)).collect();
    let settled = found.iter().filter(|point| point.steady).count();
    let steady = settled * 2 > found.len();
    let points: Vec<f64> =
        found.iter().filter(|point| point.steady || !steady).map(|point| point.index as f64).collect();
    Warmup { ns: median(&points).unwrap_or(0.0) * bin_ns, steady }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::seeded;
    use proptest::prelude::*;

    fn check(bins: &[f64], indices: std::ops::RangeInclusive<usize>, steady: bool) {
        let got = mser5(bins);
        assert!(indices.contains(&got.index) && got.steady == steady, "{got:?}");
    }

    fn steps(levels: &[(usize, f64)], noise: f64, seed: u64) -> Vec<f64> {
        let mut stream = seeded(seed, 0);
        let level = levels.iter().flat_map(|&(n, level)| std::iter::repeat_n(level, n));
        level.map(|level| level + noise * stream.normal()).collect()
    }

    #[test]
    fn a_slow_start_is_left_out() {
        check(&steps(&[(40, 50.0), (260, 100.0)], 3.0, 1), 40..=60, true);
    }

    #[test]
    fn a_late_change_is_not_steady() {
        check(&steps(&[(200, 100.0), (100, 50.0)], 3.0, 2), 200..=300, false);
    }

    #[test]
    fn a_constant_series_starts_at_once() {
        check(&[5e9; 300], 0..=0, true);
    }

    #[test]
    fn too_short_a_series_is_not_judged() {
        check(&[1.0; 19], 0..=0, false);
    }

    #[test]
    fn one_odd_trial_does_not_decide() {
        let calm = steps(&[(20, 50.0), (280, 100.0)], 3.0, 3);
        let odd = steps(&[(200, 100.0), (100, 50.0)], 3.0, 4);
        let got = fixed_warmup(&[calm.clone(), odd, calm], 1e6);
        assert!(got.steady && (20.0e6..=40.0e6).contains(&got.ns), "{got:?}");
    }

    #[test]
    fn flat_noise_is_rarely_called_unsteady() {
        let unsteady = (0..300)
            .filter(|&seed| {
                let trials: Vec<_> = (0..3).map(|t| steps(&[(300, 100.0)], 10.0, seed * 3 + t)).collect();
                !fixed_warmup(&trials, 1e6).steady
            })
            .count();
        assert!(unsteady <= 15, "{unsteady} of 300 flat groups called unsteady");
    }

    proptest! {
        #[test]
        fn the_scale_does_not_matter(seed: u64, scale in 1e-3_f64..1e9) {
            let bins = steps(&[(30, 60.0), (270, 100.0)], 5.0, seed);
            let scaled: Vec<f64> = bins.iter().map(|x| x * scale).collect();
            prop_assert_eq!(mser5(&bins), mser5(&scaled));
        }
    }
}
