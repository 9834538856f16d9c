//! Compares two subjects: worse, better, equivalent or inconclusive.
//!
//! The preferred comparison interleaves both subjects in one session, block by block. The paired ln differences are
//! judged by Student's t, since differences of two arms of the same kind are symmetric. The result is read off the interval
//! ([`Comparison::by_interval`]), so that the two never contradict each other.
//!
//! Runs of different sessions differ more than their trials show, so there the unit is the session: with fewer than
//! five earlier sessions the result is "inconclusive".
//!
//! Never compares trials of different sessions as if they were one.

use crate::block_dependence::{FEW_BLOCKS, MIN_BLOCKS};
use crate::outlier::limit;
use crate::quantile::{moments, student_critical};
use schemars::JsonSchema;
use serde::Serialize;

/// Earlier sessions that a comparison of stored runs needs.
pub const MIN_SESSIONS: usize = 5;

/// The result of a comparison of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The second takes longer by more than the margin.
    Worse,
    /// It takes less time: by more than the margin, or, in a comparison of two, by an amount that may be more.
    Better,
    /// It does not take longer by more than the margin.
    Equivalent,
    /// None of these is significant.
    Open,
}

/// The comparison of one cell. Differences are ln(cost of the second / cost of the first).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// The mean difference, in ln.
    pub difference: f64,
    /// Lower end of its interval at the level, in ln; negative infinity if there is none.
    pub lower: f64,
    /// Upper end; infinity if there is none.
    pub upper: f64,
    /// Number of blocks, or of sessions.
    pub n: usize,
}

impl Comparison {
    /// The result that the interval shows for a replacement: it takes longer by more than a margin (a share), or does not; then it
    /// takes less time if all of the interval is below 0 and part of it beyond the margin.
    ///
    /// This is stricter than two one-sided tests, which use the interval of twice the error (90 % for 95 %). A reader
    /// who sees "equivalent" finds the upper end of the printed interval within the margin.
    pub fn by_interval(&self, delta: f64) -> Verdict {
        let delta = delta.ln_1p();
        match (self.lower, self.upper) {
            (lower, _) if lower > delta => Verdict::Worse,
            (lower, upper) if lower < -delta && upper < 0.0 => Verdict::Better,
            (_, upper) if upper <= delta => Verdict::Equivalent,
            _ => Verdict::Open,
        }
    }

    /// Whether the interval excludes "no difference".
    pub fn excludes_zero(&self) -> bool {
        self.lower > 0.0 || self.upper < 0.0
    }

    /// The same with its interval wider by `error` (ln) on either side: a systematic error that more blocks do not reduce.
    pub fn widened(self, error: f64) -> Comparison {
        Comparison { lower: self.lower - error, upper: self.upper + error, ..self }
    }
}

/// Compares one cell by its paired ln differences, one per block, with outliers limited to [`crate::outlier::SPREADS`] where there are six or
/// more. `widening` is the factor by which the correlation of the blocks widens standard errors, from 1. Fewer than two: no interval.
pub fn paired(differences: &[f64], widening: f64, level: f64) -> Comparison {
    let n = differences.len();
    let limited = if n < MIN_BLOCKS { differences.to_vec() } else { limit(differences) };
    let (mean, variance) = moments(&limited);
    // Few pairs without spread do not show it.
    if n < FEW_BLOCKS || n < MIN_BLOCKS && variance == 0.0 {
        return inconclusive(mean, n);
    }
    by_student(mean, widening * (variance / n as f64).sqrt(), n as f64 - 1.0, n, level)
}

/// Compares stored runs by session: `before` and `after` hold one mean ln cost per session. The error is the spread
/// between sessions, pooled. No interval with fewer than five sessions before, or none after.
pub fn between_sessions(before: &[f64], after: &[f64], level: f64) -> Comparison {
    let ((mean_before, spread_before), (mean_after, spread_after)) = (moments(before), moments(after));
    let difference = mean_after - mean_before;
    let sessions = before.len() + after.len();
    if before.len() < MIN_SESSIONS || after.is_empty() {
        return inconclusive(difference, sessions);
    }
    let (a, b) = (before.len() as f64, after.len() as f64);
    let freedom = a + b - 2.0;
    let squares = spread_before * (a - 1.0) + if after.len() > 1 { spread_after * (b - 1.0) } else { 0.0 };
    let error = (squares / freedom * (1.0 / a + 1.0 / b)).sqrt();
    by_student(difference, error, freedom, sessions, level)
}

/// Selects the p-values that are discoveries at false discovery rate `rate` (Benjamini and Hochberg 1995): all up to
/// the largest k with p₍ₖ₎ ≤ k·rate/m.
pub fn benjamini_hochberg(p_values: &[f64], rate: f64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let m = p_values.len() as f64;
    let passes = |k: &usize| p_values[order[*k]] <= (*k as f64 + 1.0) * rate / m;
    let discoveries = (0..order.len()).rev().find(passes).map_or(0, |k| k + 1);
    let mut found = vec![false; p_values.len()];
    order[..discoveries].iter().for_each(|&i| found[i] = true);
    found
}

fn by_student(mean: f64, error: f64, freedom: f64, n: usize, level: f64) -> Comparison {
    let reach = student_critical(freedom, level).expect("a degree of freedom") * error;
    Comparison { difference: mean, lower: mean - reach, upper: mean + reach, n }
}

fn inconclusive(difference: f64, n: usize) -> Comparison {
    Comparison { difference, lower: f64::NEG_INFINITY, upper: f64::INFINITY, n }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::seeded;
    use proptest::prelude::*;

    const LEVEL: f64 = 0.95;
    const DELTA: f64 = 0.02;

    fn check(shift: f64, spread: f64, n: usize, expected: Verdict) {
        let mut random = seeded(4, 0);
        let differences: Vec<f64> = (0..n).map(|_| shift + spread * random.normal()).collect();
        let got = paired(&differences, 1.0, LEVEL);
        assert_eq!(got.by_interval(DELTA), expected, "{got:?}");
    }

    #[test]
    fn systematic_error_widens_the_interval() {
        let differences: Vec<f64> = (0..12).map(|block| 0.5 + 0.01 * f64::from(block % 2)).collect();
        let comparison = paired(&differences, 1.0, LEVEL);
        assert_eq!(comparison.by_interval(0.05), Verdict::Worse);
        assert_eq!(comparison.widened(0.1).by_interval(0.05), Verdict::Worse);
        assert_eq!(comparison.widened(0.48).by_interval(0.05), Verdict::Open);
    }

    #[test]
    fn a_replacement_that_is_not_slower_passes() {
        let comparison = paired(&[0.0, 0.01, -0.01, 0.0, 0.01, -0.01], 1.0, LEVEL);
        let check = |lower: f64, upper: f64, expected: Verdict| {
            let got = Comparison { lower, upper, ..comparison }.by_interval(0.05);
            assert_eq!(got, expected, "{lower} to {upper}");
        };
        check(-0.06, -0.03, Verdict::Better);
        check(-0.2, -0.1, Verdict::Better);
        check(-0.02, -0.01, Verdict::Equivalent);
        check(-0.1, 0.03, Verdict::Equivalent);
        check(-0.03, 0.1, Verdict::Open);
        check(0.01, 0.06, Verdict::Open);
        check(0.06, 0.1, Verdict::Worse);
    }

    #[test]
    fn each_result_occurs() {
        check(0.05, 0.01, 20, Verdict::Worse);
        check(-0.05, 0.01, 20, Verdict::Better);
        check(0.0, 0.01, 20, Verdict::Equivalent);
        check(0.02, 0.01, 20, Verdict::Open);
        check(0.5, 0.01, 1, Verdict::Open);
    }

    #[test]
    fn correlated_blocks_widen_the_interval() {
        let differences = [0.03, 0.031, 0.033, 0.034, 0.036, 0.037];
        let [plain, wider] = [1.0, 5.0].map(|widening| paired(&differences, widening, LEVEL));
        assert!((wider.upper - wider.difference - 5.0 * (plain.upper - plain.difference)).abs() < 1e-12);
        assert_eq!((plain.by_interval(0.025), wider.by_interval(0.025)), (Verdict::Worse, Verdict::Open));
    }

    #[test]
    fn stored_runs_need_five_earlier_sessions() {
        let history = [0.0, 0.01, -0.01, 0.02, -0.02];
        let check = |before: &[f64], after: &[f64], expected| {
            assert_eq!(between_sessions(before, after, LEVEL).by_interval(DELTA), expected);
        };
        check(&history[..4], &[0.5; 3], Verdict::Open);
        check(&history, &[], Verdict::Open);
        check(&history, &[0.5], Verdict::Worse);
        let many: Vec<f64> = history.iter().cycle().take(60).copied().collect();
        check(&many, &many, Verdict::Equivalent);
    }

    #[test]
    fn discoveries_of_a_worked_example() {
        let p = [0.001, 0.008, 0.039, 0.041, 0.042, 0.06, 0.074, 0.205, 0.212, 0.216];
        let found = benjamini_hochberg(&p, 0.05);
        assert_eq!(found.iter().filter(|&&x| x).count(), 2);
        assert!(found[0] && found[1]);
    }

    proptest! {
        #[test]
        fn swapping_subjects_mirrors_the_interval(
            differences in prop::collection::vec(-0.1_f64..0.1, 6..40)
        ) {
            let swapped: Vec<f64> = differences.iter().map(|x| -x).collect();
            let (one, other) = (paired(&differences, 1.0, LEVEL), paired(&swapped, 1.0, LEVEL));
            prop_assert!((one.lower + other.upper).abs() < 1e-9 && (one.upper + other.lower).abs() < 1e-9);
        }
    }
}
