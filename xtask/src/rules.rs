//! `cargo xtask rules`: checks of the sources that the compiler and clippy do not make: the crates that may contain unsafe code, the
//! length of files, dependencies ([`edges`]), lines of code ([`budget`]) and wording ([`words`]).
//!
//! Looks at text, not at syntax: a rule that needs a parser belongs to clippy.

use std::fs;

use anyhow::{Result, bail};
use clap::{ArgMatches, Command};

use crate::{budget, edges, words};
use xtask::cargo;

/// A longer file gives the reason in its header, in a line that contains [`LONG_BECAUSE`].
const LINES_MAX: usize = 600;
const LONG_BECAUSE: &str = "Long because";

/// Unsafe code. Each crate but one forbids it; tests and programs are crates of their own.
const UNSAFE: &str = concat!("unsafe", " *(\\{|fn|impl|trait|extern)");

/// `cargo xtask rules`.
pub fn command() -> Command {
    Command::new("rules").about("Check dependencies between crates, files, lines of code, and wording")
}

/// Runs every check.
///
/// # Errors
/// With every breach.
pub fn run(_: &ArgMatches) -> Result<()> {
    check()
}

/// Runs every check.
///
/// # Errors
/// With every breach.
pub fn check() -> Result<()> {
    let breaches = [edges::breaches()?, in_sources()?, budget::breaches()?, words::breaches()?].concat();
    if breaches.is_empty() {
        return Ok(());
    }
    bail!("{} breaches:\n  {}", breaches.len(), breaches.join("\n  "))
}

/// Breaches of the rules for source files: unsafe code and length.
fn in_sources() -> Result<Vec<String>> {
    let found = cargo::grep("-nE", UNSAFE, &["*.rs", ":!crates/sys"])?;
    let mut breaches: Vec<String> =
        found.iter().map(|line| format!("{line}: it belongs to crates/sys, behind a safe function")).collect();
    for file in cargo::git(&["ls-files", "*.rs"])?.lines() {
        // A file that was removed and is still tracked.
        let Ok(text) = fs::read_to_string(cargo::root().join(file)) else { continue };
        breaches.extend(breach_of_length(file, &text));
    }
    Ok(breaches)
}

fn breach_of_length(name: &str, text: &str) -> Option<String> {
    let lines = text.lines().count();
    let explained = text.lines().take_while(|line| line.starts_with("//!")).any(|line| line.contains(LONG_BECAUSE));
    (lines > LINES_MAX && !explained).then(|| {
        format!(
            "{name} has {lines} lines: split it, or give the reason in its header: `//! {LONG_BECAUSE} …` (over {LINES_MAX})"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sources_keep_to_the_rules() {
        assert_eq!(in_sources().unwrap(), Vec::<String>::new());
    }

    #[test]
    fn long_files_give_a_reason() {
        let long = "\n".repeat(LINES_MAX + 1);
        assert_eq!(breach_of_length("x.rs", "// nothing\n"), None);
        assert!(breach_of_length("x.rs", &long).is_some_and(|breach| breach.contains("601 lines")));
        assert_eq!(breach_of_length("x.rs", &format!("//! {LONG_BECAUSE} of its table.{long}")), None);
    }
}
