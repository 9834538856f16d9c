//! The observations of a program, as reported.

use std::collections::{BTreeMap, BTreeSet};

use bytegauge_model::SocketWaits;
use bytegauge_model::sockets_seen::{CallSizes, ProgramCalls, SlowReads};
use bytegauge_sys::copy_probe;
use serde::Serialize;

use crate::call_counts::SideView;
use crate::descriptor::{Leads, PeerProcess};
use crate::tune_command::tune_options;

/// The source or target of bytes, with all descriptors of that sort together.
#[derive(Clone, Debug, Serialize)]
pub struct EndView {
    /// Its name as text.
    pub label: String,
    /// Its kind.
    pub leads: Leads,
    /// Descriptors that moved bytes: the most that were in use at once.
    pub flows: u64,
    /// Descriptors that moved bytes, in all.
    pub seen: u64,
    /// Reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads: Option<SideView>,
    /// Writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writes: Option<SideView>,
    /// Times that a read followed a write on one descriptor, or a write a read: two per answered call.
    pub turns: u64,
    /// Requests that were answered: pairs of turns, per descriptor.
    pub exchanges: u64,
    /// Programs at the other end, on this machine.
    pub peers: BTreeSet<PeerProcess>,
    /// Options in force on one of the descriptors, as the kernel reports them: buffers include its own overhead.
    pub options: BTreeMap<&'static str, String>,
    /// Why sockets could not be inspected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unasked: Option<String>,
    /// A file that the program only reads at its start: a library, an interpreter's module.
    pub start_up: bool,
}

/// The effect of the observation on the program.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct TracingCost {
    /// Samples.
    pub samples: u64,
    /// Time in samples, nanoseconds.
    pub traced_ns: u64,
    /// Time between them, in which the program was undisturbed, nanoseconds.
    pub alone_ns: u64,
    /// The longest sample, nanoseconds.
    pub longest_ns: u64,
    /// Times that one of its threads was stopped.
    pub stops: u64,
    /// Time that threads were stopped for inspection, nanoseconds; waking them is not included.
    pub held_ns: u64,
    /// How many times slower the program was while it was traced, by its own reads and writes, or by the bytes of its TCP
    /// connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slowed: Option<f64>,
    /// Why that is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<&'static str>,
}

/// The observed behaviour of a program.
#[derive(Clone, Debug, Serialize)]
pub struct Observed {
    /// The name of the process that moved most.
    pub program: String,
    /// Its number.
    pub pid: u32,
    /// The process that the user gave, if another process that it started does the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub under: Option<PeerProcess>,
    /// The command line of the process that the user gave. It may contain secrets; it is shown only to that user.
    pub command: Vec<String>,
    /// Processes that were observed, itself included.
    pub processes: u64,
    /// Threads that moved bytes, in all.
    pub threads: u64,
    /// The most of those that lived at once.
    pub threads_at_once: u64,
    /// Sources and targets of bytes, those with the most bytes first.
    pub ends: Vec<EndView>,
    /// What its TCP connections waited for.
    pub connection_waits: SocketWaits,
    /// Waits until descriptors could be read or written.
    pub waits: u64,
    /// Operations handed to io_uring, and the calls that did so. Their sizes are not visible in system calls.
    pub uring: (u64, u64),
    /// How many times the CPU time of a read to a page one to the most frequent address takes on this CPU; measured if most reads
    /// of the end with most of them go to addresses that some CPUs are slow at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_copies: Option<f64>,
    /// CPU time in user mode per byte read or written while it was undisturbed, nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_ns_per_byte: Option<f64>,
    /// CPU time in user mode between one read or write and the next, on average, nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_ns_per_call: Option<f64>,
    /// CPUs that it kept busy while it was undisturbed.
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
    /// It was started to be observed, and does not outlive that.
    #[serde(skip)]
    pub started: bool,
    /// The user pressed Ctrl-C.
    pub interrupted: bool,
    /// The cost of the observation.
    pub cost: TracingCost,
}

impl Observed {
    /// Its reads to addresses to which some CPUs copy slowly, if most are.
    pub fn slow_reads(&self) -> Option<SlowReads> {
        let (ratio, reads) = (self.slow_copies?, most(&self.ends, |end| end.reads.as_ref())?);
        let (share, offset) = (reads.slow_addresses, reads.page_offset.as_ref()?.most_often);
        Some(SlowReads { share, offset, ratio, matters: ratio >= copy_probe::SLOW_RATIO })
    }

    /// Its calls on the sockets that carry most bytes; `None` if it has no socket.
    pub fn socket_calls(&self) -> Option<ProgramCalls> {
        let sizes = |side: fn(&EndView) -> Option<&SideView>| {
            let sockets = self.ends.iter().filter(|end| end.leads.is_socket());
            let calls = most(sockets, side)?;
            // The sizes of a call with many messages are those of a message.
            let is_one = calls.messages_per_call < 1.05;
            Some(CallSizes {
                call: calls.by.first().cloned().unwrap_or_default(),
                moved: if is_one { calls.moved.median } else { calls.totals.bytes / calls.totals.calls.max(1) },
                asked: calls.asked.filter(|_| is_one).map(|asked| asked.most_often),
                per_message: calls.calls_per_turn,
            })
        };
        let (reads, writes) = (sizes(|end| end.reads.as_ref()), sizes(|end| end.writes.as_ref()));
        let any = reads.is_some() || writes.is_some();
        any.then(|| ProgramCalls { program: self.program.clone(), reads, writes, slow_reads: self.slow_reads() })
    }
}

/// The calls of the end that moved most bytes in one direction.
pub(super) fn most<'a>(
    ends: impl IntoIterator<Item = &'a EndView>,
    side: fn(&EndView) -> Option<&SideView>,
) -> Option<&'a SideView> {
    let ends = ends.into_iter().filter(|end| !end.start_up);
    ends.filter_map(side).max_by_key(|calls| calls.totals.bytes)
}

impl EndView {
    /// Bytes both ways.
    pub fn bytes(&self) -> u64 {
        [&self.reads, &self.writes].into_iter().flatten().map(|side| side.totals.bytes).sum()
    }
}

// What the connections of a program wait for, each with the command that proves or refutes its cause. Pure.

/// A possible cause of waiting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnosed {
    /// The observation, and what it is consistent with.
    pub text: String,
    /// The command that shows whether it is the cause.
    pub proof: String,
}

/// The possible causes, by the end that moved most bytes.
pub(super) fn diagnosed(observed: &Observed, main: &EndView) -> Vec<Diagnosed> {
    let found = observed.connection_waits.diagnoses().into_iter();
    let proof = |option: Option<&str>| match (option, main.peers.first()) {
        (Some(option), _) => tune_options(observed, main, option),
        (None, Some(peer)) if !peer.ended => format!("bytegauge observe --pid {}", peer.pid),
        (None, _) => "bytegauge observe --pid PEER, on its host".to_owned(),
    };
    found.map(|one| Diagnosed { text: one.text, proof: proof(one.option) }).collect()
}
