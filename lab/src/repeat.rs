//! `cargo lab busy`, `quota`, `quiet`, `smoke` and `all`: the tests under conditions that `cargo xtask test` does not create.
//!
//! `busy` and `quota` check that no test depends on the speed or the load of the machine. They repeat the tests that open
//! sockets or start the program, next to busy loops and in a control group with half a CPU. A single failure fails the run.
//! `quiet` runs the ignored tests, whose effects can be hidden by noise, so a few of its rounds may fail. `smoke` runs every
//! comparison with another program once, briefly.

use std::thread::available_parallelism;

use anyhow::{Context, Result, bail, ensure};
use clap::{Arg, ArgMatches, Command, value_parser};
use xtask::steps::{self, Step, StepDone};

use crate::binaries::{self, TestBinary, TestFilter};
use crate::busy::BusyLoops;
use crate::group::QuotaGroup;
use crate::{peers, sanitize};

/// Busy loops per CPU.
const LOOPS_PER_CPU: usize = 2;

/// CPUs of the control group.
const HALF_A_CPU: f64 = 0.5;

/// Share of rounds on a quiet machine that must pass: noise may disturb one in five.
const QUIET_SHARE: f64 = 0.8;

/// Rounds of each part, unless `--times` is given.
const BUSY_ROUNDS: u32 = 20;
const QUOTA_ROUNDS: u32 = 1;
const QUIET_ROUNDS: u32 = 5;

fn repeating(name: &'static str, about: &'static str, rounds: u32) -> Command {
    Command::new(name)
        .about(about)
        .arg(
            Arg::new("times")
                .long("times")
                .value_name("N")
                .value_parser(value_parser!(u32).range(1..=10_000))
                .help(format!("Rounds [default: {rounds}]")),
        )
        .arg(Arg::new("tests").value_name("TEST").help("Run only tests with this text in their name"))
}

/// `cargo lab busy`.
pub fn busy_command() -> Command {
    repeating("busy", "Repeat the tests next to two busy loops per CPU; all must pass", BUSY_ROUNDS)
}

/// `cargo lab quota`.
pub fn quota_command() -> Command {
    repeating("quota", "Repeat the tests in a control group of half a CPU; all must pass", QUOTA_ROUNDS)
}

/// `cargo lab quiet`.
pub fn quiet_command() -> Command {
    repeating("quiet", "Run tests that need a quiet machine; four of five rounds must pass", QUIET_ROUNDS)
}

/// `cargo lab smoke`.
pub fn smoke_command() -> Command {
    Command::new("smoke").about("Run every comparison with another program briefly")
}

/// `cargo lab all`.
pub fn all_command() -> Command {
    Command::new("all").about("Run smoke, sanitize, quiet, quota and busy (hours)")
}

/// Runs `cargo lab busy`.
///
/// # Errors
/// If a test failed, with its name and round.
pub fn run_busy(matches: &ArgMatches) -> Result<()> {
    steps::run(vec![busy_step(&Options::of(matches, BUSY_ROUNDS))])
}

/// Runs `cargo lab quota`.
///
/// # Errors
/// As [`run_busy`].
pub fn run_quota(matches: &ArgMatches) -> Result<()> {
    steps::run(vec![quota_step(&Options::of(matches, QUOTA_ROUNDS))])
}

/// Runs `cargo lab quiet`.
///
/// # Errors
/// If too few rounds passed, with the names of the failed tests.
pub fn run_quiet(matches: &ArgMatches) -> Result<()> {
    steps::run(vec![quiet_step(&Options::of(matches, QUIET_ROUNDS))])
}

/// Runs `cargo lab smoke`.
///
/// # Errors
/// If a comparison fails.
pub fn run_smoke(_matches: &ArgMatches) -> Result<()> {
    steps::run(vec![smoke_step()])
}

/// Runs `cargo lab all`.
///
/// # Errors
/// With the first part that fails.
pub fn run_all(_matches: &ArgMatches) -> Result<()> {
    let options = |times| Options { times, only: None };
    let mut all = vec![smoke_step()];
    all.extend(sanitize::steps(None, None));
    all.extend([
        quiet_step(&options(QUIET_ROUNDS)),
        quota_step(&options(QUOTA_ROUNDS)),
        busy_step(&options(BUSY_ROUNDS)),
    ]);
    steps::run(all)
}

/// The options that the repeating parts share.
struct Options {
    times: u32,
    /// Part of the names of the tests to run; every test if absent.
    only: Option<String>,
}

impl Options {
    fn of(matches: &ArgMatches, rounds: u32) -> Options {
        Options {
            times: matches.get_one("times").copied().unwrap_or(rounds),
            only: matches.get_one::<String>("tests").cloned(),
        }
    }

    /// A step that runs `work` with these options.
    fn step(&self, name: &'static str, work: fn(u32, Option<&str>) -> Result<StepDone>) -> Step<'static> {
        let (times, only) = (self.times, self.only.clone());
        let filter = only.as_ref().map_or_else(String::new, |only| format!(" {only}"));
        Step {
            name,
            repeat: format!("cargo lab {name} --times {times}{filter}"),
            work: Box::new(move || work(times, only.as_deref())),
        }
    }
}

fn busy_step(options: &Options) -> Step<'static> {
    options.step("busy", busy)
}

fn quota_step(options: &Options) -> Step<'static> {
    options.step("quota", quota)
}

fn quiet_step(options: &Options) -> Step<'static> {
    options.step("quiet", quiet)
}

fn smoke_step() -> Step<'static> {
    Step { name: "smoke", repeat: "cargo lab smoke".into(), work: Box::new(smoke) }
}

/// Checks that the comparisons still work. Figures of such short runs mean nothing.
fn smoke() -> Result<StepDone> {
    let reasons = peers::smoke()?;
    Ok(if reasons.is_empty() { StepDone::Passed } else { StepDone::Skipped(reasons.join("; ")) })
}

fn busy(times: u32, only: Option<&str>) -> Result<StepDone> {
    let binaries = binaries::build()?;
    let cpus = available_parallelism().context("counting the CPUs")?.get();
    let _loops = BusyLoops::start(LOOPS_PER_CPU * cpus)?;
    all_pass(&binaries, times, &TestFilter { only, ignored: false }, None)
}

fn quota(times: u32, only: Option<&str>) -> Result<StepDone> {
    let binaries = binaries::build()?;
    let group = match QuotaGroup::with_cpus(HALF_A_CPU) {
        Ok(group) => group,
        Err(reason) => return Ok(StepDone::Skipped(format!("cannot limit a control group: {reason:#}"))),
    };
    all_pass(&binaries, times, &TestFilter { only, ignored: false }, Some(&group))
}

fn all_pass(
    binaries: &[TestBinary],
    times: u32,
    tests: &TestFilter<'_>,
    group: Option<&QuotaGroup>,
) -> Result<StepDone> {
    let mut failures = Vec::new();
    for round in 1..=times {
        for binary in binaries {
            let failed = binary.run(tests, group)?;
            println!("   {round}/{times} {}: {}", binary.name, shown(&failed));
            failures.extend(failed.into_iter().map(|test| format!("{} {test}, round {round}", binary.name)));
        }
    }
    ensure!(failures.is_empty(), "{} failures in {times} rounds:\n  {}", failures.len(), failures.join("\n  "));
    Ok(StepDone::Passed)
}

fn shown(failed: &[String]) -> String {
    if failed.is_empty() { "passed".into() } else { format!("FAILED {}", failed.join(", ")) }
}

fn quiet(times: u32, only: Option<&str>) -> Result<StepDone> {
    let binaries = binaries::build()?;
    let (mut passed, mut failures) = (0, Vec::new());
    for round in 1..=times {
        let mut failed = Vec::new();
        for binary in &binaries {
            failed.extend(binary.run(&TestFilter { only, ignored: true }, None)?);
        }
        println!("   {round}/{times}: {}", shown(&failed));
        passed += u32::from(failed.is_empty());
        failures.extend(failed);
    }
    if f64::from(passed) < QUIET_SHARE * f64::from(times) {
        bail!("{passed} of {times} rounds passed. Check that the machine is idle. Failed: {}", failures.join(", "));
    }
    Ok(StepDone::Passed)
}
