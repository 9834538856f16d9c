//! `bytegauge report --across`: the results that hold over several sessions.

use bytegauge_compare::{AcrossView, across};
use bytegauge_model::SessionId;
use bytegauge_report::SessionData;
use bytegauge_store::{Store, StoreError};
use clap::ArgMatches;

use crate::earlier_sessions::of_plan;
use crate::exit_code::{DONE, Failure, INCONCLUSIVE};
use crate::machine_changes::is_same_machine;
use crate::{args, stored, terminal};

/// The most older sessions of the same plan that are used.
const SESSIONS_MAX: usize = 50;

/// Prints the results over the named sessions, or over all sessions of the same plan on this machine.
pub fn report(matches: &ArgMatches) -> Result<u8, Failure> {
    let path = stored::store_path(matches)?;
    let store = Store::open_existing(&path)?;
    let mut ids = stored::sessions_named(matches, &store)?;
    if let [one] = ids[..] {
        ids = of_the_same_plan(&store, one)?;
    }
    if ids.len() < 2 {
        return Err(Failure::usage(
            "--across: there is only one session of this plan: measure it again, or name several (`bytegauge \
             report list` lists them)",
        ));
    }
    let sessions: Result<Vec<SessionData>, StoreError> = ids.iter().map(|id| SessionData::load(&store, *id)).collect();
    let sessions = sessions?;
    let view = AcrossView::of(&sessions, &stored::settings(matches)?);
    if sessions.iter().any(|session| !is_same_machine(&session.record, &sessions[0].record)) {
        terminal::note("note: these sessions are not all of one machine with one kernel");
    }
    match args::text(matches, "format") {
        Some("json") => terminal::print_json(&serde_json::json!(view)),
        Some("text") | None => {
            terminal::print_styled(&stored::style(&path), |style| across::render(&view, style));
        }
        Some(other) => return Err(Failure::usage(format!("--across has no format {other}: use text or json"))),
    }
    let holds = !view.tests.is_empty() && view.tests.iter().all(|test| test.state == across::AcrossState::Certain);
    Ok(if matches.get_flag("strict") && !holds { INCONCLUSIVE } else { DONE })
}

/// The sessions of the same plan that this machine completed, the oldest first.
fn of_the_same_plan(store: &Store, session: SessionId) -> Result<Vec<SessionId>, Failure> {
    let record = store.session(session)?;
    let same = of_plan(store, &record.plan_name)?.take(SESSIONS_MAX).collect::<Result<Vec<_>, _>>()?;
    let mut ids: Vec<SessionId> =
        same.iter().filter(|other| is_same_machine(&record, other)).map(|other| other.id).collect();
    ids.sort_unstable_by_key(|id| id.0);
    Ok(ids)
}
