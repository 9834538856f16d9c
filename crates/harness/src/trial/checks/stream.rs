//! Checks of the counts of a stream: bytes out = bytes in, at whichever ends count them.
//!
//! If the sink is an external server, the writer measures alone. This host's kernel counts the bytes that left; their
//! further way is unknown and not reported.

use bytegauge_model::trial::IDLE_LOOP;
use bytegauge_model::{EndReport, EndRole, Engine, Outcome, Tls};
use bytegauge_traffic::Setup;
use bytegauge_traffic::engine;

use super::{Check, datagram, failed, in_mode, none, relay};
use crate::trial::answers::Answers;

/// A connection's SYN and FIN count as a byte each (RFC 4898, which `TCP_INFO` follows).
const NO_PAYLOAD: u64 = 2;

/// Checks one direction.
fn one_way(setup: &Setup, sent: &EndReport, received: &EndReport, back: bool) -> Check {
    let of =
        |end: &EndReport| EndReport::of_flows(end.flows.iter().filter(|flow| flow.back == back).cloned().collect());
    let (sent, received) = (of(sent), of(received));
    let way = if back { "back" } else { "there" };
    if setup.transport().is_datagram() {
        none(datagram::broken(setup, Some(&sent), &received).map(|reason| format!("{way}: {reason}")))?;
    } else if sent.total_bytes != received.total_bytes {
        let (sent, came) = (sent.total_bytes, received.total_bytes);
        return failed(format!("{sent} bytes were sent {way} and {came} counted: the path loses or invents data"));
    }
    if received.bytes > 0 {
        return Ok(());
    }
    let why = "within the window (a reader was kept from running): use a longer --trial-time";
    Err(Outcome::NothingMoved(format!("no byte went {way} {why}")))
}

/// Checks a trial without trouble at an end.
pub(super) fn check_counts(setup: &Setup, answers: &Answers) -> Check {
    match setup.is_external() && !setup.iperf3_writes() {
        true => written(setup, answers.report(EndRole::Source)),
        false => moved(setup, answers),
    }
}

/// Checks the counts of both ends, or of a single sink.
fn moved(setup: &Setup, answers: &Answers) -> Check {
    let (sent, received) = (answers.report(EndRole::Source), answers.report(EndRole::Sink));
    let relay = answers.report(EndRole::Relay).and_then(|end| end.relay.as_deref().copied());
    let Some(received) = received else { return failed("the sink reported nothing") };
    if setup.transport().is_datagram() {
        none(datagram::broken(setup, sent, received).filter(|_| !setup.iperf3_writes()))?;
    } else if let (Some(sent), Some(relay)) = (sent, relay) {
        none(relay::of_stream(sent, &relay, received))?;
    } else if let Some(sent) = sent.filter(|sent| sent.total_bytes != received.total_bytes) {
        return failed(format!(
            "{} bytes were sent and {} counted at the sink: the path loses or invents data",
            sent.total_bytes, received.total_bytes
        ));
    }
    if let (true, Some(sent)) = (setup.goes_both_ways(), sent) {
        [false, true].into_iter().try_for_each(|back| one_way(setup, sent, received, back))?;
    }
    if setup.verify && setup.has_two_ends() && received.verified_bytes != received.total_bytes {
        let (checked, total) = (received.verified_bytes, received.total_bytes);
        return failed(format!("only {checked} of {total} bytes were compared with the pattern"));
    }
    // Before the mode: an end that never moved a byte showed no mode, and none that is missing.
    if received.bytes == 0 || received.window_ns == 0 {
        return Err(match setup.engine() {
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
    in_mode(setup.engine(), unproven.or_else(|| datagram::unproven(setup, sent?, received)))?;
    none(relay::unproven(setup, answers))
}

/// Checks the counts of a writer to an external server.
fn written(setup: &Setup, sent: Option<&EndReport>) -> Check {
    let Some(sent) = sent else { return failed("the writer reported nothing") };
    in_mode(setup.engine(), sent.engine.as_deref().and_then(|did| engine::unproven(setup.engine(), did)))?;
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
        return Err(Outcome::NothingMoved(
            "the server read no byte within the window: it may not read, or wait until its replies are read; if it \
             reads seldom, use a longer --trial-time"
                .into(),
        ));
    }
    Ok(())
}
