//! Are percentiles of calls true where many calls are longer than the window leaves them?

use std::collections::BTreeMap;

use super::{Demand, RunTally, Runs, VerificationRow};
use bytegauge_stats::lifetimes::Lifetimes;
use bytegauge_stats::rng::RandomStream;

const NEAR: Demand = Demand::AtLeast(95.0);
/// Each begins its next call when the last one is over.
const CLIENTS: usize = 300;
const WARM_UP: f64 = 20_000.0;
const WINDOW: f64 = 1_000_000.0;
/// One call in five waits long.
const QUICK_SHARE: f64 = 0.8;
const QUICK: f64 = 50_000.0;
const SLOW: f64 = 3_000_000.0;

pub(super) fn rows(runs: Runs) -> Vec<VerificationRow> {
    let mut rows = Vec::new();
    for share in [0.5, 0.75] {
        let truth = truth(share);
        let mut tallies = [RunTally::default(); 2];
        for mut random in runs.streams(runs.repetitions(1000), 0x11fe) {
            let seen = watched(&mut random);
            let whole = Lifetimes { ended: seen.ended.clone(), ..Lifetimes::default() };
            for (tally, lifetimes) in tallies.iter_mut().zip([seen, whole]) {
                let found = lifetimes.percentile(share).unwrap_or(f64::INFINITY);
                tally.count((found / truth).ln().abs() <= 0.15);
            }
        }
        let note = format!(
            "{CLIENTS} clients in a closed loop, a window of a third of the slow calls' mean, soon after all began"
        );
        let name = format!("percentile {share} of calls of which the window cuts some, within 15 %");
        rows.push(runs.row(tallies[0], &name, NEAR, &note));
        rows.push(runs.row(tallies[1], format!("{name}, of calls seen whole alone"), NEAR, note).control());
    }
    rows
}

/// The calls of a client, as far as its window shows them.
fn watched(random: &mut RandomStream) -> Lifetimes {
    let [mut ended, mut entered, mut left] = [const { BTreeMap::new() }; 3];
    let (opens, closes) = (WARM_UP, WARM_UP + WINDOW);
    for _ in 0..CLIENTS {
        let mut began = 0.0;
        while began < closes {
            let mean = if random.uniform() < QUICK_SHARE { QUICK } else { SLOW };
            let ends = began - mean * (1.0 - random.uniform()).ln();
            if ends >= opens {
                let (durations, duration) =
                    if ends < closes { (&mut ended, ends - began) } else { (&mut left, closes - began) };
                *durations.entry(duration as u64).or_default() += 1;
                if began < opens {
                    *entered.entry((opens - began) as u64).or_default() += 1;
                }
            }
            began = ends;
        }
    }
    let [ended, entered, left] = [ended, entered, left].map(|durations| durations.into_iter().collect());
    Lifetimes { ended, entered, left }
}

/// The percentile of all calls, by halving.
fn truth(share: f64) -> f64 {
    let lasting = |at: f64| QUICK_SHARE * (-at / QUICK).exp() + (1.0 - QUICK_SHARE) * (-at / SLOW).exp();
    let (mut low, mut high) = (0.0, 100.0 * SLOW);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if lasting(middle) > 1.0 - share { low = middle } else { high = middle }
    }
    high
}
