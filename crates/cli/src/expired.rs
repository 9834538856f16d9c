//! Notes about stored results that were measured under other conditions than those of this machine now.

use bytegauge_harness::this_machine;
use bytegauge_model::{SessionRecord, SessionStatus};
use bytegauge_plan::Plan;
use bytegauge_store::Store;
use serde_json::{Value, json};

use crate::exit_code::Failure;
use crate::machine_changes::{MachineChange, OTHER_HOST, changes};
use crate::terminal;

/// Sessions that are searched for the same test, the latest first.
const SESSIONS_MAX: usize = 200;

/// Notes the facts of this machine that have changed since a session was measured here.
pub fn note(record: &SessionRecord) {
    if record.imported {
        return;
    }
    let changed = changes(&record.machine, &this_machine(), &transports(&record.plan));
    let changed = changed.unwrap_or_default();
    if !changed.is_empty() {
        terminal::note(&format!(
            "note: session {} may not be valid any more: {}; run it again",
            record.id,
            text(&changed)
        ));
    }
}

/// Notes the facts that changed between two sessions of the same machine.
pub fn note_between(before: &SessionRecord, after: &SessionRecord) {
    let changed = changes(&before.machine, &after.machine, &transports(&after.plan)).unwrap_or_default();
    if !changed.is_empty() {
        let (before, after) = (before.id, after.id);
        terminal::note(&format!(
            "note: between sessions {before} and {after} this machine has changed: {}",
            text(&changed)
        ));
    }
}

/// Notes the latest complete session of the same test, if this machine has changed since.
pub fn note_before(plan: &Plan, store: &Store) -> Result<(), Failure> {
    let wanted = json!(plan);
    let summaries = store.sessions()?.into_iter().take(SESSIONS_MAX);
    let candidates = summaries.filter(|summary| {
        summary.plan_name == plan.name && summary.status == SessionStatus::Complete && !summary.imported
    });
    for summary in candidates {
        let record = store.session(summary.id)?;
        if record.plan.get("cells") != wanted.get("cells") {
            continue;
        }
        let changed = changes(&record.machine, &this_machine(), &transports(&record.plan)).unwrap_or_default();
        if !changed.is_empty() {
            terminal::note(&format!(
                "note: since session {}, the same test, this machine has changed: {}",
                record.id,
                text(&changed)
            ));
        }
        return Ok(());
    }
    Ok(())
}

fn text(changes: &[MachineChange]) -> String {
    changes.iter().map(MachineChange::sentence).collect::<Vec<_>>().join("; ")
}

/// The transport of a cell, and whether it goes to another host.
fn names(cell: &Value) -> Vec<String> {
    let has = |factor: &str| cell.pointer(&format!("/factors/{factor}")).and_then(Value::as_str).is_some();
    let transport = cell.pointer("/factors/transport").and_then(Value::as_str).map(str::to_owned);
    let other_host = ["host", "relay_host", "connect"].iter().any(|factor| has(factor));
    transport.into_iter().chain(other_host.then(|| OTHER_HOST.to_owned())).collect()
}

/// The transports of a stored plan.
fn transports(plan: &Value) -> Vec<String> {
    let cells = plan.get("cells").and_then(Value::as_array).into_iter().flatten();
    let mut names: Vec<String> = cells.flat_map(names).collect();
    names.sort_unstable();
    names.dedup();
    names
}
