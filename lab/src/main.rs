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

use xtask::task::{self, Task};

const ABOUT: &str = "Studies of bytegauge: comparisons with other programs, recommendations tried in them";

const TASKS: &[Task] = &[
    Task { command: peers::command, run: peers::run },
    Task { command: real_programs::command, run: real_programs::run },
];

fn main() -> ExitCode {
    task::main("cargo lab", ABOUT, TASKS)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_valid() {
        xtask::task::command("cargo lab", super::ABOUT, super::TASKS).debug_assert();
    }
}
