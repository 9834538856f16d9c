//! The answer on one screen, as data: what a first look must tell, in the order in which it is read.
//!
//! Every text is settled here, so that a page or another program needs no statistics to print it; a renderer lays out,
//! and leaves out from the end what does not fit.

use std::collections::BTreeMap;

use bytegauge_model::GroupId;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// What to use, what to avoid, and how far to believe it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct AnswerView {
    /// What was run, how long it took, what others and the host took meanwhile, and on which machine.
    pub head: String,
    /// Settings that move more than the choices below, with how much.
    pub lever: Vec<String>,
    /// What to use.
    #[serde(rename = "use")]
    pub to_use: UseView,
    /// What a program of the user's gains over what it has now, and whether advice held; empty elsewhere.
    pub gain: Vec<String>,
    /// What to avoid, the worst first.
    pub avoid: Vec<AvoidLine>,
    /// What limits the cells that are named: a line a limit, the most frequent first.
    pub why: Vec<String>,
    /// What trials far longer than those of the confirmation say of it: what holds, what does not, what they cannot tell.
    pub audit: Vec<String>,
    /// What relays are worth: the path without one, what the fastest keeps of it, and which cost the least CPU time;
    /// and last what a connection holds through each of ours.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub relays: Vec<String>,
    /// What the answer holds for, and what was not looked at.
    pub holds: Vec<String>,
    /// What disturbed, and whom; never empty.
    pub noise: Vec<String>,
    /// What to do next: a command, and what it would likely show.
    pub next: Vec<String>,
    /// Commands that show the rest.
    pub more: Vec<String>,
}

/// A table of what to use: a row a question, or a row for questions that have the same answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct UseView {
    /// Who works, as the heading of a row's [`UseRow::who`]: `reader`, `server`.
    pub worker: &'static str,
    /// The choices, in the order of the factor table.
    pub choices: Vec<ChoiceColumn>,
    /// Unit of the rates, for people; every rate of the table is shown in it.
    pub rate_unit: &'static str,
    /// What a rate is divided by to be in that unit.
    pub rate_divisor: f64,
    /// What is compared where it is not the rate: `CPU s/GiB`, `CPU µs/call`; `null` where the rate is.
    pub cost_unit: Option<&'static str>,
    /// "Within x of the best", as a share.
    pub margin: f64,
    /// Confidence of a bound, as a share.
    pub level: f64,
    /// The rows, in the order of the plan.
    pub rows: Vec<UseRow>,
    /// For a program that has one constant: the level of a choice that no question speaks against, a line a choice.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub one: Vec<String>,
    /// What the largest buffer of the table comes to with many connections, where it is large.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// Those rows as a grid that differ in two numbers alone and answer with one choice; `null` where they are few.
    pub grid: Option<GridView>,
}

/// The rows of a table by two conditions, each a number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct GridView {
    /// What the rows of the grid are: `flows`.
    pub down: GridAxis,
    /// What its columns are: `request`.
    pub across: GridAxis,
    /// By row and column the place in [`UseView::rows`]; `null` where nothing was asked.
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
    /// As in code where there is a name for it: `SO_RCVBUF`, `read`.
    pub heading: String,
    /// What the system takes where the choice is left to it: `bbr`; absent where that is not known, or not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto: Option<String>,
}

/// How far a row is to be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Shown to be within the margin of the best confirmed.
    Proven,
    /// Not shown; the bound says how much dearer it is at most.
    Open,
    /// Something contradicts it, or it was not compared: the note says what.
    Doubtful,
    /// Nothing can be said, and the note says why.
    Nothing,
    /// One cell was measured: there is nothing to compare it with.
    Alone,
}

/// What to use under some conditions.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct UseRow {
    /// The question in words: `Unix, 2 CPUs`.
    pub question: String,
    /// The groups it answers for.
    pub groups: Vec<GroupId>,
    /// The profiles it answers for.
    pub profiles: Vec<String>,
    /// What the worker does: `sums`, or `any` for one answer over several profiles.
    pub who: String,
    /// One choice for several profiles that have different ones.
    pub one_for_all: bool,
    /// How far to believe it.
    pub standing: Standing,
    /// The factors that vary in what it answers, in the order of [`UseView::choices`].
    #[serde(skip)]
    pub varied: Vec<String>,
    /// The choice, by factor; empty where there is none.
    pub choice: BTreeMap<String, Value>,
    /// The choice, for people, in the order of [`UseView::choices`].
    pub shown: Vec<String>,
    /// The choice as it stands in the user's own program: `read(fd, buf, 262144)`.
    pub code: Vec<String>,
    /// What stands in the program of the peer for which this is the answer: `write(fd, buf, 16384)`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub peer_code: Vec<String>,
    /// The rate there, of the slowest group, in the base unit of the cells.
    pub rate: Option<f64>,
    /// The rate of the fastest group, where there are several.
    pub rate_max: Option<f64>,
    /// The rate of all trials together, slow ones in full, where the median stands more than a tenth above it; of the
    /// slowest group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_all: Option<f64>,
    /// Fewer than six trials stand behind the rate: two digits at most.
    pub rough: bool,
    /// The rate rose or fell while it was measured, or is one of several speeds: the median stands for none. NOISE says more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub moves: bool,
    /// What is compared where it is not the rate: the cost of the dearest group, in [`UseView::cost_unit`].
    pub cost: Option<f64>,
    /// The 99th percentile of a call's time there, nanoseconds, in the slowest group.
    pub p99_ns: Option<f64>,
    /// At most this much dearer than the best confirmed, as a share; `null` where nothing was judged.
    pub within: Option<f64>,
    /// So many times the time of the best confirmed it may take, where that is twice or more: then there is no answer yet, and
    /// no [`UseRow::within`]. Absent elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<f64>,
    /// Choices that are not told apart from an open one, by factor: each of them may be the best.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ties: Vec<BTreeMap<String, Value>>,
    /// The same for people: `64K–256K`, `3 others`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tied: Option<String>,
    /// What has to be known beside it.
    pub note: Option<String>,
}

/// Levels of one factor that are shown to be dearer than the best, or than the recommended one.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AvoidLine {
    /// Under which conditions: `TCP, parses`.
    pub question: String,
    /// The group.
    pub group: GroupId,
    /// The factor.
    pub factor: String,
    /// The factor as in code where there is a name for it.
    pub heading: String,
    /// The level that it was compared with, for people; or `the best`, whichever that is.
    pub against: String,
    /// Something speaks against what is said of this group: its row and NOISE say what.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub contested: bool,
    /// The levels, the dearest first.
    pub levels: Vec<AvoidLevel>,
    /// How old the connections were on which it was seen, nanoseconds, where those that were confirmed were of another age.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_ns: Option<(u64, u64)>,
}

/// One level to avoid.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AvoidLevel {
    /// The level, for people.
    pub level: String,
    /// How much dearer it is at least, as a share.
    pub dearer_lower: f64,
    /// How much dearer it is at most.
    pub dearer_upper: Option<f64>,
}
