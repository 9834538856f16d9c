//! Sessions beside each other: how far apart the same cells are in them, and whether one's choice holds in another.

use bytegauge_model::{CellId, GroupId, SessionId};
use schemars::JsonSchema;
use serde::Serialize;

/// What several sessions show beside each other. Shares are between 0 and 1, differences are of cost: above 0 is dearer.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BetweenView {
    /// The difference that matters, as a share.
    pub margin: f64,
    /// Confidence of every interval; its complement is the false discovery rate of the verdicts, cell by cell.
    pub level: f64,
    /// Sessions of the first subject without which nothing is shown of subjects.
    pub sessions_min: usize,
    /// The subjects: machines, kernels, releases or imported results with their sessions, in the order in which they were
    /// named. Sessions of one kind alone are two subjects: the last one, and those before. All are compared with the first.
    pub arms: Vec<BetweenArm>,
    /// The questions that more than one of them asked.
    pub questions: Vec<BetweenQuestion>,
    /// What the sessions chose, tried in the others.
    pub choices: Vec<BetweenChoice>,
}

/// A subject.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BetweenArm {
    /// What sets it apart, for people.
    pub name: String,
    /// Its sessions.
    pub sessions: Vec<SessionId>,
    /// Brought in as a table: levels that it does not state are taken to be those of the others.
    pub stated_only: bool,
}

/// A question, in all sessions that asked it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BetweenQuestion {
    /// The conditions, for people.
    pub question: String,
    /// The group that asked it in each of the sessions.
    pub groups: Vec<BetweenGroup>,
    /// What is compared: `ns_per_byte`, `cpu_ns_per_call`, … as in the groups.
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
    /// What is chosen, for people.
    pub label: String,
    /// What each session calls it.
    pub cells: Vec<BetweenPlace>,
    /// Each other subject against the first.
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

/// How much dearer a cell is in a subject's sessions than in the first's.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BetweenDifference {
    /// The subject's place among the arms.
    pub arm: usize,
    /// The mean of its sessions against the mean of the first's.
    pub difference: f64,
    /// Lower end of its interval, with sessions as replicates; `null` where there are too few of them.
    pub lower: Option<f64>,
    /// Upper end.
    pub upper: Option<f64>,
    /// Lower end of what the trials of two single sessions leave open: how far apart these two were, whatever the reason.
    /// `null` where a subject has several sessions here, or a session fewer than six trials.
    pub runs_lower: Option<f64>,
    /// Upper end.
    pub runs_upper: Option<f64>,
    /// Sessions of the first subject with the cell.
    pub sessions_first: usize,
    /// Sessions of this one with it.
    pub sessions: usize,
    /// `dearer`, `cheaper`: by more than the margin; `equal`: within it; `open`: none is shown of the subjects.
    #[schemars(extend("enum" = ["dearer", "cheaper", "equal", "open"]))]
    pub verdict: &'static str,
}

/// What one session chose, in another that asked the same.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BetweenChoice {
    /// The question, for people.
    pub question: String,
    /// The session that chose.
    pub session: SessionId,
    /// Its group.
    pub group: GroupId,
    /// What it chose, for people.
    pub choice: String,
    /// The session in which that was tried.
    pub tried_in: SessionId,
    /// There it is at least so much dearer than the best of its own group; `null` where that is not known.
    pub lower: Option<f64>,
    /// There it is at most so much dearer.
    pub upper: Option<f64>,
    /// `holds`: within the margin there as well; `contradicted`: dearer than the best there by more; `open`; `absent`: not
    /// confirmed there.
    #[schemars(extend("enum" = ["holds", "contradicted", "open", "absent"]))]
    pub finding: &'static str,
}
