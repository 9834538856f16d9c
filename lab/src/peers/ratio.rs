//! Ratios of two programs that were measured in the same rounds.

use std::collections::BTreeMap;

use bytegauge_stats::quantile::{MedianEstimate, sign_interval};

/// The level of an interval that is printed.
const LEVEL: f64 = 0.95;

/// Rates by the round in which they were measured.
pub type Rates = BTreeMap<u64, f64>;

/// The ratio of two in the rounds in which both were measured.
pub fn over(ours: &Rates, theirs: &Rates) -> MedianEstimate {
    over_among(ours, theirs, 1)
}

/// As [`over`], for one of several ratios: each interval is wide enough that all of them hold together at 95 % (Bonferroni).
pub fn over_among(ours: &Rates, theirs: &Rates, count: usize) -> MedianEstimate {
    let differences: Vec<f64> =
        ours.iter().filter_map(|(round, ours)| Some((ours / theirs.get(round)?).ln())).collect();
    let estimate = sign_interval(&differences, 1.0 - (1.0 - LEVEL) / count.max(1) as f64);
    MedianEstimate {
        median: estimate.median.map(f64::exp),
        lower: estimate.lower.map(f64::exp),
        upper: estimate.upper.map(f64::exp),
    }
}

/// A ratio as `1.050 (1.010 to 1.080)`.
pub fn interval(estimate: &MedianEstimate) -> String {
    let shown = |value: f64| format!("{value:.3}");
    match (estimate.median, estimate.lower, estimate.upper) {
        (Some(median), Some(lower), Some(upper)) => {
            format!("{} ({} to {})", shown(median), shown(lower), shown(upper))
        }
        (Some(median), ..) => format!("{} (no interval below 6 rounds)", shown(median)),
        _ => "–".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_pair_within_rounds() {
        // The machine halves its speed midway; the ratio does not change.
        let theirs: Rates = (0..6).map(|round| (round, if round < 3 { 8.0 } else { 4.0 })).collect();
        let mut ours: Rates = theirs.iter().map(|(round, rate)| (*round, rate * 1.25)).collect();
        // A round in which only one was measured does not count.
        ours.insert(6, 100.0);
        let got = over(&ours, &theirs);
        for end in [got.median, got.lower, got.upper] {
            assert!((end.unwrap() - 1.25).abs() < 1e-12, "{got:?}");
        }
        assert_eq!(interval(&got), "1.250 (1.250 to 1.250)");
        ours.remove(&0);
        assert_eq!(interval(&over(&ours, &theirs)), "1.250 (no interval below 6 rounds)");
        assert_eq!(interval(&over(&Rates::new(), &theirs)), "–");
    }
}
