//! The details of a test: the counts behind its rates, and the cost of a call and of a byte.

use bytegauge_model::unit::{Bytes, byte_rate, count_rate, nop_rate};
use bytegauge_model::{CellId, CellKind, Cost, Implementation, Stage, Workload};
use bytegauge_stats::trial_metrics::{FAR_CPUS, FROM, NEAR_CPUS, TO};

use super::Results;
use crate::results::harm::truncated_share;
use crate::view::cost::ERROR_MAX;
use crate::view::numbers::{CellView, DatagramView, GroupView, Slice, View};
use crate::words::interval_rounding::percent;
use crate::words::number::{mean_size, number, rough_size, share};
use crate::words::phrase;

/// Lines of more cells than this are only in JSON.
const CELLS_MAX: usize = 6;

/// The counts of a test, a sentence each.
fn counts(view: &Results, group: &GroupView) -> Vec<String> {
    let rows = rows(view, group);
    if rows.cells.is_empty() {
        return Vec::new();
    }
    [super::calls::lines(&rows), datagrams(&rows), both_ways(&rows), rings(view, group, &rows)].concat()
}

/// The counts, the size of calls, and the cost of calls and bytes.
pub fn lines(view: &Results, group: &GroupView) -> Vec<String> {
    let sizes = sizes(&rows(view, group));
    counts(view, group).into_iter().chain(sizes).chain(costs(group)).collect()
}

/// The bytes that a call moved on average, over all trials: less than was asked for where reads are short.
fn sizes(rows: &Rows) -> Option<String> {
    let cell: &CellView = rows.named().filter(|cell| cell.call.is_none() && cell.ring.is_none())?;
    let moved = |each: Option<f64>| each.filter(|bytes| *bytes > 0.0).map(mean_size);
    let read = moved(cell.counters.bytes_per_read)?;
    let write = moved(cell.counters.bytes_per_write).map_or_else(String::new, |size| format!(", a write {size}"));
    Some(format!("{}: on average over all trials, a read moved {read}{write}", cell.label))
}

fn costs(group: &GroupView) -> impl Iterator<Item = String> {
    let slices = [("reading", &group.cost_model.reader), ("writing", &group.cost_model.writer)];
    slices.into_iter().filter_map(|(end, slice)| slice_text(end, slice.as_ref()?))
}

fn slice_text(end: &str, slice: &Slice) -> Option<String> {
    let Some((call, byte)) = slice.per_call_ns.zip(slice.per_byte_ns) else { return unreported(end, slice) };
    let off =
        slice.relative_error.map_or_else(String::new, |error| format!(", trials differ from it by {}", percent(error)));
    let metric = if slice.metric == Some("on_cpu_ns_per_call") { "CPU" } else { "wall" };
    let up_to = slice.fit_max.map_or_else(String::new, |most| format!(", up to {}", Bytes(most)));
    let most = if metric == "CPU" { "highest bytes per CPU second" } else { "highest rate" };
    let sizes = slice.size_for_half.zip(slice.size_for_95).map_or_else(String::new, |(half, most_of_it)| {
        let (half, most_of_it) = (rough_size(half), rough_size(most_of_it));
        format!("; calls of {half} reach half, calls of {most_of_it} reach 95 % of the {most}")
    });
    Some(format!(
        "{end} costs about {} ns a call + {} ns a byte ({metric} time{up_to}, descriptive{off}){sizes}",
        number(Some(call)),
        number(Some(byte)),
    ))
}

/// Why there is no cost line although there are enough sizes for one.
fn unreported(end: &str, slice: &Slice) -> Option<String> {
    let why = match slice.relative_error? {
        error if error >= ERROR_MAX => format!("trials differ from every line by {}", percent(error)),
        _ => "a line would have calls or bytes that cost nothing".to_owned(),
    };
    Some(format!("the cost of {end} per call and per byte is unknown here: {why}"))
}

/// Number of the fastest cells that are shown while none is confirmed.
const ANALYSES_MAX: usize = 8;

/// The cells of a group, the best first.
pub struct Rows<'a> {
    /// The cells, best first.
    pub cells: Vec<&'a CellView>,
    /// The cell that the group recommends.
    recommended: Option<CellId>,
}

impl<'a> Rows<'a> {
    /// The recommended cell, or the first.
    pub fn named(&self) -> Option<&'a CellView> {
        let named = self.cells.iter().find(|cell| self.recommended.as_ref() == Some(&cell.id));
        named.or(self.cells.first()).copied()
    }
}

/// The confirmed cells of a group, the best first; before confirmation the fastest of the screening.
pub fn rows<'a>(view: &'a View, group: &'a GroupView) -> Rows<'a> {
    let is_measured = |cell: &&CellView| cell.kind == CellKind::Candidate && cell.trials > 0;
    let has_numbers = |cell: &&CellView| cell.estimate.median.is_some() || !cell.more.is_empty();
    let candidates = || view.cells_of(&group.id).filter(is_measured).filter(has_numbers);
    let confirmed = candidates().any(|cell| cell.stage == Some(Stage::Confirm));
    let mut cells: Vec<&CellView> =
        candidates().filter(|cell| !confirmed || cell.stage == Some(Stage::Confirm)).collect();
    // Under an offered load all rates are alike: the cheapest first.
    let merit = |cell: &CellView| {
        let cost = match (group.compares, group.factors.workload()) {
            (Cost::Time, _) | (Cost::Cpu, Workload::Tune) => return cell.estimate.median.unwrap_or(0.0),
            (Cost::Cpu, Workload::Call) => cell.median("server_cpu_ns_per_call"),
            (Cost::Cpu, _) => cell.cpu.ends_s_per_gib,
            (Cost::P99 | Cost::GapP99 | Cost::Urgent, _) => cell.median(group.cost),
        };
        -cost.unwrap_or(f64::INFINITY)
    };
    cells.sort_by(|a, b| merit(b).total_cmp(&merit(a)));
    // Confirmed cells; screened ones are shown only where none is confirmed.
    cells.truncate(if confirmed { cells.len() } else { ANALYSES_MAX });
    Rows { cells, recommended: group.recommendation.cell.clone() }
}

/// The rate of each direction of streams both ways, and the CPU use of each host; none for one direction.
fn both_ways(rows: &Rows) -> Vec<String> {
    let all: Vec<String> = rows.cells.iter().filter_map(|cell| each_way(cell)).collect();
    let more = all.len().saturating_sub(CELLS_MAX);
    all.into_iter().take(CELLS_MAX).chain((more > 0).then(|| format!("{more} more: --format json"))).collect()
}

fn each_way(cell: &CellView) -> Option<String> {
    let (to, from) = (cell.median(TO)?, cell.median(FROM)?);
    let cpus = cell.median(NEAR_CPUS).zip(cell.median(FAR_CPUS));
    let cpus = cpus.map(|(near, far)| {
        format!("; the end that connected used {} CPUs, the other one {}", number(Some(near)), number(Some(far)))
    });
    Some(format!("{}: {} there and {} back{}", cell.label, byte_rate(to), byte_rate(from), cpus.unwrap_or_default()))
}

/// A loss below this share of the sent datagrams is only in the table.
const LOSS_NOTICED: f64 = 0.0001;

/// The best packet rate, the best bandwidth, and where datagrams were lost; none without datagrams. Goodput counts only datagrams that
/// the sink kept.
fn datagrams(rows: &Rows) -> Vec<String> {
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
    // One that is cut off is lost.
    let rate = |cell: &CellView| cell.median("datagrams_per_second").unwrap_or(0.0) * (1.0 - truncated_share(cell));
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
            (datagrams.truncated, "cut off by the reader's buffer"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, place)| format!("{} {place}", share(Some(count as f64 / datagrams.lost.max(1) as f64))))
        .collect();
        phrases.push(format!("{} of {} sent were lost: {}", lost(cell), datagrams.sent, places.join(", ")));
        let worst = share(datagrams.worst_burst_share);
        let of_bursts = |lossy| format!("{} of the bursts lost some, the worst one {worst}", share(Some(lossy)));
        phrases.extend(datagrams.lossy_burst_share.map(of_bursts));
    }
    let cut_per = number(Some(datagrams.cut_bytes as f64 / datagrams.truncated.max(1) as f64));
    let namespace = datagrams.namespace.as_ref();
    phrases.extend(some(datagrams.truncated, &format!("cut off by --read-size, {cut_per} B of each on average")));
    phrases.extend(some(datagrams.reordered, "came late"));
    phrases.extend(some(datagrams.duplicated, "came twice"));
    phrases.extend(some(datagrams.sends_refused, "sends were refused without room in the buffer and tried again"));
    let backlog = namespace.and_then(|udp| udp.backlog_drops).filter(|_| datagrams.lost_unknown > 0);
    phrases.extend(some(backlog.unwrap_or(0), super::calls::BACKLOG));
    phrases.extend(some(namespace.map_or(0, |udp| udp.memory_errors), "dropped without memory (net.ipv4.udp_mem)"));
    phrases.extend(some(namespace.map_or(0, |udp| udp.checksum_errors), "dropped for a wrong checksum"));
    (!phrases.is_empty()).then(|| format!("{}: {}", cell.label, phrases.join("; ")))
}

/// How the recommended ring got its rate, and the counts of a published loop; none where no ring ran.
fn rings(view: &View, group: &GroupView, rows: &Rows) -> Vec<String> {
    let named = rows.named().and_then(evidence);
    named.into_iter().chain(artefacts(view, group)).collect()
}

/// Evidence that the counts are those of completions.
fn evidence(cell: &CellView) -> Option<String> {
    let ring = cell.ring.as_ref()?;
    let calls = ring.nops_per_enter.map(|nops| format!(", {} for each io_uring_enter(2)", number(Some(nops))));
    let checked = if ring.checked > 0 { ", every result and user data compared" } else { "" };
    Some(format!(
        "{}: {} completions were taken of {} submissions{}{checked}; none overflowed",
        cell.label,
        ring.completed,
        ring.submitted,
        calls.unwrap_or_default()
    ))
}

/// The count of the published loop, next to the completions of its library at the same size.
fn artefacts(view: &View, group: &GroupView) -> Vec<String> {
    let shown: Vec<&CellView> =
        view.cells_of(&group.id).filter(|cell| cell.kind == CellKind::Artefact && cell.trials > 0).collect();
    let Some(rounds) = shown.iter().find_map(|cell| cell.ring.as_ref()?.overflowed_after_rounds) else {
        return Vec::new();
    };
    let mut lines = vec![format!(
        "liburing-undrained is an artefact and not compared: the published loop never takes a completion. After {rounds} \
         rounds its queue has overflowed (IORING_SQ_CQ_OVERFLOW), from then on the kernel allocates memory for every \
         completion, and what the loop counts are submissions:"
    )];
    lines.extend(shown.iter().filter_map(|cell| {
        let counted = cell.median("submissions_per_second")?;
        let drained = view.cells_of(&group.id).find(|other| is_drained(other, cell));
        let completed = drained.and_then(|other| other.estimate.median).map(nop_rate);
        let completed = completed.map_or_else(String::new, |rate| format!("; liburing completes {rate}"));
        Some(format!(
            "{} entries, {}: it counts {}{completed}",
            phrase::level("entries", &cell.level("entries")),
            phrase::level("setup", &cell.level("setup")),
            count_rate(counted)
        ))
    }));
    lines
}

/// Whether a cell is that of the same library, which takes its completions.
fn is_drained(other: &CellView, cell: &CellView) -> bool {
    let same = |name: &str| other.level(name) == cell.level(name);
    other.kind == CellKind::Candidate
        && other.factors.implementation() == Some(Implementation::Liburing)
        && ["entries", "submit_batch", "setup"].into_iter().all(same)
}

/// The unit of work by which the cost of the harness is counted.
pub fn call_noun(view: &View) -> &'static str {
    if view.cells.iter().any(|cell| cell.ring.is_some()) { "NOP" } else { "call" }
}
