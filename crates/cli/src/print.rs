//! What prints without measuring: the welcome, completions, the manual page.

use std::io;

use clap::ArgMatches;

use crate::args;
use crate::exit::{DONE, Failure};

/// `bytegauge` alone: the three commands a newcomer needs.
pub fn welcome() -> Result<u8, Failure> {
    anstream::println!(
        "bytegauge measures how bytes move on this machine and says what to use, with proof.

  bytegauge run buffer-size      which read and write sizes? a minute, Unix and TCP sockets
  bytegauge stream --help        every factor as a flag: lists, ranges, conditions
  bytegauge report               the latest result again

All commands: bytegauge --help"
    );
    Ok(DONE)
}

/// Completions for a shell.
pub fn completions(matches: &ArgMatches) -> Result<u8, Failure> {
    if let Some(shell) = matches.get_one::<clap_complete::Shell>("shell") {
        clap_complete::generate(*shell, &mut args::command(), "bytegauge", &mut io::stdout());
    }
    Ok(DONE)
}

/// The manual page, in roff.
pub fn man() -> Result<u8, Failure> {
    clap_mangen::Man::new(args::command())
        .render(&mut io::stdout())
        .map_err(|error| Failure::failed(format!("writing the manual page: {error}")))?;
    Ok(DONE)
}
