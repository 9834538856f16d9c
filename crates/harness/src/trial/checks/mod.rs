//! Decides whether a trial failed: its counts must add up, and every requested mode must have run.
//!
//! Also checks an emulated link, and a relay's counts against those of the ends on both sides.

mod stream;

use bytegauge_model::{
    CallError, CallReport, EmulatedLink, EndReport, EndRole, Engine, ErrorClass, ErrorPhase, Implementation, LinkUse,
    MachineUse, Nanos, Outcome, RelayChoice, RelayReport, Workload,
};
use bytegauge_traffic::{EndPool, Setup, engine, relay};

use crate::trial::script::Answers;

/// Fewer calls may all have been first ones from their addresses, which only request cookies.
const LEAST_CALLS: u64 = 64;

/// The result of a check; the error is the outcome of a trial that it fails.
type Check = Result<(), Outcome>;

/// Fails a trial for a reason, if there is one.
fn none(reason: Option<String>) -> Check {
    reason.map_or(Ok(()), failed)
}

fn failed(reason: impl Into<String>) -> Check {
    Err(Outcome::Failed(reason.into()))
}

/// The outcome of a trial without trouble at an end.
pub(super) fn check_counts(setup: &Setup, answers: &Answers) -> Outcome {
    none(fell_back(answers).or_else(|| without_fast_open(setup, answers)))
        .and_then(|()| match setup.workload() {
            Workload::Stream => stream::check_counts(setup, answers),
            Workload::Call => check_calls(setup, answers),
            Workload::Ring => check_ring(setup, answers),
            Workload::Tune => check_rate(answers),
        })
        .err()
        .unwrap_or(Outcome::Measured)
}

/// Whether a ring counted anything: completions, or the submissions of a loop that takes none. The end itself has checked that all
/// submissions completed.
fn check_ring(setup: &Setup, answers: &Answers) -> Check {
    let counted = answers.report(EndRole::Ring).and_then(|end| Some((end.window_ns, end.calls, end.ring.as_deref()?)));
    let Some((window_ns, completed, ring)) = counted else { return failed("the ring reported nothing") };
    let units = if setup.implementation() == Implementation::LiburingUndrained { ring.submitted } else { completed };
    if units > 0 && window_ns > 0 {
        return Ok(());
    }
    let why = "nothing was completed within the window (the thread was kept from running): use a longer --trial-time";
    Err(Outcome::NothingMoved(why.into()))
}

/// Whether a run of a program has a rate. The end itself has judged how it ended.
fn check_rate(answers: &Answers) -> Check {
    let rate = answers.report(EndRole::Command).and_then(|end| end.task.as_ref()).map(|task| task.rate);
    if rate.is_some_and(|rate| rate.is_finite() && rate > 0.0) { Ok(()) } else { failed("the run gave no number") }
}

/// The reason why a trial did not use TCP Fast Open (RFC 7413), if it was to.
///
/// The kernel falls back to a usual handshake without an error: without a cookie, or if a middlebox drops such packets. A trial
/// in which no connection had data with its SYN would be a usual handshake under another name.
fn without_fast_open(setup: &Setup, answers: &Answers) -> Option<String> {
    if setup.spec.fastopen().is_none() || !setup.connect_per_call() {
        return None;
    }
    let server = answers.report(EndRole::Server)?;
    let calls = server.call.as_ref()?.completed;
    let mut known = server.flows.iter().filter_map(|flow| flow.tcp.as_deref()?.syn_data).peekable();
    known.peek()?;
    (calls >= LEAST_CALLS && !known.any(|with_data| with_data)).then(|| {
        format!(
            "Fast Open: no connection among {calls} calls had data with its SYN: see nstat -az 'TcpExtTCPFastOpen*', and leave \
             out --fastopen if the path drops such packets"
        )
    })
}

/// That a connection of MPTCP carried TCP, at whichever end: another transport was measured than was requested.
fn fell_back(answers: &Answers) -> Option<String> {
    let reports = answers.by_role.iter().filter_map(|(role, answer)| Some((role, answer.report.as_ref()?)));
    let mut fallen = reports.map(|(role, report)| {
        let flows = report.flows.iter().filter(|flow| flow.tcp.as_ref().is_some_and(|tcp| tcp.mptcp == Some(false)));
        (role, flows.count(), report.flows.len())
    });
    let (role, count, all) = fallen.find(|(_, count, _)| *count > 0)?;
    Some(format!(
        "{count} of {all} connections of the {role} fell back from MPTCP to TCP: measure with --transport tcp, or see \
         nstat -az 'MPTcpExt*' for the cause"
    ))
}

/// A requested mode that did not run fails the trial.
fn in_mode(engine: Engine, unproven: Option<String>) -> Check {
    none(unproven.map(|reason| format!("engine {engine} did not run in its mode: {reason}")))
}

// Checks that an emulated link had its settings.
//
// It runs on the measured machine: if other load keeps it from running, packets arrive late or never reach it, and the
// measured link is another one. Such a trial fails with the reason.

/// Largest mean excess of the round trip, as a share of the setting.
const LATE_SHARE: f64 = 0.1;

/// Or by this, nanoseconds: the wake-up latency of a process twice, and the delay of its work if both ends work as well.
const LATE_NS: u64 = 500_000;

/// Adds the link's counts to the machine's counts of a trial; returns the outcome if the link did not have its settings.
pub(in crate::trial) fn checked_link(
    pool: &mut EndPool,
    asked: Option<&EmulatedLink>,
    machine: Option<&mut MachineUse>,
) -> Option<Outcome> {
    let used = match pool.link_use() {
        Ok(used) => used?,
        Err(fault) => return Some(fault.outcome()),
    };
    if let Some(machine) = machine {
        machine.link = Some(Box::new(used));
    }
    broken_link(asked?, &used).map(Outcome::Failed)
}

/// Why the link did not have its settings, if so.
fn broken_link(asked: &EmulatedLink, used: &LinkUse) -> Option<String> {
    let missed = used.both().missed;
    if missed > 0 {
        return Some(format!(
            "{missed} packets never reached the emulated link, which had no CPU to read them: use a quieter machine or a \
             lower --link-rate"
        ));
    }
    let late_ns = used.late_ns();
    let most_ns = ((asked.delay_ns as f64 * LATE_SHARE) as u64).max(LATE_NS);
    (late_ns > most_ns).then(|| {
        format!(
            "the emulated link took {} longer for a round trip than the set {}, since it had no CPU in time: use a \
             quieter machine, a longer --link-delay or a lower --link-rate",
            Nanos(late_ns),
            Nanos(asked.delay_ns)
        )
    })
}

// Checks of a relay's counts against those of the ends on both sides: it forwarded all that it received, and received all that was sent.

/// Why a relay of bytegauge did not work by its method, if its counters do not show that it did.
pub(in crate::trial) fn unproven_relay(setup: &Setup, answers: &Answers) -> Option<String> {
    let method = setup.relay_method()?;
    let reason = relay::unproven(method, answers.report(EndRole::Relay)?.engine.as_deref()?)?;
    Some(format!("relay {method} did not run in its mode: {reason}"))
}

/// Extends a failure in which nothing reached the end behind the relay: a running relay may connect to another address.
pub(in crate::trial) fn forwards_elsewhere(setup: &Setup, mut outcome: Outcome) -> Outcome {
    if let (Some(relay), true) = (setup.relay().and_then(RelayChoice::running), outcome.is_failed())
        && let Some(reason) = outcome.reason_mut()
    {
        reason.push_str(&format!(
            "; nothing arrived through the relay at {} at {}, where bytegauge listens: check that the relay forwards to this address",
            relay.listen, relay.upstream
        ));
    }
    outcome
}

/// The error in the counts of a stream's relay, if any.
pub(in crate::trial) fn relay_of_stream(sent: &EndReport, relay: &RelayReport, received: &EndReport) -> Option<String> {
    let RelayReport { taken_up, given_up, kernel_up, .. } = *relay;
    let kernel = kernel_up.unwrap_or(taken_up);
    let counts = [sent.total_bytes, taken_up, kernel, given_up, received.total_bytes];
    if counts.iter().all(|count| *count == counts[0]) {
        // A stream has no replies.
        let RelayReport { taken_down, given_down, .. } = *relay;
        return (taken_down != 0 || given_down != 0).then(|| {
            format!(
                "the relay received {taken_down} and sent {given_down} bytes in the reverse direction, in which no end sends: it invents data"
            )
        });
    }
    Some(format!(
        "{} bytes were sent, the relay received {taken_up} (TCP_INFO: {kernel}) and sent {given_up}, {} arrived: the relay loses \
         or invents data",
        sent.total_bytes, received.total_bytes
    ))
}

/// The error in the counts of a relay of calls, if any. Connections may be cut off at the end with bytes under way, so the
/// relay may have received bytes that it could not send, but never the reverse.
pub(in crate::trial) fn relay_of_calls(relay: &RelayReport) -> Option<String> {
    let RelayReport { taken_up, given_up, taken_down, given_down, .. } = *relay;
    (given_up > taken_up || given_down > taken_down).then(|| {
        format!(
            "the relay received {taken_up} and {taken_down} bytes of requests and replies and sent {given_up} and {given_down}: \
             it invents data"
        )
    })
}

// Checks of the counts of calls.
//
// Errors are results. A trial fails if a count does not add up, a reply has wrong bytes, or its window has no
// completed call.

/// Checks a trial without trouble at an end.
fn check_calls(setup: &Setup, answers: &Answers) -> Check {
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
    none(unproven_relay(setup, answers))
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
    none(relay.and_then(|relay| relay_of_calls(&relay)).or_else(|| invented(client, server, rival)))?;
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
    use bytegauge_model::{CallReport, EndReport, FlowReport, Spec, TcpReport};

    use super::*;
    use crate::trial::script::LastReply;

    #[test]
    fn a_fallback_to_tcp_fails_the_trial() {
        let found = |mptcp: Option<bool>| {
            let tcp = Some(Box::new(TcpReport { mptcp, ..TcpReport::default() }));
            let flows = vec![FlowReport { tcp, ..FlowReport::default() }, FlowReport::default()];
            let report = Some(EndReport { flows, ..EndReport::default() });
            let answer = LastReply { report, trouble: None, sound: true, gone: false };
            fell_back(&Answers { by_role: [(EndRole::Sink, answer)].into() })
        };
        assert_eq!([found(None), found(Some(true))], [None, None]);
        let reason = found(Some(false)).unwrap();
        assert!(reason.starts_with("1 of 2 connections of the sink fell back from MPTCP to TCP"), "{reason}");
    }

    fn check(fastopen: &str, (calls, syn_data): (u64, &[bool]), fails: bool) {
        let levels = [("transport", "tcp"), ("request", "1"), ("connect_per_call", "on"), ("fastopen", fastopen)];
        let spec: Spec = levels
            .iter()
            .map(|(name, text)| (*name, bytegauge_model::factor::find(name).unwrap().kind.parse(text).unwrap()))
            .collect();
        let flow = |with_data: &bool| FlowReport {
            tcp: Some(Box::new(TcpReport { syn_data: Some(*with_data), ..TcpReport::default() })),
            ..FlowReport::default()
        };
        let report = EndReport {
            flows: syn_data.iter().map(flow).collect(),
            call: Some(Box::new(CallReport { completed: calls, ..CallReport::default() })),
            ..EndReport::default()
        };
        let answer = LastReply { report: Some(report), trouble: None, sound: true, gone: false };
        let answers = Answers { by_role: [(EndRole::Server, answer)].into() };
        let reason = without_fast_open(&Setup::of(&spec).unwrap(), &answers);
        assert_eq!(reason.is_some(), fails, "{reason:?}");
    }

    #[test]
    fn usual_handshakes_fail_a_fast_open_trial() {
        check("256", (1000, &[false, false, true]), false);
        check("256", (1000, &[false; 4]), true);
        check("256", (10, &[false; 4]), false);
        check("auto", (1000, &[false; 4]), false);
    }
}

#[cfg(test)]
mod link_tests {
    use bytegauge_model::{LinkRate, LossShare, WayUse};

    use super::*;

    fn check(delay_ns: u64, late_ns: u64, missed: u64, expected: Option<&str>) {
        let asked = EmulatedLink { delay_ns, loss: LossShare(0), rate: LinkRate(1_000_000_000) };
        // Half of it each way.
        let way = WayUse { passed: 10, late_ns: 5 * late_ns, missed, ..WayUse::default() };
        let reason = broken_link(&asked, &LinkUse { there: way, back: way, cpu_ns: 0 });
        assert_eq!(reason.is_some(), expected.is_some(), "{reason:?}");
        assert!(reason.unwrap_or_default().contains(expected.unwrap_or_default()));
    }

    #[test]
    fn a_link_with_other_settings_fails_its_trial() {
        check(20_000_000, 2_000_000, 0, None);
        check(20_000_000, 2_010_000, 0, Some("longer for a round trip than the set 20 ms"));
        // For a short link two wake-ups are no error.
        check(100_000, 500_000, 0, None);
        check(100_000, 501_000, 0, Some("a longer --link-delay"));
        check(20_000_000, 0, 3, Some("6 packets never reached"));
    }
}

#[cfg(test)]
mod relay_tests {
    use super::*;
    use bytegauge_model::{EndCounts, Spec};

    fn end(total_bytes: u64) -> EndReport {
        EndReport { counts: EndCounts { total_bytes, ..EndCounts::default() }, ..EndReport::default() }
    }

    fn relay(taken_up: u64, given_up: u64) -> RelayReport {
        RelayReport { taken_up, given_up, ..RelayReport::default() }
    }

    #[test]
    fn bytes_pass_the_relay_and_arrive() {
        let wrong = |sent, relay: RelayReport, received| relay_of_stream(&end(sent), &relay, &end(received)).is_some();
        assert!(!wrong(10, relay(10, 10), 10));
        assert!(!wrong(10, RelayReport { kernel_up: Some(10), ..relay(10, 10) }, 10));
        assert!(wrong(10, RelayReport { kernel_up: Some(11), ..relay(10, 10) }, 10));
        assert!(wrong(11, relay(10, 10), 10) && wrong(10, relay(10, 9), 9) && wrong(10, relay(10, 10), 9));
        assert!(wrong(10, RelayReport { taken_down: 1, given_down: 1, ..relay(10, 10) }, 10));
    }

    #[test]
    fn an_idle_running_relay_gets_a_hint() {
        let hinted = |relay: &str, outcome: &Outcome| {
            let levels = Spec::from([
                ("transport", "tcp".into()),
                ("read_size", 4096.into()),
                ("write_size", 65536.into()),
                ("work", "0.5ns".into()),
                ("rate", "max".into()),
                ("relay", relay.into()),
            ]);
            forwards_elsewhere(&Setup::of(&levels).unwrap(), outcome.clone())
        };
        let (running, failed) = ("addr:127.0.0.1:9000=127.0.0.1:9001", Outcome::Failed("nothing arrived".into()));
        let outcome = hinted(running, &failed);
        assert!(
            outcome.reason().is_some_and(|reason| reason.starts_with("nothing arrived; ") && reason.contains(":9001"))
        );
        assert_eq!((hinted("splice", &failed), hinted(running, &Outcome::Measured)), (failed, Outcome::Measured));
    }

    #[test]
    fn a_relay_sends_no_more_than_it_received() {
        let calls = |taken_down, given_down| RelayReport { taken_down, given_down, ..relay(10, 10) };
        assert!(relay_of_calls(&calls(7, 5)).is_none() && relay_of_calls(&calls(7, 8)).is_some());
        assert!(relay_of_calls(&relay(9, 10)).is_some());
    }
}

#[cfg(test)]
mod call_tests {
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
            let other = check_calls(&setup, &Answers { by_role }).expect_err("it showed no mode");
            (other.moved_nothing(), other.reason().unwrap_or_default().to_owned())
        };
        assert_eq!(judged(0), (true, "no call was completed within the window: use a longer --trial-time".into()));
        assert!(matches!(judged(1), (false, reason) if reason.contains("did not run in its mode")));
    }
}
