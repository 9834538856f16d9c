//! Collects the tests that skip themselves because the machine lacks something, such as a permission, and their reasons.
//!
//! Such a test passes and prints `SKIPPED: reason`, which libtest hides without `--show-output`. This
//! module reads that output, and forwards the output of failed tests to the terminal.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use xtask::steps::StepDone;

/// Start of the line that a skipped test prints.
const MARK: &str = "SKIPPED: ";

/// Runs tests with their output visible, and collects what they skipped. The command ends with `-- --show-output`.
///
/// # Errors
/// When it cannot be started or does not succeed.
pub fn run(command: &mut Command) -> Result<StepDone> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command.stdout(Stdio::piped()).spawn().with_context(|| format!("starting {name}"))?;
    let mut output = OutputSoFar::default();
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
    Ok(if output.skips.is_empty() { StepDone::Passed } else { StepDone::Partly(output.skips) })
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
}

impl OutputSoFar {
    /// Takes a line. Whether it is to be seen.
    fn shows(&mut self, line: &str) -> bool {
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
        assert!(!shown.contains(&"engine epoll") && !shown.contains(&"    limits::rights"), "{shown:?}");
    }

    #[test]
    fn a_command_that_fails_is_an_error() {
        assert!(run(&mut Command::new("false")).is_err());
        assert!(matches!(run(&mut Command::new("true")), Ok(StepDone::Passed)));
    }
}
