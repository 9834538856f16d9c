//! Harm that a rate does not show: stalls, lost datagrams, failed calls, a load that was not carried. An option with
//! such harm never counts as best.

use super::super::document::{CellView, FindingKind};

/// Shares of loss or failures below this one are not reported.
const NOTICED: f64 = 0.01;

/// The harm of an option, where `lost_least` is the smallest share that any option of the test loses.
pub fn of(cell: &CellView, lost_least: f64) -> Vec<FindingKind> {
    let failed = cell.call.as_ref().and_then(|call| call.failed_share).unwrap_or(0.0);
    let lost = lost_share(cell).unwrap_or(0.0);
    let found = [
        (cell.stalled.is_some(), FindingKind::Stalled),
        (cell.behind.is_some(), FindingKind::MissedLoad),
        (failed >= NOTICED, FindingKind::FailedCalls),
        (lost >= lost_least + NOTICED, FindingKind::LostDatagrams),
        (truncated_share(cell) >= NOTICED, FindingKind::TruncatedDatagrams),
    ];
    found.into_iter().filter(|(is_there, _)| *is_there).map(|(_, kind)| kind).collect()
}

/// The share of the datagrams sent that never came.
pub fn lost_share(cell: &CellView) -> Option<f64> {
    cell.datagrams.as_ref()?.lost_share
}

/// The share of the datagrams that came which were cut off by the buffer of the reader.
pub fn truncated_share(cell: &CellView) -> f64 {
    cell.datagrams.as_ref().map_or(0.0, |seen| seen.truncated as f64 / seen.arrived.max(1) as f64)
}

/// The smallest share of datagrams that any measured option loses.
pub fn least_lost(cells: &[&CellView]) -> f64 {
    let measured = cells.iter().filter(|cell| cell.trials > 0);
    measured.filter_map(|cell| lost_share(cell)).reduce(f64::min).unwrap_or(0.0)
}
