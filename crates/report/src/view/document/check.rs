//! What a session that checked a program of the user's adds to the document.

use bytegauge_model::{CellId, GroupId};
use schemars::JsonSchema;
use serde::Serialize;

/// A program, what it gains, and whether what was advised held.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CheckView {
    /// The program's name.
    pub program: String,
    /// What was measured, as `--metric` takes it.
    pub metric: String,
    /// The value that the user has now, for people.
    pub default: Option<String>,
    /// What is gained over it, one for each group.
    pub gains: Vec<GainView>,
    /// What became of the advice of an earlier session.
    pub advice: Vec<AdviceView>,
    /// Runs after which processes were still there, and were ended.
    pub left_behind: usize,
    /// Runs after which the server did not heed its signal and was killed.
    pub stopped_by_force: usize,
}

/// What the named value gains over the one that is there now. Intervals hold for all values at once.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GainView {
    /// The group.
    pub group: GroupId,
    /// The cell with the named value.
    pub cell: Option<CellId>,
    /// The value that is there now, for people.
    pub default: String,
    /// How much faster the named value is, as a share: 0.5 is one and a half times as fast.
    pub gain: Option<f64>,
    /// Lower end of its interval.
    pub lower: Option<f64>,
    /// Upper end of its interval.
    pub upper: Option<f64>,
    /// CPU time of a run with the named value, of its whole process tree, nanoseconds.
    pub cpu_ns: Option<f64>,
    /// The same with the value that is there now.
    pub default_cpu_ns: Option<f64>,
    /// The same in words.
    pub text: String,
}

/// A value that an earlier session advised, and what it came to in the program.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AdviceView {
    /// The group.
    pub group: GroupId,
    /// The session that advised it.
    pub session: i64,
    /// The value, for people.
    pub value: String,
    /// What it was advised for.
    pub question: String,
    /// Whether it is shown to be within the margin of the best here (`true`), or beyond it (`false`); `null` where
    /// neither is shown.
    pub held: Option<bool>,
    /// Its rate against that of the value which is there now, as the earlier session measured it.
    pub predicted: Option<f64>,
    /// The same, as it was observed in the program.
    pub observed: Option<f64>,
    /// The same in words.
    pub text: String,
}
