//! The part of the document about an emulated link.

use schemars::JsonSchema;
use serde::Serialize;

/// The emulated link between the ends of a group: its settings, and its counts in the trials of the estimates.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LinkView {
    /// The requested additional round trip, nanoseconds.
    pub delay_ns: u64,
    /// The requested loss of packets, in each direction, as a share.
    pub loss: f64,
    /// The requested rate in each direction, with IP headers.
    pub bits_per_second: u64,
    /// Delay times rate: bytes in flight at the full rate.
    pub product_bytes: u64,
    /// Capacity of its queue, bytes, in each direction.
    pub queue_bytes: u64,
    /// The smallest round trip that TCP saw in a trial (`tcpi_min_rtt`), the median over trials, nanoseconds; `null` over UDP.
    pub round_trip_ns: Option<u64>,
    /// How much longer than requested a round trip took on average, nanoseconds.
    pub late_ns: u64,
    /// Packets that arrived, both directions.
    pub passed: u64,
    /// Packets lost as requested.
    pub lost: u64,
    /// Packets that found its queue full.
    pub queue_drops: u64,
    /// CPU time of its process, in CPUs.
    pub cpus: Option<f64>,
}
