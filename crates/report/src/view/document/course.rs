//! The part of the document about the order of measurement: drift, and load meanwhile.

use bytegauge_model::CellId;
use schemars::JsonSchema;
use serde::Serialize;

/// The confirmed trials of a group in the order of measurement. Columns: the n-th entry of every list belongs to the n-th point. A
/// point is one block, or several adjacent ones, so that there are few enough points to draw.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct CourseView {
    /// Blocks per point.
    pub blocks_per_point: usize,
    /// The first block of each point.
    pub block: Vec<u64>,
    /// When its first trial began, nanoseconds after the session did.
    pub at_ns: Vec<u64>,
    /// CPU steal, mean over the point's blocks; `null` if it is not known.
    pub steal_share: Vec<Option<f64>>,
    /// The compared cells, and the A/A control of one.
    pub cells: Vec<CourseCell>,
}

/// One cell's values.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CourseCell {
    /// The cell.
    pub cell: CellId,
    /// Its primary rate, median over the point's trials; `null` without one.
    pub rate: Vec<Option<f64>>,
}
