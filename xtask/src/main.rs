//! What the people who work on bytegauge run: tests as CI runs them, generated files, comparisons.
//!
//! Every task is one file and one row of [`TASKS`]. Never part of the product, never measures for a user.
#![forbid(unsafe_code)]
// Developers run it on terminals of theirs: where one fails, a task may end.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod busy;
mod cargo;
mod deny;
mod duration;
mod edges;
mod generate;
mod group;
mod hot_loops;
mod lab;
mod markdown;
mod modules;
mod package;
mod page;
mod peers;
mod pictures;
mod product;
mod real_life;
mod real_programs;
mod rules;
mod section;
mod setup;
mod skips;
mod sources;
mod steps;
mod test;
mod tournament;
mod types;
mod verify_stats;
mod wording;

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
    Task { command: pictures::command, run: pictures::run },
    Task { command: package::command, run: package::run },
    Task { command: deny::command, run: deny::run },
    Task { command: peers::command, run: peers::run },
    Task { command: peers::arm::command, run: peers::run_arm },
    Task { command: verify_stats::command, run: verify_stats::run },
    Task { command: lab::command, run: lab::run },
    Task { command: real_life::command, run: real_life::run },
    Task { command: real_programs::command, run: real_programs::run },
    Task { command: tournament::command, run: tournament::run },
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
