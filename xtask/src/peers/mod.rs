//! `cargo xtask peers`: bytegauge's TCP stream against iperf3's, interleaved, as a ratio with its interval.
//!
//! Sizes are chosen in runs of their own and judged in later ones, so that a lucky run cannot win. Every round
//! visits every setting, and within a setting its arms stand side by side in random order: what the machine
//! does meanwhile meets both programs alike. Traffic stays on loopback.

mod document;
mod iperf3;
mod ours;
mod rounds;
mod setting;

use std::process::Command as Process;

use anyhow::{Context, Result, ensure};
use bytegauge_stats::rng::{self, Stream};
use bytegauge_sys::topology::Topology;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::{cargo, section, steps};
use iperf3::Iperf3;
use ours::Ours;
use rounds::Panel;
use setting::{SETTINGS, Setting};

/// The command of the test suite's smoke.
pub const SMOKE: &str = "cargo xtask peers --quick --no-write";

const DOCUMENT: &str = "docs/performance.md";
const SECTION: &str = "peers";
const HEADER: &str = "# Performance\n\nHow fast bytegauge moves bytes beside a program that does nothing else.";

/// How much to run.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Rounds that are judged.
    rounds: usize,
    /// Length of a run, seconds; iperf3 takes whole ones.
    seconds: u64,
    /// Seconds that iperf3 runs before it counts.
    omit_seconds: u64,
    /// Runs of every length when iperf3's best is looked for.
    passes: usize,
    /// The lengths tried, as a list or range of sizes, for both programs.
    lengths: &'static str,
    /// Budget of bytegauge's own search for its best sizes.
    search_budget: &'static str,
    /// How many of the settings.
    settings: usize,
}

const FULL: Effort = Effort {
    rounds: 12,
    seconds: 2,
    omit_seconds: 1,
    passes: 3,
    // iperf3 refuses more than 1 MiB.
    lengths: "8K..1M",
    search_budget: "30s",
    settings: SETTINGS.len(),
};

const QUICK: Effort =
    Effort { rounds: 2, seconds: 1, omit_seconds: 0, passes: 1, lengths: "64K,256K", search_budget: "4s", settings: 1 };

/// `cargo xtask peers`.
pub fn command() -> Command {
    let number = |name: &'static str, default: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name("N")
            .value_parser(value_parser!(u64).range(1..=10_000))
            .help(help)
            .default_value(default)
    };
    Command::new("peers")
        .about("Compare bytegauge's TCP stream with iperf3 and write docs/performance.md")
        .arg(number("rounds", "12", "Rounds that are judged; below 6 there is no interval at 95 %"))
        .arg(number("seconds", "2", "Length of a run"))
        .arg(number("seed", "1", "Seed of the order"))
        .arg(Arg::new("quick").long("quick").action(ArgAction::SetTrue).help("A smoke: one setting, two short rounds"))
        .arg(Arg::new("no-write").long("no-write").action(ArgAction::SetTrue).help("Print the figures, write no file"))
}

/// Compares, prints, writes.
///
/// # Errors
/// When a program is missing or a run fails.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let number = |name: &str| matches.get_one::<u64>(name).copied().with_context(|| format!("--{name} has a default"));
    let effort = if matches.get_flag("quick") {
        QUICK
    } else {
        Effort { rounds: usize::try_from(number("rounds")?)?, seconds: number("seconds")?, ..FULL }
    };
    let seed = number("seed")?;
    let text = compared(effort, seed)?;
    if !matches.get_flag("no-write") {
        section::write(&cargo::root().join(DOCUMENT), SECTION, HEADER, &text)?;
        println!("wrote {DOCUMENT}");
    }
    Ok(())
}

/// The comparison in miniature: does it still work?
///
/// # Errors
/// As [`run`].
pub fn smoke() -> Result<()> {
    compared(QUICK, 1).map(drop)
}

/// Today's date, UTC, as `2030-01-31`.
///
/// # Errors
/// When there is no `date`.
pub fn today() -> Result<String> {
    let output = Process::new("date").args(["-u", "+%F"]).output().context("asking `date` for today")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn compared(effort: Effort, seed: u64) -> Result<String> {
    let version = iperf3::version()?;
    steps::visible(&mut cargo::command(&["build", "--locked", "--release", "--quiet", "--package", "bytegauge"]))
        .context("building bytegauge")?;
    let congestion = setting::congestion_control()?;
    let iperf3 = Iperf3 { congestion: congestion.clone() };
    let ours = Ours::new(cargo::workspace()?.target_directory.join("release/bytegauge"), congestion)?;
    let topology = Topology::read()?;
    let mut random = rng::seeded(seed, 0);

    let (possible, missing): (Vec<Setting>, Vec<Setting>) =
        SETTINGS[..effort.settings].iter().partition(|setting| setting.is_possible(&topology));
    for setting in &missing {
        println!("left out: {setting}: this process may not use such CPUs");
    }
    ensure!(!possible.is_empty(), "no setting is possible here");
    let runner = rounds::Runner { iperf3: &iperf3, ours: &ours, topology: &topology, effort };
    let mut panels =
        possible.into_iter().map(|setting| runner.choose(setting, &mut random)).collect::<Result<Vec<Panel>>>()?;
    judge(&runner, &mut panels, &mut random)?;
    for panel in &panels {
        println!("{}", document::line(panel));
    }
    let environment = ours.environment()?;
    let facts = document::Facts { peer: &version, date: &today()?, seed, effort, environment: &environment };
    Ok(document::text(&facts, &panels))
}

fn judge(runner: &rounds::Runner<'_>, panels: &mut [Panel], random: &mut Stream) -> Result<()> {
    for round in 1..=runner.effort.rounds {
        let mut order: Vec<usize> = (0..panels.len()).collect();
        random.shuffle(&mut order);
        for index in order {
            runner.visit(&mut panels[index], random)?;
            eprintln!("round {round}/{}: {}", runner.effort.rounds, panels[index].latest());
        }
    }
    Ok(())
}
