//! Studies of bytegauge: comparisons with other programs, long simulations, tests under load.
//!
//! They take minutes to hours, and most need a quiet machine. Every task is one file and one row of [`TASKS`]. Not part of the
//! product, and not part of the tests.
#![forbid(unsafe_code)]
// Developers run the tasks in their terminals. A task may end if printing fails.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod binaries;
mod busy;
mod group;
mod mesh;
mod peers;
mod program;
mod real_life;
mod real_programs;
mod repeat;
mod sanitize;
mod section;
mod tournament;
mod verify_stats;

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
    Study { command: peers::arm::command, run: peers::run_arm },
    Study { command: real_programs::command, run: real_programs::run },
    Study { command: real_life::command, run: real_life::run },
    Study { command: tournament::command, run: tournament::run },
    Study { command: mesh::command, run: mesh::run },
    Study { command: verify_stats::command, run: verify_stats::run },
    Study { command: repeat::busy_command, run: repeat::run_busy },
    Study { command: repeat::quota_command, run: repeat::run_quota },
    Study { command: repeat::quiet_command, run: repeat::run_quiet },
    Study { command: sanitize::command, run: sanitize::run },
    Study { command: repeat::smoke_command, run: repeat::run_smoke },
    Study { command: repeat::all_command, run: repeat::run_all },
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
        .about("Studies of bytegauge: comparisons, simulations, tests under load")
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
