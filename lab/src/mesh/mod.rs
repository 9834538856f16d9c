//! `cargo lab mesh`: meshes larger than the tests can start.

mod cluster;
mod gather;
mod peak;
mod ranks;

use anyhow::Result;
use clap::{ArgMatches, Command};

/// `cargo lab mesh`.
pub fn command() -> Command {
    Command::new("mesh")
        .about("Meshes of a simulated cluster: faults, 1,000 ranks, files of 499,500 pairs")
        .subcommand_required(true)
        .subcommands([cluster::command(), gather::command(), ranks::command()])
}

/// Runs one of the studies.
///
/// # Errors
/// When the program does not build or run, or a result is wrong.
pub fn run(matches: &ArgMatches) -> Result<()> {
    match matches.subcommand() {
        Some(("cluster", matches)) => cluster::run(matches),
        Some(("gather", matches)) => gather::run(matches),
        Some(("ranks", matches)) => ranks::run(matches),
        _ => Ok(()),
    }
}
