//! The table of comparisons: which end is measured, over what, by which engine and which C program.
//!
//! A case is one end with one traffic; every engine that can be that end is an entrant, so that rankings can be compared.

use std::fmt;

use bytegauge_model::{Bytes, EndRole};

/// The traffic between the ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Traffic {
    /// Bytes one way; the size is that of a read and a write.
    Stream,
    /// Echo calls; the size is that of a request and a reply.
    Calls,
    /// Datagrams one way.
    Datagrams,
}

/// One end with one traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EngineCase {
    pub(super) end: EndRole,
    pub(super) traffic: Traffic,
    /// As `--transport` takes it.
    pub(super) transport: &'static str,
    pub(super) connections: usize,
    pub(super) size: u64,
}

/// An engine and a program of the same kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entrant {
    /// As `--engine` or `--relay` takes it.
    pub(super) ours: &'static str,
    /// The program that it is compared with, as it is built.
    pub(super) program: &'static str,
    pub(super) mode: &'static str,
}

const fn entrant(ours: &'static str, program: &'static str, mode: &'static str) -> Entrant {
    Entrant { ours, program, mode }
}

const BLOCKING: Entrant = entrant("blocking", "blocking", "-");
const EPOLL: Entrant = entrant("epoll", "epoll", "-");
const PLAIN: Entrant = entrant("uring:plain", "uring", "plain");
const MULTISHOT: Entrant = entrant("uring:multishot", "uring", "multishot");
const ZERO_COPY: Entrant = entrant("uring:zc", "uring", "zc");
/// Tokio's own users write Rust; it serves TCP alone.
const TOKIO: Entrant = entrant("tokio", "tokio-echo/release/tokio-echo", "-");
const DATAGRAMS: [Entrant; 3] =
    [entrant("plain", "datagram", "plain"), entrant("mmsg", "datagram", "mmsg"), entrant("gso", "datagram", "gso")];
const RELAYS: [Entrant; 5] = [
    entrant("read-write", "relay", "read-write"),
    entrant("splice", "relay", "splice"),
    entrant("epoll", "relay", "epoll"),
    entrant("uring", "uring", "plain"),
    entrant("uring-multishot", "uring", "multishot"),
];

const STREAM_SIZES: [u64; 3] = [4 << 10, 64 << 10, 256 << 10];
const CALLS: [(usize, u64); 9] =
    [(1, 64), (1, 512), (1, 10 << 10), (50, 64), (50, 512), (50, 10 << 10), (500, 64), (500, 512), (500, 10 << 10)];
/// Bytes of a message of which each has a call of its own.
const MESSAGE_SIZE: u64 = 64;
/// Bytes of a datagram: small ones, and nearly an MTU of Ethernet.
const DATAGRAM_SIZES: [u64; 2] = [64, 1000];
/// Bytes of a relay's buffer for one direction.
pub(super) const RELAY_BUFFER: u64 = 64 << 10;

/// All cases.
pub(super) fn cases() -> Vec<EngineCase> {
    let mut cases = Vec::new();
    let mut case = |end, traffic, transport, connections, size| {
        cases.push(EngineCase { end, traffic, transport, connections, size });
    };
    for end in [EndRole::Sink, EndRole::Source] {
        for transport in ["unix", "tcp"] {
            STREAM_SIZES.iter().for_each(|size| case(end, Traffic::Stream, transport, 1, *size));
        }
        case(end, Traffic::Stream, "tcp", 1, MESSAGE_SIZE);
        DATAGRAM_SIZES.iter().for_each(|size| case(end, Traffic::Datagrams, "udp", 1, *size));
    }
    for end in [EndRole::Server, EndRole::Client] {
        case(end, Traffic::Calls, "unix", 50, 512);
        CALLS.iter().for_each(|(connections, size)| case(end, Traffic::Calls, "tcp", *connections, *size));
    }
    case(EndRole::Relay, Traffic::Stream, "tcp", 1, RELAY_BUFFER);
    case(EndRole::Relay, Traffic::Calls, "tcp", 50, 10 << 10);
    cases
}

impl EngineCase {
    /// The engines that can be this end.
    pub(super) fn entrants(&self) -> Vec<Entrant> {
        match (self.end, self.traffic) {
            (EndRole::Relay, _) => RELAYS.to_vec(),
            (_, Traffic::Datagrams) => DATAGRAMS.to_vec(),
            (EndRole::Sink, _) => vec![BLOCKING, EPOLL, PLAIN, MULTISHOT],
            (EndRole::Source, _) if self.transport == "unix" => vec![BLOCKING, EPOLL, PLAIN],
            (EndRole::Source, _) => vec![BLOCKING, EPOLL, PLAIN, ZERO_COPY],
            (EndRole::Server, _) if self.transport == "tcp" => {
                vec![BLOCKING, EPOLL, PLAIN, MULTISHOT, TOKIO]
            }
            _ => vec![BLOCKING, EPOLL, PLAIN, MULTISHOT],
        }
    }

    /// The end's name in the document.
    pub(super) fn end_name(&self) -> &'static str {
        match self.end {
            EndRole::Source => "writer",
            EndRole::Sink => "reader",
            other => other.name(),
        }
    }

    /// The traffic, without the end: the heading of a column.
    pub(super) fn column(&self) -> String {
        match self.traffic {
            Traffic::Calls => format!("{} {} × {}", self.transport, self.connections, Bytes(self.size)),
            _ => format!("{} {}", self.transport, Bytes(self.size)),
        }
    }

    /// The unit of a rate.
    pub(super) fn unit(&self) -> (&'static str, f64) {
        match self.traffic {
            Traffic::Stream => ("GiB/s", (1u64 << 30) as f64),
            Traffic::Calls => ("1000 calls/s", 1e3),
            Traffic::Datagrams => ("1000 packets/s", 1e3),
        }
    }
}

impl fmt::Display for EngineCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.end_name(), self.column())
    }
}

/// The name of a row, by which its measurement is stored and `--rows` finds it.
pub(super) fn row_name(case: &EngineCase, entrant: &Entrant) -> String {
    format!("{case} {}", entrant.ours)
}

/// Whether a row has all words of a filter in its name; `uring` is a word of `uring:plain`.
pub fn is_asked(name: &str, filter: Option<&str>) -> bool {
    let has = |word: &str| name.split_whitespace().any(|own| own == word || own.split(':').next() == Some(word));
    filter.is_none_or(|filter| filter.split_whitespace().all(has))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn rows_have_different_names() {
        let names: Vec<String> = cases()
            .iter()
            .flat_map(|case| case.entrants().iter().map(|entrant| row_name(case, entrant)).collect::<Vec<_>>())
            .collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        assert!(names.contains(&"reader tcp 64 KiB uring:multishot".to_owned()), "{names:?}");
    }

    #[test]
    fn filters_need_all_words() {
        let name = "server tcp 500 × 64 B uring:plain";
        let asked = ["tcp server", "500 uring"];
        let other = ["tcp client", "50", "uring:multishot", "plain"];
        let filters = asked.map(|words| (Some(words), true)).into_iter().chain(other.map(|words| (Some(words), false)));
        for (filter, expected) in filters.chain([(None, true)]) {
            assert_eq!(is_asked(name, filter), expected, "{filter:?}");
        }
    }

    #[test]
    fn engines_are_those_of_the_product() {
        for case in cases() {
            for Entrant { ours, .. } in case.entrants() {
                let is_known = match case.end {
                    EndRole::Relay => ours.parse::<bytegauge_model::RelayMethod>().is_ok(),
                    _ => ours.parse::<bytegauge_model::Engine>().is_ok(),
                };
                assert!(is_known, "{ours}");
            }
        }
    }
}
