//! The workloads: a row for each with its names, units and roles.
//!
//! Larger parts of a workload are in a file of their own: the set-up and the work of its ends in `traffic`, the sequence
//! of a trial and its checks in `harness::trial`, its metrics and columns in `report`.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::end::{EndRole, Side};
use crate::factor::Defaults;
use crate::name_tables::{self, Transport};
use crate::unit::TextError;

/// The traffic over a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Bulk, one way.
    #[default]
    Stream,
    /// Request and response.
    Call,
    /// Operations that do nothing, through an io_uring: there is no path.
    Ring,
    /// The user's program, whose path is its own.
    #[serde(alias = "check")]
    Tune,
}

/// The properties of a workload.
#[derive(Clone, Copy, Debug)]
pub struct WorkloadRow {
    /// The workload.
    pub value: Workload,
    /// Its name, and that of its command.
    pub name: &'static str,
    /// One line about it.
    pub summary: &'static str,
    /// One line of help about its command.
    pub about: &'static str,
    /// Whether a transport carries it; none does where it has no path.
    pub carries: fn(&Transport) -> bool,
    /// The roles that take part, the permanent one of each side first.
    pub roles: &'static [EndRole],
    /// The default levels of a factor in it.
    pub(crate) defaults: fn(&Defaults) -> Option<&'static str>,
    /// The units of its rates and costs.
    pub unit: Unit,
    /// The name of the part that works on the data; its work decides which options are good enough.
    pub worker: &'static str,
}

/// What the options of a test are compared by: the less, the better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cost {
    /// Time for the same work.
    Time,
    /// CPU time for the same work.
    Cpu,
    /// The mean time of a call.
    Latency,
    /// The p99 of the time of a call.
    P99,
    /// The p99 of the time between two parts of a reply.
    GapP99,
    /// The mean delay of urgent messages behind the bulk data of their connection.
    Urgent,
}

impl Cost {
    /// Its name in documents: `cpu_ns_per_call`.
    pub fn name(self, workload: Workload) -> &'static str {
        let [time, cpu] = workload.row().unit.costs;
        match self {
            Cost::Time => time,
            // Runs have one kind of cost, or print their CPU time.
            Cost::Cpu if workload == Workload::Tune => "cpu_ns_per_run",
            Cost::Cpu => cpu,
            Cost::Latency => "total_mean_ns",
            Cost::P99 => "total_p99_ns",
            Cost::GapP99 => "gap_p99_ns",
            Cost::Urgent => "urgent_mean_ns",
        }
    }
}

/// The units of a workload's rates and costs.
#[derive(Clone, Copy, Debug)]
pub struct Unit {
    /// The rate's name and unit: `throughput` in `bytes/s`.
    pub metric: (&'static str, &'static str),
    /// The rate in names that contain the unit: `bytes_per_second`.
    pub per_second: &'static str,
    /// The names of the time and of the CPU time of a unit: `ns_per_byte`, `cpu_ns_per_byte`.
    pub costs: [&'static str; 2],
    /// The factor from nanoseconds of CPU time of a unit to a number for display, and its unit.
    pub cpu: (f64, &'static str),
}

/// The workloads.
pub const WORKLOADS: &[WorkloadRow] = &[
    WorkloadRow {
        value: Workload::Stream,
        name: "stream",
        summary: "bulk, one way",
        about: "Measure bulk transfer: sizes, socket options, engines",
        carries: |_| true,
        roles: &[EndRole::Source, EndRole::Sink],
        defaults: |defaults| defaults.stream,
        unit: Unit {
            metric: ("throughput", "bytes/s"),
            per_second: "bytes_per_second",
            costs: ["ns_per_byte", "cpu_ns_per_byte"],
            cpu: ((1u64 << 30) as f64 / 1e9, "s CPU/GiB"),
        },
        worker: "reader",
    },
    WorkloadRow {
        value: Workload::Call,
        name: "call",
        summary: "request and response",
        about: "Measure request and response: rate, latency, CPU time",
        carries: Transport::is_socket,
        roles: &[EndRole::Client, EndRole::Server, EndRole::Competitor],
        defaults: |defaults| defaults.call,
        unit: Unit {
            metric: ("calls", "calls/s"),
            per_second: "calls_per_second",
            costs: ["ns_per_call", "cpu_ns_per_call"],
            cpu: (1e-3, "µs CPU/call"),
        },
        worker: "server",
    },
    WorkloadRow {
        value: Workload::Ring,
        name: "ring",
        summary: "io_uring's ceiling: operations that do nothing, without a path",
        about: "Measure io_uring itself: no-op operations per second",
        carries: |_| false,
        roles: &[EndRole::Ring],
        defaults: |defaults| defaults.ring,
        // A ring has no offered load below its capacity.
        unit: Unit {
            metric: ("nops", "NOPs/s"),
            per_second: "nops_per_second",
            costs: ["ns_per_nop", "ns_per_nop"],
            cpu: (1.0, "ns CPU/NOP"),
        },
        worker: "program",
    },
    WorkloadRow {
        value: Workload::Tune,
        name: "tune",
        summary: "your own program, over options of its sockets or values of one of its settings",
        about: "Find the settings that make your program faster",
        carries: |_| false,
        // The end that runs the program also runs its server: the second one is a place for it.
        roles: &[EndRole::Command, EndRole::Server],
        defaults: |defaults| defaults.tune,
        // A trial names another metric if it has one.
        unit: Unit {
            metric: ("runs", "runs/s"),
            per_second: "rate_per_second",
            costs: ["ns_per_run", "ns_per_run"],
            cpu: (1e-6, "ms CPU/run"),
        },
        worker: "program",
    },
];

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.row().name)
    }
}

impl FromStr for Workload {
    type Err = TextError;

    fn from_str(name: &str) -> Result<Self, TextError> {
        // The name of earlier versions, in stored data.
        let name = if name == "check" { "tune" } else { name };
        name_tables::find("workload", WORKLOADS.iter().map(|row| (row.name, row.value)), name)
    }
}

impl Workload {
    /// Its row.
    pub fn row(self) -> &'static WorkloadRow {
        &WORKLOADS[self as usize]
    }

    /// Whether there is a path, so that there is a transport.
    pub fn has_path(self) -> bool {
        self.end(Side::Source).is_some()
    }

    /// Whether the workload can be carried over a transport.
    pub fn runs_over(self, transport: &Transport) -> bool {
        (self.row().carries)(transport)
    }

    /// The two ends of its path, the one that connects first; `None` where there is no path, and so no socket.
    pub fn path_ends(self) -> Option<[EndRole; 2]> {
        Some([self.end(Side::Source)?, self.end(Side::Sink)?])
    }

    /// The role of the end on one side of the path; without a path, the only end.
    pub fn end(self, side: Side) -> Option<EndRole> {
        self.row().roles.iter().copied().find(|role| role.side() == side)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_the_order_of_their_workloads() {
        for (index, row) in WORKLOADS.iter().enumerate() {
            assert_eq!((row.value as usize, row.value.row().name), (index, row.name));
            assert_eq!(row.name.parse::<Workload>().unwrap(), row.value);
        }
    }
}
