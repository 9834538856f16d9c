//! `cargo xtask deny`: licences, sources, duplicates and known faults of the dependencies, by cargo-deny and `deny.toml`.
//!
//! Installs cargo-deny where it is missing: about three minutes of one CPU. The database of known faults comes by git from the
//! network; where it cannot be fetched, that part is skipped with a reason.

use anyhow::{Result, ensure};
use clap::{ArgMatches, Command};

use xtask::cargo;
use xtask::steps::{self, StepDone};

/// The release whose configuration `deny.toml` follows.
const RELEASE: &str = "cargo-deny@^0.20";

/// Checks that need no network.
const LOCAL: [&str; 5] = ["deny", "check", "bans", "licenses", "sources"];

/// `cargo xtask deny`.
pub fn command() -> Command {
    Command::new("deny").about("Check licences, sources, duplicates and known faults of the dependencies (deny.toml)")
}

/// Runs all checks.
///
/// # Errors
/// When one fails, or cargo-deny is missing and cannot be installed.
pub fn run(_: &ArgMatches) -> Result<()> {
    if let StepDone::Partly(reasons) = check()? {
        println!("skipped: {}", reasons.join(", "));
    }
    Ok(())
}

/// As [`run`], as a step of the tests.
///
/// # Errors
/// As [`run`].
pub fn check() -> Result<StepDone> {
    install()?;
    steps::visible(&mut cargo::command(&LOCAL))?;
    let fetched = cargo::command(&["deny", "fetch", "db"]).output()?;
    if !fetched.status.success() {
        return Ok(StepDone::Partly(vec!["advisories: their database cannot be fetched from github.com".into()]));
    }
    steps::visible(&mut cargo::command(&["deny", "check", "--disable-fetch", "advisories"]))
}

fn install() -> Result<()> {
    let is_here = || cargo::command(&["deny", "--version"]).output().is_ok_and(|output| output.status.success());
    if !is_here() {
        steps::visible(&mut cargo::command(&["install", "--locked", RELEASE]))?;
    }
    ensure!(is_here(), "cargo deny is missing: run `cargo install --locked {RELEASE}`");
    Ok(())
}
