//! The binary as its users meet it: run, read, break, interrupt, resume.
//!
//! Nothing here looks inside: every check goes through arguments, exit codes, files and what was printed.
//! Each test has a folder of its own, so tests run side by side; no check depends on how fast the machine
//! is, and the only deadlines are those that keep a hang from lasting for ever.
#![allow(clippy::disallowed_methods)]
#![forbid(unsafe_code)]
// Tests print why they were skipped, and what they saw.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod ab;
mod analyses;
mod any_words;
mod artefacts;
mod audit;
mod bad_input;
mod bench;
mod call_faults;
mod connect;
mod contract;
mod datagrams;
mod documents;
mod dry_run;
mod emulated_link;
mod exchange;
mod exit_codes;
mod expired;
mod failing_output;
mod far;
mod far_bounds;
mod far_hosts;
mod far_losses;
mod far_relay;
mod far_unauthenticated;
mod far_ways;
mod faults;
mod feed;
mod flamegraph;
mod harm;
mod history;
mod hostile_text;
mod interrupt;
mod iperf3;
mod kill;
mod knee;
mod machine_limits;
mod mesh;
mod mesh_faults;
mod mesh_zero;
mod observe;
mod output;
mod plans;
mod printed_commands;
mod protocols;
mod questions;
mod quiet;
mod raw;
mod readers;
mod refused_options;
mod refusing_kernel;
mod relay;
mod relay_programs;
mod ring;
mod running_relays;
mod selftest;
mod serve;
mod store_faults;
mod stored;
mod supervision;
mod survey;
mod tune;
mod tune_failures;
mod tune_network;
mod tune_servers;
mod tune_service;
mod tune_values;
