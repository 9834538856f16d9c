//! Options that several commands have, and the functions that make one.
//!
//! The help of an option starts with a noun or a verb and fits in 60 characters. Details are in the manual page and in
//! docs/factors.md.

use std::ffi::OsString;
use std::path::PathBuf;

use bytegauge_model::name_tables::ENDS;
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, value_parser};

/// An option with a value. A negative number is one: what reads the value names what is wrong with it.
pub fn valued(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help).allow_negative_numbers(true)
}

/// An option whose value is a path.
pub fn path(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    valued(name, value, help).value_parser(value_parser!(PathBuf))
}

/// An argument without a name on the command line.
pub fn positional(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).value_name(value).help(help)
}

/// The words after `--`.
pub fn words(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    positional(name, value, help).num_args(0..).last(true)
}

/// An option without a value.
pub fn switch(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

/// An option that takes one of some formats.
pub fn formats(values: &'static [&'static str]) -> Arg {
    valued("format", "FORMAT", "Output format").value_parser(names(values.iter().copied())).default_value(values[0])
}

/// An option with details.
pub trait Details {
    /// The same option with details for the manual page.
    fn details(self, text: &str) -> Arg;
}

impl Details for Arg {
    fn details(self, text: &str) -> Arg {
        let help = self.get_help().map(ToString::to_string).unwrap_or_default();
        self.long_help(format!("{help}; {text}"))
    }
}

pub fn store() -> Arg {
    let store = valued("store", "PATH", "Store of results [default: in ~/.local/share/bytegauge]");
    store.value_parser(value_parser!(OsString)).global(true).hide_short_help(true)
}

pub fn session() -> Arg {
    positional("session", "ID", "Session number [default: the latest]").value_parser(session_number)
}

/// A session's number; a file of results is a likely mistake.
fn session_number(given: &str) -> Result<i64, String> {
    given.parse().map_err(|_| {
        "a session has a number, which `bytegauge report list` lists; a file of results is named by --store FILE"
            .to_owned()
    })
}

pub fn full() -> Arg {
    switch("full", "Print every test with its table, map, costs and notes")
}

pub fn group() -> Arg {
    valued("group", "NAME", "Print one test, such as g1").conflicts_with("format")
}

pub fn interval() -> Arg {
    valued("interval", "TIME", "Print the course of the last trial in steps, such as 1s")
        .details("per connection and in sum, if it took a second or more")
}

pub fn strict() -> Arg {
    switch("strict", "Exit with 3 if a result is inconclusive, 4 without intervals")
}

pub fn fit_max() -> Arg {
    valued("fit-max", "SIZE", "Largest size in the fits of cost per call and byte")
}

pub fn objective() -> Arg {
    valued("objective", "WHAT", "Compare by time, cpu, latency, p99, gap-p99 or urgent [default: time]")
        .value_parser(["time", "cpu", "latency", "p99", "gap-p99", "urgent"])
        .details(
            "cpu: CPU time of the end that your program is, the default at a fixed load (--rate); latency: mean \
             time of a call, the default at a fixed load over an emulated link; gap-p99: pauses between \
             the parts of a reply, the default with --response-gap; urgent: mean delay of urgent messages, the default with \
             --urgent",
        )
}

pub fn seed() -> Arg {
    let seed = valued("seed", "N", "Seed of all random choices [default: from the clock]");
    seed.value_parser(value_parser!(u64)).details("the store keeps it")
}

pub fn ends() -> Arg {
    valued("ends", "KIND", "Run the ends as threads or as processes")
        .value_parser(names(ENDS.iter().map(|row| row.name)))
}

/// Takes one of some names.
pub fn names(names: impl IntoIterator<Item = &'static str>) -> PossibleValuesParser {
    PossibleValuesParser::new(names)
}

pub fn verify() -> Arg {
    switch("verify", "Check every byte at the receiver")
}

pub fn quiet() -> Arg {
    switch("quiet", "Print only the report").short('q')
}

pub fn output() -> Arg {
    path("output", "FILE", "Output file [default: standard output]").short('o')
}
