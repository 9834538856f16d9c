//! A setting that moves more than the choices that were asked about.

use bytegauge_model::{CellId, GroupId};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// One level of a condition, or of a choice that is no size, against another, each at the best choice confirmed with it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LeverView {
    /// The factor.
    pub factor: String,
    /// The dearer level.
    pub from: Value,
    /// The cheaper level.
    pub to: Value,
    /// The group with the dearer level.
    pub group: GroupId,
    /// The best choice with the cheaper level.
    pub cell: CellId,
    /// Cost with the dearer level over cost with the cheaper one, at least; all levers of a session hold together at its
    /// level.
    pub times_lower: f64,
    /// The same at most.
    pub times_upper: Option<f64>,
}
