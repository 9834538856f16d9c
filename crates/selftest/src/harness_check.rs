//! Checks the harness on this machine: A/A comparisons must find nothing, and an injected slowdown must be measured.
//!
//! Two arms run in interleaved blocks; one of them may spin a calibrated share of its call. Trials and random
//! order are those of any session, without a store, and the arms are compared as two subjects are.
//! The A/A comparisons run over sockets, with the noise of real sessions, and on `/dev/zero`, the quietest
//! path. Slowdowns are injected on `/dev/zero` only, so that an error is the harness's own.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use bytegauge_harness::trial::measure;
use bytegauge_model::{EndRole, Ends, Outcome, Spec};
use bytegauge_plan::block_order;
use bytegauge_stats::compare::{Comparison, paired};
use bytegauge_stats::quantile::{median, moments};
use bytegauge_sys::affinity;
use bytegauge_traffic::{EndPool, Setup};
use thiserror::Error;

use crate::verify::{PUBLISHED, Scale, VerificationRow, number};

/// The reason why a check could not run: a trial had no result.
#[derive(Debug, Error)]
#[error("the harness cannot measure here: {0}")]
pub struct CheckError(String);

/// Injected slowdowns, as shares.
const INJECTED: [f64; 5] = [0.0, 0.01, 0.02, 0.05, 0.10];

/// Blocks of a comparison.
const BLOCKS: u64 = 20;

/// A difference counts if the 95 % interval excludes zero.
const LEVEL: f64 = 0.95;

/// The paths of the A/A comparisons; the first one is the quietest and has the injected slowdowns too.
const PATHS: [&str; 3] = ["/dev/zero", "unix", "tcp"];

/// Bytes of one read and of one write.
const SIZE: u64 = 256 << 10;

/// From this tolerance on, a slope of 0 would pass as well as one of 1.
const SLOPE_BLIND: f64 = 1.0;

/// Time that both arms spin where one of them gets a slowdown, as a share of a call.
const BASE_SHARE: f64 = 0.05;

/// Runs the check. `progress` receives the comparisons done, their total and the present step.
///
/// # Errors
/// When a trial fails: a machine that cannot read `/dev/zero` cannot be checked.
pub fn run(
    scale: Scale,
    seed: u64,
    mut progress: impl FnMut(u64, u64, &str),
) -> Result<Vec<VerificationRow>, CheckError> {
    // Comparisons of A with A on each path, rounds of injected slowdowns, and the window of a trial of each.
    let (equal, repeats, equal_ns, injected_ns) = match scale {
        Scale::Minute => ([60, 30, 30], 8, 1_000_000, 5_000_000),
        Scale::Glance | Scale::Test => ([4, 2, 2], 1, 500_000, 500_000),
    };
    let total = equal.iter().sum::<u64>() + repeats * INJECTED.len() as u64;
    let mut done = 0..;
    let mut step = |what: &str| progress(done.next().unwrap_or(total), total, what);
    let mut rows = Vec::new();
    for (path, comparisons) in PATHS.into_iter().zip(equal) {
        let mut bench = EndsPair::start(path, seed)?;
        let (mut alarms, mut spreads) = (0, Vec::new());
        for _ in 0..comparisons {
            step(&format!("A/A, {path}"));
            let differences = differences(&bench.compare(equal_ns, 0.0)?);
            alarms += u64::from(paired(&differences, 1.0, LEVEL).excludes_zero());
            spreads.push(spread(&differences));
        }
        rows.push(aa_row(path, alarms, comparisons));
        let name = format!("standard deviation of these differences between blocks, {path}");
        rows.push(published(name, median(&spreads).unwrap_or(f64::NAN) * 100.0, "%", String::new()));
    }
    let mut bench = EndsPair::start(PATHS[0], seed)?;
    let mut injected = Vec::new();
    for _ in 0..repeats {
        // Both arms spin a little: reading the clock does not count as slowdown.
        bench.base_ns = BASE_SHARE * bench.call_ns(injected_ns, 0.0)?;
        let call_ns = bench.call_ns(injected_ns, bench.base_ns)?;
        for share in INJECTED {
            step("injected slowdowns");
            let longer_ns = share * call_ns;
            injected.push(Injected::of(share, longer_ns, &bench.compare(injected_ns, longer_ns)?));
        }
    }
    rows.extend(INJECTED[1..].iter().map(|share| power_row(*share, &injected)));
    rows.push(slope_row(&injected));
    Ok(rows)
}

/// Two arms on one pair of ends.
struct EndsPair {
    pool: EndPool,
    setup: Setup,
    seed: u64,
    block: u64,
    /// Time that both arms spin after each call, nanoseconds.
    base_ns: f64,
}

impl EndsPair {
    fn start(transport: &str, seed: u64) -> Result<EndsPair, CheckError> {
        let levels =
            Spec::from([("transport", transport.into()), ("read_size", SIZE.into()), ("write_size", SIZE.into())]);
        let mut setup = Setup::of(&levels).map_err(|fault| CheckError(fault.to_string()))?;
        setup.warmup_ns = 500_000;
        // Two CPUs if the machine has two, as in most sessions; one end needs one.
        let cpus = affinity::allowed_cpus().unwrap_or_default();
        if let Some(first) = cpus.first() {
            let other = *cpus.get(1).unwrap_or(first);
            setup.cpus = [(EndRole::Source, vec![other]), (EndRole::Sink, vec![*first])].into();
        }
        Ok(EndsPair { pool: EndPool::new(Ends::Threads, Path::new("")), setup, seed, block: 0, base_ns: 0.0 })
    }

    /// Nanoseconds per byte of both arms in every block; the second arm spins longer after each call.
    fn compare(&mut self, window_ns: u64, longer_ns: f64) -> Result<Vec<[f64; 2]>, CheckError> {
        (0..BLOCKS)
            .map(|_| {
                let mut costs = [0.0; 2];
                for arm in block_order::order(2, self.seed, self.block) {
                    // The first arm runs the same code.
                    costs[arm] = self.cost(window_ns, self.base_ns + if arm == 1 { longer_ns } else { 0.0 })?;
                }
                self.block += 1;
                Ok(costs)
            })
            .collect()
    }

    /// Nanoseconds that a read of the device takes with a spin of this length.
    fn call_ns(&mut self, window_ns: u64, spin_ns: f64) -> Result<f64, CheckError> {
        let costs = (0..BLOCKS).map(|_| self.cost(window_ns, spin_ns)).collect::<Result<Vec<_>, _>>()?;
        Ok(median(&costs).unwrap_or(0.0) * SIZE as f64)
    }

    /// Nanoseconds per byte.
    fn cost(&mut self, window_ns: u64, spin_ns: f64) -> Result<f64, CheckError> {
        let setup = Setup { window_ns, slowdown_ns: Some(spin_ns), ..self.setup.clone() };
        let measured = measure(&mut self.pool, &setup, &AtomicBool::new(false));
        match measured.map(|mut measured| (measured.outcome, measured.ends.remove(EndRole::Sink))) {
            Some((Outcome::Measured, Some(sink))) => Ok(sink.window_ns as f64 / sink.bytes.max(1) as f64),
            Some((outcome, _)) => Err(CheckError(outcome.reason().unwrap_or("nothing was counted").into())),
            None => Err(CheckError("it was interrupted".into())),
        }
    }
}

/// ln(cost of the second arm / cost of the first) of every block.
fn differences(blocks: &[[f64; 2]]) -> Vec<f64> {
    blocks.iter().map(|[first, second]| second.ln() - first.ln()).collect()
}

/// An injected slowdown and its measurement.
struct Injected {
    /// The intended slowdown, as a share of a call.
    nominal: f64,
    /// ln(1 + slowdown), with the slowdown as a share of a call of the same blocks.
    put_in: f64,
    found: Comparison,
    spread: f64,
}

impl Injected {
    /// The injected slowdown is a time, so its share refers to the call in the same blocks: a call measured in advance was
    /// often a fifth longer or shorter.
    fn of(nominal: f64, longer_ns: f64, blocks: &[[f64; 2]]) -> Injected {
        let first: Vec<f64> = blocks.iter().map(|[first, _]| first * SIZE as f64).collect();
        let call_ns = median(&first).unwrap_or(f64::NAN);
        let differences = differences(blocks);
        Injected {
            nominal,
            put_in: (longer_ns / call_ns).ln_1p(),
            found: paired(&differences, 1.0, LEVEL),
            spread: spread(&differences),
        }
    }
}

/// The target has the width of chance, three standard deviations: otherwise a sound machine would fail one of the three rows in every
/// seventh run.
fn aa_row(path: &str, alarms: u64, comparisons: u64) -> VerificationRow {
    let share = alarms as f64 / comparisons as f64;
    let give = 3.0 * (0.05 * 0.95 / comparisons as f64).sqrt();
    let name = format!("of {comparisons} comparisons of equal options over {path} find a difference");
    let per_cent = |share: f64| (share * 1000.0).round() / 10.0;
    let target = format!("{} to {} % (5 % on average)", per_cent((0.05 - give).max(0.0)), per_cent(0.05 + give));
    number(name, target, share * 100.0, "%", (share - 0.05).abs() <= give, "")
}

fn power_row(share: f64, injected: &[Injected]) -> VerificationRow {
    let of_share: Vec<_> = injected.iter().filter(|one| one.nominal == share).collect();
    let found = of_share.iter().filter(|one| one.found.lower > 0.0).count();
    let power = found as f64 / of_share.len().max(1) as f64;
    let spread = median(&of_share.iter().map(|one| one.spread).collect::<Vec<_>>()).unwrap_or(f64::NAN);
    let name = format!("of comparisons find a slowdown of {} % in {BLOCKS} blocks of /dev/zero", share * 100.0);
    let needed = match share {
        0.05.. => 0.95,
        0.02.. => 0.80,
        _ => return published(name, power * 100.0, "%", String::new()),
    };
    if spread > 0.01 {
        let spread = spread * 100.0;
        let note = format!("not judged: this machine's spread is {spread:.1} %, above the 1 % of the target");
        return published(name, power * 100.0, "%", note);
    }
    number(name, format!("at least {} %", needed * 100.0), power * 100.0, "%", power >= needed, "")
}

/// Least squares of the measured slowdown on the injected slowdown.
fn slope_row(injected: &[Injected]) -> VerificationRow {
    let (slope, error) = slope(&injected.iter().map(|one| (one.put_in, one.found.difference)).collect::<Vec<_>>());
    // As with equal arms, the target has the width of chance.
    let tolerance = 0.05 + 3.0 * error;
    let name = "measured slowdown per injected slowdown";
    let note = format!("{} comparisons, standard error {error:.3}", injected.len());
    if tolerance >= SLOPE_BLIND {
        // A harness that cannot see a slowdown would pass.
        let name = format!("{name}: undecided, chance alone makes it 1 ± {tolerance:.2}");
        return published(name, slope, "", note);
    }
    let target =
        format!("1 ± {tolerance:.2}, of which chance with {} comparisons is {:.2}", injected.len(), tolerance - 0.05);
    number(name, target, slope, "", (slope - 1.0).abs() <= tolerance, note)
}

/// The slope of least squares and its standard error.
pub(crate) fn slope(points: &[(f64, f64)]) -> (f64, f64) {
    let n = points.len() as f64;
    let (mean_x, mean_y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / n, y + point.1 / n));
    let centred = || points.iter().map(|(x, y)| (x - mean_x, y - mean_y));
    let variation: f64 = centred().map(|(x, _)| x * x).sum();
    let slope = centred().map(|(x, y)| x * y).sum::<f64>() / variation;
    let left: f64 = centred().map(|(x, y)| (y - slope * x).powi(2)).sum();
    (slope, (left / (n - 2.0) / variation).sqrt())
}

fn spread(differences: &[f64]) -> f64 {
    moments(differences).1.sqrt()
}

/// A number without a target.
fn published(name: String, got: f64, unit: &str, note: String) -> VerificationRow {
    number(name, PUBLISHED, got, unit, true, note)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_check_is_finite() {
        let rows = run(Scale::Test, 1, |_, _, _| {}).unwrap();
        assert_eq!(rows.len(), 2 * PATHS.len() + INJECTED.len());
        assert!(rows.iter().all(|row| row.got.is_finite()), "{rows:?}");
    }

    #[test]
    fn a_slope_comes_with_its_error() {
        // By hand: slope 3/2, residuals 1/3, -2/3, 1/3, their squares sum to 2/3, the x to 2, one degree of freedom.
        let (slope, error) = slope(&[(0.0, 1.0), (1.0, 1.5), (2.0, 4.0)]);
        assert!((slope - 1.5).abs() < 1e-12, "{slope}");
        assert!((error - (1.0 / 3.0f64).sqrt()).abs() < 1e-12, "{error}");
    }

    #[test]
    fn a_slope_that_cannot_fail_is_undecided() {
        let row = |noise: f64| {
            let one = |at: usize| {
                let put_in = INJECTED[at % INJECTED.len()];
                let chance = if (at / INJECTED.len()).is_multiple_of(2) { noise } else { -noise };
                let found = paired(&[put_in + chance; BLOCKS as usize], 1.0, LEVEL);
                Injected { nominal: put_in, put_in, found, spread: 0.0 }
            };
            slope_row(&(0..8 * INJECTED.len()).map(one).collect::<Vec<_>>())
        };
        let (clear, blind) = (row(0.0), row(1.0));
        assert!(clear.passed && clear.target.starts_with("1 ± 0.05"), "{clear:?}");
        assert!(blind.target == "published" && blind.name.contains("undecided"), "{blind:?}");
    }

    #[test]
    fn a_tenfold_call_is_seen() {
        let mut bench = EndsPair::start(PATHS[0], 1).unwrap();
        let call_ns = bench.call_ns(500_000, 0.0).unwrap();
        let differences = differences(&bench.compare(500_000, 9.0 * call_ns).unwrap());
        // Single blocks vary freely on a busy machine; the median is far from equal.
        assert!(median(&differences).unwrap() > 1.0, "{differences:?}");
    }
}
