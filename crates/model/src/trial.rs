//! One trial, raw: the counts of each end, the kernel's reports, and the outcome.
//!
//! Nothing here is an estimate. All data that a later statistic may need must be in these fields, because the
//! store keeps nothing else.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::call::CallReport;
use crate::cell::CellId;
use crate::datagram::UdpUse;
use crate::emulated::LinkUse;
use crate::end::{ByRole, EndReports, EndRole};
use crate::end_report::{EffectiveOptions, EndReport};
use crate::metric::Counted;
use crate::ring::RingReport;
use crate::session::Stage;
use crate::sums::OptionalCount;
use crate::task::TaskReport;
use crate::workload::Workload;

/// Why a trial of the null engine failed whose thread got no CPU: it moves nothing on purpose, so no byte is expected.
pub const IDLE_LOOP: &str = "the harness's own loop, which moves no byte on purpose, did not run within the window (it was kept \
                             from a CPU), so the harness's own cost is not known: use a longer --trial-time";

/// The outcome of a trial, or a cell. Decisions match on the variant; the reason is text for users and is never parsed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", content = "reason", rename_all = "kebab-case")]
pub enum Outcome {
    /// It was measured.
    #[default]
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
    pub cpus: ByRole<usize>,
    /// Counts of the ends that reported.
    #[serde(default)]
    pub ends: EndReports,
    /// Counts of the whole machine during the trial.
    pub machine: Option<MachineUse>,
}

/// A reason without its digits: messages of programs have times and numbers of processes, by which equal failures differ.
pub fn without_digits(reason: &str) -> String {
    reason.chars().filter(|character| !character.is_ascii_digit()).collect()
}

/// The options of the last trial's first flow: every trial sets them again in the same way.
pub fn effective<'a>(trials: &[&'a Trial], end: fn(&Trial) -> Option<&EndReport>) -> Option<&'a EffectiveOptions> {
    trials.iter().rev().find_map(|trial| end(trial)?.flows.first()).map(|flow| flow.options.as_ref())
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
            cpus: ByRole::default(),
            ends: EndReports::default(),
            machine: None,
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
            Workload::Tune => match self.task().map(|task| task.counted) {
                Some(Counted::Bytes) => self.bytes,
                _ => self.calls,
            },
            _ => self.calls,
        }
    }

    /// Units per second: bytes at the sink, calls completed at the client, completions taken from a ring; for a program
    /// the value of its metric. `None` unless something was measured.
    pub fn rate(&self) -> Option<f64> {
        if self.workload == Workload::Tune {
            let rate = self.task().map(|task| task.rate).filter(|rate| rate.is_finite() && *rate > 0.0);
            return rate.filter(|_| self.outcome == Outcome::Measured);
        }
        (self.outcome == Outcome::Measured && self.wall_ns > 0 && self.units() > 0)
            .then(|| self.units() as f64 * 1e9 / self.wall_ns as f64)
    }

    /// CPU time of a unit, nanoseconds: of the relay where there is one; else of both ends for a byte, of the server for a call,
    /// since the client is the instrument, and of a program and its server for a run. `None` if it was not recorded.
    pub fn cpu_ns_per_unit(&self) -> Option<f64> {
        match self.workload {
            _ if self.end(EndRole::Relay).is_some() => self.relay_cpu_ns_per_unit(),
            Workload::Stream => self.cpu_ns_per_byte(),
            Workload::Call => self.server_cpu_ns_per_call(),
            Workload::Ring => self.cpu_ns_per_nop(),
            _ => self.cpu_ns_per_run(),
        }
    }

    /// CPU time of a run, nanoseconds: the program, its server, and the children of both; of a running program for 1 GiB.
    pub fn cpu_ns_per_run(&self) -> Option<f64> {
        if let Some(service) = &self.task()?.service {
            return (service.bytes > 0).then(|| service.cpu_ns as f64 / service.gib());
        }
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
    pub udp: Option<Box<UdpUse>>,
    /// Acknowledgements that the kernel sent because their timer had run out, in the whole network namespace
    /// (`DelayedACKs` of `/proc/net/netstat`); absent where the path is not TCP or the kernel hides it.
    pub delayed_acks: OptionalCount,
    /// Times that a connection found a listener's queue full, counted in the same way (`ListenOverflows`).
    pub listen_overflows: OptionalCount,
    /// Times that TCP sent again because nothing had been acknowledged for the retransmission time-out, counted in the same way
    /// (`TCPTimeouts`).
    pub timeouts: OptionalCount,
    /// Counts of TCP segments that found no room at a receiver, counted in the same way, by the kernel's names; those that rose.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tcp_drops: BTreeMap<String, u64>,
    /// Counts of the emulated link between the ends; absent without one.
    pub link: Option<Box<LinkUse>>,
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
