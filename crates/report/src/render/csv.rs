//! One row per cell: a column per factor, then the results in base units, and each other estimate by its key in JSON. Empty means not known. Every field passes
//! [`escape::csv_field`].

use std::collections::BTreeSet;

use crate::Report;
use crate::view::numbers::{CallView, CellView, DatagramView, RingView};
use bytegauge_model::{Level, Workload, escape, factor};
use serde_json::Value;

/// A column after the factors.
type CsvColumn = (&'static str, fn(&CellView) -> String);

/// The first columns of every workload after the factors.
const FIRST: &[CsvColumn] = &[
    ("outcome", |cell| cell.outcome.name().to_owned()),
    ("reason", |cell| cell.reason.clone().unwrap_or_default()),
    ("trials", |cell| cell.trials.to_string()),
];

/// The last columns of every workload.
const LAST: &[CsvColumn] = &[
    ("footprint_bytes", |cell| text(cell.footprint)),
    ("above_best_upper", |cell| text(cell.above_best_upper)),
    ("limit", |cell| cell.limit.name.to_owned()),
    ("limit_sentence", |cell| cell.limit.sentence.clone()),
];

const OF_STREAMS: &[CsvColumn] = &[
    ("throughput_bytes_per_s", |cell| text(cell.estimate.median)),
    ("throughput_lower_bytes_per_s", |cell| text(cell.estimate.lower)),
    ("throughput_upper_bytes_per_s", |cell| text(cell.estimate.upper)),
    ("total_rate_bytes_per_s", |cell| text(cell.total_rate)),
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
];

const OF_CALLS: &[CsvColumn] = &[
    ("calls_per_s", |cell| text(cell.estimate.median)),
    ("calls_lower_per_s", |cell| text(cell.estimate.lower)),
    ("calls_upper_per_s", |cell| text(cell.estimate.upper)),
    ("calls_mean_per_s", |cell| text(cell.mean)),
    ("calls_sd_per_s", |cell| text(cell.sd)),
    ("total_rate_calls_per_s", |cell| text(cell.total_rate)),
    ("timing", |cell| cell.call.as_ref().map_or_else(String::new, |call| call.timing.to_owned())),
    ("worker_least_share", |cell| of_calls(cell, |call| Some(call.workers?.least_share))),
    ("worker_most_share", |cell| of_calls(cell, |call| Some(call.workers?.most_share))),
    ("calls", |cell| of_calls(cell, |call| Some(call.calls))),
    ("begun", |cell| of_calls(cell, |call| Some(call.begun))),
    ("failed", |cell| of_calls(cell, |call| Some(call.failed))),
    ("overdue", |cell| of_calls(cell, |call| Some(call.overdue))),
    ("errors", errors),
    ("competing_calls_per_s", |cell| of_calls(cell, |call| call.competing.as_ref()?.calls_per_second)),
    ("effective_rcvbuf", |cell| effective(cell, "rcvbuf")),
    ("effective_sndbuf", |cell| effective(cell, "sndbuf")),
];

const OF_RINGS: &[CsvColumn] = &[
    ("nops_per_s", |cell| text(cell.estimate.median)),
    ("nops_lower_per_s", |cell| text(cell.estimate.lower)),
    ("nops_upper_per_s", |cell| text(cell.estimate.upper)),
    ("total_rate_nops_per_s", |cell| text(cell.total_rate)),
    ("submitted", |cell| of_rings(cell, |ring| Some(ring.submitted))),
    ("completed", |cell| of_rings(cell, |ring| Some(ring.completed))),
    ("checked", |cell| of_rings(cell, |ring| Some(ring.checked))),
    ("left", |cell| of_rings(cell, |ring| Some(ring.left))),
    ("overflowed_after_rounds", |cell| of_rings(cell, |ring| ring.overflowed_after_rounds)),
    ("kernel_thread_cpus", |cell| of_rings(cell, |ring| ring.kernel_thread_cpus)),
];

const OF_RUNS: &[CsvColumn] = &[
    ("unit", |cell| cell.estimate.unit.to_owned()),
    ("rate", |cell| text(cell.estimate.median)),
    ("rate_lower", |cell| text(cell.estimate.lower)),
    ("rate_upper", |cell| text(cell.estimate.upper)),
];

/// The additional columns of datagrams.
const OF_DATAGRAMS: &[CsvColumn] = &[
    ("datagrams_sent", |cell| of_datagrams(cell, |datagrams| Some(datagrams.sent))),
    ("datagrams_arrived", |cell| of_datagrams(cell, |datagrams| Some(datagrams.arrived))),
    ("lost", |cell| of_datagrams(cell, |datagrams| Some(datagrams.lost))),
    ("lost_share", |cell| of_datagrams(cell, |datagrams| datagrams.lost_share)),
    ("lost_at_socket", |cell| of_datagrams(cell, |datagrams| Some(datagrams.lost_at_socket))),
    ("lost_unknown", |cell| of_datagrams(cell, |datagrams| Some(datagrams.lost_unknown))),
    ("worst_burst_share", |cell| of_datagrams(cell, |datagrams| datagrams.worst_burst_share)),
    ("reordered", |cell| of_datagrams(cell, |datagrams| Some(datagrams.reordered))),
    ("duplicated", |cell| of_datagrams(cell, |datagrams| Some(datagrams.duplicated))),
    ("truncated", |cell| of_datagrams(cell, |datagrams| Some(datagrams.truncated))),
    ("sends_refused", |cell| of_datagrams(cell, |datagrams| Some(datagrams.sends_refused))),
];

fn after_factors(view: &Report) -> impl Iterator<Item = &'static CsvColumn> {
    let columns = match workload(view) {
        Workload::Stream => OF_STREAMS,
        Workload::Call => OF_CALLS,
        Workload::Ring => OF_RINGS,
        Workload::Tune => OF_RUNS,
    };
    let of_datagrams = if view.cells.iter().any(|cell| cell.datagrams.is_some()) { OF_DATAGRAMS } else { &[] };
    FIRST.iter().chain(columns).chain(LAST).chain(of_datagrams)
}

fn of_datagrams<T: ToString>(cell: &CellView, read: impl Fn(&DatagramView) -> Option<T>) -> String {
    text(cell.datagrams.as_ref().and_then(read))
}

fn of_calls<T: ToString>(cell: &CellView, read: impl Fn(&CallView) -> Option<T>) -> String {
    text(cell.call.as_ref().and_then(read))
}

fn of_rings<T: ToString>(cell: &CellView, read: impl Fn(&RingView) -> Option<T>) -> String {
    text(cell.ring.as_ref().and_then(read))
}

/// `reset/first-byte=12 refused/connect=3`.
fn errors(cell: &CellView) -> String {
    let errors = cell.call.iter().flat_map(|call| &call.errors);
    errors.map(|e| format!("{}/{}={}", e.class, e.phase, e.count)).collect::<Vec<_>>().join(" ")
}

/// An option as the server's kernel reports it.
fn effective(cell: &CellView, name: &str) -> String {
    cell.counters.options.get(name).map_or_else(String::new, |option| plain(&option.sink))
}

/// The table with its heading.
pub fn render(view: &Report) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let names = ["session", "cell", "group", "kind", "stage", "in_best_set", "recommended"];
    let factors = factor::of(workload(view)).map(|factor| factor.name);
    // The other estimates that some cell has.
    let estimates: BTreeSet<&str> = view.cells.iter().flat_map(|cell| cell.more.keys().copied()).collect();
    let heading = names
        .into_iter()
        .chain(factors)
        .chain(after_factors(view).map(|(name, _)| *name))
        .chain(estimates.iter().copied());
    // Writing to memory, with as many fields as the heading has, cannot fail.
    writer.write_record(heading).expect("memory takes a row");
    for cell in &view.cells {
        let row = row(view, cell, &estimates);
        writer.write_record(row.iter().map(|field| escape::csv_field(field).into_owned())).expect("memory takes a row");
    }
    let bytes = writer.into_inner().expect("memory is flushed");
    String::from_utf8(bytes).expect("fields are text")
}

/// A stream, for an import without a known workload.
fn workload(view: &Report) -> Workload {
    view.plan.workload.parse().unwrap_or_default()
}

fn row(view: &Report, cell: &CellView, estimates: &BTreeSet<&str>) -> Vec<String> {
    let group = view.groups.iter().find(|group| group.id == cell.group);
    let in_best_set = group.is_some_and(|group| group.best_set.contains(&cell.id));
    let recommended = view.test(&cell.group).is_some_and(|test| test.recommended.as_ref() == Some(&cell.id));
    let mut row = vec![
        view.session.to_string(),
        cell.id.to_string(),
        cell.group.to_string(),
        plain(&serde_json::to_value(cell.kind).unwrap_or_default()),
        cell.stage.map_or_else(String::new, |stage| stage.name().to_owned()),
        in_best_set.to_string(),
        recommended.to_string(),
    ];
    row.extend(factor::of(workload(view)).map(|factor| level(cell, factor.name)));
    row.extend(after_factors(view).map(|(_, read)| read(cell)));
    row.extend(estimates.iter().map(|name| text(cell.median(name))));
    row
}

/// A level as a flag takes it; empty where it does not apply.
fn level(cell: &CellView, name: &str) -> String {
    match cell.level(name) {
        Level::Absent => String::new(),
        level => plain(&serde_json::to_value(level).unwrap_or_default()),
    }
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
