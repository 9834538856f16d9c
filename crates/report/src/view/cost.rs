//! The cost of a call and of a byte, along the slices through the recommended cell.
//!
//! Time against bytes *actually moved* per call, all trials: a description, not a basis of recommendations.

use bytegauge_model::{EndReport, Role, Spec, Trial};
use bytegauge_stats::cost::{Point, cost_line, plain_line};
use bytegauge_stats::trial_counts::ratio;
use bytegauge_stats::trial_metrics::ns_per_call;

use super::counted_trials::Settled;
use super::levels::moves_nothing;
use super::numbers::{CostModel, Linear, Slice};

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
