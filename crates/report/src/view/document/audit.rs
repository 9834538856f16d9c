//! The answers in trials far longer than those of the confirmation.

use bytegauge_model::CellId;
use schemars::JsonSchema;
use serde::Serialize;

/// A group's choice against its rivals, in trials far longer than those of the confirmation.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AuditView {
    /// The choice.
    pub choice: CellId,
    /// The rivals in the comparison.
    pub rivals: Vec<AuditRival>,
    /// `holds`: within the margin of every rival; `contradicts`: a rival is cheaper by more than the margin, for an open choice
    /// beyond its confirmation; `open`.
    #[schemars(extend("enum" = ["holds", "contradicts", "open"]))]
    pub finding: &'static str,
    /// The choice is at most this much slower than its rivals there, as a share; `null` with too few blocks.
    pub bound: Option<f64>,
    /// The rival that contradicts.
    pub better: Option<CellId>,
}

/// A choice against one rival in long trials.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AuditRival {
    /// The rival.
    pub cell: CellId,
    /// Blocks with both.
    pub blocks: usize,
    /// How much slower the choice is than the rival, as a share.
    pub slower: Option<f64>,
    /// Lower end of its interval; all intervals of a group hold together. `null` with too few blocks.
    pub slower_lower: Option<f64>,
    /// Upper end.
    pub slower_upper: Option<f64>,
}

/// The results of long trials for all choices of a session.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AuditSummary {
    /// Length of such a trial, nanoseconds.
    pub window_ns: u64,
    /// Groups whose choice was measured in them.
    pub questions: usize,
    /// Options that were measured in them, where options are compared by time.
    pub options: usize,
    /// Their long trials.
    pub trials: usize,
    /// Their rates there as multiples of those of the confirmation, medians of both: the smallest.
    pub rate_least: Option<f64>,
    /// Their median.
    pub rate_median: Option<f64>,
    /// The largest of them.
    pub rate_most: Option<f64>,
    /// Groups in which it holds.
    pub hold: usize,
    /// Groups in which it is contradicted.
    pub contradicted: usize,
    /// How much slower than the runner-up the choice is in the mean group, as a share; for an open choice, beyond its
    /// confirmation.
    pub slower: Option<f64>,
    /// Lower end of its interval, with the groups as replicates; `null` with too few.
    pub slower_lower: Option<f64>,
    /// Upper end.
    pub slower_upper: Option<f64>,
    /// The result: `holds`, `contradicts` or `open`.
    #[schemars(extend("enum" = ["holds", "contradicts", "open"]))]
    pub finding: &'static str,
}
