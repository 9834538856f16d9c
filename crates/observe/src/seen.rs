//! What was seen of a program, as it is told.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::end::{Leads, PeerProcess};
use crate::tally::SideView;

/// Where bytes go to or come from, with all descriptors of that sort together.
#[derive(Clone, Debug, Serialize)]
pub struct EndView {
    /// In words.
    pub label: String,
    /// What it is.
    pub leads: Leads,
    /// Descriptors that moved bytes: the most that were in use at once.
    pub flows: u64,
    /// Descriptors that moved bytes, in all.
    pub seen: u64,
    /// What was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads: Option<SideView>,
    /// What was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writes: Option<SideView>,
    /// Times that a read followed a write on one descriptor, or a write a read: twice as many as calls that were answered.
    pub turns: u64,
    /// Requests that were answered: turns in pairs, on every descriptor by itself.
    pub exchanges: u64,
    /// Programs at the other end, on this machine.
    pub peers: BTreeSet<PeerProcess>,
    /// Options in force on one of the descriptors, as the kernel tells them: buffers with its own overhead.
    pub options: BTreeMap<&'static str, String>,
    /// Why sockets could not be asked what they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unasked: Option<String>,
    /// A file that only brings the program to life: a library, an interpreter's module.
    pub start_up: bool,
}

/// What looking itself did to the program.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct LookCost {
    /// Samples.
    pub samples: u64,
    /// Time in samples, nanoseconds.
    pub traced_ns: u64,
    /// Time between them, in which the program was left alone, nanoseconds.
    pub alone_ns: u64,
    /// The longest sample, nanoseconds.
    pub longest_ns: u64,
    /// Times that one of its threads was stopped.
    pub stops: u64,
    /// Time that threads stood still while we looked, nanoseconds; waking them comes on top.
    pub held_ns: u64,
    /// How many times slower the program was while it was traced, by its own reads and writes, or by the bytes that its TCP
    /// connections moved while they were there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slowed: Option<f64>,
    /// Why that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<&'static str>,
}

/// What a program was seen to do.
#[derive(Clone, Debug, Serialize)]
pub struct Observed {
    /// The name of the process that moved most.
    pub program: String,
    /// Its number.
    pub pid: u32,
    /// The process that was named, where it is another: one that it started does the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub under: Option<PeerProcess>,
    /// The command line of the one that was named. It may hold secrets, and is shown nowhere but to whoever asked.
    pub command: Vec<String>,
    /// Processes that were looked at, itself included.
    pub processes: u64,
    /// Threads that moved bytes, in all.
    pub threads: u64,
    /// The most of those that lived at once.
    pub threads_at_once: u64,
    /// Where bytes went, those with the most first.
    pub ends: Vec<EndView>,
    /// Waits until descriptors could be read or written.
    pub waits: u64,
    /// Operations handed to io_uring, and the calls that did so: their sizes are not to be seen by system calls.
    pub uring: (u64, u64),
    /// CPU time in user mode per byte read or written while it was left alone, nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_ns_per_byte: Option<f64>,
    /// CPU time in user mode between one read or write and the next, on average, nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_ns_per_call: Option<f64>,
    /// CPUs that it kept busy while it was left alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// The CPU limit of its control group, in CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_cpus: Option<f64>,
    /// Periods in which the limit stopped it, meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttled: Option<u64>,
    /// It ended meanwhile.
    pub ended: bool,
    /// Somebody pressed Ctrl-C.
    pub interrupted: bool,
    /// What looking cost.
    pub cost: LookCost,
}

impl EndView {
    /// Bytes both ways.
    pub fn bytes(&self) -> u64 {
        [&self.reads, &self.writes].into_iter().flatten().map(|side| side.bytes).sum()
    }
}
