//! The part of the document about one group: its comparison, its blocks and its recommendation.

use bytegauge_model::{CellId, Cost, GroupId, Spec};
use bytegauge_stats::audit::AuditFinding;
use schemars::JsonSchema;
use serde::Serialize;

use super::schema::{FactorLevels, all_levels};

/// One group: cells that agree in every condition.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GroupView {
    /// Its name.
    pub id: GroupId,
    /// Its conditions.
    #[serde(serialize_with = "all_levels")]
    #[schemars(with = "FactorLevels")]
    pub factors: Spec,
    /// Choice factors that vary among its candidates, in the order of the factor table.
    pub varied: Vec<String>,
    /// Its reader does nothing with the bytes: no recommendation rests on it alone.
    pub throws_away: bool,
    /// The compared quantity: `ns_per_byte`, or `cpu_ns_per_byte` under an offered load; for calls `ns_per_call` or
    /// `cpu_ns_per_call`, the server's.
    pub cost: &'static str,
    /// The same.
    #[serde(skip)]
    pub compares: Cost,
    /// How much the A/A control may differ from its cell with this number of blocks: the larger absolute end of the interval of
    /// their difference, as a share; `null` without a control, and below three blocks.
    pub twin_reach: Option<f64>,
    /// The cell that was measured twice in every block: the one that led the screening.
    pub twin: Option<TwinView>,
    /// Confirmation blocks.
    pub blocks: BlocksView,
    /// The state of the group between its analyses; `null` where the number of blocks was fixed beforehand.
    pub analysis: Option<InterimView>,
    /// How old connections were when a trial's window opened and closed, nanoseconds; `null` where there are none.
    pub age_ns: Option<(u64, u64)>,
    /// Warm-up of every trial, nanoseconds.
    pub warmup_ns: Option<u64>,
    /// Whether the calibration trials settled in their first half.
    pub steady: Option<bool>,
    /// Whether blocks depend on each other, and how many were merged.
    pub serial: Option<SerialView>,
    /// Cells that may be the best.
    pub best_set: Vec<CellId>,
    /// Confirmed trials so far slower than their block that they count three robust spreads, not more.
    pub limited_trials: usize,
    /// Cells that typical trials favour without a significant result, because plain means, in which slow trials
    /// count in full, contradict them.
    pub spoken_against: Vec<CellId>,
    /// The results of trials far longer than those of the confirmation; `null` without any.
    pub audit: Option<AuditView>,
    /// The recommendation.
    pub recommendation: GroupRecommendation,
    /// The cost of a call and of a byte.
    pub cost_model: CostModel,
    /// The last long trial of its option over time; absent without a request, or without a long trial.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_time: Option<OverTimeView>,
    /// The emulated link between its ends; absent where there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkView>,
    /// The user named the options that are compared here.
    #[serde(skip)]
    pub asked: bool,
    /// The option with the lowest p99 of calls against each other one, where a load is offered; `findings` have them.
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
    /// Complete ones that the comparison uses: up to the last analysis, where there are analyses.
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
    /// Looks that there are at most.
    pub of: usize,
    /// Confidence of each, as a share; together they keep the session's.
    pub level: f64,
    /// Blocks with which the last completed one ended.
    pub blocks: usize,
    /// Complete blocks after it: they prove nothing before the next analysis, and no number of the document is of them.
    pub so_far: usize,
    /// Blocks with which the next analysis ends; `null` behind the last.
    pub next_blocks: Option<usize>,
    /// Blocks with which the last analysis ends.
    #[serde(skip)]
    pub last_blocks: usize,
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
}

/// Two options of a test, compared block by block.
#[derive(Clone, Debug, PartialEq)]
pub struct OptionRatio {
    /// The option with the lower mean cost.
    pub option: CellId,
    /// The option that it is compared with.
    pub other: CellId,
    /// Lower end of the interval of the cost of `other` divided by that of `option`; below 1 the options are tied.
    pub times_lower: f64,
    /// Upper end of the interval; `None` where it has none.
    pub times_upper: Option<f64>,
}

/// A group's choice against its rivals, in trials far longer than those of the confirmation.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AuditView {
    /// The choice.
    pub choice: CellId,
    /// The rivals in the comparison.
    pub rivals: Vec<AuditRival>,
    /// `holds`: within the margin of every rival; `contradicts`: a rival is cheaper by more than the margin, for an open choice
    /// beyond its confirmation; `open`.
    pub finding: AuditFinding,
    /// The choice is at most this much slower than its rivals there, as a share; `null` with too few blocks.
    pub bound: Option<f64>,
    /// The rival that contradicts.
    pub better: Option<CellId>,
}

/// A choice against one rival in long trials.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AuditRival {
    /// The rival.
    pub cell: CellId,
    /// Blocks with both.
    pub blocks: usize,
    /// Lower end of its interval; all intervals of a group hold together. `null` with too few blocks.
    pub slower_lower: Option<f64>,
    /// Upper end.
    pub slower_upper: Option<f64>,
}

/// The results of long trials for all choices of a session.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AuditSummary {
    /// Length of such a trial, nanoseconds.
    pub window_ns: u64,
    /// The result: `holds`, `contradicts` or `open`.
    pub finding: AuditFinding,
}

/// The emulated link between the ends of a group: its counts in the trials of the estimates. The conditions have its settings.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LinkView {
    /// The smallest round trip that TCP saw in a trial (`tcpi_min_rtt`), the median over trials, nanoseconds; `null` over UDP.
    pub round_trip_ns: Option<u64>,
    /// How much longer than requested a round trip took on average, nanoseconds.
    pub late_ns: u64,
    /// Packets that arrived, both directions.
    pub passed: u64,
    /// Packets lost as requested.
    pub lost: u64,
    /// Packets that found its queue full.
    pub queue_drops: u64,
    /// CPU time of its process, in CPUs.
    pub cpus: Option<f64>,
}

/// The last long trial of a group's choice, cut into intervals of one length from its start, warm-up included.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct OverTimeView {
    /// The cell that ran.
    pub cell: CellId,
    /// Length of an interval, nanoseconds.
    pub interval_ns: u64,
    /// The unit of `flows`, `sum` and `mean`: `bytes/s`, of a ring `NOPs/s`.
    pub unit: &'static str,
    /// Each flow's rate in every whole interval, at the receiving end (of calls both directions, at the client).
    pub flows: Vec<Vec<f64>>,
    /// The same of all flows together.
    pub sum: Vec<f64>,
    /// Mean of `sum`.
    pub mean: f64,
    /// Standard deviation of `sum` as a share of its mean; `null` with fewer than two intervals.
    pub spread: Option<f64>,
}

/// The cost of a call and of a byte, by regression over all trials. Descriptive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct CostModel {
    /// The reading end, whose numbers are repeated here.
    #[serde(flatten)]
    pub main: Slice,
    /// The reading end, along the cells that differ from the recommended one in the read size alone.
    pub reader: Option<Slice>,
    /// The writing end, along the cells that differ in the write size alone.
    pub writer: Option<Slice>,
}

/// Time = per call + per byte × bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Linear {
    /// Nanoseconds a call takes before its first byte.
    pub per_call_ns: Option<f64>,
    /// Nanoseconds each byte adds.
    pub per_byte_ns: Option<f64>,
}

/// One end's cost per call against the bytes that a call really moved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Slice {
    /// The counted quantity: `on_cpu_ns_per_call`, or `wall_ns_per_call` for one-ended sources and where CPU time is
    /// not known.
    #[schemars(extend("enum" = ["on_cpu_ns_per_call", "wall_ns_per_call", null]))]
    pub metric: Option<&'static str>,
    /// Plain least squares; `null` where a cost would be negative, or no line fits.
    pub linear: Linear,
    /// The largest size that was fitted, bytes; `null` for all.
    pub fit_max: Option<u64>,
    /// Nanoseconds a call takes before its first byte, by the line of least relative error.
    pub per_call_ns: Option<f64>,
    /// Nanoseconds each byte adds by that line.
    pub per_byte_ns: Option<f64>,
    /// Typical relative error of that line; from 0.25 on the line is left out.
    pub relative_error: Option<f64>,
    /// The size that reaches half of the rate of the largest size, bytes.
    pub size_for_half: Option<f64>,
    /// The size that reaches 95 % of it, bytes.
    pub size_for_95: Option<f64>,
}
