//! `cargo xtask rules`: checks of the sources that the compiler and clippy do not make.

use anyhow::{Result, bail};
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::{edges, modules, sources, types, wording};

/// `cargo xtask rules`.
pub fn command() -> Command {
    Command::new("rules")
        .about("Check dependencies between crates and modules, names of types, files, and wording")
        .arg(Arg::new("path").value_name("PATH").action(ArgAction::Append).help("Check the wording of this path only"))
}

/// Runs every check, or that of the wording for the given paths, including exempt ones.
///
/// # Errors
/// With every breach.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let Some(paths) = matches.get_many::<String>("path") else { return check() };
    report(&paths.map(|path| wording::breaches_below(path)).collect::<Result<Vec<_>>>()?.concat())
}

/// Runs every check.
///
/// # Errors
/// With every breach.
pub fn check() -> Result<()> {
    let all =
        [edges::breaches()?, sources::breaches()?, modules::breaches()?, types::breaches()?, wording::breaches()?];
    report(&all.concat())
}

fn report(breaches: &[String]) -> Result<()> {
    if breaches.is_empty() {
        return Ok(());
    }
    bail!("{} breaches:\n  {}", breaches.len(), breaches.join("\n  "))
}
