//! The details of a test: the counts behind its rates, and the cost of a call and of a byte.

use bytegauge_model::unit::{Bytes, call_rate, count_rate};
use bytegauge_model::{CellKind, Stage, UdpUse};

use super::Results;
use super::finding_texts::shared_calls;
use crate::view::calls::CLOSED;
use crate::view::numbers::{CallDatagramView, CallView, CellView, DatagramView, ErrorView, GroupView, Slice, View};
use crate::words::interval_rounding::percent;
use crate::words::number::{number, share, size};

/// The counts of a test that fit no column, and the cost of calls and bytes, a sentence each.
pub fn lines(view: &Results, group: &GroupView) -> Vec<String> {
    let rows = rows(view, group);
    let counts = [call_lines(group, &rows), datagrams(&rows), artefacts(view, group)].concat();
    counts.into_iter().chain(costs(group)).collect()
}

fn costs(group: &GroupView) -> impl Iterator<Item = String> {
    let slices = [("reading", &group.cost_model.reader), ("writing", &group.cost_model.writer)];
    slices.into_iter().filter_map(|(end, slice)| slice_text(end, slice.as_ref()?))
}

fn slice_text(end: &str, slice: &Slice) -> Option<String> {
    let (call, byte) = slice.per_call_ns.zip(slice.per_byte_ns)?;
    let off =
        slice.relative_error.map_or_else(String::new, |error| format!(", trials differ from it by {}", percent(error)));
    let metric = if slice.metric == Some("on_cpu_ns_per_call") { "CPU" } else { "wall" };
    let up_to = slice.fit_max.map_or_else(String::new, |most| format!(", up to {}", Bytes(most)));
    let most = if metric == "CPU" { "highest bytes per CPU second" } else { "highest rate" };
    let sizes = slice.size_for_half.zip(slice.size_for_95).map_or_else(String::new, |(half, most_of_it)| {
        // More digits would feign precision.
        let (half, most_of_it) = (size(half, 2), size(most_of_it, 2));
        format!("; calls of {half} reach half, calls of {most_of_it} reach 95 % of the {most}")
    });
    Some(format!(
        "{end} costs about {} ns a call + {} ns a byte ({metric} time{up_to}, descriptive{off}){sizes}",
        number(Some(call)),
        number(Some(byte)),
    ))
}

/// The cells of a group that its lines are about, in the order of the plan: the confirmed ones; before confirmation those of the
/// screening.
fn rows<'a>(view: &'a View, group: &'a GroupView) -> Vec<&'a CellView> {
    let candidates = || view.candidates_of(&group.id).filter(|cell| cell.trials > 0);
    let confirmed = candidates().any(|cell| cell.stage == Some(Stage::Confirm));
    candidates().filter(|cell| !confirmed || cell.stage == Some(Stage::Confirm)).collect()
}

/// A loss below this share of the sent datagrams is only in the table.
const LOSS_NOTICED: f64 = 0.0001;

/// Where datagrams were lost; none without datagrams.
fn datagrams(rows: &[&CellView]) -> Vec<String> {
    rows.iter().filter_map(|cell| deaths(cell, cell.datagrams.as_ref()?)).collect()
}

/// `12 came late`, of what happened.
fn counted(parts: &[(u64, &str)]) -> Vec<String> {
    parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect()
}

/// Where a cell's datagrams were lost, and other events; `None` if next to none.
fn deaths(cell: &CellView, datagrams: &DatagramView) -> Option<String> {
    let mut phrases: Vec<String> = Vec::new();
    if datagrams.lost_share.is_some_and(|share| share >= LOSS_NOTICED) {
        let places = [
            (datagrams.lost_at_socket, "at the receiver's full socket buffer"),
            (datagrams.lost_unknown, "at an unknown place"),
            (datagrams.truncated, "cut off by the reader's buffer"),
        ];
        let of_all = |count: u64| share(Some(count as f64 / datagrams.lost.max(1) as f64));
        let places = places.into_iter().filter(|(count, _)| *count > 0);
        let places: Vec<String> = places.map(|(count, place)| format!("{} {place}", of_all(count))).collect();
        let lost = share(datagrams.lost_share);
        phrases.push(format!("{lost} of {} sent were lost: {}", datagrams.sent, places.join(", ")));
        let worst = share(datagrams.worst_burst_share);
        let of_bursts = |lossy| format!("{} of the bursts lost some, the worst one {worst}", share(Some(lossy)));
        phrases.extend(datagrams.lossy_burst_share.map(of_bursts));
    }
    let cut_per = number(Some(datagrams.cut_bytes as f64 / datagrams.truncated.max(1) as f64));
    phrases.extend(counted(&[
        (datagrams.truncated, &format!("cut off by --read-size, {cut_per} B of each on average")),
        (datagrams.reordered, "came late"),
        (datagrams.duplicated, "came twice"),
        (datagrams.sends_refused, "sends were refused without room in the buffer and tried again"),
    ]));
    phrases.extend(elsewhere(datagrams.namespace.as_ref(), datagrams.lost_unknown > 0));
    (!phrases.is_empty()).then(|| format!("{}: {}", cell.label, phrases.join("; ")))
}

/// The counts of a loop that is not compared, and why.
fn artefacts(view: &View, group: &GroupView) -> Vec<String> {
    let artefacts = view.cells_of(&group.id).filter(|cell| cell.kind == CellKind::Artefact);
    let of_cell = |cell: &CellView| {
        let counted = count_rate(cell.median("submissions_per_second")?);
        Some(format!("{}: it counts {counted}; {}", cell.label, cell.reason.as_ref()?))
    };
    artefacts.filter_map(of_cell).collect()
}

/// The cost of the harness itself: `0.9 ns a call, 0.2 % of the least time per call`; `None` where it is not known.
pub fn harness_cost(view: &View) -> Option<String> {
    let noun = if view.cells.iter().any(|cell| cell.ring.is_some()) { "NOP" } else { "call" };
    let ns = number(Some(view.floor.ns_per_call?));
    let of = view.floor.share.map(|part| format!(", {} of the least time per {noun}", share(Some(part))));
    Some(format!("{ns} ns a {noun}{}", of.unwrap_or_default()))
}

// Lines next to a table of calls: the quantity that the percentiles time, the work of engines, competing clients, and
// what failed and why.

/// More kinds of errors than this are for JSON.
const ERRORS_MAX: usize = 6;

/// The lines; none where nothing was called.
fn call_lines(group: &GroupView, rows: &[&CellView]) -> Vec<String> {
    let rate = |cell: &CellView| cell.estimate.median.unwrap_or(0.0);
    let fastest = || rows.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)));
    let recommended = rows.iter().find(|cell| group.recommendation.cell.as_ref() == Some(&cell.id));
    let Some((cell, call)) = recommended.or_else(fastest).and_then(|cell| Some((cell, cell.call.as_ref()?))) else {
        return Vec::new();
    };
    let mut lines = vec![times(cell, call)];
    lines.extend(call.workers.as_ref().map(|workers| format!("{}: {}", cell.label, shared_calls(workers))));
    lines.extend(call.competing.as_ref().map(|competing| {
        let rate = competing.calls_per_second.map_or_else(|| "no calls".into(), call_rate);
        format!("{}: competing clients had {rate} from the same server, {} failed", cell.label, competing.failed)
    }));
    lines.extend(errors(rows));
    lines.extend(call_deaths(rows));
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
fn call_deaths(rows: &[&CellView]) -> Option<String> {
    let phrases = rows.iter().filter_map(|cell| {
        let call = cell.call.as_ref()?;
        Some((cell, call.failed, deaths_of_calls(&call.datagrams?)?))
    });
    let (cell, _, text) = phrases.max_by_key(|(_, failed, _)| *failed)?;
    Some(format!("{}: {text}", cell.label))
}

/// The most frequent errors of the cells shown, each with its cause.
fn errors(rows: &[&CellView]) -> Vec<String> {
    let each =
        rows.iter().flat_map(|cell| cell.call.iter().flat_map(move |call| &call.errors).map(|e| (&cell.label, e)));
    let mut all: Vec<(&String, &ErrorView)> = each.collect();
    all.sort_by_key(|(_, error)| std::cmp::Reverse(error.count));
    let more = all.len().saturating_sub(ERRORS_MAX);
    let shown = all.iter().take(ERRORS_MAX);
    let texts = shown.map(|(label, e)| format!("{label}: {} × {} ({}): {}", e.count, e.class, e.phase, e.explanation));
    texts.chain((more > 0).then(|| format!("{more} more kinds of errors: --format json"))).collect()
}

/// Drops that no socket counts, of any process of the machine; those of a full backlog only where some of ours are lost.
fn elsewhere(udp: Option<&UdpUse>, is_lost: bool) -> Vec<String> {
    let Some(udp) = udp else { return Vec::new() };
    counted(&[
        (
            udp.backlog_drops.filter(|_| is_lost).unwrap_or(0),
            "packets of any process were dropped by a CPU's full backlog (net.core.netdev_max_backlog holds more)",
        ),
        (udp.memory_errors, "datagrams of any process found UDP's memory used up (net.ipv4.udp_mem)"),
        (udp.checksum_errors, "datagrams of any process had a wrong checksum"),
    ])
}

/// Where datagrams were lost, and other events, as text; `None` if all arrived once and in order.
fn deaths_of_calls(seen: &CallDatagramView) -> Option<String> {
    let known = |count: Option<u64>| count.unwrap_or(0);
    let lost = [known(seen.requests_lost_elsewhere), known(seen.replies_lost_elsewhere)];
    let mut parts = counted(&[
        (
            known(seen.requests_dropped),
            "requests found the server's receive buffer full (a larger --rcvbuf holds more)",
        ),
        (lost[0], "requests were lost at an unknown place"),
        (known(seen.requests_truncated), "requests were cut off by the server's buffer (MSG_TRUNC)"),
        (known(seen.replies_unsent), "replies could not be sent"),
        (seen.replies_dropped, "replies found a client's receive buffer full"),
        (lost[1], "replies were lost at an unknown place"),
        (seen.late, "replies came after their calls had been given up (a longer --timeout waits for them)"),
        (seen.duplicated, "replies came twice"),
        (seen.overtaken, "replies were overtaken by later ones"),
        (seen.strange, "datagrams answered no call"),
    ]);
    parts.extend(elsewhere(seen.namespace.as_ref(), lost.iter().any(|lost| *lost > 0)));
    (!parts.is_empty()).then(|| format!("of {} requests and their replies {}", seen.requests_sent, parts.join(", ")))
}
