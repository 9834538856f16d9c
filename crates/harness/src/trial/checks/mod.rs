//! Decides whether a trial failed: its counts must add up, and every requested mode must have run.

pub(super) mod call;
mod datagram;
pub(super) mod link;
pub(super) mod relay;
mod stream;

use bytegauge_model::{EndRole, Engine, Implementation, Outcome, Workload};
use bytegauge_traffic::Setup;

use crate::trial::answers::Answers;

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
            Workload::Call => call::check_counts(setup, answers),
            Workload::Ring => check_ring(setup, answers),
            Workload::Check => check_rate(answers),
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
    for (role, report) in reports {
        let flows = report.flows.iter().filter(|flow| flow.tcp.as_ref().is_some_and(|tcp| tcp.mptcp == Some(false)));
        match flows.count() {
            0 => {}
            count => {
                return Some(format!(
                    "{count} of {} connections of the {role} fell back from MPTCP to TCP: measure with --transport tcp, or see \
                     nstat -az 'MPTcpExt*' for the cause",
                    report.flows.len()
                ));
            }
        }
    }
    None
}

/// A requested mode that did not run fails the trial.
fn in_mode(engine: Engine, unproven: Option<String>) -> Check {
    none(unproven.map(|reason| format!("engine {engine} did not run in its mode: {reason}")))
}

#[cfg(test)]
mod tests {
    use bytegauge_model::{CallReport, EndReport, FlowReport, Spec, TcpReport};

    use super::*;
    use crate::trial::answers::LastReply;

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
