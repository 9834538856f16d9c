//! Lines next to a table of datagrams: the best packet rate, the best bandwidth, and where datagrams were lost. Goodput counts
//! only datagrams that the sink kept.

use bytegauge_model::unit::{byte_rate, count_rate};

use super::cell_text::{number, share};
use super::rows::Rows;
use crate::view::call_datagrams::BACKLOG;
use crate::view::document::{CellView, DatagramView};

/// A loss below this share of the sent datagrams is only in the table.
const LOSS_NOTICED: f64 = 0.0001;
/// More cells with losses than this are only in JSON.
const CELLS_MAX: usize = 6;

/// The lines; none without datagrams.
pub fn lines(rows: &Rows) -> Vec<String> {
    if rows.cells.iter().all(|cell| cell.datagrams.is_none()) {
        return Vec::new();
    }
    let mut lines: Vec<String> = [best_rate(rows), best_bandwidth(rows)].into_iter().flatten().collect();
    let lossy: Vec<String> = rows.cells.iter().filter_map(|cell| deaths(cell, cell.datagrams.as_ref()?)).collect();
    let more = lossy.len().saturating_sub(CELLS_MAX);
    lines.extend(lossy.into_iter().take(CELLS_MAX));
    lines.extend((more > 0).then(|| format!("{more} more lost some: --format json")));
    lines
}

fn best_rate(rows: &Rows) -> Option<String> {
    let rate = |cell: &CellView| cell.median("datagrams_per_second").unwrap_or(0.0);
    let cell = rows.cells.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
    let packets = cell
        .median("packets_per_second")
        .map_or_else(String::new, |rate| format!(" in {} packets of the kernel", count_rate(rate)));
    Some(format!(
        "most datagrams that came: {} with {}{packets}, {} lost",
        count_rate(rate(cell)),
        cell.label,
        lost(cell)
    ))
}

fn best_bandwidth(rows: &Rows) -> Option<String> {
    let rate = |cell: &CellView| cell.estimate.median.unwrap_or(0.0);
    let cell = rows.cells.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
    Some(format!("most bytes that came (goodput): {} with {}, {} lost", byte_rate(rate(cell)), cell.label, lost(cell)))
}

fn lost(cell: &CellView) -> String {
    share(cell.datagrams.as_ref().and_then(|datagrams| datagrams.lost_share))
}

/// Where a cell's datagrams were lost, and other events; `None` if next to none.
fn deaths(cell: &CellView, datagrams: &DatagramView) -> Option<String> {
    let some = |count: u64, what: &str| (count > 0).then(|| format!("{count} {what}"));
    let mut phrases: Vec<String> = Vec::new();
    if datagrams.lost_share.is_some_and(|share| share >= LOSS_NOTICED) {
        let places: Vec<String> = [
            (datagrams.lost_at_socket, "at the receiver's full socket buffer"),
            (datagrams.lost_unknown, "at an unknown place"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, place)| format!("{} {place}", share(Some(count as f64 / datagrams.lost.max(1) as f64))))
        .collect();
        phrases.push(format!("{} of {} sent were lost: {}", lost(cell), datagrams.sent, places.join(", ")));
    }
    let cut_per = number(Some(datagrams.cut_bytes as f64 / datagrams.truncated.max(1) as f64));
    let namespace = datagrams.namespace.as_ref();
    phrases.extend(some(datagrams.truncated, &format!("cut off by --read-size, {cut_per} B of each on average")));
    phrases.extend(some(datagrams.reordered, "came late"));
    phrases.extend(some(datagrams.duplicated, "came twice"));
    phrases.extend(some(datagrams.sends_refused, "sends were refused without room in the buffer and tried again"));
    let backlog = namespace.and_then(|udp| udp.backlog_drops).filter(|_| datagrams.lost_unknown > 0);
    phrases.extend(some(backlog.unwrap_or(0), BACKLOG));
    phrases.extend(some(namespace.map_or(0, |udp| udp.memory_errors), "dropped without memory (net.ipv4.udp_mem)"));
    phrases.extend(some(namespace.map_or(0, |udp| udp.checksum_errors), "dropped for a wrong checksum"));
    (!phrases.is_empty()).then(|| format!("{}: {}", cell.label, phrases.join("; ")))
}
