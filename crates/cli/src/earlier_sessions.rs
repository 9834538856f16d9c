//! Earlier sessions of the same plan in a store, and notes about what has changed on this machine since they were measured.

use bytegauge_harness::this_machine;
use bytegauge_model::{SessionId, SessionRecord, SessionStatus};
use bytegauge_plan::Plan;
use bytegauge_store::{Store, StoreError};
use serde_json::{Value, json};

use crate::exit_code::Failure;
use crate::machine_changes::{MachineChange, OTHER_HOST, changes, is_same_system};
use crate::terminal;

/// The most sessions that are searched, the latest first.
pub const SESSIONS_MAX: usize = 200;

/// Complete sessions of a plan that were measured here, before another session if one is given, the latest first.
pub fn of_plan<'a>(
    store: &'a Store,
    plan: &str,
    before: Option<SessionId>,
) -> Result<impl Iterator<Item = Result<SessionRecord, StoreError>> + 'a, StoreError> {
    let all = store.sessions()?.into_iter().filter(move |own| before.is_none_or(|before| own.id.0 < before.0));
    let plan = plan.to_owned();
    let own = all.filter(move |own| own.status == SessionStatus::Complete && !own.imported && own.plan_name == plan);
    Ok(own.take(SESSIONS_MAX).map(|own| store.session(own.id)))
}

/// Those that are older than a session, of the same question on the same machine.
pub fn older<'a>(
    store: &'a Store,
    record: &'a SessionRecord,
) -> Result<impl Iterator<Item = Result<SessionRecord, StoreError>> + 'a, StoreError> {
    let is_like_it = |other: &SessionRecord| is_same_system(record, other) && is_same_question(record, other);
    Ok(of_plan(store, &record.plan_name, Some(record.id))?.filter(move |other| other.as_ref().map_or(true, is_like_it)))
}

/// The latest of them that measured the same options.
pub fn earlier(store: &Store, record: &SessionRecord) -> Result<Option<SessionId>, StoreError> {
    let is_same = |other: &SessionRecord| other.plan.get("cells") == record.plan.get("cells");
    let found = older(store, record)?.find(|other| other.as_ref().map_or(true, is_same));
    Ok(found.transpose()?.filter(|_| !record.imported).map(|other| other.id))
}

/// The words of a program and what is measured of it are its question; its cells contain the rest.
pub fn is_same_question(one: &SessionRecord, other: &SessionRecord) -> bool {
    let parts = ["command", "by_value", "server", "metric", "prepare"];
    parts.iter().all(|part| {
        let of = |record: &SessionRecord| record.plan.pointer(&format!("/task/{part}")).cloned().unwrap_or_default();
        of(one) == of(other)
    })
}

// Notes about this machine.

/// Notes the facts of this machine that have changed since a session was measured here.
pub fn note(record: &SessionRecord) {
    let changed = changed(record, &this_machine(), &record.plan).filter(|_| !record.imported);
    if let Some(changed) = changed {
        terminal::note(&format!("note: session {} may not be valid any more: {changed}; run it again", record.id));
    }
}

/// Notes the facts that changed between two sessions of the same machine.
pub fn note_between(before: &SessionRecord, after: &SessionRecord) {
    if let Some(changed) = changed(before, &after.machine, &after.plan) {
        let (before, after) = (before.id, after.id);
        terminal::note(&format!("note: between sessions {before} and {after} this machine has changed: {changed}"));
    }
}

/// Notes the latest session of the same test, if this machine has changed since.
pub fn note_before(plan: &Plan, store: &Store) -> Result<(), Failure> {
    let wanted = json!(plan);
    let is_same = |other: &SessionRecord| other.plan.get("cells") == wanted.get("cells");
    let found = of_plan(store, &plan.name, None)?.find(|other| other.as_ref().map_or(true, is_same)).transpose()?;
    let Some(record) = found else { return Ok(()) };
    if let Some(changed) = changed(&record, &this_machine(), &record.plan) {
        terminal::note(&format!(
            "note: since session {}, the same test, this machine has changed: {changed}",
            record.id
        ));
    }
    Ok(())
}

/// The facts that differ between the machine of a session and a later one, over the transports of a plan.
fn changed(before: &SessionRecord, after: &Value, plan: &Value) -> Option<String> {
    let found = changes(&before.machine, after, &transports(plan)).filter(|found| !found.is_empty())?;
    Some(found.iter().map(MachineChange::sentence).collect::<Vec<_>>().join("; "))
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
