//! The test binaries of the crates that open sockets or start the program, and a run of one.

use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::group::QuotaGroup;
use xtask::cargo;

/// The crates whose tests use system calls; the others only compute.
const PACKAGES: [&str; 4] = ["bytegauge-sys", "bytegauge-traffic", "bytegauge-harness", "bytegauge"];

/// A line of `cargo test --message-format json` (The Cargo Book, External tools).
#[derive(Deserialize)]
struct CargoMessage {
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
    target: Option<BuiltTarget>,
    profile: Option<BuiltProfile>,
}

#[derive(Deserialize)]
struct BuiltTarget {
    name: String,
}

#[derive(Deserialize)]
struct BuiltProfile {
    test: bool,
}

/// A test binary.
#[derive(Debug)]
pub struct TestBinary {
    /// `bytegauge-traffic all`.
    pub name: String,
    program: PathBuf,
    folder: PathBuf,
}

/// Which tests of a binary run.
pub struct TestFilter<'a> {
    /// Only those with this in their name.
    pub only: Option<&'a str>,
    /// Those that are ignored otherwise, and no others.
    pub ignored: bool,
}

/// Builds them.
///
/// # Errors
/// When they cannot be built.
pub fn build() -> Result<Vec<TestBinary>> {
    let mut command = cargo::command(&["test", "--locked", "--no-run", "--message-format", "json-render-diagnostics"]);
    command.args(PACKAGES.iter().flat_map(|package| ["--package", package])).stderr(Stdio::inherit());
    let output = command.output().context("starting `cargo test --no-run`")?;
    ensure!(output.status.success(), "building the tests: {}", output.status);
    let binaries: Vec<TestBinary> = String::from_utf8_lossy(&output.stdout).lines().filter_map(binary).collect();
    ensure!(binaries.len() >= PACKAGES.len(), "`cargo test --no-run` names {} test binaries only", binaries.len());
    Ok(binaries)
}

fn binary(line: &str) -> Option<TestBinary> {
    let message: CargoMessage = serde_json::from_str(line).ok()?;
    let (program, manifest) = (message.executable?, message.manifest_path?);
    let folder = manifest.parent()?.to_owned();
    let name = format!("{} {}", folder.file_name()?.to_string_lossy(), message.target?.name);
    message.profile?.test.then_some(TestBinary { name, program, folder })
}

impl TestBinary {
    /// Runs it, and names the tests that failed.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn run(&self, tests: &TestFilter<'_>, group: Option<&QuotaGroup>) -> Result<Vec<String>> {
        let mut command = group.map_or_else(|| Process::new(&self.program), |group| group.command(&self.program));
        command.current_dir(&self.folder).stdin(Stdio::null());
        command.args(tests.only);
        if tests.ignored {
            // Each needs the machine alone.
            command.args(["--ignored", "--test-threads=1"]);
        }
        let output = command.output().with_context(|| format!("starting {}", self.program.display()))?;
        if output.status.success() {
            return Ok(Vec::new());
        }
        let stdout = String::from_utf8_lossy(&output.stdout);
        println!("{}\n{}", stdout.trim_end(), String::from_utf8_lossy(&output.stderr).trim_end());
        Ok(failed(&stdout, &self.program))
    }
}

/// The names of failed tests, as libtest prints them; the binary's name if it crashed before that.
fn failed(stdout: &str, program: &Path) -> Vec<String> {
    let of = |line: &str| line.strip_prefix("test ")?.strip_suffix(" ... FAILED").map(str::to_owned);
    let names: Vec<String> = stdout.lines().filter_map(of).collect();
    if names.is_empty() { vec![program.display().to_string()] } else { names }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_cargo() {
        let line = r#"{"reason":"compiler-artifact","manifest_path":"/w/crates/sys/Cargo.toml","target":{"name":"all"},
            "profile":{"test":true},"executable":"/w/target/debug/deps/all-1"}"#;
        let found = binary(line).unwrap();
        assert_eq!((found.name.as_str(), found.folder.as_path()), ("sys all", Path::new("/w/crates/sys")));
        assert!(binary(&line.replace("true", "false")).is_none(), "the program itself is no test");
        assert!(binary(r#"{"reason":"build-finished","success":true}"#).is_none());
    }

    #[test]
    fn failures_have_names() {
        let stdout = "running 2 tests\ntest a::b ... ok\ntest c::d ... FAILED\n";
        assert_eq!(failed(stdout, Path::new("/x")), ["c::d"]);
        assert_eq!(failed("running 2 tests\n", Path::new("/x")), ["/x"]);
    }
}
