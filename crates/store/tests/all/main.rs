//! Tests of stores: write, damage, export, import and read them.
#![allow(clippy::disallowed_methods)]
#![forbid(unsafe_code)]
// Tests print why they were skipped, and what they saw.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod durability;
mod export;
mod faults;
mod migration;
mod round_trip;
mod support;
