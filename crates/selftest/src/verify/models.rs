//! The cost model, the warm-up, the dip test, and whether the same data give the same bits.

use std::collections::BTreeMap;

use bytegauge_stats::cost::{DEV_ZERO, Point, plain_line};
use bytegauge_stats::group::{self, Method};
use bytegauge_stats::lifetimes::Lifetimes;
use bytegauge_stats::modes::modes;
use bytegauge_stats::rng::RandomStream;
use bytegauge_stats::warmup::fixed_warmup;

use super::{Demand, Runs, VerificationRow, number};
use crate::sim::{Noise, Scenario};
use crate::verify::RunTally;

pub(super) fn cost_rows(_: Runs) -> Vec<VerificationRow> {
    let point = |&(bytes, seconds, calls): &(f64, f64, f64)| Point { bytes, ns: seconds * 1e9 / calls };
    let small: Vec<Point> = DEV_ZERO.iter().map(point).filter(|p| p.bytes <= 262_144.0).collect();
    let (fit, _) = plain_line(&small).expect("the table has 19 sizes");
    let note = "published /dev/zero table up to 256 KiB, plain least squares";
    let per_call = (fit.fixed_ns - 162.3).abs() < 0.05;
    let per_byte = (fit.per_byte_ns - 0.02197).abs() < 0.000_005;
    vec![
        number("cost of a call", "162.3 ns", fit.fixed_ns, "ns", per_call, note),
        number("cost of a byte", "0.02197 ns", fit.per_byte_ns, "ns", per_byte, note),
    ]
}

pub(super) fn other_rows(runs: Runs) -> Vec<VerificationRow> {
    vec![
        warmup(runs),
        split("one mode split in two", &[(48, 0.0)], Demand::AtMost(1.0), runs),
        split("two equal modes seen", &[(24, 0.0), (24, 8.0)], Demand::AtLeast(95.0), runs),
        repeatable(runs.seed),
    ]
}

fn warmup(runs: Runs) -> VerificationRow {
    let tally = runs.share(4000, 1200, |random| {
        let series = |random: &mut RandomStream| -> Vec<f64> {
            (0..300).map(|bin| if bin < 40 { 60.0 } else { 100.0 } + 8.0 * random.normal()).collect()
        };
        let trials: Vec<Vec<f64>> = (0..3).map(|_| series(random)).collect();
        let got = fixed_warmup(&trials, 1e6);
        got.steady && got.ns >= 40e6 && got.ns <= 150e6
    });
    runs.row(tally, "warm-up of 40 ms left out", Demand::AtLeast(95.0), "three trials of 300 bins of 1 ms, 8 % noise")
}

fn split(name: &str, parts: &[(usize, f64)], demand: Demand, runs: Runs) -> VerificationRow {
    let tally = runs.share(4000, 1300, |random| {
        let centres = parts.iter().flat_map(|&(n, centre)| std::iter::repeat_n(centre, n));
        let values: Vec<f64> = centres.map(|centre| centre + random.normal()).collect();
        modes(&values).is_some()
    });
    runs.row(tally, name, demand, "48 trials, dip test at p < 0.01")
}

/// The same data and seed twice, and once more through a fresh copy.
fn repeatable(seed: u64) -> VerificationRow {
    let scenario = Scenario::new(vec![0.0, 0.01, 0.02, 0.05], Noise::StudentT3, 0.03);
    let differing = (0..20)
        .filter(|run| {
            let input = scenario.group(24, seed ^ run);
            let method = Method { seed, ..Method::default() };
            let bits = |verdict: &group::GroupVerdict| format!("{verdict:?}");
            bits(&group::analyse(&input, &method)) != bits(&group::analyse(&input.clone(), &method))
        })
        .count();
    number("verdicts that differ when repeated", "0", differing as f64, "of 20", differing == 0, "every digit compared")
}

// Are percentiles of calls true where many calls are longer than the window leaves them?

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
