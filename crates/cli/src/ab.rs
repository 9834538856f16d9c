//! `ab`: compares two sides, interleaved in one session.

use std::collections::BTreeMap;

use bytegauge_model::task::by_shell;
use bytegauge_model::{ChangedProgram, SocketChanges, Workload};
use bytegauge_plan::versus::AB;
use bytegauge_plan::{Plan, PlanSpec, resolve};
use bytegauge_report::words::change_label;
use clap::ArgMatches;

use crate::exit_code::{Failure, usage};
use crate::{args, command_line, measure, tune, tune_options};

/// The forms of a side.
const SIDES: &str = "run:WORKLOAD FLAGS, cmd:COMMAND, start:COMMAND (a server; the measured command is after --), or \
                     addr:HOST:PORT";

/// Flags that apply to the session, so a side cannot contain them.
const OF_SESSION: &str = "time blocks analyses until max-time long-trials margin seed verify half-load dry-run resume format json-stream strict quiet no-page";

/// A side of the comparison.
enum ComparedSide<'a> {
    /// A workload of bytegauge with its flags, which may call an external server.
    Ours(String),
    /// A program of the user, and whether it is a server, which is started.
    Program(&'a str, bool),
}

/// `bytegauge ab A B`.
pub fn ab(matches: &ArgMatches) -> Result<u8, Failure> {
    let seed = args::seed(matches);
    if args::text(matches, "save").or(args::text(matches, "against")).is_some() {
        return usage("--save and --against compare sessions, but ab compares within one session: leave them out");
    }
    let [a, b] = [("a", "present"), ("b", "new")].map(|(flag, place)| {
        // A side without a kind is a command.
        let of_place = args::text(matches, place).map(|words| match side(place, words) {
            Ok(_) => words.to_owned(),
            Err(_) => format!("cmd:{words}"),
        });
        args::text(matches, flag).map(str::to_owned).or(of_place)
    });
    let changes = changes(matches)?;
    // With options the sides may be one program.
    let b = b.or_else(|| a.clone().filter(|_| changes.is_some()));
    let words = match (&a, &b) {
        (Some(a), Some(b)) => [a.as_str(), b.as_str()],
        (None, None) if args::text(matches, "resume").is_some() => {
            return measure::go_on(matches, Some((AB, Workload::Tune)));
        }
        _ => {
            return usage(format!("ab needs two sides, `ab './old' './new'`, each a command or one of: {SIDES}"));
        }
    };
    let plan = match [side("--a", words[0])?, side("--b", words[1])?] {
        [ComparedSide::Program(a, serves), ComparedSide::Program(b, other)] if serves == other => {
            let place = match serves {
                true => " (server)",
                false if args::is_given(matches, "start") => " (client)",
                false => "",
            };
            let shown = shown(words, &changes, place);
            programs(matches, [a, b], (serves, changes), seed)?.against_each_other(shown)?
        }
        [ComparedSide::Ours(a), ComparedSide::Ours(b)] => {
            refuse_what_programs_take(matches)?;
            let [a, b] = [ours("--a", &a, matches, seed)?, ours("--b", &b, matches, seed)?];
            a.against(b, words.map(str::to_owned))?
        }
        _ => {
            return usage(
                "--a and --b are of different kinds: use two workloads (run:, addr:), two commands (cmd:) or two servers (start:)",
            );
        }
    };
    measure::planned(plan, matches)
}

/// The sides as a report names them: each with what is changed around it, and where.
fn shown(words: [&str; 2], changes: &Option<SocketChanges>, place: &str) -> [String; 2] {
    let changed = |side: &str| changes.as_ref().filter(|changes| !changes.named(side).is_empty());
    let of = |side, words: &str| match changed(side) {
        Some(changes) => {
            let place = if changes.named(side).iter().any(|one| one.option().is_some()) { place } else { "" };
            format!("{words}, {}{place}", change_label(changes, side))
        }
        None => words.to_owned(),
    };
    [of("a", words[0]), of("b", words[1])]
}

fn side<'a>(flag: &str, words: &'a str) -> Result<ComparedSide<'a>, Failure> {
    let named = words.split_once(':').map(|(kind, rest)| (kind, rest.trim())).filter(|(_, rest)| !rest.is_empty());
    match named {
        Some(("run", rest)) => Ok(ComparedSide::Ours(rest.to_owned())),
        Some(("addr", rest)) => Ok(ComparedSide::Ours(format!("call --connect {rest}"))),
        Some((kind @ ("cmd" | "start"), rest)) => Ok(ComparedSide::Program(rest, kind == "start")),
        _ => usage(format!("{flag}: `{words}` is not a side: use {SIDES}")),
    }
}

/// The plan of a workload of bytegauge, with one cell.
fn ours(flag: &str, words: &str, matches: &ArgMatches, seed: u64) -> Result<Plan, Failure> {
    let failed = |text: String| Failure::usage(format!("{flag}: {text}"));
    let given = command_line::lazy_command()
        .try_get_matches_from(["bytegauge"].into_iter().chain(words.split_whitespace()))
        .map_err(|error| failed(first_line(&error.to_string())))?;
    let known = given.subcommand().and_then(|(name, given)| Some((name.parse::<Workload>().ok()?, given)));
    let Some((workload, given)) = known.filter(|(workload, _)| *workload != Workload::Tune) else {
        return Err(failed(
            "write a workload and its flags, such as run:stream --transport tcp --read-size 64K".into(),
        ));
    };
    let of_session = OF_SESSION.split(' ').find(|name| args::is_given(given, name));
    if let Some(name) = of_session {
        return Err(failed(format!("--{name} applies to both sides: write it outside of --a and --b")));
    }
    let mut spec = PlanSpec::named(AB, workload);
    // Flags in a side apply to its cell; flags outside apply to the session.
    spec.set_all(&args::factors(given, workload)?).map_err(|error| failed(error.to_string()))?;
    spec.leave_one_level();
    if let Some(ends) = args::parsed(given, "ends")? {
        spec.ends = ends;
    }
    args::apply_design(&mut spec, matches)?;
    args::look_up_hosts(&mut spec)?;
    resolve(&spec, &measure::catalog(&spec), seed).map_err(|error| failed(error.to_string()))
}

/// The changes around the program of each side, by `--a-option`, `--a-sysctl`, `--b-option` and `--b-sysctl`.
fn changes(matches: &ArgMatches) -> Result<Option<SocketChanges>, Failure> {
    let mut changes = SocketChanges::default();
    for (side, of_sockets, of_network) in [("a", "a-option", "a-sysctl"), ("b", "b-option", "b-sysctl")] {
        let named = tune_options::options(matches, of_sockets)?.into_iter().map(|parsed| (of_sockets, parsed));
        let sysctls = tune_options::sysctls(matches, of_network)?;
        changes.sysctls.extend(tune_options::present(&sysctls, of_network)?);
        for (flag, parsed) in named.chain(sysctls.into_iter().map(|parsed| (of_network, parsed))) {
            if let [first, _, ..] = parsed.as_slice() {
                let name = first.name();
                return usage(format!("--{flag}: {name} has several values: a side takes one"));
            }
            changes.by_value.entry(side.to_owned()).or_default().extend(parsed);
        }
    }
    Ok(Some(changes).filter(|changes| !changes.by_value.is_empty()))
}

/// The plan of two programs, as the values of one factor.
fn programs(
    matches: &ArgMatches,
    words: [&str; 2],
    (servers, changes): (bool, Option<SocketChanges>),
    seed: u64,
) -> Result<Plan, Failure> {
    let mut by_value = BTreeMap::new();
    for (name, words) in ["a", "b"].into_iter().zip(words) {
        let words = split(words);
        tune::must_be_there(&words)?;
        if changes.as_ref().is_some_and(|changes| changes.options().next().is_some()) {
            tune_options::must_be_changeable(&words)?;
        }
        by_value.insert(name.to_owned(), words);
    }
    let first = by_value.values().next().cloned().unwrap_or_default();
    let mut task = tune::task_of(matches, if servers { None } else { Some(first.clone()) }, servers.then_some(first))?;
    let on = if servers { ChangedProgram::Server } else { ChangedProgram::Client };
    task.changes = changes.map(|changes| SocketChanges { on, ..changes });
    match &mut task.server {
        Some(server) if servers => server.by_value = by_value,
        _ => task.by_value = by_value,
    }
    measure::with_values(PlanSpec::named(AB, Workload::Tune), task, "a,b", seed, matches)
}

/// The words of a command. A shell is used only if it is needed, since it takes time.
fn split(text: &str) -> Vec<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || " ._/:=@%+,-{}".contains(c);
    // `NAME=value command` needs a shell as well.
    let assigns = text.split_whitespace().next().is_some_and(|first| first.contains('='));
    match text.chars().all(plain) && !assigns {
        true => text.split_whitespace().map(str::to_owned).collect(),
        false => by_shell(text),
    }
}

/// Refuses flags that apply to programs only.
fn refuse_what_programs_take(matches: &ArgMatches) -> Result<(), Failure> {
    let of_programs =
        "metric prepare start ready stop load command placement timeout a-option b-option a-sysctl b-sysctl";
    match of_programs.split(' ').find(|name| args::is_given(matches, name)) {
        None => Ok(()),
        Some(name) => usage(format!(
            "--{name} applies to programs (cmd:, start:): leave it out with run:, or write a setting of the workload in its flags"
        )),
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_is_used_only_if_needed() {
        assert_eq!(split("dd if=/dev/zero of=/dev/null bs=4096"), ["dd", "if=/dev/zero", "of=/dev/null", "bs=4096"]);
        for text in ["a | b", "a > b", "echo 'x y'", "X=1 a", "a; b", "a $HOME"] {
            assert_eq!(split(text)[0], "/bin/sh", "{text}");
        }
    }
}
