//! The part of the document about one group: its comparison, its blocks and its recommendation.

use bytegauge_model::{CellId, GroupId, Spec};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::factor_levels::FactorLevels;
use super::{AuditView, CostModel, CourseView, Factors, LinkView, OverTimeView, spec};

/// One group: cells that agree in every condition.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GroupView {
    /// Its name.
    pub id: GroupId,
    /// Its conditions for people: `unix, cross-core, drain`.
    pub label: String,
    /// Its conditions.
    #[schemars(with = "FactorLevels")]
    pub factors: Factors,
    /// Choice factors that vary among its candidates, in the order of the factor table.
    pub varied: Vec<String>,
    /// Its reader does nothing with the bytes: no recommendation rests on it alone.
    pub throws_away: bool,
    /// The compared quantity: `ns_per_byte`, or `cpu_ns_per_byte` under an offered load; for calls `ns_per_call` or
    /// `cpu_ns_per_call`, the server's.
    pub cost: &'static str,
    /// How much the A/A control may differ from its cell with this number of blocks: the larger absolute end of the interval of
    /// their difference, as a share; `null` without a control, and below three blocks.
    pub twin_reach: Option<f64>,
    /// The cell that was measured twice in every block: the one that led the screening.
    pub twin: Option<TwinView>,
    /// Confirmation blocks.
    pub blocks: BlocksView,
    /// The state of the group between its analyses; `null` where the number of blocks was fixed beforehand.
    pub look: Option<InterimView>,
    /// How old connections were when a trial's window opened and closed, nanoseconds; `null` where there are none.
    pub age_ns: Option<(u64, u64)>,
    /// Warm-up of every trial, nanoseconds.
    pub warmup_ns: Option<u64>,
    /// Length of the trials behind the results, nanoseconds: their median; `null` for programs, which take their own time.
    pub trial_ns: Option<u64>,
    /// The same of the screening; `null` where all options were confirmed.
    pub screening_trial_ns: Option<u64>,
    /// Whether the calibration trials settled in their first half.
    pub steady: Option<bool>,
    /// Whether blocks depend on each other, and how many were merged.
    pub serial: Option<SerialView>,
    /// Cells that may be the best.
    pub best_set: Vec<CellId>,
    /// Cells that were never confirmed.
    pub undecided: Vec<CellId>,
    /// Confirmed trials so far slower than their block that they count three robust spreads, not more.
    pub limited_trials: usize,
    /// Cells that typical trials favour without a significant result, because plain means, in which slow trials
    /// count in full, contradict them.
    pub spoken_against: Vec<CellId>,
    /// The results of trials far longer than those of the confirmation; `null` without any.
    pub audit: Option<AuditView>,
    /// The recommendation.
    pub recommendation: GroupRecommendation,
    /// Levels that the screening found slower than the recommended one by significantly more than the margin.
    pub avoid: Vec<AvoidView>,
    /// Cells that an earlier look showed to be slower than the best by more than the margin, and the present one does not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub once_avoided: Vec<CellId>,
    /// Cells that an earlier look named and proved to be within the margin, and the present one does not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub once_proven: Vec<CellId>,
    /// Whether the hypervisor took CPU time from some cells more than from others; `null` where it took none that
    /// shows it.
    pub stolen: Option<StolenView>,
    /// The cost of a call and of a byte.
    pub cost_model: CostModel,
    /// The confirmed trials in the order of measurement; `null` where there are none.
    pub course: Option<CourseView>,
    /// The last long trial of its option over time; absent without a request, or without a long trial.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_time: Option<OverTimeView>,
    /// The emulated link between its ends; absent where there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkView>,
    /// The user named the options that are compared here.
    #[serde(skip)]
    pub asked: bool,
    /// The fastest option against each other one; `Test.comparisons` has them.
    #[serde(skip)]
    pub ratios: Vec<OptionRatio>,
    /// The same by the p99 of calls, where a load is offered; `findings` have them.
    #[serde(skip)]
    pub p99_ratios: Vec<OptionRatio>,
}

/// One cell measured twice in every block, under two ids.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TwinView {
    /// The cell.
    pub cell: CellId,
    /// Its second id.
    pub twin: CellId,
    /// Mean difference of the control's cost from the cell's, as a share.
    pub difference: Option<f64>,
    /// Standard deviation of that from block to block, as a share.
    pub spread: Option<f64>,
    /// Lower end of the 95 % interval of the difference.
    pub lower: Option<f64>,
    /// Upper end.
    pub upper: Option<f64>,
    /// The two differ by more than chance allows: nothing in the group is proven.
    pub alarm: bool,
    /// Upper bound of the recommended cell's cost above the best with the A/A control in the place of the cell that it
    /// repeats, as a share; `null` where nothing is proven.
    pub exchanged_bound: Option<f64>,
    /// Blocks behind it, after merging.
    pub blocks: usize,
}

/// How many confirmation blocks a group had.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct BlocksView {
    /// Complete ones that the comparison uses: up to the last look, where there are looks.
    pub used: usize,
    /// Ones that broke and were repeated.
    pub broken: usize,
    /// Mean length, nanoseconds.
    pub mean_ns: Option<u64>,
}

/// The state of a group between the analyses that were declared beforehand.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct InterimView {
    /// Completed analyses; the results rest on the last of them. 0: there is no result yet.
    pub done: usize,
    /// Whether the first of them ended with fewer blocks than were fixed: time was over, or no cell was left.
    #[serde(skip)]
    pub cut_short: bool,
    /// Blocks that were fixed for the first of them.
    #[serde(skip)]
    pub planned: usize,
    /// Looks that there are at most.
    pub of: usize,
    /// Confidence of each, as a share; together they keep the session's.
    pub level: f64,
    /// Blocks with which the last completed one ended.
    pub blocks: usize,
    /// Complete blocks after it: they prove nothing before the next look, and no number of the document is of them.
    pub so_far: usize,
    /// Blocks with which the next look ends; `null` behind the last.
    pub next_blocks: Option<usize>,
    /// Blocks with which the last look ends.
    #[serde(skip)]
    pub last_blocks: usize,
}

/// A level to avoid: its median cost in the columns of the screening, compared with that of another level.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AvoidView {
    /// The factor.
    pub factor: String,
    /// The level to avoid.
    pub level: Value,
    /// The level that it was compared with: that of the recommended cell.
    pub against: Value,
    /// How much slower it is at least, as a share; all levels of a group hold together at the session's level.
    pub slower_lower: f64,
    /// How much slower it is at most.
    pub slower_upper: Option<f64>,
    /// Columns times blocks behind it.
    pub pairs: usize,
    /// How old the connections were when the window of a trial opened and when it closed, nanoseconds, where the screening
    /// shows it and they were of another age than those that were confirmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_ns: Option<(u64, u64)>,
}

/// How often the hypervisor took CPU time during the trials of the confirmed cells.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StolenView {
    /// The cell that was hit most often.
    pub most: CellId,
    /// Share of its trials that were hit.
    pub most_share: f64,
    /// The cell that was hit least often.
    pub least: CellId,
    /// Share of its trials that were hit.
    pub least_share: f64,
    /// p-value of "it falls on all cells alike", by exchanges within blocks.
    pub p: f64,
    /// Trials of each cell.
    pub trials: usize,
}

/// Trials that ran to their end and in which nothing moved.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StalledView {
    /// How many.
    pub trials: usize,
    /// Number of the cell's trials in confirmation; those of its A/A control are included.
    pub of: usize,
}

/// Whether neighbouring blocks resemble each other.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SerialView {
    /// How many neighbouring blocks became one.
    pub merged_by: usize,
    /// Blocks left.
    pub blocks: usize,
    /// Whether no dependence is seen any more.
    pub independent: bool,
}

/// The recommendation of one group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct GroupRecommendation {
    /// The cell: the cheapest that is proven, else the one with the least bound; `null` when nothing can be compared.
    pub cell: Option<CellId>,
    /// Whether it was shown to be within the margin of the best confirmed.
    pub proven: bool,
    /// The margin, as a share.
    pub margin: f64,
    /// The cell is at most this much slower than the best confirmed one, at the session's level; as a share.
    /// `null` where nothing could be judged.
    pub bound: Option<f64>,
    /// Whether the result holds with the A/A control in the place of the cell that it repeats; `null` without a result.
    pub survives_exchange: Option<bool>,
    /// The confirmed cell that came out best by its estimate, which proves nothing.
    pub best: Option<CellId>,
    /// Blocks of the analyses that are left; `null` where none is, and where no number of blocks would settle it.
    pub more_blocks: Option<u64>,
    /// The likely `bound` after them, as a share: it falls with the root of the blocks. A forecast.
    pub likely_bound: Option<f64>,
}

/// Two options of a test, compared block by block.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct OptionRatio {
    /// The option with the lower mean time (or CPU time) for the same work.
    pub option: CellId,
    /// The option that it is compared with.
    pub other: CellId,
    /// Time (or CPU time) of `other` divided by that of `option`, at least 1: mean over the blocks.
    pub times: f64,
    /// Lower end of the interval; below 1 the options are tied.
    pub times_lower: f64,
    /// Upper end of the interval; `null` where it has none.
    pub times_upper: Option<f64>,
}

impl GroupView {
    /// Whether CPU time is compared, since every option moves the offered load.
    pub fn compares_cpu(&self) -> bool {
        self.cost.starts_with("cpu_")
    }

    /// Its conditions.
    pub fn spec(&self) -> Spec {
        spec(&self.factors)
    }
}
