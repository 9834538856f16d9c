//! Ratios of measurements in the same blocks: whether they reach an aim, and how they are printed.

use std::collections::BTreeMap;

use bytegauge_stats::interval::{MedianEstimate, sign_interval};

/// The level of an interval that is printed.
const LEVEL: f64 = 0.95;

/// A ratio that one program is to reach over another.
#[derive(Clone, Copy, Debug)]
pub struct Aim {
    /// The aim as text.
    pub text: &'static str,
    /// The least ratio that reaches it.
    pub at_least: f64,
}

impl Aim {
    /// Whether a ratio reaches the aim, as text, with the name of the pair. A missed aim is printed in bold.
    pub fn verdict(&self, ratio: &MedianEstimate, whose: &str) -> String {
        let reached = match (ratio.median, ratio.lower, ratio.upper) {
            (_, Some(lower), _) if lower >= self.at_least => "reached",
            (_, _, Some(upper)) if upper < self.at_least => "**missed**",
            (Some(median), ..) if median >= self.at_least => "reached by the median, not proven",
            (Some(_), ..) => "**missed** by the median, not proven",
            (None, ..) => "not measured",
        };
        format!("Aim: {}: {reached}, {} ({whose}).", self.text, interval(ratio))
    }
}

/// One's values over another's, from the differences of logarithms within blocks.
fn ratio_at(ours: &[f64], theirs: &[f64], level: f64) -> MedianEstimate {
    let differences: Vec<f64> = ours.iter().zip(theirs).map(|(ours, theirs)| (ours / theirs).ln()).collect();
    let estimate = sign_interval(&differences, level);
    MedianEstimate {
        median: estimate.median.map(f64::exp),
        lower: estimate.lower.map(f64::exp),
        upper: estimate.upper.map(f64::exp),
        ..estimate
    }
}

/// Rates by the block of a session in which they were measured.
pub type Rates = BTreeMap<u64, f64>;

/// The ratio of two in the blocks in which both were measured.
pub fn over(ours: &Rates, theirs: &Rates) -> MedianEstimate {
    over_at(ours, theirs, LEVEL)
}

/// As [`over`], for one of several ratios: each interval is wide enough that all of them hold together at 95 % (Bonferroni).
pub fn over_among(ours: &Rates, theirs: &Rates, count: usize) -> MedianEstimate {
    over_at(ours, theirs, 1.0 - (1.0 - LEVEL) / count.max(1) as f64)
}

fn over_at(ours: &Rates, theirs: &Rates, level: f64) -> MedianEstimate {
    let pairs = ours.iter().filter_map(|(block, ours)| Some((*ours, *theirs.get(block)?)));
    let (ours, theirs): (Vec<f64>, Vec<f64>) = pairs.unzip();
    ratio_at(&ours, &theirs, level)
}

/// Rates without their blocks.
pub fn values(rates: &Rates) -> Vec<f64> {
    rates.values().copied().collect()
}

/// A ratio as `1.050 (1.010 to 1.080)`.
pub fn interval(estimate: &MedianEstimate) -> String {
    let shown = |value: f64| format!("{value:.3}");
    match (estimate.median, estimate.lower, estimate.upper) {
        (Some(median), Some(lower), Some(upper)) => {
            format!("{} ({} to {})", shown(median), shown(lower), shown(upper))
        }
        (Some(median), ..) => format!("{} (no interval below 6 blocks)", shown(median)),
        _ => "–".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_pair_within_blocks() {
        // The machine halves its speed midway; the ratio does not change.
        let peer = [8.0, 8.0, 8.0, 4.0, 4.0, 4.0];
        let ours: Vec<f64> = peer.iter().map(|rate| rate * 1.25).collect();
        let got = ratio_at(&ours, &peer, LEVEL);
        for end in [got.median, got.lower, got.upper] {
            assert!((end.unwrap() - 1.25).abs() < 1e-12, "{got:?}");
        }
        assert_eq!(ratio_at(&ours[..5], &peer[..5], LEVEL).lower, None);
    }

    fn check(median: Option<f64>, ends: Option<(f64, f64)>, expected: &str) {
        let (lower, upper) = (ends.map(|ends| ends.0), ends.map(|ends| ends.1));
        let ratio = MedianEstimate { median, lower, upper, n: 8, level: 0.95, attained: None };
        assert_eq!(
            Aim { text: "quick", at_least: 0.97 }.verdict(&ratio, "a, b"),
            format!("Aim: quick: {expected} (a, b).")
        );
    }

    #[test]
    fn missed_aims_are_printed() {
        check(Some(1.0), Some((0.98, 1.02)), "reached, 1.000 (0.980 to 1.020)");
        check(Some(1.0), Some((0.9, 1.1)), "reached by the median, not proven, 1.000 (0.900 to 1.100)");
        check(Some(0.96), Some((0.9, 1.1)), "**missed** by the median, not proven, 0.960 (0.900 to 1.100)");
        check(Some(0.9), Some((0.85, 0.95)), "**missed**, 0.900 (0.850 to 0.950)");
        check(Some(1.0), None, "reached by the median, not proven, 1.000 (no interval below 6 blocks)");
        check(None, None, "not measured, –");
    }
}
