//! `compare`, `--save` and `--against`: compares new results with earlier ones.

use bytegauge_compare::{HistoryView, history};
use bytegauge_model::{SessionId, SessionStatus};
use bytegauge_report::SessionData;
use bytegauge_report::view::numbers::Verdict;
use bytegauge_store::{Store, StoreError};
use clap::ArgMatches;

use crate::earlier_sessions::{SESSIONS_MAX, is_same_question, note_between, older};
use crate::exit_code::{DONE, FAILED, Failure, INCONCLUSIVE, REGRESSION};
use crate::machine_changes::is_same_machine;
use crate::{args, design_flags, stored, terminal};

/// `bytegauge report compare BEFORE AFTER`.
pub fn compare(matches: &ArgMatches) -> Result<u8, Failure> {
    let store = Store::open_existing(&stored::store_path(matches)?)?;
    let [before, after] = ["before", "after"].map(|name| args::text(matches, name).unwrap_or_default());
    let after = match after.parse() {
        Ok(number) => vec![SessionId(number)],
        Err(_) => saved(&store, after)?,
    };
    let before = sessions_before(&store, before, &after)?;
    if let Some(both) = before.iter().find(|id| after.contains(id)) {
        return Err(Failure::usage(format!(
            "session {both} is on both sides, but a session cannot be compared with itself: name an earlier one first, then a \
             later one"
        )));
    }
    tell(&store, &before, &after, matches)
}

/// The name under which a session is kept.
pub fn save_as(matches: &ArgMatches) -> Result<Option<String>, Failure> {
    let Some(name) = args::text(matches, "save") else { return Ok(None) };
    if name.is_empty() || name.parse::<i64>().is_ok() || name.len() > 100 || name.chars().any(char::is_control) {
        return Err(Failure::usage(format!(
            "--save: `{name}` is not a name: use a word such as main or v1.2 (numbers name sessions)"
        )));
    }
    Ok(Some(name.to_owned()))
}

/// The sessions that `--against` names; an error before anything is measured if there are none.
pub fn against(matches: &ArgMatches, store: &Store) -> Result<Option<Vec<SessionId>>, Failure> {
    let Some(named) = args::text(matches, "against") else { return Ok(None) };
    sessions_before(store, named, &[]).map(Some)
}

/// Prints the comparison, and returns the exit code. Sessions of different commands, or without an option in common, are
/// not comparable, and no gate passes on them.
pub fn tell(store: &Store, before: &[SessionId], after: &[SessionId], matches: &ArgMatches) -> Result<u8, Failure> {
    let load =
        |ids: &[SessionId]| ids.iter().map(|id| SessionData::load(store, *id)).collect::<Result<Vec<_>, StoreError>>();
    let (before, after) = (load(before)?, load(after)?);
    let mut settings = stored::settings(matches)?;
    if let Some(margin) = args::text(matches, "margin") {
        settings.margin = Some(design_flags::margin(margin)?);
    }
    let Some(mut view) = HistoryView::of(&before, &after, &settings) else {
        return Err(Failure::usage("there is no earlier session: `bytegauge report list` lists all"));
    };
    let one = &before[0].record;
    if before.iter().chain(&after).any(|session| !is_same_machine(one, &session.record)) {
        terminal::note("note: these sessions are not all of one machine with one kernel: this may explain differences");
    }
    if let Some(last) = after.last() {
        note_between(one, &last.record);
    }
    let is_comparable = before.iter().chain(&after).all(|session| is_same_question(one, &session.record));
    if !is_comparable {
        view.verdict = Verdict::Open;
        view.text = "not comparable: these sessions did not all run the same command (exit code 5); two commands are \
                     compared by `bytegauge ab`"
            .into();
    }
    match args::text(matches, "format") {
        Some("json") => terminal::print_json(&serde_json::json!(view)),
        _ => {
            let style = stored::style(&stored::store_path(matches)?);
            terminal::print_styled(&style, |style| history::render(&view, style));
        }
    }
    Ok(match view.verdict {
        _ if !is_comparable || view.lines.is_empty() => FAILED,
        Verdict::Worse => REGRESSION,
        Verdict::Open if matches.get_flag("strict") => INCONCLUSIVE,
        _ => DONE,
    })
}

/// The sessions of a name or number. A name selects the sessions that were saved under it; a number selects that session and
/// older ones of the same plan on the same machine, which show the variation between sessions. The oldest first.
fn sessions_before(store: &Store, named: &str, after: &[SessionId]) -> Result<Vec<SessionId>, Failure> {
    let Ok(number) = named.parse::<i64>() else { return saved(store, named) };
    let last = SessionId(number);
    let record = store.session(last)?;
    let older = older(store, &record)?.filter(|other| other.as_ref().map_or(true, |other| !after.contains(&other.id)));
    let older: Vec<SessionId> = older.map(|other| Ok(other?.id)).collect::<Result<_, StoreError>>()?;
    let mut ids = [vec![last], older].concat();
    ids.sort_unstable_by_key(|id| id.0);
    Ok(ids)
}

fn saved(store: &Store, name: &str) -> Result<Vec<SessionId>, Failure> {
    let summaries = store.sessions()?.into_iter().take(SESSIONS_MAX);
    let named = summaries.filter(|summary| summary.saved.as_deref() == Some(name));
    let (complete, cut_off): (Vec<_>, Vec<_>) =
        named.partition(|summary| matches!(summary.status, SessionStatus::Complete | SessionStatus::Imported));
    let mut ids: Vec<SessionId> = complete.into_iter().map(|summary| summary.id).collect();
    ids.sort_unstable_by_key(|id| id.0);
    if ids.is_empty() && !cut_off.is_empty() {
        let mut numbers: Vec<i64> = cut_off.iter().map(|summary| summary.id.0).collect();
        numbers.sort_unstable();
        let listed: Vec<String> = numbers.iter().map(i64::to_string).collect();
        return Err(Failure::usage(format!(
            "`{name}` is not complete (session {}), but only complete sessions are compared: continue with \
             --resume, or measure it again with --save {name}",
            listed.join(", ")
        )));
    }
    if ids.is_empty() {
        return Err(Failure::usage(format!(
            "no session is saved as `{name}`: measure one with --save {name}, or give a session's number"
        )));
    }
    Ok(ids)
}
