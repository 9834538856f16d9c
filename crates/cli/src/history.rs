//! `compare`, `--save` and `--against`: compares new results with earlier ones.
//!
//! Also earlier sessions of the same plan, and notes about what has changed on this machine since.

use bytegauge_compare::{AcrossView, HistoryView, across, history};
use bytegauge_harness::this_machine;
use bytegauge_model::{SessionId, SessionRecord, SessionStatus};
use bytegauge_plan::spec::MARGINS;
use bytegauge_report::SessionData;
use bytegauge_report::view::numbers::Verdict;
use bytegauge_store::{Store, StoreError};
use clap::ArgMatches;
use serde_json::Value;

use crate::exit_code::{DONE, FAILED, Failure, INCONCLUSIVE, REGRESSION, usage};
use crate::{args, stored, terminal};

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
    let (before, after) = (load(store, before)?, load(store, after)?);
    let mut settings = stored::settings(matches)?;
    if let Some(margin) = args::text(matches, "margin") {
        settings.margin = Some(args::share("margin", margin, MARGINS)?);
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

fn load(store: &Store, ids: &[SessionId]) -> Result<Vec<SessionData>, StoreError> {
    ids.iter().map(|id| SessionData::load(store, *id)).collect()
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
    // The store has the latest first.
    let ids: Vec<SessionId> = complete.into_iter().rev().map(|summary| summary.id).collect();
    if ids.is_empty() && !cut_off.is_empty() {
        let listed: Vec<String> = cut_off.iter().rev().map(|summary| summary.id.to_string()).collect();
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
    let sessions = load(&store, &ids)?;
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

// Earlier sessions of the same plan in a store, and notes about what has changed on this machine since they were measured.

/// The most sessions that are searched, the latest first.
pub const SESSIONS_MAX: usize = 200;

/// Complete sessions of a plan that were measured here, before another session if one is given, the latest first.
fn of_plan<'a>(
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
fn is_same_question(one: &SessionRecord, other: &SessionRecord) -> bool {
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
fn note_between(before: &SessionRecord, after: &SessionRecord) {
    if let Some(changed) = changed(before, &after.machine, &after.plan) {
        let (before, after) = (before.id, after.id);
        terminal::note(&format!("note: between sessions {before} and {after} this machine has changed: {changed}"));
    }
}

/// The facts that differ between the machine of a session and a later one, over the transports of a plan.
fn changed(before: &SessionRecord, after: &Value, plan: &Value) -> Option<String> {
    let found = changes(&before.machine, after, &transports(plan)).filter(|found| !found.is_empty())?;
    Some(found.join("; "))
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

// Differences between the machine of a stored session and the machine now. A fact that is unknown on one side is no difference. Another
// machine is no change of this one: then nothing is reported.

const TCP: &[&str] = &["tcp", "tcp6", "mptcp"];
const IP: &[&str] = &["tcp", "tcp6", "mptcp", "udp", "udp6"];

/// In the place of a transport: paths to another host, which use a network card.
const OTHER_HOST: &str = "another host";
const HOSTS: &[&str] = &[OTHER_HOST];

/// The facts that results depend on: the place of each among the facts of a machine, its name, and the transports whose results depend on
/// it; none: all.
const FACTS: &[(&str, &str, &[&str])] = &[
    (KERNEL, "kernel", &[]),
    ("/cpu/mitigations", "mitigations of CPU faults", &[]),
    ("/transparent_huge_pages", "transparent huge pages", &[]),
    ("/network/congestion_control", "net.ipv4.tcp_congestion_control", TCP),
    ("/network/congestion_module", "module of the congestion control", TCP),
    ("/network/tcp_rmem_bytes", "net.ipv4.tcp_rmem", TCP),
    ("/network/tcp_wmem_bytes", "net.ipv4.tcp_wmem", TCP),
    ("/network/tcp_ecn", "net.ipv4.tcp_ecn", TCP),
    ("/network/rmem_max_bytes", "net.core.rmem_max", IP),
    ("/network/wmem_max_bytes", "net.core.wmem_max", IP),
    ("/network/rmem_default_bytes", "net.core.rmem_default", &[]),
    ("/network/card/driver", "driver of the network card", HOSTS),
    ("/network/card/offloads", "offloads of the network card", HOSTS),
    ("/network/default_qdisc", "net.core.default_qdisc", IP),
];

const KERNEL: &str = "/kernel_release";

/// Facts that stay the same as long as the machine is the same one.
const IDENTITY: &[&str] = &["/cpu/model", "/product_name"];

/// Whether processor and kernel are the same, so that the rates are about the same system.
fn is_same_system(one: &SessionRecord, other: &SessionRecord) -> bool {
    ["/cpu/model", KERNEL].iter().all(|fact| {
        let known = one.machine.pointer(fact);
        known.is_some() && known == other.machine.pointer(fact)
    })
}

/// The facts that have changed on the machine of a session between `then` and `now`, of those that its transports depend on, a
/// text for each. `None`: it is another machine, or an unknown one.
fn changes(then: &Value, now: &Value, transports: &[String]) -> Option<Vec<String>> {
    let both = |pointer: &str| known(then, pointer).zip(known(now, pointer));
    if known(then, KERNEL).is_none() || !IDENTITY.iter().all(|fact| both(fact).is_none_or(|(then, now)| then == now)) {
        return None;
    }
    let matters = |of: &[&str]| of.is_empty() || transports.iter().any(|transport| of.contains(&transport.as_str()));
    let changed = FACTS.iter().filter(|(.., of)| matters(of)).filter_map(|(pointer, name, _)| {
        let (then, now) = both(pointer).filter(|(then, now)| then != now)?;
        Some(format!("{name}: {then} then, {now} now"))
    });
    Some(changed.collect())
}

/// A fact as text. `None`: it is unknown.
fn known(facts: &Value, pointer: &str) -> Option<String> {
    match facts.pointer(pointer)? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Array(values) => {
            let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            Some(values.iter().map(text).collect::<Vec<_>>().join(" "))
        }
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn machine(kernel: &str, congestion: &str) -> Value {
        json!({
            "kernel_release": kernel, "cpu": {"model": "Example CPU"},
            "network": {"congestion_control": congestion, "tcp_rmem_bytes": [4096, 131_072, 6_291_456]},
        })
    }

    fn sentences(then: &Value, now: &Value, transport: &str) -> Option<Vec<String>> {
        changes(then, now, &[transport.to_owned()])
    }

    #[test]
    fn same_machine_has_no_changes() {
        let now = machine("6.12.3", "bbr");
        assert_eq!(sentences(&now, &now, "tcp"), Some(Vec::new()));
    }
    #[test]
    fn a_card_matters_to_paths_to_other_hosts() {
        let with = |driver: &str, offloads: &[&str]| {
            let mut machine = machine("6.18.1", "bbr");
            machine["network"]["card"] = json!({"driver": driver, "offloads": offloads});
            machine
        };
        let (then, now) = (with("mlx5_core 5.8", &["tso", "gro"]), with("mlx5_core 6.1", &["tso"]));
        let expected = [
            "driver of the network card: mlx5_core 5.8 then, mlx5_core 6.1 now",
            "offloads of the network card: tso gro then, tso now",
        ];
        assert_eq!(sentences(&then, &now, OTHER_HOST).unwrap(), expected);
        assert_eq!(sentences(&then, &now, "tcp"), Some(Vec::new()));
    }

    #[test]
    fn another_kernel_is_a_change() {
        let changed = sentences(&machine("6.18.1", "bbr"), &machine("6.18.2", "bbr"), "tcp").unwrap();
        assert_eq!(changed, ["kernel: 6.18.1 then, 6.18.2 now"]);
    }

    #[test]
    fn only_facts_of_the_transport_count() {
        let found = sentences(&machine("6.18.1", "bbr"), &machine("6.18.1", "cubic"), "tcp").unwrap();
        assert_eq!(found, ["net.ipv4.tcp_congestion_control: bbr then, cubic now"]);
        assert_eq!(sentences(&machine("6.18.1", "bbr"), &machine("6.18.1", "cubic"), "unix"), Some(Vec::new()));
    }

    #[test]
    fn other_machine_is_no_change() {
        let mut other = machine("6.18.1", "bbr");
        other["cpu"]["model"] = json!("Other CPU");
        assert_eq!(sentences(&machine("6.12.1", "bbr"), &other, "tcp"), None);
        assert_eq!(sentences(&json!(null), &machine("6.18.1", "bbr"), "tcp"), None);
    }

    #[test]
    fn unknown_fact_is_no_change() {
        let mut then = machine("6.18.1", "bbr");
        then["network"]["congestion_control"] = json!(null);
        assert_eq!(sentences(&then, &machine("6.18.1", "bbr"), "tcp"), Some(Vec::new()));
    }
}
