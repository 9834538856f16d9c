//! What is said of an emulated link.

use schemars::JsonSchema;
use serde::Serialize;

/// The emulated link between the ends of a group: what was asked of it, and what it did in the trials behind its estimates.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LinkView {
    /// The round trip that it was to add, nanoseconds.
    pub delay_ns: u64,
    /// Share of the packets that it was to lose, in each direction.
    pub loss: f64,
    /// What it was to carry in each direction, with IP headers.
    pub bits_per_second: u64,
    /// Delay times rate: bytes that are on their way at the full rate.
    pub product_bytes: u64,
    /// Bytes that its queue holds, in each direction.
    pub queue_bytes: u64,
    /// The smallest round trip that TCP saw in a trial (`tcpi_min_rtt`), the median over trials, nanoseconds; `null` over UDP.
    pub round_trip_ns: Option<u64>,
    /// How much longer than asked a round trip took on average, nanoseconds.
    pub late_ns: u64,
    /// Packets that arrived, both directions.
    pub passed: u64,
    /// Packets that it lost as it was told to.
    pub lost: u64,
    /// Packets that found its queue full.
    pub queue_drops: u64,
    /// CPU time of its process, in CPUs.
    pub cpus: Option<f64>,
}
