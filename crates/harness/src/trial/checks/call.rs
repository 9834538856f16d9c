//! Checks of the counts of calls.
//!
//! Errors are results. A trial fails if a count does not add up, a reply has wrong bytes, or its window has no
//! completed call.

use bytegauge_model::{CallError, CallReport, EndRole, Engine, ErrorClass, ErrorPhase, Outcome};
use bytegauge_traffic::{Setup, engine};

use super::{Check, failed, in_mode, none};
use crate::trial::checks;
use crate::trial::script::Answers;

/// Checks a trial without trouble at an end.
pub(super) fn check_counts(setup: &Setup, answers: &Answers) -> Check {
    ran_in_mode(setup, answers).and_then(|()| added_up(setup, answers))
}

/// Whether the engines ran in their requested modes. One datagram per call may have been requested.
fn ran_in_mode(setup: &Setup, answers: &Answers) -> Check {
    // A client that never sent anything showed no mode, and none that is missing.
    let idle =
        answers.report(EndRole::Client).and_then(|end| end.call.as_deref()).is_some_and(|calls| calls.completed == 0);
    if setup.modes_are_shown || idle {
        return Ok(());
    }
    let ends = [(setup.client_engine(), EndRole::Client), (setup.server_engine(), EndRole::Server)];
    for (engine, role) in ends {
        let did = answers.report(role).and_then(|end| end.engine.as_deref());
        let did = did.filter(|_| engine != Engine::Mmsg || setup.call_batch() > 1);
        in_mode(engine, did.and_then(|did| engine::unproven(engine, did)))?;
    }
    none(checks::unproven_relay(setup, answers))
}

/// Whether the counts of client, server and competitors add up, and are not zero.
fn added_up(setup: &Setup, answers: &Answers) -> Check {
    let calls = |role| answers.report(role).and_then(|end| end.call.as_deref());
    let (server, rival) = (calls(EndRole::Server), calls(EndRole::Competitor));
    let Some(client) = calls(EndRole::Client) else { return failed("the client reported nothing") };
    let (per_call, external) = (setup.connect_per_call(), setup.is_external());
    for calls in [Some(client), rival].into_iter().flatten() {
        none(miscounted(calls, per_call).or_else(|| corrupted(calls, external)))?;
    }
    if let Some(server) = server {
        let completed = client.completed + rival.map_or(0, |rival| rival.completed);
        let begun = client.begun + rival.map_or(0, |rival| rival.begun);
        if server.completed < completed || server.begun > begun {
            return failed(format!(
                "{completed} of {begun} calls were completed and the server saw {} and served {}: calls are lost or invented",
                server.begun, server.completed
            ));
        }
    }
    let relay = answers.report(EndRole::Relay).and_then(|end| end.relay.as_deref().copied());
    none(relay.and_then(|relay| checks::relay_of_calls(&relay)).or_else(|| invented(client, server, rival)))?;
    if client.calls > 0 {
        return Ok(());
    }
    let cut_off = server.and_then(cut_off).map_or_else(String::new, |reason| format!("; {reason}"));
    Err(Outcome::NothingMoved(nothing_completed(client) + &cut_off))
}

/// Every call that was begun is completed, lost or unfinished: each of them once.
fn miscounted(calls: &CallReport, per_call: bool) -> Option<String> {
    let cost_a_call = |error: &&CallError| match error.phase {
        ErrorPhase::Idle => false,
        ErrorPhase::Connect => per_call,
        _ => true,
    };
    let lost: u64 = calls.errors.iter().filter(cost_a_call).map(|error| error.count).sum();
    let ended = calls.completed + lost + calls.unfinished;
    (calls.begun != ended)
        .then(|| format!("{} calls were begun and {ended} ended: calls are lost or invented", calls.begun))
}

/// Wrong bytes are no result: the path, or bytegauge, is broken.
fn corrupted(calls: &CallReport, external: bool) -> Option<String> {
    let wrong = |class| calls.errors.iter().filter(|error| error.class == class).map(|error| error.count).sum::<u64>();
    match (wrong(ErrorClass::Corrupt), wrong(ErrorClass::LongReply)) {
        (0, 0) => None,
        (corrupt, long) if external => Some(format!(
            "the server does not reply as it should: {corrupt} replies were not the bytes sent, {long} were longer than \
             they should be: if it is no echo, give --response and the --request that it expects"
        )),
        (0, long) => Some(format!("{long} replies were longer than they should be: the path invents data")),
        (corrupt, _) => Some(format!("{corrupt} replies held wrong bytes: the path corrupts data")),
    }
}

/// Datagrams that arrive must have been sent; those that are lost are results.
fn invented(client: &CallReport, server: Option<&CallReport>, rival: Option<&CallReport>) -> Option<String> {
    let (ours, theirs) = (client.datagrams?, server?.datagrams?);
    let rival = rival.and_then(|rival| rival.datagrams).unwrap_or_default();
    let (requests, replies) = (ours.sent + rival.sent, ours.received + rival.received);
    (theirs.received > requests || replies > theirs.sent).then(|| {
        format!(
            "{requests} requests were sent and {} arrived, {} replies were sent and {replies} arrived: the path invents \
             datagrams",
            theirs.received, theirs.sent
        )
    })
}

/// Requests that did not fit a buffer.
fn cut_off(server: &CallReport) -> Option<String> {
    let seen = server.datagrams.filter(|seen| seen.truncated > 0)?;
    Some(format!(
        "the server's buffer cut off {} of {} requests (MSG_TRUNC): use a --read-size of at least --request",
        seen.truncated, seen.received
    ))
}

/// Every kind of failed calls, the most frequent first.
fn nothing_completed(calls: &CallReport) -> String {
    let mut errors: Vec<&CallError> = calls.errors.iter().collect();
    errors.sort_by_key(|error| std::cmp::Reverse(error.count));
    let name = |value: serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let named: Vec<String> = errors
        .into_iter()
        .map(|CallError { class, phase, count, .. }| {
            let (class, phase) = (name(serde_json::json!(class)), name(serde_json::json!(phase)));
            format!("{count} times {class} in phase {phase}")
        })
        .collect();
    match named.is_empty() {
        true => "no call was completed within the window: use a longer --trial-time".into(),
        false => format!("no call was completed within the window: {}", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytegauge_model::{EndReport, Spec, Workload};

    use super::*;
    use crate::trial::script::LastReply;

    #[test]
    fn a_client_without_calls_fails_no_mode() {
        let levels = Spec::from([("transport", "tcp".into()), ("engine", "uring:zc".into()), ("request", 64.into())])
            .with_workload(Workload::Call);
        let setup = Setup::of(&levels).unwrap();
        let judged = |completed| {
            let call = Some(Box::new(CallReport { begun: completed, completed, ..CallReport::default() }));
            let engine = Some(Box::default());
            let report = Some(EndReport { call, engine, ..EndReport::default() });
            let answer = LastReply { report, trouble: None, sound: true, gone: false };
            let by_role = BTreeMap::from([(EndRole::Client, answer)]);
            let other = check_counts(&setup, &Answers { by_role }).expect_err("it showed no mode");
            (other.moved_nothing(), other.reason().unwrap_or_default().to_owned())
        };
        assert_eq!(judged(0), (true, "no call was completed within the window: use a longer --trial-time".into()));
        assert!(matches!(judged(1), (false, reason) if reason.contains("did not run in its mode")));
    }
}
