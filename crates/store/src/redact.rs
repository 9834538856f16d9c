//! Removes from an export the commands of the user's programs, which may contain passwords and paths, and their output,
//! whose last line is part of reasons.
//!
//! Values, rates and counts stay: they are the purpose of the export.

use bytegauge_model::{Outcome, SessionRecord};
use serde_json::{Map, Value, json};

/// The replacement for removed text.
const LEFT_OUT: &str = "(redacted)";

/// Removes the commands from a session's plan, and its notes, which may quote them.
pub(crate) fn redact_session(record: &mut SessionRecord) {
    record.notes.iter_mut().for_each(|note| LEFT_OUT.clone_into(note));
    let plan = &mut record.plan;
    plan.as_object_mut().and_then(|plan| plan.remove("asked"));
    for text in ["/versus/a/words", "/versus/b/words", "/task/changes/service/name"] {
        plan.pointer_mut(text).into_iter().for_each(|text| *text = LEFT_OUT.into());
    }
    for words in ["/task/command", "/task/prepare", "/task/server/command"] {
        plan.pointer_mut(words)
            .filter(|words| !words.is_null())
            .into_iter()
            .for_each(|words| *words = json!([LEFT_OUT]));
    }
    for by_value in ["/task/by_value", "/task/server/by_value"] {
        let words = plan.pointer_mut(by_value).and_then(Value::as_object_mut);
        words.into_iter().flat_map(Map::values_mut).for_each(|words| *words = json!([LEFT_OUT]));
    }
    for text in ["/task/server/ready", "/task/metric"] {
        plan.pointer_mut(text).into_iter().for_each(remove_text);
    }
    let service = plan.pointer_mut("/task/changes/service").and_then(Value::as_object_mut);
    service.and_then(|service| service.remove("peer"));
    let mut each_of = |list: &str, remove: fn(&mut Value)| {
        plan.pointer_mut(list).and_then(Value::as_array_mut).into_iter().flatten().for_each(remove);
    };
    each_of("/notes", |note| *note = LEFT_OUT.into());
    // A cell, and why it was skipped.
    each_of("/skipped", |skipped| skipped.pointer_mut("/1").into_iter().for_each(remove_reason));
    each_of("/task/changes/calls", |calls| {
        calls.as_object_mut().and_then(|calls| calls.insert("program".into(), LEFT_OUT.into()));
    });
}

/// The commands of relays, each of which is replaced by the same number everywhere.
#[derive(Default)]
pub(crate) struct RelayCommands(Vec<String>);

impl RelayCommands {
    /// The level of a relay without its command.
    pub(crate) fn without(&mut self, relay: &str) -> String {
        if !relay.starts_with("cmd:") {
            return relay.to_owned();
        }
        let known = self.0.iter().position(|other| other == relay);
        let at = known.unwrap_or_else(|| {
            self.0.push(relay.to_owned());
            self.0.len() - 1
        });
        // An import accepts it as a command.
        format!("cmd:{LEFT_OUT} {} {{listen}} {{upstream}}", at + 1)
    }

    /// Replaces them in all that is called `relay`, and removes the names of executables.
    pub(crate) fn redact(&mut self, value: &mut Value, is_relay: bool) {
        match value {
            Value::String(text) if is_relay => *text = self.without(text),
            Value::Array(all) => all.iter_mut().for_each(|one| self.redact(one, is_relay)),
            Value::Object(all) => all.iter_mut().for_each(|(name, one)| match name.as_str() {
                // Of a program whose sockets were changed, in a plan and in every trial.
                "executable" => *one = LEFT_OUT.into(),
                _ => self.redact(one, is_relay || name == "relay"),
            }),
            _ => {}
        }
    }
}

/// Removes the reason from an outcome.
fn remove_reason(outcome: &mut Value) {
    if let Ok(mut known) = serde_json::from_value::<Outcome>(outcome.take()) {
        redact_outcome(&mut known);
        *outcome = json!(known);
    }
}

/// Removes the text from a metric or a sign: `time:took (.*)` keeps `time`. Ports, numbers of bytes and names of kernel
/// counters are not private.
fn remove_text(value: &mut Value) {
    let kind = value.as_str().and_then(|text| text.split_once(':')).map(|(kind, _)| kind);
    if let Some(kind) = kind.filter(|kind| !matches!(*kind, "tcp" | "bytes" | "counter")) {
        *value = Value::from(format!("{kind}:{LEFT_OUT}"));
    }
}

/// Removes the reason from an outcome and keeps its kind.
pub(crate) fn redact_outcome(outcome: &mut Outcome) {
    if let Some(reason) = outcome.reason_mut() {
        LEFT_OUT.clone_into(reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_not_private_stay() {
        let check = |text: &str, expected: &str| {
            let mut value = Value::from(text);
            remove_text(&mut value);
            assert_eq!(value, expected, "{text}");
        };
        for text in ["tcp:7311", "wall", "bytes:256M", "counter:TcpExt.TCPBacklogDrop"] {
            check(text, text);
        }
        check("regex:my secret", "regex:(redacted)");
        check("time:took ([0-9.]+)s", "time:(redacted)");
        check("unix:/home/me/sock", "unix:(redacted)");
        let mut line = json!({"relay": ["direct", "cmd:a {listen} {upstream}"], "metric": "cmd:a", "executable": "a"});
        RelayCommands::default().redact(&mut line, false);
        let expected = ["direct", "cmd:(redacted) 1 {listen} {upstream}"];
        assert_eq!(line, json!({"relay": expected, "metric": "cmd:a", "executable": LEFT_OUT}));
    }
}
