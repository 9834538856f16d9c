//! The kernel's counts of protocols in a network namespace (`/proc/net/snmp`, `/proc/net/netstat`, `/proc/net/snmp6`).
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

use thiserror::Error;

use crate::network::NetworkTables;

/// The kernel's counts at one moment, since the namespace was made, by the kernel's names.
#[derive(Clone, Debug, Default)]
pub struct KernelCounts {
    /// Names and values of a protocol in two lines, which begin with the protocol.
    lines: String,
    /// A count a line, over IPv6; empty on a machine without it.
    v6: String,
}

impl KernelCounts {
    /// The present counts.
    ///
    /// # Errors
    ///
    /// The files' errors; they are missing where procfs is hidden.
    pub fn read(tables: NetworkTables) -> io::Result<KernelCounts> {
        let [snmp, netstat] = ["snmp", "netstat"].map(|file| fs::read_to_string(tables.path(file)));
        // Missing on a machine without IPv6.
        let v6 = fs::read_to_string(tables.path("snmp6")).unwrap_or_default();
        Ok(KernelCounts { lines: snmp? + &netstat?, v6 })
    }

    /// The count of a protocol (`Udp`, `Udp6`, `TcpExt`) and a name; `None` where the kernel does not count it.
    pub fn count(&self, protocol: &str, name: &str) -> Option<u64> {
        two_lines(&self.lines, protocol, name).or_else(|| one_line(&self.v6, protocol, name))
    }

    /// How much a count has grown since an earlier moment.
    pub fn gained(&self, earlier: &KernelCounts, protocol: &str, name: &str) -> Option<u64> {
        Some(self.count(protocol, name)?.saturating_sub(earlier.count(protocol, name)?))
    }
}

/// Why a counter cannot be read.
#[derive(Debug, Error)]
pub enum CounterError {
    /// The kernel has no count of this name.
    #[error(
        "`{0}` is counted nowhere: use a count of the kernel as nstat names it, with a point (TcpExt.TCPBacklogDrop, \
         Tcp.RetransSegs, Udp.RcvbufErrors, Udp6.RcvbufErrors)"
    )]
    Unknown(String),
    /// The counts cannot be read.
    #[error("reading the counter {0}: {1}")]
    Io(String, io::Error),
}

/// One of the counts, by the name that nstat(8) has for it, with a point: `TcpExt.TCPBacklogDrop`. It covers all processes in the
/// network namespace of its tables.
#[derive(Debug)]
pub struct Counter {
    tables: NetworkTables,
    name: String,
}

impl Counter {
    /// Opens a counter.
    ///
    /// # Errors
    ///
    /// As [`read`](Counter::read).
    pub fn open(tables: NetworkTables, name: &str) -> Result<Counter, CounterError> {
        let counter = Counter { tables, name: name.into() };
        counter.read()?;
        Ok(counter)
    }

    /// The present count.
    ///
    /// # Errors
    ///
    /// An unknown name, or a hidden file.
    pub fn read(&self) -> Result<u64, CounterError> {
        let counts = KernelCounts::read(self.tables).map_err(|error| CounterError::Io(self.name.clone(), error))?;
        let found = self.name.split_once('.').and_then(|(protocol, name)| counts.count(protocol, name));
        found.ok_or_else(|| CounterError::Unknown(self.name.clone()))
    }
}

/// Acknowledgements of TCP that were sent because their timer had run out: no data had gone back that could have carried them.
pub const DELAYED_ACKS: &str = "DelayedACKs";

/// Times that a SYN, or the end of a handshake, found a listener's queue of connections full.
pub const LISTEN_OVERFLOWS: &str = "ListenOverflows";

/// Times that nothing had been acknowledged for the retransmission time-out, SYNs included (tcp_retransmit_timer,
/// net/ipv4/tcp_timer.c).
pub const TIMEOUTS: &str = "TCPTimeouts";

/// The counts of segments of TCP that found no room at a receiver: dropped at a full receive buffer, dropped without a window, and
/// buffers that were searched, or joined, for memory (net/ipv4/tcp_input.c).
pub const TCP_DROPS: [&str; 4] = ["TCPRcvQDrop", "TCPZeroWindowDrop", "PruneCalled", "TCPRcvCollapsed"];

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
fn two_lines(text: &str, protocol: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(protocol)?.strip_prefix(": "));
    let (names, values) = (lines.next()?, lines.next()?);
    let mut pairs = names.split_whitespace().zip(values.split_whitespace());
    pairs.find(|(other, _)| *other == name)?.1.parse().ok()
}

/// A count from the line of its own, whose name begins with the protocol.
fn one_line(text: &str, protocol: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(protocol)?.split_once(char::is_whitespace));
    lines.find(|(other, _)| *other == name)?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsRawFd;
    use std::time::Duration;

    use super::*;
    use crate::tests::eventually;

    fn counts(lines: &str, v6: &str) -> KernelCounts {
        KernelCounts { lines: lines.into(), v6: v6.into() }
    }

    #[test]
    fn kernel_counters_are_found_by_name() {
        let counter = Counter::open(NetworkTables::own(), "Udp.OutDatagrams").unwrap();
        let before = counter.read().unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..5 {
            socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        }
        assert!(counter.read().unwrap() - before >= 5);
        Counter::open(NetworkTables::own(), "TcpExt.TCPBacklogDrop").unwrap();
    }

    #[test]
    fn an_unknown_name_is_counted_nowhere() {
        for name in ["page-faults", "TcpExt.TCPBacklogDorp", "", ".", "Udp."] {
            let message = Counter::open(NetworkTables::own(), name).unwrap_err().to_string();
            assert!(message.contains("is counted nowhere") && message.contains("TcpExt.TCPBacklogDrop"), "{message}");
        }
    }

    #[test]
    fn both_files_are_read_by_name() {
        let v4 = "Tcp: RtoMin InErrs\nTcp: 200 9\nUdp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors\n\
                  Udp: 10 1 4 20 3\nUdpLite: InDatagrams\nUdpLite: 99\n";
        let v6 = "Ip6InReceives   5\nUdp6InDatagrams \t 7\nUdp6RcvbufErrors 2\nUdpLite6InDatagrams 99\n";
        let found = counts(v4, v6);
        let names = ["InDatagrams", "NoPorts", "InErrors", "OutDatagrams", "RcvbufErrors", "MemErrors"];
        let expected = [Some(10), Some(1), Some(4), Some(20), Some(3), None];
        assert_eq!(names.map(|name| found.count("Udp", name)), expected);
        assert_eq!(["InDatagrams", "NoPorts"].map(|name| found.count("Udp6", name)), [Some(7), None]);
        let earlier = counts("Udp: InDatagrams RcvbufErrors\nUdp: 5 9\n", "");
        let gained = ["InDatagrams", "RcvbufErrors", "NoPorts"].map(|name| found.gained(&earlier, "Udp", name));
        assert_eq!(gained, [Some(5), Some(0), None]);
    }

    #[test]
    fn counts_of_tcp_are_read_by_name() {
        let text = "TcpExt: PruneCalled ListenOverflows DelayedACKs TCPTimeouts\nTcpExt: 5 4 17 3\nIpExt: InOctets\nIpExt: 9\n";
        let found = counts(text, "");
        let names = [DELAYED_ACKS, LISTEN_OVERFLOWS, TIMEOUTS].map(|name| found.count("TcpExt", name));
        assert_eq!(names, [Some(17), Some(4), Some(3)]);
        assert_eq!(TCP_DROPS.map(|name| found.count("TcpExt", name)), [None, None, Some(5), None]);
        assert_eq!(found.count("TcpExt", "InOctets"), None);
    }

    #[test]
    fn kernel_counts_overflows_of_a_listener() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        // SAFETY: listen(2) takes an open socket and a number; on a socket that listens it changes the backlog.
        assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
        let address = listener.local_addr().unwrap();
        let read = || KernelCounts::read(NetworkTables::own()).unwrap();
        let before = read();
        let counted = |name| read().gained(&before, "TcpExt", name);
        assert!(counted(DELAYED_ACKS).is_some());
        // The first of them takes the only place.
        let mut callers = Vec::new();
        eventually("calls that find no room are counted", || {
            callers.push(TcpStream::connect_timeout(&address, Duration::from_millis(1)));
            counted(LISTEN_OVERFLOWS).unwrap() >= 6
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
        let strange = [counts("", ""), counts("Udp: InDatagrams\nUdp: many\n", "Udp6InDatagrams")];
        assert!(strange.iter().all(|found| ["Udp", "Udp6"].iter().all(|it| found.count(it, "InDatagrams").is_none())));
    }
}
