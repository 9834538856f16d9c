//! The answer on one screen, as data, in the order in which it is read.
//!
//! Every text is final, so that a page or another program needs no statistics to print it; a renderer only lays out, and omits
//! lines from the end that do not fit.

use std::collections::BTreeMap;

use bytegauge_model::GroupId;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// Recommendations, options to avoid, and their reliability.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct AnswerView {
    /// The plan, its duration, the load of other programs and of the host meanwhile, and the machine.
    pub head: String,
    /// Settings with a larger effect than the choices below, with the effect.
    pub lever: Vec<String>,
    /// The recommendations.
    #[serde(rename = "use")]
    pub to_use: UseView,
    /// The gain of a user's program over its current value, and whether a recommendation held; empty elsewhere.
    pub gain: Vec<String>,
    /// Options to avoid, the worst first.
    pub avoid: Vec<AvoidLine>,
    /// The limits of the recommended cells: one line per limit, the most frequent first.
    pub why: Vec<String>,
    /// The results of trials far longer than those of the confirmation: what they confirm, contradict and leave open.
    pub audit: Vec<String>,
    /// Relays: the path without one, the share of it that the fastest keeps, and the one with the least CPU time; last the
    /// memory of a connection through each of bytegauge's own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub relays: Vec<String>,
    /// The scope of the answer, and what was not measured.
    pub holds: Vec<String>,
    /// Disturbances, and the groups that they affected; never empty.
    pub noise: Vec<String>,
    /// The next step: a command, and its likely result.
    pub next: Vec<String>,
    /// Commands that show the rest.
    pub more: Vec<String>,
}

/// A table of recommendations: a row per group, or a row for groups with the same answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct UseView {
    /// The end of the user's program, as the heading of a row's [`UseRow::who`]: `reader`, `server`.
    pub worker: &'static str,
    /// The choices, in the order of the factor table.
    pub choices: Vec<ChoiceColumn>,
    /// Unit of the rates, for people; every rate of the table is shown in it.
    pub rate_unit: &'static str,
    /// The divisor of a rate in that unit.
    pub rate_divisor: f64,
    /// The compared quantity if it is not the rate: `CPU s/GiB`, `CPU µs/call`; `null` for the rate.
    pub cost_unit: Option<&'static str>,
    /// "Within x of the best", as a share.
    pub margin: f64,
    /// Confidence of a bound, as a share.
    pub level: f64,
    /// The rows, in the order of the plan.
    pub rows: Vec<UseRow>,
    /// For a program that has one constant: the level of a choice that no group contradicts, one line per choice.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub one: Vec<String>,
    /// The memory of the largest buffer of the table with many connections, if it is large.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// These rows as a grid, if they differ only in two numbers and have the same choice; `null` if they are few.
    pub grid: Option<GridView>,
}

/// The rows of a table by two conditions, each a number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct GridView {
    /// The factor of the grid's rows: `flows`.
    pub down: GridAxis,
    /// The factor of its columns: `request`.
    pub across: GridAxis,
    /// By row and column the place in [`UseView::rows`]; `null` if there is none.
    pub cells: Vec<Vec<Option<usize>>>,
}

/// One side of a grid.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct GridAxis {
    /// The factor.
    pub factor: String,
    /// Its levels in ascending order, for people.
    pub levels: Vec<String>,
}

/// A choice factor that varies.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ChoiceColumn {
    /// The factor.
    pub factor: String,
    /// Its name in code, if it has one: `SO_RCVBUF`, `read`.
    pub heading: String,
    /// The value chosen by the system: `bbr`; absent if it is not known, or not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto: Option<String>,
}

/// The reliability of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Significantly within the margin of the best confirmed.
    Proven,
    /// Not significant; the bound shows how much slower it can be.
    Open,
    /// Something contradicts it, or it was not compared: the note gives the reason.
    Doubtful,
    /// No result, with the reason in the note.
    Nothing,
    /// One cell was measured, so that there was nothing to compare.
    Alone,
}

/// A recommendation under some conditions.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct UseRow {
    /// A description of the group: `Unix, 2 CPUs`.
    pub question: String,
    /// The groups it answers for.
    pub groups: Vec<GroupId>,
    /// The profiles it answers for.
    pub profiles: Vec<String>,
    /// The work of the program: `sums`, or `any` for one answer over several profiles.
    pub who: String,
    /// One choice for several profiles that have different ones.
    pub one_for_all: bool,
    /// Its reliability.
    pub standing: Standing,
    /// The factors that vary in its groups, in the order of [`UseView::choices`].
    #[serde(skip)]
    pub varied: Vec<String>,
    /// The choice, by factor; empty where there is none.
    pub choice: BTreeMap<String, Value>,
    /// The choice, for people, in the order of [`UseView::choices`].
    pub shown: Vec<String>,
    /// The choice as code of the user's own program: `read(fd, buf, 262144)`.
    pub code: Vec<String>,
    /// The code of the peer's program for which this is the answer: `write(fd, buf, 16384)`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub peer_code: Vec<String>,
    /// The rate there, of the slowest group, in the base unit of the cells.
    pub rate: Option<f64>,
    /// The rate of the fastest group, if there are several.
    pub rate_max: Option<f64>,
    /// The rate of all trials together, with slow ones in full, if the median is more than a tenth above it; of the slowest
    /// group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_all: Option<f64>,
    /// The rate has fewer than six trials: two digits at most.
    pub rough: bool,
    /// The rate rose or fell during the measurement, or has several speeds, so that the median represents none. See NOISE.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub moves: bool,
    /// The compared quantity if it is not the rate: the cost of the most expensive group, in [`UseView::cost_unit`].
    pub cost: Option<f64>,
    /// The 99th percentile of a call's time there, nanoseconds, in the slowest group.
    pub p99_ns: Option<f64>,
    /// At most this much slower than the best confirmed, as a share; `null` without a comparison.
    pub within: Option<f64>,
    /// The largest multiple of the time of the best confirmed, if that is two or more: then there is no answer yet, and no
    /// [`UseRow::within`]. Absent elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<f64>,
    /// Choices that are tied with an open one, by factor: each of them may be the best.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ties: Vec<BTreeMap<String, Value>>,
    /// The same for people: `64K–256K`, `3 others`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tied: Option<String>,
    /// A necessary note on it.
    pub note: Option<String>,
}

/// Levels of one factor that are significantly slower than the best, or than the recommended one.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AvoidLine {
    /// Their conditions: `TCP, parses`.
    pub question: String,
    /// The group.
    pub group: GroupId,
    /// The factor.
    pub factor: String,
    /// The factor's name in code, if it has one.
    pub heading: String,
    /// The compared level, for people; or `the best`, whichever that is.
    pub against: String,
    /// Something contradicts the results of this group: see its row and NOISE.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub contested: bool,
    /// The levels, the slowest first.
    pub levels: Vec<AvoidLevel>,
    /// The age of the connections on which it was observed, nanoseconds, if confirmed ones had another age.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_ns: Option<(u64, u64)>,
}

/// One level to avoid.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AvoidLevel {
    /// The level, for people.
    pub level: String,
    /// How much slower it is at least, as a share.
    pub dearer_lower: f64,
    /// How much slower it is at most.
    pub dearer_upper: Option<f64>,
}
