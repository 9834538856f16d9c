//! The command line, made from the tables: a factor that is declared in `model` is a flag here.
//!
//! `stream` and `call` have the flags of their workload. `run` learns the workload from the plan, so it has the flags
//! of all, and what one means is settled when the plan is known ([`crate::args::factors`]).

use std::ffi::OsString;
use std::path::PathBuf;

use bytegauge_model::catalog::ENDS;
use bytegauge_model::{WORKLOADS, Workload};
use bytegauge_plan::ready;
use bytegauge_store::FORMATS;
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Command, value_parser};

use crate::measure::PLANTS;
use crate::selftest::SCALES;
use crate::{agent, exit, factor_flags, serve};

/// The formats of a report.
pub const REPORT_FORMATS: [&str; 4] = ["text", "json", "csv", "markdown"];

/// The formats of a stored report: those, and what other programs read.
pub const STORED_FORMATS: [&str; 7] = ["text", "json", "csv", "markdown", "go-bench", "openmetrics", "junit"];

/// The formats of an export.
pub const EXPORT_FORMATS: [&str; 2] = ["jsonl", "csv"];

/// What a table needs to become a session.
const IMPORT_HELP: &str = "A row of a table is a trial. Of a stream it says the transport, read_size, and bytes with \
duration_sec or throughput_mib_s; of calls the transport, request, and calls_per_second or completed_calls with \
duration_sec. Headings such as these, and names of factors (rcvbuf, flows, server_engine, ...), are recognised; --map \
names the others, or gives every row one value:

  bytegauge import table.csv --map transport==tcp,request==512,calls_per_second=cps.mean
  curl -s https://example.org/table.csv | bytegauge import - --map transport==unix";

/// What is not to be seen from the flags.
const CHECK_HELP: &str =
    "Every run is one trial. Values are tried in random order, block by block, with one of them twice, \
and compared within blocks; --values recommended tries those that the latest stored answer names.

  bytegauge check --values 4K..1M --default 512 -- dd if=/dev/zero of=/dev/null bs={value} count={count:256M}
  bytegauge check --values 16K,64K,256K --default 16K --metric bytes:1G \
    --start './server --buffer {value}' --ready tcp:7000 -- ./client --bytes 1G 127.0.0.1:7000

{value} may stand several times; {count:256M} is 256 MiB divided by the value. Programs have no terminal and no input; \
what they print is read only where --metric or --ready look at it. The command is stored as it is given: \
`bytegauge export --redact` leaves it out.";

/// What `ab` compares.
const AB_HELP: &str =
    "Both are visited in every block, in random order, one of them twice; what is reported holds at 95 %.

  bytegauge ab --a 'run:stream --read-size 4K' --b 'run:stream --read-size 64K' --until conclusive
  bytegauge ab --a 'cmd:./old --input data' --b 'cmd:./new --input data' --margin 2% --time 30s
  bytegauge ab --a 'start:./old 7000' --b 'start:./new 7000' --ready tcp:7000 -- ./client 7000
  bytegauge ab --a addr:10.0.0.1:7000 --b addr:10.0.0.2:7000

What a workload's flags do not say is alike on both sides, and told. Exit code: 0 b is as good or better, or it is not \
known (3 with --strict), 1 b is worse by more than --margin, 5 a side could not be measured.";

/// What sessions are compared.
const COMPARE_HELP: &str = "A number stands for that session and the older ones of the same plan on this machine, which tell \
how far sessions differ by themselves; a name for the sessions saved under it. Nothing is claimed with fewer than five before; \
`bytegauge ab` needs one session. Exit code 5: not comparable, since the sessions ran different commands or confirmed nothing in \
common.

  for i in 1 2 3 4 5; do bytegauge run buffer-size --save main; done
  bytegauge run buffer-size --against main
  bytegauge compare main 12";

/// What looking at a program means for it.
const OBSERVE_HELP: &str = "The program is traced for a tenth of a second at a time and left alone between; while it is traced it is \
slower, and how much is told. Nothing of it is changed, and what it sends is not read. It is another's unless you are root: \
what the system refuses is said with the next step.

  bytegauge observe --pid $(pgrep -o nginx)
  bytegauge observe --time 10s -- dd if=/dev/zero of=/dev/null bs=64K count=100K

What is started here has no input, prints to standard error, and is told to leave (TERM) when the time is over.";

/// The whole command.
pub fn command() -> Command {
    Command::new("bytegauge")
        .version(clap::crate_version!())
        .about("Which socket settings should your program use on this machine, what do they cost, and when does the answer stop holding?")
        .after_help(exit::help())
        .arg(store_arg())
        .subcommands(WORKLOADS.iter().map(|row| {
            let command = Command::new(row.name).about(row.about);
            match row.value {
                Workload::Check => measuring(checking(command), Some(row.value)).mut_args(hide_what_programs_lack),
                _ => measuring(command, Some(row.value)),
            }
        }))
        .subcommand(ab())
        .subcommand(measuring(
            Command::new("relay")
                .about("Relays between two sockets: which way to pass bytes on, for bulk or for messages")
                .arg(choice("as", &["stream", "call"]).value_name("WORKLOAD").default_value("stream").help(
                    "What goes through: a stream (the plan relay-copy), or calls (relay-calls)",
                )),
            None,
        ))
        .subcommand(measuring(Command::new("run").about("Run a plan by name, or from a TOML file").arg(
            Arg::new("plan").value_name("PLAN").required_unless_present("resume").help(plan_help()),
        ).arg(
            Arg::new("full-grid")
                .long("full-grid")
                .action(ArgAction::SetTrue)
                .help("Of buffer-size: ask for every size, reader and place, as the plan buffer-grid does, in eight minutes"),
        ), None))
        .subcommand(
            Command::new("survey")
                .about("The ready plans in small, one after another, in five minutes: what to know of this machine first")
                .arg(valued("time", "TIME", "Time for all of it [default: 5m]"))
                .arg(valued("only", "PLANS", "Some of them alone, such as buffer-size,tcp-echo"))
                .arg(seed_arg())
                .arg(Arg::new("half-load").long("half-load").action(ArgAction::SetTrue).help("Rest after every trial as long as it took"))
                .arg(Arg::new("dry-run").long("dry-run").action(ArgAction::SetTrue).help("Print what would be measured, and for how long"))
                .arg(Arg::new("quiet").long("quiet").short('q').action(ArgAction::SetTrue).help("No progress and no page, only the answers"))
                .arg(no_page_arg()),
        )
        .subcommand(
            Command::new("doctor")
                .about("What of this machine disturbs measurements or slows sockets, each with the command that mends it")
                .arg(choice("format", &["text", "json"]).default_value("text").help("How to print it"))
                .arg(valued("time", "TIME", "How long to look at what the host and other programs take of the CPUs [default: 3s]"))
                .arg(strict_arg().help("Exit with 3 if there is something to mend")),
        )
        .subcommand(observing())
        .subcommand(serve::command())
        .subcommand(agent::command())
        .subcommand(watching())
        .subcommand(Command::new("sessions").about("List what was measured"))
        .subcommand(
            Command::new("report")
                .about("Print a session again, from the store alone, or make a page of it")
                .arg(session_arg().num_args(0..).help("The sessions' numbers, several for --html or --across [default: the latest]"))
                .arg(
                    Arg::new("across")
                        .long("across")
                        .action(ArgAction::SetTrue)
                        .conflicts_with("html")
                        .help("What holds over the sessions named, or over all of this machine with the same plan"),
                )
                .arg(choice("format", &STORED_FORMATS).default_value("text").help(
                    "text, or one document: json, csv, markdown, go-bench (for benchstat), openmetrics, junit",
                ))
                .arg(html_arg())
                .arg(open_arg())
                .arg(full_arg())
                .arg(interval_arg())
                .arg(group_arg())
                .arg(strict_arg())
                .arg(fit_max_arg()),
        )
        .subcommand(
            Command::new("compare")
                .about("Stored sessions before a change and after it: is anything worse? Exit code 1 where it is")
                .after_help(COMPARE_HELP)
                .arg(Arg::new("before").value_name("BEFORE").required(true).help("A session's number, or a name of --save"))
                .arg(Arg::new("after").value_name("AFTER").required(true).help("The same of what came after"))
                .arg(valued("margin", "SHARE", "How much longer the same work may take before it is worse [default: the plan's]"))
                .arg(choice("format", &["text", "json"]).default_value("text").help("How to print it"))
                .arg(strict_arg().help("Exit with 3 if it could not be decided"))
                .arg(fit_max_arg().hide(true)),
        )
        .subcommand(
            Command::new("export")
                .about("Write a session's raw trials")
                .arg(session_arg())
                .arg(choice("format", &EXPORT_FORMATS).default_value("jsonl").help("jsonl (can be imported again) or csv"))
                .arg(
                    Arg::new("redact")
                        .long("redact")
                        .action(ArgAction::SetTrue)
                        .help("Leave out the words of programs that were checked, and what they printed"),
                )
                .arg(Arg::new("output").long("output").short('o').value_name("FILE").help("Where to [default: standard output]")),
        )
        .subcommand(
            Command::new("import")
                .about("Bring in trials: our JSON lines, a CSV, or the text tables of buffer-size benchmarks")
                .after_help(IMPORT_HELP)
                .arg(Arg::new("file").value_name("FILE").required(true).help("What to read; - is standard input"))
                .arg(
                    Arg::new("map").long("map").value_name("OURS=THEIRS,…").action(ArgAction::Append)
                        .help("Which CSV column is which factor or number: read_size=read_buffer_bytes,…"),
                )
                .arg(
                    Arg::new("from").long("from").value_name("FORMAT")
                        .value_parser(PossibleValuesParser::new(FORMATS.iter().map(|row| row.name)))
                        .help("The file's format, if it cannot be told by its first line"),
                )
                .arg(Arg::new("name").long("name").value_name("NAME").help("The session's name [default: the file's]")),
        )
        .subcommand(
            Command::new("selftest")
                .about("Check the statistics and the harness on this machine, in a minute or two")
                .arg(seed_arg())
                .arg(choice("format", &["text", "json"]).default_value("text").help("How to print the table"))
                .arg(
                    Arg::new("scale")
                        .long("scale")
                        .value_name("SCALE")
                        .value_parser(PossibleValuesParser::new(SCALES.map(|(name, _)| name)))
                        .default_value("minute")
                        .hide(true)
                        .help("How much to simulate and to measure"),
                ),
        )
        .subcommand(
            Command::new("completions").about("Print completions for a shell").arg(
                Arg::new("shell").required(true).value_parser(value_parser!(clap_complete::Shell)).value_name("SHELL"),
            ),
        )
        .subcommand(Command::new("man").about("Print the manual page"))
        .subcommand(
            Command::new("end")
                .about("Serve one end of a path on standard input and output")
                .arg(Arg::new("role").value_name("ROLE").help("Its task, shown in lists of processes"))
                .arg(Arg::new("words").num_args(0..).last(true).value_parser(value_parser!(OsString)))
                .hide(true),
        )
}

/// A program that is looked at.
fn observing() -> Command {
    Command::new("observe")
        .about("What a running program does with its sockets, pipes and files: sizes, peers, buffers; and the question that fits")
        .after_help(OBSERVE_HELP)
        .arg(
            Arg::new("pid")
                .long("pid")
                .value_name("PID")
                .value_parser(value_parser!(u32).range(1..))
                .help("The process, with its threads and all that it has started"),
        )
        .arg(
            Arg::new("command")
                .value_name("COMMAND")
                .num_args(0..)
                .last(true)
                .conflicts_with("pid")
                .help("A program to start and look at, instead of --pid"),
        )
        .arg(Arg::new("time").long("time").value_name("TIME").help("How long to look [default: 5s]"))
        .arg(Arg::new("sample").long("sample").value_name("TIME").help("How long it is traced at a time [default: 100ms]"))
        .arg(
            Arg::new("output")
                .long("output")
                .short('o')
                .value_name("FILE")
                .help("Where the plan goes [default: observed-PROGRAM.toml, here]"),
        )
        .arg(
            Arg::new("format")
                .long("format")
                .value_name("FORMAT")
                .value_parser(["text", "json"])
                .default_value("text")
                .help("How to print what was seen"),
        )
}

/// A session that goes on, on a page.
fn watching() -> Command {
    Command::new("watch")
        .about("Look at a session while it goes on: its page on loopback, until it ends")
        .arg(session_arg().help("The session's number [default: the latest that is being measured]"))
        .arg(
            Arg::new("port")
                .long("port")
                .value_name("PORT")
                .value_parser(value_parser!(u16))
                .default_value("0")
                .help("Port of 127.0.0.1; 0: any that is free"),
        )
        .arg(Arg::new("open").long("open").action(ArgAction::SetTrue).help("Show it in the browser"))
}

/// Two of anything. What is said of programs means nothing for two workloads, which is refused there.
fn ab() -> Command {
    let command = Command::new("ab")
        .about("Two of anything, interleaved: is the second worse, better, or as good? Exit code 1 where it is worse")
        .arg(valued("a", "SIDE", "What there is now: run:WORKLOAD FLAGS, cmd:COMMAND, start:SERVER or addr:HOST:PORT"))
        .arg(valued("b", "SIDE", "What may take its place, of the same kind"));
    measuring(with_program(command), Some(Workload::Check))
        .after_help(AB_HELP)
        .mut_args(hide_what_programs_lack)
        .mut_arg("values", |arg| arg.hide(true))
        .mut_arg("save", |arg| arg.hide(true))
        .mut_arg("against", |arg| arg.hide(true))
        .mut_arg("margin", |arg| {
            arg.help("How much longer b may take for the same work before it is worse [default: 5%]")
        })
        .mut_arg("strict", |arg| arg.help("Exit with 3 if it could not be decided"))
        .mut_arg("until", |arg| {
            arg.value_parser(["conclusive"]).help("Go on from judgement to judgement until it is decided")
        })
}

/// A program over values of one of its settings.
fn checking(command: Command) -> Command {
    with_program(command)
        .after_help(CHECK_HELP)
        .arg(valued("default", "VALUE", "What the program has now: the gain over it is told"))
        .arg(valued(
            "recommendation",
            "ID",
            "Try what that session named as well, and tell whether it holds here (or: latest)",
        ))
}

/// Of a program no byte of ours is compared, it is a process anyway, and no trial of it is longer than another.
fn hide_what_programs_lack(arg: Arg) -> Arg {
    let hidden = ["ends", "verify", "long-trials", "fit-max"].contains(&arg.get_id().as_str());
    if hidden { arg.hide(true) } else { arg }
}

/// The flags of a program of the user's.
fn with_program(command: Command) -> Command {
    command
        .arg(
            Arg::new("command")
                .value_name("COMMAND")
                .num_args(0..)
                .last(true)
                .help("The command that is measured, with {value} wherever the value goes"),
        )
        .arg(valued("metric", "METRIC", "wall (time of a run), bytes:N (a run moves N), regex:RE (a rate that it prints), time:RE (seconds that it prints), counter:NAME (fewer is better: TcpExt.TCPBacklogDrop, page-faults) [default: wall]"))
        .arg(valued("prepare", "CMD", "Run before every run, unmeasured, by a shell: drop or fill caches, remove files"))
        .arg(valued("start", "CMD", "A server, started before and stopped after every run, by a shell"))
        .arg(valued("ready", "SIGN", "When the server can be talked to: tcp:PORT, unix:PATH, or regex:RE that it prints"))
        .arg(valued("load", "CMD", "The command that is measured, as one text for a shell, instead of the words after --"))
        .arg(valued("stop", "SIGNAL", "How the server is told to leave [default: TERM]"))
}

/// Adds what all commands that measure have in common, and the factors of one workload or of all.
fn measuring(command: Command, workload: Option<Workload>) -> Command {
    let command = command.next_help_heading("Factors (every one takes a list or a range)");
    let command = factor_flags::args(workload).into_iter().fold(command, Command::arg);
    command
        .next_help_heading("Design")
        .arg(valued("time", "TIME", "Time until the first judgement, such as 60s or 5m; --until or --resume go on to the next"))
        .arg(valued("blocks", "N", "Confirmation blocks until the first judgement, instead of as many as the budget allows"))
        .arg(valued(
            "analyses",
            "N",
            "Judgements that the session may have, each after twice the blocks; 1 uses all of the 95 % [default: 3]",
        ))
        .arg(
            Arg::new("until")
                .long("until")
                .value_name("WHAT")
                .value_parser(["conclusive"])
                .help("Go on from judgement to judgement until all is proven that can be"),
        )
        .arg(
            valued("max-time", "TIME", "Begin no further judgement that would end after so much measured time of the session (what was measured before --resume counts, pauses do not)")
                .requires("until"),
        )
        .arg(valued(
            "long-trials",
            "SHARE",
            "Share of the time in which the answer is compared once more in trials of 250 ms; off for none [default: 10%]",
        ))
        .arg(valued("margin", "SHARE", "What counts as good enough: within 5% of the best"))
        .arg(seed_arg())
        .arg(
            Arg::new("ends")
                .long("ends")
                .value_name("KIND")
                .value_parser(PossibleValuesParser::new(ENDS.iter().map(|row| row.name)))
                .help("Both ends as threads of one process, or as two processes"),
        )
        .args(workload.is_none_or(Workload::has_path).then(|| {
            valued("key-file", "FILE", "The key of --host and --relay-host, which `bytegauge agent --init` made: the same file on both hosts")
                .value_parser(value_parser!(PathBuf))
        }))
        .arg(
            valued("host-wait", "TIME", "How long to wait for a lost far host before the session ends [default: 60s]")
                .hide(!workload.is_none_or(Workload::has_path)),
        )
        .arg(
            Arg::new("verify")
                .long("verify")
                .action(ArgAction::SetTrue)
                .help("Check every byte at the sink (slower; the numbers include the checking)"),
        )
        .arg(
            Arg::new("half-load")
                .long("half-load")
                .action(ArgAction::SetTrue)
                .help("Rest after every trial as long as it took, for other programs' sake (half as many trials in a budget)"),
        )
        .arg(
            Arg::new("dry-run")
                .long("dry-run")
                .action(ArgAction::SetTrue)
                .help("Print the plan: cells, blocks, time, what was collapsed or refused"),
        )
        .arg(
            Arg::new("resume")
                .long("resume")
                .value_name("ID")
                .num_args(0..=1)
                .default_missing_value("latest")
                .help("Go on with a session to its next judgement: the latest of this plan, or by its number (`run --resume ID` \
                       goes on with any)"),
        )
        .next_help_heading("Output")
        .arg(valued("save", "NAME", "Keep the session under a name, beside others of that name, to be compared with later ones").conflicts_with("resume"))
        .arg(valued("against", "NAME", "Compare with the sessions of a name (or up to a number); exit with 1 if it is worse"))
        .arg(format_arg())
        .arg(full_arg())
        .args(workload.is_none_or(Workload::has_path).then(|| {
            valued("flamegraph", "DIR", "Sample each relay with perf, after the session in a trial of its own: a flame graph and its folded stacks")
                .value_parser(value_parser!(PathBuf))
        }))
        .arg(interval_arg())
        .arg(group_arg())
        .arg(
            Arg::new("json-stream")
                .long("json-stream")
                .action(ArgAction::SetTrue)
                .conflicts_with("format")
                .help("Print a JSON line for every event, the report as the last"),
        )
        .arg(strict_arg())
        .arg(fit_max_arg())
        .arg(
            Arg::new("quiet")
                .long("quiet")
                .short('q')
                .action(ArgAction::SetTrue)
                .help("No plan, no progress and no page, only the report"),
        )
        .arg(no_page_arg())
        .arg(
            Arg::new("plant")
                .long("plant")
                .value_name("FAULT")
                .hide(true)
                .help(format!("Plant a fault: {PLANTS}, after CELL@ for one cell")),
        )
        .arg(
            Arg::new("grace")
                .long("grace")
                .value_name("TIME")
                .hide(true)
                .help("How late an end may be before it counts as stalled"),
        )
}

fn no_page_arg() -> Arg {
    Arg::new("no-page")
        .long("no-page")
        .action(ArgAction::SetTrue)
        .help("Keep no page of it; else the latest 20 stay beside the store, and the last line says where")
}

fn store_arg() -> Arg {
    Arg::new("store")
        .long("store")
        .value_name("PATH")
        .value_parser(value_parser!(OsString))
        .global(true)
        .help("The result store [default: $XDG_DATA_HOME/bytegauge/results.db]")
}

fn session_arg() -> Arg {
    Arg::new("session")
        .value_name("ID")
        .value_parser(value_parser!(i64))
        .help("The session's number [default: the latest]")
}

fn format_arg() -> Arg {
    choice("format", &REPORT_FORMATS).default_value("text").help("text, or one document of json, csv or markdown")
}

fn html_arg() -> Arg {
    Arg::new("html")
        .long("html")
        .value_name("FILE")
        .conflicts_with_all(["format", "full", "group"])
        .help("Write a page with every figure: one file that needs no network")
}

fn open_arg() -> Arg {
    Arg::new("open").long("open").action(ArgAction::SetTrue).requires("html").help("Show the page in the browser")
}

fn full_arg() -> Arg {
    Arg::new("full")
        .long("full")
        .visible_alias("all")
        .action(ArgAction::SetTrue)
        .help("Behind the answer: every group with its table, map, costs and notes")
}

fn group_arg() -> Arg {
    valued("group", "NAME", "One group alone, such as g1, with its table, map, costs and notes")
        .conflicts_with("format")
}

fn interval_arg() -> Arg {
    valued("interval", "TIME", "How the last trial went over time, per flow and in sum, for trials of a second or more")
}

fn strict_arg() -> Arg {
    Arg::new("strict")
        .long("strict")
        .action(ArgAction::SetTrue)
        .help("Exit with 3 if not all is proven, 4 if some group has not even a bound")
}

fn fit_max_arg() -> Arg {
    valued("fit-max", "SIZE", "Largest size in the fits of what a call and a byte cost")
}

fn seed_arg() -> Arg {
    valued("seed", "N", "Seed of every random choice [default: from the clock, kept in the store]")
        .value_parser(value_parser!(u64))
}

fn valued(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

fn choice(name: &'static str, values: &'static [&'static str]) -> Arg {
    Arg::new(name).long(name).value_name("FORMAT").value_parser(PossibleValuesParser::new(values))
}

fn plan_help() -> String {
    let names: Vec<&str> = ready::PLANS.iter().map(|(name, _)| *name).collect();
    format!("{}, or a TOML file", names.join(", "))
}

#[cfg(test)]
mod tests {
    use bytegauge_model::factor;

    use super::*;
    use crate::args;

    #[test]
    fn the_command_is_sound() {
        command().debug_assert();
    }

    fn given(words: &str, workload: Workload) -> Vec<(&'static str, String)> {
        let words = words.split(' ').map(str::to_owned);
        let matches = command().try_get_matches_from(["bytegauge".to_owned()].into_iter().chain(words)).unwrap();
        let (_, matches) = matches.subcommand().unwrap();
        args::factors(matches, workload).unwrap().into_iter().map(|(factor, text)| (factor.name, text)).collect()
    }

    #[test]
    fn every_factor_is_a_flag() {
        for row in WORKLOADS {
            for factor in factor::of(row.value) {
                let level = factor.default_in(row.value).and_then(|levels| levels.split(',').next()).unwrap();
                for command in [row.name, "run x"] {
                    let words = format!("{command} --{} {level}", factor.flag());
                    assert_eq!(given(&words, row.value), [(factor.name, level.to_owned())], "{words}");
                }
            }
        }
    }

    #[test]
    fn an_engine_for_both_ends_gives_way_to_one_end_s_own() {
        let check = |words: &str, expected: &[(&str, &str)]| {
            let given = given(words, Workload::Call);
            assert!(given.iter().map(|(name, text)| (*name, text.as_str())).eq(expected.iter().copied()), "{given:?}");
        };
        check("call --engine epoll", &[("client_engine", "epoll"), ("server_engine", "epoll")]);
        check(
            "call --engine epoll --client-engine blocking",
            &[("client_engine", "blocking"), ("server_engine", "epoll")],
        );
        check("call --connect-per-call --depth 2", &[("depth", "2"), ("connect_per_call", "on")]);
    }
}
