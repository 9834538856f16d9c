//! Sessions planted in memory, and their reports.
#![forbid(unsafe_code)]

mod across;
mod agree;
mod audit;
mod between;
mod both_ways;
mod calls;
mod checks;
mod datagrams;
mod earlier;
mod formats;
mod glossary;
mod hostile;
mod iperf3;
mod newcomer;
mod open;
mod page;
mod relays;
mod render;
mod robust;
mod schema;
mod screen;
mod several;
mod support;
mod two;
mod view;

use bytegauge_report::View;
use bytegauge_report::view::document::FindingKind;

/// The sentences of the findings of a kind.
fn phrases(view: &View, kind: FindingKind) -> String {
    let of_kind = view.findings.iter().filter(|finding| finding.kind == kind);
    of_kind.map(|finding| finding.text.as_str()).collect::<Vec<_>>().join(" ")
}

/// A text without its line breaks.
pub fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
