//! `cargo lab peers`: bytegauge compared with programs that do the same work, as ratios with intervals.
//!
//! Both programs of a pair run in every round, in random order, and a ratio is taken within rounds. Traffic stays on loopback. Prints
//! Markdown: the results are in docs/research/performance.md.

mod earlier;
mod engines;
pub mod programs;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytegauge_stats::quantile::{MedianEstimate, sign_interval};
use bytegauge_stats::rng::{self, RandomStream};
use bytegauge_sys::topology::{Relation, Topology};
use clap::{Arg, ArgMatches, Command, value_parser};
use xtask::cargo;

/// The congestion control of both programs of a comparison: bbr, the default of some machines, paces by timers, and its rate
/// depends on when a program calls. The C programs name it in `peer.h`.
const CONGESTION: &str = "cubic";

/// What all comparisons share.
struct PeerTests {
    /// The product, built for release.
    program: PathBuf,
    /// Rounds of a row.
    rounds: u64,
    /// Length of a trial.
    window: Duration,
    /// Words in the names of the rows that are measured.
    rows: Option<String>,
    random: RandomStream,
    /// Two CPUs on different cores.
    cpus: (usize, usize),
}

impl PeerTests {
    /// The CPU of the measured end, and that of the other: a coin deals their parts.
    fn deal(&mut self) -> (usize, usize) {
        let (one, other) = self.cpus;
        if self.random.below(2) == 1 { (one, other) } else { (other, one) }
    }
}

/// `cargo lab peers`.
pub fn command() -> Command {
    let number = |name: &'static str, default: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name("N")
            .value_parser(value_parser!(u64).range(..=10_000))
            .help(help)
            .default_value(default)
            .global(true)
    };
    let program = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("PATH").value_parser(value_parser!(PathBuf)).help(help)
    };
    Command::new("peers")
        .about("Compare bytegauge with other programs, as in docs/research/performance.md")
        .subcommand_required(true)
        .subcommand(Command::new("engines").about("Every engine and a minimal C program, one end at a time"))
        .subcommand(
            Command::new("earlier")
                .about("Servers and loops of this build and an earlier one")
                .arg(program("build", "Release build of an earlier commit").required(true)),
        )
        .arg(number("rounds", "12", "Rounds of a row; below 6 there is no interval at 95 %. 0 prints earlier results"))
        .arg(number("window", "300", "Length of a trial, milliseconds"))
        .arg(number("seed", "1", "Seed of the random order"))
        .arg(
            Arg::new("rows")
                .long("rows")
                .value_name("WORDS")
                .help("Only rows with all these words in their names: \"reader tcp\"")
                .global(true),
        )
        .arg(program("program", "An existing bytegauge binary, instead of building one").global(true))
}

/// Compares and prints.
///
/// # Errors
/// When a program is missing or a run fails.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let (_, matches) = matches.subcommand().context("name a comparison")?;
    let number = |name: &str| matches.get_one::<u64>(name).copied().with_context(|| format!("--{name} has a default"));
    let cpus = Topology::read()?.pairs(Relation::CrossCore).first().copied();
    let mut bench = PeerTests {
        program: matches.get_one::<PathBuf>("program").cloned().map_or_else(cargo::release_build, Ok)?,
        rounds: number("rounds")?,
        window: Duration::from_millis(number("window")?),
        rows: matches.get_one::<String>("rows").cloned(),
        random: rng::seeded(number("seed")?, 0),
        cpus: cpus.context("the two ends need a core each, and this process may use only one")?,
    };
    let text = match matches.get_one::<PathBuf>("build") {
        Some(build) => {
            ensure!(build.is_file(), "--build {} is no file", build.display());
            earlier::compared(&mut bench, build)?
        }
        None => engines::compared(&mut bench)?,
    };
    println!("{text}");
    Ok(())
}

// Ratios of two programs that were measured in the same rounds.

/// The level of an interval that is printed.
const LEVEL: f64 = 0.95;

/// Rates by the round in which they were measured.
pub type Rates = BTreeMap<u64, f64>;

/// The ratio of two in the rounds in which both were measured.
pub fn over(ours: &Rates, theirs: &Rates) -> MedianEstimate {
    over_among(ours, theirs, 1)
}

/// As [`over`], for one of several ratios: each interval is wide enough that all of them hold together at 95 % (Bonferroni).
pub fn over_among(ours: &Rates, theirs: &Rates, count: usize) -> MedianEstimate {
    let differences: Vec<f64> =
        ours.iter().filter_map(|(round, ours)| Some((ours / theirs.get(round)?).ln())).collect();
    let estimate = sign_interval(&differences, 1.0 - (1.0 - LEVEL) / count.max(1) as f64);
    MedianEstimate {
        median: estimate.median.map(f64::exp),
        lower: estimate.lower.map(f64::exp),
        upper: estimate.upper.map(f64::exp),
    }
}

/// A ratio as `1.050 (1.010 to 1.080)`.
pub fn interval(estimate: &MedianEstimate) -> String {
    let shown = |value: f64| format!("{value:.3}");
    match (estimate.median, estimate.lower, estimate.upper) {
        (Some(median), Some(lower), Some(upper)) => {
            format!("{} ({} to {})", shown(median), shown(lower), shown(upper))
        }
        (Some(median), ..) => format!("{} (no interval below 6 rounds)", shown(median)),
        _ => "–".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_pair_within_rounds() {
        // The machine halves its speed midway; the ratio does not change.
        let theirs: Rates = (0..6).map(|round| (round, if round < 3 { 8.0 } else { 4.0 })).collect();
        let mut ours: Rates = theirs.iter().map(|(round, rate)| (*round, rate * 1.25)).collect();
        // A round in which only one was measured does not count.
        ours.insert(6, 100.0);
        let got = over(&ours, &theirs);
        for end in [got.median, got.lower, got.upper] {
            assert!((end.unwrap() - 1.25).abs() < 1e-12, "{got:?}");
        }
        assert_eq!(interval(&got), "1.250 (1.250 to 1.250)");
        ours.remove(&0);
        assert_eq!(interval(&over(&ours, &theirs)), "1.250 (no interval below 6 rounds)");
        assert_eq!(interval(&over(&Rates::new(), &theirs)), "–");
    }
}
