//! Does the interval of two groups' difference, which have no blocks in common, cover although rounds resemble each other?

use super::{Demand, RunTally, Scale, VerificationRow};
use bytegauge_stats::interval::{ROUND_MEANS, batched_interval, student_interval};
use bytegauge_stats::outlier::limit;
use bytegauge_stats::rng::seeded;

const COVERED: Demand = Demand::AtLeast(93.0);
/// Rounds of a session on a quiet machine, and of a minute on a usual one.
const ROUNDS: [usize; 2] = [15, 96];

pub(super) fn rows(scale: Scale, seed: u64) -> Vec<VerificationRow> {
    let mut rows = Vec::new();
    for rounds in ROUNDS {
        for rho in [0.0, 0.3, 0.5] {
            let [batched, plain] = covered(rounds, rho, scale, seed);
            let note =
                format!("neighbouring rounds correlate by {rho}, {rounds} rounds in at most {ROUND_MEANS} means");
            let name = format!("difference of two groups is covered, {rounds} rounds, {rho}");
            rows.push(match rounds < 2 * ROUND_MEANS && rho > 0.0 {
                // Means of one or two rounds still resemble each other.
                true => batched.row(name, Demand::Published, scale, note),
                false => batched.row(name, COVERED, scale, note),
            });
            if rounds > 2 * ROUND_MEANS && rho == 0.5 {
                rows.push(plain.control(
                    "rounds taken for independent",
                    COVERED,
                    scale,
                    "every round counts by itself",
                ));
            }
        }
    }
    rows
}

fn covered(rounds: usize, rho: f64, scale: Scale, seed: u64) -> [RunTally; 2] {
    let mut tallies = [RunTally::default(); 2];
    for run in 0..scale.at_least(200, 4000) as u64 {
        let mut random = seeded(seed.wrapping_mul(1_000_003).wrapping_add(run), 0x20d5);
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
