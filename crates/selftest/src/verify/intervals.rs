//! Do intervals cover: for medians, paired differences, under drift, and after a selection?

use super::{Demand, RunTally, Runs, VerificationRow};
use crate::sim::{Environment, Noise, Order, Scenario, randomised_blocks, serial_sweep};
use bytegauge_stats::block_dependence::dependent;
use bytegauge_stats::compare::paired;
use bytegauge_stats::quantile::{MedianEstimate, sign_interval};
use bytegauge_stats::rng::seeded;

const TRIALS: usize = 20;
/// Trials of every cell in the winner's-curse test.
const CURSED: usize = 12;
const COVERS: Demand = Demand::Within(94.0, 97.0);
const PAIRED_COVERS: Demand = Demand::Within(93.0, 97.0);

/// Sign intervals of the median, by kind of noise; pooling the samples of a trial is the control.
pub(super) fn sign_coverage(runs: Runs) -> Vec<VerificationRow> {
    let mut rows: Vec<VerificationRow> = Noise::ALL
        .into_iter()
        .map(|noise| {
            let tally = median_covered(noise, TRIALS, false, runs);
            let note = format!("{TRIALS} trials; exact coverage 95.9 %");
            runs.row(tally, format!("sign interval, {}", noise.name()), COVERS, note)
        })
        .collect();
    let small = median_covered(Noise::LogNormal, 6, false, runs);
    let conservative = Demand::Within(95.0, 99.5);
    rows.push(runs.row(small, "sign interval, 6 trials, log-normal", conservative, "exact coverage 96.9 %"));
    let pooled = median_covered(Noise::IntraTrial, TRIALS, true, runs);
    let note = "samples of one trial counted as trials";
    rows.push(runs.row(pooled, "pooled samples, intra-trial 0.4", COVERS, note).control());
    rows
}

fn median_covered(noise: Noise, trials: usize, pool: bool, runs: Runs) -> RunTally {
    runs.share(8000, 100 + noise as u64, |random| {
        let samples: Vec<Vec<f64>> = (0..trials).map(|_| noise.samples(random)).collect();
        let values: Vec<f64> = if pool {
            samples.concat()
        } else {
            samples.iter().map(|trial| trial.iter().sum::<f64>() / trial.len() as f64).collect()
        };
        covers(&sign_interval(&values, 0.95), noise.median())
    })
}

/// Paired differences while the machine swings or drifts; the control runs the cells one after the
/// other.
pub(super) fn paired_coverage(runs: Runs) -> Vec<VerificationRow> {
    let mut rows = Vec::new();
    for (name, environment) in environments() {
        let (sign, student) = paired_covered(environment, randomised_blocks, runs);
        let note = "20 blocks of 7 cells in random order; noise 2.7 %";
        rows.push(runs.row(sign, format!("paired differences (sign), {name}"), PAIRED_COVERS, note));
        rows.push(runs.row(student, format!("paired differences (mean), {name}"), PAIRED_COVERS, note));
    }
    let (name, drift) = environments()[2];
    let (sign, _) = paired_covered(drift, serial_sweep, runs);
    let note = "the same cells, all trials of one after all trials of the other";
    rows.push(runs.row(sign, format!("serial order, {name}"), PAIRED_COVERS, note).control());
    rows
}

fn environments() -> [(&'static str, Environment); 3] {
    [
        ("swings AR(1) 0.5", Environment::Swings { rho: 0.5, spread: 0.18 }),
        ("swings AR(1) 0.9", Environment::Swings { rho: 0.9, spread: 0.18 }),
        ("drift of 20 %", Environment::Drifts { total: 0.2 }),
    ]
}

fn scenario(environment: Environment, order: Order) -> Scenario {
    let effects = vec![0.0, 0.03, 0.06, 0.01, 0.02, 0.1, 0.0];
    Scenario { environment, order, ..Scenario::new(effects, Noise::Normal, 0.019) }
}

/// Coverage of the difference of the first two cells: sign interval and interval of the mean.
fn paired_covered(environment: Environment, order: Order, runs: Runs) -> (RunTally, RunTally) {
    let scenario = scenario(environment, order);
    let truth = scenario.effects[1] - scenario.effects[0];
    let mut random = seeded(runs.seed, 200);
    let [mut sign, mut student] = [RunTally::default(); 2];
    for _ in 0..runs.repetitions(4000) {
        let rows = scenario.rows(TRIALS, &mut random);
        let differences: Vec<f64> = rows.iter().map(|row| row[1] - row[0]).collect();
        sign.count(covers(&sign_interval(&differences, 0.95), truth));
        let mean = paired(&differences, 1.0, 0.95);
        student.count(mean.lower <= truth && truth <= mean.upper);
    }
    (sign, student)
}

/// Intervals of absolute rates cannot hold beyond the session when blocks depend on each other: they
/// must be flagged.
pub(super) fn absolute_flags(runs: Runs) -> Vec<VerificationRow> {
    let blocks = 48;
    let mut rows = Vec::new();
    for (name, environment) in environments() {
        let scenario = scenario(environment, randomised_blocks);
        let mut random = seeded(runs.seed, 300);
        let [mut flagged, mut covered] = [RunTally::default(); 2];
        for run in 0..runs.repetitions(2000) {
            let cell: Vec<f64> = scenario.rows(blocks, &mut random).iter().map(|row| row[0]).collect();
            flagged.count(dependent(std::slice::from_ref(&cell), runs.seed ^ run as u64));
            covered.count(covers(&sign_interval(&cell, 0.95), scenario.effects[0]));
        }
        let note = format!("{blocks} blocks; the interval would cover in {:.0} %", covered.percent());
        rows.push(runs.row(flagged, format!("absolute rate flagged, {name}"), Demand::AtLeast(90.0), note));
    }
    rows
}

/// The interval of the cell that screening liked best, from fresh trials; the control reports the
/// screening trials.
pub(super) fn winners_curse(runs: Runs) -> Vec<VerificationRow> {
    let repetitions = runs.repetitions(4000);
    let mut random = seeded(runs.seed, 400);
    let (mut confirmed, mut screened, mut flattery) = (RunTally::default(), RunTally::default(), 0.0);
    let scenario = Scenario::new(vec![0.0; 64], Noise::Normal, 0.03);
    for _ in 0..repetitions {
        let column = |rows: &[Vec<f64>], cell: usize| rows.iter().map(|row| row[cell]).collect::<Vec<_>>();
        let screening = scenario.rows(CURSED, &mut random);
        let estimate = |cell: usize| sign_interval(&column(&screening, cell), 0.95);
        let middle = |cell: usize| estimate(cell).median.unwrap_or(0.0);
        let leader = (0..64).min_by(|&a, &b| middle(a).total_cmp(&middle(b))).unwrap_or(0);
        screened.count(covers(&estimate(leader), 0.0));
        flattery -= middle(leader) / repetitions as f64;
        let fresh = column(&scenario.rows(CURSED, &mut random), leader);
        confirmed.count(covers(&sign_interval(&fresh, 0.95), 0.0));
    }
    let note =
        format!("12 trials each of 64 equal cells, 3 % spread; screening flatters it by {:.1} %", 100.0 * flattery);
    vec![
        runs.row(confirmed, "leader's interval from confirmation", COVERS, "12 fresh trials; exact coverage 96.1 %"),
        runs.row(screened, "leader's interval from screening", COVERS, note).control(),
    ]
}

fn covers(estimate: &MedianEstimate, truth: f64) -> bool {
    estimate.lower.zip(estimate.upper).is_some_and(|(lower, upper)| lower <= truth && truth <= upper)
}
