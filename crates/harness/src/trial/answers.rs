//! The last replies of the ends of a trial: their counts, or why they have none.

use std::collections::BTreeMap;

use bytegauge_model::{EndReport, EndRole, FlowReport, Outcome, Side};
use bytegauge_traffic::Reply;
use bytegauge_traffic::end::ChannelError;

/// The last reply of one end.
pub(super) struct LastReply {
    pub(super) report: Option<EndReport>,
    pub(super) trouble: Option<Outcome>,
    /// The end is alive and waits for the next trial.
    pub(super) sound: bool,
    /// The end itself has died, which explains all other replies.
    pub(super) gone: bool,
}

impl LastReply {
    pub(super) fn of(reply: Result<Reply, ChannelError>) -> LastReply {
        let answer = |report, trouble| LastReply { report, trouble, sound: true, gone: false };
        match reply {
            Ok(Reply::Done(report)) => answer(Some(*report), None),
            Ok(Reply::Failed(reason, report)) => answer(Some(*report), Some(Outcome::Failed(reason))),
            Ok(skipped @ Reply::Skipped(_)) => answer(None, Some(stopped(skipped))),
            Ok(other) => LastReply { sound: false, ..answer(None, Some(stopped(other))) },
            Err(error) => LastReply { sound: false, gone: true, ..answer(None, Some(error.into())) },
        }
    }
}

/// The last replies of all ends.
pub(super) struct Answers {
    pub(super) by_role: BTreeMap<EndRole, LastReply>,
}

impl Answers {
    /// The counts of the end of a role.
    pub(super) fn report(&self, role: EndRole) -> Option<&EndReport> {
        self.by_role.get(&role)?.report.as_ref()
    }

    /// Whether a server of bytegauge saw no call at all.
    pub(super) fn served_no_call(&self) -> bool {
        let server = self.report(EndRole::Server).and_then(|server| server.call.as_ref());
        server.is_some_and(|server| server.begun == 0)
    }

    /// The main trouble: first an end that died, then an end that lacks a feature, since the others then only
    /// see their peer close, then a relay, then the end that reads or that measures calls, then the others.
    pub(super) fn trouble(&self) -> Option<Outcome> {
        let mut answers: Vec<(&EndRole, &LastReply)> = self.by_role.iter().collect();
        let explains = |role: &EndRole| {
            matches!(role, EndRole::Client | EndRole::Sink | EndRole::Ring | EndRole::Relay | EndRole::Command)
        };
        // The relay's own error, or why its program ended: its neighbours only see that their connections break.
        answers.sort_by_key(|(role, answer)| {
            (
                !answer.gone,
                !matches!(answer.trouble, Some(Outcome::Skipped(_))),
                **role != EndRole::Relay,
                !explains(role),
                role.side() == Side::Source,
            )
        });
        answers.iter().find_map(|(_, answer)| answer.trouble.clone())
    }
}

/// Why a trial stops after a reply.
pub(super) fn stopped(reply: Reply) -> Outcome {
    match reply {
        Reply::Skipped(reason) => Outcome::Skipped(reason),
        Reply::Failed(reason, _) => Outcome::Failed(reason),
        // Only its name: a report is long, and may come from another host.
        other => Outcome::Failed(format!("an end replied `{}` at the wrong time", other.name())),
    }
}

/// Merges both directions of a stream: bytes written at either end are counted with the source from here on, and bytes read
/// with the sink, so that every count has its usual meaning. The flows of the reverse direction are behind the others.
pub(super) fn crossed(answers: &mut Answers) {
    let report = |role| answers.report(role).cloned();
    let (Some(source), Some(sink)) = (report(EndRole::Source), report(EndRole::Sink)) else { return };
    let ([of_source, of_sink], flows) = ([source.engine, sink.engine], [source.flows, sink.flows]);
    let [(wrote, read_back), (read, wrote_back)] =
        flows.map(|flows| flows.into_iter().partition::<Vec<FlowReport>, _>(|flow| !flow.back));
    let of = |flows: Vec<FlowReport>, more, engine| {
        let mut report = EndReport { engine, ..EndReport::of_flows([flows, more].concat()) };
        report.queued_ns = queued_ns(&report.flows).into();
        report
    };
    let crossed = [(EndRole::Source, of(wrote, wrote_back, of_source)), (EndRole::Sink, of(read, read_back, of_sink))];
    for (role, report) in crossed {
        if let Some(answer) = answers.by_role.get_mut(&role) {
            answer.report = Some(report);
        }
    }
}

/// How long the threads of these flows waited for a CPU. Each thread reports it with its first flow; absent if one is missing.
fn queued_ns(flows: &[FlowReport]) -> Option<u64> {
    flows.iter().filter(|flow| flow.window_ns > 0).map(|flow| flow.queued_ns.get()).sum()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytegauge_model::EndCounts;

    use super::*;

    #[test]
    fn directions_are_merged_by_writer_and_reader() {
        // A thread reports with its first flow.
        let of = |back, counts| FlowReport { back, counts, ..FlowReport::default() };
        let flow = |back, bytes, queued_ns: Option<u64>| {
            of(back, EndCounts { bytes, window_ns: 10, queued_ns: queued_ns.into(), ..EndCounts::default() })
        };
        let other = |back| of(back, EndCounts { bytes: 1, ..EndCounts::default() });
        let of_both = |sinks_wait: Option<u64>| {
            let source = [flow(false, 100, Some(1)), other(false), flow(true, 200, Some(20))];
            let sink = [flow(false, 300, sinks_wait), other(false), flow(true, 400, Some(4000))];
            let answer = |flows: &[FlowReport]| {
                let report = Some(EndReport::of_flows(flows.to_vec()));
                LastReply { report, trouble: None, sound: true, gone: false }
            };
            let by_role = BTreeMap::from([(EndRole::Source, answer(&source)), (EndRole::Sink, answer(&sink))]);
            let mut answers = Answers { by_role };
            crossed(&mut answers);
            [EndRole::Source, EndRole::Sink].map(|role| {
                let report = answers.report(role).unwrap();
                (report.bytes, report.queued_ns.get())
            })
        };
        assert_eq!(of_both(Some(300)), [(501, Some(4001)), (501, Some(320))]);
        // The waiting time of one thread is unknown.
        assert_eq!(of_both(None), [(501, Some(4001)), (501, None)]);
    }

    #[test]
    fn untimely_report_is_no_reason() {
        let report = EndReport { flows: vec![FlowReport::default(); 100], ..EndReport::default() };
        let reason = stopped(Reply::Done(Box::new(report)));
        assert_eq!(reason, Outcome::Failed("an end replied `done` at the wrong time".into()));
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
}
