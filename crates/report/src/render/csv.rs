//! One row a cell: every factor a column, then the settled numbers in base units. Empty means not known.

use bytegauge_model::{Workload, factor};
use serde_json::Value;

use crate::View;
use crate::view::document::CellView;

/// A column after the factors.
type Column = (&'static str, fn(&CellView) -> String);

const AFTER_FACTORS: &[Column] = &[
    ("outcome", |cell| cell.outcome.to_owned()),
    ("reason", |cell| cell.reason.clone().unwrap_or_default()),
    ("trials", |cell| cell.trials.to_string()),
    ("throughput_bytes_per_s", |cell| text(cell.estimate.median)),
    ("throughput_lower_bytes_per_s", |cell| text(cell.estimate.lower)),
    ("throughput_upper_bytes_per_s", |cell| text(cell.estimate.upper)),
    ("total_rate_bytes_per_s", |cell| text(cell.total_rate)),
    ("reads_per_s", |cell| more(cell, "calls_per_second")),
    ("writes_per_s", |cell| more(cell, "write_calls_per_second")),
    ("bytes", |cell| text(cell.counters.bytes)),
    ("reads", |cell| text(cell.counters.reads)),
    ("writes", |cell| text(cell.counters.writes)),
    ("short_reads", |cell| text(cell.counters.short_reads)),
    ("short_writes", |cell| text(cell.counters.short_writes)),
    ("short_read_share", |cell| text(cell.counters.short_read_share)),
    ("bytes_per_read", |cell| text(cell.counters.bytes_per_read)),
    ("source_cpu_s_per_gib", |cell| text(cell.cpu.source.as_ref().and_then(|end| end.total_s_per_gib))),
    ("sink_cpu_s_per_gib", |cell| text(cell.cpu.sink.as_ref().and_then(|end| end.total_s_per_gib))),
    ("ends_cpu_s_per_gib", |cell| text(cell.cpu.ends_s_per_gib)),
    ("machine_busy_s_per_gib", |cell| text(cell.cpu.machine_busy_s_per_gib)),
    ("retransmits", |cell| text(cell.counters.retransmits)),
    ("footprint_bytes", |cell| text(cell.footprint)),
    ("above_best_upper", |cell| text(cell.above_best_upper)),
    ("limit", |cell| cell.limit.name.to_owned()),
    ("limit_sentence", |cell| cell.limit.sentence.clone()),
];

/// The table with its heading.
pub fn render(view: &View) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let names = ["session", "cell", "group", "kind", "stage", "in_best_set", "recommended"];
    let factors = factor::of(workload(view)).map(|factor| factor.name);
    let heading = names.into_iter().chain(factors).chain(AFTER_FACTORS.iter().map(|(name, _)| *name));
    // Writing to memory, with as many fields as the heading has, cannot fail.
    writer.write_record(heading).expect("memory takes a row");
    for cell in &view.cells {
        writer.write_record(row(view, cell)).expect("memory takes a row");
    }
    let bytes = writer.into_inner().expect("memory is flushed");
    String::from_utf8(bytes).expect("fields are text")
}

/// Of an import that names none that is known, a stream.
fn workload(view: &View) -> Workload {
    view.plan.workload.parse().unwrap_or_default()
}

fn row(view: &View, cell: &CellView) -> Vec<String> {
    let group = view.groups.iter().find(|group| group.id == cell.group);
    let in_best_set = group.is_some_and(|group| group.best_set.contains(&cell.id));
    let recommended =
        group.is_some_and(|g| g.recommendation.proven && g.recommendation.cell.as_ref() == Some(&cell.id));
    let mut row = vec![
        view.session.to_string(),
        cell.id.to_string(),
        cell.group.to_string(),
        plain(&serde_json::to_value(cell.kind).unwrap_or_default()),
        cell.stage.map_or_else(String::new, |stage| stage.name().to_owned()),
        in_best_set.to_string(),
        recommended.to_string(),
    ];
    row.extend(factor::of(workload(view)).map(|factor| cell.factors.get(factor.name).map_or_else(String::new, plain)));
    row.extend(AFTER_FACTORS.iter().map(|(_, read)| read(cell)));
    row
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn text<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn more(cell: &CellView, name: &str) -> String {
    text(cell.more.get(name).and_then(|estimate| estimate.median))
}
