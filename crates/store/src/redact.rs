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
        server.get_mut("ready").into_iter().for_each(leave_out_words);
    }
    task.get_mut("metric").into_iter().for_each(leave_out_words);
    for side in ["/versus/a/words", "/versus/b/words"] {
        record.plan.pointer_mut(side).into_iter().for_each(|words| *words = LEFT_OUT.into());
    }
    record.notes.iter_mut().for_each(|note| LEFT_OUT.clone_into(note));
    if let Some(notes) = record.plan.get_mut("notes").and_then(Value::as_array_mut) {
        notes.iter_mut().for_each(|note| *note = LEFT_OUT.into());
    }
}

/// Takes the words out of a sign or a metric: `time:took (.*)` is a time still. A port, a number of bytes and what the kernel
/// calls its counters are nobody's words.
fn leave_out_words(value: &mut Value) {
    let kind = value.as_str().and_then(|text| text.split_once(':')).map(|(kind, _)| kind);
    if let Some(kind) = kind.filter(|kind| !matches!(*kind, "tcp" | "bytes" | "counter")) {
        *value = Value::from(format!("{kind}:{LEFT_OUT}"));
    }
}

/// Takes the reason out of an outcome, which stays what it was.
pub(crate) fn outcome(outcome: &mut Outcome) {
    if let Some(reason) = outcome.reason_mut() {
        LEFT_OUT.clone_into(reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_nobody_s_words_stays() {
        let check = |text: &str, expected: &str| {
            let mut value = Value::from(text);
            leave_out_words(&mut value);
            assert_eq!(value, expected, "{text}");
        };
        for text in ["tcp:7311", "wall", "bytes:256M", "counter:instructions:u"] {
            check(text, text);
        }
        check("regex:my secret", "regex:(redacted)");
        check("time:took ([0-9.]+)s", "time:(redacted)");
        check("unix:/home/me/sock", "unix:(redacted)");
    }
}
