//! The part of the document about one cell: its numbers, counters, CPU time and limit.

use std::collections::BTreeMap;

use bytegauge_model::{CellId, CellKind, GroupId, Level, Spec, Stage};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::factor_levels::FactorLevels;
use super::{CallView, DatagramView, Estimate, Factors, HarmView, LimitView, RingView, StalledView, spec};

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
    #[schemars(with = "FactorLevels")]
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
    /// Simultaneous lower bound of its CPU time above the least of its group, as a share; where a busy machine leaves time
    /// undecided and CPU time is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more_cpu_lower: Option<f64>,
    /// Simultaneous upper bound of the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more_cpu_upper: Option<f64>,
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

    /// The levels of its factors.
    pub fn spec(&self) -> Spec {
        spec(&self.factors)
    }

    /// The level of a factor, by its name: for code that walks factors.
    pub fn level(&self, name: &str) -> Level {
        self.factors.get(name).and_then(|value| serde_json::from_value(value.clone()).ok()).unwrap_or(Level::Absent)
    }
}
