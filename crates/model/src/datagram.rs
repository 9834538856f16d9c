//! What became of datagrams: how many an end sent or took, in how many packets, and what went wrong with them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What one end, or one flow of it, counted of datagrams. What says nothing about a window is of the flows' whole life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DatagramReport {
    /// Datagrams in the window: sent, or taken by the reader.
    pub datagrams: u64,
    /// Packets of the kernel that held them: one that is cut late (`UDP_SEGMENT`), or was joined (`UDP_GRO`), is one.
    pub packets: u64,
    /// Datagrams: numbers that were sent, or those that came, duplicates included.
    pub total: u64,
    /// Packets of the kernel that held them.
    pub total_packets: u64,
    /// Numbers below the highest that came which did not come; at the sink.
    pub missing: u64,
    /// Datagrams that came after one with a higher number; at the sink.
    pub reordered: u64,
    /// Datagrams whose number had come before; at the sink.
    pub duplicated: u64,
    /// Datagrams that the reader's buffer did not hold whole (`MSG_TRUNC`).
    pub truncated: u64,
    /// Bytes that were cut off with that.
    pub cut_bytes: u64,
    /// Sends that the kernel refused for want of room or memory (`EAGAIN`, `ENOBUFS`, `ENOMEM`) and that were tried
    /// again; at the source.
    pub refused: u64,
    /// Packets that the sockets dropped because their receive buffers were full (`SO_MEMINFO`); absent where the
    /// kernel does not say.
    pub socket_drops: Option<u64>,
    /// The same by `SO_RXQ_OVFL`, in sessions of versions that asked for it with every datagram.
    pub told_drops: Option<u64>,
}

impl DatagramReport {
    /// What two flows counted together.
    #[must_use]
    pub fn plus(&self, other: &DatagramReport) -> DatagramReport {
        let known = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        };
        DatagramReport {
            datagrams: self.datagrams.saturating_add(other.datagrams),
            packets: self.packets.saturating_add(other.packets),
            total: self.total.saturating_add(other.total),
            total_packets: self.total_packets.saturating_add(other.total_packets),
            missing: self.missing.saturating_add(other.missing),
            reordered: self.reordered.saturating_add(other.reordered),
            duplicated: self.duplicated.saturating_add(other.duplicated),
            truncated: self.truncated.saturating_add(other.truncated),
            cut_bytes: self.cut_bytes.saturating_add(other.cut_bytes),
            refused: self.refused.saturating_add(other.refused),
            socket_drops: known(self.socket_drops, other.socket_drops),
            told_drops: known(self.told_drops, other.told_drops),
        }
    }

    /// Datagrams of different numbers that came.
    #[must_use]
    pub fn distinct(&self) -> u64 {
        self.total.saturating_sub(self.duplicated)
    }
}

/// Where the datagrams of a stream died, of which `lost` never came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deaths {
    /// Never came.
    pub lost: u64,
    /// Part of them that the sink's socket dropped, its receive buffer full.
    pub at_socket: u64,
    /// Part of them of which nobody tells where they died.
    pub unknown: u64,
}

impl Deaths {
    /// What both ends' counts say. A packet that a socket dropped held as many datagrams as those that the source
    /// sent on average.
    #[must_use]
    pub fn of(source: &DatagramReport, sink: &DatagramReport) -> Deaths {
        let lost = source.total.saturating_sub(sink.distinct());
        let dropped = u128::from(sink.socket_drops.unwrap_or(0));
        let packets = u128::from(source.total_packets.max(1));
        let at_socket = (dropped * u128::from(source.total)).div_ceil(packets).min(u128::from(lost)) as u64;
        Deaths { lost, at_socket, unknown: lost - at_socket }
    }

    /// The sum of two.
    #[must_use]
    pub fn plus(&self, other: &Deaths) -> Deaths {
        Deaths {
            lost: self.lost.saturating_add(other.lost),
            at_socket: self.at_socket.saturating_add(other.at_socket),
            unknown: self.unknown.saturating_add(other.unknown),
        }
    }
}

/// What the kernel counted of UDP in the whole network namespace meanwhile (`/proc/net/snmp`, `/proc/net/snmp6`), both
/// protocols together: whoever else speaks UDP is in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct UdpUse {
    /// `InDatagrams`.
    pub received: u64,
    /// `OutDatagrams`.
    pub sent: u64,
    /// `NoPorts`: nobody had a socket for them.
    pub no_port: u64,
    /// `InErrors`, those of full buffers included.
    pub receive_errors: u64,
    /// `RcvbufErrors`: the socket's buffer was full.
    pub receive_buffer_errors: u64,
    /// `SndbufErrors`: no room or memory to send.
    pub send_buffer_errors: u64,
    /// `InCsumErrors`.
    pub checksum_errors: u64,
    /// `MemErrors`: UDP as a whole had used up its memory.
    pub memory_errors: u64,
    /// Packets of anybody on the machine that died in a CPU's full queue of what has arrived (`/proc/net/softnet_stat`);
    /// absent where the kernel does not say.
    pub backlog_drops: Option<u64>,
}

impl UdpUse {
    /// What was counted in two spans together.
    #[must_use]
    pub fn plus(&self, other: &UdpUse) -> UdpUse {
        let sum = |of: fn(&UdpUse) -> u64| of(self).saturating_add(of(other));
        let backlog_drops = match (self.backlog_drops, other.backlog_drops) {
            (Some(ours), Some(theirs)) => Some(ours.saturating_add(theirs)),
            (ours, theirs) => ours.or(theirs),
        };
        UdpUse {
            received: sum(|udp| udp.received),
            sent: sum(|udp| udp.sent),
            no_port: sum(|udp| udp.no_port),
            receive_errors: sum(|udp| udp.receive_errors),
            receive_buffer_errors: sum(|udp| udp.receive_buffer_errors),
            send_buffer_errors: sum(|udp| udp.send_buffer_errors),
            checksum_errors: sum(|udp| udp.checksum_errors),
            memory_errors: sum(|udp| udp.memory_errors),
            backlog_drops,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sent: (u64, u64), came: (u64, u64), drops: Option<u64>, expected: (u64, u64, u64)) {
        let source = DatagramReport { total: sent.0, total_packets: sent.1, ..DatagramReport::default() };
        let sink =
            DatagramReport { total: came.0, duplicated: came.1, socket_drops: drops, ..DatagramReport::default() };
        let Deaths { lost, at_socket, unknown } = Deaths::of(&source, &sink);
        assert_eq!((lost, at_socket, unknown), expected);
    }

    #[test]
    fn a_count_that_is_missing_once_is_what_was_counted_else() {
        let counted = |backlog_drops| UdpUse { backlog_drops, ..UdpUse::default() };
        assert_eq!(counted(Some(2)).plus(&counted(Some(3))).backlog_drops, Some(5));
        assert_eq!(counted(Some(2)).plus(&counted(None)).backlog_drops, Some(2));
        assert_eq!(counted(None).plus(&counted(None)).backlog_drops, None);
    }

    #[test]
    fn what_was_lost_is_where_the_kernel_says_or_unknown() {
        check((1000, 1000), (1000, 0), Some(0), (0, 0, 0));
        check((1000, 1000), (990, 0), Some(10), (10, 10, 0));
        check((1000, 1000), (992, 2), Some(4), (10, 4, 6));
        check((1000, 1000), (990, 0), None, (10, 0, 10));
        // Packets of 64: one that was dropped took all of its datagrams with it.
        check((6400, 100), (6272, 0), Some(2), (128, 128, 0));
        // More drops than were sent belong to somebody else.
        check((10, 10), (9, 0), Some(50), (1, 1, 0));
    }
}
