//! Two subjects: are equal subjects called equal, and is a slowdown found and measured?

use std::f64::consts::SQRT_2;

use super::{Demand, Runs, VerificationRow, number, row};
use crate::harness_check::slope;
use crate::sim::{Noise, SWINGS, Scenario};
use bytegauge_stats::compare::{Comparison, Verdict, paired};
use bytegauge_stats::rng::RandomStream;

const BLOCKS: usize = 20;
/// The difference that matters.
const MARGIN: f64 = 0.02;
/// Spread of a trial where the A/A control's difference has 1 %.
const SPREAD: f64 = 0.01 / SQRT_2;
/// Chance alone calls 5 % of equal subjects different.
const BY_CHANCE: Demand = Demand(3.0, 7.0);

pub(super) fn rows(runs: Runs) -> Vec<VerificationRow> {
    let mut rows = Vec::new();
    for noise in Noise::ALL {
        // Heavy tails make Student's t conservative, never too narrow.
        let demand = if noise == Noise::Normal { BY_CHANCE } else { Demand::at_most(7.0) };
        let [called] = runs.tally(1300, 700, |random, _| [compared(&slower_by(0.0, noise), random).excludes_zero()]);
        rows.push(row(called, format!("A/A called different, {}", noise.name()), demand));
    }
    // A shared machine: heavy noise, and steal hits one trial in four of either arm.
    let quiet = Scenario::new(vec![0.0, 0.0], Noise::Normal, 0.3 / SQRT_2);
    let shared = Scenario { steal: vec![0.25], ..quiet };
    let [called] = runs.tally(1300, 701, |random, _| [compared(&shared, random).excludes_zero()]);
    rows.push(row(called, "A/A called different, steal", BY_CHANCE));
    // Slowdowns of known size: power, and whether the size is measured right.
    let mut points = Vec::new();
    for (percent, demand) in
        [(2.0, Demand::at_least(80.0)), (5.0, Demand::at_least(95.0)), (10.0, Demand::at_least(95.0))]
    {
        let [seen] = runs.tally(700, 800, |random, _| {
            let got = compared(&slower_by(percent / 100.0, Noise::Normal), random);
            points.push((percent, 100.0 * got.difference.exp_m1()));
            [got.excludes_zero()]
        });
        rows.push(row(seen, format!("slowdown of {percent} % seen"), demand));
    }
    let (slope, _) = slope(&points);
    let is_right = (slope - 1.0).abs() <= 0.05;
    rows.push(number("slowdown measured over injected", "1 ± 0.05", slope, "", is_right, "least squares"));
    // A difference of exactly the margin is neither less nor more: either claim is an error, in 2.5 % by design.
    let [within, beyond] = runs.tally(1300, 900, |random, _| {
        let result = compared(&slower_by(MARGIN, Noise::Normal), random).by_interval(MARGIN);
        [result == Verdict::Equivalent, matches!(result, Verdict::Worse | Verdict::Better)]
    });
    rows.push(row(within, "slower by the margin, called not slower", Demand::at_most(3.5)));
    rows.push(row(beyond, "slower by the margin, called slower", Demand::at_most(3.5)));
    rows
}

/// Two subjects, of which the second is slower.
fn slower_by(share: f64, noise: Noise) -> Scenario {
    Scenario { environment: SWINGS, ..Scenario::new(vec![0.0, share.ln_1p()], noise, SPREAD) }
}

fn compared(scenario: &Scenario, random: &mut RandomStream) -> Comparison {
    let rows = scenario.rows(BLOCKS, random);
    paired(&rows.iter().map(|row| row[1] - row[0]).collect::<Vec<_>>(), 1.0, 0.95)
}
