//! The arguments of the command line: texts, parsed values, and the factors of a workload.
//!
//! Also the flags of a session (budget, blocks, analyses, margin, seed), and the hosts that flags name.

use std::ffi::OsString;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use bytegauge_model::factor::{self, FACTORS, Factor};
use bytegauge_model::{Level, Place, WORKLOADS, Workload};
use bytegauge_plan::{Plan, PlanError, PlanSpec, spec};
use bytegauge_traffic::address;
use clap::ArgMatches;
use clap::parser::ValueSource;

use crate::exit_code::Failure;

/// The words that define the question: those after the program's name, without --store and --resume. Empty if a word is no
/// text.
pub fn asked(words: impl Iterator<Item = OsString>) -> Vec<String> {
    const NOT_ASKED: [&str; 2] = ["--store", "--resume"];
    let mut asked = Vec::new();
    let mut words = words.peekable();
    let mut in_program = false;
    while let Some(word) = words.next() {
        let Ok(word) = word.into_string() else { return Vec::new() };
        in_program |= word == "--";
        let is_value = |next: &OsString| next.to_str().is_some_and(|next| !next.starts_with('-'));
        match word.split_once('=').map_or(word.as_str(), |(flag, _)| flag) {
            flag if !in_program && NOT_ASKED.contains(&flag) => {
                if !word.contains('=') && words.peek().is_some_and(is_value) {
                    words.next();
                }
            }
            _ => asked.push(word),
        }
    }
    asked
}

/// The factors given on the command line for a plan of a workload, in the table's order. A single flag goes
/// before one that stands for several: `--engine epoll --client-engine blocking`.
///
/// # Errors
/// When a flag was given that has no meaning in the workload.
pub fn factors(matches: &ArgMatches, workload: Workload) -> Result<Vec<(&'static Factor, String)>, Failure> {
    let mut given: Vec<(&'static Factor, String)> = Vec::new();
    let mut flags: Vec<String> = WORKLOADS.iter().flat_map(|row| factor::flags(row.value)).collect();
    flags.sort();
    flags.dedup();
    for flag in flags {
        let Ok(Some(text)) = matches.try_get_one::<String>(&flag) else { continue };
        let named = factor::named(workload, &flag);
        if let ([], Some(other)) = (named.as_slice(), factor::elsewhere(workload, &flag)) {
            return Err(PlanError::not_in_workload(&flag, workload, other).into());
        }
        let own =
            |factor: &Factor| named.len() > 1 && matches!(matches.try_get_one::<String>(&factor.flag()), Ok(Some(_)));
        given.extend(named.iter().filter(|factor| !own(factor)).map(|factor| (*factor, text.clone())));
    }
    let place = |factor: &Factor| FACTORS.iter().position(|row| row.name == factor.name);
    given.sort_by_key(|(factor, _)| place(factor));
    Ok(given)
}

/// Whether a flag of this command is on the command line.
pub fn is_given(matches: &ArgMatches, name: &str) -> bool {
    matches!(matches.try_contains_id(name), Ok(true)) && matches.value_source(name) == Some(ValueSource::CommandLine)
}

/// An option's text.
pub fn text<'a>(matches: &'a ArgMatches, name: &str) -> Option<&'a str> {
    matches.get_one::<String>(name).map(String::as_str)
}

/// All texts of an option or of an argument that may occur several times.
pub fn texts<'a>(matches: &'a ArgMatches, name: &str) -> impl Iterator<Item = &'a str> {
    matches.get_many::<String>(name).into_iter().flatten().map(String::as_str)
}

/// The words of the program that is measured.
pub fn command(matches: &ArgMatches) -> Vec<String> {
    texts(matches, "command").map(str::to_owned).collect()
}

/// An option's text, parsed; an error names the flag.
pub fn parsed<T: FromStr<Err: Display>>(matches: &ArgMatches, name: &str) -> Result<Option<T>, Failure> {
    text(matches, name).map(|text| text.parse().map_err(wrong(name))).transpose()
}

/// Makes the error of a flag's value.
pub fn wrong<E: Display>(flag: &str) -> impl Fn(E) -> Failure {
    move |why| Failure::usage(format!("--{flag}: {why}"))
}

/// The value of an option that has a default.
pub fn needed<T: FromStr<Err: Display>>(matches: &ArgMatches, name: &str) -> Result<T, Failure> {
    parsed(matches, name)?.ok_or_else(|| Failure::usage(format!("--{name} needs a value")))
}

/// A time during which something is measured, nanoseconds: 0 is refused.
pub fn time_ns(matches: &ArgMatches, name: &str) -> Result<Option<u64>, Failure> {
    text(matches, name).map(spec::time_ns).transpose().map_err(wrong(name))
}

// Flags of the session rather than of its factors: budget, blocks, analyses, margin, seed.

/// Applies them to a plan.
pub fn apply_design(spec: &mut PlanSpec, matches: &ArgMatches) -> Result<(), Failure> {
    // Switches have no text.
    for key in spec::DESIGN_KEYS {
        if let Ok(Some(text)) = matches.try_get_one::<String>(key) {
            spec.set_design(key, text).map_err(wrong(key))?;
        }
    }
    if let Ok(Some(text)) = matches.try_get_one::<String>("finalists") {
        let finalists = spec::finalists(text).map_err(wrong("finalists"))?;
        spec.parts.iter_mut().for_each(|part| part.finalists = Some(finalists));
    }
    spec.verify |= matches!(matches.try_get_one::<bool>("verify"), Ok(Some(true)));
    spec.gentle |= matches!(matches.try_get_one::<bool>("half-load"), Ok(Some(true)));
    Ok(())
}

/// The share that a flag gives: `5%` or `0.05`.
pub fn share(flag: &str, text: &str, range: RangeInclusive<f64>) -> Result<f64, Failure> {
    spec::share(text, range).map_err(wrong(flag))
}

/// The seed that was given, or a new one.
pub fn seed(matches: &ArgMatches) -> u64 {
    matches.get_one::<u64>("seed").copied().unwrap_or_else(seed_from_clock)
}

fn seed_from_clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // Kept below 2^53, so that no reader of JSON rounds it.
    (since.as_nanos() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11
}

// `--connect`, `--host` and `--relay-host`: resolves names and checks that there is a listener, before anything is measured.

/// Looks up the names of external servers and of far hosts, once: a session measures one address, even if the
/// name changes meanwhile.
pub fn look_up_hosts(spec: &mut PlanSpec) -> Result<(), Failure> {
    for factor in ["connect", "host", "relay_host"] {
        for level in spec.parts.iter_mut().filter_map(|part| part.levels.get_mut(factor)).flatten() {
            let Some(named) = level.name().and_then(|name| name.parse::<Place>().ok()) else { continue };
            let found = address::resolved_server(&named)
                .map_err(|fault| Failure::usage(format!("--{}: {fault}", factor.replace('_', "-"))))?;
            *level = Level::Name(found.to_string());
        }
    }
    Ok(())
}

/// Checks that every external server can be reached.
pub fn reach_servers(plan: &Plan) -> Result<(), Failure> {
    let mut seen: Vec<&Place> = Vec::new();
    for cell in &plan.cells {
        let (Some(server), Some(transport)) = (cell.factors.connect(), cell.factors.transport()) else { continue };
        if !seen.contains(&server) {
            address::reach(server, transport)?;
            seen.push(server);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_can_be_repeated() {
        let check = |words: &str, expected: &str| {
            let asked = asked(words.split_whitespace().map(OsString::from));
            assert_eq!(asked.join(" "), expected, "{words}");
        };
        check("--store /tmp/r.db run buffer-size --time 4m", "run buffer-size --time 4m");
        check("run --store=/tmp/r.db buffer-size", "run buffer-size");
        check("stream --read-size 4K,64K --resume 3 -q", "stream --read-size 4K,64K -q");
        check("stream --resume --until conclusive", "stream --until conclusive");
        check("check --values 1,2 -- dd --store x --resume 2", "check --values 1,2 -- dd --store x --resume 2");
    }
}
