//! The part of the document about checks of a user's program.

use bytegauge_model::{CellId, GroupId};
use schemars::JsonSchema;
use serde::Serialize;

/// A program, its gain, and whether a recommendation held.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CheckView {
    /// The program's name.
    pub program: String,
    /// The measured quantity, as in `--metric`.
    pub metric: String,
    /// Whether it is the time of the same work, of which an earlier session predicts a gain.
    #[serde(skip)]
    pub rates_by_time: bool,
    /// Whether a rate of that quantity includes the start of the program: not a number that it prints.
    #[serde(skip)]
    pub includes_start: bool,
    /// The TCP port at which its server listened, where `--ready` waited for another sign until its time was over.
    #[serde(skip)]
    pub listens_at: Option<u16>,
    /// The same where no connection of the command reached its server.
    #[serde(skip)]
    pub unreached: Option<Unreached>,
    /// The user's current value, for people.
    pub default: Option<String>,
    /// The gain over it, one for each group.
    pub gains: Vec<GainView>,
    /// The test of the recommendation of an earlier session.
    pub advice: Vec<AdviceView>,
    /// Runs after which processes were still there, and were ended.
    pub left_behind: usize,
    /// Runs after which the server ignored its signal and was killed.
    pub stopped_by_force: usize,
}

/// A server that no connection reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unreached {
    /// The TCP port at which it listens.
    pub listens_at: u16,
    /// The port that the command names instead, and whether it is that of an address of this machine.
    pub named: Option<(u16, bool)>,
}

/// The gain of the recommended value over the current one. Intervals hold for all values at once.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GainView {
    /// The group.
    pub group: GroupId,
    /// The cell with the recommended value.
    pub cell: Option<CellId>,
    /// The current value, for people.
    pub default: String,
    /// How much faster the recommended value is, as a share: 0.5 is one and a half times as fast.
    pub gain: Option<f64>,
    /// Lower end of its interval.
    pub lower: Option<f64>,
    /// Upper end of its interval.
    pub upper: Option<f64>,
    /// CPU time of a run with the recommended value, of its whole process tree, nanoseconds.
    pub cpu_ns: Option<f64>,
    /// The same with the current value.
    pub default_cpu_ns: Option<f64>,
    /// The same as a text.
    pub text: String,
}

/// The recommended value of an earlier session, and its result in the program.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AdviceView {
    /// The group.
    pub group: GroupId,
    /// The session of the recommendation.
    pub session: i64,
    /// The value, for people.
    pub value: String,
    /// The conditions of the recommendation.
    pub question: String,
    /// Whether it is significantly within the margin of the best here (`true`), or beyond it (`false`); `null` if neither
    /// is significant.
    pub held: Option<bool>,
    /// Its rate relative to that of the current value, as measured by the earlier session.
    pub predicted: Option<f64>,
    /// The same, as measured in the program.
    pub observed: Option<f64>,
    /// Lower end of its interval.
    pub observed_lower: Option<f64>,
    /// Upper end of its interval.
    pub observed_upper: Option<f64>,
}
