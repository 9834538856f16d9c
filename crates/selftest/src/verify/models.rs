//! The cost model, the warm-up, the dip test, and whether the same data give the same bits.

use super::{Demand, Runs, VerificationRow, number};
use crate::sim::{Noise, Scenario};
use bytegauge_stats::cost::{DEV_ZERO, Point, plain_line};
use bytegauge_stats::group::{self, Method};
use bytegauge_stats::modes::modes;
use bytegauge_stats::rng::RandomStream;
use bytegauge_stats::warmup::fixed_warmup;

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
