//! The part of the document about the cost of a call: its model, and where cells differ from it.

use bytegauge_model::CellId;
use schemars::JsonSchema;
use serde::Serialize;

/// The cost of a call and of a byte, by regression over all trials. Descriptive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct CostModel {
    /// The reading end, whose numbers are repeated here.
    #[serde(flatten)]
    pub main: Slice,
    /// The reading end, along the cells that differ from the recommended one in the read size alone.
    pub reader: Option<Slice>,
    /// The writing end, along the cells that differ in the write size alone.
    pub writer: Option<Slice>,
}

/// Time = per call + per byte × bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Linear {
    /// Nanoseconds a call takes before its first byte.
    pub per_call_ns: Option<f64>,
    /// Nanoseconds each byte adds.
    pub per_byte_ns: Option<f64>,
}

/// One end's cost per call against the bytes that a call really moved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Slice {
    /// The counted quantity: `on_cpu_ns_per_call`, or `wall_ns_per_call` for one-ended sources and where CPU time is
    /// not known.
    #[schemars(extend("enum" = ["on_cpu_ns_per_call", "wall_ns_per_call", null]))]
    pub metric: Option<&'static str>,
    /// Trials behind it.
    pub trials: usize,
    /// Plain least squares; `null` where a cost would be negative, or no curve fits.
    pub linear: Linear,
    /// The largest size that was fitted, bytes; `null` for all.
    pub fit_max: Option<u64>,
    /// Share of the variance that the plain fit explains.
    pub r_squared: Option<f64>,
    /// Nanoseconds a call takes before its first byte, by the curve with breaks in relative error.
    pub per_call_ns: Option<f64>,
    /// The pieces of that curve, ascending.
    pub segments: Vec<SegmentView>,
    /// Typical relative error of the curve; from 0.25 on the curve is left out.
    pub relative_error: Option<f64>,
    /// Sizes where the slope changes, by a bootstrap likelihood-ratio test.
    pub breaks: Vec<BreakView>,
    /// The size that reaches half of the largest rate observed, bytes.
    pub size_for_half: Option<f64>,
    /// The size that reaches 95 % of the largest rate observed, bytes.
    pub size_for_95: Option<f64>,
    /// The size that reaches half of the rate of an endless call, bytes.
    pub asymptote_size_for_half: Option<f64>,
    /// The size that reaches 95 % of it, bytes.
    pub asymptote_size_for_95: Option<f64>,
    /// How far each trial is off the curve, cell by cell in the order of measurement; `null` without a curve.
    pub residuals: Option<Vec<ResidualView>>,
    /// The same of each size together, ascending; empty without a curve.
    pub off_curve: Vec<OffCurve>,
    /// Possible explanations.
    pub residual_correlation: ResidualCorrelation,
}

/// How far one trial is off the cost curve.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ResidualView {
    /// The trial's cell.
    pub cell: CellId,
    /// Its block.
    pub block: u64,
    /// Mean bytes of its calls.
    pub bytes_per_call: f64,
    /// ln(measured / fitted) time a call.
    pub ln: f64,
}

/// How far the trials of one size are off the cost curve together.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct OffCurve {
    /// Their cell.
    pub cell: CellId,
    /// The size that was asked for, bytes.
    pub asked_bytes: u64,
    /// Mean bytes of their calls, the median of the trials.
    pub bytes_per_call: f64,
    /// Mean of ln(measured / fitted) time a call.
    pub ln: f64,
    /// Whether they differ from the curve by more than chance: Student's interval of the mean leaves 0 out, at the session's
    /// level for all sizes together (Bonferroni). A curve that misses one of its sizes has the wrong shape.
    pub is_off: bool,
}

/// Pearson's correlation of the residuals with what else was counted of this end; `null` where that was the same in
/// every trial, or there are fewer than three.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ResidualCorrelation {
    /// With the share of calls that moved less than they were asked to: short reads of the reading end, short
    /// writes of the writing one.
    pub short_call_share: Option<f64>,
    /// With the context switches a call.
    pub context_switches: Option<f64>,
}

/// One piece of the cost curve.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SegmentView {
    /// Where it starts, bytes.
    pub from_bytes: f64,
    /// Nanoseconds a byte costs there.
    pub per_byte_ns: f64,
}

/// A size where the slope changes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BreakView {
    /// The size, bytes.
    pub at_bytes: f64,
    /// Lower end of its interval, bytes.
    pub lower_bytes: f64,
    /// Upper end of its interval, bytes.
    pub upper_bytes: f64,
    /// p-value of "no such break".
    pub p: f64,
}
