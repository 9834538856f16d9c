//! `cargo lab peers`: bytegauge compared with programs that do the same work, as ratios with intervals.
//!
//! A section compares one thing and is one row of [`SECTIONS`]; each writes a part of its own in the document, so
//! that one section can be measured again without the others. The product compares: two programs are a session of
//! `bytegauge ab` ([`pairs`]), [`engines`] runs its own rounds. Traffic stays on loopback.

pub mod arm;
mod bench;
mod earlier;
mod engines;
mod iperf3;
mod ours;
mod pairs;
pub mod programs;
mod stream;
mod udp;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::section;
use bench::{BenchEffort, PeerTests};
use pairs::Rivalry;
use xtask::{cargo, setup};

const DOCUMENT: &str = "docs/research/performance.md";
/// The congestion control of both programs of a comparison: bbr, the default of some machines, paces by timers, and its rate
/// depends on when a program calls. The C programs name it in `peer.h`.
const CONGESTION: &str = "cubic";
const HEADER: &str = "# Performance\n\nHow fast bytegauge moves bytes, compared with programs that do nothing else.";

/// One comparison.
struct Section {
    /// Its name on the command line and in the document's markers.
    name: &'static str,
    /// A summary of the comparison.
    summary: &'static str,
    /// Installs what it needs; the reason if that cannot be had.
    prepare: fn(&PeerTests) -> Result<(), String>,
    /// Measures, prints lines for the terminal, and makes the document's part.
    work: SectionWork,
}

/// The sessions of a section.
enum SectionWork {
    /// Pairs: a session of `ab` for each.
    Pairs(&'static Rivalry),
    /// One session of more than two.
    Session(fn(&PeerTests) -> Result<String>),
}

const SECTIONS: &[Section] = &[
    Section {
        name: "stream",
        summary: "a TCP stream compared with iperf3's",
        prepare: |_| setup::package("iperf3", "iperf3"),
        work: SectionWork::Pairs(&stream::COMPARISON),
    },
    Section {
        name: "engines",
        summary: "every engine compared with a minimal C program, one end at a time",
        prepare: engines::prepare,
        work: SectionWork::Session(engines::compared),
    },
    Section {
        name: "udp",
        summary: "datagrams one way compared with iperf3's",
        prepare: |_| setup::package("iperf3", "iperf3"),
        work: SectionWork::Pairs(&udp::COMPARISON),
    },
    Section {
        name: "earlier",
        summary: "servers and loops compared with those of an earlier build (--earlier)",
        prepare: earlier::prepare,
        work: SectionWork::Pairs(&earlier::COMPARISON),
    },
];

/// `cargo lab peers-run`: one run of one program.
///
/// # Errors
/// The program's own error output.
pub fn run_arm(matches: &ArgMatches) -> Result<()> {
    arm::run(matches, |section| match SECTIONS.iter().find(|known| known.name == section).map(|known| &known.work) {
        Some(SectionWork::Pairs(rivalry)) => rivalry.arms,
        Some(SectionWork::Session(_)) | None => &[],
    })
}

/// `cargo lab peers`.
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
        .about("Compare bytegauge with other programs and write docs/research/performance.md")
        .arg(
            Arg::new("section")
                .value_name("SECTION")
                .num_args(0..)
                .value_parser(SECTIONS.iter().map(|section| section.name).collect::<Vec<_>>())
                .hide_possible_values(true)
                .help(format!("Sections to compare, instead of all ({})", names.join("; "))),
        )
        .arg(number("blocks", "8", "Blocks of a session; below 6 there is no interval at 95 %"))
        .arg(number("seconds", "1", "Length of a run"))
        .arg(number("seed", "1", "Seed of the random order"))
        .arg(
            Arg::new("program")
                .long("program")
                .value_name("PATH")
                .value_parser(value_parser!(PathBuf))
                .help("An existing bytegauge binary, instead of building one"),
        )
        .arg(
            Arg::new("earlier")
                .long("earlier")
                .value_name("PATH")
                .value_parser(value_parser!(PathBuf))
                .help("The binary of an earlier build, for section `earlier`"),
        )
        .arg(
            number("rounds", "12", "Rounds of a row of section `engines`; 0 only writes the document")
                .value_parser(value_parser!(u64).range(..=10_000)),
        )
        .arg(number("window", "300", "Length of a trial of section `engines`, milliseconds"))
        .arg(
            Arg::new("rows")
                .long("rows")
                .value_name("WORDS")
                .help("Only rows of section `engines` with all these words in their names: \"reader tcp\""),
        )
        .arg(Arg::new("quick").long("quick").action(ArgAction::SetTrue).help("Smoke test: few settings, one block"))
        .arg(Arg::new("no-write").long("no-write").action(ArgAction::SetTrue).help("Print the figures, write no file"))
}

/// Compares, prints, writes.
///
/// # Errors
/// When a program is missing or a run fails.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let number = |name: &str| matches.get_one::<u64>(name).copied().with_context(|| format!("--{name} has a default"));
    let effort = if matches.get_flag("quick") {
        BenchEffort::QUICK
    } else {
        BenchEffort { blocks: number("blocks")?, seconds: number("seconds")?, quick: false }
    };
    let mut bench = PeerTests::new(matches.get_one::<PathBuf>("program").cloned(), effort, number("seed")?)?;
    bench.rounds = number("rounds")?;
    bench.window_ms = number("window")?;
    bench.rows = matches.get_one::<String>("rows").cloned();
    bench.earlier = matches.get_one::<PathBuf>("earlier").cloned();
    let asked: Vec<&String> = matches.get_many("section").into_iter().flatten().collect();
    let chosen = SECTIONS.iter().filter(|section| asked.is_empty() || asked.iter().any(|name| *name == section.name));
    let mut reasons = Vec::new();
    for section in chosen {
        if let Err(reason) = (section.prepare)(&bench) {
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

fn compared(section: &Section, bench: &PeerTests) -> Result<String> {
    let text = match &section.work {
        SectionWork::Pairs(rivalry) => pairs::compared(rivalry, section.name, bench),
        SectionWork::Session(run) => run(bench),
    };
    text.with_context(|| section.name.to_owned())
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
