//! What a document says of the order of measurement: drift, and what went on meanwhile.

use bytegauge_model::CellId;
use schemars::JsonSchema;
use serde::Serialize;

/// The confirmed trials of a group in the order in which they were measured. Columns: the n-th entry of every list belongs
/// to the n-th point. A point is one block, or as many neighbouring ones together as keep the points few enough to draw.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct CourseView {
    /// Blocks a point stands for.
    pub blocks_per_point: usize,
    /// The first block of each point.
    pub block: Vec<u64>,
    /// When its first trial began, nanoseconds after the session did.
    pub at_ns: Vec<u64>,
    /// Share of CPU time that the hypervisor gave to others, mean over the point's blocks; `null` where nobody knows.
    pub steal_share: Vec<Option<f64>>,
    /// The cells that were compared, and the twin of one.
    pub cells: Vec<CourseCell>,
}

/// One cell's part in it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CourseCell {
    /// The cell.
    pub cell: CellId,
    /// Its primary rate, median over the point's trials; `null` where there is none.
    pub rate: Vec<Option<f64>>,
}
