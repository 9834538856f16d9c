//! `cargo xtask lab`: what is not for every machine and every change, because it takes hours or a quiet machine.
//!
//! `busy` and `quota` ask whether the tests depend on how fast, steady or idle a machine is: those that open sockets or
//! start the program run again and again beside loops that take the CPUs, and in a control group with half a CPU. One
//! failure of one test is one too many. `quiet` runs the tests that are ignored otherwise, since what they look for can
//! be drowned by noise; of those a few runs may fail. `peers` compares with other programs in miniature, which it installs.
//! `sanitize` runs the tests of the crates that move bytes under AddressSanitizer, ThreadSanitizer and Miri.

mod binaries;
mod sanitize;

use std::thread::available_parallelism;

use anyhow::{Context, Result, bail, ensure};
use clap::{Arg, ArgMatches, Command, value_parser};

use crate::busy::Loops;
use crate::group::Group;
use crate::peers;
use crate::steps::{self, Done, Step};
use binaries::{Binary, Tests};
use sanitize::{TOOLS, Tool};

/// Endless loops beside the tests, a CPU.
const LOOPS_A_CPU: usize = 2;

/// What the tests get in a control group.
const HALF_A_CPU: f64 = 0.5;

/// The share of runs on a quiet machine that must pass: one in five may be disturbed.
const QUIET_SHARE: f64 = 0.8;

/// `cargo xtask lab`.
pub fn command() -> Command {
    let times = |default: &'static str| {
        Arg::new("times")
            .long("times")
            .value_name("N")
            .value_parser(value_parser!(u32).range(1..=10_000))
            .default_value(default)
            .help("How often each test runs")
    };
    let tests = || Arg::new("tests").value_name("TEST").help("Only tests with this in their name");
    Command::new("lab")
        .about("Tests beside busy loops, in a control group and on a quiet machine; comparisons in miniature")
        .subcommand(
            Command::new("busy").about("Beside two busy loops a CPU: all must pass").arg(times("20")).arg(tests()),
        )
        .subcommand(
            Command::new("quota").about("In a control group of half a CPU: all must pass").arg(times("1")).arg(tests()),
        )
        .subcommand(
            Command::new("quiet")
                .about("Tests that need a quiet machine: four of five runs must pass")
                .arg(times("5"))
                .arg(tests()),
        )
        .subcommand(
            Command::new("sanitize")
                .about("Tests of sys and traffic under AddressSanitizer, ThreadSanitizer and Miri (needs a nightly compiler)")
                .arg(
                    Arg::new("tool")
                        .long("tool")
                        .value_name("TOOL")
                        .value_parser(TOOLS.iter().map(|tool| tool.name).collect::<Vec<_>>())
                        .help("Only this tool"),
                )
                .arg(tests()),
        )
        .subcommand(
            Command::new("peers").about("The comparisons with other programs in miniature: do they still work?"),
        )
}

/// Runs one part, or all of them.
///
/// # Errors
/// When tests failed more often than they may.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let step = |name: &'static str, given: Option<&ArgMatches>| -> Result<Step<'static>> {
        let own;
        let given = match given {
            Some(given) => given,
            None => {
                own = command().try_get_matches_from(["lab", name])?;
                own.subcommand_matches(name).context("a part of the lab")?
            }
        };
        let times = *given.get_one::<u32>("times").context("--times has a default")?;
        let only: Option<String> = given.get_one::<String>("tests").cloned();
        let words = only.as_ref().map_or_else(String::new, |only| format!(" {only}"));
        let repeat = format!("cargo xtask lab {name} --times {times}{words}");
        let work: Box<dyn FnOnce() -> Result<Done>> = match name {
            "busy" => Box::new(move || busy(times, only.as_deref())),
            "quota" => Box::new(move || quota(times, only.as_deref())),
            _ => Box::new(move || quiet(times, only.as_deref())),
        };
        Ok(Step { name, repeat, work })
    };
    match matches.subcommand() {
        Some(("busy", given)) => steps::run(vec![step("busy", Some(given))?]),
        Some(("quota", given)) => steps::run(vec![step("quota", Some(given))?]),
        Some(("quiet", given)) => steps::run(vec![step("quiet", Some(given))?]),
        Some(("sanitize", given)) => steps::run(sanitize_steps(
            given.get_one::<String>("tool").map(String::as_str),
            given.get_one::<String>("tests").map(String::as_str),
        )),
        Some(_) => steps::run(vec![peers_step()]),
        None => {
            let mut all = vec![peers_step()];
            all.extend(sanitize_steps(None, None));
            all.extend([step("quiet", None)?, step("quota", None)?, step("busy", None)?]);
            steps::run(all)
        }
    }
}

fn sanitize_steps(only: Option<&str>, tests: Option<&str>) -> Vec<Step<'static>> {
    let is_asked = |tool: &&'static Tool| only.is_none_or(|only| tool.name == only);
    let step = |tool: &'static Tool| {
        let tests = tests.map(str::to_owned);
        let words = tests.as_ref().map_or_else(String::new, |tests| format!(" {tests}"));
        Step {
            name: tool.name,
            repeat: format!("cargo xtask lab sanitize --tool {}{words}", tool.name),
            work: Box::new(move || sanitize::run(tool, tests.as_deref())),
        }
    };
    TOOLS.iter().filter(is_asked).map(step).collect()
}

fn peers_step() -> Step<'static> {
    Step { name: "peers", repeat: peers::SMOKE.into(), work: Box::new(peers_smoke) }
}

/// So that they never rot; figures of so short a run mean nothing.
fn peers_smoke() -> Result<Done> {
    let reasons = peers::smoke()?;
    Ok(if reasons.is_empty() { Done::Passed } else { Done::Skipped(reasons.join("; ")) })
}

fn busy(times: u32, only: Option<&str>) -> Result<Done> {
    let binaries = binaries::build()?;
    let cpus = available_parallelism().context("counting the CPUs")?.get();
    let _loops = Loops::start(LOOPS_A_CPU * cpus)?;
    all_pass(&binaries, times, &Tests { only, ignored: false }, None)
}

fn quota(times: u32, only: Option<&str>) -> Result<Done> {
    let binaries = binaries::build()?;
    let group = match Group::of(HALF_A_CPU) {
        Ok(group) => group,
        Err(reason) => return Ok(Done::Skipped(format!("no control group can be limited here: {reason:#}"))),
    };
    all_pass(&binaries, times, &Tests { only, ignored: false }, Some(&group))
}

fn all_pass(binaries: &[Binary], times: u32, tests: &Tests<'_>, group: Option<&Group>) -> Result<Done> {
    let mut failures = Vec::new();
    for round in 1..=times {
        for binary in binaries {
            let failed = binary.run(tests, group)?;
            println!("   {round}/{times} {}: {}", binary.name, shown(&failed));
            failures.extend(failed.into_iter().map(|test| format!("{} {test}, round {round}", binary.name)));
        }
    }
    ensure!(failures.is_empty(), "{} failures in {times} rounds:\n  {}", failures.len(), failures.join("\n  "));
    Ok(Done::Passed)
}

fn shown(failed: &[String]) -> String {
    if failed.is_empty() { "passed".into() } else { format!("FAILED {}", failed.join(", ")) }
}

fn quiet(times: u32, only: Option<&str>) -> Result<Done> {
    let binaries = binaries::build()?;
    let (mut passed, mut told) = (0, Vec::new());
    for round in 1..=times {
        let mut failed = Vec::new();
        for binary in &binaries {
            failed.extend(binary.run(&Tests { only, ignored: true }, None)?);
        }
        println!("   {round}/{times}: {}", shown(&failed));
        passed += u32::from(failed.is_empty());
        told.extend(failed);
    }
    if f64::from(passed) < QUIET_SHARE * f64::from(times) {
        bail!("{passed} of {times} rounds passed; is the machine quiet? Failed: {}", told.join(", "));
    }
    Ok(Done::Passed)
}
