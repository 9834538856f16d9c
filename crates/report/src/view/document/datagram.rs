//! The part of the document about datagrams.

use bytegauge_model::UdpUse;
use schemars::JsonSchema;
use serde::Serialize;

/// A cell's datagrams, over the trials of the estimate and the flows' whole lives.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct DatagramView {
    /// Datagrams sent, by their numbers.
    pub sent: u64,
    /// Datagrams received, duplicates included.
    pub arrived: u64,
    /// Datagrams that did not arrive.
    pub lost: u64,
    /// The same as a share of those sent.
    pub lost_share: Option<f64>,
    /// Part of them that the sink's sockets dropped, their receive buffers full.
    pub lost_at_socket: u64,
    /// The part of them lost at an unknown place.
    pub lost_unknown: u64,
    /// Datagrams that arrived after one with a higher number.
    pub reordered: u64,
    /// Datagrams that arrived a second time.
    pub duplicated: u64,
    /// Datagrams that did not fit the reader's buffer.
    pub truncated: u64,
    /// Bytes cut off there; not counted in the goodput.
    pub cut_bytes: u64,
    /// Sends that the kernel refused for lack of room, and that were tried again.
    pub sends_refused: u64,
    /// Packets of the kernel sent: one that is segmented late counts once.
    pub packets_sent: u64,
    /// Packets of the kernel received: one that was joined counts once.
    pub packets_arrived: u64,
    /// Packets that the sink's sockets dropped (`SO_MEMINFO`).
    pub packets_dropped: Option<u64>,
    /// The same by `SO_RXQ_OVFL`, in sessions of versions that requested it with every datagram.
    pub packets_dropped_reported: Option<u64>,
    /// Datagrams per received packet.
    pub datagrams_per_packet: Option<f64>,
    /// Datagrams per receive, within the windows.
    pub datagrams_per_receive: Option<f64>,
    /// Datagrams per send, within the windows.
    pub datagrams_per_send: Option<f64>,
    /// The kernel's counts of UDP in the network namespace; absent over Unix sockets.
    pub namespace: Option<UdpUse>,
}
