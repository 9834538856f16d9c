//! Whether an engine ran in the mode that was asked for: its own counters have to prove it.

use bytegauge_model::{Engine, EngineReport};

use crate::engine::uring;

/// What the report fails to prove, if anything: a mode that was asked for but did not run fails its cell.
///
/// How connections are accepted is not in question: a server that accepts until none is left (`epoll:batch`) makes
/// one accept too many at every wake-up, whether one or many had come, and differs by that from the one that accepts one.
/// How many came at once is the load's doing; the report shows it ([`EngineReport::accepted_at_once`]).
pub fn unproven(engine: Engine, report: &EngineReport) -> Option<String> {
    match engine {
        Engine::Uring(mode) => uring::unproven(mode, report),
        Engine::Mmsg => unbatched(report),
        Engine::Blocking | Engine::Null | Engine::Epoll(_) | Engine::Tokio => None,
        // A cut is seen in the datagrams that a stream counts, not in what its engine does.
        Engine::Plain | Engine::Gso => None,
    }
}

/// An end of calls that has moved datagrams, and never two of them by one system call. One that moved nothing has more
/// to answer for than its mode.
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
        let said = unproven(engine.parse().unwrap(), &report);
        assert_eq!(said.is_some(), expected, "{engine}: {said:?}");
    }

    #[test]
    fn many_datagrams_a_call_are_proven_by_a_call_that_moved_two() {
        check("mmsg", 1, 1, true);
        check("mmsg", 2, 1, false);
        check("mmsg", 1, 2, false);
        check("mmsg", 0, 0, false);
        check("plain", 1, 1, false);
    }

    #[test]
    fn a_load_that_brings_no_two_connections_at_once_proves_nothing_against_a_server() {
        check("epoll:batch", 0, 0, false);
    }
}
