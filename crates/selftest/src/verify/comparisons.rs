//! Two subjects: are equal subjects called equal, and is a slowdown found and measured?

use super::{Demand, RunTally, Runs, VerificationRow, number};
use crate::harness_check::slope;
use crate::sim::{Noise, SWINGS, Scenario, Steal};
use bytegauge_stats::compare::{Comparison, Verdict, paired};
use bytegauge_stats::rng::{RandomStream, seeded};

const BLOCKS: usize = 20;
/// The difference that matters.
const MARGIN: f64 = 0.02;
/// Spread of the A/A control's difference, 1 %, as a trial's spread.
const SPREAD: f64 = 0.01 / std::f64::consts::SQRT_2;

pub(super) fn rows(runs: Runs) -> Vec<VerificationRow> {
    let mut rows = equal_arms(runs);
    rows.extend(slowdowns(runs));
    rows.extend(borderline(runs));
    rows
}

/// A/A: two names for the same thing.
fn equal_arms(runs: Runs) -> Vec<VerificationRow> {
    let row = |noise: Noise, demand: Demand| {
        let tally = runs.share(8000, 700, |random| compared(&differences(0.0, noise, random)).excludes_zero());
        let name = format!("A/A called different, {}", noise.name());
        runs.row(tally, name, demand, format!("{BLOCKS} blocks, alpha 5 %"))
    };
    let mut rows = vec![row(Noise::Normal, Demand::Within(3.0, 7.0))];
    rows.push(stolen_arms(runs));
    // Heavy tails make Student's t conservative, never too narrow.
    rows.extend(Noise::ALL.into_iter().skip(1).map(|noise| row(noise, Demand::AtMost(7.0))));
    rows
}

/// A/A on a shared machine: heavy noise, and steal hits one trial in four of either arm.
fn stolen_arms(runs: Runs) -> VerificationRow {
    let steal = Steal { shares: vec![0.25], ln_cost: 0.4 };
    let quiet = Scenario::new(vec![0.0, 0.0], Noise::Normal, 0.3 / std::f64::consts::SQRT_2);
    let scenario = Scenario { steal, ..quiet };
    let tally = runs.share(8000, 701, |random| compared(&second_minus_first(&scenario, random)).excludes_zero());
    let note = format!("{BLOCKS} blocks, paired noise 30 %, one trial in four costs 50 % more");
    runs.row(tally, "A/A called different, steal", Demand::Within(3.0, 7.0), note)
}

/// Slowdowns of known size: power, and whether the size is measured right.
fn slowdowns(runs: Runs) -> Vec<VerificationRow> {
    let mut random = seeded(runs.seed, 800);
    let (mut rows, mut points) = (Vec::new(), Vec::new());
    for (percent, demand) in [
        (0.0, Demand::Within(3.0, 7.0)),
        (2.0, Demand::AtLeast(80.0)),
        (5.0, Demand::AtLeast(95.0)),
        (10.0, Demand::AtLeast(95.0)),
    ] {
        let mut tally = RunTally::default();
        for _ in 0..runs.repetitions(4000) {
            let got = compared(&differences(percent / 100.0, Noise::Normal, &mut random));
            tally.count(got.excludes_zero());
            points.push((percent, 100.0 * got.difference.exp_m1()));
        }
        let note = format!("{BLOCKS} blocks, A/A control's spread 1 %");
        rows.push(runs.row(tally, format!("slowdown of {percent} % seen"), demand, note));
    }
    let (slope, _) = slope(&points);
    let right = (slope - 1.0).abs() <= 0.05;
    rows.push(number("slowdown measured over injected", "1 ± 0.05", slope, "", right, "least squares over 0 to 10 %"));
    rows
}

/// A difference of exactly the margin is neither less nor more: either claim is an error.
fn borderline(runs: Runs) -> Vec<VerificationRow> {
    let mut random = seeded(runs.seed, 900);
    let [mut within, mut beyond] = [RunTally::default(); 2];
    for _ in 0..runs.repetitions(8000) {
        let result = compared(&differences(MARGIN, Noise::Normal, &mut random)).by_interval(MARGIN);
        within.count(result == Verdict::Equivalent);
        beyond.count(matches!(result, Verdict::Worse | Verdict::Better));
    }
    vec![
        runs.row(within, "slower by the margin, called not slower", Demand::AtMost(3.5), "nominal 2.5 %"),
        runs.row(beyond, "slower by the margin, called slower", Demand::AtMost(3.5), "nominal 2.5 %"),
    ]
}

fn compared(differences: &[f64]) -> Comparison {
    paired(differences, 1.0, 0.95)
}

fn differences(slowdown: f64, noise: Noise, random: &mut RandomStream) -> Vec<f64> {
    let effects = vec![0.0, slowdown.ln_1p()];
    let scenario = Scenario { environment: SWINGS, ..Scenario::new(effects, noise, SPREAD) };
    second_minus_first(&scenario, random)
}

fn second_minus_first(scenario: &Scenario, random: &mut RandomStream) -> Vec<f64> {
    scenario.rows(BLOCKS, random).iter().map(|row| row[1] - row[0]).collect()
}
