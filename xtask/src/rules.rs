//! `cargo xtask rules`: what holds for the sources beyond what the compiler and clippy see.

use anyhow::{Result, bail};
use clap::{ArgMatches, Command};

use crate::{edges, modules, sources};

/// `cargo xtask rules`.
pub fn command() -> Command {
    Command::new("rules").about("Check who knows whom (crates, modules, names), and what every source file keeps to")
}

/// Checks.
///
/// # Errors
/// With every breach.
pub fn run(_: &ArgMatches) -> Result<()> {
    check()
}

/// Checks.
///
/// # Errors
/// With every breach.
pub fn check() -> Result<()> {
    let breaches = [edges::breaches()?, sources::breaches()?, modules::breaches()?].concat();
    if breaches.is_empty() {
        return Ok(());
    }
    bail!("{} breaches:\n  {}", breaches.len(), breaches.join("\n  "))
}
