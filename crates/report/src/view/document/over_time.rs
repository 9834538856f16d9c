//! One long trial, interval by interval.

use bytegauge_model::CellId;
use schemars::JsonSchema;
use serde::Serialize;

/// The last long trial of a group's choice, cut into intervals of one length from its start, warm-up included.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct OverTimeView {
    /// The cell that ran.
    pub cell: CellId,
    /// Length of an interval, nanoseconds.
    pub interval_ns: u64,
    /// The unit of `flows`, `sum` and `mean`: `bytes/s`, of a ring `NOPs/s`.
    pub unit: &'static str,
    /// Each flow's rate in every whole interval, at the receiving end (of calls both directions, at the client).
    pub flows: Vec<Vec<f64>>,
    /// The same of all flows together.
    pub sum: Vec<f64>,
    /// Mean of `sum`.
    pub mean: f64,
    /// Standard deviation of `sum` as a share of its mean; `null` with fewer than two intervals.
    pub spread: Option<f64>,
}
