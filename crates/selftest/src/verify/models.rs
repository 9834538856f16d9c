//! Percentiles of calls, the warm-up, and the dip test.

use std::collections::BTreeMap;
use std::iter::repeat_n;

use bytegauge_stats::lifetimes::Lifetimes;
use bytegauge_stats::modes::modes;
use bytegauge_stats::rng::RandomStream;
use bytegauge_stats::warmup::fixed_warmup;

use super::{Demand, Runs, VerificationRow, row};
use crate::sim::crossing;

const SEEN: Demand = Demand::at_least(95.0);

pub(super) fn rows(runs: Runs) -> Vec<VerificationRow> {
    // Three trials of 300 bins of 1 ms, with 8 % noise.
    let [left_out] = runs.tally(700, 1200, |random, _| {
        let mut bin = |bin| if bin < 40 { 60.0 } else { 100.0 } + 8.0 * random.normal();
        let trials: Vec<Vec<f64>> = (0..3).map(|_| (0..300).map(&mut bin).collect()).collect();
        let got = fixed_warmup(&trials, 1e6);
        [got.steady && got.ns >= 40e6 && got.ns <= 150e6]
    });
    let [one, two] = runs.tally(700, 1300, |random, _| {
        [[(48, 0.0), (0, 0.0)], [(24, 0.0), (24, 8.0)]].map(|parts| {
            let centres = parts.into_iter().flat_map(|(trials, centre)| repeat_n(centre, trials));
            modes(&centres.map(|centre| centre + random.normal()).collect::<Vec<_>>()).is_some()
        })
    });
    let mut rows = calls(runs);
    rows.push(row(left_out, "warm-up of 40 ms left out", SEEN));
    rows.push(row(one, "one mode split in two", Demand::at_most(1.0)));
    rows.push(row(two, "two equal modes seen", SEEN));
    rows
}

/// Clients in a closed loop: each begins its next call when the last one is over.
const CLIENTS: usize = 300;
/// The window opens soon after all began, and is a third of the slow calls' mean.
const OPENS: f64 = 20_000.0;
const CLOSES: f64 = OPENS + 1_000_000.0;
/// One call in five waits long.
const QUICK_SHARE: f64 = 0.8;
const QUICK: f64 = 50_000.0;
const SLOW: f64 = 3_000_000.0;

/// Percentiles of calls, many of which are longer than the window leaves them. The control uses calls that were seen whole alone.
fn calls(runs: Runs) -> Vec<VerificationRow> {
    let mut rows = Vec::new();
    for share in [0.5, 0.75] {
        let shorter = |at: f64| 1.0 - QUICK_SHARE * (-at / QUICK).exp() - (1.0 - QUICK_SHARE) * (-at / SLOW).exp();
        let truth = crossing(0.0, 100.0 * SLOW, |at| shorter(at) - share);
        let [all, whole] = runs.tally(170, 0x11fe, |random, _| {
            let seen = watched(random);
            let whole = Lifetimes { ended: seen.ended.clone(), ..Lifetimes::default() };
            [seen, whole].map(|calls| calls.percentile(share).is_some_and(|found| (found / truth).ln().abs() <= 0.15))
        });
        let name = format!("percentile {share} of calls of which the window cuts some, within 15 %");
        rows.push(row(all, &name, SEEN));
        rows.push(row(whole, format!("{name}, of calls seen whole alone"), SEEN).control());
    }
    rows
}

/// The calls of all clients, as far as the window shows them.
fn watched(random: &mut RandomStream) -> Lifetimes {
    let [mut ended, mut entered, mut left] = [const { BTreeMap::new() }; 3];
    for _ in 0..CLIENTS {
        let mut began = 0.0;
        while began < CLOSES {
            let mean = if random.uniform() < QUICK_SHARE { QUICK } else { SLOW };
            let ends = began - mean * (1.0 - random.uniform()).ln();
            if ends >= OPENS {
                let (durations, duration) =
                    if ends < CLOSES { (&mut ended, ends - began) } else { (&mut left, CLOSES - began) };
                *durations.entry(duration as u64).or_default() += 1;
                if began < OPENS {
                    *entered.entry((OPENS - began) as u64).or_default() += 1;
                }
            }
            began = ends;
        }
    }
    let [ended, entered, left] = [ended, entered, left].map(|durations| durations.into_iter().collect());
    Lifetimes { ended, entered, left }
}
