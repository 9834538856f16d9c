//! Comparison of sessions: how far apart the same cells are in them, and whether the choice of one holds in another.

use bytegauge_model::{CellId, GroupId, SessionId};
use bytegauge_report::view::numbers::SubjectDifference;
use schemars::JsonSchema;
use serde::Serialize;

/// The comparison of several sessions. Shares are between 0 and 1, differences are of cost: above 0 is slower.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BetweenView {
    /// The difference that matters, as a share.
    pub margin: f64,
    /// Confidence of every interval; its complement is the false discovery rate of the verdicts, cell by cell.
    pub level: f64,
    /// Sessions of the first subject; without them there is no result for subjects.
    pub sessions_min: usize,
    /// The subjects: machines, kernels, releases or imported results with their sessions, in the given order. If all sessions are
    /// of one kind, they are two subjects: the last one, and the ones before. All are compared with the first.
    pub arms: Vec<BetweenArm>,
    /// The groups that more than one of them has.
    pub questions: Vec<BetweenQuestion>,
    /// The choices of the sessions, tested in the others.
    pub choices: Vec<BetweenChoice>,
}

/// A subject.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BetweenArm {
    /// Its difference from the others, for people.
    pub name: String,
    /// Its sessions.
    pub sessions: Vec<SessionId>,
    /// Imported as a table: its missing levels are taken to be those of the others.
    pub stated_only: bool,
}

/// A group, in all sessions that have it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BetweenQuestion {
    /// The conditions, for people.
    pub question: String,
    /// The group in each of the sessions.
    pub groups: Vec<BetweenGroup>,
    /// The compared quantity: `ns_per_byte`, `cpu_ns_per_call`, … as in the groups.
    pub cost: &'static str,
    /// The cells that more than one subject confirmed.
    pub cells: Vec<BetweenCell>,
}

/// A group of a session.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BetweenGroup {
    /// The session.
    pub session: SessionId,
    /// Its group.
    pub group: GroupId,
}

/// A cell in all sessions that confirmed it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BetweenCell {
    /// Its choices, for people.
    pub label: String,
    /// Its name in each session.
    pub cells: Vec<BetweenPlace>,
    /// Each other subject compared with the first.
    pub differences: Vec<BetweenDifference>,
}

/// A cell of a session.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BetweenPlace {
    /// The session.
    pub session: SessionId,
    /// Its cell.
    pub cell: CellId,
}

/// How much slower a cell is in a subject's sessions than in the first's.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BetweenDifference {
    /// The subject's place among the arms.
    pub arm: usize,
    /// The mean of its sessions compared with the mean of the first's, with sessions as replicates, and the result.
    #[serde(flatten)]
    pub difference: SubjectDifference,
    /// Lower end of the interval from the trials of two single sessions: how far apart these two were, for any reason. `null`
    /// if a subject has several sessions here, or a session fewer than six trials.
    pub runs_lower: Option<f64>,
    /// Upper end.
    pub runs_upper: Option<f64>,
    /// Sessions of the first subject with the cell.
    pub sessions_first: usize,
    /// Sessions of this one with it.
    pub sessions: usize,
}

/// The choice of one session, in another with the same group.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BetweenChoice {
    /// The group, for people.
    pub question: String,
    /// The session of the choice.
    pub session: SessionId,
    /// Its group.
    pub group: GroupId,
    /// The choice, for people.
    pub choice: String,
    /// The session in which it was tested.
    pub tried_in: SessionId,
    /// It is at least this much slower there than the best of its group; `null` if that is not known.
    pub lower: Option<f64>,
    /// It is at most this much slower there.
    pub upper: Option<f64>,
    /// `holds`: within the margin there too; `contradicted`: slower than the best there by more; `open`; `absent`: not
    /// confirmed there.
    #[schemars(extend("enum" = ["holds", "contradicted", "open", "absent"]))]
    pub finding: &'static str,
}
