//! What is left out of an export that others may see: the words of a program of the user's, which may hold passwords and
//! paths, and what it printed, of which reasons tell the last line.
//!
//! Values, rates and counts stay: they are what the export is for.

use bytegauge_model::{Outcome, SessionRecord};
use serde_json::Value;

/// What stands in place of what was left out.
const LEFT_OUT: &str = "(redacted)";

/// Takes the words out of a session's plan, and its notes, which may quote them.
pub(crate) fn session(record: &mut SessionRecord) {
    record.plan.as_object_mut().and_then(|plan| plan.remove("asked"));
    let Some(task) = record.plan.get_mut("task").and_then(Value::as_object_mut) else { return };
    let out = || Value::from(vec![LEFT_OUT]);
    for name in ["command", "prepare"]
        .into_iter()
        .filter(|name| task.get(*name).is_some_and(|words| !words.is_null()))
        .collect::<Vec<_>>()
    {
        task.insert(name.into(), out());
    }
    let by_value = |task: &mut serde_json::Map<String, Value>| {
        if let Some(words) = task.get_mut("by_value").and_then(Value::as_object_mut) {
            words.values_mut().for_each(|words| *words = out());
        }
    };
    by_value(task);
    if let Some(server) = task.get_mut("server").and_then(Value::as_object_mut) {
        by_value(server);
        server.insert("command".into(), out());
        server.insert("ready".into(), Value::from(format!("regex:{LEFT_OUT}")));
    }
    if task
        .get("metric")
        .and_then(Value::as_str)
        .is_some_and(|metric| metric.contains(':') && !metric.starts_with("bytes"))
    {
        task.insert("metric".into(), Value::from(format!("regex:{LEFT_OUT}")));
    }
    for side in ["/versus/a/words", "/versus/b/words"] {
        record.plan.pointer_mut(side).into_iter().for_each(|words| *words = LEFT_OUT.into());
    }
    record.notes.iter_mut().for_each(|note| LEFT_OUT.clone_into(note));
    if let Some(notes) = record.plan.get_mut("notes").and_then(Value::as_array_mut) {
        notes.iter_mut().for_each(|note| *note = LEFT_OUT.into());
    }
}

/// Takes the reason out of an outcome, which stays what it was.
pub(crate) fn outcome(outcome: &mut Outcome) {
    match outcome {
        Outcome::Measured => {}
        Outcome::Skipped(reason) | Outcome::Failed(reason) => LEFT_OUT.clone_into(reason),
    }
}
