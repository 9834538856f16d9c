//! Sessions planted in memory, and their reports.
#![forbid(unsafe_code)]

mod across;
mod audit;
mod both_ways;
mod calls;
mod datagrams;
mod formats;
mod hostile;
mod iperf3;
mod open;
mod page;
mod relays;
mod robust;
mod schema;
mod screen;
mod several;
mod support;
mod tune;
mod two;
mod view;

use bytegauge_report::Report;
use bytegauge_report::document::ReportedFinding;
use bytegauge_report::results::{Claim, InvalidReason, Test};

/// Whether a finding is of a kind, such as `several-speeds`, or of a part of one, such as `noise/steal`.
pub fn is_kind(finding: &ReportedFinding, kind: &str) -> bool {
    let value = serde_json::to_value(&finding.finding).expect("plain data");
    let fact = &value["fact"];
    let part = ["cause", "harm", "result", "what"].into_iter().find_map(|name| fact.get(name));
    let own = fact["kind"].as_str().expect("a kind");
    match kind.split_once('/') {
        Some((of, named)) => of == own && part.is_some_and(|part| part == named),
        None => kind == own,
    }
}

/// The sentences of the findings of a kind, or of the scope.
fn phrases(report: &Report, kind: &str) -> String {
    if kind == "scope" {
        return report.scope.join(" ");
    }
    let of_kind = report.findings.iter().filter(|finding| is_kind(finding, kind));
    of_kind.map(|finding| finding.text.as_str()).collect::<Vec<_>>().join(" ")
}

/// The claim of a test, for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// An option is to be used.
    Decided,
    /// Several may be the best.
    Open,
    /// There is no interval.
    NoResult,
    /// There is one option.
    Single,
    /// Nothing was measured.
    Failed,
}

/// The state of a test.
pub fn state_of(test: &Test) -> State {
    match &test.claim {
        Claim::Use { .. } => State::Decided,
        Claim::FreeChoice { .. } | Claim::OnlyCertain { .. } | Claim::Undecided { .. } => State::Open,
        Claim::Invalid { reason: InvalidReason::OneOption } => State::Single,
        Claim::Invalid { reason: InvalidReason::NothingMeasured } => State::Failed,
        Claim::Invalid { .. } => State::NoResult,
    }
}

/// A text without its line breaks.
pub fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
