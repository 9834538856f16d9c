//! `--json-stream`: a line for every event, for programs that watch.

use std::io::{self, Write};
use std::path::Path;

use bytegauge_harness::{Event, Observer};
use bytegauge_model::{SessionId, WORKLOADS};
use serde_json::{Value, json};

use crate::exit::Failure;
use crate::stored::called;

/// Writes a JSON object a line to standard output. What cannot be written ends no session: the store has it all.
#[derive(Default)]
pub struct JsonLines {
    failure: Option<io::Error>,
}

impl JsonLines {
    /// Writes one line. A reader that has seen enough (`| head`) is no failure.
    pub fn line(&mut self, value: &Value) {
        match writeln!(io::stdout().lock(), "{value}") {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                self.failure.get_or_insert(error);
            }
            _ => {}
        }
    }

    /// Whether every line was written, to be asked after the last; the session is in `store`.
    ///
    /// # Errors
    /// What was wrong with the first one that was not.
    pub fn end(self, session: SessionId, store: &Path) -> Result<(), Failure> {
        self.failure.map_or(Ok(()), |error| {
            Err(Failure::failed(format!(
                "writing standard output: {error}: lines are missing there; the session is kept: see it with \
                 `{} report {session}`",
                called(store)
            )))
        })
    }
}

impl Observer for JsonLines {
    fn hear(&mut self, event: &Event<'_>) {
        self.line(&describe(event));
    }
}

fn describe(event: &Event<'_>) -> Value {
    match event {
        Event::Began { session, resumed } => json!({"event": "session", "session": session.0, "resumed": resumed}),
        Event::Stage { stage, trials } => json!({"event": "stage", "stage": stage.name(), "trials": trials}),
        Event::Trial { cell, trial, elapsed_ns, left_ns, further_ns } => {
            let mut line = json!({
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
                "elapsed_ns": elapsed_ns,
                "left_ns": left_ns,
                "further_ns": further_ns,
            });
            for row in WORKLOADS {
                line[row.unit.per_second] = json!(trial.rate().filter(|_| trial.workload == row.value));
            }
            line
        }
        Event::Look { look, of, judgement, next_ns } => json!({
            "event": "look",
            "look": look,
            "of": of,
            "groups": judgement.groups,
            "settled": judgement.settled,
            "next_ns": next_ns,
        }),
        Event::Note(text) => json!({"event": "note", "text": text}),
    }
}
