//! The datagrams of calls: which were lost and where.
//!
//! Only replies are rated here; the datagrams sent for them only explain losses.

use bytegauge_model::{CallDatagrams, EndRole, Spec, Trial, UdpUse};
use bytegauge_stats::quantile::median;

use super::counted_trials::Settled;
use super::counters::namespace;
use super::numbers::CallDatagramView;

/// The datagrams of a cell; `None` if its calls had connections.
pub fn view(settled: &Settled) -> Option<CallDatagramView> {
    let trials = &settled.trials;
    let of_client = |trial: &Trial| trial.client()?.datagrams;
    let of_server = |trial: &Trial| trial.end(EndRole::Server)?.call.as_ref()?.datagrams;
    let of_rival = |trial: &Trial| trial.end(EndRole::Competitor)?.call.as_ref()?.datagrams;
    let sum = |of: &dyn Fn(&Trial) -> Option<CallDatagrams>| {
        trials.iter().filter_map(|trial| of(trial)).reduce(|a, b| a.plus(&b))
    };
    let client = [sum(&of_client), sum(&of_rival)].into_iter().flatten().reduce(|a, b| a.plus(&b))?;
    let server = sum(&of_server);
    let response = response(&settled.cell.factors);
    let rates: Vec<f64> = trials.iter().filter_map(|trial| trial.rate()).collect();
    let rate = median(&rates);
    Some(CallDatagramView {
        reply_bytes_per_second: rate.zip(response).map(|(rate, bytes)| rate * bytes as f64),
        requests_sent: client.sent,
        requests_dropped: server.map(|server| server.dropped),
        requests_truncated: server.map(|server| server.truncated),
        requests_lost_elsewhere: server.map(|server| lost(client.sent, server.received, server.dropped)),
        replies_unsent: server.map(|server| server.unsent),
        replies_dropped: client.dropped,
        replies_lost_elsewhere: server.map(|server| lost(server.sent, client.received, client.dropped)),
        late: client.late,
        duplicated: client.duplicated,
        overtaken: client.overtaken,
        strange: client.strange,
        namespace: namespace(trials),
    })
}

/// A place of losses that no socket counts.
pub const BACKLOG: &str =
    "packets of any process were dropped by a CPU's full backlog (net.core.netdev_max_backlog holds more)";

/// Datagrams that were sent, did not arrive, and are in no count of drops.
fn lost(sent: u64, came: u64, dropped: u64) -> u64 {
    sent.saturating_sub(came).saturating_sub(dropped)
}

/// Bytes of a reply.
fn response(levels: &Spec) -> Option<u64> {
    levels.response().or_else(|| levels.request())
}

/// Where datagrams were lost, and other events, as text; `None` if all arrived once and in order.
pub fn deaths(seen: &CallDatagramView) -> Option<String> {
    let some = |count: u64, what: &str| (count > 0).then(|| format!("{count} {what}"));
    let known = |count: Option<u64>, what: &str| some(count.unwrap_or(0), what);
    let parts = [
        known(seen.requests_dropped, "requests found the server's receive buffer full (a larger --rcvbuf holds more)"),
        known(seen.requests_lost_elsewhere, "requests were lost at an unknown place"),
        known(seen.requests_truncated, "requests were cut off by the server's buffer (MSG_TRUNC)"),
        known(seen.replies_unsent, "replies could not be sent"),
        some(seen.replies_dropped, "replies found a client's receive buffer full"),
        known(seen.replies_lost_elsewhere, "replies were lost at an unknown place"),
        some(seen.late, "replies came after their calls had been given up (a longer --timeout waits for them)"),
        some(seen.duplicated, "replies came twice"),
        some(seen.overtaken, "replies were overtaken by later ones"),
        some(seen.strange, "datagrams answered no call"),
    ];
    let is_lost = [seen.requests_lost_elsewhere, seen.replies_lost_elsewhere].iter().any(|lost| lost.unwrap_or(0) > 0);
    let backlog = seen.namespace.and_then(|udp| udp.backlog_drops).filter(|_| is_lost).unwrap_or(0);
    let of_all = |read: fn(&UdpUse) -> u64, what: &str| some(seen.namespace.as_ref().map_or(0, read), what);
    let elsewhere = [
        some(backlog, BACKLOG),
        of_all(|udp| udp.memory_errors, "datagrams of any process found UDP's memory used up (net.ipv4.udp_mem)"),
        of_all(|udp| udp.checksum_errors, "datagrams of any process had a wrong checksum"),
    ];
    let parts: Vec<String> = parts.into_iter().chain(elsewhere).flatten().collect();
    (!parts.is_empty()).then(|| format!("of {} requests and their replies {}", seen.requests_sent, parts.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_named_with_their_place() {
        assert_eq!(deaths(&CallDatagramView { requests_sent: 9, ..Default::default() }), None);
        let seen = CallDatagramView {
            requests_sent: 100,
            requests_dropped: Some(7),
            requests_lost_elsewhere: Some(lost(100, 90, 7)),
            late: 2,
            ..CallDatagramView::default()
        };
        let text = deaths(&seen).unwrap();
        assert!(
            text.starts_with("of 100 requests and their replies 7 requests found the server's receive buffer full")
        );
        let machine = UdpUse { backlog_drops: Some(3), ..UdpUse::default() };
        let text = deaths(&CallDatagramView { namespace: Some(machine), ..seen }).unwrap();
        assert!(text.contains("3 packets of any process were dropped by a CPU's full backlog"), "{text}");
        // If all arrived, the backlog dropped packets of other processes.
        let whole = CallDatagramView { requests_sent: 9, namespace: Some(machine), ..CallDatagramView::default() };
        assert_eq!(deaths(&whole), None);
        assert!(
            text.contains("3 requests were lost at an unknown place") && text.contains("2 replies came after"),
            "{text}"
        );
    }
}
