//! The part of the document about one cell: its numbers, counters, CPU time and limit.

use std::collections::BTreeMap;

use bytegauge_bottleneck::CellLimit;
use bytegauge_bottleneck::path::{DelayedAcks, Objective};
use bytegauge_model::{CellId, CellKind, ErrorClass, ErrorPhase, GroupId, Level, Spec, Stage, UdpUse};
use bytegauge_stats::modes::TrialMode;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::schema::{FactorLevels, all_levels};
use super::{Estimate, StalledView};

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
    /// The choices that vary in the session, for people: `read 32K + write 256K`.
    pub label: String,
    /// The furthest stage with a measured trial.
    pub stage: Option<Stage>,
    /// The level of every factor.
    #[serde(serialize_with = "all_levels")]
    #[schemars(with = "FactorLevels")]
    pub factors: Spec,
    /// `measured`, `skipped` or `failed`.
    pub outcome: CellOutcome,
    /// Why it was not measured, or left its group.
    pub reason: Option<String>,
    /// Measured trials behind the estimate: of confirmation, or all of screening where `stage` shows so.
    pub trials: usize,
    /// How many of them the hypervisor took CPU time from.
    pub stolen_trials: usize,
    /// Trials of any stage that failed, and were not measured once more in their place.
    pub failed_trials: usize,
    /// Why the last of them did.
    #[serde(skip)]
    pub failure: Option<String>,
    /// Confirmation trials in which nothing moved, where there were some: nothing is proven of the cell then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalled: Option<StalledView>,
    /// The kinds of harm of which it has more than another option of its test, in all trials and in each third of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub harmful: Vec<HarmKind>,
    /// Whether trials in which nothing moved are frequent enough to be a property of it.
    #[serde(skip)]
    pub stalls: bool,
    /// The share of the offered load that it carried, in all trials together or in the median one, where that is less than `plan.answered_share` and
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
    pub limit: CellLimit,
    /// Memory that the cell takes, bytes; the recommendation prefers small ones.
    pub footprint: Option<u64>,
    /// Simultaneous upper bound of its cost above the best confirmed, as a share.
    pub above_best_upper: Option<f64>,
    /// Simultaneous lower bound of the same: above the margin, the cell is shown to be worse than that.
    pub above_best_lower: Option<f64>,
    /// The modes of the rates of the trials, slowest first; empty with one mode.
    pub modes: Vec<TrialMode>,
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
    /// Mean bytes a read returned.
    pub bytes_per_read: Option<f64>,
    /// Mean bytes a write took.
    pub bytes_per_write: Option<f64>,
    /// TCP segments sent again.
    pub retransmits: Option<u64>,
    /// TCP segments that found no room at a receiver, of any program in the network namespace, by the kernel's names; those that rose.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tcp_drops: BTreeMap<String, u64>,
    /// Share of the connections' busy time in which the receiver's window was the limit.
    pub rwnd_limited_share: Option<f64>,
    /// Share of the connections' busy time in which the send buffer was the limit.
    pub sndbuf_limited_share: Option<f64>,
    /// Smallest round-trip time seen, µs.
    pub min_rtt_us: Option<u64>,
    /// Bytes whose content was compared with the pattern; absent unless `--verify`.
    pub verified_bytes: Option<u64>,
    /// Options as asked for and as the kernel set them.
    pub options: BTreeMap<&'static str, OptionView>,
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
    /// Soft interrupts of the machine, in CPUs.
    pub softirq_cpus: Option<f64>,
    /// Share of `NET_RX` soft interrupts that the busiest CPU took.
    pub net_rx_busiest_share: Option<f64>,
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

impl CellView {
    /// The median of another estimate.
    pub fn median(&self, name: &str) -> Option<f64> {
        self.more.get(name)?.median
    }

    /// The level of a factor, by its name: for code that walks factors.
    pub fn level(&self, name: &str) -> Level {
        self.factors.get(name)
    }

    /// How its trials ran at another speed than the fastest; `None` where they had one speed.
    pub fn slow_trials(&self) -> Option<SlowTrials> {
        let fastest = self.modes.last()?.median;
        let slow = || self.modes.iter().filter(|mode| fastest > mode.median * SPEEDS_APART);
        let times = || slow().map(|mode| fastest / mode.median);
        let share: f64 = slow().map(|mode| mode.share).sum();
        let (least, most) = (times().fold(f64::INFINITY, f64::min), times().fold(1.0, f64::max));
        (share > 0.0).then_some(SlowTrials { share, least, most })
    }
}

/// Speeds of one option that differ by more than this factor are several: its median has no meaning then.
pub const SPEEDS_APART: f64 = 1.25;
/// A smaller share of the trials at another speed is no warning.
pub const SPEEDS_SHARE: f64 = 0.05;

/// Trials at another speed than the fastest ones of their cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowTrials {
    /// Their share.
    pub share: f64,
    /// How much longer they took at least, as a multiple.
    pub least: f64,
    /// At most.
    pub most: f64,
}

/// How the trials of a cell ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CellOutcome {
    /// Some trial counts.
    Measured,
    /// It was not tried, or this machine lacks something.
    Skipped,
    /// Every trial failed.
    Failed,
}

/// Harm of an option over the trials behind its estimate. A number is absent where it was not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct HarmView {
    /// Share of the clients that had no answer during the whole measured time of a trial, although calls usually take less than
    /// a sixth of it; mean over the trials. Closed loops only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starved_share: Option<f64>,
    /// Times that a connection found the listener's queue full, per call. The client tries again after a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overflow_share: Option<f64>,
    /// Times that TCP waited for its retransmission time-out, per call: 200 ms or more for data, a second for a connection. Absent
    /// where an emulated link loses packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_share: Option<f64>,
    /// Share of the calls that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_share: Option<f64>,
    /// Share of the datagrams that were lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_share: Option<f64>,
    /// Share of the zero-copy sends that the kernel copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copied_share: Option<f64>,
    /// The longest call, nanoseconds. A call that had not ended counts for as long as it was observed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_ns: Option<u64>,
}

/// Kinds of harm that a rate does not show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HarmKind {
    /// Calls waited for acknowledgements that were delayed, since Nagle's algorithm held the rest of a message back.
    DelayedAcks,
    /// Trials in which nothing moved.
    Stalled,
    /// A part of the offered load was not carried.
    MissedLoad,
    /// Calls failed.
    FailedCalls,
    /// Datagrams never came.
    LostDatagrams,
    /// The reader's buffer cut off datagrams.
    CutDatagrams,
    /// Clients had no answer during a whole trial.
    StarvedClients,
    /// The listener's queue was full.
    ListenOverflows,
    /// TCP waited for its retransmission time-out.
    TimeOuts,
    /// Sends without a copy by request were copied.
    CopiedSends,
}

/// A cell's datagrams, over the trials of the estimate and the flows' whole lives.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct DatagramView {
    /// Datagrams sent, by their numbers.
    pub sent: u64,
    /// Datagrams received, duplicates included.
    pub arrived: u64,
    /// Datagrams that did not arrive, or not whole.
    pub lost: u64,
    /// The same as a share of those sent.
    pub lost_share: Option<f64>,
    /// Part of them that the sink's sockets dropped, their receive buffers full.
    pub lost_at_socket: u64,
    /// The part of them lost at an unknown place.
    pub lost_unknown: u64,
    /// Share of the writer's bursts that lost any; absent without bursts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lossy_burst_share: Option<f64>,
    /// Share of its datagrams that the worst burst lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worst_burst_share: Option<f64>,
    /// Datagrams that arrived after one with a higher number.
    pub reordered: u64,
    /// Datagrams that arrived a second time.
    pub duplicated: u64,
    /// Datagrams that did not fit the reader's buffer.
    pub truncated: u64,
    /// Bytes cut off there; not counted in the goodput.
    pub cut_bytes: u64,
    /// Sends that the kernel refused for lack of room, and that were tried again.
    pub sends_refused: u64,
    /// Datagrams per received packet.
    pub datagrams_per_packet: Option<f64>,
    /// The kernel's counts of UDP in the network namespace; absent over Unix sockets.
    pub namespace: Option<UdpUse>,
}

/// A ring's counts, summed over the trials of the estimate.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RingView {
    /// Operations submitted within the windows.
    pub submitted: u64,
    /// Completions taken within the windows.
    pub completed: u64,
    /// Completions whose result and user data were compared, over the rings' whole lives.
    pub checked: u64,
    /// Completions that the loop never took, over the rings' whole lives.
    pub left: u64,
    /// Completions per call of io_uring_enter(2).
    pub nops_per_enter: Option<f64>,
    /// Rounds after which the completion queue had overflowed, if it did.
    pub overflowed_after_rounds: Option<u64>,
    /// CPU time of the kernel's submission thread, in CPUs.
    pub kernel_thread_cpus: Option<f64>,
}

// The part of the document about calls, in addition to their rate and their percentiles.

/// The calls of a cell, summed over the trials of the estimate.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CallView {
    /// The quantity of the percentiles: the service, or the time from the intended send on.
    pub timing: &'static str,
    /// Calls per second that the plan offered; `null` in a closed loop, and in a search for the rate.
    pub offered_per_second: Option<f64>,
    /// The highest rate that keeps a latency objective; `null` without a search.
    pub knee: Option<KneeView>,
    /// Calls completed within the windows.
    pub calls: u64,
    /// Calls begun in the clients' whole lives.
    pub begun: u64,
    /// Calls completed in the clients' whole lives.
    pub completed: u64,
    /// Calls that were due within the windows but had not begun at their ends.
    pub overdue: u64,
    /// Calls that failed in the clients' whole lives.
    pub failed: u64,
    /// The same as a share of the calls begun.
    pub failed_share: Option<f64>,
    /// Share of the calls that take longer than their trial could observe; absent below a hundredth. Percentiles in that range are
    /// not reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outlasting_share: Option<f64>,
    /// The 99th percentile of the calls of all trials together, nanoseconds; that of an option is the median over trials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_all_ns: Option<f64>,
    /// Errors and their causes, the most frequent first.
    pub errors: Vec<ErrorView>,
    /// How evenly the threads of the server shared the calls; absent with one thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<WorkersView>,
    /// The second group of clients, if there was one.
    pub competing: Option<CompetingView>,
    /// Waiting for delayed acknowledgements; absent if calls are not over TCP, a request is one write, or there is no
    /// count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delayed_acks: Option<DelayedAcks>,
    /// Counts of datagrams; absent if calls have connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<CallDatagramView>,
}

/// The datagrams of calls, over the ends' whole lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct CallDatagramView {
    /// Bytes of replies received in the window, per second: goodput.
    pub reply_bytes_per_second: Option<f64>,
    /// Requests that the clients sent.
    pub requests_sent: u64,
    /// Requests that the kernel dropped because the server's receive buffer was full; `null` for an external server, as are all counts
    /// of the server.
    pub requests_dropped: Option<u64>,
    /// Requests that were longer than the server's buffer.
    pub requests_truncated: Option<u64>,
    /// Requests lost at an unknown place.
    pub requests_lost_elsewhere: Option<u64>,
    /// Replies that the kernel refused to send.
    pub replies_unsent: Option<u64>,
    /// Replies that the kernel dropped because a client's receive buffer was full.
    pub replies_dropped: u64,
    /// Replies lost at an unknown place.
    pub replies_lost_elsewhere: Option<u64>,
    /// Replies that arrived after their calls had been given up.
    pub late: u64,
    /// Replies that arrived once more.
    pub duplicated: u64,
    /// Replies that a reply to a later call had overtaken.
    pub overtaken: u64,
    /// Datagrams that answer no call.
    pub strange: u64,
    /// The kernel's counts of UDP in the network namespace; `null` over Unix sockets.
    pub namespace: Option<UdpUse>,
}

/// The search for the highest offered rate that keeps a latency objective. The cell's rate is the median over the trials, each of
/// which is a search of its own; about half of the searches fail there. These are medians over the trials.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct KneeView {
    /// The objective: `p99=2ms`.
    pub slo: String,
    /// The highest rate that keeps the objective over the measurements of all searches together, calls per second; `null` if no
    /// measured rate does.
    pub overall_per_second: Option<f64>,
    /// The number of searches, those that found no rate included.
    pub searches: usize,
    /// Its limit, and its value at the knee and beyond.
    #[serde(flatten)]
    pub objective: Objective,
    /// The measurements of the searches at offered rates, by rate; in long sessions only those of the first searches.
    pub probes: Vec<ProbeView>,
}

/// One measurement of a search at an offered rate.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ProbeView {
    /// The search, counted from 0.
    pub search: usize,
    /// Calls per second that were offered.
    pub offered_per_second: u64,
    /// The objective's percentile, nanoseconds; `null` if too few calls were completed.
    pub percentile_ns: Option<u64>,
    /// Whether the objective was kept.
    pub kept: bool,
}

/// Serialises a value by its name.
fn as_text<S: Serializer>(value: &impl ToString, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&value.to_string())
}

/// Calls with one kind of error.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ErrorView {
    /// The error: `reset`, `refused`, `backlog-full`, `timed-out`, …
    #[serde(serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub class: ErrorClass,
    /// The client's operation: `connect`, `write`, `first-byte`, `reply`, `idle`.
    #[serde(serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub phase: ErrorPhase,
    /// The number of calls.
    pub count: u64,
    /// Bytes of requests that the kernel accepted and that were never answered in full.
    pub request_bytes_lost: u64,
    /// Bytes of replies that were due and did not arrive.
    pub reply_bytes_missing: u64,
    /// A description: which end, in which state, the cause, and the loss.
    pub explanation: String,
}

/// The calls of each thread of a server, as shares of all calls. Each trial has new connections, so that these are medians over trials.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WorkersView {
    /// The threads.
    pub threads: u64,
    /// The most that a thread has where connections are shared as evenly as their number allows.
    pub fair_share: f64,
    /// The share of the thread that served fewest calls.
    pub least_share: f64,
    /// The share of the thread that served most.
    pub most_share: f64,
}

/// A second group of clients of the same server at the same time.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CompetingView {
    /// Its calls per second, median over the trials.
    pub calls_per_second: Option<f64>,
    /// Its calls that failed.
    pub failed: u64,
    /// Its errors and their causes.
    pub errors: Vec<ErrorView>,
}
