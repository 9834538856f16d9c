//! `--json-stream`: a line for every event, for programs that watch.

use bytegauge_harness::{Event, Observer};
use bytegauge_model::WORKLOADS;
use serde_json::{Value, json};

use crate::terminal;

/// Writes a JSON object a line to standard output. A line that cannot be written ends no session: the store has it all.
pub struct JsonLines;

impl Observer for JsonLines {
    fn hear(&mut self, event: &Event<'_>) {
        terminal::print_json_line(&describe(event));
    }
}

fn describe(event: &Event<'_>) -> Value {
    match event {
        Event::Began { session, resumed } => json!({"event": "session", "session": session.0, "resumed": resumed}),
        Event::Stage { stage, trials, blocks, .. } => {
            json!({"event": "stage", "stage": stage.name(), "trials": trials, "blocks": blocks})
        }
        Event::Block(block) => json!({
            "event": "block",
            "group": block.group,
            "stage": block.stage.name(),
            "block": block.index,
            "complete": block.complete,
            "steal_share": block.surroundings.steal_share,
            "foreign_cpus": block.surroundings.foreign_cpus,
        }),
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
        Event::Analysed { analysis, of, progress, next_ns } => json!({
            "event": "analysis",
            "analysis": analysis,
            "of": of,
            "groups": progress.tests,
            "decided": progress.decided,
            "settled": progress.settled,
            "next_ns": next_ns,
        }),
        Event::Waiting { ready, left_ns } => {
            json!({"event": "waiting", "ready": ready.to_string(), "left_ns": left_ns})
        }
        Event::Note(text) => json!({"event": "note", "text": text}),
    }
}
