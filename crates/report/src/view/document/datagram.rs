//! The part of the document that speaks of datagrams.

use bytegauge_model::UdpUse;
use schemars::JsonSchema;
use serde::Serialize;

/// What became of a cell's datagrams, over the trials behind the estimate and the flows' whole lives.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct DatagramView {
    /// Datagrams sent, by their numbers.
    pub sent: u64,
    /// Datagrams that came, duplicates included.
    pub arrived: u64,
    /// Those sent that never came.
    pub lost: u64,
    /// The same as a share of those sent.
    pub lost_share: Option<f64>,
    /// Part of them that the sink's sockets dropped, their receive buffers full.
    pub lost_at_socket: u64,
    /// Part of them of which nobody tells where they died.
    pub lost_unknown: u64,
    /// Datagrams that came after one with a higher number.
    pub reordered: u64,
    /// Datagrams that came a second time.
    pub duplicated: u64,
    /// Datagrams that the reader's buffer did not hold whole.
    pub truncated: u64,
    /// Bytes that were cut off with that; they are not in the goodput.
    pub cut_bytes: u64,
    /// Sends that the kernel refused for want of room, and that were tried again.
    pub sends_refused: u64,
    /// Packets of the kernel that were sent: one that is cut late counts once.
    pub packets_sent: u64,
    /// Packets of the kernel that came: one that was joined counts once.
    pub packets_arrived: u64,
    /// Packets that the sink's sockets dropped (`SO_MEMINFO`).
    pub packets_dropped: Option<u64>,
    /// The same by `SO_RXQ_OVFL`, in sessions of versions that asked for it with every datagram.
    pub packets_dropped_told: Option<u64>,
    /// Datagrams a packet that came.
    pub datagrams_per_packet: Option<f64>,
    /// Datagrams a receive, within the windows.
    pub datagrams_per_receive: Option<f64>,
    /// Datagrams a send, within the windows.
    pub datagrams_per_send: Option<f64>,
    /// What the kernel counted of UDP in the network namespace; absent over Unix sockets.
    pub namespace: Option<UdpUse>,
}
