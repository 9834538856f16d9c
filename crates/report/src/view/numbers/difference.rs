//! The comparison of two subjects: the one type of `ab`, `compare`, `--against` and several sessions.
//!
//! Also the view of a program of the user: its changes, gains and advice.

use std::collections::BTreeMap;

use bytegauge_model::{CellId, GroupId, SocketChanges};
use bytegauge_stats::compare::{Comparison, Verdict};
use schemars::JsonSchema;
use serde::Serialize;

/// How much longer the second subject takes than the first for the same work, and the result.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SubjectDifference {
    /// The mean or median difference, as a share of the time of the faster one: 0.5 is one and a half times as long, −0.5 is
    /// the same for the first subject. `null` without a comparison.
    pub longer: Option<f64>,
    /// Lower end of its interval; `null` with too few blocks or sessions.
    pub lower: Option<f64>,
    /// Upper end.
    pub upper: Option<f64>,
    /// `worse`: the second takes longer by more than the margin. `better`: it takes less time, perhaps by more than the margin.
    /// `equivalent`: it does not take longer by more than the margin. `open`: none of these is significant.
    pub verdict: Verdict,
}

impl SubjectDifference {
    /// The difference of a comparison, with its result.
    pub fn of(comparison: Option<&Comparison>, verdict: Verdict) -> SubjectDifference {
        let share = |ln: f64| finite(longer(ln));
        SubjectDifference {
            longer: comparison.and_then(|comparison| share(comparison.difference)),
            lower: comparison.and_then(|comparison| share(comparison.lower)),
            upper: comparison.and_then(|comparison| share(comparison.upper)),
            verdict,
        }
    }
}

/// A logarithm of costs as a share of the time of the faster one, with the sign of the slower one.
pub fn longer(ln: f64) -> f64 {
    if ln >= 0.0 { ln.exp_m1() } else { -(-ln).exp_m1() }
}

/// The share by which time changed: half the time is 50 % less, and the reverse is 100 % longer.
pub fn of_time(longer: f64) -> f64 {
    if longer < 0.0 { longer / (1.0 - longer) } else { longer }
}

/// How much more time a difference of logarithms is, as a share; `None` for an interval without an end.
pub fn share(ln: f64) -> Option<f64> {
    finite(ln.exp_m1())
}

fn finite(share: f64) -> Option<f64> {
    Some(share).filter(|share| share.is_finite())
}

/// Two subjects, and whether the second is worse.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct VersusView {
    /// The current one.
    pub a: VersusSideView,
    /// The one that may replace it.
    pub b: VersusSideView,
    /// Their common levels, for people; empty for programs.
    pub alike: String,
    /// The compared quantity: `time` for the same work, its `cpu time` under an offered load or where time decides nothing and B
    /// uses more CPU, or the `events` counted meanwhile.
    pub cost: VersusCost,
    /// How much longer B takes than A, with the interval at `level`, and the result.
    #[serde(flatten)]
    pub difference: SubjectDifference,
    /// Blocks behind it; adjacent blocks that depend on each other are merged.
    pub blocks: usize,
    /// Confidence of the interval: of one analysis, so that all analyses together keep 95 %.
    pub level: f64,
    /// The difference that matters, as a share.
    pub margin: f64,
    /// Why it is open, if more blocks would not decide it; or the doubt that is left.
    pub why_open: Option<String>,
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
    /// Its rate, as the table has it: of the first the median, or that of all trials where it is another one; of the second, where time is
    /// compared, what follows from the first and the difference in pairs.
    pub rate: Option<f64>,
    /// Why it was not measured.
    pub reason: Option<String>,
}

/// The compared quantity of two subjects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VersusCost {
    /// Time for the same work.
    Time,
    /// CPU time for the same work.
    CpuTime,
    /// The mean time of a call.
    Latency,
    /// The p99 of the time of a call.
    P99,
    /// The p99 of the time between two parts of a reply.
    GapP99,
    /// The mean delay of urgent messages.
    Urgent,
    /// The events counted meanwhile.
    Events,
}

impl VersusCost {
    /// What is compared, in a sentence.
    pub fn noun(self) -> &'static str {
        match self {
            VersusCost::Time => "time",
            VersusCost::CpuTime => "CPU time",
            VersusCost::Latency => "time of a call",
            VersusCost::P99 => "p99",
            VersusCost::GapP99 => "gap p99",
            VersusCost::Urgent => "urgent delay",
            VersusCost::Events => "events",
        }
    }
}

// The part of the document about checks of a user's program.

/// A program, its gain, and whether a recommendation held.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TuneView {
    /// The program's name.
    pub program: String,
    /// The measured quantity, as in `--metric`.
    pub metric: String,
    /// Whether a rate of that quantity includes the start of the program: not a number that it prints.
    #[serde(skip)]
    pub includes_start: bool,
    /// The user's current value, for people.
    pub default: Option<String>,
    /// The gain over it, one for each group.
    pub gains: Vec<GainView>,
    /// The effects of options that were changed on its sockets; `null` where values are arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<ChangesView>,
    /// The test of the recommendation of an earlier session.
    pub advice: Vec<AdviceView>,
    /// Runs after which processes were still there, and were ended.
    pub left_behind: usize,
    /// Runs after which the server ignored its signal and was killed.
    pub stopped_by_force: usize,
}

/// Options that were changed on the sockets of a program, each compared with the program as it is.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ChangesView {
    /// The program whose sockets were changed: `client`, `server` or `both`.
    pub on: String,
    /// The quantity that is compared, of which less is better.
    pub cost: VersusCost,
    /// The changes, in the order of the plan.
    pub changes: Vec<ChangeView>,
    /// The changes that were not tried, each with the reason.
    pub not_tried: Vec<String>,
    /// What the connections of a running program did with each value; empty where trials start the program.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub service: Vec<ServiceView>,
    /// The session's task, for texts.
    #[serde(skip)]
    pub task: Option<SocketChanges>,
}

/// The saving from which on an undecided change is named.
const MUCH_SAVED: f64 = 0.2;

/// The undecided one of these changes with the largest estimated saving, where that is much.
pub fn promising<'a>(changes: impl Iterator<Item = &'a ChangeView>) -> Option<&'a ChangeView> {
    let is_much = |change: &&ChangeView| change.change.is_some_and(|share| share < -MUCH_SAVED);
    let is_change = |change: &&ChangeView| change.effect == ChangeEffect::Undecided && change.beyond_loopback.is_none();
    let open = changes.filter(is_change).filter(is_much);
    open.min_by(|a, b| a.change.unwrap_or(0.0).total_cmp(&b.change.unwrap_or(0.0)))
}

/// The least factor by which the blocks must grow so that one of these changes should be decided.
pub fn least_growth<'a>(changes: impl Iterator<Item = &'a ChangeView>) -> Option<f64> {
    changes.filter(|change| change.beyond_loopback.is_none()).filter_map(|change| change.growth).reduce(f64::min)
}

impl ChangesView {
    /// Why a running program was left before the session was over: no change is measured any more.
    pub fn left_for(&self) -> Option<&str> {
        let is_running = self.task.as_ref().is_some_and(|task| task.service.is_some());
        let is_left = is_running && self.changes.iter().all(|change| change.left_for.is_some());
        self.changes.first().filter(|_| is_left)?.left_for.as_deref()
    }
}

/// What the connections of a running program did with a value: medians of its trials.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ServiceView {
    /// The value: `nodelay=on`, or `as-it-is`.
    pub value: String,
    /// Bytes that were moved in a second, in units of 2³⁰.
    pub gib_per_s: Option<f64>,
    /// Segments that were sent again for 2³⁰ bytes.
    pub retransmitted_per_gib: Option<f64>,
    /// Median of the smoothed round-trip times of the connections, microseconds.
    pub rtt_us: Option<f64>,
}

/// What a change does, by its interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeEffect {
    /// The program is better with it.
    Better,
    /// It is worse.
    Worse,
    /// It differs by less than the margin in both directions.
    Nothing,
    /// None of these is shown.
    Undecided,
    /// It has no interval.
    NotMeasured,
}

impl ChangeEffect {
    /// The effect by the ends of an interval of the cost.
    pub fn of(lower: Option<f64>, upper: Option<f64>, margin: f64) -> ChangeEffect {
        match (lower, upper) {
            (_, Some(upper)) if upper < 0.0 => ChangeEffect::Better,
            (Some(lower), _) if lower > 0.0 => ChangeEffect::Worse,
            (Some(lower), Some(upper)) if -lower <= margin && upper <= margin => ChangeEffect::Nothing,
            (Some(_), Some(_)) => ChangeEffect::Undecided,
            _ => ChangeEffect::NotMeasured,
        }
    }
}

/// One change. Intervals hold for all changes at once.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ChangeView {
    /// The change: `rcvbuf=unset`.
    pub value: String,
    /// Its cell.
    pub cell: CellId,
    /// The change of the cost, as a share: -0.5 is half of it.
    pub change: Option<f64>,
    /// Lower end of its interval.
    pub lower: Option<f64>,
    /// Upper end of its interval.
    pub upper: Option<f64>,
    /// What it does.
    pub effect: ChangeEffect,
    /// Whether it is the change to make.
    pub is_best: bool,
    /// What it may do on a network, where it was compared over loopback and may be the best there alone: it is no change to make.
    pub beyond_loopback: Option<&'static str>,
    /// Why there is no interval.
    pub reason: Option<String>,
    /// Why it is not measured any more.
    #[serde(skip)]
    pub left_for: Option<String>,
    /// Whether only its first runs were made.
    #[serde(skip)]
    pub dropped: bool,
    /// The factor by which the blocks must grow so that an undecided effect should be decided.
    #[serde(skip)]
    pub growth: Option<f64>,
}

impl ChangeView {
    /// Whether it is shown to save something over loopback, and may do the opposite on a network.
    pub fn helps_over_loopback(&self) -> bool {
        self.effect == ChangeEffect::Better && self.beyond_loopback.is_some()
    }

    /// Whether its effect is not known, although it is measured to the end and may be a change to make.
    pub fn is_open(&self) -> bool {
        let is_known = !matches!(self.effect, ChangeEffect::Undecided | ChangeEffect::NotMeasured);
        !is_known && !self.dropped && self.left_for.is_none() && self.beyond_loopback.is_none()
    }
}

/// The gain of the recommended value over the current one. Intervals hold for all values at once.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GainView {
    /// The group.
    pub group: GroupId,
    /// The cell with the recommended value.
    pub cell: Option<CellId>,
    /// How much faster the recommended value is, as a share: 0.5 is one and a half times as fast.
    pub gain: Option<f64>,
    /// Lower end of its interval.
    pub lower: Option<f64>,
    /// Upper end of its interval.
    pub upper: Option<f64>,
}

/// The recommended value of an earlier session. `findings` have its result in the program.
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
}
