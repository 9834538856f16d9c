//! The kernel's own counts of UDP in this network namespace (`/proc/net/snmp`, `/proc/net/snmp6`), and some of TCP
//! (`/proc/net/netstat`).
//!
//! In addition, packets that the machine dropped before any protocol processed them (`/proc/net/softnet_stat`).
//!
//! The counts show where datagrams were lost that no socket of a trial reports, how often an end waited for the other's
//! timer, and how often a connection found no room at a listener.
//!
//! They cover the whole namespace, so they include UDP and TCP traffic of other programs. A packet that was joined, or
//! not yet segmented, counts once per datagram in `OutDatagrams` and `InDatagrams` if the kernel segments it, else once.

use std::fs;
use std::io;

use serde::{Deserialize, Serialize};

use crate::counts::counts;

/// The counts of one protocol, since the namespace was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UdpCounts {
    /// Handed to sockets' readers (`InDatagrams`).
    pub received: u64,
    /// Sent (`OutDatagrams`).
    pub sent: u64,
    /// Arrived for a port without a socket (`NoPorts`).
    pub no_port: u64,
    /// Could not be delivered for any other reason (`InErrors`); holds those below that are received.
    pub receive_errors: u64,
    /// Dropped because the socket's receive buffer was full (`RcvbufErrors`).
    pub receive_buffer_errors: u64,
    /// Not sent for lack of memory or room (`SndbufErrors`).
    pub send_buffer_errors: u64,
    /// Dropped for a wrong checksum (`InCsumErrors`).
    pub checksum_errors: u64,
    /// Dropped because UDP as a whole had used up its memory, `net.ipv4.udp_mem` (`MemErrors`, Linux 5.11).
    pub memory_errors: u64,
}

counts!(UdpCounts {
    received,
    sent,
    no_port,
    receive_errors,
    receive_buffer_errors,
    send_buffer_errors,
    checksum_errors,
    memory_errors
});

impl UdpCounts {
    fn of(count: impl Fn(&str) -> Option<u64>) -> UdpCounts {
        let count = |name| count(name).unwrap_or(0);
        UdpCounts {
            received: count("InDatagrams"),
            sent: count("OutDatagrams"),
            no_port: count("NoPorts"),
            receive_errors: count("InErrors"),
            receive_buffer_errors: count("RcvbufErrors"),
            send_buffer_errors: count("SndbufErrors"),
            checksum_errors: count("InCsumErrors"),
            memory_errors: count("MemErrors"),
        }
    }
}

/// The counts of both protocols.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snmp {
    /// UDP over IPv4.
    pub udp: UdpCounts,
    /// UDP over IPv6; zero where the machine has none.
    pub udp6: UdpCounts,
}

/// Reads the counts now.
///
/// # Errors
///
/// The file's error; it is missing where procfs is hidden.
pub fn read() -> io::Result<Snmp> {
    let v4 = fs::read_to_string("/proc/net/snmp")?;
    // Missing on a machine without IPv6.
    let v6 = fs::read_to_string("/proc/net/snmp6").unwrap_or_default();
    Ok(parse(&v4, &v6))
}

/// Counts of TCP, over IPv4 and IPv6 together, since the namespace was made; each is absent where the kernel does not
/// count it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpCounts {
    /// Acknowledgements sent because their timer had run out (`DelayedACKs`): no data had gone back that could have
    /// carried them.
    pub delayed_acks: Option<u64>,
    /// Times that a SYN, or the end of a handshake, found a listener's queue of connections full (`ListenOverflows`).
    pub listen_overflows: Option<u64>,
    /// Times that nothing had been acknowledged for the retransmission time-out, SYNs included (`TCPTimeouts`;
    /// tcp_retransmit_timer, net/ipv4/tcp_timer.c).
    pub timeouts: Option<u64>,
    /// The counts of [`TCP_DROPS`].
    pub drops: [Option<u64>; TCP_DROPS.len()],
}

/// The kernel's names of the counts of segments that found no room at a receiver: dropped at a full receive buffer, dropped
/// without a window, and buffers that were searched, or joined, for memory (net/ipv4/tcp_input.c).
pub const TCP_DROPS: [&str; 4] = ["TCPRcvQDrop", "TCPZeroWindowDrop", "PruneCalled", "TCPRcvCollapsed"];

impl TcpCounts {
    /// The difference to an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &TcpCounts) -> TcpCounts {
        let gained = |of: fn(&TcpCounts) -> Option<u64>| Some(of(self)?.saturating_sub(of(earlier)?));
        TcpCounts {
            delayed_acks: gained(|counts| counts.delayed_acks),
            listen_overflows: gained(|counts| counts.listen_overflows),
            timeouts: gained(|counts| counts.timeouts),
            drops: std::array::from_fn(|at| Some(self.drops[at]?.saturating_sub(earlier.drops[at]?))),
        }
    }

    fn of(text: &str) -> TcpCounts {
        let count = |name| two_lines(text, "TcpExt: ", name);
        TcpCounts {
            delayed_acks: count("DelayedACKs"),
            listen_overflows: count("ListenOverflows"),
            timeouts: count("TCPTimeouts"),
            drops: TCP_DROPS.map(count),
        }
    }
}

/// Reads the counts of TCP now.
///
/// # Errors
///
/// The file's error; it is missing where procfs is hidden.
pub fn read_tcp() -> io::Result<TcpCounts> {
    Ok(TcpCounts::of(&fs::read_to_string("/proc/net/netstat")?))
}

/// Packets that the machine dropped because a CPU's backlog queue was full (`net.core.netdev_max_backlog`), summed over
/// all CPUs and network namespaces. Packets sent over loopback pass through this queue too.
///
/// # Errors
///
/// The file's error, and `InvalidData` if its format is unexpected.
pub fn backlog_drops() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/net/softnet_stat")?;
    dropped(&text).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The sum of the second column, hexadecimal, of a line for each CPU (softnet_seq_show, net/core/net-procfs.c).
fn dropped(text: &str) -> Option<u64> {
    let column = |line: &str| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok();
    text.lines().try_fold(0u64, |sum, line| Some(sum.saturating_add(column(line)?)))
}

/// A count from two lines of a protocol: names, then values, in the same order.
pub(crate) fn two_lines(text: &str, protocol: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(protocol));
    let (names, values) = (lines.next()?, lines.next()?);
    let mut pairs = names.split_whitespace().zip(values.split_whitespace());
    pairs.find(|(other, _)| *other == name)?.1.parse().ok()
}

fn parse(v4: &str, v6: &str) -> Snmp {
    let v4 = |name: &str| two_lines(v4, "Udp: ", name);
    // One line a count.
    let v6 = |name: &str| {
        let mut fields = v6.lines().filter_map(|line| line.strip_prefix("Udp6")?.split_once(char::is_whitespace));
        fields.find(|(other, _)| *other == name)?.1.trim().parse().ok()
    };
    Snmp { udp: UdpCounts::of(v4), udp6: UdpCounts::of(v6) }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::time::Duration;

    use super::*;
    use crate::tests::eventually;

    #[test]
    fn both_files_are_read_by_name() {
        let v4 = "Tcp: RtoMin InErrs\nTcp: 200 9\nUdp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors\n\
                  Udp: 10 1 4 20 3\nUdpLite: InDatagrams\nUdpLite: 99\n";
        let v6 = "Ip6InReceives   5\nUdp6InDatagrams \t 7\nUdp6RcvbufErrors 2\nUdpLite6InDatagrams 99\n";
        let snmp = parse(v4, v6);
        let expected = UdpCounts {
            received: 10,
            no_port: 1,
            receive_errors: 4,
            sent: 20,
            receive_buffer_errors: 3,
            ..UdpCounts::default()
        };
        assert_eq!(snmp.udp, expected);
        assert_eq!(snmp.udp6, UdpCounts { received: 7, receive_buffer_errors: 2, ..UdpCounts::default() });
        assert_eq!(snmp.udp.since(&UdpCounts { sent: 5, ..UdpCounts::default() }).sent, 15);
    }

    #[test]
    fn counts_of_tcp_are_read_by_name() {
        let text = "TcpExt: PruneCalled ListenOverflows DelayedACKs TCPTimeouts\nTcpExt: 5 4 17 3\nIpExt: InOctets\nIpExt: 9\n";
        let counts = TcpCounts::of(text);
        let drops = |pruned| [None, None, pruned, None];
        let expected =
            TcpCounts { delayed_acks: Some(17), listen_overflows: Some(4), timeouts: Some(3), drops: drops(Some(5)) };
        assert_eq!(counts, expected);
        let earlier =
            TcpCounts { delayed_acks: Some(7), listen_overflows: None, timeouts: Some(1), drops: drops(Some(2)) };
        let gained =
            TcpCounts { delayed_acks: Some(10), listen_overflows: None, timeouts: Some(2), drops: drops(Some(3)) };
        assert_eq!(counts.since(&earlier), gained);
        assert_eq!(TcpCounts::of("TcpExt: TW\n"), TcpCounts::default());
    }

    #[test]
    fn kernel_counts_overflows_of_a_listener() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        // SAFETY: listen(2) takes an open socket and a number; on a socket that listens it changes the backlog.
        assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
        let address = listener.local_addr().unwrap();
        let before = read_tcp().unwrap();
        let counted = || read_tcp().unwrap().since(&before);
        assert!(counted().delayed_acks.is_some(), "{:?}", counted());
        // The first of them takes the only place.
        let mut callers = Vec::new();
        eventually("calls that find no room are counted", || {
            callers.push(TcpStream::connect_timeout(&address, Duration::from_millis(1)));
            counted().listen_overflows.unwrap() >= 6
        });
        assert!(callers.iter().any(Result::is_err), "{callers:?}");
    }

    #[test]
    fn backlog_drops_are_summed_over_cpus() {
        let text = "0000b1e5 0000000a 00000000 00000000\n00001000 000000ff 00000002 00000000\n";
        assert_eq!(dropped(text), Some(265));
        assert_eq!(dropped("0000b1e5\n"), None);
        assert_eq!(dropped("0000b1e5 many\n"), None);
        backlog_drops().unwrap();
    }

    #[test]
    fn files_that_are_hidden_or_strange_count_nothing() {
        assert_eq!(parse("", ""), Snmp::default());
        assert_eq!(parse("Udp: InDatagrams\nUdp: many\n", "Udp6InDatagrams"), Snmp::default());
    }
}
