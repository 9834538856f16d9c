//! Checks of the counts of a stream: bytes out = bytes in, at whichever ends count them.
//!
//! If the sink is an external server, the writer measures alone. This host's kernel counts the bytes that left; their
//! further way is unknown and not reported.

use bytegauge_model::trial::IDLE_LOOP;
use bytegauge_model::{EndReport, EndRole, Engine, FlowReport, Outcome, Tls};
use bytegauge_traffic::Setup;
use bytegauge_traffic::engine;

use super::{Answers, Script, datagram, not_in_mode, relay};

/// A connection's SYN and FIN count as a byte each (RFC 4898, which `TCP_INFO` follows).
const NO_PAYLOAD: u64 = 2;

/// A writer and a reader, or a single one of them.
pub(super) fn script(setup: &Setup) -> Script {
    let source = || vec![(EndRole::Source, setup.clone())];
    match setup.external() {
        None if setup.has_two_ends() => {
            Script { others: source(), both: setup.goes_both_ways(), ..Script::alone(EndRole::Sink) }
        }
        None => Script::alone(EndRole::Sink),
        there => {
            let role = if setup.iperf3_writes() { EndRole::Sink } else { EndRole::Source };
            let others = vec![(role, setup.clone())];
            Script { first: None, elsewhere: there, others, ..Script::alone(role) }
        }
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
        let report = EndReport::of_flows([flows, more].concat());
        EndReport { engine, queued_ns: queued_ns(&report.flows), ..report }
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
    flows.iter().filter(|flow| flow.window_ns > 0).map(|flow| flow.queued_ns).sum()
}

/// The error in one direction, if any.
fn one_way(setup: &Setup, sent: &EndReport, received: &EndReport, back: bool) -> Option<Outcome> {
    let of =
        |end: &EndReport| EndReport::of_flows(end.flows.iter().filter(|flow| flow.back == back).cloned().collect());
    let (sent, received) = (of(sent), of(received));
    let way = if back { "back" } else { "there" };
    if setup.transport().is_datagram() {
        if let Some(reason) = datagram::broken(setup, Some(&sent), &received) {
            return Some(Outcome::Failed(format!("{way}: {reason}")));
        }
    } else if sent.total_bytes != received.total_bytes {
        let (sent, came) = (sent.total_bytes, received.total_bytes);
        let reason = format!("{sent} bytes were sent {way} and {came} counted: the path loses or invents data");
        return Some(Outcome::Failed(reason));
    }
    (received.bytes == 0).then(|| {
        Outcome::NothingMoved(format!(
            "no byte went {way} within the window (a reader was kept from running): use a longer --trial-time"
        ))
    })
}

/// The outcome of a trial without trouble at an end.
pub(super) fn check_counts(setup: &Setup, answers: &Answers) -> Outcome {
    let wrong = match setup.is_external() && !setup.iperf3_writes() {
        true => written(setup, answers.report(EndRole::Source)),
        false => moved(setup, answers),
    };
    wrong.unwrap_or(Outcome::Measured)
}

/// The error in the counts of both ends, or of a single sink.
fn moved(setup: &Setup, answers: &Answers) -> Option<Outcome> {
    let (sent, received) = (answers.report(EndRole::Source), answers.report(EndRole::Sink));
    let relay = answers.report(EndRole::Relay).and_then(|end| end.relay.as_deref().copied());
    let failed = |reason: String| Some(Outcome::Failed(reason));
    let Some(received) = received else { return failed("the sink reported nothing".into()) };
    if setup.transport().is_datagram() {
        if let Some(reason) = datagram::broken(setup, sent, received).filter(|_| !setup.iperf3_writes()) {
            return failed(reason);
        }
    } else if let (Some(sent), Some(relay)) = (sent, relay) {
        if let Some(reason) = relay::of_stream(sent, &relay, received) {
            return failed(reason);
        }
    } else if let Some(sent) = sent.filter(|sent| sent.total_bytes != received.total_bytes) {
        return failed(format!(
            "{} bytes were sent and {} counted at the sink: the path loses or invents data",
            sent.total_bytes, received.total_bytes
        ));
    }
    if let (true, Some(sent)) = (setup.goes_both_ways(), sent)
        && let Some(wrong) = [false, true].into_iter().find_map(|back| one_way(setup, sent, received, back))
    {
        return Some(wrong);
    }
    if setup.verify && setup.has_two_ends() && received.verified_bytes != received.total_bytes {
        let (checked, total) = (received.verified_bytes, received.total_bytes);
        return failed(format!("only {checked} of {total} bytes were compared with the pattern"));
    }
    // Before the mode: an end that never moved a byte showed no mode, and none that is missing.
    if received.bytes == 0 || received.window_ns == 0 {
        return Some(match setup.engine() {
            // The null engine moves nothing on purpose, so an empty window only shows that its thread did not run.
            Engine::Null => Outcome::Failed(IDLE_LOOP.into()),
            _ => Outcome::NothingMoved(
                "no byte arrived within the window (the reader was kept from running): use a longer --trial-time"
                    .into(),
            ),
        });
    }
    let did = [Some(received), sent]
        .into_iter()
        .flatten()
        .filter_map(|end| end.engine.as_deref().copied())
        .reduce(|a, b| a.plus(&b));
    // A sink has nothing to send and a source nothing to receive: together they show the mode.
    let unproven = did.and_then(|did| engine::unproven(setup.engine(), &did));
    if let Some(reason) = unproven.or_else(|| datagram::unproven(setup, sent?, received)) {
        return Some(not_in_mode(setup.engine(), &reason));
    }
    if let Some(reason) = relay::unproven(setup, answers) {
        return failed(reason);
    }
    None
}

/// The error in the counts of a writer to an external server.
fn written(setup: &Setup, sent: Option<&EndReport>) -> Option<Outcome> {
    let failed = |reason: String| Some(Outcome::Failed(reason));
    let Some(sent) = sent else { return failed("the writer reported nothing".into()) };
    if let Some(reason) = sent.engine.as_deref().and_then(|did| engine::unproven(setup.engine(), did)) {
        return Some(not_in_mode(setup.engine(), &reason));
    }
    for (index, flow) in sent.flows.iter().enumerate() {
        // Encrypted bytes are more than those that were written.
        let acknowledged = flow.tcp.as_ref().and_then(|tcp| tcp.bytes_acked.get()).filter(|_| setup.tls() == Tls::None);
        if let Some(acknowledged) =
            acknowledged.filter(|bytes| *bytes > flow.total_bytes + setup.shown_len() + NO_PAYLOAD)
        {
            return failed(format!(
                "flow {index}: {} bytes were written, but {acknowledged} were acknowledged by TCP_INFO: the counts \
                 do not match",
                flow.total_bytes
            ));
        }
    }
    if sent.bytes == 0 || sent.window_ns == 0 {
        return Some(Outcome::NothingMoved(
            "the server read no byte within the window: it may not read, or wait until its replies are read; if it \
             reads seldom, use a longer --trial-time"
                .into(),
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::trial::LastReply;

    #[test]
    fn directions_are_merged_by_writer_and_reader() {
        // A thread reports with its first flow.
        let flow =
            |back, bytes, queued_ns| FlowReport { back, bytes, window_ns: 10, queued_ns, ..FlowReport::default() };
        let other = |back| FlowReport { back, bytes: 1, ..FlowReport::default() };
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
                (report.bytes, report.queued_ns)
            })
        };
        assert_eq!(of_both(Some(300)), [(501, Some(4001)), (501, Some(320))]);
        // The waiting time of one thread is unknown.
        assert_eq!(of_both(None), [(501, Some(4001)), (501, None)]);
    }
}
