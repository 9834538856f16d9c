//! Tables of names: how one is declared and searched, and those of transports, arrivals, placements, ends and kinds of work.
//! Others are with their topic, such as engines and relays.
//!
//! Help text, completions, plan validation and the conformance tests walk the tables. The code that moves bytes as a name
//! requests is in `traffic`.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::mem;
use std::str::FromStr;

use crate::suggest;
use crate::unit::{TextError, significant};

pub use crate::engine::{
    Abilities, AfterEvent, Batches, ENGINES, Engine, EngineEnd, EngineRow, EpollMode, UringKind, UringMode,
};
pub use crate::profile::{PROFILES, Profile};

/// One row of a table: a name and a line about it.
#[derive(Clone, Copy, Debug)]
pub struct Row<T: 'static> {
    /// The value of the row.
    pub value: T,
    /// The name in flags, plans, tables and documents.
    pub name: &'static str,
    /// One line of help.
    pub summary: &'static str,
}

pub(crate) const fn row<T>(value: T, name: &'static str, summary: &'static str) -> Row<T> {
    Row { value, name, summary }
}

pub(crate) fn lookup<T: Clone>(kind: &'static str, table: &'static [Row<T>], name: &str) -> Result<T, TextError> {
    find(kind, table.iter().map(|row| (row.name, &row.value)), name).cloned()
}

/// The value of a name in a table of any rows.
pub(crate) fn find<T>(
    kind: &'static str,
    mut table: impl Iterator<Item = (&'static str, T)> + Clone,
    name: &str,
) -> Result<T, TextError> {
    let names = table.clone().map(|(name, _)| name);
    let found = table.find(|(known, _)| *known == name).map(|(_, value)| value);
    found.ok_or_else(|| suggest::unknown(kind, name, names))
}

pub(crate) fn name_of<T: PartialEq>(table: &'static [Row<T>], value: &T) -> &'static str {
    table.iter().find(|row| row.value == *value).map_or("?", |row| row.name)
}

/// Declares an enum whose values have names, and their table: a row for each value, with its name and a line of help, which is its
/// documentation as well. It is stored by its name.
macro_rules! names {
    (
        $(#[$meta:meta])* $type:ident, $kind:literal, $table:ident {
            $($(#[$of_value:meta])* $value:ident = $name:literal: $summary:literal,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $type {
            $($(#[$of_value])* #[doc = $summary] $value,)+
        }

        #[doc = concat!("Every ", $kind, ".")]
        pub const $table: &[$crate::name_tables::Row<$type>] =
            &[$($crate::name_tables::row($type::$value, $name, $summary),)+];

        impl std::str::FromStr for $type {
            type Err = $crate::unit::TextError;
            fn from_str(name: &str) -> Result<Self, Self::Err> {
                $crate::name_tables::lookup($kind, $table, name)
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad($crate::name_tables::name_of($table, self))
            }
        }

        $crate::name_tables::text_serde!($type);
    };
}
pub(crate) use names;

/// Makes a type be stored as its text.
#[macro_export]
macro_rules! text_serde {
    ($type:ty) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use text_serde;

/// How two ends are joined, or a one-ended source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// A Unix stream socket.
    Unix,
    /// TCP over loopback, IPv4.
    Tcp,
    /// TCP over loopback, IPv6.
    Tcp6,
    /// Multipath TCP over loopback, IPv4.
    Mptcp,
    /// A Unix socket of sequenced packets: a connection that keeps the bounds of messages.
    UnixSeqpacket,
    /// A stream socket of virtual machines, over the loopback of this machine.
    Vsock,
    /// A pipe.
    Pipe,
    /// UDP over loopback, IPv4.
    Udp,
    /// UDP over loopback, IPv6.
    Udp6,
    /// A Unix datagram socket.
    UnixDatagram,
    /// A device or any readable file: one end, no writer.
    Source(String),
}

/// The transports with two ends. A path (`/dev/zero`, `./data.bin`) names a one-ended source.
pub const TRANSPORTS: &[Row<Transport>] = &[
    row(Transport::Unix, "unix", "Unix stream socket"),
    row(Transport::Tcp, "tcp", "TCP over loopback, IPv4"),
    row(Transport::Tcp6, "tcp6", "TCP over loopback, IPv6"),
    row(Transport::Mptcp, "mptcp", "Multipath TCP over loopback, IPv4"),
    row(Transport::UnixSeqpacket, "unix-seqpacket", "Unix socket of packets: a read takes one write"),
    row(Transport::Vsock, "vsock", "vsock(7) over its loopback"),
    row(Transport::Pipe, "pipe", "pipe, writer and reader"),
    row(Transport::Udp, "udp", "UDP over loopback, IPv4: datagrams, some of which may be lost"),
    row(Transport::Udp6, "udp6", "UDP over loopback, IPv6: datagrams, some of which may be lost"),
    row(Transport::UnixDatagram, "unix-dgram", "Unix datagram socket: a full queue stops the sender"),
];

impl Transport {
    /// Whether there is a writer at the other end.
    pub fn two_ended(&self) -> bool {
        !matches!(self, Transport::Source(_))
    }

    /// Whether the ends are sockets (have `SO_*` options).
    pub fn is_socket(&self) -> bool {
        self.is_tcp()
            || self.is_datagram()
            || matches!(self, Transport::Unix | Transport::UnixSeqpacket | Transport::Vsock)
    }

    /// Whether the ends are sockets that carry datagrams: each has its bounds, and none is retransmitted.
    pub fn is_datagram(&self) -> bool {
        self.is_udp() || *self == Transport::UnixDatagram
    }

    /// Whether the ends are sockets that are connected to each other, and carry bytes.
    pub fn is_connection(&self) -> bool {
        self.is_socket() && !self.is_datagram()
    }

    /// Whether the ends use UDP.
    pub fn is_udp(&self) -> bool {
        matches!(self, Transport::Udp | Transport::Udp6)
    }

    /// Most bytes of one datagram, by the protocol: 65,535 bytes of a packet less its headers (RFC 791,
    /// RFC 768), which over IPv6 are not part of that length (RFC 8200). `None` where something else is the limit,
    /// or there are no datagrams.
    pub fn datagram_max(&self) -> Option<u64> {
        match self {
            Transport::Udp => Some(65_507),
            Transport::Udp6 => Some(65_527),
            _ => None,
        }
    }

    /// Whether the ends use TCP, over one path or several.
    pub fn is_tcp(&self) -> bool {
        matches!(self, Transport::Tcp | Transport::Tcp6 | Transport::Mptcp)
    }

    /// Whether the ends are Unix sockets of any kind.
    pub fn is_unix(&self) -> bool {
        matches!(self, Transport::Unix | Transport::UnixSeqpacket | Transport::UnixDatagram)
    }

    /// Whether each read takes one write, and loses bytes for which it has no room.
    pub fn keeps_bounds(&self) -> bool {
        *self == Transport::UnixSeqpacket
    }
}

impl FromStr for Transport {
    type Err = TextError;

    fn from_str(name: &str) -> Result<Self, TextError> {
        if name.starts_with('/') || name.starts_with("./") || name.starts_with("../") {
            return Ok(Transport::Source(name.into()));
        }
        lookup("transport", TRANSPORTS, name)
            .map_err(|TextError(text)| TextError(text + " (or a path such as /dev/zero or ./file)"))
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Transport::Source(path) => f.pad(path),
            two_ended => f.pad(name_of(TRANSPORTS, two_ended)),
        }
    }
}

text_serde!(Transport);

names! {
    /// How offered calls are spaced over time.
    #[derive(Default)]
    Arrivals, "kind of arrivals", ARRIVALS {
        #[default]
        Constant = "constant": "calls at equal distances",
        Poisson = "poisson": "calls independent of each other: bursts included",
    }
}

names! {
    /// The socket whose `SO_RCVBUF` is set.
    #[derive(Default)]
    RcvbufOn, "socket", RCVBUF_ON {
        #[default]
        Listener = "listener": "the listening socket: accepted ones inherit it, with its window scale",
        Accepted = "accepted": "each accepted socket, when the scale is fixed",
        Client = "client": "the client's socket, before connect(2)",
    }
}

names! {
    /// Where the two ends of a flow run, within the CPUs that the process may use.
    Placement, "placement", PLACEMENTS {
        Unpinned = "unpinned": "the scheduler decides, and may move them within a trial",
        SameCpu = "same-cpu": "both ends pinned to one CPU",
        SmtSibling = "smt-sibling": "two hardware threads of one core",
        CrossCore = "cross-core": "two cores of one node",
        CrossNode = "cross-node": "two NUMA nodes",
    }
}

names! {
    /// Whether the two ends of a path are threads of one process or two processes.
    #[derive(Default)]
    Ends, "kind of ends", ENDS {
        #[default]
        Threads = "threads": "both ends are threads of one process",
        Processes = "processes": "each end is a process of its own, fresh in every block",
    }
}

/// Declares what an end does with the bytes of each call: one of some names, or a number of nanoseconds per byte. It is stored as
/// its text.
macro_rules! work {
    (
        $(#[$meta:meta])* $type:ident, $expected:literal { $($(#[$of_value:meta])* $value:ident = $name:literal,)+ }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub enum $type {
            $($(#[$of_value])* $value,)+
            /// Spins for this number of nanoseconds per byte.
            NsPerByte(f64),
        }

        impl FromStr for $type {
            type Err = TextError;

            fn from_str(text: &str) -> Result<Self, TextError> {
                match text {
                    $($name => Ok($type::$value),)+
                    _ => ns_per_byte(text, $expected).map($type::NsPerByte),
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $($type::$value => f.pad($name),)+
                    $type::NsPerByte(ns) => f.pad(&format!("{}ns", significant(*ns, 6))),
                }
            }
        }

        text_serde!($type);

        // The nanoseconds of a byte are finite: nothing else parses.
        impl Eq for $type {}

        impl Hash for $type {
            fn hash<H: Hasher>(&self, state: &mut H) {
                mem::discriminant(self).hash(state);
                if let $type::NsPerByte(ns) = self {
                    // Zero has two signs, which are equal.
                    (ns + 0.0).to_bits().hash(state);
                }
            }
        }
    };
}

fn ns_per_byte(text: &str, expected: &'static str) -> Result<f64, TextError> {
    let ns: Option<f64> = text.strip_suffix("ns").unwrap_or(text).trim().parse().ok();
    // More than a millisecond a byte is a mistake in the unit, not a reader.
    ns.filter(|ns| (0.0..=1e6).contains(ns)).ok_or_else(|| TextError::malformed(text, expected))
}

work! {
    /// The reader's work on each read before the next.
    Work, "work: use none, sum, copy, or nanoseconds per byte such as 0.5ns" {
        /// Discards the bytes.
        #[default]
        None = "none",
        /// Sums every byte.
        Sum = "sum",
        /// Copies every byte to memory of its own.
        Copy = "copy",
    }
}

work! {
    /// The writer's work on its buffer before each write.
    Fill, "a fill: use none, touch, or nanoseconds per byte such as 0.5ns" {
        /// Sends the same bytes again.
        #[default]
        None = "none",
        /// Writes every byte of the buffer again.
        Touch = "touch",
    }
}

#[cfg(test)]
mod tests;
