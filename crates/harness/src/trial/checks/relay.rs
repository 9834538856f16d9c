//! Checks of a relay's counts against those of the ends on both sides: it forwarded all that it received, and received all that was sent.

use bytegauge_model::{EndReport, EndRole, Outcome, RelayChoice, RelayReport};
use bytegauge_traffic::{Setup, relay};

use crate::trial::answers::Answers;

/// Why a relay of bytegauge did not work by its method, if its counters do not show that it did.
pub(in crate::trial) fn unproven(setup: &Setup, answers: &Answers) -> Option<String> {
    let method = setup.relay_method()?;
    let reason = relay::unproven(method, answers.report(EndRole::Relay)?.engine.as_deref()?)?;
    Some(format!("relay {method} did not run in its mode: {reason}"))
}

/// Extends a failure in which nothing reached the end behind the relay: a running relay may connect to another address.
pub(in crate::trial) fn forwards_elsewhere(setup: &Setup, mut outcome: Outcome) -> Outcome {
    if let (Some(relay), true) = (setup.relay().and_then(RelayChoice::running), outcome.is_failed())
        && let Some(reason) = outcome.reason_mut()
    {
        reason.push_str(&format!(
            "; nothing arrived through the relay at {} at {}, where bytegauge listens: check that the relay forwards to this address",
            relay.listen, relay.upstream
        ));
    }
    outcome
}

/// The error in the counts of a stream's relay, if any.
pub(in crate::trial) fn of_stream(sent: &EndReport, relay: &RelayReport, received: &EndReport) -> Option<String> {
    let RelayReport { taken_up, given_up, kernel_up, .. } = *relay;
    let kernel = kernel_up.unwrap_or(taken_up);
    let counts = [sent.total_bytes, taken_up, kernel, given_up, received.total_bytes];
    if counts.iter().all(|count| *count == counts[0]) {
        return back(relay);
    }
    Some(format!(
        "{} bytes were sent, the relay received {taken_up} (TCP_INFO: {kernel}) and sent {given_up}, {} arrived: the relay loses \
         or invents data",
        sent.total_bytes, received.total_bytes
    ))
}

/// A stream has no replies.
fn back(relay: &RelayReport) -> Option<String> {
    let RelayReport { taken_down, given_down, .. } = *relay;
    (taken_down != 0 || given_down != 0)
        .then(|| format!("the relay received {taken_down} and sent {given_down} bytes in the reverse direction, in which no end sends: it invents data"))
}

/// The error in the counts of a relay of calls, if any. Connections may be cut off at the end with bytes under way, so the
/// relay may have received bytes that it could not send, but never the reverse.
pub(in crate::trial) fn of_calls(relay: &RelayReport) -> Option<String> {
    let RelayReport { taken_up, given_up, taken_down, given_down, .. } = *relay;
    (given_up > taken_up || given_down > taken_down).then(|| {
        format!(
            "the relay received {taken_up} and {taken_down} bytes of requests and replies and sent {given_up} and {given_down}: \
             it invents data"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytegauge_model::{EndCounts, Spec};

    fn end(total_bytes: u64) -> EndReport {
        EndReport { counts: EndCounts { total_bytes, ..EndCounts::default() }, ..EndReport::default() }
    }

    fn relay(taken_up: u64, given_up: u64) -> RelayReport {
        RelayReport { taken_up, given_up, ..RelayReport::default() }
    }

    #[test]
    fn bytes_pass_the_relay_and_arrive() {
        let wrong = |sent, relay: RelayReport, received| of_stream(&end(sent), &relay, &end(received)).is_some();
        assert!(!wrong(10, relay(10, 10), 10));
        assert!(!wrong(10, RelayReport { kernel_up: Some(10), ..relay(10, 10) }, 10));
        assert!(wrong(10, RelayReport { kernel_up: Some(11), ..relay(10, 10) }, 10));
        assert!(wrong(11, relay(10, 10), 10) && wrong(10, relay(10, 9), 9) && wrong(10, relay(10, 10), 9));
        assert!(wrong(10, RelayReport { taken_down: 1, given_down: 1, ..relay(10, 10) }, 10));
    }

    #[test]
    fn an_idle_running_relay_gets_a_hint() {
        let hinted = |relay: &str, outcome: &Outcome| {
            let levels = Spec::from([
                ("transport", "tcp".into()),
                ("read_size", 4096.into()),
                ("write_size", 65536.into()),
                ("work", "0.5ns".into()),
                ("rate", "max".into()),
                ("relay", relay.into()),
            ]);
            forwards_elsewhere(&Setup::of(&levels).unwrap(), outcome.clone())
        };
        let (running, failed) = ("addr:127.0.0.1:9000=127.0.0.1:9001", Outcome::Failed("nothing arrived".into()));
        let outcome = hinted(running, &failed);
        assert!(
            outcome.reason().is_some_and(|reason| reason.starts_with("nothing arrived; ") && reason.contains(":9001"))
        );
        assert_eq!((hinted("splice", &failed), hinted(running, &Outcome::Measured)), (failed, Outcome::Measured));
    }

    #[test]
    fn a_relay_sends_no_more_than_it_received() {
        let calls = |taken_down, given_down| RelayReport { taken_down, given_down, ..relay(10, 10) };
        assert!(of_calls(&calls(7, 5)).is_none() && of_calls(&calls(7, 8)).is_some());
        assert!(of_calls(&relay(9, 10)).is_some());
    }
}
