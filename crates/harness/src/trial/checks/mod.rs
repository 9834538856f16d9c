//! Decides whether a trial failed: its counts must add up, and every requested mode must have run. A file per workload
//! checks its counts.

pub(super) mod call;
mod datagram;
mod fast_open;
pub(super) mod link;
pub(super) mod relay;
mod ring;
mod stream;
mod task;

use bytegauge_model::{Engine, Outcome, Workload};
use bytegauge_traffic::Setup;

use crate::trial::answers::Answers;

/// The outcome of a trial without trouble at an end.
pub(super) fn check_counts(setup: &Setup, answers: &Answers) -> Outcome {
    if let Some(reason) = fell_back(answers) {
        return Outcome::Failed(reason);
    }
    if let Some(reason) = fast_open::unused(setup, answers) {
        return Outcome::Failed(reason);
    }
    match setup.workload() {
        Workload::Stream => stream::check_counts(setup, answers),
        Workload::Call => call::check_counts(setup, answers),
        Workload::Ring => ring::check_counts(setup, answers),
        Workload::Check => task::check_counts(answers),
    }
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
fn not_in_mode(engine: Engine, reason: &str) -> Outcome {
    Outcome::Failed(format!("engine {engine} did not run in its mode: {reason}"))
}

#[cfg(test)]
mod tests {
    use bytegauge_model::{EndReport, EndRole, FlowReport, TcpReport};

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
}
