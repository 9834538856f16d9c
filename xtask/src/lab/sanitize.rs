//! Tests under tools that watch memory and threads: AddressSanitizer, ThreadSanitizer and Miri.
//!
//! They need a nightly compiler. ThreadSanitizer reports false races where the standard library was not compiled for it, so it
//! is built from source (component rust-src). Miri runs no system call: it takes the tests whose names begin with `miri`.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cargo;
use crate::steps::{self, Done};

/// One tool.
pub struct Tool {
    /// Its name on the command line.
    pub name: &'static str,
    /// Flags of the compiler.
    flags: &'static str,
    /// Options of the tool itself.
    options: (&'static str, &'static str),
    /// The component that it needs besides a nightly compiler.
    component: Option<&'static str>,
    /// What follows `cargo`.
    words: &'static [&'static str],
}

/// The crates that move bytes.
const MOVES_BYTES: [&str; 4] = ["--package", "bytegauge-sys", "--package", "bytegauge-traffic"];

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The tools.
pub const TOOLS: [Tool; 3] = [
    Tool {
        name: "address",
        flags: "-Zsanitizer=address",
        // Ends are killed in the middle by some tests, and leave memory behind.
        options: ("ASAN_OPTIONS", "detect_leaks=0"),
        component: None,
        words: &["test", "--locked", "--target", TARGET],
    },
    Tool {
        name: "thread",
        flags: "-Zsanitizer=thread",
        // What it reports is read afterwards.
        options: ("TSAN_OPTIONS", "exitcode=0:log_path="),
        component: Some("rust-src"),
        words: &["test", "--locked", "-Zbuild-std", "--target", TARGET],
    },
    Tool {
        name: "miri",
        flags: "",
        options: ("MIRIFLAGS", "-Zmiri-tree-borrows"),
        component: Some("miri"),
        words: &["miri", "test", "--locked"],
    },
];

/// Runs the tests under a tool, only those with this in their name if it is given.
///
/// # Errors
/// When a test fails or the tool reports something.
pub fn run(tool: &Tool, only: Option<&str>) -> Result<Done> {
    if let Err(reason) = prepared(tool) {
        return Ok(Done::Skipped(reason));
    }
    let is_miri = tool.name == "miri";
    let mut command = nightly();
    command.args(tool.words).args(if is_miri { &MOVES_BYTES[..2] } else { &MOVES_BYTES[..] });
    command.args(is_miri.then_some("--lib")).args(only.or(is_miri.then_some("miri")));
    // Other flags would make cargo compile all anew, here and in the usual folder.
    let folder = cargo::workspace()?.target_directory.join(format!("sanitize-{}", tool.name));
    let logs = tempfile::tempdir().context("making a temporary folder: check TMPDIR")?;
    let (variable, mut options) = (tool.options.0, tool.options.1.to_owned());
    if tool.name == "thread" {
        options.push_str(&logs.path().join("report").display().to_string());
    }
    command.env("RUSTFLAGS", tool.flags).env(variable, options).env("CARGO_TARGET_DIR", folder);
    let done = steps::visible(&mut command).with_context(|| format!("the tests under {}", tool.name))?;
    for log in fs::read_dir(logs.path()).context("reading the reports")? {
        let text = fs::read_to_string(log?.path()).context("reading a report")?;
        let races = races_of_memory(&text);
        ensure!(races.is_empty(), "{} data races:\n{}", races.len(), races.join("\n"));
    }
    Ok(done)
}

/// The reports of ThreadSanitizer that concern memory.
///
/// It follows descriptors through the C library's functions. One that a ring or a direct system call closed is taken for open, and
/// the next use of its number by another thread for a race on the descriptor.
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

/// Sees to it that a tool can run; the reason if it cannot.
fn prepared(tool: &Tool) -> Result<(), String> {
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
