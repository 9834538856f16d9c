//! The Go benchmark format, which `benchstat` reads: a line per trial, so that the reader estimates the spread.
//!
//! A name holds the plan and every level that varies in the session, as `key=value` parts. The measures are the cost of a
//! unit (of bytes a MiB), its rate where rates are better read, and CPU time. Format: golang.org/design/14313-benchmark-format.

use std::fmt::Write as _;

use bytegauge_model::{Level, Spec, Trial, Workload, escape, factor};

use crate::{Report, SessionData};

/// Costs of bytes are per MiB: a byte takes too few nanoseconds.
const MIB: f64 = 1024.0 * 1024.0;

/// The trials behind every estimate.
pub fn render(view: &Report, data: &SessionData) -> String {
    let fact = |pointer: &str| data.record.machine.pointer(pointer).and_then(|fact| fact.as_str().map(plain));
    let mut out = String::from("goos: linux\n");
    for (key, pointer) in [("cpu", "/cpu/model"), ("kernel", "/kernel_release")] {
        if let Some(fact) = fact(pointer) {
            let _ = writeln!(out, "{key}: {fact}");
        }
    }
    let _ = writeln!(out, "pkg: bytegauge/{}", plain(&view.plan.name));
    for unit in ["B/s", "calls/s", "ops/s", "printed"] {
        let _ = writeln!(out, "Unit {unit} better=higher");
    }
    out += "Unit events/op better=lower\n";
    for cell in view.candidates().filter(|cell| cell.trials > 0) {
        let Some(row) = data.cells.iter().find(|row| row.cell.id == cell.id) else { continue };
        let name = name(view, &row.cell.factors);
        let trials = data.trials.iter().filter(|trial| trial.cell == cell.id && Some(trial.stage) == cell.stage);
        for trial in trials.filter(|trial| trial.outcome.name() == "measured") {
            out.extend(line(&name, trial));
        }
    }
    out
}

/// `BenchmarkBufferSize/transport=unix/read=4096`.
fn name(view: &Report, levels: &Spec) -> String {
    let camel = |word: &str| {
        let mut chars = word.chars();
        chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect::<String>())
    };
    let plan: String = view.plan.name.split(|c: char| !c.is_ascii_alphanumeric()).map(camel).collect();
    let mut name = format!("Benchmark{}", if plan.is_empty() { "Session".into() } else { plan });
    let workload = view.plan.workload.parse::<Workload>().unwrap_or_default();
    for row in factor::of(workload).filter(|row| view.plan.varied.iter().any(|varied| varied == row.name)) {
        if levels.get(row.name) != Level::Absent {
            let _ = write!(name, "/{}={}", row.name, plain(&levels.get(row.name).to_string()));
        }
    }
    name
}

/// A value within a line: no space that would end it, no slash that would begin another part of a name, no hidden character.
fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_whitespace() || escape::is_hidden(c) { '_' } else { c })
        .map(|c| if c == '/' { ':' } else { c })
        .collect()
}

fn line(name: &str, trial: &Trial) -> Option<String> {
    let rate = trial.rate().filter(|rate| *rate > 0.0)?;
    if let Some(events) = trial.task().and_then(|task| task.events) {
        return Some(format!("{name} 1 {} ns/op {events} events/op\n", trial.wall_ns));
    }
    let counted = trial.task().map(|task| task.counted);
    // The number of units in one operation, and the name of an operation's rate.
    let (unit, rated) = match (trial.workload, counted) {
        (Workload::Stream, _) | (_, Some(bytegauge_model::Counted::Bytes)) => (MIB, "B/s"),
        (Workload::Call, _) => (1.0, "calls/s"),
        (Workload::Ring, _) => (1.0, "ops/s"),
        (_, Some(bytegauge_model::Counted::Printed)) => (1.0, "printed"),
        _ => (1.0, ""),
    };
    let cost = if unit == MIB { "ns/MiB" } else { "ns/op" };
    let done = match trial.workload {
        Workload::Tune => 1.0,
        _ => (rate * trial.wall_ns as f64 / 1e9 / unit).round().max(1.0),
    };
    let mut line = format!("{name} {done:.0} {} {cost}", number(1e9 * unit / rate));
    if !rated.is_empty() {
        let _ = write!(line, " {} {rated}", number(rate));
    }
    let units = if trial.workload == Workload::Stream { unit } else { 1.0 };
    // The compared part is charged: the relay where there is one, else the server or both ends.
    if let Some(ns) = trial.cpu_ns_per_unit() {
        let of = if units == MIB { "MiB" } else { "op" };
        let _ = write!(line, " {} cpu-ns/{of}", number(ns * units));
    }
    Some(line + "\n")
}

/// Six digits, without an exponent.
fn number(value: f64) -> String {
    let digits = (5.0 - value.abs().max(1e-9).log10().floor()).clamp(0.0, 12.0) as usize;
    format!("{value:.digits$}")
}
