//! The details of a test: the counts behind its rates, and the cost of a call and of a byte.

use bytegauge_model::unit::{Bytes, count_rate};
use bytegauge_model::{CellId, CellKind, Stage};

use super::Results;
use crate::view::numbers::{CellView, DatagramView, GroupView, Slice, View};
use crate::words::interval_rounding::percent;
use crate::words::number::{number, share, size};

/// The counts of a test that fit no column, and the cost of calls and bytes, a sentence each.
pub fn lines(view: &Results, group: &GroupView) -> Vec<String> {
    let rows = rows(view, group);
    let counts = [super::calls::lines(&rows), datagrams(&rows), artefacts(view, group)].concat();
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

/// The cells of a group that its lines are about, in the order of the plan.
pub struct Rows<'a> {
    /// The cells.
    pub cells: Vec<&'a CellView>,
    /// The cell that the group recommends.
    recommended: Option<CellId>,
}

impl<'a> Rows<'a> {
    /// The recommended cell, or the fastest.
    pub fn named(&self) -> Option<&'a CellView> {
        let rate = |cell: &CellView| cell.estimate.median.unwrap_or(0.0);
        let fastest = || self.cells.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)));
        self.cells.iter().find(|cell| self.recommended.as_ref() == Some(&cell.id)).or_else(fastest).copied()
    }
}

/// The confirmed cells of a group; before confirmation those of the screening.
fn rows<'a>(view: &'a View, group: &'a GroupView) -> Rows<'a> {
    let is_measured = |cell: &&CellView| cell.kind == CellKind::Candidate && cell.trials > 0;
    let candidates = || view.cells_of(&group.id).filter(is_measured);
    let confirmed = candidates().any(|cell| cell.stage == Some(Stage::Confirm));
    let cells = candidates().filter(|cell| !confirmed || cell.stage == Some(Stage::Confirm)).collect();
    Rows { cells, recommended: group.recommendation.cell.clone() }
}

/// A loss below this share of the sent datagrams is only in the table.
const LOSS_NOTICED: f64 = 0.0001;

/// Where datagrams were lost; none without datagrams.
fn datagrams(rows: &Rows) -> Vec<String> {
    rows.cells.iter().filter_map(|cell| deaths(cell, cell.datagrams.as_ref()?)).collect()
}

/// Where a cell's datagrams were lost, and other events; `None` if next to none.
fn deaths(cell: &CellView, datagrams: &DatagramView) -> Option<String> {
    let some = |count: u64, what: &str| (count > 0).then(|| format!("{count} {what}"));
    let mut phrases: Vec<String> = Vec::new();
    if datagrams.lost_share.is_some_and(|share| share >= LOSS_NOTICED) {
        let places: Vec<String> = [
            (datagrams.lost_at_socket, "at the receiver's full socket buffer"),
            (datagrams.lost_unknown, "at an unknown place"),
            (datagrams.truncated, "cut off by the reader's buffer"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, place)| format!("{} {place}", share(Some(count as f64 / datagrams.lost.max(1) as f64))))
        .collect();
        phrases.push(format!(
            "{} of {} sent were lost: {}",
            share(datagrams.lost_share),
            datagrams.sent,
            places.join(", ")
        ));
        let worst = share(datagrams.worst_burst_share);
        let of_bursts = |lossy| format!("{} of the bursts lost some, the worst one {worst}", share(Some(lossy)));
        phrases.extend(datagrams.lossy_burst_share.map(of_bursts));
    }
    let cut_per = number(Some(datagrams.cut_bytes as f64 / datagrams.truncated.max(1) as f64));
    phrases.extend(some(datagrams.truncated, &format!("cut off by --read-size, {cut_per} B of each on average")));
    phrases.extend(some(datagrams.reordered, "came late"));
    phrases.extend(some(datagrams.duplicated, "came twice"));
    phrases.extend(some(datagrams.sends_refused, "sends were refused without room in the buffer and tried again"));
    phrases.extend(super::calls::elsewhere(datagrams.namespace.as_ref(), datagrams.lost_unknown > 0));
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
