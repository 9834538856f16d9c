//! Older sessions of the same plan on the same machine.

use bytegauge_model::{SessionId, SessionRecord, SessionStatus};
use bytegauge_store::{Store, StoreError};

use crate::machine_changes::is_same_machine;

/// The most older sessions that are used.
pub const SESSIONS_MAX: usize = 200;

/// Older complete sessions of the same plan on the same machine, the latest first.
pub fn older<'a>(
    store: &'a Store,
    record: &'a SessionRecord,
) -> Result<impl Iterator<Item = Result<SessionRecord, StoreError>> + 'a, StoreError> {
    let candidates = store.sessions()?.into_iter().filter(|other| {
        let is_complete = other.status == SessionStatus::Complete && !other.imported;
        is_complete && other.id.0 < record.id.0 && other.plan_name == record.plan_name
    });
    let is_same = |other: &SessionRecord| is_same_machine(record, other) && is_same_question(record, other);
    let candidates = candidates.take(SESSIONS_MAX);
    Ok(candidates.map(|other| store.session(other.id)).filter(move |other| other.as_ref().map_or(true, is_same)))
}

/// The latest of them that measured the same options.
pub fn earlier(store: &Store, record: &SessionRecord) -> Result<Option<SessionId>, StoreError> {
    let is_same = |other: &SessionRecord| other.plan.get("cells") == record.plan.get("cells");
    let found = older(store, record)?.find(|other| other.as_ref().map_or(true, is_same));
    Ok(found.transpose()?.filter(|_| !record.imported).map(|other| other.id))
}

/// The words of a program are its question; its cells contain the rest.
pub fn is_same_question(one: &SessionRecord, other: &SessionRecord) -> bool {
    let words = |record: &SessionRecord| record.plan.pointer("/task/command").cloned();
    words(one) == words(other)
}
