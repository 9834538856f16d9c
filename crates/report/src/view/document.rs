//! The settled numbers of one session: the shape that every renderer prints and that JSON publishes.
//!
//! Field names are the keys of `schema/report.schema.json`. An unknown value is `None` (JSON `null`),
//! never 0 and never NaN. Shares are between 0 and 1, sizes whole bytes, other units come last in
//! the name. Holds no logic beyond looking a thing up.
//!
//! Long because it is one document; calls, datagrams and rings have files of their own.

mod audit;
mod between;
mod call;
mod check;
mod course;
mod datagram;
pub(crate) mod difference;
mod harm;
mod lever;
mod link;
mod over_time;
mod result;
mod ring;
pub mod schema;
mod versus;

use std::collections::BTreeMap;

use bytegauge_model::{CellId, CellKind, GroupId, Level, Role, SessionId, SessionStatus, Spec, Stage};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

pub use audit::{AuditRival, AuditSummary, AuditView};
pub use between::{
    BetweenArm, BetweenCell, BetweenChoice, BetweenDifference, BetweenGroup, BetweenPlace, BetweenQuestion, BetweenView,
};
pub use call::{
    CallDatagramView, CallView, CompetingView, DelayedAcksView, EngineView, ErrorView, KneeView, LateFinding,
    LatenessView, ProbeView,
};
pub use check::{AdviceView, CheckView, GainView};
pub use course::{CourseCell, CourseView};
pub use datagram::DatagramView;
pub use difference::SubjectDifference;
pub use harm::{HarmKind, HarmView};
pub use lever::LeverView;
pub use link::LinkView;
pub use over_time::OverTimeView;
pub use result::{
    Because, Bottleneck, Compares, Finding, FindingKind, NextStep, OptionRatio, OptionResult, OptionStatus, Severity,
    SummaryLine, Test, TestState,
};
pub use ring::RingView;
pub use versus::{VersusSideView, VersusView};

/// Version of the JSON document. Rises when a key changes its meaning or goes away.
pub const SCHEMA_VERSION: u32 = 3;

/// Levels by factor name, every factor of the table present, `null` where it does not apply.
pub type Factors = BTreeMap<String, Value>;

/// The whole report of one session.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct View {
    /// Rises when a key changes its meaning or goes away.
    #[schemars(extend("const" = SCHEMA_VERSION))]
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
    /// The same until the last trial that its numbers rest on, where later ones wait for the next analysis.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judged_ns: Option<u64>,
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
    /// The plan, its duration, and the machine.
    pub heading: String,
    /// The tests with their options, in the order of the plan.
    pub tests: Vec<Test>,
    /// Facts that decide how to read the results, the most serious first.
    pub findings: Vec<Finding>,
    /// The results in a few lines: the options to use, the largest effect, the bottleneck, and caveats.
    pub summary: Vec<SummaryLine>,
    /// The next steps, the most useful first.
    pub next: Vec<NextStep>,
    /// The results of long trials for all options together; `null` without any.
    pub audit: Option<AuditSummary>,
    /// Settings with a larger effect than the compared options, the largest first; `findings` has them.
    #[serde(skip)]
    pub levers: Vec<LeverView>,
    /// The gain of a program of the user; absent where none was checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<CheckView>,
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
    pub notes: Vec<String>,
}

/// The plan.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PlanView {
    /// The plan's name.
    pub name: String,
    /// The workload: `stream`, `call`, `ring` or `check`.
    pub workload: String,
    /// "Within x of the best", as a share.
    pub margin: f64,
    /// Confidence level of every interval and of every family of comparisons.
    pub level: f64,
    /// The time that the plan was given, nanoseconds.
    pub budget_ns: Option<u64>,
    /// Blocks were asked for, whatever they take.
    #[serde(skip)]
    pub states_blocks: bool,
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
    /// A (calm) to D (much was taken from the session), a description that decides nothing; `null` when nothing is
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

    /// The congestion control that TCP has unless a program sets another.
    pub fn congestion(&self) -> Option<&str> {
        self.fact(&["network", "congestion_control"])?.as_str()
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

/// One cell.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CellView {
    /// Its name.
    pub id: CellId,
    /// Its group.
    pub group: GroupId,
    /// Candidate, twin, floor or artefact.
    pub kind: CellKind,
    /// The cell that an A/A control repeats.
    pub twin_of: Option<CellId>,
    /// The levels that vary in the session, for people: `read 32 KiB, write 256 KiB`.
    pub label: String,
    /// The furthest stage with a measured trial.
    pub stage: Option<Stage>,
    /// The level of every factor.
    #[schemars(with = "schema::FactorLevels")]
    pub factors: Factors,
    /// `measured`, `skipped` or `failed`.
    #[schemars(extend("enum" = ["measured", "skipped", "failed"]))]
    pub outcome: &'static str,
    /// Why it was not measured, or left its group.
    pub reason: Option<String>,
    /// Measured trials behind the estimate: of confirmation, or all of screening where `stage` shows so.
    pub trials: usize,
    /// How many of them the hypervisor took CPU time from.
    pub stolen_trials: usize,
    /// Trials of any stage that failed.
    pub failed_trials: usize,
    /// Confirmation trials in which nothing moved, where there were some: nothing is proven of the cell then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalled: Option<StalledView>,
    /// The share of the offered load that it carried in all trials together, where that is less than `plan.answered_share` and
    /// another choice of its group carries the load: nothing is proven of it then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behind: Option<f64>,
    /// Harm that the rate does not show.
    pub harm: HarmView,
    /// The primary rate: bytes per second at the sink, calls per second at the client, completions per second of a
    /// ring.
    pub estimate: Estimate,
    /// All bytes, calls or completions over all time.
    pub total_rate: Option<f64>,
    /// Mean of the trials' rates, as others publish it.
    pub mean: Option<f64>,
    /// Standard deviation of the same; `null` below two trials.
    pub sd: Option<f64>,
    /// Other estimates by name.
    pub more: BTreeMap<&'static str, Estimate>,
    /// Counts, summed over the trials behind the estimate.
    pub counters: Counters,
    /// CPU time of each end and of the machine.
    pub cpu: CpuView,
    /// The limit of the cell.
    pub limit: LimitView,
    /// Memory that the cell takes, bytes; the recommendation prefers small ones.
    pub footprint: Option<u64>,
    /// Simultaneous upper bound of its cost above the best confirmed, as a share.
    pub above_best_upper: Option<f64>,
    /// Simultaneous lower bound of the same: above the margin, the cell is shown to be worse than that.
    pub above_best_lower: Option<f64>,
    /// More than one mode in the rates of the trials.
    pub modes: Option<ModesView>,
    /// Trials far from the others. Never dropped.
    pub outliers: Outliers,
    /// Results of calls; absent in a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<CallView>,
    /// Counts of datagrams; absent where there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<DatagramView>,
    /// Counts of the ring; absent where there is a path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ring: Option<RingView>,
    /// The program that was the relay; absent for a relay of bytegauge, or without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relay_program: Option<RelayProgramView>,
}

/// An external program that was the relay.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RelayProgramView {
    /// Its version, as it reports it.
    pub version: Option<String>,
    /// The most processes that were still there after it had left, and were ended.
    pub left_behind: u64,
    /// Whether it had to be killed in any trial.
    pub stopped_by_force: bool,
    /// The processes whose CPU time counts as its own, and how it was read; absent in sessions of older versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charged: Option<String>,
}

/// Rates that fall into more than one heap.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ModesView {
    /// Hartigan's dip test against one mode.
    pub dip_p: Option<f64>,
    /// Whether the total rate is outside the interval of the median.
    pub total_rate_disagrees: bool,
    /// The heaps, slowest first.
    pub modes: Vec<ModeView>,
}

/// One heap of rates.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ModeView {
    /// Its median, bytes per second.
    pub median: f64,
    /// Its share of the trials.
    pub share: f64,
}

/// Trials outside three interquartile ranges, and what went with them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Outliers {
    /// How many.
    pub count: usize,
    /// How many of them are in a block with more than 1 % steal.
    pub with_steal: usize,
    /// How many of them had more involuntary switches than any trial that is not one.
    pub with_preemption: usize,
}

/// Counts of the trials behind the estimate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Counters {
    /// Bytes at the sink.
    pub bytes: Option<u64>,
    /// Calls of `read(2)`.
    pub reads: Option<u64>,
    /// Calls of `write(2)`; absent for one-ended sources.
    pub writes: Option<u64>,
    /// Reads that returned less than the buffer holds.
    pub short_reads: Option<u64>,
    /// Writes that took less than was offered.
    pub short_writes: Option<u64>,
    /// Share of reads that were short.
    pub short_read_share: Option<f64>,
    /// Share of writes that were short.
    pub short_write_share: Option<f64>,
    /// Mean bytes a read returned.
    pub bytes_per_read: Option<f64>,
    /// Mean bytes a write took.
    pub bytes_per_write: Option<f64>,
    /// Times the writer gave up the CPU of its own accord.
    pub source_voluntary_switches: Option<u64>,
    /// Times the writer was made to give up the CPU.
    pub source_involuntary_switches: Option<u64>,
    /// Times the reader gave up the CPU of its own accord.
    pub sink_voluntary_switches: Option<u64>,
    /// Times the reader was made to give up the CPU.
    pub sink_involuntary_switches: Option<u64>,
    /// TCP segments sent again.
    pub retransmits: Option<u64>,
    /// Share of the connections' busy time in which the receiver's window was the limit.
    pub rwnd_limited_share: Option<f64>,
    /// Share of the connections' busy time in which the send buffer was the limit.
    pub sndbuf_limited_share: Option<f64>,
    /// Median over trials of the kernel's delivery rate, bytes per second, flows summed.
    pub delivery_rate: Option<f64>,
    /// Smallest round-trip time seen, µs.
    pub min_rtt_us: Option<u64>,
    /// Window scale that the reader announced (a server, to its client): the writer's `tcpi_snd_wscale`.
    pub snd_wscale: Option<u8>,
    /// Window scale that the writer announced.
    pub rcv_wscale: Option<u8>,
    /// Median of the kernel memory that the writer's sockets held, bytes.
    pub source_socket_memory: Option<u64>,
    /// Median of the kernel memory that the reader's sockets held, bytes.
    pub sink_socket_memory: Option<u64>,
    /// Most bytes that lay unread in a connection of the reader when it was looked at.
    pub sink_queued_bytes: Option<u64>,
    /// Bytes whose content was compared with the pattern; absent unless `--verify`.
    pub verified_bytes: Option<u64>,
    /// Options as asked for and as the kernel set them.
    pub options: BTreeMap<&'static str, OptionView>,
    /// Each flow; absent with one flow.
    pub per_flow: Option<PerFlow>,
}

/// An option as asked for and as it came out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct OptionView {
    /// The level of the factor; `null` where no factor sets it.
    pub requested: Value,
    /// The value that the kernel reports at the writing end.
    pub source: Value,
    /// The value that the kernel reports at the reading end.
    pub sink: Value,
    /// Whether the request is in force at every end that made it, doubled where the kernel doubles; absent without a
    /// request, or where it is not known.
    pub as_asked: Option<bool>,
}

/// How evenly flows share.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PerFlow {
    /// Smallest of the flows' median rates, bytes per second.
    pub min: f64,
    /// Median of the flows' median rates, bytes per second.
    pub median: f64,
    /// Largest of the flows' median rates, bytes per second.
    pub max: f64,
    /// Each flow's median rate over the trials, bytes per second.
    pub rates: Vec<f64>,
}

/// CPU time of each end and of the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct CpuView {
    /// The writing end.
    pub source: Option<EndCpu>,
    /// The reading end.
    pub sink: Option<EndCpu>,
    /// Both ends, seconds per GiB.
    pub ends_s_per_gib: Option<f64>,
    /// All CPUs of the machine, seconds per GiB; absent below 1 s of observation (ticks are 10 ms).
    pub machine_busy_s_per_gib: Option<f64>,
    /// CPU time of the machine beyond the two ends, seconds per GiB. May fall below 0 by the ticks.
    pub unattributed_s_per_gib: Option<f64>,
    /// Soft interrupts of the machine, in CPUs.
    pub softirq_cpus: Option<f64>,
    /// Share of `NET_RX` soft interrupts that the busiest CPU took.
    pub net_rx_busiest_share: Option<f64>,
    /// Whether soft interrupts are billed to whom they interrupt; `null` when that is not known.
    pub softirq_billed_to_interrupted: Option<bool>,
}

/// CPU time of one end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct EndCpu {
    /// In user mode, seconds per GiB.
    pub user_s_per_gib: Option<f64>,
    /// In the kernel, seconds per GiB.
    pub system_s_per_gib: Option<f64>,
    /// Together, by the precise clock, seconds per GiB.
    pub total_s_per_gib: Option<f64>,
    /// CPU time over window, in CPUs: 1 for a thread that never waits, more with several flows.
    pub cpus: Option<f64>,
    /// CPU time over window and thread: 1 when every thread runs all the time.
    pub utilisation: Option<f64>,
}

/// The limit of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LimitView {
    /// The limit; `unknown` where no number proves one.
    #[schemars(schema_with = "schema::limit")]
    pub name: &'static str,
    /// The limit for readers, with the other one that single trials show.
    pub title: String,
    /// The evidence in a sentence.
    pub sentence: String,
    /// The same in short: without the counts of single trials, and without the owner of its rates.
    pub brief: String,
    /// The numbers that the sentence rests on.
    pub evidence: BTreeMap<&'static str, f64>,
    /// Set where many of the trials show something else by themselves: chance may have chosen between the two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doubt: Option<LimitDoubt>,
}

/// The limits that the single trials of a cell show.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LimitDoubt {
    /// Trials.
    pub trials: usize,
    /// Those that show the limit by themselves.
    pub agree: usize,
    /// The limit that most of the others show.
    #[schemars(schema_with = "schema::limit")]
    pub other: &'static str,
    /// How many do.
    pub show_other: usize,
    /// The numbers of trials in a sentence.
    pub text: String,
}

/// The cost of the harness itself, from the null engine in the same blocks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct FloorView {
    /// Nanoseconds a call of the null engine takes, median over its trials; null where that is more than a real call takes.
    pub ns_per_call: Option<f64>,
    /// Trials behind it.
    pub trials: usize,
    /// The real cell with the cheapest calls.
    pub fastest_cell: Option<CellId>,
    /// Nanoseconds a call takes there.
    pub fastest_ns_per_call: Option<f64>,
    /// Floor over fastest; the aim is below 0.01.
    pub share: Option<f64>,
}

/// One group: cells that agree in every condition.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GroupView {
    /// Its name.
    pub id: GroupId,
    /// Its conditions for people: `unix, cross-core, drain`.
    pub label: String,
    /// Its conditions.
    #[schemars(with = "schema::FactorLevels")]
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
    /// Trials behind it.
    pub trials: usize,
    /// Plain least squares; `null` where a cost would be negative, or no curve fits.
    pub linear: Linear,
    /// The largest size that was fitted, bytes; `null` for all.
    pub fit_max: Option<u64>,
    /// Share of the variance that the plain fit explains.
    pub r_squared: Option<f64>,
    /// Nanoseconds a call takes before its first byte, by the curve with breaks in relative error.
    pub per_call_ns: Option<f64>,
    /// The pieces of that curve, ascending.
    pub segments: Vec<SegmentView>,
    /// Typical relative error of the curve; from 0.25 on the curve is left out.
    pub relative_error: Option<f64>,
    /// Sizes where the slope changes, by a bootstrap likelihood-ratio test.
    pub breaks: Vec<BreakView>,
    /// The size that reaches half of the largest rate observed, bytes.
    pub size_for_half: Option<f64>,
    /// The size that reaches 95 % of the largest rate observed, bytes.
    pub size_for_95: Option<f64>,
    /// The size that reaches half of the rate of an endless call, bytes.
    pub asymptote_size_for_half: Option<f64>,
    /// The size that reaches 95 % of it, bytes.
    pub asymptote_size_for_95: Option<f64>,
    /// How far each trial is off the curve, cell by cell in the order of measurement; `null` without a curve.
    pub residuals: Option<Vec<ResidualView>>,
    /// The same of each size together, ascending; empty without a curve.
    pub off_curve: Vec<OffCurve>,
    /// Possible explanations.
    pub residual_correlation: ResidualCorrelation,
}

/// How far one trial is off the cost curve.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ResidualView {
    /// The trial's cell.
    pub cell: CellId,
    /// Its block.
    pub block: u64,
    /// Mean bytes of its calls.
    pub bytes_per_call: f64,
    /// ln(measured / fitted) time a call.
    pub ln: f64,
}

/// How far the trials of one size are off the cost curve together.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct OffCurve {
    /// Their cell.
    pub cell: CellId,
    /// The size that was asked for, bytes.
    pub asked_bytes: u64,
    /// Mean bytes of their calls, the median of the trials.
    pub bytes_per_call: f64,
    /// Mean of ln(measured / fitted) time a call.
    pub ln: f64,
    /// Whether they differ from the curve by more than chance: Student's interval of the mean leaves 0 out, at the session's
    /// level for all sizes together (Bonferroni). A curve that misses one of its sizes has the wrong shape.
    pub is_off: bool,
}

/// Pearson's correlation of the residuals with what else was counted of this end; `null` where that was the same in
/// every trial, or there are fewer than three.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ResidualCorrelation {
    /// With the share of calls that moved less than they were asked to: short reads of the reading end, short
    /// writes of the writing one.
    pub short_call_share: Option<f64>,
    /// With the context switches a call.
    pub context_switches: Option<f64>,
}

/// One piece of the cost curve.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SegmentView {
    /// Where it starts, bytes.
    pub from_bytes: f64,
    /// Nanoseconds a byte costs there.
    pub per_byte_ns: f64,
}

/// A size where the slope changes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BreakView {
    /// The size, bytes.
    pub at_bytes: f64,
    /// Lower end of its interval, bytes.
    pub lower_bytes: f64,
    /// Upper end of its interval, bytes.
    pub upper_bytes: f64,
    /// p-value of "no such break".
    pub p: f64,
}

impl View {
    /// The cell of that id.
    pub fn cell(&self, id: &CellId) -> Option<&CellView> {
        self.cells.iter().find(|cell| cell.id == *id)
    }

    /// The cells of a group.
    pub fn cells_of<'a>(&'a self, group: &'a GroupId) -> impl Iterator<Item = &'a CellView> {
        self.cells.iter().filter(move |cell| cell.group == *group)
    }
}

/// The levels of factors in the document. Factors without a level are left out.
pub fn spec(factors: &Factors) -> Spec {
    let level = |value: &Value| serde_json::from_value(value.clone()).unwrap_or(Level::Absent);
    let levels = factors.iter().map(|(name, value)| (name.as_str(), level(value)));
    levels.filter(|(_, level)| *level != Level::Absent).collect()
}

impl GroupView {
    /// Its conditions.
    pub fn spec(&self) -> Spec {
        spec(&self.factors)
    }
}

impl CellView {
    /// The median of another estimate.
    pub fn median(&self, name: &str) -> Option<f64> {
        self.more.get(name)?.median
    }

    /// The levels of its factors.
    pub fn spec(&self) -> Spec {
        spec(&self.factors)
    }

    /// The level of a factor, by its name: for code that walks factors.
    pub fn level(&self, name: &str) -> Level {
        self.factors.get(name).and_then(|value| serde_json::from_value(value.clone()).ok()).unwrap_or(Level::Absent)
    }
}
