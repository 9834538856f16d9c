//! `cargo lab peers`: bytegauge compared with programs that do the same work, as ratios with intervals.
//!
//! Both programs of a pair run in every round, in random order on the same CPUs, and a ratio is taken within rounds. Traffic stays on
//! loopback. Prints Markdown: the results are in docs/research/performance.md.

mod earlier;
mod engines;
pub mod programs;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use bytegauge_stats::quantile::{MedianEstimate, sign_interval};
use bytegauge_stats::rng::{self, RandomStream};
use bytegauge_sys::topology::{Relation, Topology};
use clap::{Arg, ArgMatches, Command, value_parser};
use serde::{Deserialize, Serialize};
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
    rows: String,
    random: RandomStream,
    /// Two CPUs on different cores.
    cpus: (usize, usize),
}

/// The CPU of the measured end, and that of the others.
#[derive(Clone, Copy, Debug)]
struct Cpus {
    measured: usize,
    others: usize,
}

/// What a trial measures: units per second, and units per CPU second of the measured process.
type TrialRates = [f64; 2];

/// Rates by round, of the two programs of a row: this bytegauge, and the other one.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct PairRates([BTreeMap<u64, TrialRates>; 2]);

impl PeerTests {
    /// Whether a row is to be measured: it has all words of `--rows` in its name. `uring` is a word of `uring:plain`.
    fn is_asked(&self, name: &str) -> bool {
        let has = |word: &str| name.split([' ', ',']).any(|own| own == word || own.split(':').next() == Some(word));
        self.rows.split_whitespace().all(has)
    }

    /// Measures both programs of some rows in every round; `trial` gets a row's place, 0 or 1 for the program, and CPUs, whose
    /// parts a coin deals. A trial that fails is reported and left out.
    fn measured(
        &mut self,
        rows: &[String],
        mut trial: impl FnMut(&PeerTests, usize, usize, Cpus) -> Result<TrialRates>,
    ) -> Vec<PairRates> {
        let mut found = vec![PairRates::default(); rows.len()];
        let mut turns: Vec<(usize, usize)> = (0..rows.len()).flat_map(|row| [(row, 0), (row, 1)]).collect();
        for round in 0..self.rounds {
            let (one, other) = self.cpus;
            let (measured, others) = if self.random.below(2) == 1 { (one, other) } else { (other, one) };
            self.random.shuffle(&mut turns);
            for &(row, program) in &turns {
                match trial(self, row, program, Cpus { measured, others }) {
                    Ok(rates) => _ = found[row].0[program].insert(round, rates),
                    Err(error) => eprintln!("left out: {}, {}: {error:#}", rows[row], ["this", "other"][program]),
                }
            }
        }
        for (row, pair) in rows.iter().zip(&found) {
            let [rate, per_cpu] = pair.ratios().map(|ratio| interval(&ratio));
            eprintln!("{row}: rate {rate}; work per CPU second {per_cpu}");
        }
        found
    }
}

impl PairRates {
    /// Ours over the other's of both rates, in the rounds in which both programs were measured: medians with intervals at 95 %.
    fn ratios(&self) -> [MedianEstimate; 2] {
        let [ours, theirs] = &self.0;
        [0, 1].map(|rate| {
            let both = ours.iter().filter_map(|(round, ours)| Some((ours[rate] / theirs.get(round)?[rate]).ln()));
            let estimate = sign_interval(&both.collect::<Vec<_>>(), 0.95);
            let [median, lower, upper] =
                [estimate.median, estimate.lower, estimate.upper].map(|value| value.map(f64::exp));
            MedianEstimate { median, lower, upper }
        })
    }
}

/// A ratio as `1.050 (1.010 to 1.080)`.
fn interval(ratio: &MedianEstimate) -> String {
    match (ratio.median, ratio.lower, ratio.upper) {
        (Some(median), Some(lower), Some(upper)) => format!("{median:.3} ({lower:.3} to {upper:.3})"),
        (Some(median), ..) => format!("{median:.3} (no interval below 6 rounds)"),
        _ => "–".to_owned(),
    }
}

/// `cargo lab peers`.
pub fn command() -> Command {
    let number = |name: &'static str, default: &'static str, help: &'static str| {
        let number = Arg::new(name).long(name).value_name("N").value_parser(value_parser!(u64).range(..=10_000));
        number.help(help).default_value(default).global(true)
    };
    let program = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("PATH").value_parser(value_parser!(PathBuf)).help(help)
    };
    let rows = Arg::new("rows").long("rows").value_name("WORDS").default_value("").global(true);
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
        .arg(rows.help("Only rows with all these words in their names: \"reader tcp\""))
        .arg(program("program", "An existing bytegauge binary, instead of building one").global(true))
}

/// Compares and prints.
///
/// # Errors
/// When a program is missing or a run fails.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let (comparison, matches) = matches.subcommand().context("name a comparison")?;
    let number = |name: &str| matches.get_one::<u64>(name).copied().with_context(|| format!("--{name} has a default"));
    let cpus = Topology::read()?.pairs(Relation::CrossCore).first().copied();
    let mut bench = PeerTests {
        program: matches.get_one::<PathBuf>("program").cloned().map_or_else(cargo::release_build, Ok)?,
        rounds: number("rounds")?,
        window: Duration::from_millis(number("window")?),
        rows: matches.get_one::<String>("rows").cloned().unwrap_or_default(),
        random: rng::seeded(number("seed")?, 0),
        cpus: cpus.context("the two ends need a core each, and this process may use only one")?,
    };
    if comparison == "engines" {
        println!("{}", engines::compared(&mut bench)?);
        return Ok(());
    }
    let build = matches.get_one::<PathBuf>("build").context("--build is required")?;
    println!("{}", earlier::compared(&mut bench, &build.canonicalize().with_context(|| build.display().to_string())?)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both rates of a program by round.
    pub(super) fn rates(rates: impl IntoIterator<Item = f64>) -> BTreeMap<u64, TrialRates> {
        (0..).zip(rates.into_iter().map(|rate| [rate, rate])).collect()
    }

    #[test]
    fn ratios_pair_within_rounds() {
        // The machine halves its speed midway; the ratio does not change. A round in which only one was measured does not count.
        let theirs = [8.0, 8.0, 8.0, 4.0, 4.0, 4.0];
        let ours = theirs.iter().map(|rate| rate * 1.25).chain([100.0]);
        let mut pair = PairRates([rates(ours), rates(theirs)]);
        for ratio in pair.ratios() {
            for value in [ratio.median, ratio.lower, ratio.upper] {
                assert!((value.unwrap() - 1.25).abs() < 1e-12, "{ratio:?}");
            }
            assert_eq!(interval(&ratio), "1.250 (1.250 to 1.250)");
        }
        pair.0[0].remove(&0);
        assert_eq!(interval(&pair.ratios()[0]), "1.250 (no interval below 6 rounds)");
        assert_eq!(interval(&PairRates::default().ratios()[1]), "–");
    }

    #[test]
    fn filters_need_all_words() {
        let asked = |rows: &str, name: &str| {
            let (program, random) = (PathBuf::new(), rng::seeded(1, 0));
            let tests =
                PeerTests { program, random, rounds: 1, window: Duration::ZERO, rows: rows.into(), cpus: (0, 1) };
            tests.is_asked(name)
        };
        let name = "server tcp 500 × 64 B uring:plain";
        assert!(["tcp server", "500 uring", ""].iter().all(|rows| asked(rows, name)));
        assert!(!["tcp client", "50", "uring:multishot", "plain"].iter().any(|rows| asked(rows, name)));
        assert!(asked("epoll 50", "server epoll, 50 connections"));
    }
}
