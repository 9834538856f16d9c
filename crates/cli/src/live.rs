//! `--json-stream`: a line for every event, for programs that watch.

use std::io::{self, Write};

use bytegauge_harness::{Event, Observer};
use bytegauge_model::Workload;
use serde_json::{Value, json};

/// Writes a JSON object a line to standard output.
pub struct JsonLines;

impl Observer for JsonLines {
    fn hear(&mut self, event: &Event<'_>) {
        line(&describe(event));
    }
}

/// Writes one line; a reader that went away is noticed by the run's end, not by a panic.
pub fn line(value: &Value) {
    let _ = writeln!(io::stdout().lock(), "{value}");
}

fn describe(event: &Event<'_>) -> Value {
    match event {
        Event::Began { session, resumed } => json!({"event": "session", "session": session.0, "resumed": resumed}),
        Event::Stage { stage, trials } => json!({"event": "stage", "stage": stage.name(), "trials": trials}),
        Event::Trial { cell, trial, elapsed_ns, left_ns } => json!({
            "event": "trial",
            "cell": cell.id,
            "group": cell.group,
            "stage": trial.stage.name(),
            "block": trial.block,
            "outcome": trial.outcome.name(),
            "reason": trial.outcome.reason(),
            "bytes": trial.bytes,
            "wall_ns": trial.wall_ns,
            "calls": trial.calls,
            "bytes_per_second": trial.rate().filter(|_| trial.workload == Workload::Stream),
            "calls_per_second": trial.rate().filter(|_| trial.workload == Workload::Call),
            "nops_per_second": trial.rate().filter(|_| trial.workload == Workload::Ring),
            "elapsed_ns": elapsed_ns,
            "left_ns": left_ns,
        }),
        Event::Note(text) => json!({"event": "note", "text": text}),
    }
}
