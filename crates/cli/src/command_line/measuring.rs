//! The options of all commands that measure, and of those that measure a program.

use bytegauge_model::factor::{self, FACTORS, Factor, HelpSection, SECTIONS};
use bytegauge_model::level::LevelKind;
use bytegauge_model::name_tables::PROFILES;
use bytegauge_model::{WORKLOADS, Workload};
use bytegauge_traffic::PLANTED_FAULTS;
use clap::{Arg, Command};

use super::option::{self, Details, path, switch, valued};
use crate::measure::FAULTS;

/// Adds the factors of one workload or of all, and what all commands that measure have in common.
pub fn measuring(command: Command, workload: Option<Workload>) -> Command {
    let has_path = workload.is_none_or(Workload::has_path);
    let command = factor_args(workload).into_iter().fold(command, Command::arg);
    let command = match workload.filter(|_| has_path) {
        Some(workload) => with_names(command, workload),
        None => command,
    };
    let command = if has_path { command.next_help_heading(HOSTS).args(hosts()) } else { command };
    let command = command.next_help_heading("Time").args(time(has_path));
    let command = command.next_help_heading("Design").args(design());
    command.next_help_heading("Output").args(output(has_path)).args(faults())
}

/// Adds the names of levels to the full help of a workload; the help of `run` has the plans.
fn with_names(command: Command, workload: Workload) -> Command {
    let after = command.get_after_help().map_or_else(String::new, |after| format!("{after}\n\n"));
    command.after_long_help(after + &level_names(workload))
}

/// The names of engines, relays and profiles, a line each.
fn level_names(workload: Workload) -> String {
    let of_workload = |name: &str| {
        let profile = PROFILES.iter().find(|profile| profile.name == name);
        profile.is_none_or(|profile| profile.workload == workload)
    };
    // One line for all that only their own document describes.
    let is_listed = |name: &str| !name.ends_with(":sqpoll") && !name.starts_with("go-") && of_workload(name);
    let list = |(heading, factor): &(&str, &str)| {
        let rows = factor::listed(factor).into_iter().filter(|(name, _)| is_listed(name));
        let lines: Vec<String> = rows.map(|(name, summary)| format!("  {name:<18} {summary}")).collect();
        format!("{heading}:\n{}", lines.join("\n"))
    };
    NAMED.iter().map(list).collect::<Vec<_>>().join("\n\n")
}

/// The factors whose names the help explains, under their headings.
const NAMED: [(&str, &str); 3] = [
    ("Engines (uring is uring:multishot; with :sqpoll a thread of the kernel submits)", "server_engine"),
    ("Relays (also programs: cmd:, addr:, go-copy, …: docs/relays.md)", "relay"),
    ("Profiles", "profile"),
];

/// The options of the agents that `--host` and `--relay-host` name.
fn hosts() -> [Arg; 1] {
    let details = "`bytegauge agent --init --key-file FILE` makes it; both hosts have the same file";
    [path("key-file", "FILE", "Key of --host and --relay-host").details(details)]
}

fn time(has_path: bool) -> [Arg; 8] {
    [
        valued("time", "TIME", "Time until the first analysis, such as 60s or 5m")
            .details("--until and --resume measure on until the next one"),
        valued("until", "conclusive", "Measure on until every result is conclusive")
            .value_parser(["conclusive"])
            .hide_possible_values(true)
            .details("or until no further analysis could change a result"),
        valued("max-time", "TIME", "Most measured time with --until").requires("until").details(
            "the first analysis is always made, and no further one begins that would end later; time before --resume counts, \
             pauses do not",
        ),
        valued("resume", "ID", "Measure on until the next analysis of a session")
            .num_args(0..=1)
            .default_missing_value("latest")
            .details(
                "ID is a session number; without it, the latest session of this plan; `bytegauge run --resume ID` takes any \
                 session",
            ),
        valued("blocks", "N", "Blocks until the first analysis, instead of --time")
            .details("in a block every option is measured once, in random order; intervals need 6 or more"),
        valued("analyses", "N", "Planned analyses of the session [default: 3]")
            .details("each after twice the blocks of the one before; their intervals hold at 95 % together"),
        valued("long-trials", "SHARE", "Share of the time for the long-trial check, or off [default: 10%]")
            .details("it repeats the result with trials of 250 ms"),
        valued("host-wait", "TIME", "Time to wait for a lost host [default: 60s]").hide(!has_path),
    ]
}

fn design() -> [Arg; 7] {
    [
        valued("finalists", "N", "Confirm only the best N options, or all")
            .details("a screening chooses them; all levels that you name are confirmed unless this is given"),
        valued("margin", "SHARE", "Difference from the best that is acceptable [default: 5%]")
            .details("an option within it is recommended as good as the best"),
        option::seed(),
        option::ends(),
        option::verify().details("slower: the rates include the check"),
        switch("half-load", "Pause after each trial for as long as it took")
            .details("leaves the machine to other programs for half of the time, with half as many trials"),
        switch("dry-run", "Print the plan and its time, measure nothing"),
    ]
}

fn output(has_path: bool) -> Vec<Arg> {
    let mut args = vec![
        option::formats(&["text", "json", "csv", "markdown"]),
        option::full(),
        option::group(),
        option::interval(),
        switch("json-stream", "Print a JSON line per event, the report last").conflicts_with("format"),
        valued("save", "NAME", "Save the session under a name for --against")
            .conflicts_with("resume")
            .details("several sessions may have the same name"),
        valued("against", "NAME", "Compare with saved sessions, exit with 1 if worse")
            .conflicts_with("json-stream")
            .details("those of a name, or those up to a session number"),
        option::strict(),
        option::quiet(),
        switch("no-page", "Keep no page of the session")
            .details("by default, the latest 20 pages are next to the store"),
        option::fit_max(),
        option::objective(),
    ];
    if has_path {
        let flamegraph = path("flamegraph", "DIR", "Write a flame graph of each relay, sampled with perf");
        args.push(flamegraph.details("in a trial of its own after the session, with the folded stacks"));
    }
    args
}

/// Options of tests.
fn faults() -> Vec<Arg> {
    let plant = valued("plant", "FAULT", "").hide(true).help(format!("Inject a fault: {FAULTS}"));
    let grace = valued("grace", "TIME", "How late an end may be before it counts as stalled").hide(true);
    if PLANTED_FAULTS { vec![plant, grace] } else { vec![grace] }
}

/// Adds the options of a program of the user's.
pub fn with_program(command: Command) -> Command {
    command
        .arg(option::words("command", "COMMAND", "Command to measure"))
        .next_help_heading("Program")
        .arg(valued("metric", "METRIC", "Metric: wall, cpu, bytes:N, regex:RE, counter:NAME, cmd:CMD").details(
            "wall: time of a run (default); cpu: CPU time of a run and its server; bytes:N: a run moves N bytes; regex:RE: a \
             rate that it prints; time:RE: seconds that it prints; counter:NAME: events of the kernel \
             (TcpExt.TCPBacklogDrop), fewer are better; cmd:CMD, cmd-time:CMD, cmd-total:CMD: the last number that another command \
             prints, as a rate, as seconds, or as a total that grows; prom:URL#NAME: a counter of Prometheus, read by curl",
        ))
        .arg(
            valued("prepare", "CMD", "Shell command before each run, not measured")
                .details("to drop or fill caches, or to remove files"),
        )
        .arg(valued("start", "CMD", "Shell command that starts a server for each run"))
        .arg(valued("ready", "SIGN", "Sign of a ready server: tcp:PORT, unix:PATH, regex:RE"))
        .arg(valued("load", "CMD", "Shell command to measure, instead of COMMAND"))
        .arg(valued("stop", "SIGNAL", "Signal that stops the server [default: TERM]"))
}

/// Hides options that do not apply to a program: its bytes are not bytegauge's, it is a process anyway, and has trials of one length.
pub fn hide_what_programs_lack(arg: Arg) -> Arg {
    let hidden = ["ends", "verify", "long-trials", "fit-max"].contains(&arg.get_id().as_str());
    if hidden { arg.hide(true) } else { arg }
}

/// The heading of options for other hosts and links.
const HOSTS: &str = HelpSection::Hosts.title();

/// Options for factors, one for each flag: two factors of different workloads may share one. In `stream` and `call` an option has
/// the meaning of the workload; in `run`, which learns the workload from the plan, two meanings are described together.
pub fn factor_args(workload: Option<Workload>) -> Vec<Arg> {
    let has = |factor: &&Factor| workload.is_none_or(|workload| factor.is_in(workload));
    let mut flags: Vec<(String, Vec<&'static Factor>)> = Vec::new();
    for (section, _) in SECTIONS {
        for factor in FACTORS.iter().filter(|factor| factor.section == *section).filter(has) {
            match flags.iter_mut().find(|(flag, _)| *flag == factor.flag()) {
                Some((_, factors)) => factors.push(factor),
                None => flags.push((factor.flag(), vec![factor])),
            }
        }
    }
    let mut args: Vec<Arg> = flags.into_iter().map(|(flag, factors)| factor_arg(flag, &factors, workload)).collect();
    if workload == Some(Workload::Call) {
        let help = "Set --server-engine and --client-engine";
        args.push(valued("engine", "LIST", help).help_heading(HelpSection::Engines.title()));
    }
    args
}

fn factor_arg(flag: String, factors: &[&'static Factor], workload: Option<Workload>) -> Arg {
    let default_of = |factor: &Factor| {
        let rows = WORKLOADS.iter().filter(|row| workload.is_none_or(|workload| workload == row.value));
        let defaults = rows.filter_map(|row| Some((row.name, factor.default_in(row.value)?)));
        let shown = |(name, default): (&str, &str)| match workload {
            Some(_) => factor.shown_default(default),
            None => format!("{} ({name})", factor.shown_default(default)),
        };
        defaults.map(shown).collect::<Vec<_>>().join(", ")
    };
    let long_of = |factor: &&Factor| {
        let details = if factor.details.is_empty() { String::new() } else { format!("; {}", factor.details) };
        format!("{}{details} [default: {}]", factor.summary, default_of(factor))
    };
    let long: Vec<String> = factors.iter().map(long_of).collect();
    // Clap needs names that live as long as the program; each is made once.
    let flag: &'static str = Box::leak(flag.into_boxed_str());
    let arg = valued(flag, "LIST", factors[0].summary).long_help(long.join("\nor: "));
    let arg = arg.help_heading(factors[0].section.title());
    // A switch that is off by default is turned on by its name alone.
    match factors.iter().all(|factor| matches!(factor.kind, LevelKind::Switch { auto: false })) {
        true => arg.num_args(0..=1).default_missing_value("on"),
        false => arg,
    }
}
