//! Connections for which the server's backlog had no room: how many they were, and how that is known.
//!
//! With a Unix socket connect(2) reports it. A TCP client meets silence, as with a filter or a dead host, so only the counters that
//! the kernel counted meanwhile tells them apart. Never takes a refusal or a reset for a full backlog.

use bytegauge_model::{EndRole, ErrorClass, ErrorPhase, Place, Spec, Trial};

use super::counted_trials::Settled;
use super::numbers::ErrorView;

/// Times that a listener's queue was full during the trials of a cell: by the counts of the server's own listeners, or for
/// another server on this machine by that of the whole network namespace. `None` where neither was counted.
pub fn listen_overflows(settled: &Settled) -> Option<u64> {
    let counts = settled.trials.iter().filter_map(|trial| overflows(&settled.cell.factors, trial));
    counts.reduce(u64::saturating_add)
}

fn overflows(levels: &Spec, trial: &Trial) -> Option<u64> {
    let own = trial.end(EndRole::Server).and_then(|server| server.call.as_ref()?.listen_drops);
    own.or_else(|| trial.machine.as_ref()?.listen_overflows.get().filter(|_| listens_here(levels)))
}

fn listens_here(levels: &Spec) -> bool {
    match levels.connect() {
        None => true,
        Some(Place::Ip(address)) => address.ip().is_loopback(),
        Some(Place::Named { .. } | Place::Path(_) | Place::Iperf3(_)) => false,
    }
}

/// Calls that failed because the backlog had no room. Every one of TCP needs an overflow of its own.
pub fn not_accepted(errors: &[ErrorView], listen_overflows: Option<u64>) -> u64 {
    let sum = |is: fn(&ErrorView) -> bool| {
        errors.iter().filter(|error| is(error)).map(|error| error.count).fold(0, u64::saturating_add)
    };
    let reported = sum(|error| error.class == ErrorClass::BacklogFull);
    let silent = sum(|error| error.class == ErrorClass::TimedOut && error.phase == ErrorPhase::Connect);
    reported.saturating_add(silent.min(listen_overflows.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(class: ErrorClass, phase: ErrorPhase, count: u64) -> ErrorView {
        ErrorView { class, phase, count, request_bytes_lost: 0, reply_bytes_missing: 0, explanation: String::new() }
    }

    #[test]
    fn only_datagrams_without_room_are_counted() {
        let check = |class, phase, overflows, expected| {
            assert_eq!(
                not_accepted(&[view(class, phase, 10)], overflows),
                expected,
                "{class:?} {phase:?} {overflows:?}"
            );
        };
        check(ErrorClass::BacklogFull, ErrorPhase::Connect, None, 10);
        check(ErrorClass::TimedOut, ErrorPhase::Connect, Some(30), 10);
        check(ErrorClass::TimedOut, ErrorPhase::Connect, Some(4), 4);
        check(ErrorClass::TimedOut, ErrorPhase::Connect, Some(0), 0);
        check(ErrorClass::TimedOut, ErrorPhase::Connect, None, 0);
        check(ErrorClass::TimedOut, ErrorPhase::FirstByte, Some(30), 0);
        check(ErrorClass::Refused, ErrorPhase::Connect, Some(30), 0);
        check(ErrorClass::Reset, ErrorPhase::Connect, Some(30), 0);
    }

    #[test]
    fn a_server_elsewhere_counts_for_itself() {
        let at = |place: &str| listens_here(&Spec::from([("connect", place.into())]));
        assert!(listens_here(&Spec::default()) && at("127.0.0.1:7000") && at("[::1]:7000"));
        assert!(!at("192.0.2.7:7000") && !at("far.example:7000"));
    }
}
