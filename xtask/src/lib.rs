//! The parts of the repository's tasks that `cargo xtask` and `cargo lab` share.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods)]
// Developers run the tasks in their terminals. A task may end if printing fails.
#![allow(clippy::print_stdout, clippy::print_stderr)]

pub mod cargo;
pub mod markdown;
pub mod task;
