//! The cost of a call and of a byte, along the slices through the recommended cell.
//!
//! Time against bytes *actually moved* per call, all trials: a description, not a basis of recommendations.
//!
//! Also the floor that the harness sets.

use std::collections::HashMap;

use bytegauge_model::spec::derived::lanes;
use bytegauge_model::{CellKind, EndCounts, EndReport, GroupId, Role, Spec, Trial, Workload};
use bytegauge_stats::cost::{Point, cost_line, plain_line};
use bytegauge_stats::quantile::median;
use bytegauge_stats::trial_counts::{ratio, sink_sums, source_sums};
use bytegauge_stats::trial_metrics::{ns_of_threads, ns_per_call};

use super::bottleneck_inputs::call_ns;
use super::counted_trials::Settled;
use super::estimate::throughput;
use super::moves_nothing;
use super::numbers::{CostModel, FloorView, Linear, Slice};

/// The report of one end of the path.
type OfEnd = fn(&Trial) -> Option<&EndReport>;

/// The cost model of a group's candidates around `pivot`, both indices into the settled cells.
pub fn model(candidates: &[usize], pivot: Option<usize>, settled: &[Settled], fit_max: Option<u64>) -> CostModel {
    let Some(pivot) = pivot else { return CostModel::default() };
    let levels = &settled[pivot].cell.factors;
    let cells: Vec<&Settled> =
        candidates.iter().map(|&at| &settled[at]).filter(|cell| !moves_nothing(&cell.cell.factors)).collect();
    let two_ended = levels.transport().map_or_else(
        || settled[pivot].measured.iter().any(|trial| trial.source_side().is_some()),
        bytegauge_model::Transport::two_ended,
    );
    let slice = |size: &str, end: OfEnd| slice(size, end, &along(size, levels, &cells), two_ended, fit_max);
    let reader = slice("read_size", Trial::sink_side);
    let writer = if two_ended { slice("write_size", Trial::source_side) } else { None };
    CostModel { main: reader.clone().unwrap_or_default(), reader, writer }
}

/// Cells that agree with the pivot in every choice but one.
fn along<'a>(size: &str, pivot: &Spec, cells: &[&'a Settled<'a>]) -> Vec<&'a Settled<'a>> {
    let others = |levels: &Spec| {
        let mut levels = levels.of_role(Role::Choice);
        levels.retain(|name| name != size);
        levels
    };
    let wanted = others(pivot);
    cells.iter().copied().filter(|cell| others(&cell.cell.factors) == wanted).collect()
}

/// A line that misses typical trials by this share or more has no information about the cost of a byte.
const ERROR_MAX: f64 = 0.25;

/// A line through fewer sizes describes the short reads of one of them, not the cost of a size.
const SIZES_MIN: usize = 3;

fn slice(size: &str, end: OfEnd, cells: &[&Settled], two_ended: bool, fit_max: Option<u64>) -> Option<Slice> {
    let measured = cells.iter().filter(|cell| !cell.measured.is_empty());
    let mut sizes: Vec<u64> = measured.filter_map(|cell| cell.cell.factors.get(size).number()).collect();
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.len() < SIZES_MIN {
        return None;
    }
    let reports = || cells.iter().flat_map(|cell| &cell.measured).filter_map(|trial| end(trial));
    // A one-ended source works inside the reader's call: its waits belong to it. With two ends a wait is the
    // other end's cost, so only time on the CPU counts; an import that lacks it is described by wall time.
    let on_cpu = two_ended && reports().any(|report| report.cpu_time_ns() > 0);
    let points = reports().filter_map(|report| point(report, on_cpu));
    let points: Vec<Point> = points.filter(|point| fit_max.is_none_or(|most| point.bytes <= most as f64)).collect();
    let (line, error) = cost_line(&points);
    let line = line.filter(|_| error < ERROR_MAX);
    let largest = points.iter().map(|point| point.bytes).fold(0.0, f64::max);
    // A call or a byte that costs less than nothing is no cost.
    let plain = plain_line(&points).filter(|(plain, _)| plain.fixed_ns >= 0.0 && plain.per_byte_ns >= 0.0);
    let plain = plain.filter(|_| line.is_some());
    Some(Slice {
        metric: Some(if on_cpu { "on_cpu_ns_per_call" } else { "wall_ns_per_call" }),
        linear: Linear {
            per_call_ns: plain.map(|(plain, _)| plain.fixed_ns),
            per_byte_ns: plain.map(|(plain, _)| plain.per_byte_ns),
        },
        fit_max,
        per_call_ns: line.map(|line| line.fixed_ns),
        per_byte_ns: line.map(|line| line.per_byte_ns),
        relative_error: Some(error).filter(|error| error.is_finite()),
        size_for_half: line.map(|line| line.size_for(0.5, largest)),
        size_for_95: line.map(|line| line.size_for(0.95, largest)),
    })
}

fn point(report: &EndReport, on_cpu: bool) -> Option<Point> {
    let bytes = ratio(report.bytes, report.calls)?;
    let ns = if on_cpu { ratio(report.cpu_time_ns(), report.calls)? } else { ns_per_call(report)? };
    (bytes > 0.0 && ns > 0.0).then_some(Point { bytes, ns })
}

// The cost of the harness itself: the null engine's time per call, relative to the cheapest real call.
//
// The floor is measured in the same blocks as everything else; it never competes.

/// The floor of each group, and of the session.
pub struct Floors {
    /// Nanoseconds a null call takes, by group.
    by_group: HashMap<GroupId, f64>,
    /// For the report.
    pub view: FloorView,
}

/// A null call takes at least this time, nanoseconds: less is not resolved by the clock.
const LEAST_NS: f64 = 0.02;

impl Floors {
    /// Reads the floor cells.
    pub fn of(settled: &[Settled], level: f64) -> Floors {
        let mut all = Vec::new();
        let mut by_group = HashMap::new();
        for floor in settled.iter().filter(|settled| settled.cell.kind == CellKind::Floor) {
            // In calls it is one thread, whatever the client has.
            let lanes = if floor.workload() == Workload::Call { 1 } else { lanes(&floor.cell.factors) };
            let ends = floor.measured.iter().filter_map(|trial| trial.ends.measuring());
            let each = ends.filter_map(|end| ns_of_threads(end, lanes));
            // Less than a tenth of a cycle: counted many at a time, so that it is no time of one call.
            let calls: Vec<f64> = each.filter(|ns| *ns >= LEAST_NS).collect();
            by_group.extend(median(&calls).map(|ns| (floor.cell.group.clone(), ns)));
            all.extend(calls);
        }
        let real: Vec<(&Settled, f64)> = settled
            .iter()
            .filter(|settled| settled.cell.kind == CellKind::Candidate && !moves_nothing(&settled.cell.factors))
            .filter_map(|settled| Some((settled, shortest_call_ns(settled, level)?)))
            .collect();
        let fastest = real.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1));
        // The cost of a call contains the floor: a larger floor was off its CPU, and is ignored.
        let of_group = |group: &GroupId| {
            real.iter().filter(|(settled, _)| settled.cell.group == *group).map(|(_, ns)| *ns).reduce(f64::min)
        };
        by_group.retain(|group, floor| of_group(group).is_none_or(|ns| *floor <= ns));
        let ns_per_call = median(&all).filter(|floor| fastest.is_none_or(|(_, ns)| *floor <= ns));
        let view = FloorView {
            ns_per_call,
            trials: all.len(),
            fastest_cell: fastest.as_ref().map(|(settled, _)| settled.cell.id.clone()),
            fastest_ns_per_call: fastest.as_ref().map(|(_, ns)| *ns),
            share: ns_per_call.zip(fastest).map(|(floor, (_, ns))| floor / ns),
        };
        Floors { by_group, view }
    }

    /// The floor of a group: its own, or else the session's.
    pub fn of_group(&self, group: &GroupId) -> Option<f64> {
        self.by_group.get(group).copied().or(self.view.ns_per_call)
    }
}

/// The shorter of the two ends' calls, wall time of a thread: the number of calls follows from the cell's rate, so that it is
/// consistent with it.
fn shortest_call_ns(settled: &Settled, level: f64) -> Option<f64> {
    let (workload, lanes) = (settled.workload(), lanes(&settled.cell.factors));
    let by_rate = || throughput(settled, level).median.filter(|rate| *rate > 0.0).map(|rate| lanes as f64 * 1e9 / rate);
    let is_lossy = settled.cell.factors.transport().is_some_and(bytegauge_model::Transport::is_datagram);
    match workload {
        Workload::Call | Workload::Ring => return by_rate(),
        Workload::Stream if !is_lossy => {
            let a_byte = by_rate()?;
            let ends = [source_sums(&settled.trials), sink_sums(&settled.trials)];
            let bytes = ends.into_iter().flatten().filter_map(|end| ratio(end.bytes, end.calls));
            return bytes.filter(|bytes| *bytes > 0.0).map(|bytes| bytes * a_byte).reduce(f64::min);
        }
        // Runs of a program have their own time; lost datagrams make the rate unusable for the sender's calls.
        _ => {}
    }
    let of_ends = |sums: fn(&[&Trial]) -> Option<EndCounts>| {
        let each = settled.trials.iter().filter_map(|trial| call_ns(&sums(&[trial])?, lanes));
        median(&each.collect::<Vec<_>>())
    };
    [of_ends(source_sums), of_ends(sink_sums)].into_iter().flatten().reduce(f64::min)
}
