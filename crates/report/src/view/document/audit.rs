//! What trials far longer than those of the confirmation say of the answers.

use bytegauge_model::CellId;
use schemars::JsonSchema;
use serde::Serialize;

/// A group's choice against its rivals, in trials far longer than those of the confirmation.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AuditView {
    /// The choice.
    pub choice: CellId,
    /// Whom it was compared with.
    pub rivals: Vec<AuditRival>,
    /// `holds`: within the margin of every rival; `contradicts`: a rival is cheaper by more than the margin,
    /// of an open choice beyond what its confirmation found; `open`.
    #[schemars(extend("enum" = ["holds", "contradicts", "open"]))]
    pub finding: &'static str,
    /// So much dearer than its rivals the choice is at most there, as a share; `null` where blocks are too few.
    pub bound: Option<f64>,
    /// The rival that contradicts.
    pub better: Option<CellId>,
}

/// A choice against one rival in long trials.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AuditRival {
    /// The rival.
    pub cell: CellId,
    /// Blocks that hold both.
    pub blocks: usize,
    /// How much dearer the choice is than the rival, as a share.
    pub dearer: Option<f64>,
    /// Lower end of the interval of that; all rivals of a group hold together. `null` where blocks are too few.
    pub dearer_lower: Option<f64>,
    /// Upper end.
    pub dearer_upper: Option<f64>,
}

/// What long trials show of all choices of a session.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AuditSummary {
    /// Length of such a trial, nanoseconds.
    pub window_ns: u64,
    /// Groups whose choice was audited.
    pub questions: usize,
    /// Those in which it holds.
    pub hold: usize,
    /// Those in which it is contradicted.
    pub contradicted: usize,
    /// How much dearer than the runner-up the choice is in the mean group, as a share; of a choice that was not shown to be
    /// as good, beyond what its confirmation found.
    pub dearer: Option<f64>,
    /// Lower end of the interval of that, with the groups as replicates; `null` where they are too few.
    pub dearer_lower: Option<f64>,
    /// Upper end.
    pub dearer_upper: Option<f64>,
    /// What that shows: `holds`, `contradicts` or `open`.
    #[schemars(extend("enum" = ["holds", "contradicts", "open"]))]
    pub finding: &'static str,
}
