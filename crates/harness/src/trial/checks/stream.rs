//! Checks of the counts of a stream: bytes out = bytes in, at whichever ends count them.
//!
//! If the sink is an external server, the writer measures alone. This host's kernel counts the bytes that left; their
//! further way is unknown and not reported.
//!
//! Also the counts of datagrams.

use bytegauge_model::trial::IDLE_LOOP;
use bytegauge_model::{EndReport, EndRole, Engine, Outcome, Tls};
use bytegauge_traffic::{Setup, engine};

use super::{Check, failed, in_mode, none, relay_of_stream, unproven_relay};
use crate::trial::script::Answers;

/// A connection's SYN and FIN count as a byte each (RFC 4898, which `TCP_INFO` follows).
const NO_PAYLOAD: u64 = 2;

/// Checks one direction.
fn one_way(setup: &Setup, sent: &EndReport, received: &EndReport, back: bool) -> Check {
    let of =
        |end: &EndReport| EndReport::of_flows(end.flows.iter().filter(|flow| flow.back == back).cloned().collect());
    let (sent, received) = (of(sent), of(received));
    let way = if back { "back" } else { "there" };
    if setup.transport().is_datagram() {
        none(broken_datagrams(setup, Some(&sent), &received).map(|reason| format!("{way}: {reason}")))?;
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
        none(broken_datagrams(setup, sent, received).filter(|_| !setup.iperf3_writes()))?;
    } else if let (Some(sent), Some(relay)) = (sent, relay) {
        none(relay_of_stream(sent, &relay, received))?;
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
    in_mode(setup.engine(), unproven.or_else(|| unproven_datagrams(setup, sent?, received)))?;
    none(unproven_relay(setup, answers))
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

// Checks of the counts of datagrams at both ends. Datagrams that UDP lost, reordered or repeated are results; impossible
// counts are a failure.

/// The error in the counts, if any.
pub(in crate::trial) fn broken_datagrams(
    setup: &Setup,
    sent: Option<&EndReport>,
    received: &EndReport,
) -> Option<String> {
    if setup.engine() == Engine::Null {
        return None;
    }
    let (Some(source), Some(sink)) = (sent.and_then(|sent| sent.datagrams.as_deref()), received.datagrams.as_deref())
    else {
        return Some("an end counted no datagrams".into());
    };
    let (sent, came) = (source.total, sink.distinct());
    if came > sent {
        return Some(format!(
            "{sent} datagrams were sent, but {came} different ones were counted: the path invents data"
        ));
    }
    if sink.missing > sent - came {
        let (missing, lost) = (sink.missing, sent - came);
        return Some(format!("{missing} numbers are missing at the sink, but at most {lost} datagrams were lost"));
    }
    if setup.transport().is_udp() || (came == sent && sink.duplicated == 0) {
        return None;
    }
    let (transport, twice) = (setup.transport(), sink.duplicated);
    Some(format!("of {sent} datagrams {came} arrived, and {twice} twice: {transport} neither loses nor repeats any"))
}

/// The missing evidence of the engine's mode, if any.
///
/// The number of datagrams that wait for one call of a receiver depends on the load: a receiver that is faster than its sender
/// finds each of them alone, with `recvmmsg`(2) as without.
pub(in crate::trial) fn unproven_datagrams(setup: &Setup, sent: &EndReport, received: &EndReport) -> Option<String> {
    let (source, sink) = (sent.datagrams.as_deref()?, received.datagrams.as_deref()?);
    let most = setup.transport().datagram_max()? as usize;
    let several = setup.batch().unwrap_or(most / setup.write_size()?.max(1)) > 1;
    match setup.engine() {
        Engine::Gso if several && source.total_packets >= source.total => {
            Some("no send was segmented into several datagrams (UDP_SEGMENT)".into())
        }
        Engine::Gso if several && setup.joins_datagrams() && sink.total > 1 && sink.total_packets >= sink.total => {
            Some("no receive was joined from several datagrams (UDP_GRO)".into())
        }
        Engine::Mmsg if setup.batch() != Some(1) && sent.calls > 1 && sent.calls >= source.datagrams => {
            Some("no call sent more than one datagram".into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use bytegauge_model::{DatagramReport, EndCounts, Spec};

    use super::*;

    fn setup(transport: &str, engine: &str) -> Setup {
        let levels = Spec::from([
            ("transport", transport.into()),
            ("engine", engine.into()),
            ("read_size", 65536.into()),
            ("write_size", 1000.into()),
        ]);
        Setup::of(&levels).unwrap()
    }

    fn with(setup: &Setup, name: &str, level: u64) -> Setup {
        let mut other = setup.clone();
        other.spec.set(name, level.into());
        other
    }

    fn end(total: u64, total_packets: u64) -> DatagramReport {
        DatagramReport { datagrams: total, packets: total_packets, total, total_packets, ..DatagramReport::default() }
    }

    fn report(datagrams: DatagramReport) -> EndReport {
        let counts = EndCounts { calls: datagrams.packets, ..EndCounts::default() };
        EndReport { counts, datagrams: Some(Box::new(datagrams)), ..EndReport::default() }
    }

    fn check(transport: &str, sent: u64, sink: DatagramReport, expected: Option<&str>) {
        let setup = setup(transport, "plain");
        let found = broken_datagrams(&setup, Some(&report(end(sent, sent))), &report(sink));
        assert_eq!(found.is_some(), expected.is_some(), "{found:?}");
        assert!(found.unwrap_or_default().contains(expected.unwrap_or_default()), "{expected:?}");
    }

    #[test]
    fn impossible_counts_fail() {
        check("udp", 100, end(90, 90), None);
        check("udp", 100, end(101, 101), Some("100 datagrams were sent, but 101 different ones"));
        check("udp", 100, DatagramReport { duplicated: 5, ..end(105, 105) }, None);
        check("udp", 100, DatagramReport { missing: 11, ..end(90, 90) }, Some("11 numbers are missing"));
        check("unix-dgram", 100, end(100, 100), None);
        check(
            "unix-dgram",
            100,
            end(99, 99),
            Some("of 100 datagrams 99 arrived, and 0 twice: unix-dgram neither loses nor repeats any"),
        );
    }

    #[test]
    fn a_mode_that_did_not_run_is_seen() {
        let gso = setup("udp", "gso");
        let reason = |source, sink| unproven_datagrams(&gso, &report(source), &report(sink));
        assert_eq!(reason(end(6400, 100), end(6400, 100)), None);
        assert!(reason(end(100, 100), end(100, 100)).unwrap().contains("UDP_SEGMENT"));
        assert!(reason(end(6400, 100), end(6400, 6400)).unwrap().contains("UDP_GRO"));
        let mut segments_only = gso.clone();
        segments_only.spec.put(bytegauge_model::FactorKey::gro, false);
        assert_eq!(unproven_datagrams(&segments_only, &report(end(6400, 100)), &report(end(6400, 6400))), None);
        let single = with(&gso, "write_size", 60_000);
        assert_eq!(unproven_datagrams(&single, &report(end(100, 100)), &report(end(100, 100))), None);
        let mmsg = setup("udp", "mmsg");
        let single = report(end(100, 100));
        let mut batched = single.clone();
        batched.calls = 2;
        assert!(unproven_datagrams(&mmsg, &single, &batched).unwrap().contains("no call sent more than one"));
        assert_eq!(unproven_datagrams(&mmsg, &batched, &batched), None);
        let faster_than_its_sender = &single;
        assert_eq!(unproven_datagrams(&mmsg, &batched, faster_than_its_sender), None);
        assert_eq!(unproven_datagrams(&with(&mmsg, "batch", 1), &single, &single), None);
    }
}
