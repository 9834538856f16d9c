//! Whether a command may have reached its server: by the kernel's counts of the network namespace, which see every connection of
//! TCP, that of another program too.
//!
//! Other programs' traffic hides a command that reaches nothing. A command that reaches its server is not taken for one that
//! does not: it opens a connection here, or one arrives here, or packets for it are forwarded here, or it uses datagrams. An attempt
//! that is refused is counted as opened and as failed (RFC 4022, tcpActiveOpens and tcpAttemptFails).

use bytegauge_model::ReadyWhen;
use bytegauge_sys::counter::Counter;
use bytegauge_sys::interface::NetworkTables;

/// Connections that were opened, attempts that failed, connections that were accepted, packets forwarded to other namespaces, and
/// datagrams.
const COUNTS: [&str; 6] = [
    "Tcp.ActiveOpens",
    "Tcp.AttemptFails",
    "Tcp.PassiveOpens",
    "Ip.ForwDatagrams",
    "Udp.InDatagrams",
    "Udp6.InDatagrams",
];

/// The counts before a command.
pub(super) struct NamespaceCounts(Vec<(Counter, u64)>);

impl NamespaceCounts {
    /// Reads the counts; `None` where the server does not wait for TCP, and without the counts of TCP.
    pub(super) fn before(tables: NetworkTables, ready: &ReadyWhen) -> Option<NamespaceCounts> {
        let ReadyWhen::Tcp(_) = ready else { return None };
        let known = COUNTS.into_iter().filter_map(|name| {
            let counter = Counter::open(tables, name).ok()?;
            let count = counter.read().ok()?;
            Some((name, counter, count))
        });
        let known: Vec<_> = known.collect();
        // Datagrams over IPv6 are not counted where the machine has none.
        let is_enough = COUNTS[..5].iter().all(|name| known.iter().any(|(other, ..)| other == name));
        is_enough.then(|| NamespaceCounts(known.into_iter().map(|(_, counter, count)| (counter, count)).collect()))
    }

    /// Counts since then; `None` where one cannot be read.
    fn since(&self) -> Option<Vec<u64>> {
        let since = |(counter, before): &(Counter, u64)| Some(counter.read().ok()?.wrapping_sub(*before));
        self.0.iter().map(since).collect()
    }

    /// Whether an attempt to connect has failed since.
    pub(super) fn has_failed_connection(&self) -> bool {
        matches!(self.since().as_deref(), Some([_, failed, ..]) if *failed > 0)
    }

    /// Whether nothing was counted since but attempts that failed.
    pub(super) fn is_unchanged(&self) -> bool {
        matches!(self.since().as_deref(), Some([opened, failed, others @ ..]) if opened <= failed && others.iter().all(|n| *n == 0))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connection_is_seen() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("its address");
        let before = NamespaceCounts::before(NetworkTables::own(), &ReadyWhen::Tcp(address.port())).expect("counts");
        let _client = TcpStream::connect(address).expect("a connection");
        assert!(!before.is_unchanged());
        assert!(NamespaceCounts::before(NetworkTables::own(), &ReadyWhen::Printed("ready".into())).is_none());
    }
}
