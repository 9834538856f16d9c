//! `observe`: how a program of the user uses its sockets, pipes and files, and the test for it.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use bytegauge_model::unit::counted;
use bytegauge_model::{Bytes, Nanos};
use bytegauge_observe::{
    DerivedTest, EndView, ObserveError, Observed, PeerProcess, SideView, Signals, SizeSummary, Started, ToObserve,
    observe,
};
use bytegauge_sys::new_file;
use clap::ArgMatches;
use serde_json::json;

use crate::exit_code::{DONE, FAILED, Failure, INTERRUPTED, failed, usage};
use crate::{args, interrupt, measure, terminal, tune};

/// Default of `--time`.
const TIME_NS: u64 = 5_000_000_000;

/// The length of a sample.
const SAMPLE_NS: u64 = 100_000_000;

/// A shorter sample contains only its own beginning.
const SAMPLE_MIN_NS: u64 = 1_000_000;

/// Ends on the screen; the document has all.
const ENDS_MAX: usize = 4;

/// Numbered files that are tried if a name is taken.
const FILES_MAX: u32 = 1000;

/// The least width of a text.
const COLUMNS_MIN: usize = 40;

/// `bytegauge observe`.
pub fn run(matches: &ArgMatches) -> Result<u8, Failure> {
    let time_ns = args::parsed::<Nanos>(matches, "time")?.map_or(TIME_NS, |time| time.0);
    let sample_ns = args::parsed::<Nanos>(matches, "sample")?.map_or(SAMPLE_NS, |time| time.0);
    if sample_ns < SAMPLE_MIN_NS || time_ns < sample_ns {
        return usage("--sample takes 1ms or more, and --time no less than --sample: --time 5s --sample 100ms");
    }
    let words = args::command(matches);
    let (pid, started) = match (matches.get_one::<u32>("pid"), words.is_empty()) {
        (Some(pid), _) => (*pid, None),
        (None, true) => {
            return usage("observe needs a program: give --pid PID, or -- COMMAND to start one");
        }
        (None, false) => {
            tune::must_be_there(&words)?;
            measure::remove_leftovers(false);
            let started = std::env::current_exe()
                .and_then(|program| Started::start(&program, &words))
                .map_err(|error| Failure::failed(format!("starting `{}`: {error}", words.join(" "))))?;
            (started.pid(), Some(started))
        }
    };
    let signals = Signals { stop: interrupt::stop_on_signals()?, suspend: interrupt::suspend_by_flag() };
    let (time, sample) = (Duration::from_nanos(time_ns), Duration::from_nanos(sample_ns));
    let watch = ToObserve { pid, time, sample, is_stopped: started.is_some() };
    let mut observed = observe(&watch, &signals).map_err(|error| failure(&error))?;
    observed.started = started.is_some();
    drop(started);
    // The typed command: the one of the shell is not the user's.
    if !words.is_empty() {
        observed.command = words;
    }
    if observed.ends.is_empty() {
        return Ok(nothing_seen(&observed));
    }
    let (file, asked) = write_plan(matches, &observed)?;
    match args::text(matches, "format") {
        Some("json") => terminal::print_json(&json!({ "observed": observed, "asked": asked, "plan_file": file })),
        _ => {
            let lines = screen(&observed, &asked, file.as_deref());
            let columns = terminal::width().max(COLUMNS_MIN);
            terminal::print(&terminal::fitted(lines.iter().map(String::as_str), columns));
        }
    }
    let unwritten = matches.get_one::<PathBuf>("output").filter(|_| file.is_none());
    if let Some(path) = unwritten {
        terminal::note(&format!("bytegauge: no plan fits what was observed: {} was not written", path.display()));
    }
    Ok(match (observed.interrupted, unwritten) {
        (true, _) => INTERRUPTED,
        (_, Some(_)) => FAILED,
        (_, None) => DONE,
    })
}

fn failure(error: &ObserveError) -> Failure {
    match error {
        ObserveError::System { .. } => Failure::failed(error),
        _ => Failure::usage(error),
    }
}

fn nothing_seen(observed: &Observed) -> u8 {
    let Observed { program, cost, uring, .. } = observed;
    let seconds = Nanos(cost.traced_ns + cost.alone_ns);
    terminal::note(&format!(
        "bytegauge: {program} moved no bytes that were seen in {seconds}{}",
        match (uring.0, observed.ended, observed.interrupted) {
            (_, _, true) => ": it was let go as Ctrl-C came".to_owned(),
            (operations @ 1.., ..) =>
                format!(": it handed {operations} operations to io_uring, whose sizes are not to be seen this way"),
            (0, true, _) => ": it has ended; was it started as it should be?".to_owned(),
            (0, false, _) => ": look while it has work to do, or longer (--time 60s)".to_owned(),
        }
    ));
    if observed.interrupted { INTERRUPTED } else { FAILED }
}

/// Writes the plan without replacing another one; returns its path and the test.
fn write_plan(matches: &ArgMatches, observed: &Observed) -> Result<(Option<String>, DerivedTest), Failure> {
    let safe = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' };
    let name: String = format!("observed-{}", observed.program.chars().map(safe).collect::<String>());
    let asked = DerivedTest::of(observed, &name);
    let Some(plan) = &asked.plan else { return Ok((None, asked)) };
    let unwritten = |path: &str, error: &io::Error| {
        Failure::failed(format!("cannot write the plan to {path}: {error}: choose another place with --output"))
    };
    if let Some(path) = matches.get_one::<PathBuf>("output") {
        let shown = path.display().to_string();
        new_file::replace(path, |file| file.write_all(plan.as_bytes())).map_err(|error| unwritten(&shown, &error))?;
        return Ok((Some(shown), asked));
    }
    for number in 1..FILES_MAX {
        let path = if number == 1 { format!("{name}.toml") } else { format!("{name}-{number}.toml") };
        match File::create_new(&path) {
            Ok(mut file) => {
                file.write_all(plan.as_bytes()).map_err(|error| unwritten(&path, &error))?;
                return Ok((Some(path), asked));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(unwritten(&path, &error)),
        }
    }
    failed(format!("there are {FILES_MAX} files {name}-N.toml here: choose a place with --output"))
}

/// The lines of the screen. Each may contain text from outside, with any characters.
fn screen(observed: &Observed, asked: &DerivedTest, file: Option<&str>) -> Vec<String> {
    let cost = &observed.cost;
    let mut out = vec![format!(
        "bytegauge observe · {} ({}){} · {}{}",
        observed.program,
        observed.pid,
        observed.under.as_ref().map_or_else(String::new, |under| format!(", of {} ({})", under.name, under.pid)),
        Nanos(cost.traced_ns + cost.alone_ns),
        if observed.interrupted {
            ", then Ctrl-C"
        } else if observed.ended {
            ", then it ended"
        } else {
            ""
        }
    )];
    out.push(String::new());
    for wait in &asked.waits {
        out.extend([format!("Waits  {}", wait.text), format!("       to prove it: {}", wait.proof), String::new()]);
    }
    // Files that a program reads at its start are only in the document.
    let ends = || observed.ends.iter().filter(|end| !end.start_up);
    for (at, end) in ends().take(ENDS_MAX).enumerate() {
        let head = if at == 0 { "Ends   " } else { "       " };
        out.push(format!("{head}{}", heading(end)));
        let sides = [("reads ", &end.reads, "gets"), ("writes", &end.writes, "passes")];
        for (word, side, moves) in sides {
            out.extend(side.iter().map(|side| format!("         {word} {}", calls(side, moves))));
        }
        if !end.options.is_empty() {
            let options: Vec<String> = end.options.iter().map(|(name, value)| format!("{name} {value}")).collect();
            out.push(format!("         {}", options.join("  ")));
        }
        out.extend(end.unasked.iter().map(|why| format!("         the type of the socket is unknown: {why}")));
    }
    let (more, files) = (ends().count().saturating_sub(ENDS_MAX), observed.ends.len() - ends().count());
    if more > 0 {
        out.push(format!("       and {more} more (--format json)"));
    }
    if files > 0 {
        let head = if ends().count() == 0 { "Ends   " } else { "       and " };
        out.push(format!("{head}{} that it reads at its start (--format json)", counted(files, "file")));
    }
    out.extend(observed.slow_reads().map(|reads| format!("Buffer {reads}")));
    out.extend(pace(observed).iter().enumerate().map(|(at, line)| match at {
        0 => format!("Pace   {line}"),
        _ => format!("       {line}"),
    }));
    out.extend([format!("Cost   {}", costs(observed)), String::new()]);
    out.push(format!("Test   {}", asked.summary));
    out.extend(asked.assumed.iter().map(|assumed| format!("       assumed: {assumed}")));
    match file {
        Some(file) => {
            let path = if file.contains('/') { file.to_owned() } else { format!("./{file}") };
            out.push(format!("Plan   written to {path}"));
            out.extend([format!("Next   bytegauge run {path}"), format!("       {}", asked.tune.command)]);
        }
        None if ends().count() == 0 => out.push("Next   observe it while it moves bytes, or longer: --time 60s".into()),
        None => out.push(format!("Next   {}", asked.tune.command)),
    }
    let lacks = asked.tune.lacks.iter().filter(|_| ends().count() > 0);
    out.extend(lacks.map(|lacks| format!("       {lacks}")));
    out
}

fn heading(end: &EndView) -> String {
    let flows = match (end.seen, end.flows) {
        (1, _) => String::new(),
        (seen, 1) => format!(" · {seen} of them, one at a time"),
        (seen, flows) if seen == flows => format!(" · {seen} of them at once"),
        (seen, flows) => format!(" · {seen} of them, {flows} at once at most"),
    };
    let ended = |peer: &PeerProcess| if peer.ended { ", which has ended" } else { "" };
    let peer = |peer: &PeerProcess| format!("{} ({}){}", peer.name, peer.pid, ended(peer));
    let peers: Vec<String> = end.peers.iter().take(3).map(peer).collect();
    match peers.is_empty() {
        true => format!("{}{flows}", end.label),
        false => format!("{}{flows} · the other end: {}", end.label, peers.join(", ")),
    }
}

fn calls(side: &SideView, moves: &str) -> String {
    let mut text = format!("{} × {}", side.totals.calls, side.by.join(", "));
    text.extend(side.asked.iter().map(|asked| format!(": requests {}", sizes(asked))));
    text.push_str(&format!(", {moves} {}", sizes(&side.moved)));
    let full = side.totals.full as f64 / side.totals.calls.max(1) as f64 * 100.0;
    if side.asked.is_some() && side.totals.full < side.totals.calls {
        text.push_str(&format!(", all of it {:.0} % of the time", full.floor()));
    }
    if side.pieces_per_call > 1.05 {
        text.push_str(&format!(", {:.1} pieces a call", side.pieces_per_call));
    }
    if side.messages_per_call > 1.05 {
        text.push_str(&format!(", {:.1} messages a call", side.messages_per_call));
    }
    if side.totals.not_yet > 0 {
        let lack = if moves == "gets" { "no data" } else { "no room" };
        text.push_str(&format!("; {} times {lack}", side.totals.not_yet));
    }
    text
}

fn sizes(sizes: &SizeSummary) -> String {
    match sizes.least == sizes.largest {
        true => Bytes(sizes.least).to_string(),
        false if sizes.median == sizes.p90 => format!("{} (90 % up to that)", Bytes(sizes.p90)),
        false => format!("{} (median; 90 % up to {})", Bytes(sizes.median), Bytes(sizes.p90)),
    }
}

fn pace(observed: &Observed) -> Vec<String> {
    let calls: u64 =
        observed.ends.iter().flat_map(|end| [&end.reads, &end.writes]).flatten().map(|side| side.totals.calls).sum();
    let mut lines = Vec::new();
    if observed.waits > 0 {
        lines.push(format!("{:.1} reads and writes for each wait (epoll, poll)", calls as f64 / observed.waits as f64));
    } else {
        lines.push("it waits in reads and writes, not in epoll or poll".into());
    }
    if let Some(byte) = observed.user_ns_per_byte {
        let byte = if byte < 0.005 { "< 0.01".to_owned() } else { format!("{byte:.2}") };
        let call = observed.user_ns_per_call.map(|ns| format!(", {} between two calls", Nanos(ns.round() as u64)));
        lines.push(format!("{byte} ns of CPU for a byte outside the kernel{}", call.unwrap_or_default()));
    }
    if let (operations @ 1.., calls) = observed.uring {
        let each = operations as f64 / calls.max(1) as f64;
        lines.push(format!("{operations} operations by io_uring, {each:.1} a call; their sizes are not visible"));
    }
    let mut cpus = Vec::new();
    cpus.extend(observed.cpus.map(|cpus| format!("{cpus:.2} CPUs used")));
    let at_once = match observed.threads_at_once {
        most if most == observed.threads => String::new(),
        1 => " one after another".into(),
        most => format!(", {most} at once at most"),
    };
    cpus.push(format!("{} moved bytes{at_once}", counted(observed.threads as usize, "thread")));
    cpus.push(match observed.processes {
        1 => "1 process".into(),
        processes => format!("{processes} processes"),
    });
    cpus.push(match (observed.limit_cpus, observed.throttled) {
        (Some(limit), Some(struck @ 1..)) => {
            format!("its control group allows {limit:.2} and stopped it {struck} times")
        }
        (Some(limit), _) => format!("its control group allows {limit:.2}"),
        (None, _) => "no limit by a control group".into(),
    });
    lines.push(cpus.join(", "));
    lines
}

fn costs(observed: &Observed) -> String {
    let cost = &observed.cost;
    let slower = match cost.slowed {
        Some(slowed) if slowed >= 1.05 => format!("{slowed:.1}× slower"),
        Some(_) => "not slower".into(),
        None => format!("slower by an unknown factor ({})", cost.unknown.unwrap_or("too little to compare")),
    };
    format!(
        "tracing made it {slower}: {}, {} of {} in total, the longest {}",
        counted(cost.samples as usize, "sample"),
        Nanos(cost.traced_ns),
        Nanos(cost.traced_ns + cost.alone_ns),
        Nanos(cost.longest_ns)
    )
}
