//! One trial, raw: the counts of each end, the kernel's reports, and the outcome.
//!
//! Nothing here is an estimate. All data that a later statistic may need must be in these fields, because the
//! store keeps nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::call::{CallReport, EngineReport};
use crate::cell::CellId;
use crate::datagram::{DatagramReport, UdpUse};
use crate::emulated::LinkUse;
use crate::end::EndRole;
use crate::ends::EndReports;
use crate::iperf3::Iperf3Report;
use crate::level::Level;
use crate::relay::RelayReport;
use crate::relay_program::RelayProgramReport;
use crate::ring::RingReport;
use crate::session::Stage;
use crate::task::{Counted, TaskReport};
use crate::workload::Workload;

/// Why a trial of the null engine failed whose thread got no CPU: it moves nothing on purpose, so no byte is expected.
pub const IDLE_LOOP: &str = "the harness's own loop, which moves no byte on purpose, did not run within the window (it was kept \
                             from a CPU), so the harness's own cost is not known: use a longer --trial-time";

/// The outcome of a trial, or a cell. Decisions match on the variant; the reason is text for users and is never parsed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", content = "reason", rename_all = "kebab-case")]
pub enum Outcome {
    /// It was measured.
    Measured,
    /// It cannot be measured here, and why (a missing kernel feature, one CPU only).
    Skipped(String),
    /// It should have worked and did not, and why.
    Failed(String),
    /// The trial ran to its end, the counts agree, and no byte, call or completion was counted in the window: a rate of 0,
    /// which has no logarithm. It counts as failed, but shows no fault of the measurement.
    NothingMoved(String),
}

impl Outcome {
    /// The outcome as documents show it: `measured`, `skipped` or `failed`.
    pub fn name(&self) -> &'static str {
        match self {
            Outcome::Measured => "measured",
            Outcome::Skipped(_) => "skipped",
            Outcome::Failed(_) | Outcome::NothingMoved(_) => "failed",
        }
    }

    /// The variant as it is stored, the same word as in its JSON.
    pub fn tag(&self) -> &'static str {
        match self {
            Outcome::NothingMoved(_) => "nothing-moved",
            other => other.name(),
        }
    }

    /// Whether the trial ran to its end and nothing moved.
    pub fn moved_nothing(&self) -> bool {
        matches!(self, Outcome::NothingMoved(_))
    }

    /// Whether the trial failed, or moved nothing.
    pub fn is_failed(&self) -> bool {
        matches!(self, Outcome::Failed(_) | Outcome::NothingMoved(_))
    }

    /// Why it was not measured.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Outcome::Measured => None,
            Outcome::Skipped(reason) | Outcome::Failed(reason) | Outcome::NothingMoved(reason) => Some(reason),
        }
    }

    /// The text of the reason, to be extended. The variant stays.
    pub fn reason_mut(&mut self) -> Option<&mut String> {
        match self {
            Outcome::Measured => None,
            Outcome::Skipped(reason) | Outcome::Failed(reason) | Outcome::NothingMoved(reason) => Some(reason),
        }
    }
}

/// One measurement of one cell, with fresh sockets and fresh threads: the unit of replication.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The cell measured.
    pub cell: CellId,
    /// The traffic over the path, or that there was none.
    pub workload: Workload,
    /// The purpose of the trial.
    pub stage: Stage,
    /// The block it belongs to, counted from 0 over the session.
    pub block: u64,
    /// Its place in the block's random order, from 0.
    pub position: u32,
    /// When it began, nanoseconds of Unix time.
    pub started_unix_ns: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// Bytes that arrived at the sink within its measured window, all flows; of calls, those that the client
    /// sent and received.
    pub bytes: u64,
    /// Calls that the client completed, or completions that were taken from a ring, within the measured window; 0 for
    /// a stream.
    #[serde(default)]
    pub calls: u64,
    /// Length of the measured window, one for all flows, nanoseconds.
    pub wall_ns: u64,
    /// Warm-up before the window, as commanded, nanoseconds.
    pub warmup_ns: u64,
    /// The CPU of each end's first flow, where it was pinned.
    #[serde(default)]
    pub cpus: BTreeMap<EndRole, usize>,
    /// Counts of the ends that reported.
    #[serde(default)]
    pub ends: EndReports,
    /// Counts of the whole machine during the trial.
    pub machine: Option<MachineUse>,
}

/// When a trial ran, and whether it succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TrialTime {
    /// Its begin, nanoseconds of Unix time.
    pub began_unix_ns: u64,
    /// How long its window was, nanoseconds.
    pub wall_ns: u64,
    /// Whether it was measured: a failed trial may have waited.
    pub is_measured: bool,
}

impl Trial {
    /// A trial at the first place of block 0 of which nothing but its outcome is known.
    pub fn without_numbers(cell: CellId, workload: Workload, stage: Stage, outcome: Outcome) -> Trial {
        Trial {
            cell,
            workload,
            stage,
            block: 0,
            position: 0,
            started_unix_ns: 0,
            outcome,
            bytes: 0,
            calls: 0,
            wall_ns: 0,
            warmup_ns: 0,
            cpus: BTreeMap::new(),
            ends: EndReports::default(),
            machine: None,
        }
    }

    /// When it was.
    pub fn time(&self) -> TrialTime {
        TrialTime {
            began_unix_ns: self.started_unix_ns,
            wall_ns: self.wall_ns,
            is_measured: self.outcome == Outcome::Measured,
        }
    }

    /// The counts of the end of a role.
    pub fn end(&self, role: EndRole) -> Option<&EndReport> {
        self.ends.get(role)
    }

    /// The counts of the end that connects: a source, or a client.
    pub fn source_side(&self) -> Option<&EndReport> {
        self.ends.source_side()
    }

    /// The counts of the end that accepts, a sink or a server; or of a ring.
    pub fn sink_side(&self) -> Option<&EndReport> {
        self.ends.sink_side()
    }

    /// The client's counts of its calls.
    pub fn client(&self) -> Option<&CallReport> {
        self.end(EndRole::Client)?.call.as_deref()
    }

    /// The counts of a ring, which is an end of its own.
    pub fn ring(&self) -> Option<&RingReport> {
        self.end(EndRole::Ring)?.ring.as_deref()
    }

    /// The result of the user's program.
    pub fn task(&self) -> Option<&TaskReport> {
        self.end(EndRole::Command)?.task.as_deref()
    }

    /// Bytes moved, calls completed, completions taken or runs within the window: the unit of rates and costs; 0 if a
    /// program printed its rate itself.
    pub fn units(&self) -> u64 {
        match self.workload {
            Workload::Stream => self.bytes,
            Workload::Check => match self.task().map(|task| task.counted) {
                Some(Counted::Bytes) => self.bytes,
                _ => self.calls,
            },
            Workload::Call | Workload::Ring => self.calls,
        }
    }

    /// Units per second: bytes at the sink, calls completed at the client, completions taken from a ring; for a program
    /// the value of its metric. `None` unless something was measured.
    pub fn rate(&self) -> Option<f64> {
        if self.workload == Workload::Check {
            let rate = self.task().map(|task| task.rate).filter(|rate| rate.is_finite() && *rate > 0.0);
            return rate.filter(|_| self.outcome == Outcome::Measured);
        }
        (self.outcome == Outcome::Measured && self.wall_ns > 0 && self.units() > 0)
            .then(|| self.units() as f64 * 1e9 / self.wall_ns as f64)
    }

    /// Cost of a unit, nanoseconds: time, or CPU time if the load is offered, since every option then reaches the
    /// same rate.
    pub fn cost_ns(&self, offered: bool) -> Option<f64> {
        if offered { self.cpu_ns_per_unit() } else { self.rate().map(|rate| 1e9 / rate) }
    }

    /// CPU time of a unit, nanoseconds: of both ends for a byte; of the server for a call, since the client is
    /// the instrument; of a program and its server for a run. `None` if it was not recorded.
    pub fn cpu_ns_per_unit(&self) -> Option<f64> {
        match self.workload {
            Workload::Stream => self.cpu_ns_per_byte(),
            Workload::Call => self.server_cpu_ns_per_call(),
            Workload::Ring => self.cpu_ns_per_nop(),
            Workload::Check => self.cpu_ns_per_run(),
        }
    }

    /// CPU time of a run, nanoseconds: the program, its server, and the children of both.
    pub fn cpu_ns_per_run(&self) -> Option<f64> {
        let ns = self.end(EndRole::Command)?.cpu_time_ns() + self.task()?.server_cpu_ns.unwrap_or(0);
        (ns > 0).then_some(ns as f64)
    }

    /// CPU time of both ends for each byte, nanoseconds; `None` where an end's CPU time was not recorded.
    pub fn cpu_ns_per_byte(&self) -> Option<f64> {
        let sink = self.end(EndRole::Sink)?.cpu_ns_per_byte()?;
        match self.end(EndRole::Source) {
            Some(source) => Some(sink + source.cpu_ns_per_byte()?),
            None => Some(sink),
        }
    }

    /// CPU time of a ring for each completion that was taken, nanoseconds. It includes the kernel's submission thread: its
    /// share by completions, since it is counted over the ring's whole life.
    pub fn cpu_ns_per_nop(&self) -> Option<f64> {
        let (end, ring) = (self.end(EndRole::Ring)?, self.ring()?);
        let kernel_ns = end.engine.as_ref().and_then(|engine| engine.kernel_threads_ns).unwrap_or(0) as f64;
        let share = end.calls as f64 / ring.total_completed.max(end.calls).max(1) as f64;
        let ns = end.cpu_time_ns() as f64 + kernel_ns * share;
        (end.calls > 0 && ns > 0.0).then(|| ns / end.calls as f64)
    }

    /// CPU time of the relay for each byte, or call, that passed through it, nanoseconds: its process's CPU time within its
    /// window, at the rate of the trial's.
    pub fn relay_cpu_ns_per_unit(&self) -> Option<f64> {
        Some(self.relay_cpus()? * 1e9 / self.rate()?)
    }

    /// CPU time of the relay's process over its window, in CPUs.
    pub fn relay_cpus(&self) -> Option<f64> {
        let relay = self.end(EndRole::Relay)?;
        (relay.window_ns > 0 && relay.cpu_time_ns() > 0).then(|| relay.cpu_time_ns() as f64 / relay.window_ns as f64)
    }

    /// CPU time of the server for each request that it served, nanoseconds, including threads that the kernel runs for it:
    /// a ring's polling thread counts although another account is charged.
    pub fn server_cpu_ns_per_call(&self) -> Option<f64> {
        let server = self.end(EndRole::Server)?;
        let ns = server.cpu_and_kernel_threads_ns();
        (server.calls > 0 && ns > 0).then(|| ns as f64 / server.calls as f64)
    }
}

impl EndReport {
    /// CPU time by the precise clock, or by ticks where only those were kept, nanoseconds.
    pub fn cpu_time_ns(&self) -> u64 {
        if self.cpu_ns > 0 { self.cpu_ns } else { self.user_ns.saturating_add(self.system_ns) }
    }

    /// CPU time of the end's own threads within the window, and the window's share of what the kernel's threads
    /// took for its engine, nanoseconds. Those are counted over the end's whole life, so they are shared out by
    /// bytes.
    pub fn cpu_and_kernel_threads_ns(&self) -> u64 {
        let kernel_ns = self.engine.as_ref().and_then(|engine| engine.kernel_threads_ns).unwrap_or(0);
        self.cpu_time_ns().saturating_add((kernel_ns as f64 * self.window_share()) as u64)
    }

    /// Share of the end's whole life that is in its window, by bytes moved.
    pub fn window_share(&self) -> f64 {
        if self.total_bytes > self.bytes { self.bytes as f64 / self.total_bytes as f64 } else { 1.0 }
    }

    fn cpu_ns_per_byte(&self) -> Option<f64> {
        (self.bytes > 0 && self.cpu_time_ns() > 0).then(|| self.cpu_time_ns() as f64 / self.bytes as f64)
    }
}

/// Counts of one end of a path within its measured window, summed over its flows. Parts that few ends have are boxed: a
/// report holds 100,000 trials.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EndReport {
    /// Bytes moved in the window.
    pub bytes: u64,
    /// Calls of `read(2)` or `write(2)` (or the engine's counterpart) in the window. In the workload `call`:
    /// requests that were served, or completed. For a ring: completions that were taken.
    pub calls: u64,
    /// Calls in the window that moved less than the buffer held.
    pub short_calls: u64,
    /// Length of the window that all flows share, nanoseconds of the monotonic clock.
    pub window_ns: u64,
    /// CPU time of the end's threads in the window, in user mode.
    pub user_ns: u64,
    /// CPU time of the end's threads in the window, in the kernel.
    pub system_ns: u64,
    /// CPU time of the end's threads in the window by the precise clock (`CLOCK_THREAD_CPUTIME_ID`).
    pub cpu_ns: u64,
    /// Time the end's threads could have run in the window but waited for a CPU; absent where the kernel does
    /// not report it.
    pub queued_ns: Option<u64>,
    /// Times a thread gave up the CPU voluntarily (it blocked).
    pub voluntary_switches: u64,
    /// Times a thread was preempted.
    pub involuntary_switches: u64,
    /// Bytes moved in the whole life of the flows: warm-up, window and what was drained after it.
    pub total_bytes: u64,
    /// Bytes whose content was compared with the pattern (verify mode).
    pub verified_bytes: u64,
    /// Each flow.
    pub flows: Vec<FlowReport>,
    /// Measurements of the calls, at the end that made them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<Box<CallReport>>,
    /// Counts of the engine, if it keeps any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<Box<EngineReport>>,
    /// Counts of datagrams, if there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<Box<DatagramReport>>,
    /// Counts of a ring.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ring: Option<Box<RingReport>>,
    /// Counts of a relay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relay: Option<Box<RelayReport>>,
    /// Facts about a program that was the relay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relay_program: Option<Box<RelayProgramReport>>,
    /// The result of the user's program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<Box<TaskReport>>,
    /// The results of the iperf3 server that was the other end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iperf3: Option<Box<Iperf3Report>>,
}

impl EndReport {
    /// The sum of flows: each of them, and their sums over the longest of their windows. Counts that only an end has
    /// are left out.
    #[must_use]
    pub fn of_flows(flows: Vec<FlowReport>) -> EndReport {
        let total = |field: fn(&FlowReport) -> u64| flows.iter().map(field).sum();
        EndReport {
            bytes: total(|f| f.bytes),
            calls: total(|f| f.calls),
            short_calls: total(|f| f.short_calls),
            window_ns: flows.iter().map(|flow| flow.window_ns).max().unwrap_or(0),
            user_ns: total(|f| f.user_ns),
            system_ns: total(|f| f.system_ns),
            cpu_ns: total(|f| f.cpu_ns),
            voluntary_switches: total(|f| f.voluntary_switches),
            involuntary_switches: total(|f| f.involuntary_switches),
            total_bytes: total(|f| f.total_bytes),
            verified_bytes: total(|f| f.verified_bytes),
            datagrams: flows
                .iter()
                .filter_map(|flow| flow.datagrams.as_deref().copied())
                .reduce(|one, other| one.plus(&other))
                .map(Box::new),
            flows,
            ..EndReport::default()
        }
    }
}

/// Counts of one flow of one end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowReport {
    /// Bytes moved in the window.
    pub bytes: u64,
    /// Calls in the window.
    pub calls: u64,
    /// Calls in the window that moved less than the buffer held.
    pub short_calls: u64,
    /// Length of the window, nanoseconds.
    pub window_ns: u64,
    /// CPU time in user mode, nanoseconds.
    pub user_ns: u64,
    /// CPU time in the kernel, nanoseconds.
    pub system_ns: u64,
    /// CPU time by the precise clock, nanoseconds.
    pub cpu_ns: u64,
    /// Time on a run queue, waiting for a CPU, nanoseconds.
    pub queued_ns: Option<u64>,
    /// Voluntary context switches.
    pub voluntary_switches: u64,
    /// Involuntary context switches.
    pub involuntary_switches: u64,
    /// Bytes in the flow's whole life.
    pub total_bytes: u64,
    /// Bytes compared with the pattern.
    pub verified_bytes: u64,
    /// `TCP_INFO` at the end of the flow's loop: counts of the connection's whole life.
    pub tcp: Option<Box<TcpReport>>,
    /// Options as the kernel set them.
    pub options: Arc<EffectiveOptions>,
    /// Kernel memory held for the socket when the flow's loop was over (`SO_MEMINFO`), bytes.
    pub socket_memory: Option<u64>,
    /// Bytes that the kernel had received for the flow and that were not read yet at the time of the check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_bytes: Option<u64>,
    /// Counts of datagrams, if there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<Box<DatagramReport>>,
    /// Whether its bytes went back, to the end that had connected, in both directions at once.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub back: bool,
    /// Bins of about 1 ms over warm-up and window, in long enough trials and in calibration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Bin>,
}

/// One bin of a flow's interval series. The bytes of a ring are completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bin {
    /// Length, nanoseconds.
    pub ns: u64,
    /// Bytes moved.
    pub bytes: u64,
}

impl Bin {
    /// The bytes of bins that follow one another in every whole interval of `interval_ns` from the first one's begin; those
    /// of a bin are spread evenly over the intervals that it touches. An interval is a nanosecond at least.
    pub fn by_interval(bins: &[Bin], interval_ns: u64) -> Vec<f64> {
        let interval_ns = interval_ns.max(1);
        let total_ns: u64 = bins.iter().map(|bin| bin.ns).sum();
        let mut bytes = vec![0.0; (total_ns / interval_ns) as usize];
        let mut from_ns = 0;
        for bin in bins {
            let end_ns = from_ns + bin.ns;
            while from_ns < end_ns {
                let at = from_ns / interval_ns;
                let to_ns = end_ns.min((at + 1) * interval_ns);
                if let Some(interval) = bytes.get_mut(at as usize) {
                    *interval += bin.bytes as f64 * (to_ns - from_ns) as f64 / bin.ns as f64;
                }
                from_ns = to_ns;
            }
        }
        bytes
    }
}

/// The fields of `TCP_INFO` that name a limit (include/uapi/linux/tcp.h); absent where the kernel is older.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TcpReport {
    /// Segments retransmitted over the connection's life.
    pub retransmits: Option<u64>,
    /// Time with data outstanding, µs.
    pub busy_us: Option<u64>,
    /// Part of it in which the receiver's window was the limit, µs.
    pub rwnd_limited_us: Option<u64>,
    /// Part of it in which the send buffer was the limit, µs.
    pub sndbuf_limited_us: Option<u64>,
    /// Delivery rate of the last sample, bytes per second.
    pub delivery_rate: Option<u64>,
    /// Smallest round-trip time seen, µs.
    pub min_rtt_us: Option<u64>,
    /// Window scale that the peer announced: this end reads the peer's windows with it.
    pub snd_wscale: Option<u8>,
    /// Window scale that this end announced.
    pub rcv_wscale: Option<u8>,
    /// Bytes sent, retransmissions included.
    pub bytes_sent: Option<u64>,
    /// Bytes acknowledged by the peer.
    pub bytes_acked: Option<u64>,
    /// Bytes received.
    pub bytes_received: Option<u64>,
    /// Whether a connection of MPTCP used it, and not TCP as a fallback.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mptcp: Option<bool>,
    /// Whether data that went with the SYN was accepted; only where Fast Open was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub syn_data: Option<bool>,
}

/// Options as `getsockopt(2)` and `fcntl(2)` report them, not as requested.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EffectiveOptions {
    /// By the factor that sets it, in the units of its levels: `sndbuf` is twice the requested size, or limited.
    #[serde(flatten)]
    pub levels: BTreeMap<String, Level>,
    /// Share of a file source that the page cache held when the trial began, 0 to 1.
    pub page_cache_share: Option<f64>,
}

impl EffectiveOptions {
    /// The value in force of a factor's option; absent if it is unknown.
    pub fn get(&self, factor: &str) -> &Level {
        self.levels.get(factor).unwrap_or(&Level::Absent)
    }
}

/// Counts of the whole machine during a trial, from `/proc/stat` and `/proc/softirqs`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MachineUse {
    /// Time from before the first byte to after the last, nanoseconds.
    pub wall_ns: u64,
    /// CPU time not idle and not waiting for I/O, all CPUs, nanoseconds. Ticks of 10 ms: sum before use.
    pub busy_ns: u64,
    /// Part of it counted as soft interrupt, nanoseconds.
    pub softirq_ns: u64,
    /// CPU steal: CPU time that the hypervisor gave to other VMs, nanoseconds.
    pub steal_ns: u64,
    /// `NET_RX` soft interrupts per CPU.
    pub net_rx: Vec<u64>,
    /// The kernel's counts of UDP; absent if there are none, or it hides them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub udp: Option<UdpUse>,
    /// Acknowledgements that the kernel sent because their timer had run out, in the whole network namespace
    /// (`DelayedACKs` of `/proc/net/netstat`); absent where the path is not TCP or the kernel hides it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delayed_acks: Option<u64>,
    /// Times that a connection found a listener's queue full, counted in the same way (`ListenOverflows`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen_overflows: Option<u64>,
    /// Counts of the emulated link between the ends; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkUse>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_variant_means_nothing_moved() {
        let text = || "no byte arrived within the window".to_owned();
        let check = |outcome: Outcome, moved_nothing, is_failed| {
            assert_eq!((outcome.moved_nothing(), outcome.is_failed()), (moved_nothing, is_failed), "{outcome:?}");
            let json = serde_json::to_value(&outcome).unwrap();
            assert_eq!(json["kind"], outcome.tag());
            assert_eq!(serde_json::from_value::<Outcome>(json).unwrap(), outcome);
        };
        check(Outcome::NothingMoved("any text".into()), true, true);
        check(Outcome::Failed(text()), false, true);
        check(Outcome::Skipped(text()), false, false);
        check(Outcome::Measured, false, false);
    }
}
