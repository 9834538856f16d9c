//! What prints without measuring: the welcome, completions, the manual page.

use clap::ArgMatches;

use crate::exit::Failure;
use crate::{args, stored};

/// `bytegauge` alone: the three commands a newcomer needs.
pub fn welcome() -> Result<u8, Failure> {
    stored::print(
        "bytegauge measures how bytes move on this machine and says what to use, with proof.

  bytegauge run buffer-size      which read and write sizes? a minute, Unix and TCP sockets
  bytegauge stream --help        every factor as a flag: lists, ranges, conditions
  bytegauge report               the latest result again

All commands: bytegauge --help
",
    )
}

/// Completions for a shell.
pub fn completions(matches: &ArgMatches) -> Result<u8, Failure> {
    // Made in memory first: a reader that leaves early is no panic.
    let mut script = Vec::new();
    if let Some(shell) = matches.get_one::<clap_complete::Shell>("shell") {
        clap_complete::generate(*shell, &mut args::command(), "bytegauge", &mut script);
    }
    stored::print(&String::from_utf8_lossy(&script))
}

/// The manual page, in roff.
pub fn man() -> Result<u8, Failure> {
    let mut page = Vec::new();
    clap_mangen::Man::new(args::command())
        .render(&mut page)
        .map_err(|error| Failure::failed(format!("writing the manual page: {error}")))?;
    stored::print(&String::from_utf8_lossy(&page))
}

/// Whether `TERM` names a terminal without colours and cursor movement.
pub fn terminal_is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}
