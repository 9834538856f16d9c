//! `cargo xtask peers`: bytegauge beside programs that do the same work, interleaved, as ratios with intervals.
//!
//! A section compares one thing and is one row of [`SECTIONS`]; each writes a part of its own in the document, so
//! that one section can be measured again without the others. Every round visits every arm in random order: what
//! the machine does meanwhile meets all of them alike. Choices are made in runs of their own and judged in later
//! ones, so that a lucky run cannot win. Traffic stays on loopback.

mod bench;
mod clients;
mod compare;
mod echo;
mod engines;
mod floor;
pub mod foreign;
mod iperf3;
mod machine;
mod ours;
mod process;
mod rings;
mod sockperf;
mod stream;
mod udp;

use std::process::Command as Process;

use anyhow::{Context, Result, ensure};
use bytegauge_stats::rng::{self, Stream};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::{cargo, section, setup};
use bench::{Bench, Effort};

/// The command of the lab's smoke.
pub const SMOKE: &str = "cargo xtask peers --quick --no-write";

const DOCUMENT: &str = "docs/performance.md";
const HEADER: &str = "# Performance\n\nHow fast bytegauge moves bytes beside a program that does nothing else.";

/// One comparison.
struct Section {
    /// Its name on the command line and in the document's markers.
    name: &'static str,
    /// What it compares.
    summary: &'static str,
    /// Installs what it needs; the reason if that cannot be had.
    prepare: fn() -> Result<(), String>,
    /// Measures, prints lines for the terminal, and makes the document's part.
    run: fn(&Bench, &mut Stream) -> Result<String>,
}

const SECTIONS: &[Section] = &[
    Section {
        name: "stream",
        summary: "a TCP stream beside iperf3's",
        prepare: || setup::package("iperf3", "iperf3"),
        run: stream::compared,
    },
    Section {
        name: "floor",
        summary: "a stream beside the same loop in C",
        prepare: foreign::prepare_c,
        run: floor::compared,
    },
    Section {
        name: "echo",
        summary: "TCP echo servers beside plain ones in C and Rust",
        prepare: foreign::prepare_c,
        run: echo::compared,
    },
    Section {
        name: "engines",
        summary: "our servers beside each other, where engines differ",
        prepare: || Ok(()),
        run: engines::compared,
    },
    Section {
        name: "clients",
        summary: "our clients beside one with a thread per connection",
        prepare: foreign::prepare_c,
        run: clients::compared,
    },
    Section {
        name: "sockperf",
        summary: "ping-pong on one connection beside sockperf's",
        prepare: || setup::package("sockperf", "sockperf"),
        run: sockperf::compared,
    },
    Section {
        name: "ring",
        summary: "io_uring NOPs beside liburing in C and the io-uring crate",
        prepare: || setup::library("liburing", "liburing-dev"),
        run: rings::compared,
    },
    Section {
        name: "udp",
        summary: "datagrams one way beside iperf3's, ping-pong beside sockperf's",
        prepare: udp::prepare,
        run: udp::compared,
    },
];

/// `cargo xtask peers`.
pub fn command() -> Command {
    let number = |name: &'static str, default: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name("N")
            .value_parser(value_parser!(u64).range(1..=10_000))
            .help(help)
            .default_value(default)
    };
    let names = SECTIONS.iter().map(|section| format!("{}: {}", section.name, section.summary)).collect::<Vec<_>>();
    Command::new("peers")
        .about("Compare bytegauge with other programs and write docs/performance.md")
        .arg(
            Arg::new("section")
                .value_name("SECTION")
                .num_args(0..)
                .value_parser(SECTIONS.iter().map(|section| section.name).collect::<Vec<_>>())
                .hide_possible_values(true)
                .help(format!("What to compare, instead of everything ({})", names.join("; "))),
        )
        .arg(number("rounds", "8", "Rounds that are judged; below 6 there is no interval at 95 %"))
        .arg(number("seconds", "1", "Length of a run"))
        .arg(number("seed", "1", "Seed of the order"))
        .arg(Arg::new("quick").long("quick").action(ArgAction::SetTrue).help("A smoke: few settings, short rounds"))
        .arg(Arg::new("no-write").long("no-write").action(ArgAction::SetTrue).help("Print the figures, write no file"))
}

/// Compares, prints, writes.
///
/// # Errors
/// When a program is missing or a run fails.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let number = |name: &str| matches.get_one::<u64>(name).copied().with_context(|| format!("--{name} has a default"));
    let effort = if matches.get_flag("quick") {
        Effort::QUICK
    } else {
        Effort { rounds: usize::try_from(number("rounds")?)?, seconds: number("seconds")?, quick: false }
    };
    let bench = Bench::new(effort, number("seed")?)?;
    let asked: Vec<&String> = matches.get_many("section").into_iter().flatten().collect();
    let chosen = SECTIONS.iter().filter(|section| asked.is_empty() || asked.iter().any(|name| *name == section.name));
    let mut reasons = Vec::new();
    for section in chosen {
        if let Err(reason) = (section.prepare)() {
            println!("{}: skipped: {reason}", section.name);
            reasons.push(format!("{}: {reason}", section.name));
            continue;
        }
        let text = compared(section, &bench)?;
        if !matches.get_flag("no-write") {
            section::write(&cargo::root().join(DOCUMENT), &format!("peers {}", section.name), HEADER, &text)?;
            println!("wrote {DOCUMENT}, {}", section.name);
        }
    }
    ensure!(asked.is_empty() || reasons.is_empty(), "not everything was compared: {}", reasons.join("; "));
    Ok(())
}

/// The comparisons in miniature: do they still work? The reasons of those that cannot be made here.
///
/// # Errors
/// As [`run`].
pub fn smoke() -> Result<Vec<String>> {
    let bench = Bench::new(Effort::QUICK, 1)?;
    let mut reasons = Vec::new();
    for section in SECTIONS {
        match (section.prepare)() {
            Ok(()) => drop(compared(section, &bench)?),
            Err(reason) => reasons.push(format!("{}: {reason}", section.name)),
        }
    }
    Ok(reasons)
}

/// Today's date, UTC, as `2030-01-31`.
///
/// # Errors
/// When there is no `date`.
pub fn today() -> Result<String> {
    let output = Process::new("date").args(["-u", "+%F"]).output().context("asking `date` for today")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn compared(section: &Section, bench: &Bench) -> Result<String> {
    // A stream of its own for each: one section alone meets the same order as all of them.
    let number = section.name.bytes().fold(0, |sum, byte| sum * 31 + u64::from(byte));
    (section.run)(bench, &mut rng::seeded(bench.seed, number)).with_context(|| section.name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_have_names_of_their_own() {
        let mut names: Vec<&str> = SECTIONS.iter().map(|section| section.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SECTIONS.len());
        assert!(SECTIONS.iter().all(|section| !section.summary.is_empty()));
    }
}
