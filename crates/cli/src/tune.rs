//! `tune`: the user's own program over options of its sockets, or over values of one of its settings, as a workload like
//! any other.

use bytegauge_model::task::{Advice, AdvisedValue, by_shell};
use bytegauge_model::{Bytes, Level, Metric, ProgramTask, ReadyWhen, ServerTask, SessionId, Workload, factor};
use bytegauge_plan::PlanSpec;
use bytegauge_report::results::{OptionResult, OptionStatus};
use bytegauge_report::{Report, SessionData, Settings};
use bytegauge_store::Store;
use bytegauge_sys::children::signal_number;
use bytegauge_sys::network::NetworkTables;
use bytegauge_sys::program_file::find_to_run;
use bytegauge_sys::snmp::Counter;
use clap::ArgMatches;

use crate::exit_code::{Failure, usage};
use crate::{args, measure, stored, tune_options, tune_service_flags};

/// The value of `--values` for those that the latest stored session recommends, and those that are tied with them;
/// `recommended:7` for session 7's.
const RECOMMENDED: &str = "recommended";

/// The factors of a recommendation that are sizes which a program may take.
const SIZES: [&str; 5] = ["read_size", "write_size", "relay_buffer", "rcvbuf", "sndbuf"];

/// Tied sizes that are tried in addition to the recommended ones.
const TIED_MAX: usize = 5;

/// Sessions that are searched for a recommendation, the latest first.
const SESSIONS_MAX: usize = 50;

/// `bytegauge tune -- CMD …`.
pub fn tune(matches: &ArgMatches) -> Result<u8, Failure> {
    let spec = PlanSpec::named("tune", Workload::Tune);
    let is_named = |name: &str| args::is_given(matches, name);
    if is_named("resume") && !is_named("command") && !is_named("load") {
        return measure::go_on(matches, Some((&spec.name, spec.workload)));
    }
    if let Some(pid) = matches.get_one::<u32>("pid") {
        if let Some((factor, _)) = args::factors(matches, Workload::Tune)?.first() {
            return usage(format!(
                "--{} is for programs that bytegauge starts: leave it out, or start the program (tune --start)",
                factor.flag()
            ));
        }
        return tune_service_flags::tune(spec, *pid, matches);
    }
    if let Some(name) = ["port", "peer", "max-harm", "yes"].into_iter().find(|name| is_named(name)) {
        return usage(format!("--{name} is for a program that runs already: add its --pid, or leave it out"));
    }
    let of_options = ["option", "sysctl", "on", "crossed"].into_iter().find(|name| is_named(name));
    if let Some(name) = of_options.filter(|_| takes_values(matches)) {
        return usage(format!(
            "--{name} changes sockets or their network, and {{value}} or --values an argument: tune one of them at a time"
        ));
    }
    if !takes_values(matches) {
        return tune_options::tune(spec, matches);
    }
    let stored = advice(matches)?;
    let (values, default) = values(matches, stored.as_ref())?;
    let values = in_order(values, args::text(matches, "values"));
    let task = task_of(matches, None, None)?;
    task.commands().try_for_each(|words| must_be_there(words))?;
    let task = ProgramTask { default, advice: stored.map(|stored| stored.advice), ..task };
    measure::planned(measure::with_values(spec, task, &values, args::seed(matches), matches)?, matches)
}

/// Whether values are arguments of the program; otherwise options of its sockets are varied.
fn takes_values(matches: &ArgMatches) -> bool {
    let of_values = ["values", "now", "recommendation"].iter().any(|name| args::text(matches, name).is_some());
    let texts = ["load", "start", "prepare"].iter().filter_map(|name| args::text(matches, name));
    of_values
        || texts.chain(args::texts(matches, "command")).any(|word| word.contains("{value}") || word.contains("/value}"))
}

/// The task, from the flags; `command` and `server` come from elsewhere if they are given.
pub fn task_of(
    matches: &ArgMatches,
    command: Option<Vec<String>>,
    server: Option<Vec<String>>,
) -> Result<ProgramTask, Failure> {
    let words = args::command(matches);
    let load = args::text(matches, "load").map(by_shell);
    let mut given = command.into_iter().chain(Some(words).filter(|words| !words.is_empty())).chain(load);
    let command = match given.next() {
        Some(words) => words,
        None => {
            return usage(
                "a command to measure is missing, which is the client where a server is started: write it last (bytegauge tune -- \
                 ./program data), or as --load 'CLIENT …'; to vary one of its arguments, write {value} in its place (bytegauge tune \
                 --values 4K..1M -- dd if=/dev/zero of=/dev/null bs={value} count={1G/value})",
            );
        }
    };
    if given.next().is_some() {
        return usage("the command is given twice: use only one of --, --load and cmd:");
    }
    let metric = args::parsed::<Metric>(matches, "metric")?.unwrap_or(Metric::Wall);
    if let Some(pattern) = metric.pattern() {
        regex(pattern, "--metric")?;
    }
    if let Metric::Counter(name) = &metric {
        // Opened once, so that an unknown name is reported before anything runs.
        Counter::open(NetworkTables::own(), name).map_err(args::wrong("metric"))?;
    }
    let prepare = args::text(matches, "prepare").map(by_shell);
    let server = server_of(matches, server)?;
    Ok(ProgramTask { prepare, server, ..ProgramTask::of(command, metric) })
}

fn server_of(matches: &ArgMatches, named: Option<Vec<String>>) -> Result<Option<ServerTask>, Failure> {
    let start = args::text(matches, "start").map(by_shell);
    if named.is_some() && start.is_some() {
        return usage("the server is given twice: use only one of start: and --start");
    }
    let ready = args::parsed::<ReadyWhen>(matches, "ready")?;
    let (command, ready) = match (named.or(start), ready) {
        (None, None) if args::text(matches, "stop").is_none() => return Ok(None),
        (None, _) => return usage("--ready and --stop need a server: add --start"),
        (Some(_), None) => {
            return usage(
                "a server needs --ready, which tells when it accepts connections: use tcp:PORT, unix:PATH or regex:RE",
            );
        }
        (Some(command), Some(ready)) => (command, ready),
    };
    if let ReadyWhen::Printed(pattern) = &ready {
        regex(pattern, "--ready")?;
    }
    let name = args::text(matches, "stop").unwrap_or("TERM");
    let stop = signal_number(name)
        .ok_or_else(|| Failure::usage(format!("--stop: `{name}` is no signal: use TERM, INT, QUIT, HUP or KILL")))?;
    Ok(Some(ServerTask { command, by_value: Default::default(), ready, stop }))
}

fn regex(pattern: &str, flag: &str) -> Result<(), Failure> {
    let bad = |error| Failure::usage(format!("{flag}: `{pattern}` is no regular expression: {error}"));
    regex_lite::Regex::new(pattern).map(drop).map_err(bad)
}

/// The recommendation of a stored session.
struct StoredAdvice {
    advice: Advice,
    /// The sizes that are tied with those that it recommends: the best one of a program may be among them.
    tied: Vec<Level>,
}

/// The list of values as a flag takes it, and the present value, which is among them.
fn values(matches: &ArgMatches, stored: Option<&StoredAdvice>) -> Result<(String, Option<Level>), Failure> {
    let factor = factor::named(Workload::Tune, "values")[0];
    let advised = |stored: &StoredAdvice| {
        let named = stored.advice.values.iter().map(|advised| &advised.value);
        let values: Vec<String> = named.chain(&stored.tied).map(|value| factor.kind.compact(value)).collect();
        values.join(",")
    };
    let given = args::text(matches, "values").unwrap_or_else(|| factor.default_in(Workload::Tune).unwrap_or_default());
    let mut list = match stored {
        Some(stored) if is_answer(given) => advised(stored),
        _ => given.to_owned(),
    };
    let parse = |text: &str| factor.kind.parse_list(text);
    // Recommended values are tried in addition to the given values.
    for advised in stored.iter().flat_map(|stored| &stored.advice.values) {
        let more = format!("{list},{}", factor.kind.compact(&advised.value));
        if parse(&more).is_ok() {
            list = more;
        }
    }
    let Some(default) = args::text(matches, "now") else { return Ok((list, None)) };
    let alone = parse(default).map_err(args::wrong("now"))?;
    if alone.len() != 1 {
        return usage(format!("--now: `{default}` is several values: give the present one"));
    }
    // A value that is a size in the list is a size here as well.
    let more = format!("{list},{default}");
    let known = parse(&list).map_err(args::wrong("values"))?;
    if let Ok(levels) = parse(&more) {
        return Ok((more, levels.last().cloned()));
    }
    let bytes = default.parse().ok().map(|Bytes(bytes)| bytes);
    let as_written = |level: &&Level| **level == alone[0] || bytes.is_some() && level.number() == bytes;
    match known.iter().find(as_written).cloned() {
        Some(level) => Ok((list, Some(level))),
        None => usage(format!("--now {default} and --values {list} have different units: write both in the same way")),
    }
}

/// The values by their size, where those that were given are so: a present or a recommended one was added at the end.
fn in_order(values: String, given: Option<&str>) -> String {
    let factor = factor::named(Workload::Tune, "values")[0];
    let numbers = |text: &str| -> Option<Vec<u64>> {
        factor.kind.parse_list(text).ok()?.iter().map(Level::number).collect::<Option<Vec<u64>>>()
    };
    let is_sorted = given.is_none_or(|given| is_answer(given) || numbers(given).is_some_and(|all| all.is_sorted()));
    match numbers(&values).filter(|_| is_sorted) {
        Some(mut all) if !all.is_sorted() => {
            all.sort_unstable();
            let texts: Vec<String> = all.into_iter().map(|value| factor.kind.compact(&Level::Number(value))).collect();
            texts.join(",")
        }
        _ => values,
    }
}

fn is_answer(text: &str) -> bool {
    text == RECOMMENDED || text.starts_with("recommended:")
}

/// The recommendation of a stored session, for `--values recommended` or `--recommendation`.
fn advice(matches: &ArgMatches) -> Result<Option<StoredAdvice>, Failure> {
    let by_values = args::text(matches, "values").filter(|text| is_answer(text));
    let wanted = match (by_values, args::text(matches, "recommendation")) {
        (None, None) => return Ok(None),
        (Some(text), _) => text.strip_prefix("recommended:"),
        (None, Some("latest")) => None,
        (None, Some(id)) => Some(id),
    };
    let wanted = wanted.map(|id| {
        id.parse()
            .map(SessionId)
            .map_err(|_| Failure::usage(format!("`{id}` is no session: `bytegauge report list` lists them")))
    });
    let store = Store::open_existing(&stored::store_path(matches)?)?;
    let ids = match wanted.transpose()? {
        Some(id) => vec![id],
        None => store.sessions()?.into_iter().map(|summary| summary.id).take(SESSIONS_MAX).collect(),
    };
    for id in ids {
        let view = Report::of(&SessionData::load(&store, id)?, &Settings::default());
        let values = advised(&view);
        if !values.is_empty() {
            let mut tied = tied(&view, &values);
            tied.truncate(TIED_MAX);
            return Ok(Some(StoredAdvice { advice: Advice { session: id.0, values }, tied }));
        }
    }
    usage("no stored session recommends a size: measure one first (`bytegauge run buffer-size`), or list --values")
}

/// The sizes that a session recommends, each once.
fn advised(view: &Report) -> Vec<AdvisedValue> {
    let mut values: Vec<AdvisedValue> = Vec::new();
    if view.plan.workload == Workload::Tune.to_string() {
        return values;
    }
    for (test, group) in view.tests.iter().zip(&view.groups) {
        // An option with a wide interval is worth a try in a program, too.
        let Some(cell) = group.recommendation.cell.as_ref().and_then(|id| view.cell(id)) else { continue };
        for name in SIZES.into_iter().filter(|name| test.varied.iter().any(|varied| varied == name)) {
            let Some(size) = cell.level(name).number() else { continue };
            let value = Level::Number(size);
            if values.iter().all(|known| known.value != value) {
                values.push(AdvisedValue { value, question: test.name.clone(), factor: name.into() });
            }
        }
    }
    values
}

/// The sizes of options that may be as good as a recommended one, each once; those that can be slower by
/// the least come first.
fn tied(view: &Report, advised: &[AdvisedValue]) -> Vec<Level> {
    let is_tied = |option: &&OptionResult| {
        matches!(option.status, OptionStatus::Use | OptionStatus::AsGood | OptionStatus::Undecided)
    };
    let tests = view.tests.iter().filter(|test| test.is_compared());
    let mut options: Vec<&OptionResult> = tests.flat_map(|test| &test.options).filter(is_tied).collect();
    let upper = |option: &OptionResult| option.slower_upper.unwrap_or(f64::INFINITY);
    options.sort_by(|a, b| upper(a).total_cmp(&upper(b)));
    let mut further: Vec<Level> = Vec::new();
    for size in options.iter().flat_map(|option| SIZES.iter().filter_map(|name| option.settings.get(name).number())) {
        let value = Level::Number(size);
        if advised.iter().all(|known| known.value != value) && !further.contains(&value) {
            further.push(value);
        }
    }
    further
}

/// Refuses a missing program before anything is measured. Commands in a shell are looked up by the shell.
pub fn must_be_there(words: &[String]) -> Result<(), Failure> {
    let Some(program) = words.first().filter(|program| !program.contains('{')) else { return Ok(()) };
    match find_to_run(program) {
        Some(_) => Ok(()),
        None => usage(format!(
            "the command `{program}` was not found, or may not be run: check its name, or give its whole path; words for a shell \
             (cd, pipes, variables) need one: sh -c '…'"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_values_are_in_order() {
        let check = |values: &str, given, expected: &str| assert_eq!(in_order(values.into(), given), expected);
        check("4K,64K,512", Some("4K,64K"), "512,4K,64K");
        check("64K,4K,512", Some("64K,4K"), "64K,4K,512");
        check("512K,16K,4K", Some("recommended:7"), "4K,16K,512K");
        check("4K..16K", None, "4K..16K");
        check("lz4,none", Some("lz4"), "lz4,none");
    }

    #[test]
    fn recommendations_are_sizes_of_streams_or_calls() {
        for name in SIZES {
            let factor = factor::find(name).expect(name);
            assert_eq!(factor.role, factor::Role::Choice, "{name}");
            assert!(factor.kind.parse_list("64K").is_ok_and(|levels| levels == [Level::Number(65_536)]), "{name}");
        }
    }
}
