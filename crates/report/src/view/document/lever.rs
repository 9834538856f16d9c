//! A setting with a larger effect than the choices of the session.

use bytegauge_model::{CellId, GroupId};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// One level of a condition, or of a choice that is no size, compared with another, each with its best confirmed choice.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LeverView {
    /// The factor.
    pub factor: String,
    /// The slower level.
    pub from: Value,
    /// The faster level.
    pub to: Value,
    /// The group with the slower level.
    pub group: GroupId,
    /// The best choice with the faster level.
    pub cell: CellId,
    /// Cost with the slower level over cost with the faster one, at least; all levers of a session hold together at its
    /// level.
    pub times_lower: f64,
    /// The same at most.
    pub times_upper: Option<f64>,
}
