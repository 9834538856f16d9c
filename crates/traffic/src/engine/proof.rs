//! Checks by an engine's own counters that it ran in the requested mode.

use bytegauge_model::{Engine, EngineReport};

use crate::engine::uring;

/// The part of the mode that the report does not prove, if any: a requested mode that did not run fails its cell.
///
/// How connections are accepted is not checked: a server that accepts until none is left (`epoll:batch`) makes one accept too
/// many at every wake-up, whether one or many had arrived, and differs by that from one that accepts one. The number that
/// arrive at once depends on the load; the report shows it ([`EngineReport::accepted_at_once`]).
pub fn unproven(engine: Engine, report: &EngineReport) -> Option<String> {
    match engine {
        Engine::Uring(mode) => uring::unproven(mode, report),
        Engine::Mmsg => unbatched(report),
        Engine::Blocking | Engine::Null | Engine::Epoll(_) | Engine::Tokio => None,
        // A cut shows in the datagrams that a stream counts, not in the engine's counters.
        Engine::Plain | Engine::Gso => None,
    }
}

/// Whether an end of calls has moved datagrams, but never two of them by one system call. An end that moved nothing fails for
/// other reasons than its mode.
fn unbatched(report: &EngineReport) -> Option<String> {
    (report.received_at_once.max(report.sent_at_once) == 1).then(|| {
        "no call moved more than one datagram: let several wait at once, with more --flows or a larger --depth, or use plain"
            .into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(engine: &str, received_at_once: u64, sent_at_once: u64, expected: bool) {
        let report = EngineReport { received_at_once, sent_at_once, accepted_at_once: 1, ..EngineReport::default() };
        let missing = unproven(engine.parse().unwrap(), &report);
        assert_eq!(missing.is_some(), expected, "{engine}: {missing:?}");
    }

    #[test]
    fn one_call_with_two_datagrams_proves_batching() {
        check("mmsg", 1, 1, true);
        check("mmsg", 2, 1, false);
        check("mmsg", 1, 2, false);
        check("mmsg", 0, 0, false);
        check("plain", 1, 1, false);
    }

    #[test]
    fn accepts_of_single_connections_disprove_nothing() {
        check("epoll:batch", 0, 0, false);
    }
}
