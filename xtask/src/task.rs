//! Programs whose subcommands are tasks of the developers.

use std::process::ExitCode;

use anyhow::Result;
use clap::{ArgMatches, Command};

/// A task: its command line, and what it does.
pub struct Task {
    /// Its command line.
    pub command: fn() -> Command,
    /// What it does.
    pub run: fn(&ArgMatches) -> Result<()>,
}

/// The command line of a program with these tasks.
pub fn command(name: &'static str, about: &'static str, tasks: &[Task]) -> Command {
    let tasks = tasks.iter().map(|task| (task.command)());
    let program = Command::new(name).bin_name(name).about(about).subcommands(tasks);
    program.subcommand_required(true).arg_required_else_help(true)
}

/// Runs the task that the words of this process name.
pub fn main(name: &'static str, about: &'static str, tasks: &[Task]) -> ExitCode {
    let matches = command(name, about, tasks).get_matches();
    let Some((word, matches)) = matches.subcommand() else { return ExitCode::from(2) };
    let Some(task) = tasks.iter().find(|task| (task.command)().get_name() == word) else { return ExitCode::from(2) };
    match (task.run)(matches) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name} {word}: {error:#}");
            ExitCode::FAILURE
        }
    }
}
