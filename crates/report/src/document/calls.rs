//! Lines next to a table of calls: the quantity that the percentiles time, the work of engines, competing clients, and
//! what failed and why.

use bytegauge_model::UdpUse;
use bytegauge_model::unit::call_rate;

use super::details::Rows;
use super::finding_texts::shared_calls;
use crate::view::calls::CLOSED;
use crate::view::numbers::{CallDatagramView, CallView, CellView, ErrorView};

/// More kinds of errors than this are for JSON.
const ERRORS_MAX: usize = 6;

/// The lines; none where nothing was called.
pub fn lines(rows: &Rows) -> Vec<String> {
    let Some((cell, call)) = rows.named().and_then(|cell| Some((cell, cell.call.as_ref()?))) else {
        return Vec::new();
    };
    let mut lines = vec![times(cell, call)];
    lines.extend(call.workers.as_ref().map(|workers| format!("{}: {}", cell.label, shared_calls(workers))));
    lines.extend(call.competing.as_ref().map(|competing| {
        let rate = competing.calls_per_second.map_or_else(|| "no calls".into(), call_rate);
        format!("{}: competing clients had {rate} from the same server, {} failed", cell.label, competing.failed)
    }));
    lines.extend(errors(rows));
    lines.extend(datagrams(rows));
    lines
}

/// The time that the percentiles are of.
fn times(cell: &CellView, call: &CallView) -> String {
    let spec = &cell.factors;
    if call.timing != CLOSED {
        let from = "from the moment when the call should begin, so that calls which a slow server delays count in full";
        return format!("p50 and p99: {from}");
    }
    let load = match spec.depth() {
        _ if spec.offers_load() => "Each client pauses between its calls (--think-time)",
        Some(2..) => "Calls in flight (--depth) wait for each other: this is the maximum load",
        _ => "Each client waits for its reply before it calls again, so this is the maximum load",
    };
    format!("p50 and p99: from the moment when a client may send until its reply is complete. {load}")
}

/// Where the datagrams died of the cell that lost most calls.
fn datagrams(rows: &Rows) -> Option<String> {
    let phrases = rows.cells.iter().filter_map(|cell| {
        let call = cell.call.as_ref()?;
        Some((cell, call.failed, deaths(&call.datagrams?)?))
    });
    let (cell, _, text) = phrases.max_by_key(|(_, failed, _)| *failed)?;
    Some(format!("{}: {text}", cell.label))
}

/// The most frequent errors of the cells shown, each with its cause.
fn errors(rows: &Rows) -> Vec<String> {
    let of_cell = |cell: &&CellView| -> Vec<(String, ErrorView)> {
        let errors = cell.call.iter().flat_map(|call| call.errors.clone());
        errors.map(|error| (cell.label.clone(), error)).collect()
    };
    let mut all: Vec<(String, ErrorView)> = rows.cells.iter().flat_map(of_cell).collect();
    all.sort_by_key(|(_, error)| std::cmp::Reverse(error.count));
    let more = all.len().saturating_sub(ERRORS_MAX);
    all.truncate(ERRORS_MAX);
    let texts =
        all.iter().map(|(label, e)| format!("{label}: {} × {} ({}): {}", e.count, e.class, e.phase, e.explanation));
    texts.chain((more > 0).then(|| format!("{more} more kinds of errors: --format json"))).collect()
}

/// Drops that no socket counts, of any process of the machine; those of a full backlog only where some of ours are lost.
pub fn elsewhere(udp: Option<&UdpUse>, is_lost: bool) -> Vec<String> {
    let Some(udp) = udp else { return Vec::new() };
    let counts = [
        (
            udp.backlog_drops.filter(|_| is_lost).unwrap_or(0),
            "packets of any process were dropped by a CPU's full backlog (net.core.netdev_max_backlog holds more)",
        ),
        (udp.memory_errors, "datagrams of any process found UDP's memory used up (net.ipv4.udp_mem)"),
        (udp.checksum_errors, "datagrams of any process had a wrong checksum"),
    ];
    counts.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect()
}

/// Where datagrams were lost, and other events, as text; `None` if all arrived once and in order.
fn deaths(seen: &CallDatagramView) -> Option<String> {
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
    let elsewhere = elsewhere(seen.namespace.as_ref(), is_lost);
    let parts: Vec<String> = parts.into_iter().flatten().chain(elsewhere).collect();
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
            requests_lost_elsewhere: Some(3),
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
