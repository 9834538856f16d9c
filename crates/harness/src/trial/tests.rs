//! Tests of a trial.

use bytegauge_model::{FlowReport, TcpReport};

use super::*;

#[test]
fn untimely_report_is_no_reason() {
    let report = EndReport { flows: vec![FlowReport::default(); 100], ..EndReport::default() };
    let reason = stopped(Reply::Done(Box::new(report)));
    assert_eq!(reason, Outcome::Failed("an end replied `done` at the wrong time".into()));
}

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

#[test]
fn a_relay_explains_errors_of_its_neighbours() {
    let failed = |reason: &str| LastReply {
        report: None,
        trouble: Some(Outcome::Failed(reason.into())),
        sound: true,
        gone: false,
    };
    let check = |answers: Vec<(EndRole, LastReply)>, expected: &str| {
        let answers = Answers { by_role: answers.into_iter().collect() };
        assert_eq!(answers.trouble(), Some(Outcome::Failed(expected.into())));
    };
    let reset = || (EndRole::Sink, failed("connection reset"));
    check(
        vec![reset(), (EndRole::Relay, failed("more than 16 MiB")), (EndRole::Source, failed("broken pipe"))],
        "more than 16 MiB",
    );
    check(vec![reset(), (EndRole::Source, failed("broken pipe"))], "connection reset");
    let gone = LastReply { gone: true, ..failed("the source died") };
    check(vec![reset(), (EndRole::Relay, failed("more than 16 MiB")), (EndRole::Source, gone)], "the source died");
}
