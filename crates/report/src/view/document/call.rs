//! What a document says of calls beside their rate and their percentiles.

use bytegauge_model::UdpUse;
use schemars::JsonSchema;
use serde::Serialize;

/// What the calls of a cell were like, summed over the trials behind the estimate.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CallView {
    /// What the percentiles time: the service, or the wait from the intended send on.
    pub timing: &'static str,
    /// Calls per second that the plan offered; `null` in a closed loop, and where the rate was searched for.
    pub offered_per_second: Option<f64>,
    /// Where a latency objective ends to be kept; `null` where nothing was searched for.
    pub knee: Option<KneeView>,
    /// Mean of the trials' rates, calls per second: as others publish it, beside the median and its interval.
    pub mean_per_second: Option<f64>,
    /// Standard deviation of the same, calls per second.
    pub sd_per_second: Option<f64>,
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
    /// Which share of the calls takes longer than its trial let be seen; absent below a hundredth. Percentiles that lie
    /// among them are not told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outlasting_share: Option<f64>,
    /// How late the client began calls; absent where calls have no intended moments, and where it was not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lateness: Option<LatenessView>,
    /// What failed and why, the most frequent first.
    pub errors: Vec<ErrorView>,
    /// What the server's engine did.
    pub server_engine: Option<EngineView>,
    /// What the client's engine did.
    pub client_engine: Option<EngineView>,
    /// The second group of clients, where there was one.
    pub competing: Option<CompetingView>,
    /// Waiting for delayed acknowledgements; absent where calls do not go over TCP, a request is one
    /// write, or nothing was counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delayed_acks: Option<DelayedAcksView>,
    /// What became of datagrams; absent where calls have connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<CallDatagramView>,
}

/// How late the client began calls: from the moment at which a call was due and its connection free, to its begin. The
/// harness adds it to the latency of an open loop, and to pauses between calls.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LatenessView {
    /// The median over all calls, nanoseconds.
    pub p50_ns: f64,
    /// The 99th percentile, nanoseconds.
    pub p99_ns: f64,
    /// The longest, nanoseconds.
    pub max_ns: f64,
    /// The percentile at which lateness is the largest part of what is reported; `null` where it is nowhere more than a tenth.
    pub finding: Option<LateFinding>,
}

/// Trials in which lateness exceeds a tenth of what is reported at a percentile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LateFinding {
    /// `p50` or `p99`.
    pub percentile: &'static str,
    /// Lateness there, median over the trials, nanoseconds.
    pub late_ns: f64,
    /// What it is part of, nanoseconds: the latency at the same percentile, or the pause.
    pub of_ns: f64,
    /// Whether it is part of a pause between calls, not of a latency.
    pub pauses: bool,
    /// Trials with such lateness.
    pub trials: usize,
    /// Trials in which lateness was recorded.
    pub of: usize,
}

/// Acknowledgements that were sent only when their timer had run out, and the calls that are as long as it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct DelayedAcksView {
    /// How many there were in the network namespace during the trials.
    pub acks: u64,
    /// Calls that took as long as the timer at least, 40 ms.
    pub slow_calls: u64,
    /// The same as a share of all calls.
    pub slow_share: f64,
    /// Their share of the time that all calls took.
    pub slow_time_share: f64,
}

/// What became of the datagrams of calls, over the ends' whole lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct CallDatagramView {
    /// Bytes of replies that came back in the window, per second: goodput, whatever was sent for it.
    pub reply_bytes_per_second: Option<f64>,
    /// Requests that the clients sent.
    pub requests_sent: u64,
    /// Requests that the server received; `null` where it is not ours, as all that only it can tell.
    pub requests_received: Option<u64>,
    /// Requests that the kernel threw away because the server's receive buffer was full.
    pub requests_dropped: Option<u64>,
    /// Requests that were longer than the server's buffer.
    pub requests_truncated: Option<u64>,
    /// Requests that never came and of which nobody tells where they died.
    pub requests_lost_elsewhere: Option<u64>,
    /// Replies that the server sent.
    pub replies_sent: Option<u64>,
    /// Replies that the kernel would not take from the server.
    pub replies_unsent: Option<u64>,
    /// Replies that reached the clients.
    pub replies_received: u64,
    /// Replies that the kernel threw away because a client's receive buffer was full.
    pub replies_dropped: u64,
    /// Replies that never came and of which nobody tells where they died.
    pub replies_lost_elsewhere: Option<u64>,
    /// Replies that came after their calls had been given up.
    pub late: u64,
    /// Replies that came once more.
    pub duplicated: u64,
    /// Replies that a reply to a later call had overtaken.
    pub overtaken: u64,
    /// Datagrams that answer no call.
    pub strange: u64,
    /// What the kernel counted of UDP in the network namespace; `null` over Unix sockets.
    pub namespace: Option<UdpUse>,
}

/// The highest offered rate that keeps a latency objective, as the median over the trials, is the cell's rate: about half of
/// the searches lose there. This is what stands beside it. Medians over the trials, each of which is a search of its own.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct KneeView {
    /// The objective: `p99=2ms`.
    pub slo: String,
    /// Its percentile: `p99`.
    pub percentile: &'static str,
    /// What that may be at most, nanoseconds.
    pub limit_ns: u64,
    /// What it is at the knee, nanoseconds.
    pub at_knee_ns: Option<f64>,
    /// The lowest rate above the knee that was lost, calls per second; `null` where the closed loop's was kept.
    pub beyond_per_second: Option<f64>,
    /// What the percentile is there, nanoseconds.
    pub at_beyond_ns: Option<f64>,
    /// What a closed loop on the same connections reaches, calls per second.
    pub closed_per_second: Option<f64>,
    /// The knee as a share of that.
    pub share_of_closed: Option<f64>,
    /// Measurements a search.
    pub probes_mean: Option<f64>,
    /// What the searches measured at offered rates, by rate; of long sessions the first searches alone.
    pub probes: Vec<ProbeView>,
}

/// One measurement of a search at an offered rate.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ProbeView {
    /// The search, counted from 0.
    pub search: usize,
    /// Calls per second that were offered.
    pub offered_per_second: u64,
    /// The objective's percentile, nanoseconds; `null` where too few calls were completed to say it.
    pub percentile_ns: Option<u64>,
    /// Whether the objective was kept.
    pub kept: bool,
}

/// Calls that failed in one way.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ErrorView {
    /// What happened: `reset`, `refused`, `backlog-full`, `timed-out`, …
    pub class: String,
    /// What the client was doing: `connect`, `write`, `first-byte`, `reply`, `idle`.
    pub phase: String,
    /// How often.
    pub count: u64,
    /// Bytes of requests that were taken by the kernel and never answered in full.
    pub request_bytes_lost: u64,
    /// Bytes of replies that were due and did not arrive.
    pub reply_bytes_missing: u64,
    /// Which end, in which state, why, and what was lost.
    pub explanation: String,
}

/// What an end's engine did over the trials: the evidence that a mode which was asked for did run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct EngineView {
    /// System calls that the engine itself made.
    pub system_calls: u64,
    /// Times it waited and was given something.
    pub wakeups: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Most connections accepted at one wake-up.
    pub accepted_at_once: u64,
    /// Most datagrams that one system call moved, of an engine that can move several.
    pub datagrams_at_once: u64,
    /// Completions taken from rings.
    pub completions: u64,
    /// Share of them that were of a receive which goes on.
    pub multishot_share: Option<f64>,
    /// Share of them that took more than one buffer.
    pub bundled_share: Option<f64>,
    /// Times a multishot request ended for want of a buffer.
    pub out_of_buffers: u64,
    /// Sends that asked for zero copy.
    pub zero_copy_sends: u64,
    /// Share of them that the kernel copied after all.
    pub zero_copy_copied_share: Option<f64>,
    /// CPU time of threads that the kernel runs for the engine (SQPOLL, io-wq), in CPUs.
    pub kernel_threads_cpus: Option<f64>,
    /// Bytes of memory that data was sent from or received into, most of any trial; absent if the engine did not count
    /// them.
    pub buffer_bytes: Option<u64>,
    /// Bytes that the engine copied from one place of the program's memory to another; absent as `buffer_bytes` is.
    pub copied_bytes: Option<u64>,
}

/// A second group of clients that called the same server meanwhile.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CompetingView {
    /// Its calls per second, median over the trials.
    pub calls_per_second: Option<f64>,
    /// Lower end of the interval.
    pub lower: Option<f64>,
    /// Upper end of the interval.
    pub upper: Option<f64>,
    /// Its calls that failed.
    pub failed: u64,
    /// What failed and why.
    pub errors: Vec<ErrorView>,
}
