//! The cost of a call and of a byte, along the slices through the recommended cell.
//!
//! Time against bytes *actually moved* per call, all trials: a description, not a basis of recommendations.

use bytegauge_model::{CellId, EndReport, Role, Spec, Trial};
use bytegauge_stats::cost::{CostAnalysis, CostSearch, Point, analyse, correlation, plain_fit};
use bytegauge_stats::interval::student_interval;
use bytegauge_stats::quantile::median;
use bytegauge_stats::trial_counts::ratio;
use bytegauge_stats::trial_metrics::ns_per_call;

use super::calls::mean_and_sd;
use super::counted_trials::Settled;
use super::document::{BreakView, CostModel, Linear, OffCurve, ResidualCorrelation, ResidualView, SegmentView, Slice};
use super::levels::moves_nothing;

/// One end of the path, as input of the model.
struct CostEnd {
    size: &'static str,
    report: fn(&Trial) -> Option<&EndReport>,
}

const READER: CostEnd = CostEnd { size: "read_size", report: |trial| trial.sink_side() };
const WRITER: CostEnd = CostEnd { size: "write_size", report: |trial| trial.source_side() };

/// How the model is fitted.
#[derive(Clone, Copy, Debug)]
pub struct Fit {
    /// Confidence level.
    pub level: f64,
    /// Seed of the bootstrap.
    pub seed: u64,
    /// The largest size that is fitted, bytes.
    pub fit_max: Option<u64>,
}

/// The cost model of a group's candidates around `pivot`, both indices into the settled cells.
pub fn model(candidates: &[usize], pivot: Option<usize>, settled: &[Settled], fit: &Fit) -> CostModel {
    let Some(pivot) = pivot else { return CostModel::default() };
    let levels = &settled[pivot].cell.factors;
    let cells: Vec<&Settled> =
        candidates.iter().map(|&at| &settled[at]).filter(|cell| !moves_nothing(&cell.cell.factors)).collect();
    let two_ended = levels.transport().map_or_else(
        || settled[pivot].measured.iter().any(|trial| trial.source_side().is_some()),
        bytegauge_model::Transport::two_ended,
    );
    let slice = |end: &CostEnd| slice(end, &along(end.size, levels, &cells), two_ended, fit);
    let reader = slice(&READER);
    let writer = if two_ended { slice(&WRITER) } else { None };
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

/// A curve that misses typical trials by this share or more has no information about the cost of a byte.
pub const ERROR_MAX: f64 = 0.25;

/// A line through fewer sizes describes the short reads of one of them, not the cost of a size.
const SIZES_MIN: usize = 3;

/// Fewer sizes do not show where a curve breaks: short calls moved sizes in between that were not asked for, so those are no sizes
/// that was tried. As many as the search wants of different sizes that calls moved.
const SIZES_OF_BREAK: usize = 6;

fn slice(end: &CostEnd, cells: &[&Settled], two_ended: bool, fit: &Fit) -> Option<Slice> {
    let mut sizes: Vec<u64> = cells
        .iter()
        .filter(|cell| !cell.measured.is_empty())
        .filter_map(|cell| cell.cell.factors.get(end.size).number())
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.len() < SIZES_MIN {
        return None;
    }
    let trials = || cells.iter().flat_map(|cell| &cell.measured);
    let reports = || trials().filter_map(|trial| (end.report)(trial));
    // A one-ended source works inside the reader's call: its waits belong to it. With two ends a wait is the
    // other end's cost, so only time on the CPU counts; an import that lacks it is described by wall time.
    let on_cpu = two_ended && reports().any(|report| report.cpu_time_ns() > 0);
    let fitted = |input: &CurvePoint| fit.fit_max.is_none_or(|most| input.point.bytes <= most as f64);
    let inputs = trials().filter_map(|trial| curve_point(trial, (end.report)(trial)?, on_cpu));
    let inputs: Vec<CurvePoint> = inputs.filter(fitted).collect();
    let points: Vec<Point> = inputs.iter().map(|input| input.point).collect();
    let max_breaks = if sizes.len() < SIZES_OF_BREAK { 0 } else { CostSearch::default().max_breaks };
    let search = CostSearch { level: fit.level, seed: fit.seed, max_breaks, ..CostSearch::default() };
    let found = analyse(&points, &search);
    let relative_error = found.as_ref().map(|curve| curve.model.relative_error);
    // Nor does one by which a call or a byte costs nothing.
    let costs = |curve: &CostAnalysis| {
        curve.model.fixed_ns > 0.0 && curve.model.segments.iter().all(|segment| segment.per_byte_ns > 0.0)
    };
    let curve = found.filter(|curve| curve.model.relative_error < ERROR_MAX && costs(curve));
    // A call or a byte that costs less than nothing is no cost.
    let plain = plain_fit(&points).filter(|plain| plain.fixed_ns >= 0.0 && plain.per_byte_ns >= 0.0);
    let plain = plain.filter(|plain| plain.fixed_ns.is_finite() && plain.per_byte_ns.is_finite() && curve.is_some());
    let reach = curve.as_ref().map(|curve| curve.reach);
    let residuals = curve.as_ref().map(|curve| curve.residuals.as_slice());
    Some(Slice {
        metric: Some(if on_cpu { "on_cpu_ns_per_call" } else { "wall_ns_per_call" }),
        trials: points.len(),
        linear: Linear {
            per_call_ns: plain.map(|plain| plain.fixed_ns),
            per_byte_ns: plain.map(|plain| plain.per_byte_ns),
        },
        fit_max: fit.fit_max,
        r_squared: plain.map(|plain| plain.r_squared).filter(|r| r.is_finite()),
        per_call_ns: curve.as_ref().map(|curve| curve.model.fixed_ns),
        segments: curve.iter().flat_map(|curve| &curve.model.segments).map(segment).collect(),
        relative_error,
        breaks: curve.iter().flat_map(|curve| &curve.breaks).map(broken).collect(),
        size_for_half: reach.and_then(|reach| reach.half_of_observed_bytes),
        size_for_95: reach.and_then(|reach| reach.most_of_observed_bytes),
        asymptote_size_for_half: reach.and_then(|reach| reach.half_of_asymptote_bytes),
        asymptote_size_for_95: reach.and_then(|reach| reach.most_of_asymptote_bytes),
        residuals: residuals.map(|residuals| inputs.iter().zip(residuals).map(residual).collect()),
        off_curve: residuals.map(|residuals| off_curve(cells, end, &inputs, residuals, fit.level)).unwrap_or_default(),
        residual_correlation: ResidualCorrelation {
            short_call_share: residuals.and_then(|residuals| explained(residuals, &inputs, |point| point.short_share)),
            context_switches: residuals.and_then(|residuals| explained(residuals, &inputs, |point| point.switches)),
        },
    })
}

/// One trial, as input of the model, and possible reasons why it is off the curve.
struct CurvePoint<'a> {
    cell: &'a CellId,
    block: u64,
    point: Point,
    /// Calls that moved less than they were asked to, over all calls.
    short_share: f64,
    /// Context switches a call.
    switches: f64,
}

fn curve_point<'a>(trial: &'a Trial, report: &EndReport, on_cpu: bool) -> Option<CurvePoint<'a>> {
    let switches = report.voluntary_switches.saturating_add(report.involuntary_switches);
    Some(CurvePoint {
        cell: &trial.cell,
        block: trial.block,
        point: point(report, on_cpu)?,
        short_share: ratio(report.short_calls, report.calls)?,
        switches: ratio(switches, report.calls)?,
    })
}

fn off_curve(cells: &[&Settled], end: &CostEnd, points: &[CurvePoint], residuals: &[f64], level: f64) -> Vec<OffCurve> {
    let each = 1.0 - (1.0 - level) / cells.len() as f64;
    let of = |settled: &&Settled| {
        let own = points.iter().zip(residuals).filter(|(point, _)| *point.cell == settled.cell.id);
        let (sizes, ln): (Vec<f64>, Vec<f64>) = own.map(|(point, ln)| (point.point.bytes, *ln)).unzip();
        let interval = student_interval(&ln, each);
        Some(OffCurve {
            cell: settled.cell.id.clone(),
            asked_bytes: settled.cell.factors.get(end.size).number()?,
            bytes_per_call: median(&sizes)?,
            ln: mean_and_sd(&ln).0?,
            is_off: interval.is_some_and(|(lower, upper)| lower > 0.0 || upper < 0.0),
        })
    };
    let mut found: Vec<OffCurve> = cells.iter().filter_map(of).collect();
    found.sort_by(|a, b| a.bytes_per_call.total_cmp(&b.bytes_per_call));
    found
}

fn residual((point, ln): (&CurvePoint, &f64)) -> ResidualView {
    ResidualView { cell: point.cell.clone(), block: point.block, bytes_per_call: point.point.bytes, ln: *ln }
}

/// The correlation of the residuals with another quantity; one that is equal in every trial, or was not recorded, explains
/// nothing.
fn explained(residuals: &[f64], points: &[CurvePoint], by: fn(&CurvePoint) -> f64) -> Option<f64> {
    // Rounding may carry a perfect one past its end.
    correlation(residuals, &points.iter().map(by).collect::<Vec<_>>()).map(|r| r.clamp(-1.0, 1.0))
}

fn point(report: &EndReport, on_cpu: bool) -> Option<Point> {
    let bytes = ratio(report.bytes, report.calls)?;
    let ns = if on_cpu { ratio(report.cpu_time_ns(), report.calls)? } else { ns_per_call(report)? };
    (bytes > 0.0 && ns > 0.0).then_some(Point { bytes, ns })
}

fn segment(segment: &bytegauge_stats::cost::Segment) -> SegmentView {
    SegmentView { from_bytes: segment.from_bytes, per_byte_ns: segment.per_byte_ns }
}

fn broken(found: &bytegauge_stats::cost::Break) -> BreakView {
    let bytegauge_stats::cost::Break { at_bytes, lower_bytes, upper_bytes, p_value } = *found;
    BreakView { at_bytes, lower_bytes, upper_bytes, p: p_value }
}
