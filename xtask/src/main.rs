//! Tasks of the developers of bytegauge: tests, rules, generated files, the report page, packages.
//!
//! Every task is one file and one row of [`TASKS`]. Not part of the product. Studies and comparisons are in `lab`.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods)]
// Developers run the tasks in their terminals. A task may end if printing fails.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod generate;
mod hot_loops;
mod package;
mod page;
mod rules;
mod test;

use std::process::ExitCode;

use xtask::task::{self, Task};

const ABOUT: &str = "The tasks of the bytegauge repository";

const TASKS: &[Task] = &[
    Task { command: test::command, run: test::run },
    Task { command: rules::command, run: |_| rules::check() },
    Task { command: generate::command, run: generate::run },
    Task { command: hot_loops::command, run: hot_loops::run },
    Task { command: page::command, run: page::run },
    Task { command: package::command, run: package::run },
];

fn main() -> ExitCode {
    task::main("cargo xtask", ABOUT, TASKS)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_is_sound() {
        xtask::task::command("cargo xtask", super::ABOUT, super::TASKS).debug_assert();
    }
}
