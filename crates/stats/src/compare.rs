//! Compares two subjects: worse, better, equivalent or inconclusive.
//!
//! The preferred comparison interleaves both subjects in one session, block by block. The paired ln differences are
//! judged by Student's t, since differences of two arms of the same kind are symmetric. A difference is significant if
//! it is beyond ±δ. Two subjects are equivalent if it is within ±δ (two one-sided tests; Schuirmann 1987). Otherwise
//! the comparison is inconclusive.
//!
//! Runs of different sessions differ more than their trials show, so there the unit is the session: with fewer than
//! five earlier sessions the result is "inconclusive".
//!
//! Never compares trials of different sessions as if they were one.

use crate::block_dependence::{FEW_BLOCKS, MIN_BLOCKS};
use crate::outlier::limit;
use schemars::JsonSchema;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

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

/// Settings of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ComparisonTerms {
    /// Confidence, as a share (0.95).
    pub level: f64,
    /// δ: the difference that matters, as a share (0.02 = 2 %).
    pub delta: f64,
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
    /// p-value of "no difference at all" (two-sided).
    pub p_any: f64,
    /// The result.
    pub verdict: Verdict,
}

impl Comparison {
    /// The result that the interval shows for a replacement: it takes longer by more than a margin (a share), or does not; then it
    /// takes less time if all of the interval is below 0 and part of it beyond the margin.
    ///
    /// This is stricter than two one-sided tests, which use the interval of twice the error (90 % for 95 %). A reader
    /// who sees "equivalent" finds the upper end of the printed interval within the margin.
    #[must_use]
    pub fn by_interval(&self, delta: f64) -> Verdict {
        let delta = delta.ln_1p();
        match (self.lower, self.upper) {
            (lower, _) if lower > delta => Verdict::Worse,
            (lower, upper) if lower < -delta && upper < 0.0 => Verdict::Better,
            (_, upper) if upper <= delta => Verdict::Equivalent,
            _ => Verdict::Open,
        }
    }

    /// The same with its interval wider by `error` (ln) on either side: a systematic error that more blocks do not reduce.
    /// The p-value stays that of the blocks.
    #[must_use]
    pub fn widened(self, error: f64) -> Comparison {
        Comparison { lower: self.lower - error, upper: self.upper + error, ..self }
    }
}

/// Compares one cell by its paired ln differences, one per block, with outliers limited to [`crate::outlier::SPREADS`] where there are six or
/// more. Fewer than two: inconclusive.
#[must_use]
pub fn paired(differences: &[f64], terms: &ComparisonTerms) -> Comparison {
    let n = differences.len();
    let limited = if n < MIN_BLOCKS { differences.to_vec() } else { limit(differences) };
    let (mean, variance) = moments(&limited);
    // Few pairs without spread do not show it.
    if n < FEW_BLOCKS || n < MIN_BLOCKS && variance == 0.0 {
        return inconclusive(mean, n);
    }
    judge(mean, (variance / n as f64).sqrt(), n as f64 - 1.0, n, terms)
}

/// Compares stored runs by session: `before` and `after` hold one mean ln cost per session. The error is the spread
/// between sessions, pooled. Inconclusive with fewer than five sessions before, or none after.
#[must_use]
pub fn between_sessions(before: &[f64], after: &[f64], terms: &ComparisonTerms) -> Comparison {
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
    judge(difference, error, freedom, sessions, terms)
}

/// Selects the p-values that are discoveries at false discovery rate `rate` (Benjamini and Hochberg 1995): all up to
/// the largest k with p₍ₖ₎ ≤ k·rate/m.
#[must_use]
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

fn judge(mean: f64, error: f64, freedom: f64, n: usize, terms: &ComparisonTerms) -> Comparison {
    let student = StudentsT::new(0.0, 1.0, freedom).expect("a degree of freedom");
    // Without any spread the difference is certain.
    let error = error.max(f64::MIN_POSITIVE);
    let delta = terms.delta.ln_1p();
    let upper_tail = |distance: f64| student.sf(distance / error);
    let reach = student.inverse_cdf(0.5 + terms.level / 2.0) * error;
    let alpha = 1.0 - terms.level;
    let verdict = if upper_tail(mean.abs() - delta) <= alpha / 2.0 {
        if mean > 0.0 { Verdict::Worse } else { Verdict::Better }
    } else if upper_tail(delta - mean.abs()) <= alpha {
        Verdict::Equivalent
    } else {
        Verdict::Open
    };
    Comparison {
        difference: mean,
        lower: mean - reach,
        upper: mean + reach,
        n,
        p_any: 2.0 * upper_tail(mean.abs()),
        verdict,
    }
}

fn inconclusive(difference: f64, n: usize) -> Comparison {
    Comparison { difference, lower: f64::NEG_INFINITY, upper: f64::INFINITY, n, p_any: 1.0, verdict: Verdict::Open }
}

/// Mean (0 without values) and sample variance (0 for fewer than two).
fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n.max(1.0);
    let square: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
    (mean, square / (n - 1.0).max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::seeded;
    use proptest::prelude::*;

    const TERMS: ComparisonTerms = ComparisonTerms { level: 0.95, delta: 0.02 };

    fn check(shift: f64, spread: f64, n: usize, expected: Verdict) {
        let mut random = seeded(4, 0);
        let differences: Vec<f64> = (0..n).map(|_| shift + spread * random.normal()).collect();
        let got = paired(&differences, &TERMS);
        assert_eq!(got.verdict, expected, "{got:?}");
    }

    #[test]
    fn systematic_error_widens_the_interval() {
        let terms = ComparisonTerms { level: 0.95, delta: 0.05 };
        let differences: Vec<f64> = (0..12).map(|block| 0.5 + 0.01 * f64::from(block % 2)).collect();
        let comparison = paired(&differences, &terms);
        assert_eq!(comparison.by_interval(0.05), Verdict::Worse);
        assert_eq!(comparison.widened(0.1).by_interval(0.05), Verdict::Worse);
        assert_eq!(comparison.widened(0.48).by_interval(0.05), Verdict::Open);
    }

    #[test]
    fn a_replacement_that_is_not_slower_passes() {
        let comparison = paired(&[0.0, 0.01, -0.01, 0.0, 0.01, -0.01], &TERMS);
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
    fn stored_runs_need_five_earlier_sessions() {
        let history = [0.0, 0.01, -0.01, 0.02, -0.02];
        assert_eq!(between_sessions(&history[..4], &[0.5; 3], &TERMS).verdict, Verdict::Open);
        assert_eq!(between_sessions(&history, &[], &TERMS).verdict, Verdict::Open);
        assert_eq!(between_sessions(&history, &[0.5], &TERMS).verdict, Verdict::Worse);
        let many: Vec<f64> = history.iter().cycle().take(60).copied().collect();
        assert_eq!(between_sessions(&many, &many, &TERMS).verdict, Verdict::Equivalent);
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
        fn interval_is_stricter_than_one_sided_tests(
            differences in prop::collection::vec(-0.1_f64..0.1, 6..40),
            delta in 0.001_f64..0.2,
        ) {
            let got = paired(&differences, &ComparisonTerms { delta, ..TERMS });
            let shown = got.by_interval(delta);
            let is_wider = shown == Verdict::Open && got.verdict == Verdict::Equivalent;
            let is_not_slower = matches!(shown, Verdict::Better | Verdict::Equivalent) && got.upper <= delta.ln_1p();
            prop_assert!(shown == got.verdict || is_wider || is_not_slower, "{:?}", got);
        }

        #[test]
        fn swapping_subjects_swaps_the_result(
            differences in prop::collection::vec(-0.1_f64..0.1, 6..40)
        ) {
            let swapped: Vec<f64> = differences.iter().map(|x| -x).collect();
            let (one, other) = (paired(&differences, &TERMS), paired(&swapped, &TERMS));
            let expected = match one.verdict {
                Verdict::Worse => Verdict::Better,
                Verdict::Better => Verdict::Worse,
                same => same,
            };
            prop_assert_eq!(other.verdict, expected);
        }
    }
}
