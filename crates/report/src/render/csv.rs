//! One row per cell: a column per factor, the results in base units, then each other number that some cell has, by its key in JSON.
//! Empty means not known. Every field passes [`escape::csv_field`].

use std::collections::{BTreeMap, BTreeSet};

use bytegauge_model::{Level, Workload, escape, factor};
use serde_json::{Value, json};

use crate::Report;
use crate::view::numbers::CellView;

/// A column before or after the factors.
type CsvColumn = (&'static str, fn(&Report, &CellView) -> String);

const BEFORE: &[CsvColumn] = &[
    ("session", |view, _| view.session.to_string()),
    ("cell", |_, cell| cell.id.to_string()),
    ("group", |_, cell| cell.group.to_string()),
    ("kind", |_, cell| json(&cell.kind)),
    ("stage", |_, cell| cell.stage.map_or_else(String::new, |stage| stage.name().to_owned())),
    ("in_best_set", |view, cell| {
        view.group(&cell.group).is_some_and(|group| group.best_set.contains(&cell.id)).to_string()
    }),
    ("recommended", |view, cell| {
        view.test(&cell.group).is_some_and(|test| test.recommended.as_ref() == Some(&cell.id)).to_string()
    }),
];

const AFTER: &[CsvColumn] = &[
    ("outcome", |_, cell| json(&cell.outcome)),
    ("reason", |_, cell| cell.reason.clone().unwrap_or_default()),
    ("trials", |_, cell| cell.trials.to_string()),
    ("median_rate", |_, cell| json(&cell.estimate.median)),
    ("median_rate_lower", |_, cell| json(&cell.estimate.lower)),
    ("median_rate_upper", |_, cell| json(&cell.estimate.upper)),
    ("rate_unit", |_, cell| cell.estimate.unit.to_owned()),
    ("total_rate", |_, cell| json(&cell.total_rate)),
    ("mean_rate", |_, cell| json(&cell.mean)),
    ("sd_rate", |_, cell| json(&cell.sd)),
    ("footprint_bytes", |_, cell| json(&cell.footprint)),
    ("above_best_upper", |_, cell| json(&cell.above_best_upper)),
    ("limit", |_, cell| cell.limit.name.to_owned()),
    ("limit_sentence", |_, cell| cell.limit.sentence.clone()),
    ("errors", |_, cell| errors(cell)),
];

/// `reset/first-byte=12 refused/connect=3`.
fn errors(cell: &CellView) -> String {
    let errors = cell.call.iter().flat_map(|call| &call.errors);
    errors.map(|e| format!("{}/{}={}", e.class, e.phase, e.count)).collect::<Vec<_>>().join(" ")
}

/// The other numbers of a cell: its counts, CPU time and estimates. Those of an inner object begin with its key.
fn numbers(cell: &CellView) -> BTreeMap<String, String> {
    let estimates = cell.more.iter().filter_map(|(name, estimate)| Some(((*name).to_owned(), json(&estimate.median?))));
    let mut all: BTreeMap<String, String> = estimates.collect();
    for counts in [json!(cell.counters), json!(cell.cpu), json!(cell.call), json!(cell.datagrams), json!(cell.ring)] {
        flatten("", &counts, &mut all);
    }
    all
}

fn flatten(prefix: &str, value: &Value, all: &mut BTreeMap<String, String>) {
    for (key, value) in value.as_object().into_iter().flatten() {
        let name = format!("{prefix}{key}");
        match value {
            Value::Object(_) => flatten(&format!("{name}_"), value, all),
            Value::Null | Value::Array(_) => {}
            value => {
                all.insert(name, plain(value));
            }
        }
    }
}

/// The table with its heading.
pub fn render(view: &Report) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut write = |fields: Vec<String>| {
        // Writing to memory, with as many fields as the heading has, cannot fail.
        writer
            .write_record(fields.iter().map(|field| escape::csv_field(field).into_owned()))
            .expect("memory takes a row");
    };
    let factors: Vec<&str> =
        factor::of(view.plan.workload.parse::<Workload>().unwrap_or_default()).map(|factor| factor.name).collect();
    let numbers: Vec<BTreeMap<String, String>> = view.cells.iter().map(numbers).collect();
    let known: BTreeSet<&String> = numbers.iter().flat_map(BTreeMap::keys).collect();
    let names = |columns: &[CsvColumn]| columns.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>();
    let own = factors.iter().map(|name| (*name).to_owned()).collect();
    write([names(BEFORE), own, names(AFTER), known.iter().map(ToString::to_string).collect()].concat());
    for (cell, numbers) in view.cells.iter().zip(&numbers) {
        let fields = |columns: &[CsvColumn]| columns.iter().map(|(_, read)| read(view, cell)).collect::<Vec<_>>();
        let levels = factors.iter().map(|name| level(cell, name)).collect();
        let numbers = known.iter().map(|name| numbers.get(*name).cloned().unwrap_or_default()).collect();
        write([fields(BEFORE), levels, fields(AFTER), numbers].concat());
    }
    let bytes = writer.into_inner().expect("memory is flushed");
    String::from_utf8(bytes).expect("fields are text")
}

/// A level as a flag takes it; empty where it does not apply.
fn level(cell: &CellView, name: &str) -> String {
    match cell.level(name) {
        Level::Absent => String::new(),
        level => json(&level),
    }
}

fn json(value: &impl serde::Serialize) -> String {
    plain(&serde_json::to_value(value).unwrap_or_default())
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
