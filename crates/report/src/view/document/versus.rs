//! The part of the document about a comparison of two.

use std::collections::BTreeMap;

use bytegauge_model::CellId;
use schemars::JsonSchema;
use serde::Serialize;

use super::SubjectDifference;

/// Two subjects, and whether the second is worse.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct VersusView {
    /// The current one.
    pub a: VersusSideView,
    /// The one that may replace it.
    pub b: VersusSideView,
    /// Their common levels, for people; empty for programs.
    pub alike: String,
    /// The compared quantity: `time` for the same work, its `cpu time` under an offered load, or the `events` counted
    /// meanwhile.
    pub cost: &'static str,
    /// How much longer B takes than A, with the interval at `level`, and the result.
    #[serde(flatten)]
    pub difference: SubjectDifference,
    /// Blocks behind it; adjacent blocks that depend on each other are merged.
    pub blocks: usize,
    /// Confidence of the interval: of one analysis, so that all analyses together keep 95 %.
    pub level: f64,
    /// The difference that matters, as a share.
    pub margin: f64,
    /// Why it is open, if more blocks would not decide it.
    pub why_open: Option<String>,
    /// The same as a text.
    pub text: String,
}

/// One of the two.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct VersusSideView {
    /// Its cell.
    pub cell: CellId,
    /// As it was given.
    pub words: String,
    /// Its levels that the other does not have, by factor, for people; empty for programs.
    pub differs: BTreeMap<String, String>,
    /// Number of trials of its rate.
    pub trials: usize,
    /// The median of its rates; its unit and interval are with its cell.
    pub rate: Option<f64>,
    /// CPU time per run, byte, call or operation, nanoseconds.
    pub cpu_ns: Option<f64>,
    /// Why it was not measured.
    pub reason: Option<String>,
}
