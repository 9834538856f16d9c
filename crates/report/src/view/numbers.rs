//! The settled numbers of one session, as JSON publishes them. Holds levels as [`bytegauge_model::Spec`] and closed sets as enums.
//!
//! Field names are the keys of `schema/report.schema.json`. An unknown value is `None` (JSON `null`),
//! never 0 and never NaN. Shares are between 0 and 1, sizes whole bytes, other units come last in
//! the name. Holds no logic beyond finding and summing its own values.
//!
//! Each part of the document has a file of its own.

mod cell;
pub mod difference;
mod group;
pub mod schema;

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use bytegauge_model::session::{self, NoteKind};
use bytegauge_model::{CellId, CellKind, GroupId, Role, SessionId, SessionStatus, SocketChanges};
pub use bytegauge_stats::audit::AuditFinding;
pub use bytegauge_stats::compare::Verdict;
pub use cell::*;
pub use difference::*;
pub use group::*;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

/// The whole report of one session.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct View {
    /// Rises when a key changes its meaning or goes away.
    #[schemars(extend("const" = schema::VERSION))]
    pub schema_version: u32,
    /// The session's number in its store.
    pub session: SessionId,
    /// The state of the session.
    pub status: SessionStatus,
    /// When it began, RFC 3339, UTC.
    #[schemars(extend("format" = "date-time"))]
    pub started: String,
    /// From its first to its last trial, nanoseconds.
    pub elapsed_ns: Option<u64>,
    /// Length of the intervals in which long trials were asked for, nanoseconds: a group that then has no `over_time` has no
    /// trial that was kept and is longer; absent without such a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_ns: Option<u64>,
    /// Version of bytegauge that measured it.
    pub version: String,
    /// Seed of the design and of the statistics.
    pub seed: u64,
    /// The plan.
    pub plan: PlanView,
    /// Where it was run.
    pub environment: EnvironmentView,
    /// The results of long trials for all options together; `null` without any.
    pub audit: Option<AuditSummary>,
    /// The gain of a program of the user; absent where none was checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tune: Option<TuneView>,
    /// The comparison of two subjects: whether the second is worse; absent elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub versus: Option<VersusView>,
    /// The cost of the harness itself.
    pub floor: FloorView,
    /// Every cell, in the order of the plan.
    pub cells: Vec<CellView>,
    /// Every group, in the order of the plan.
    pub groups: Vec<GroupView>,
    /// Omissions of the plan, unreadable parts of an import, and observations of the analysis.
    #[schemars(with = "Vec<String>")]
    pub notes: Vec<Note>,
}

/// The plan.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PlanView {
    /// The plan's name.
    pub name: String,
    /// The workload: `stream`, `call`, `ring` or `tune`.
    pub workload: String,
    /// "Within x of the best", as a share.
    pub margin: f64,
    /// Confidence level of every interval and of every family of comparisons.
    pub level: f64,
    /// The time that the plan was given, nanoseconds.
    pub budget_ns: Option<u64>,
    /// The session was imported: it cannot be continued here.
    #[serde(skip)]
    pub is_imported: bool,
    /// Share of the time in which the answer was to be audited by long trials; `null` where the plan knew none.
    pub audit_share: Option<f64>,
    /// A load that was offered counts as answered from this share of it on.
    pub answered_share: f64,
    /// The kind of the ends, `threads` or `processes`; `null` where that is not known.
    pub ends: Option<String>,
    /// The words that it was asked by, without the name of the program and of the store; absent where they are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<Vec<String>>,
    /// Factors that were varied, in the order of the factor table.
    pub varied: Vec<String>,
    /// Every factor of the workload, in the order of the factor table.
    pub factors: Vec<FactorView>,
}

/// A factor, for people and for programs that draw it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FactorView {
    /// Its key in every `factors`.
    pub name: &'static str,
    /// As in code where there is a name for it, `SO_RCVBUF`; else a short heading.
    pub heading: &'static str,
    /// A line about it.
    pub summary: &'static str,
    /// `choice`: you may set it. `condition`: the environment sets it.
    pub role: Role,
    /// The unit of its numbers: `bytes`, `ns`, `bytes/s`, `calls/s`; `null` for plain counts and names.
    #[schemars(extend("enum" = ["bytes", "ns", "bytes/s", "calls/s", null]))]
    pub unit: Option<&'static str>,
    /// The meanings of the named levels in this session, where they are known.
    pub names: BTreeMap<&'static str, &'static str>,
}

/// The machine, and its other load during the measurement.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct EnvironmentView {
    /// A (calm) to D (much was taken from the session, or other programs used a fifth of the CPUs or more), a description that decides nothing; `null` when nothing is
    /// known about the machine.
    #[schemars(extend("enum" = ['A', 'B', 'C', 'D', null]))]
    pub grade: Option<char>,
    /// The reasons of the grade.
    pub reasons: Vec<String>,
    /// Share of CPU time that the hypervisor gave to others, mean over the blocks.
    pub steal_share: Option<f64>,
    /// The same in the worst block.
    pub steal_share_worst: Option<f64>,
    /// CPUs' worth of work by other processes, mean over the blocks.
    pub foreign_cpus: Option<f64>,
    /// Time that the control group kept the session from running, µs.
    pub throttled_us: Option<u64>,
    /// The largest difference that an A/A control of a group may have, as a share.
    pub twin_reach: Option<f64>,
    /// Facts about the machine as they were read before the first trial.
    #[serde(flatten)]
    pub facts: Map<String, Value>,
}

impl EnvironmentView {
    /// A fact, by the names on the way to it.
    pub fn fact(&self, path: &[&str]) -> Option<&Value> {
        let (first, rest) = path.split_first()?;
        rest.iter().try_fold(self.facts.get(*first)?, |value, name| value.get(name))
    }

    /// A fact that is a text.
    pub fn text(&self, path: &[&str]) -> Option<&str> {
        self.fact(path)?.as_str()
    }

    /// The congestion control that TCP has unless a program sets another.
    pub fn congestion(&self) -> Option<&str> {
        self.text(&["network", "congestion_control"])
    }

    /// CPUs that the session was allowed to use.
    pub fn allowed_cpus(&self) -> Option<usize> {
        self.fact(&["cpu", "allowed"])?.as_array().map(Vec::len)
    }
}

/// A median with a sign interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Estimate {
    /// The estimated quantity.
    pub metric: &'static str,
    /// Its base unit.
    pub unit: &'static str,
    /// The median of the trials.
    pub median: Option<f64>,
    /// Lower end of the interval; absent below 6 trials and where there is no confirmation.
    pub lower: Option<f64>,
    /// Upper end of the interval.
    pub upper: Option<f64>,
}

impl View {
    /// The options of a program's sockets that were changed.
    pub fn changes(&self) -> Option<&ChangesView> {
        self.tune.as_ref()?.changes.as_ref()
    }

    /// The cell of that id.
    pub fn cell(&self, id: &CellId) -> Option<&CellView> {
        self.cells.iter().find(|cell| cell.id == *id)
    }

    /// The group of that id.
    pub fn group(&self, id: &GroupId) -> Option<&GroupView> {
        self.groups.iter().find(|group| group.id == *id)
    }

    /// The options of the plan, without floors and controls.
    pub fn candidates(&self) -> impl Iterator<Item = &CellView> {
        self.cells.iter().filter(|cell| cell.kind == CellKind::Candidate)
    }

    /// The options of a group.
    pub fn candidates_of<'a>(&'a self, group: &'a GroupId) -> impl Iterator<Item = &'a CellView> {
        self.candidates().filter(move |cell| cell.group == *group)
    }

    /// The cells of a group.
    pub fn cells_of<'a>(&'a self, group: &'a GroupId) -> impl Iterator<Item = &'a CellView> {
        self.cells.iter().filter(move |cell| cell.group == *group)
    }

    /// The options of a program that the session changed.
    pub fn socket_changes(&self) -> Option<&SocketChanges> {
        self.changes()?.task.as_ref()
    }
}

/// A note of a session. The document has its text alone, after the name of its group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub struct Note {
    /// The group that it is about; `None` for the session.
    pub group: Option<GroupId>,
    /// Its subject.
    pub kind: NoteKind,
    /// The text.
    pub text: String,
}

impl Note {
    /// A note that the session stored.
    pub fn stored(text: &str) -> Note {
        Note { kind: session::kind_of_note(text), ..Note::of_session(text.to_owned()) }
    }

    /// A note about the session.
    pub fn of_session(text: String) -> Note {
        Note { group: None, kind: NoteKind::Other, text }
    }

    /// A note about a group.
    pub fn of_group(group: &GroupId, text: String) -> Note {
        Note { group: Some(group.clone()), ..Note::of_session(text) }
    }
}

impl Display for Note {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.group {
            Some(group) => write!(f, "{group}: {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

impl From<Note> for String {
    fn from(note: Note) -> String {
        note.to_string()
    }
}
