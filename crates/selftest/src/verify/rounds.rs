//! Does the interval of two groups' difference, which have no blocks in common, cover although rounds resemble each other?

use super::{Demand, RunTally, Runs, VerificationRow};
use bytegauge_stats::outlier::limit;
use bytegauge_stats::quantile::{ROUND_MEANS, batched_interval, student_interval};

const COVERED: Demand = Demand::AtLeast(93.0);
/// Rounds, and how neighbouring ones correlate: of a session on a quiet machine, and of a minute on a usual one. Means of one or
/// two rounds still resemble each other, so few rounds that correlate have no target.
const ROUNDS: [(usize, f64); 4] = [(15, 0.0), (96, 0.0), (96, 0.3), (96, 0.5)];

pub(super) fn rows(runs: Runs) -> Vec<VerificationRow> {
    let mut rows = Vec::new();
    for (rounds, rho) in ROUNDS {
        let [batched, plain] = covered(rounds, rho, runs);
        let note = format!("neighbouring rounds correlate by {rho}, {rounds} rounds in at most {ROUND_MEANS} means");
        let name = format!("difference of two groups is covered, {rounds} rounds, {rho}");
        rows.push(runs.row(batched, name, COVERED, note));
        if rho == 0.5 {
            let note = "every round counts by itself";
            rows.push(runs.row(plain, "rounds taken for independent", COVERED, note).control());
        }
    }
    rows
}

fn covered(rounds: usize, rho: f64, runs: Runs) -> [RunTally; 2] {
    let mut tallies = [RunTally::default(); 2];
    for mut random in runs.streams(runs.at_least(200, 4000), 0x20d5) {
        let mut wave = random.normal();
        let values: Vec<f64> = (0..rounds)
            .map(|_| {
                wave = rho * wave + (1.0 - rho * rho).sqrt() * random.normal();
                0.14 * wave
            })
            .collect();
        let values = limit(&values);
        let intervals = [batched_interval(&values, ROUND_MEANS, 0.95), student_interval(&values, 0.95)];
        for (tally, interval) in tallies.iter_mut().zip(intervals) {
            tally.count(interval.is_some_and(|(lower, upper)| lower <= 0.0 && 0.0 <= upper));
        }
    }
    tallies
}
