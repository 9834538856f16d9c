//! `cargo lab sanitize`: tests under AddressSanitizer, ThreadSanitizer and Miri.
//!
//! The tools need a nightly compiler. ThreadSanitizer reports false races in a standard library that was not compiled for it, so
//! cargo builds the library from source (component rust-src). Miri cannot run most system calls, so it runs only the tests
//! whose names begin with `miri`.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::{Arg, ArgMatches};
use xtask::cargo;
use xtask::steps::{Step, StepDone, visible};

/// A tool that checks memory accesses or threads.
struct Tool {
    /// Its name on the command line.
    name: &'static str,
    /// Flags of the compiler.
    flags: &'static str,
    /// Options of the tool itself.
    options: (&'static str, &'static str),
    /// The rustup component that it needs in addition to a nightly compiler.
    component: Option<&'static str>,
    /// Arguments of cargo.
    arguments: &'static [&'static str],
}

const MOVES_BYTES: [&str; 4] = ["--package", "bytegauge-sys", "--package", "bytegauge-traffic"];

const TARGET: &str = "x86_64-unknown-linux-gnu";

const TOOLS: [Tool; 3] = [
    Tool {
        name: "address",
        flags: "-Zsanitizer=address",
        // Some tests kill an end in the middle, which leaves allocated memory behind.
        options: ("ASAN_OPTIONS", "detect_leaks=0"),
        component: None,
        arguments: &["test", "--locked", "--target", TARGET],
    },
    Tool {
        name: "thread",
        flags: "-Zsanitizer=thread",
        // `run` reads the reports.
        options: ("TSAN_OPTIONS", "exitcode=0:log_path="),
        component: Some("rust-src"),
        arguments: &["test", "--locked", "-Zbuild-std", "--target", TARGET],
    },
    Tool {
        name: "miri",
        flags: "",
        options: ("MIRIFLAGS", "-Zmiri-tree-borrows"),
        component: Some("miri"),
        arguments: &["miri", "test", "--locked"],
    },
];

/// `cargo lab sanitize`.
pub fn command() -> clap::Command {
    clap::Command::new("sanitize")
        .about(
            "Run tests of sys and traffic under AddressSanitizer, ThreadSanitizer and Miri (needs a nightly compiler)",
        )
        .arg(
            Arg::new("tool")
                .long("tool")
                .value_name("TOOL")
                .value_parser(TOOLS.iter().map(|tool| tool.name).collect::<Vec<_>>())
                .help("Run only this tool"),
        )
        .arg(Arg::new("tests").value_name("TEST").help("Run only tests with this text in their name"))
}

/// Runs the tests under the chosen tools.
///
/// # Errors
/// If a test fails or a tool reports an error.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let text = |name| matches.get_one::<String>(name).map(String::as_str);
    xtask::steps::run(steps(text("tool"), text("tests")))
}

/// One step for each tool, or for the given one.
pub fn steps(only: Option<&str>, tests: Option<&str>) -> Vec<Step<'static>> {
    let step = |tool: &'static Tool| {
        let tests = tests.map(str::to_owned);
        let filter = tests.as_ref().map_or_else(String::new, |tests| format!(" {tests}"));
        Step {
            name: tool.name,
            repeat: format!("cargo lab sanitize --tool {}{filter}", tool.name),
            work: Box::new(move || run_under(tool, tests.as_deref())),
        }
    };
    TOOLS.iter().filter(|tool| only.is_none_or(|only| tool.name == only)).map(step).collect()
}

/// Runs the tests under one tool, or those with `only` in their names.
fn run_under(tool: &Tool, only: Option<&str>) -> Result<StepDone> {
    if let Err(reason) = is_ready(tool) {
        return Ok(StepDone::Skipped(reason));
    }
    let is_miri = tool.name == "miri";
    let mut command = nightly();
    command.args(tool.arguments).args(if is_miri { &MOVES_BYTES[..2] } else { &MOVES_BYTES[..] });
    command.args(is_miri.then_some("--lib")).args(only.or(is_miri.then_some("miri")));
    // With other flags cargo would rebuild everything, here and later in the usual folder.
    let folder = cargo::workspace()?.target_directory.join(format!("sanitize-{}", tool.name));
    let logs = tempfile::tempdir().context("making a temporary folder: check TMPDIR")?;
    let (variable, mut options) = (tool.options.0, tool.options.1.to_owned());
    if tool.name == "thread" {
        options.push_str(&logs.path().join("report").display().to_string());
    }
    command.env("RUSTFLAGS", tool.flags).env(variable, options).env("CARGO_TARGET_DIR", folder);
    let done = visible(&mut command).with_context(|| format!("running the tests under {}", tool.name))?;
    for log in fs::read_dir(logs.path()).context("reading the reports")? {
        let text = fs::read_to_string(log?.path()).context("reading a report")?;
        let races = races_of_memory(&text);
        ensure!(races.is_empty(), "{} data races:\n{}", races.len(), races.join("\n"));
    }
    Ok(done)
}

/// The reports of ThreadSanitizer that concern memory.
///
/// ThreadSanitizer tracks descriptors through functions of the C library. If io_uring or a direct system call closed a
/// descriptor, the tool regards it as open, and reports the next use of its number by another thread as a race.
fn races_of_memory(log: &str) -> Vec<&str> {
    let reports = log.split("WARNING: ThreadSanitizer").skip(1);
    reports.filter(|report| !report.contains("Location is file descriptor")).collect()
}

/// Cargo of the nightly toolchain, in the repository.
fn nightly() -> Command {
    let mut command = Command::new("rustup");
    command
        .args(["run", "nightly", "cargo"])
        .current_dir(cargo::root())
        .env_remove("RUSTC")
        .env_remove("RUSTUP_TOOLCHAIN");
    command
}

/// Checks that a tool can run; returns the reason if it cannot.
fn is_ready(tool: &Tool) -> Result<(), String> {
    let succeeds = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
    let install = "rustup toolchain install nightly --profile minimal";
    if !succeeds(nightly().arg("--version")) {
        return Err(format!("no nightly compiler: run `{install}`"));
    }
    let Some(component) = tool.component else { return Ok(()) };
    let listed = Command::new("rustup").args(["component", "list", "--installed", "--toolchain", "nightly"]).output();
    let listed = listed.map_err(|error| format!("asking rustup for its components: {error}"))?;
    let is_installed = String::from_utf8_lossy(&listed.stdout).lines().any(|line| line.starts_with(component));
    if is_installed { Ok(()) } else { Err(format!("no {component}: run `{install} --component {component}`")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn races_on_descriptors_are_left_out() {
        let descriptor =
            "WARNING: ThreadSanitizer: data race (pid=1)\n  Location is file descriptor 24 created by thread T4 at:\n";
        let memory = "WARNING: ThreadSanitizer: data race (pid=1)\n  Location is heap block of size 8\n";
        assert!(races_of_memory(descriptor).is_empty() && races_of_memory("").is_empty());
        let races = races_of_memory(&[descriptor, memory, descriptor].concat()).len();
        assert_eq!(races, 1);
    }
}
