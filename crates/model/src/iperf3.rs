//! Results of an iperf3 server that was the other end of a trial.

use serde::{Deserialize, Serialize};

/// The results that the server reported after the test, summed over its data connections. They include the warm-up, and the
/// time between the start of the test and the first byte.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Iperf3Report {
    /// Bytes that the server read, or wrote.
    pub bytes: u64,
    /// The longest duration of a data connection, nanoseconds.
    pub duration_ns: u64,
    /// CPU time of the server's process over the test, percent of one CPU.
    pub cpu_percent: f64,
    /// Segments that the server sent again; absent where it did not write or does not count them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
    /// The congestion control of the server's connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// Datagrams that the server sent, or at a server that read the highest number that came; absent over TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<u64>,
    /// Datagrams that the server misses, where it read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    /// The largest jitter of a data connection (RFC 3550), where the server read datagrams, nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_ns: Option<u64>,
}

impl Iperf3Report {
    /// The share of the datagrams that arrived at a server that read; 1 where nothing is known to be lost.
    pub fn delivered_share(&self) -> f64 {
        match (self.datagrams, self.lost) {
            (Some(datagrams), Some(lost)) if datagrams > 0 => datagrams.saturating_sub(lost) as f64 / datagrams as f64,
            _ => 1.0,
        }
    }
}
