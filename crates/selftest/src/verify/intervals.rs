//! Do intervals cover: for medians, paired differences, under drift, after a selection, and where rounds resemble each other?

use super::{Demand, Runs, VerificationRow, row};
use crate::sim::{Environment, Noise, Order, Scenario, randomised_blocks, serial_sweep, wave};
use bytegauge_stats::compare::paired;
use bytegauge_stats::outlier::limit;
use bytegauge_stats::quantile::{MedianEstimate, ROUND_MEANS, batched_interval, sign_interval, student_interval};

const TRIALS: usize = 20;
/// Trials of every cell in the winner's-curse test.
const CURSED: usize = 12;
/// The exact coverage of these sign intervals is 95.9 and 96.1 %.
const COVERS: Demand = Demand(94.0, 97.0);
const PAIRED_COVERS: Demand = Demand(93.0, 97.0);

/// Sign intervals of the median, by kind of noise. The control counts the samples of one trial as trials.
pub(super) fn sign_coverage(runs: Runs) -> Vec<VerificationRow> {
    let covered = |noise: Noise, trials: usize, pool: bool| {
        let [covered] = runs.tally(1300, 100 + noise as u64, |random, _| {
            let samples: Vec<Vec<f64>> = (0..trials).map(|_| noise.samples(random)).collect();
            let mean = |trial: &Vec<f64>| trial.iter().sum::<f64>() / trial.len() as f64;
            let values = if pool { samples.concat() } else { samples.iter().map(mean).collect() };
            [covers(&sign_interval(&values, 0.95), noise.median())]
        });
        covered
    };
    let of_noise =
        |noise: Noise| row(covered(noise, TRIALS, false), format!("sign interval, {}", noise.name()), COVERS);
    let few = covered(Noise::LogNormal, 6, false);
    let pooled = covered(Noise::IntraTrial, TRIALS, true);
    let mut rows = Noise::ALL.map(of_noise).to_vec();
    rows.push(row(few, "sign interval, 6 trials, log-normal", Demand(95.0, 99.5)));
    rows.push(row(pooled, "pooled samples, intra-trial 0.4", COVERS).control());
    rows
}

/// Paired differences of 20 blocks while the machine swings or drifts; the control runs the cells one after the other.
pub(super) fn paired_coverage(runs: Runs) -> Vec<VerificationRow> {
    let covered = |environment: Environment, order: Order| {
        let truth = 0.03;
        let scenario = Scenario { environment, order, ..Scenario::new(vec![0.0, truth, 0.1], Noise::Normal, 0.019) };
        runs.tally(700, 200, |random, _| {
            let rows = scenario.rows(TRIALS, random);
            let differences: Vec<f64> = rows.iter().map(|row| row[1] - row[0]).collect();
            let mean = paired(&differences, 1.0, 0.95);
            [covers(&sign_interval(&differences, 0.95), truth), mean.lower <= truth && truth <= mean.upper]
        })
    };
    let drift = Environment::Drifts { total: 0.2 };
    let mut rows = Vec::new();
    for (name, environment) in [
        ("swings AR(1) 0.5", Environment::Swings { rho: 0.5, spread: 0.18 }),
        ("swings AR(1) 0.9", Environment::Swings { rho: 0.9, spread: 0.18 }),
        ("drift of 20 %", drift),
    ] {
        let [sign, student] = covered(environment, randomised_blocks);
        rows.push(row(sign, format!("paired differences (sign), {name}"), PAIRED_COVERS));
        rows.push(row(student, format!("paired differences (mean), {name}"), PAIRED_COVERS));
    }
    let [serial, _] = covered(drift, serial_sweep);
    rows.push(row(serial, "serial order, drift of 20 %", PAIRED_COVERS).control());
    rows
}

/// The interval of the one of 64 equal cells that screening liked best, from fresh trials; the control reports the screening trials.
pub(super) fn winners_curse(runs: Runs) -> Vec<VerificationRow> {
    let scenario = Scenario::new(vec![0.0; 64], Noise::Normal, 0.03);
    let [confirmed, screened] = runs.tally(700, 400, |random, _| {
        let estimates = |rows: &[Vec<f64>]| -> Vec<MedianEstimate> {
            let column = |cell: usize| rows.iter().map(|row| row[cell]).collect::<Vec<_>>();
            (0..64).map(|cell| sign_interval(&column(cell), 0.95)).collect()
        };
        let screened = estimates(&scenario.rows(CURSED, random));
        let middle = |cell: usize| screened[cell].median.unwrap_or(0.0);
        let leader = (0..64).min_by(|&a, &b| middle(a).total_cmp(&middle(b))).unwrap_or(0);
        let fresh = estimates(&scenario.rows(CURSED, random));
        [covers(&fresh[leader], 0.0), covers(&screened[leader], 0.0)]
    });
    vec![
        row(confirmed, "leader's interval from confirmation", COVERS),
        row(screened, "leader's interval from screening", COVERS).control(),
    ]
}

const ROUNDS_COVERED: Demand = Demand::at_least(93.0);
/// Rounds, and how neighbouring ones correlate: of a session on a quiet machine, and of a minute on a usual one. Means of one or
/// two rounds still resemble each other, so few rounds that correlate have no target.
const ROUNDS: [(usize, f64); 4] = [(15, 0.0), (96, 0.0), (96, 0.3), (96, 0.5)];

/// The interval of the difference of two groups, which have no blocks in common. The control counts every round by itself.
pub(super) fn rounds(runs: Runs) -> Vec<VerificationRow> {
    let mut rows = Vec::new();
    for (rounds, rho) in ROUNDS {
        let [batched, plain] = runs.at_least(200).tally(700, 0x20d5, |random, _| {
            let values = limit(&wave(rho, rounds, random).iter().map(|value| 0.14 * value).collect::<Vec<_>>());
            let intervals = [batched_interval(&values, ROUND_MEANS, 0.95), student_interval(&values, 0.95)];
            intervals.map(|interval| interval.is_some_and(|(lower, upper)| lower <= 0.0 && 0.0 <= upper))
        });
        let name = format!("difference of two groups is covered, {rounds} rounds that correlate by {rho}");
        rows.push(row(batched, name, ROUNDS_COVERED));
        if rho == 0.5 {
            rows.push(row(plain, "rounds taken for independent", ROUNDS_COVERED).control());
        }
    }
    rows
}

fn covers(estimate: &MedianEstimate, truth: f64) -> bool {
    estimate.lower.zip(estimate.upper).is_some_and(|(lower, upper)| lower <= truth && truth <= upper)
}
