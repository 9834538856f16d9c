//! Tasks of the developers of bytegauge: tests, rules, generated files, the report page, packages.
//!
//! Every task is one file and one row of [`TASKS`]. Not part of the product. Studies and comparisons are in `lab`.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods)]
// Developers run the tasks in their terminals. A task may end if printing fails.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod budget;
mod generate;
mod hot_loops;
mod package;
mod page;
mod rules;
mod skips;
mod test;

use std::process::ExitCode;

use anyhow::Result;
use clap::{ArgMatches, Command};

/// A task of the project: its command line and what it does.
struct Task {
    command: fn() -> Command,
    run: fn(&ArgMatches) -> Result<()>,
}

const TASKS: &[Task] = &[
    Task { command: test::command, run: test::run },
    Task { command: rules::command, run: rules::run },
    Task { command: generate::command, run: generate::run },
    Task { command: hot_loops::command, run: hot_loops::run },
    Task { command: page::command, run: page::run },
    Task { command: package::command, run: package::run },
];

fn main() -> ExitCode {
    let matches = command().get_matches();
    let Some((name, matches)) = matches.subcommand() else { return ExitCode::from(2) };
    let Some(task) = TASKS.iter().find(|task| (task.command)().get_name() == name) else { return ExitCode::from(2) };
    match (task.run)(matches) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo xtask {name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn command() -> Command {
    Command::new("cargo xtask")
        .bin_name("cargo xtask")
        .about("The tasks of the bytegauge repository")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(TASKS.iter().map(|task| (task.command)()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_is_sound() {
        super::command().debug_assert();
    }
}
