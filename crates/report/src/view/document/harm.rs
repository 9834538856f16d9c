//! Harm that a rate does not show.

use schemars::JsonSchema;
use serde::Serialize;

/// Harm of an option over the trials behind its estimate. A number is absent where it was not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct HarmView {
    /// Share of the clients that had no answer during the whole measured time of a trial, although calls usually take less than
    /// a tenth of it; mean over the trials. Closed loops only.
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
    /// The longest time that the ends took in addition to warm-up and measured time, nanoseconds: opening, and waiting for calls that
    /// had not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_ns: Option<u64>,
}

/// A kind of harm in which options of a test may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HarmKind {
    /// Clients had no answer during a whole trial.
    StarvedClients,
    /// Connections found the listener's queue full.
    ListenOverflows,
    /// TCP waited for its retransmission time-out.
    TimeOuts,
    /// Calls failed.
    FailedCalls,
    /// Datagrams were lost.
    LostDatagrams,
    /// The kernel copied zero-copy sends.
    CopiedSends,
}
