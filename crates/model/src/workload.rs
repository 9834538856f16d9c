//! What may be measured: the workloads, a row each with whatever somebody asks of it in a word.
//!
//! What takes more than a word stands in a file a workload, where the work is done: what its ends are set to and do in
//! `traffic`, who takes part and what must add up in `harness::trial`, its metrics and columns in `report`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::catalog::{NameError, Transport};
use crate::end::{EndRole, Side};
use crate::suggest;
use crate::unit::{byte_rate, call_rate, nop_rate, significant};

/// What is said over a path.
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
    /// A program of the user's, whose path is its own.
    Check,
}

/// What a workload is.
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
    /// Who takes part, the first of each side for good.
    pub roles: &'static [EndRole],
    /// What it is rated and charged by.
    pub unit: Unit,
    /// Who decides what is good enough.
    pub worker: &'static str,
    /// The worker that does nothing: what is measured then is the kernel (and the engine) alone.
    pub idle_worker: &'static str,
    /// Profiles whose worker does something.
    pub working_profiles: &'static str,
    /// Factors that say something to a server which only ours hears, beside the options of its sockets.
    pub of_our_server: &'static [&'static str],
}

/// What a workload is rated and charged by.
#[derive(Clone, Copy, Debug)]
pub struct Unit {
    /// The rate's name and unit: `throughput` in `bytes/s`.
    pub metric: (&'static str, &'static str),
    /// A rate for people.
    pub rate: fn(f64) -> String,
    /// The rate where a name says its unit: `bytes_per_second`.
    pub per_second: &'static str,
    /// The name of what one takes as it goes, and where the load is offered: `ns_per_byte`, `cpu_ns_per_byte`.
    pub costs: [&'static str; 2],
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
        unit: Unit {
            metric: ("throughput", "bytes/s"),
            rate: byte_rate,
            per_second: "bytes_per_second",
            costs: ["ns_per_byte", "cpu_ns_per_byte"],
        },
        worker: "reader",
        idle_worker: "a reader that throws the bytes away",
        working_profiles: "sum,parser",
        of_our_server: &["profile", "work", "working_set", "read_size"],
    },
    WorkloadRow {
        value: Workload::Call,
        name: "call",
        summary: "request and response",
        about: "Measure request and response: rate, latency, CPU time",
        carries: Transport::is_socket,
        roles: &[EndRole::Client, EndRole::Server, EndRole::Competitor],
        unit: Unit {
            metric: ("calls", "calls/s"),
            rate: call_rate,
            per_second: "calls_per_second",
            costs: ["ns_per_call", "cpu_ns_per_call"],
        },
        worker: "server",
        idle_worker: "a server that does nothing with a request",
        working_profiles: "rpc,many-idle",
        of_our_server: &["profile", "work", "working_set", "read_once", "server_engine", "server_threads", "backlog"],
    },
    WorkloadRow {
        value: Workload::Ring,
        name: "ring",
        summary: "io_uring's ceiling: operations that do nothing, without a path",
        about: "Measure io_uring itself: no-op operations per second",
        carries: |_| false,
        roles: &[EndRole::Ring],
        // Nobody offers a ring less than it can take.
        unit: Unit {
            metric: ("nops", "NOPs/s"),
            rate: nop_rate,
            per_second: "nops_per_second",
            costs: ["ns_per_nop", "ns_per_nop"],
        },
        worker: "program",
        idle_worker: "a program that does nothing",
        working_profiles: "",
        of_our_server: &[],
    },
    WorkloadRow {
        value: Workload::Check,
        name: "check",
        summary: "your own program, over values of one of its settings",
        about: "Find the best value of a setting of your program",
        carries: |_| false,
        // Who runs the program runs its server as well: the second is a place for it.
        roles: &[EndRole::Command, EndRole::Server],
        // Where a metric says otherwise, a trial tells.
        unit: Unit {
            metric: ("runs", "runs/s"),
            rate: |rate| format!("{} a second", significant(rate, 3)),
            per_second: "rate_per_second",
            costs: ["ns_per_run", "ns_per_run"],
        },
        worker: "program",
        idle_worker: "a program that does nothing",
        working_profiles: "",
        of_our_server: &[],
    },
];

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.row().name)
    }
}

impl FromStr for Workload {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        WORKLOADS.iter().find(|row| row.name == name).map(|row| row.value).ok_or_else(|| NameError::Unknown {
            kind: "workload",
            name: name.into(),
            hint: suggest::hint(name, WORKLOADS.iter().map(|row| row.name)),
        })
    }
}

impl Workload {
    /// What it is.
    pub fn row(self) -> &'static WorkloadRow {
        &WORKLOADS[self as usize]
    }

    /// Whether anything is said over a path, so that there is a transport.
    pub fn has_path(self) -> bool {
        self.end(Side::Source).is_some()
    }

    /// Whether the workload can be carried over a transport.
    pub fn runs_over(self, transport: &Transport) -> bool {
        (self.row().carries)(transport)
    }

    /// The role of the end on one side of the path; where there is none, one end stands alone.
    pub fn end(self, side: Side) -> Option<EndRole> {
        self.row().roles.iter().copied().find(|role| role.side() == side)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_the_order_of_their_workloads() {
        for (index, row) in WORKLOADS.iter().enumerate() {
            assert_eq!((row.value as usize, row.value.row().name), (index, row.name));
            assert_eq!(row.name.parse::<Workload>().unwrap(), row.value);
        }
    }
}
