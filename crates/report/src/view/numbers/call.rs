//! The part of the document about calls, in addition to their rate and their percentiles.

use bytegauge_model::{ErrorClass, ErrorPhase, UdpUse};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

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
    pub delayed_acks: Option<DelayedAcksView>,
    /// Counts of datagrams; absent if calls have connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<CallDatagramView>,
}

/// Acknowledgements that were sent only when their timer had run out, and the calls that are as long as it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct DelayedAcksView {
    /// How many there were in the network namespace during the trials.
    pub acks: u64,
    /// Calls that took at least as long as the timer, 40 ms.
    pub slow_calls: u64,
    /// The same as a share of all calls.
    pub slow_share: f64,
    /// Their share of the time that all calls took.
    pub slow_time_share: f64,
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
    /// Its percentile: `p99`.
    pub percentile: &'static str,
    /// The limit, nanoseconds.
    pub limit_ns: u64,
    /// The highest rate that keeps the objective over the measurements of all searches together, calls per second; `null` if no
    /// measured rate does.
    pub overall_per_second: Option<f64>,
    /// The number of searches, those that found no rate included.
    pub searches: usize,
    /// The percentile at the knee, nanoseconds.
    pub at_knee_ns: Option<f64>,
    /// The lowest rate above the knee that failed, calls per second; `null` if the closed loop's rate passed.
    pub beyond_per_second: Option<f64>,
    /// The percentile there, nanoseconds.
    pub at_beyond_ns: Option<f64>,
    /// The rate of a closed loop on the same connections, calls per second.
    pub closed_per_second: Option<f64>,
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
