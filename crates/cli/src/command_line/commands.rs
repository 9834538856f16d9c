//! The commands other than the workloads: plans, the user's program, comparisons, results, this machine.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;

use bytegauge_import::{FORMATS, rate_units};
use bytegauge_model::Workload;
use bytegauge_plan::built_in;
use clap::{Arg, ArgAction, ArgGroup, Command, value_parser};

use super::help::shortened;
use super::measuring::{hide_what_programs_lack, measuring, with_program};
use super::option;
use super::option::{Details, formats, names, path, positional, switch, valued};
use crate::doctor::SCALES;
use crate::survey::SURVEY;

const TUNE_HELP: &str = "\
The first run is only watched: it shows which sockets the program opens and which options it sets itself. Then each change that can \
matter is tried, one at a time: options are set from outside, or the program's own call is left out, without a change of the \
program. In a block every change and the program as it is run once, in random order, one of them twice. No root is needed.

  bytegauge tune -- curl -so /dev/null http://127.0.0.1:8000/data
  bytegauge tune --start './server 7000' --ready tcp:7000 -- ./client 7000
  bytegauge tune --option sndbuf=64K,1M,unset --option congestion=cubic,bbr -- ./upload data

With --pid a program that runs already is changed, on its open connections: each trial switches the options, leaves \
out the first tenth of a second or ten round trips, compares CPU time for 1 GiB (--metric wall: time for 1 GiB), and sets them back, \
also after Ctrl-C or if bytegauge is killed. --dry-run lists the sockets:

  bytegauge tune --pid 4242 --port 443 --option notsent-lowat=auto,128K

A value of --option is a level of the option of that name (docs/factors.md), or unset: the program's own call is left out.

With {value} in the command, its values are tried instead; {256M/value} becomes 256 MiB divided by the value, so that every run moves \
the same bytes. A size is passed as a number of bytes:

  bytegauge tune --values 4K..1M --now 512 -- \\
    dd if=/dev/zero of=/dev/null bs={value} count={256M/value}
  bytegauge tune --values 4K..256K --now 8K --metric bytes:256M \\
    --start 'socat -u -b {value} TCP-LISTEN:7007,fork /dev/null' --ready tcp:7007 \\
    --load 'head -c 256M /dev/zero | socat -t 60 -b 65536 - TCP:127.0.0.1:7007'

--values recommended tries the sizes that the latest session recommends and at most five that may be as good; recommended:7 takes \
session 7. --recommendation 7 adds the sizes that session 7 recommends to --values.

Programs have no terminal and no input. The store keeps the command as it is given; `bytegauge report export --redact` leaves it out.

Exit code: 0 changes were compared (3 with --strict if the result is inconclusive); 2 wrong usage; 5 nothing could be compared.";
const AB_HELP: &str = "\
Both sides are measured in every block, in random order, one of them twice. The result holds at 95 %.

  bytegauge ab --a 'run:stream --read-size 4K' --b 'run:stream --read-size 64K'
  bytegauge ab './old --input data' './new --input data' --margin 2%
  bytegauge ab './upload data' --b-option nodelay=off
  bytegauge ab --a 'start:./old 7000' --b 'start:./new 7000' --ready tcp:7000 -- ./client 7000
  bytegauge ab --a addr:10.0.0.1:7000 --b addr:10.0.0.2:7000 --until conclusive

Exit code: 0 B is not slower by more than --margin; 1 B is slower; 3 undecided (0 with --undecided pass); 2 wrong usage; \
5 a side could not be measured. Where time decides nothing, B is slower if it uses more CPU time than --margin allows.";
const COMPARE_HELP: &str = "\
A number means that session and the older sessions of the same plan on this machine: they show how much sessions differ by \
themselves. A name means the sessions that --save kept under it. The comparison needs five sessions before the change; \
`bytegauge ab` needs none. Exit code 5: the sessions are not comparable.

  for i in 1 2 3 4 5; do bytegauge run buffer-size --save main; done
  bytegauge run buffer-size --against main
  bytegauge report compare main 12";
const IMPORT_HELP: &str = "\
A row of a table is a trial. A row of a stream has the transport, read_size, and bytes with duration_sec or \
throughput_mib_s. A row of calls has the transport, request, and calls_per_second or completed_calls with duration_sec. \
These headings and the names of factors (rcvbuf, flows, server_engine, …) are recognised. --map names other columns, or \
gives every row one value:

  bytegauge report import table.csv --map transport==tcp,request==512,calls_per_second=cps.mean
  curl -s https://example.org/table.csv | bytegauge report import - --map transport==unix";
const OBSERVE_HELP: &str = "\
The program is traced for a tenth of a second at a time, which slows it; the report shows how long. Nothing of it is changed, \
and its data is not read. Only root may observe programs of other users.

  bytegauge observe --pid $(pgrep -o nginx)
  bytegauge observe --time 10s -- dd if=/dev/zero of=/dev/null bs=64K count=100K

A command that observe starts has no input, prints to standard error, and is stopped (TERM) at the end.";
pub fn run(command: Command) -> Command {
    let plan = positional("plan", "PLAN", "Built-in plan (listed below), a TOML file, or survey")
        .value_parser(value_parser!(OsString))
        .required_unless_present("resume");
    let only = valued("only", "PLANS", "Plans of a survey, such as buffer-size,tcp-echo");
    shortened(measuring(command.after_help(built_in_plans()).arg(plan), None).arg(only))
}

/// The built-in plans, each with its summary.
fn built_in_plans() -> String {
    let summary = |text: &'static str| {
        let line = text.lines().find_map(|line| line.strip_prefix("summary = "));
        line.unwrap_or_default().trim_matches('"')
    };
    let each = built_in::PLANS.iter().map(|(name, text)| format!("  {name:<16} {}", summary(text)));
    let survey = format!("  {SURVEY:<16} All of them, briefly (5 minutes)");
    format!("Built-in plans:\n{}", each.chain([survey]).collect::<Vec<_>>().join("\n"))
}

pub fn tune(command: Command) -> Command {
    let command = with_program(command.after_help(TUNE_HELP))
        .arg(changes("option", "Socket option to try, such as nodelay=on").details(
            "sndbuf=64K,1M, congestion=bbr, notsent-lowat=128K, …; unset leaves the program's own call out",
        ))
        .arg(changes("sysctl", "Setting of the network to try: net.ipv4.tcp_sack=0").conflicts_with("pid").details(
            "the programs run in a network of their own, which has it; default is the value of this machine",
        ))
        .arg(valued("on", "PROGRAM", "Program whose sockets are changed: client, server or both").details(
            "client: the measured command; server: that of --start. Default: each that the session starts, and with --option \
             the server, or the client if only it waits",
        ))
        .arg(switch("crossed", "Combine the values of several --option and --sysctl"))
        .arg(valued("now", "VALUE", "Value that the program has now, to report the gain"))
        .arg(
            valued("recommendation", "ID", "Session whose recommended sizes are tried as well")
                .details("a session number, or latest; the report shows whether they are within --margin of the best value"),
        )
        .next_help_heading("Running program")
        .arg(
            process("Process that runs already, with its descendants")
                .requires("connections")
                .conflicts_with_all("command start load prepare ready stop on now recommendation values".split(' '))
                .details("each --option is switched on its connections and set back after every trial"),
        )
        .arg(
            valued("port", "PORT", "Local port of its listener and connections")
                .value_parser(value_parser!(u16).range(1..)),
        )
        .arg(
            valued("peer", "ADDRESS", "Address of the other end of its connections")
                .value_parser(value_parser!(IpAddr)),
        )
        .group(ArgGroup::new("connections").args(["port", "peer"]).multiple(true))
        .arg(
            valued("max-harm", "SHARE", "Harm that ends the session [default: 10%]")
                .details("if a change makes it worse by more than this in two trials in a row"),
        )
        .arg(switch("yes", "Change more than 2000 sockets"));
    let command = measuring(command, Some(Workload::Tune)).mut_args(hide_what_programs_lack);
    // A list may begin with a negative value.
    command.mut_arg("values", |arg| arg.allow_hyphen_values(true))
}

/// The meaning of the options of a side.
const OF_SIDE: &str = "set from outside; NAME=unset leaves the program's own call out; without B, both sides are A";

/// The meaning of the kernel's settings of a side.
const SYSCTL_OF_SIDE: &str =
    "the programs of each side run in a network of their own; the other side has this machine's value";

/// Changes around a program.
fn changes(flag: &'static str, help: &'static str) -> Arg {
    valued(flag, "NAME=VALUES", help).action(ArgAction::Append)
}

/// A change around the program of one side.
fn change_of(flag: &'static str, help: &'static str) -> Arg {
    changes(flag, help).value_name("NAME=VALUE")
}

/// A process that runs already.
fn process(help: &'static str) -> Arg {
    valued("pid", "PID", help).value_parser(value_parser!(u32).range(1..))
}

pub fn ab(command: Command) -> Command {
    let command = command
        .arg(
            valued("a", "SIDE", "Present side: run:FLAGS, cmd:CMD, start:CMD, addr:PLACE")
                .details("run:WORKLOAD FLAGS, cmd:COMMAND, start:COMMAND of a server, or addr:HOST:PORT of a server"),
        )
        .arg(valued("b", "SIDE", "Side that may replace it, of the same kind"))
        .arg(positional("present", "A", "Present command, or a side as for --a").conflicts_with("a"))
        .arg(positional("new", "B", "Command that may replace it").conflicts_with("b"))
        .arg(change_of("a-option", "Socket option of A's program, such as nodelay=on").details(OF_SIDE))
        .arg(change_of("b-option", "Socket option of B's program").details(OF_SIDE))
        .arg(change_of("a-sysctl", "Network setting of A: net.ipv4.tcp_sack=0").details(SYSCTL_OF_SIDE))
        .arg(change_of("b-sysctl", "Network setting of B's program").details(SYSCTL_OF_SIDE));
    let hidden = |arg: Arg| arg.hide(true);
    let command = measuring(with_program(command), Some(Workload::Tune))
        .after_help(AB_HELP)
        .mut_args(hide_what_programs_lack)
        .mut_arg("values", hidden)
        .mut_arg("save", hidden)
        .mut_arg("against", hidden)
        .mut_arg("margin", |arg| arg.help("Slowdown of B that is acceptable [default: 5%]").long_help(None))
        .mut_arg("strict", hidden)
        .arg(
            valued("undecided", "WORD", "Exit code of an undecided result: fail is 3, pass is 0")
                .value_parser(["fail", "pass"])
                .default_value("fail"),
        );
    shortened(command)
}

pub fn observe() -> Command {
    let command = option::words("command", "COMMAND", "Command to start and observe, instead of --pid");
    Command::new("observe")
        .about("Show what a program does with its sockets, and write a plan")
        .after_help(OBSERVE_HELP)
        .arg(process("Process to observe, with all that it started"))
        .arg(command.conflicts_with("pid"))
        .arg(valued("time", "TIME", "Time to observe [default: 5s]"))
        .arg(valued("sample", "TIME", "Length of each traced interval [default: 100ms]"))
        .arg(option::output().help("File of the plan [default: observed-PROGRAM.toml]"))
        .arg(formats(&["text", "json"]))
}

pub fn doctor() -> Command {
    Command::new("doctor")
        .about("Check this machine for sources of noise, with fixes")
        .arg(formats(&["text", "json"]))
        .arg(
            valued("time", "TIME", "Time to watch the load of the CPUs [default: 3s]")
                .details("by other programs and by the host of a virtual machine"),
        )
        .arg(option::strict().help("Exit with 3 if there is something to fix"))
        .arg(switch("selftest", "Check the statistics and the harness here (2 minutes)").details(
            "the statistics on simulated trials, the harness by comparing equal options and injected slowdowns",
        ))
        .arg(option::seed().help("Seed of --selftest [default: 1]").long_help(None).requires("selftest"))
        .arg(
            valued("scale", "SCALE", "How much to simulate and to measure")
                .value_parser(names(SCALES.map(|(name, _)| name)))
                .default_value("minute")
                .hide(true),
        )
}

pub fn report() -> Command {
    let format = formats(&["text", "json", "csv", "markdown", "go-bench", "junit"]);
    Command::new("report")
        .about("Print, list, compare, export and import stored sessions")
        .args_conflicts_with_subcommands(true)
        .subcommand(Command::new("list").about("List stored sessions"))
        .subcommand(compare())
        .subcommand(export())
        .subcommand(import())
        .arg(
            option::session()
                .num_args(0..)
                .help("Session numbers, several with --html or --across [default: the latest]"),
        )
        .arg(
            switch("across", "Report what holds across sessions")
                .conflicts_with("html")
                .details("the sessions named, or all sessions of the same plan on this machine"),
        )
        .arg(format.details("go-bench is for benchstat, junit for CI services"))
        .arg(
            path("html", "FILE", "Write a page with all figures, one file for a browser")
                .conflicts_with_all(["format", "full", "group"]),
        )
        .arg(option::full())
        .arg(option::interval())
        .arg(option::group())
        .arg(option::strict())
        .arg(option::fit_max())
        .arg(option::objective())
}

fn compare() -> Command {
    Command::new("compare")
        .about("Compare sessions before and after a change; exit 1 if worse")
        .after_help(COMPARE_HELP)
        .arg(positional("before", "BEFORE", "Session number, or a name of --save").required(true))
        .arg(positional("after", "AFTER", "Session number, or a name of --save").required(true))
        .arg(valued("margin", "SHARE", "Slowdown that is acceptable [default: the plan's]"))
        .arg(formats(&["text", "json"]))
        .arg(option::strict().help("Exit with 3 if the result is inconclusive"))
        .arg(option::fit_max().hide(true))
}

fn export() -> Command {
    Command::new("export")
        .about("Write the raw trials of a session")
        .arg(option::session())
        .arg(formats(&["jsonl", "csv"]).details("import reads jsonl again"))
        .arg(switch("redact", "Leave out commands and what they printed").details("of programs that were checked"))
        .arg(option::output())
}

/// The formats and units that are recognised.
fn import_formats() -> String {
    let formats: Vec<String> = FORMATS.iter().map(|row| format!("  {:<10} {}", row.name, row.summary)).collect();
    format!(
        "Formats:\n{}\n\nUnits: a duration has its unit in the heading (duration_ms) or the cell (91ms); so has a rate \
         (throughput_mib_s, or\n{}). Sizes are bytes or 64K; 11,090 is 11090.\n",
        formats.join("\n"),
        rate_units()
    )
}

fn import() -> Command {
    let map = valued("map", "OURS=THEIRS,…", "Columns of a CSV: read_size=read_buffer_bytes,…");
    let from = valued("from", "FORMAT", "Format of the file, if its first line does not show it");
    Command::new("import")
        .about("Read trials from exports and published tables")
        .after_help(format!("{}\n{IMPORT_HELP}", import_formats()))
        .arg(
            positional("file", "FILE", "File to read, or - for standard input")
                .value_parser(value_parser!(PathBuf))
                .required(true),
        )
        .arg(map.action(ArgAction::Append))
        .arg(from.value_parser(names(FORMATS.iter().map(|row| row.name))))
        .arg(valued("name", "NAME", "Name of the session [default: the file's]"))
}

pub fn completions() -> Command {
    let shell = positional("shell", "SHELL", "Shell").required(true).value_parser(value_parser!(clap_complete::Shell));
    Command::new("completions").about("Print completions for a shell").arg(shell).hide(true)
}

/// One end of a path, as the product starts it.
pub fn end() -> Command {
    Command::new("end")
        .about("Serve one end of a path on standard input and output")
        .arg(positional("role", "ROLE", "Its task, shown in lists of processes"))
        .arg(Arg::new("words").num_args(0..).last(true).value_parser(value_parser!(OsString)))
        .hide(true)
}
