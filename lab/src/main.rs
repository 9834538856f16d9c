//! Studies of bytegauge: comparisons with other programs, recommendations tried in them.
//!
//! They take minutes to hours, and most need a quiet machine. Every task is one file and one row of [`TASKS`]. Not part of the
//! product, and not part of the tests.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods)]
// Developers run the tasks in their terminals. A task may end if printing fails.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod peers;
mod real_programs;

use std::process::ExitCode;

use anyhow::Result;
use clap::{ArgMatches, Command};

/// A study: its command line and its function.
struct Study {
    command: fn() -> Command,
    run: fn(&ArgMatches) -> Result<()>,
}

const TASKS: &[Study] = &[
    Study { command: peers::command, run: peers::run },
    Study { command: real_programs::command, run: real_programs::run },
];

fn main() -> ExitCode {
    let matches = command().get_matches();
    let Some((name, matches)) = matches.subcommand() else { return ExitCode::from(2) };
    let Some(task) = TASKS.iter().find(|task| (task.command)().get_name() == name) else { return ExitCode::from(2) };
    match (task.run)(matches) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo lab {name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn command() -> Command {
    Command::new("cargo lab")
        .bin_name("cargo lab")
        .about("Studies of bytegauge: comparisons with other programs, recommendations tried in them")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(TASKS.iter().map(|task| (task.command)()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_valid() {
        super::command().debug_assert();
    }
}
