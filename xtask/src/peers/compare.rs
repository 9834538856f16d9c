//! What was measured in the same rounds: ratios, whether they reach an aim, and how they are printed.

use std::collections::BTreeMap;
use std::fmt::Display;

use anyhow::Result;
use bytegauge_model::unit::significant;
use bytegauge_stats::interval::{Estimate, sign_interval};
use bytegauge_stats::quantile::median;
use bytegauge_stats::rng::Stream;

use super::bench::{Bench, Cpus};

/// The level of an interval that is printed.
const LEVEL: f64 = 0.95;

/// What one arm of a comparison of calls did.
#[derive(Clone, Debug)]
pub struct Arm {
    /// Its name.
    pub name: String,
    /// Calls per second, and per CPU second, in the rounds that choose.
    pub chosen: Vec<(f64, f64)>,
    /// Calls per second in the rounds that judge.
    pub rates: Vec<f64>,
    /// Calls per CPU second of the end that is compared, in the same rounds.
    pub per_cpu_second: Vec<f64>,
}

impl Arm {
    /// What was found in the rounds that choose and in those that judge.
    fn of(subject: &impl Display, mut found: Vec<(f64, f64)>, choosing: usize) -> Arm {
        let judged = found.split_off(choosing);
        let (rates, per_cpu_second) = judged.into_iter().unzip();
        Arm { name: subject.to_string(), chosen: found, rates, per_cpu_second }
    }

    /// The median rate of the rounds that choose, or of those that judge where none chose.
    pub fn chosen_rate(&self) -> f64 {
        self.chosen_by(|found| found.0, &self.rates)
    }

    /// The same of calls per CPU second.
    pub fn chosen_per_cpu(&self) -> f64 {
        self.chosen_by(|found| found.1, &self.per_cpu_second)
    }

    fn chosen_by(&self, read: fn(&(f64, f64)) -> f64, judged: &[f64]) -> f64 {
        let chosen: Vec<f64> = self.chosen.iter().map(read).collect();
        median(if chosen.is_empty() { judged } else { &chosen }).unwrap_or(0.0)
    }
}

/// Measures calls per second and per CPU second of every subject: first in the rounds that choose, then in those
/// that judge.
///
/// # Errors
/// With the subject that failed.
pub fn arms<A: Display>(
    bench: &Bench,
    subjects: &[A],
    random: &mut Stream,
    mut measure: impl FnMut(&A, Cpus, u64) -> Result<(f64, f64)>,
) -> Result<Vec<Arm>> {
    let choosing = bench.effort.choosing_rounds();
    let measured = bench.rounds(choosing + bench.effort.rounds, subjects, random, &mut measure)?;
    Ok(subjects.iter().zip(measured).map(|(subject, found)| Arm::of(subject, found, choosing)).collect())
}

/// The same of subjects that are measured together in each round.
///
/// # Errors
/// With what failed.
pub fn together<A: Display>(
    bench: &Bench,
    subjects: &[A],
    random: &mut Stream,
    mut measure: impl FnMut(Cpus, u64) -> Result<Vec<(f64, f64)>>,
) -> Result<Vec<Arm>> {
    let choosing = bench.effort.choosing_rounds();
    let rounds =
        bench.rounds(choosing + bench.effort.rounds, &["all servers"], random, |_, cpus, seed| measure(cpus, seed))?;
    let found = |at: usize| rounds.iter().flatten().map(|round| round[at]).collect();
    Ok(subjects.iter().enumerate().map(|(at, subject)| Arm::of(subject, found(at), choosing)).collect())
}

/// The median in thousands and how far it may be off: `210.3 ± 1.2 %`.
pub fn thousands(values: &[f64]) -> String {
    let estimate = sign_interval(values, 0.95);
    let spread = estimate.relative_half_width();
    let spread = spread.map(|share| format!(" ± {} %", significant(share * 100.0, 2))).unwrap_or_default();
    estimate.median.map(|median| format!("{:.1}{spread}", median / 1000.0)).unwrap_or_default()
}

/// Every judged run, so that a reader can work out the ratios again.
pub fn raw(arms: &[Arm]) -> String {
    let width = arms.iter().map(|arm| arm.name.len()).max().unwrap_or(0);
    let line = |name: &str, what: &str, values: &[f64]| {
        let values: Vec<String> = values.iter().map(|value| format!("{:.1}", value / 1000.0)).collect();
        format!("{name:<width$} {what} {}\n", values.join(" "))
    };
    let lines: String = arms
        .iter()
        .map(|arm| line(&arm.name, "calls/s", &arm.rates) + &line("", "per CPU", &arm.per_cpu_second))
        .collect();
    format!("\nThousands of calls per second and per CPU second, in the order of the rounds:\n\n```\n{lines}```\n")
}

/// A ratio that one arm is to reach over another.
#[derive(Clone, Copy, Debug)]
pub struct Aim {
    /// What is aimed at, in words.
    pub text: &'static str,
    /// The least ratio that reaches it.
    pub at_least: f64,
}

impl Aim {
    /// Whether a ratio reaches the aim, in words, and whose it is; what is missed is said loudly.
    pub fn verdict(&self, ratio: &Estimate, whose: &str) -> String {
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

/// One arm's values over another's, from the differences of logarithms within rounds, at 95 %.
pub fn ratio(ours: &[f64], theirs: &[f64]) -> Estimate {
    ratio_at(ours, theirs, LEVEL)
}

fn ratio_at(ours: &[f64], theirs: &[f64], level: f64) -> Estimate {
    let differences: Vec<f64> = ours.iter().zip(theirs).map(|(ours, theirs)| (ours / theirs).ln()).collect();
    let estimate = sign_interval(&differences, level);
    Estimate {
        median: estimate.median.map(f64::exp),
        lower: estimate.lower.map(f64::exp),
        upper: estimate.upper.map(f64::exp),
        ..estimate
    }
}

/// What was measured, by the block of a session that it was measured in.
pub type Rates = BTreeMap<u64, f64>;

/// The ratio of two in the blocks in which both were measured.
pub fn over(ours: &Rates, theirs: &Rates) -> Estimate {
    over_at(ours, theirs, LEVEL)
}

/// The same as one of so many ratios, on each of which something is said: each interval is wide enough that all of them
/// hold together at 95 % (Bonferroni).
pub fn over_among(ours: &Rates, theirs: &Rates, verdicts: usize) -> Estimate {
    over_at(ours, theirs, 1.0 - (1.0 - LEVEL) / verdicts.max(1) as f64)
}

fn over_at(ours: &Rates, theirs: &Rates, level: f64) -> Estimate {
    let pairs = ours.iter().filter_map(|(block, ours)| Some((*ours, *theirs.get(block)?)));
    let (ours, theirs): (Vec<f64>, Vec<f64>) = pairs.unzip();
    ratio_at(&ours, &theirs, level)
}

/// What was measured, without its blocks.
pub fn values(rates: &Rates) -> Vec<f64> {
    rates.values().copied().collect()
}

/// A ratio as `1.050 (1.010 to 1.080)`.
pub fn interval(estimate: &Estimate) -> String {
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
        // The machine halves its speed midway; the ratio does not notice.
        let peer = [8.0, 8.0, 8.0, 4.0, 4.0, 4.0];
        let ours: Vec<f64> = peer.iter().map(|rate| rate * 1.25).collect();
        let got = ratio(&ours, &peer);
        for end in [got.median, got.lower, got.upper] {
            assert!((end.unwrap() - 1.25).abs() < 1e-12, "{got:?}");
        }
        assert_eq!(ratio(&ours[..5], &peer[..5]).lower, None);
    }

    fn check(median: Option<f64>, ends: Option<(f64, f64)>, expected: &str) {
        let (lower, upper) = (ends.map(|ends| ends.0), ends.map(|ends| ends.1));
        let ratio = Estimate { median, lower, upper, n: 8, level: 0.95, attained: None };
        assert_eq!(
            Aim { text: "quick", at_least: 0.97 }.verdict(&ratio, "a beside b"),
            format!("Aim: quick: {expected} (a beside b).")
        );
    }

    #[test]
    fn what_is_missed_is_said() {
        check(Some(1.0), Some((0.98, 1.02)), "reached, 1.000 (0.980 to 1.020)");
        check(Some(1.0), Some((0.9, 1.1)), "reached by the median, not proven, 1.000 (0.900 to 1.100)");
        check(Some(0.96), Some((0.9, 1.1)), "**missed** by the median, not proven, 0.960 (0.900 to 1.100)");
        check(Some(0.9), Some((0.85, 0.95)), "**missed**, 0.900 (0.850 to 0.950)");
        check(Some(1.0), None, "reached by the median, not proven, 1.000 (no interval below 6 rounds)");
        check(None, None, "not measured, –");
    }
}
