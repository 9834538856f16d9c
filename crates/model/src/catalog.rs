//! The tables of names: transports, placements, kinds of work; the engines have a file of their own.
//!
//! Long because it contains many tables, each of them short.
//!
//! Help text, completions, plan validation and the conformance tests walk these tables; a name is written
//! here and nowhere else. Never carries a name out: that is `traffic`'s part.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::mem;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::suggest;
use crate::unit::significant;

pub use crate::engine::{
    Abilities, Batches, ENGINES, Engine, EngineEnd, EngineRow, EpollMode, Threads, UringKind, UringMode,
};
pub use crate::profile::{PARSER_WALK, PROFILES, Profile};

/// A name that is in none of the tables, or a value that does not parse.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum NameError {
    /// Not in the table of this kind.
    #[error("no {kind} is called `{name}`{hint}")]
    Unknown {
        /// The kind of name: "transport", "engine", …
        kind: &'static str,
        /// The text given.
        name: String,
        /// The most similar name, or all names.
        hint: String,
    },
    /// In the table, but not usable in this workload.
    #[error("{kind} `{name}` does not carry the workload {workload}: use one of {fitting}")]
    Unfit {
        /// The kind of name.
        kind: &'static str,
        /// The name given.
        name: String,
        /// The workload.
        workload: &'static str,
        /// The names that fit.
        fitting: String,
    },
    /// Text that does not parse, and what it is not.
    #[error("`{0}` is not {1}")]
    Malformed(String, &'static str),
}

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

pub(crate) fn lookup<T: Clone>(kind: &'static str, table: &'static [Row<T>], name: &str) -> Result<T, NameError> {
    table.iter().find(|row| row.name == name).map(|row| row.value.clone()).ok_or_else(|| NameError::Unknown {
        kind,
        name: name.into(),
        hint: suggest::hint(name, table.iter().map(|row| row.name)),
    })
}

pub(crate) fn name_of<T: PartialEq>(table: &'static [Row<T>], value: &T) -> &'static str {
    table.iter().find(|row| row.value == *value).map_or("?", |row| row.name)
}

/// Implements `FromStr` and `Display` for an enum with a table.
macro_rules! named {
    ($type:ty, $kind:literal, $table:ident) => {
        impl FromStr for $type {
            type Err = NameError;
            fn from_str(name: &str) -> Result<Self, NameError> {
                lookup($kind, $table, name)
            }
        }
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(name_of($table, self))
            }
        }
    };
}
pub(crate) use named;

/// How two ends are joined, or a one-ended source.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
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
    Row { value: Transport::Unix, name: "unix", summary: "Unix stream socket" },
    Row { value: Transport::Tcp, name: "tcp", summary: "TCP over loopback, IPv4" },
    Row { value: Transport::Tcp6, name: "tcp6", summary: "TCP over loopback, IPv6" },
    Row { value: Transport::Mptcp, name: "mptcp", summary: "Multipath TCP over loopback, IPv4" },
    Row {
        value: Transport::UnixSeqpacket,
        name: "unix-seqpacket",
        summary: "Unix socket of packets: a read takes one write",
    },
    Row { value: Transport::Vsock, name: "vsock", summary: "vsock(7) over its loopback" },
    Row { value: Transport::Pipe, name: "pipe", summary: "pipe, writer and reader" },
    Row {
        value: Transport::Udp,
        name: "udp",
        summary: "UDP over loopback, IPv4: datagrams, some of which may be lost",
    },
    Row {
        value: Transport::Udp6,
        name: "udp6",
        summary: "UDP over loopback, IPv6: datagrams, some of which may be lost",
    },
    Row {
        value: Transport::UnixDatagram,
        name: "unix-dgram",
        summary: "Unix datagram socket: a full queue stops the sender",
    },
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

    /// Whether each read takes one write, and loses bytes for which it has no room.
    pub fn keeps_bounds(&self) -> bool {
        *self == Transport::UnixSeqpacket
    }

    /// Whether the ends are the two ends of a pipe.
    pub fn is_pipe(&self) -> bool {
        *self == Transport::Pipe
    }
}

impl FromStr for Transport {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        if name.starts_with('/') || name.starts_with("./") || name.starts_with("../") {
            return Ok(Transport::Source(name.into()));
        }
        lookup("transport", TRANSPORTS, name).map_err(|error| match error {
            NameError::Unknown { kind, name, hint } => {
                NameError::Unknown { kind, name, hint: format!("{hint} (or a path such as /dev/zero or ./file)") }
            }
            other => other,
        })
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

impl From<Transport> for String {
    fn from(transport: Transport) -> String {
        transport.to_string()
    }
}

impl TryFrom<String> for Transport {
    type Error = NameError;

    fn try_from(name: String) -> Result<Self, NameError> {
        name.parse()
    }
}

/// How offered calls are spaced over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// At equal distances.
    #[default]
    Constant,
    /// Independently of each other: exponential distances, bursts included.
    Poisson,
}

/// The kinds of arrivals.
pub const ARRIVALS: &[Row<Arrivals>] = &[
    Row { value: Arrivals::Constant, name: "constant", summary: "calls at equal distances" },
    Row { value: Arrivals::Poisson, name: "poisson", summary: "calls independent of each other: bursts included" },
];
named!(Arrivals, "kind of arrivals", ARRIVALS);

/// The users of a measured thread's descriptor table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FdTable {
    /// All threads of the process, as in Go, Java and Tokio programs.
    #[default]
    Shared,
    /// The thread alone, as in single-threaded programs such as `dd`, Redis and nginx workers.
    Private,
}

/// The kinds of descriptor tables.
pub const FD_TABLES: &[Row<FdTable>] = &[
    Row {
        value: FdTable::Shared,
        name: "shared",
        summary: "all threads of the process use one table, as in Go or Tokio",
    },
    Row {
        value: FdTable::Private,
        name: "private",
        summary: "each measured thread has its own, as a single-threaded program",
    },
];
named!(FdTable, "descriptor table", FD_TABLES);

/// The socket whose `SO_RCVBUF` is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RcvbufOn {
    /// The listening socket's: accepted ones inherit it, and it determines the window scale.
    #[default]
    Listener,
    /// Each accepted socket's: the window scale is fixed by then.
    Accepted,
    /// The client's, before connect(2).
    Client,
}

/// The sockets that `SO_RCVBUF` can be set on.
pub const RCVBUF_ON: &[Row<RcvbufOn>] = &[
    Row {
        value: RcvbufOn::Listener,
        name: "listener",
        summary: "the listening socket: accepted ones inherit it, with its window scale",
    },
    Row { value: RcvbufOn::Accepted, name: "accepted", summary: "each accepted socket, when the scale is fixed" },
    Row { value: RcvbufOn::Client, name: "client", summary: "the client's socket, before connect(2)" },
];
named!(RcvbufOn, "socket", RCVBUF_ON);

/// Where the two ends of a flow run, within the CPUs that the process may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// The scheduler decides.
    Unpinned,
    /// Both ends on one CPU.
    SameCpu,
    /// Two hardware threads of one core.
    SmtSibling,
    /// Two cores of one NUMA node.
    CrossCore,
    /// Two NUMA nodes.
    CrossNode,
}

/// The placements.
pub const PLACEMENTS: &[Row<Placement>] = &[
    Row {
        value: Placement::Unpinned,
        name: "unpinned",
        summary: "the scheduler decides, and may move them within a trial",
    },
    Row { value: Placement::SameCpu, name: "same-cpu", summary: "both ends pinned to one CPU" },
    Row { value: Placement::SmtSibling, name: "smt-sibling", summary: "two hardware threads of one core" },
    Row { value: Placement::CrossCore, name: "cross-core", summary: "two cores of one node" },
    Row { value: Placement::CrossNode, name: "cross-node", summary: "two NUMA nodes" },
];
named!(Placement, "placement", PLACEMENTS);

/// Whether the two ends of a path are threads of one process or two processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ends {
    /// Threads of the measuring process.
    #[default]
    Threads,
    /// Two child processes, fresh in every block.
    Processes,
}

/// The kinds of ends.
pub const ENDS: &[Row<Ends>] = &[
    Row { value: Ends::Threads, name: "threads", summary: "both ends are threads of one process" },
    Row {
        value: Ends::Processes,
        name: "processes",
        summary: "each end is a process of its own, fresh in every block",
    },
];
named!(Ends, "kind of ends", ENDS);

/// The reader's work on each read before the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Work {
    /// Discards the bytes.
    #[default]
    None,
    /// Sums every byte.
    Sum,
    /// Copies every byte to memory of its own.
    Copy,
    /// Spins for this number of nanoseconds per byte.
    NsPerByte(f64),
}

/// The writer's work on its buffer before each write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Fill {
    /// Sends the same bytes again.
    #[default]
    None,
    /// Writes every byte of the buffer again.
    Touch,
    /// Spins for this number of nanoseconds per byte.
    NsPerByte(f64),
}

fn ns_per_byte(text: &str, expected: &'static str) -> Result<f64, NameError> {
    let ns: Option<f64> = text.strip_suffix("ns").unwrap_or(text).trim().parse().ok();
    // More than a millisecond a byte is a mistake in the unit, not a reader.
    ns.filter(|ns| (0.0..=1e6).contains(ns)).ok_or_else(|| NameError::Malformed(text.into(), expected))
}

impl FromStr for Work {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        match text {
            "none" => Ok(Work::None),
            "sum" => Ok(Work::Sum),
            "copy" => Ok(Work::Copy),
            _ => ns_per_byte(text, "work: use none, sum, copy, or nanoseconds per byte such as 0.5ns")
                .map(Work::NsPerByte),
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Work::None => f.pad("none"),
            Work::Sum => f.pad("sum"),
            Work::Copy => f.pad("copy"),
            Work::NsPerByte(ns) => f.pad(&format!("{}ns", significant(*ns, 6))),
        }
    }
}

impl FromStr for Fill {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        match text {
            "none" => Ok(Fill::None),
            "touch" => Ok(Fill::Touch),
            _ => {
                ns_per_byte(text, "a fill: use none, touch, or nanoseconds per byte such as 0.5ns").map(Fill::NsPerByte)
            }
        }
    }
}

impl fmt::Display for Fill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fill::None => f.pad("none"),
            Fill::Touch => f.pad("touch"),
            Fill::NsPerByte(ns) => f.pad(&format!("{}ns", significant(*ns, 6))),
        }
    }
}

macro_rules! text_serde {
    ($type:ty) => {
        impl From<$type> for String {
            fn from(value: $type) -> String {
                value.to_string()
            }
        }
        impl TryFrom<String> for $type {
            type Error = <$type as std::str::FromStr>::Err;
            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }
    };
}
pub(crate) use text_serde;
text_serde!(Work);

// The nanoseconds of a byte are finite: nothing else parses.
impl Eq for Work {}

impl Hash for Work {
    fn hash<H: Hasher>(&self, state: &mut H) {
        mem::discriminant(self).hash(state);
        if let Work::NsPerByte(ns) = self {
            // Zero has two signs, which are equal.
            (ns + 0.0).to_bits().hash(state);
        }
    }
}
text_serde!(Fill);

// The nanoseconds of a byte are finite: nothing else parses.
impl Eq for Fill {}

impl Hash for Fill {
    fn hash<H: Hasher>(&self, state: &mut H) {
        mem::discriminant(self).hash(state);
        if let Fill::NsPerByte(ns) = self {
            // Zero has two signs, which are equal.
            (ns + 0.0).to_bits().hash(state);
        }
    }
}

#[cfg(test)]
mod tests;
