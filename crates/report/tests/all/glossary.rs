//! The columns of the tables are in the glossary.

use std::collections::BTreeSet;

use crate::support::{Plan, session};
use bytegauge_model::{EndCounts, EndReport, EndRole, Level};
use bytegauge_report::{SessionData, Settings, View};

const GLOSSARY: &str = include_str!("../../../../docs/glossary.md");

/// The terms of the glossary: the first column of its tables, of which one row may have several.
fn terms() -> BTreeSet<&'static str> {
    let rows = GLOSSARY.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    rows.flat_map(|terms| terms.split(", ")).collect()
}

/// The columns of all tables of a report.
fn columns(view: &View) -> BTreeSet<String> {
    let text = bytegauge_formats::markdown::render(view);
    let headings = text.lines().filter(|line| line.starts_with("| option |"));
    let names = headings.flat_map(|line| line.trim_matches('|').split('|')).map(|name| name.trim().to_owned());
    names.filter(|name| !name.is_empty()).collect()
}

fn of(data: &SessionData) -> View {
    View::of(data, &Settings::default())
}

fn through_relays() -> SessionData {
    let mut data = session(&Plan { transports: vec!["tcp"], profiles: vec!["sum"], ..Plan::default() });
    data.cells.iter_mut().for_each(|row| row.cell.factors.set("relay", Level::Name("splice".into())));
    for trial in &mut data.trials {
        let counts = EndCounts { window_ns: 40_000_000, cpu_ns: 9_000_000, ..EndCounts::default() };
        let relay = EndReport { counts, ..EndReport::default() };
        trial.ends.insert(EndRole::Relay, relay);
    }
    data
}

#[test]
fn every_column_is_in_the_glossary() {
    let views = [
        of(&session(&Plan { transports: vec!["unix"], ..Plan::default() })),
        of(&through_relays()),
        of(&crate::calls::engines()),
        of(&crate::calls::buffers(20_000.0, 0.02)),
        crate::datagrams::planted(|_| ()),
    ];
    let all: BTreeSet<String> = views.iter().flat_map(columns).collect();
    assert!(all.len() > 8, "{all:?}");
    let terms = terms();
    let missing: Vec<&String> = all.iter().filter(|name| !terms.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
