//! Checks of the counts of datagrams at both ends. Datagrams that UDP lost, reordered or repeated are results; impossible
//! counts are a failure.

use bytegauge_model::{EndReport, Engine};
use bytegauge_traffic::Setup;

/// The error in the counts, if any.
pub(in crate::trial) fn broken(setup: &Setup, sent: Option<&EndReport>, received: &EndReport) -> Option<String> {
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
pub(in crate::trial) fn unproven(setup: &Setup, sent: &EndReport, received: &EndReport) -> Option<String> {
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
        let found = broken(&setup, Some(&report(end(sent, sent))), &report(sink));
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
        let reason = |source, sink| unproven(&gso, &report(source), &report(sink));
        assert_eq!(reason(end(6400, 100), end(6400, 100)), None);
        assert!(reason(end(100, 100), end(100, 100)).unwrap().contains("UDP_SEGMENT"));
        assert!(reason(end(6400, 100), end(6400, 6400)).unwrap().contains("UDP_GRO"));
        let mut segments_only = gso.clone();
        segments_only.spec.put(bytegauge_model::FactorKey::gro, false);
        assert_eq!(unproven(&segments_only, &report(end(6400, 100)), &report(end(6400, 6400))), None);
        let single = with(&gso, "write_size", 60_000);
        assert_eq!(unproven(&single, &report(end(100, 100)), &report(end(100, 100))), None);
        let mmsg = setup("udp", "mmsg");
        let single = report(end(100, 100));
        let mut batched = single.clone();
        batched.calls = 2;
        assert!(unproven(&mmsg, &single, &batched).unwrap().contains("no call sent more than one"));
        assert_eq!(unproven(&mmsg, &batched, &batched), None);
        let faster_than_its_sender = &single;
        assert_eq!(unproven(&mmsg, &batched, faster_than_its_sender), None);
        assert_eq!(unproven(&with(&mmsg, "batch", 1), &single, &single), None);
    }
}
