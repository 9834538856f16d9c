//! `compare`, `--save` and `--against`: compares new results with earlier ones.

use bytegauge_compare::{AcrossView, HistoryView, across, history};
use bytegauge_model::{SessionId, SessionRecord, SessionStatus};
use bytegauge_plan::spec::MARGINS;
use bytegauge_report::SessionData;
use bytegauge_report::view::numbers::Verdict;
use bytegauge_store::{Store, StoreError};
use clap::ArgMatches;

use crate::earlier_sessions::{SESSIONS_MAX, is_same_question, is_same_system, note_between, of_plan, older};
use crate::exit_code::{DONE, FAILED, Failure, INCONCLUSIVE, REGRESSION, usage};
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
        return usage(format!(
            "session {both} is on both sides, but a session cannot be compared with itself: name an earlier one first, then a \
             later one"
        ));
    }
    tell(&store, &before, &after, matches)
}

/// The name under which a session is kept.
pub fn save_as(matches: &ArgMatches) -> Result<Option<String>, Failure> {
    let Some(name) = args::text(matches, "save") else { return Ok(None) };
    if name.is_empty() || name.parse::<i64>().is_ok() || name.len() > 100 || name.chars().any(char::is_control) {
        return usage(format!(
            "--save: `{name}` is not a name: use a word such as main or v1.2 (numbers name sessions)"
        ));
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
        settings.margin = Some(design_flags::share("margin", margin, MARGINS)?);
    }
    let Some(mut view) = HistoryView::of(&before, &after, &settings) else {
        return usage("there is no earlier session: `bytegauge report list` lists all");
    };
    let one = &before[0].record;
    if before.iter().chain(&after).any(|session| !is_same_system(one, &session.record)) {
        terminal::note("note: these sessions are not all of one machine with one kernel: this may explain differences");
    }
    if let Some(last) = after.last() {
        note_between(one, &last.record);
    }
    let is_comparable = before.iter().chain(&after).all(|session| is_same_question(one, &session.record));
    if !is_comparable {
        view.verdict = Verdict::Open;
        view.text = "not comparable: these sessions did not all run the same command and measure the same of it (exit \
                     code 5); two commands are compared by `bytegauge ab`"
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
    let all = store.sessions()?.into_iter();
    let named = all.filter(|summary| summary.saved.as_deref() == Some(name)).take(SESSIONS_MAX);
    let (complete, cut_off): (Vec<_>, Vec<_>) =
        named.partition(|summary| matches!(summary.status, SessionStatus::Complete | SessionStatus::Imported));
    let mut ids: Vec<SessionId> = complete.into_iter().map(|summary| summary.id).collect();
    ids.sort_unstable_by_key(|id| id.0);
    if ids.is_empty() && !cut_off.is_empty() {
        let mut numbers: Vec<i64> = cut_off.iter().map(|summary| summary.id.0).collect();
        numbers.sort_unstable();
        let listed: Vec<String> = numbers.iter().map(i64::to_string).collect();
        return usage(format!(
            "`{name}` is not complete (session {}), but only complete sessions are compared: continue with \
             --resume, or measure it again with --save {name}",
            listed.join(", ")
        ));
    }
    if ids.is_empty() {
        return usage(format!(
            "no session is saved as `{name}`: measure one with --save {name}, or give a session's number"
        ));
    }
    Ok(ids)
}

// `bytegauge report --across`: the results that hold over several sessions.

/// The most older sessions of the same plan that are used.
const ACROSS_MAX: usize = 50;

/// Prints the results over the named sessions, or over all sessions of the same plan on this machine.
pub fn report_across(matches: &ArgMatches) -> Result<u8, Failure> {
    let path = stored::store_path(matches)?;
    let store = Store::open_existing(&path)?;
    let mut ids = stored::sessions_named(matches, &store)?;
    if let [one] = ids[..] {
        ids = of_the_same_plan(&store, one)?;
    }
    if ids.len() < 2 {
        return usage(
            "--across: there is only one session of this plan: measure it again, or name several (`bytegauge \
             report list` lists them)",
        );
    }
    let sessions: Result<Vec<SessionData>, StoreError> = ids.iter().map(|id| SessionData::load(&store, *id)).collect();
    let sessions = sessions?;
    if sessions.iter().any(|session| !is_same_question(&session.record, &sessions[0].record)) {
        return usage(
            "--across: these sessions ran different programs, or measured something else of them: name sessions of one question",
        );
    }
    let view = AcrossView::of(&sessions, &stored::settings(matches)?);
    if sessions.iter().any(|session| !is_same_system(&session.record, &sessions[0].record)) {
        terminal::note("note: these sessions are not all of one machine with one kernel");
    }
    match args::text(matches, "format") {
        Some("json") => terminal::print_json(&serde_json::json!(view)),
        Some("text") | None => {
            terminal::print_styled(&stored::style(&path), |style| across::render(&view, style));
        }
        Some(other) => return usage(format!("--across has no format {other}: use text or json")),
    }
    let holds = !view.tests.is_empty() && view.tests.iter().all(|test| test.state == across::AcrossState::Certain);
    Ok(if matches.get_flag("strict") && !holds { INCONCLUSIVE } else { DONE })
}

/// The sessions of the same plan that this machine completed, the oldest first.
fn of_the_same_plan(store: &Store, session: SessionId) -> Result<Vec<SessionId>, Failure> {
    let record = store.session(session)?;
    let same = of_plan(store, &record.plan_name, None)?.take(ACROSS_MAX).collect::<Result<Vec<_>, _>>()?;
    let is_like_it = |other: &&SessionRecord| is_same_system(&record, other) && is_same_question(&record, other);
    let mut ids: Vec<SessionId> = same.iter().filter(|other| is_like_it(other)).map(|other| other.id).collect();
    ids.sort_unstable_by_key(|id| id.0);
    Ok(ids)
}
