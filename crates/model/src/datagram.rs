//! Counts of datagrams: how many an end sent or received, in how many packets, and their errors.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::sums::sums;

/// Counts of datagrams at one end, or one flow of it. Counts without a window cover the flows' whole life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DatagramReport {
    /// Datagrams in the window: sent, or read by the reader.
    pub datagrams: u64,
    /// Packets of the kernel that held them: one that is segmented late (`UDP_SEGMENT`), or was joined (`UDP_GRO`), is one.
    pub packets: u64,
    /// Datagrams: numbers that were sent, or that arrived, duplicates included.
    pub total: u64,
    /// Packets of the kernel that held them.
    pub total_packets: u64,
    /// Numbers that did not arrive although a higher one did; at the sink.
    pub missing: u64,
    /// Bursts of the writer (`--burst`) with a missing datagram; at the sink.
    pub lossy_bursts: u64,
    /// Most missing datagrams of one burst.
    pub worst_burst: u64,
    /// Datagrams that arrived after one with a higher number; at the sink.
    pub reordered: u64,
    /// Datagrams whose number had arrived before; at the sink.
    pub duplicated: u64,
    /// Datagrams that were longer than the reader's buffer (`MSG_TRUNC`).
    pub truncated: u64,
    /// Bytes that were truncated with them.
    pub cut_bytes: u64,
    /// Sends that the kernel refused for lack of room or memory (`EAGAIN`, `ENOBUFS`, `ENOMEM`) and that were tried
    /// again; at the source.
    pub refused: u64,
    /// Packets that the sockets dropped because their receive buffers were full (`SO_MEMINFO`); absent where the
    /// kernel does not report it.
    pub socket_drops: Option<u64>,
}

impl DatagramReport {
    /// Datagrams of different numbers that arrived.
    pub fn distinct(&self) -> u64 {
        self.total.saturating_sub(self.duplicated)
    }
}

sums!(DatagramReport {
    datagrams, packets, total, total_packets, missing, lossy_bursts, reordered, duplicated, truncated, cut_bytes, refused, socket_drops,
} max { worst_burst });

/// Where the datagrams of a stream were lost; `lost` did not arrive whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deaths {
    /// Did not arrive, or not whole.
    pub lost: u64,
    /// Part of them that the reader's buffer cut off.
    pub cut_off: u64,
    /// Part of them that the sink's socket dropped, its receive buffer full.
    pub at_socket: u64,
    /// Part of them whose place of loss is unknown.
    pub unknown: u64,
}

impl Deaths {
    /// The losses from both ends' counts. A packet that a socket dropped is assumed to hold the average number of datagrams
    /// of the source's packets.
    pub fn of(source: &DatagramReport, sink: &DatagramReport) -> Deaths {
        let missing = source.total.saturating_sub(sink.distinct());
        let dropped = u128::from(sink.socket_drops.unwrap_or(0));
        let packets = u128::from(source.total_packets.max(1));
        let at_socket = (dropped * u128::from(source.total)).div_ceil(packets).min(u128::from(missing)) as u64;
        let cut_off = sink.truncated.min(source.total - missing);
        Deaths { lost: missing + cut_off, cut_off, at_socket, unknown: missing - at_socket }
    }
}

sums!(Deaths { lost, cut_off, at_socket, unknown });

/// The kernel's counts of UDP in the whole network namespace during a trial (`/proc/net/snmp`, `/proc/net/snmp6`), both
/// protocols together. They include other programs' UDP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct UdpUse {
    /// `InDatagrams`.
    pub received: u64,
    /// `OutDatagrams`.
    pub sent: u64,
    /// `NoPorts`: no socket for them.
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
    /// Packets of any program on the machine that were dropped in a CPU's full backlog queue (`/proc/net/softnet_stat`);
    /// absent where the kernel does not report it.
    pub backlog_drops: Option<u64>,
}

sums!(UdpUse {
    received,
    sent,
    no_port,
    receive_errors,
    receive_buffer_errors,
    send_buffer_errors,
    checksum_errors,
    memory_errors,
    backlog_drops,
});

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sent: (u64, u64), came: (u64, u64), drops: Option<u64>, expected: (u64, u64, u64)) {
        let source = DatagramReport { total: sent.0, total_packets: sent.1, ..DatagramReport::default() };
        let sink =
            DatagramReport { total: came.0, duplicated: came.1, socket_drops: drops, ..DatagramReport::default() };
        let Deaths { lost, at_socket, unknown, .. } = Deaths::of(&source, &sink);
        assert_eq!((lost, at_socket, unknown), expected);
    }

    #[test]
    fn cut_off_datagrams_are_lost() {
        let count = |total, truncated| DatagramReport { total, truncated, ..DatagramReport::default() };
        let deaths = Deaths::of(&count(100, 0), &count(90, 20));
        assert_eq!((deaths.lost, deaths.cut_off, deaths.unknown), (30, 20, 10));
    }

    #[test]
    fn sums_ignore_a_missing_count() {
        let counted = |backlog_drops| UdpUse { backlog_drops, ..UdpUse::default() };
        assert_eq!(counted(Some(2)).plus(&counted(Some(3))).backlog_drops, Some(5));
        assert_eq!(counted(Some(2)).plus(&counted(None)).backlog_drops, Some(2));
        assert_eq!(counted(None).plus(&counted(None)).backlog_drops, None);
    }

    #[test]
    fn losses_have_a_place_or_are_unknown() {
        check((1000, 1000), (1000, 0), Some(0), (0, 0, 0));
        check((1000, 1000), (990, 0), Some(10), (10, 10, 0));
        check((1000, 1000), (992, 2), Some(4), (10, 4, 6));
        check((1000, 1000), (990, 0), None, (10, 0, 10));
        // Packets of 64: one that was dropped took all of its datagrams with it.
        check((6400, 100), (6272, 0), Some(2), (128, 128, 0));
        // More drops than datagrams were sent: the excess belongs to another program.
        check((10, 10), (9, 0), Some(50), (1, 1, 0));
    }
}
