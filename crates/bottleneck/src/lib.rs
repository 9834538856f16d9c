//! The limit of a cell: rules over recorded numbers, in the order in which one cause hides another.
//!
//! [`path`] (streams, datagrams and calls) and [`ring`] each have signs, the numbers that their rules read, and a function `find`. A
//! rule needs evidence and shows it; if none applies the answer is [`UNKNOWN`]. Never guesses, never treats a factor's level as evidence of its effect.
#![forbid(unsafe_code)]

pub mod call_errors;
pub mod path;
mod remedy;
pub mod ring;
pub mod task;

use std::collections::BTreeMap;

use bytegauge_model::unit::significant;
pub use remedy::{LimitedOption, remedy};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

/// From this share of a call on the rate is mostly that of the harness. Smaller shares are a caveat, and something else is the
/// limit.
const HARNESS_SHARE: f64 = 0.5;
/// A paced writer within 5 % of its rate is limited by that rate, not by the path: from this share on an offered load counts as
/// answered, in texts and in figures.
pub const OFFERED_SHARE: f64 = 0.95;
/// A thread that runs 90 % of the time can gain at most a tenth from anything but CPU; clocks of the window and of the CPU agree
/// to better than that at 10 ms.
const BUSY: f64 = 0.90;
/// The difference of clocks of the window and of the CPU in trials of some milliseconds.
const CLOCKS: f64 = 0.25;
/// An end that waits a fifth of the time for a CPU loses more to the threads running there than to the path.
const QUEUED: f64 = 0.20;

/// The name if no rule applies.
pub const UNKNOWN: &str = "unknown";

/// The limit of a cell.
// Keys of the evidence end with their unit: `_share` and `_busy` are between 0 and 1.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "LimitView")]
pub struct CellLimit {
    /// The limit; `unknown` where no number proves one.
    #[schemars(schema_with = "schema_of_name")]
    pub name: &'static str,
    /// The limit for readers.
    pub title: &'static str,
    /// The evidence in a sentence.
    pub sentence: String,
    /// The numbers that the sentence rests on.
    pub evidence: BTreeMap<String, f64>,
}

/// The names of the limits.
fn schema_of_name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "description": "The limit; `unknown` where no number proves one.",
        "enum": names().collect::<Vec<_>>(),
    })
}

/// The name of a limit for people.
fn title(name: &'static str) -> &'static str {
    match name {
        "window" => "full TCP window",
        "the harness" => "the measurement itself",
        "wake-ups" => "waits for wake-ups",
        UNKNOWN => "no limit found",
        other => other,
    }
}

/// One rule: its name, and its test of the trials of a workload.
pub struct Rule<S> {
    /// The limit that it finds.
    pub name: &'static str,
    test: fn(&S) -> Option<Evidence>,
}

struct Evidence {
    sentence: String,
    evidence: Vec<(String, f64)>,
}

/// A sentence with the numbers that it rests on.
fn evidence<Name: Into<String>>(
    sentence: impl Into<String>,
    numbers: impl IntoIterator<Item = (Name, f64)>,
) -> Evidence {
    let evidence = numbers.into_iter().map(|(name, value)| (name.into(), value)).collect();
    Evidence { sentence: sentence.into(), evidence }
}

/// Every name that a cell's limit can have.
pub fn names() -> impl Iterator<Item = &'static str> {
    let of_rules = path::RULES.iter().map(|rule| rule.name).chain(ring::RULES.iter().map(|rule| rule.name));
    let mut names: Vec<&'static str> = Vec::new();
    for name in of_rules.chain(task::NAMES) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.into_iter().chain([UNKNOWN])
}

/// The limit by the first rule that applies; else what is known.
fn find<S>(rules: &[Rule<S>], signs: &S, unknown: impl Fn(&S) -> Evidence) -> CellLimit {
    let fired = rules.iter().find_map(|rule| (rule.test)(signs).map(|finding| (rule.name, finding)));
    let (name, finding) = fired.unwrap_or_else(|| (UNKNOWN, unknown(signs)));
    limit(name, finding)
}

fn limit(name: &'static str, finding: Evidence) -> CellLimit {
    let evidence: BTreeMap<_, _> = finding.evidence.into_iter().filter(|(_, value)| value.is_finite()).collect();
    if let Some((what, value)) = evidence.iter().find(|(what, value)| cannot_be(what, **value)) {
        let sentence =
            format!("no limit is named: the numbers behind it cannot be true ({what} {})", significant(*value, 3));
        return without_numbers(UNKNOWN, sentence);
    }
    CellLimit { evidence, ..without_numbers(name, finding.sentence) }
}

/// A limit that no number shows.
pub fn without_numbers(name: &'static str, sentence: impl Into<String>) -> CellLimit {
    CellLimit { name, title: title(name), sentence: sentence.into(), evidence: BTreeMap::new() }
}

/// Whether a share is more than the whole, or a thread busier than always, by more than clocks differ.
fn cannot_be(what: &str, value: f64) -> bool {
    (what.ends_with("_share") || what.ends_with("_busy")) && !(0.0..=1.0 + CLOCKS).contains(&value)
}

/// The harness takes most of the time; `takes` is a sentence for its share.
fn harness(floor_share: Option<f64>, takes: impl Fn(String) -> String) -> Option<Evidence> {
    let share = floor_share.filter(|share| *share >= HARNESS_SHARE)?;
    Some(evidence(takes(percent(share)), [("floor_share", share)]))
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}
