//! `cargo xtask test`: runs the tests of the product; with `--all`, everything that CI runs.
//!
//! The tests run in the dev profile, which has overflow checks and debug assertions. `--all` also checks the sources (fmt, rules,
//! generated files, clippy, documentation), runs the tests of the development tools, builds the report page again and runs it in
//! a browser, makes a release build and verifies bytes with it. Nothing here measures
//! speed: comparisons with other programs are `cargo lab peers`.

use std::num::NonZero;
use std::process::Command as Process;
use std::thread;

use anyhow::{Context, Result};
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::{generate, hot_loops, page, rules, skips};
use xtask::steps::{self, Step, StepDone};
use xtask::{cargo, setup};

/// All tests of the product. No document has code that runs: with all targets rustdoc does not look for it in each crate.
const TESTS: [&str; 9] =
    ["test", "--locked", "--workspace", "--exclude", "xtask", "--exclude", "lab", "--all-targets", "--no-fail-fast"];

/// Every crate as it would be published: complete manifests, files and versions.
const CRATES: [&str; 10] = [
    "package",
    "--offline",
    "--locked",
    "--workspace",
    "--exclude",
    "xtask",
    "--exclude",
    "lab",
    "--no-verify",
    "--allow-dirty",
];

/// The tests of the development tools.
const TOOL_TESTS: [&str; 7] = ["test", "--locked", "--package", "xtask", "--package", "lab", "--all-targets"];

/// Tests at once for each CPU: most of those that start the program wait for it far longer than they compute. With two of them
/// two CPUs rested a third of the time.
const TESTS_A_CPU: usize = 4;

/// Arguments of the run of the release build.
const RELEASE_RUN: &str = "stream --transport unix,tcp,pipe --profile drain --read-size 64K --write-size 64K \
                           --trial-time 20ms --blocks 2 --time 5s --verify";

/// `cargo xtask test`.
pub fn command() -> Command {
    Command::new("test").about("Run the tests of the product").arg(
        Arg::new("all")
            .long("all")
            .action(ArgAction::SetTrue)
            .help("Everything that CI runs: lints, documentation, the page in a browser and the release build as well"),
    )
}

/// Runs all steps.
///
/// # Errors
/// With the first step that fails, and how to repeat it.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let is_all = matches.get_flag("all");
    let mut all = Vec::new();
    if is_all {
        all.extend([
            cargo_step("fmt", &["fmt", "--all", "--check"], &[]),
            Step {
                name: "rules",
                repeat: "cargo xtask rules".into(),
                work: Box::new(|| rules::check().map(|()| StepDone::Passed)),
            },
            Step {
                name: "generated files",
                repeat: "cargo xtask generate --check".into(),
                work: Box::new(|| generate::check().map(|()| StepDone::Passed)),
            },
            cargo_step(
                "clippy",
                &["clippy", "--locked", "--workspace", "--all-targets", "--", "--deny", "warnings"],
                &[],
            ),
        ]);
    }
    all.extend([
        Step { name: "programs", repeat: "apt-get install liburing-dev iperf3".into(), work: Box::new(programs) },
        Step {
            name: "tests",
            repeat: format!("cargo {}", TESTS.join(" ")),
            work: Box::new(|| {
                let threads = thread::available_parallelism().map_or(2, NonZero::get) * TESTS_A_CPU;
                let mut tests = cargo::command(&TESTS);
                skips::run(tests.args(["--", "--show-output"]).env("RUST_TEST_THREADS", threads.to_string()))
            }),
        },
    ]);
    if is_all {
        all.extend([
            cargo_step("tests of the tools", &TOOL_TESTS, &[]),
            cargo_step(
                "docs",
                &["doc", "--locked", "--workspace", "--no-deps"],
                &[("RUSTDOCFLAGS", "--deny warnings")],
            ),
            Step { name: "page", repeat: "cargo xtask page --check".into(), work: Box::new(page::check) },
            cargo_step("crates", &CRATES, &[]),
            cargo_step("release build", &["build", "--locked", "--release", "--package", "bytegauge"], &[]),
            Step {
                name: "hot loops",
                repeat: "cargo xtask hot-loops".into(),
                work: Box::new(|| hot_loops::check(&cargo::release_build()?).map(|()| StepDone::Passed)),
            },
            Step {
                name: "release run",
                repeat: format!("target/release/bytegauge {RELEASE_RUN}"),
                work: Box::new(release_run),
            },
        ]);
    }
    steps::run(all)
}

fn cargo_step<'a>(name: &'a str, args: &'a [&'a str], variables: &'a [(&'a str, &'a str)]) -> Step<'a> {
    let set: String = variables.iter().map(|(name, value)| format!("{name}='{value}' ")).collect();
    Step {
        name,
        repeat: format!("{set}cargo {}", args.join(" ")),
        work: Box::new(move || steps::visible(cargo::command(args).envs(variables.iter().copied()))),
    }
}

/// Looks for what tests need and skip themselves without: a ring over liburing, and the peer of the tests of interoperation.
fn programs() -> Result<StepDone> {
    let found = [setup::library("liburing", "liburing-dev"), setup::package("iperf3", "iperf3")];
    let missing: Vec<String> = found.into_iter().filter_map(Result::err).collect();
    Ok(if missing.is_empty() { StepDone::Passed } else { StepDone::Partly(missing) })
}

/// The program as users build it carries bytes over every kind of path, and looks at each of them.
fn release_run() -> Result<StepDone> {
    let folder = tempfile::tempdir().context("a folder for the store")?;
    let mut run = Process::new(cargo::workspace()?.target_directory.join("release/bytegauge"));
    steps::visible(run.args(RELEASE_RUN.split(' ')).args(["--quiet", "--store"]).arg(folder.path().join("results.db")))
}
