//! Tests under tools that watch memory and threads: AddressSanitizer, ThreadSanitizer and Miri.
//!
//! They need a nightly compiler. ThreadSanitizer reports false races where the standard library was not compiled for it, so it
//! is built from source (component rust-src). Miri runs no system call: it takes the tests whose names begin with `miri`.

use std::process::Command;

use anyhow::{Context, Result};

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
        options: ("TSAN_OPTIONS", "halt_on_error=0"),
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
    command.env("RUSTFLAGS", tool.flags).env(tool.options.0, tool.options.1);
    // Other flags would make cargo compile all anew, here and in the usual folder.
    let folder = cargo::workspace()?.target_directory.join(format!("sanitize-{}", tool.name));
    steps::visible(command.env("CARGO_TARGET_DIR", folder)).with_context(|| format!("the tests under {}", tool.name))
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
