//! `cargo xtask test`: runs the tests of the product; with `--all`, everything that CI runs.
//!
//! The tests run in the dev profile, which has overflow checks and debug assertions. `--all` also checks the sources (fmt, rules,
//! generated files, clippy, documentation), runs the tests of the development tools, builds the report page again and runs it in
//! a browser, makes a release build and verifies bytes with it. Nothing here measures
//! speed: comparisons with other programs are `cargo lab peers`.

use std::io::{BufRead, BufReader};
use std::num::NonZero;
use std::path::Path;
use std::process::{Command as Process, Stdio};
use std::thread;

use anyhow::{Context, Result, ensure};
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::{generate, hot_loops, page, rules};
use xtask::cargo::{self, step};

/// All tests of the product. No document has code that runs: with all targets rustdoc does not look for it in each crate.
const TESTS: &str = "test --locked --workspace --exclude xtask --exclude lab --all-targets --no-fail-fast";

/// Every crate as it would be published: complete manifests, files and versions.
const CRATES: &str = "package --offline --locked --workspace --exclude xtask --exclude lab --no-verify --allow-dirty";

/// The tests of the development tools.
const TOOL_TESTS: &str = "test --locked --package xtask --package lab --all-targets";

/// The documentation of every crate.
const DOCS: &str = "doc --locked --workspace --no-deps";

/// Tests at once for each CPU: most of those that start the program wait for it far longer than they compute. With two of them
/// two CPUs rested a third of the time.
const TESTS_A_CPU: usize = 4;

/// A file of the library that tests of rings use.
const LIBURING: &str = "/usr/include/liburing.h";

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
    if is_all {
        cargo_step("fmt", "fmt --all --check")?;
        step("rules", "cargo xtask rules", rules::check)?;
        step("generated files", "cargo xtask generate --check", generate::check)?;
        cargo_step("clippy", "clippy --locked --workspace --all-targets -- --deny warnings")?;
    }
    step("tests", &format!("cargo {TESTS}"), product_tests)?;
    if is_all {
        cargo_step("tests of the tools", TOOL_TESTS)?;
        step("docs", &format!("RUSTDOCFLAGS='--deny warnings' cargo {DOCS}"), || {
            cargo::visible(cargo_command(DOCS).env("RUSTDOCFLAGS", "--deny warnings"))
        })?;
        step("page", "cargo xtask page --check", || page::build(true))?;
        cargo_step("crates", CRATES)?;
        cargo_step("release build", "build --locked --release --package bytegauge")?;
        step("hot loops", "cargo xtask hot-loops", || hot_loops::check(&cargo::release_build()?))?;
        step("release run", &format!("target/release/bytegauge {RELEASE_RUN}"), release_run)?;
    }
    Ok(())
}

fn cargo_command(words: &str) -> Process {
    cargo::command(&words.split(' ').collect::<Vec<_>>())
}

fn cargo_step(name: &str, words: &str) -> Result<()> {
    step(name, &format!("cargo {words}"), || cargo::visible(&mut cargo_command(words)))
}

/// The tests of the product, with the reasons for which some skipped themselves. The few that fail next to others are repeated alone:
/// on a machine whose CPUs others use, a measured window can be over before anything ran in it.
fn product_tests() -> Result<()> {
    let threads = thread::available_parallelism().map_or(2, NonZero::get) * TESTS_A_CPU;
    let mut output = OutputSoFar::default();
    let mut all = cargo_command(TESTS);
    let ended = show(all.args(["--", "--show-output"]).env("RUST_TEST_THREADS", threads.to_string()), &mut output);
    let OutputSoFar { skips, failed, open, .. } = output;
    let needed = [("iperf3", cargo::on_path("iperf3").is_ok()), ("liburing-dev", Path::new(LIBURING).exists())];
    for (package, _) in needed.iter().filter(|(_, is_there)| !is_there) {
        println!("   some tests skip themselves: apt-get install {package}");
    }
    skips.iter().for_each(|skip| println!("   skipped: {skip}"));
    if ended.is_err() && open == 0 && (1..=REPEATED_MAX).contains(&failed.len()) {
        println!("   failed next to others, repeated alone: {}", failed.join(", "));
        return cargo::visible(cargo_command(TESTS).args(["--", "--exact", "--test-threads=1"]).args(&failed));
    }
    ended
}

/// The program as users build it carries bytes over every kind of path, and looks at each of them.
fn release_run() -> Result<()> {
    let folder = tempfile::tempdir().context("a folder for the store")?;
    let mut run = Process::new(cargo::workspace()?.target_directory.join("release/bytegauge"));
    cargo::visible(run.args(RELEASE_RUN.split(' ')).args(["--quiet", "--store"]).arg(folder.path().join("results.db")))
}

/// More failed tests than these are not repeated.
const REPEATED_MAX: usize = 3;

/// Start of the line that a skipped test prints.
const MARK: &str = "SKIPPED: ";

/// Runs tests with their output visible, and collects those that skip themselves because the machine lacks something, such as a
/// permission. Such a test passes and prints `SKIPPED: reason`, which libtest hides without `--show-output`, with which the command
/// ends. The output of failed tests is forwarded to the terminal.
fn show(command: &mut Process, output: &mut OutputSoFar) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command.stdout(Stdio::piped()).spawn().with_context(|| format!("starting {name}"))?;
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line.with_context(|| format!("reading from {name}"))?;
            let line = String::from_utf8_lossy(&line);
            if output.shows(&line) {
                println!("{line}");
            }
        }
    }
    let status = child.wait().with_context(|| format!("waiting for {name}"))?;
    ensure!(status.success(), "{status}");
    Ok(())
}

/// The output read so far.
#[derive(Default)]
struct OutputSoFar {
    /// Whether it is what passed tests printed.
    of_passed: bool,
    /// The test whose output it is.
    test: String,
    /// Tests that skipped themselves, each with its reason, once.
    skips: Vec<String>,
    /// Tests that failed.
    failed: Vec<String>,
    /// Runs of tests that began and have no result yet: those that were cut short.
    open: usize,
}

impl OutputSoFar {
    /// Takes a line. Whether it is to be seen.
    fn shows(&mut self, line: &str) -> bool {
        if line.starts_with("running ") && line.ends_with(['t', 's']) && !self.of_passed {
            self.open += 1;
        } else if line.starts_with("test result: ") {
            self.open = self.open.saturating_sub(1);
        }
        if let Some(test) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")) {
            self.failed.push(test.to_owned());
        }
        if line == "successes:" {
            self.of_passed = true;
        } else if line == "failures:" || line.starts_with("test result: ") {
            self.of_passed = false;
        } else if let Some(test) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            self.test = test.to_owned();
        } else if let Some(reason) = line.strip_prefix(MARK).filter(|_| self.of_passed) {
            let skip = format!("{}: {}", self.test, reason.trim());
            if !self.skips.contains(&skip) {
                self.skips.push(skip);
            }
        }
        !self.of_passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "\
running 3 tests
test limits::ipv6 ... ok
test limits::rights ... ok
test limits::wrong ... FAILED

successes:

---- limits::ipv6 stdout ----
engine epoll
SKIPPED: a network of its own: `unshare -Urn true` does not work here
SKIPPED: a network of its own: `unshare -Urn true` does not work here

---- limits::rights stdout ----
SKIPPED: a user without rights

successes:
    limits::ipv6
    limits::rights

failures:

---- limits::wrong stdout ----
SKIPPED: nothing, it failed
panicked

failures:
    limits::wrong

test result: FAILED. 2 passed; 1 failed";

    #[test]
    fn skips_are_collected_and_passed_tests_hidden() {
        let mut output = OutputSoFar::default();
        let shown: Vec<&str> = PRINTED.lines().filter(|line| output.shows(line)).collect();
        assert_eq!(
            output.skips,
            [
                "limits::ipv6: a network of its own: `unshare -Urn true` does not work here",
                "limits::rights: a user without rights"
            ]
        );
        assert!(shown.contains(&"test limits::ipv6 ... ok") && shown.contains(&"panicked"));
        assert_eq!((output.failed, output.open), (vec!["limits::wrong".to_owned()], 0));
        let mut cut = OutputSoFar::default();
        cut.shows("running 3 tests");
        assert_eq!(cut.open, 1, "the program ended before its result");
        assert!(!shown.contains(&"engine epoll") && !shown.contains(&"    limits::rights"), "{shown:?}");
    }

    #[test]
    fn a_command_that_fails_is_an_error() {
        let ends_well = |program: &str| show(&mut Process::new(program), &mut OutputSoFar::default()).is_ok();
        assert_eq!((ends_well("false"), ends_well("true")), (false, true));
    }
}
