//! Relays: the methods that move bytes from one socket to another, by name, the features that each of them uses, and the
//! counts of a relay.
//!
//! Walked by help, documents, plans and the conformance tests; how each is carried out is a file in
//! `traffic/src/relay/`.

use serde::{Deserialize, Serialize};

use crate::name_tables::names;

names! {
    /// The method that moves bytes from one socket to the other.
    RelayMethod, "relay", RELAY_METHODS {
        Direct = "direct": "no relay: the limit of the path itself",
        ReadWrite = "read-write": "recv(2) and send(2) with one buffer",
        StdCopy = "std-copy": "std::io::copy, a loop with a buffer of 8 KiB, no splice",
        CopyBuffer = "copy-buffer": "recv(2) and send(2) through the traits Read and Write",
        Bufio = "bufio": "BufReader into BufWriter, small parts are copied once more",
        ReadvWritev = "readv-writev": "readv(2) and writev(2) with the buffer in four parts",
        Pipe = "pipe": "a thread that reads, one that writes, a queue in memory",
        Splice = "splice": "splice(2) through a pipe, the relay itself copies nothing",
        Sendfile = "sendfile": "sendfile(2) into a pipe; the kernel refuses it for sockets",
        Hybrid = "hybrid": "recv(2) and send(2), or splice(2) while data is bulk",
        Epoll = "epoll": "recv(2) and send(2), a single thread woken by epoll(7)",
        Uring = "uring": "io_uring(7), one thread, a buffer for each connection",
        UringMultishot = "uring-multishot": "io_uring(7), multishot receives, the kernel picks buffers",
        UringBundle = "uring-bundle": "io_uring(7), multishot, many buffers per receive",
        Zerocopy = "zerocopy": "io_uring(7), zero-copy sends over TCP; loopback copies",
        Tokio = "tokio": "tokio::io::copy_bidirectional on one thread, 8 KiB a time",
    }
}

/// Default buffer of each direction for methods without a size of their own, bytes: recv(2) and send(2) on loopback need
/// it for their best rate.
pub const RELAY_BUFFER: usize = 64 << 10;

impl RelayMethod {
    /// Whether the user can choose the size of a buffer.
    pub fn has_buffer(self) -> bool {
        use RelayMethod::{Direct, Sendfile, Splice, StdCopy};
        !matches!(self, Direct | StdCopy | Splice | Sendfile)
    }

    /// Default number of bytes that it moves at a time, if that is less than the usual default: a property of tokio's
    /// `copy_bidirectional` and of `std::io::copy`.
    pub fn small_buffer(self) -> Option<usize> {
        matches!(self, RelayMethod::Tokio | RelayMethod::StdCopy).then_some(8 << 10)
    }

    /// Whether it moves bytes through a pipe.
    pub fn has_pipe(self) -> bool {
        use RelayMethod::{Hybrid, Sendfile, Splice};
        matches!(self, Splice | Sendfile | Hybrid)
    }

    /// The system resources of each connection from its beginning. Descriptors are its two sockets, both twice if
    /// each direction owns them, and its pipes. Those of [`RelayMethod::Hybrid`] are made when bulk data arrives, and are not
    /// counted: without them it continues copying.
    pub fn holds(self, threads: RelayThreads) -> RelayHolds {
        use RelayMethod::{Bufio, CopyBuffer, Direct, Pipe, Sendfile, Splice, StdCopy};
        let threads = match self {
            Pipe => 4,
            StdCopy | CopyBuffer | Bufio => 2,
            _ if self.has_threads() && threads == RelayThreads::Direction => 2,
            _ => 0,
        };
        let descriptors = match self {
            Direct => 0,
            Splice | Sendfile | StdCopy | CopyBuffer | Bufio => 6,
            _ => 2,
        };
        RelayHolds { descriptors, threads }
    }

    /// Whether it needs TCP.
    pub fn needs_tcp(self) -> bool {
        self == RelayMethod::Zerocopy
    }

    /// Whether one thread always carries all its connections.
    pub fn has_one_thread(self) -> bool {
        use RelayMethod::{Epoll, Tokio, Uring, UringBundle, UringMultishot, Zerocopy};
        matches!(self, Epoll | Uring | UringMultishot | UringBundle | Zerocopy | Tokio)
    }

    /// Whether it supports both a thread per direction and one thread for all connections.
    pub fn has_threads(self) -> bool {
        use RelayMethod::{Hybrid, ReadWrite, ReadvWritev, Sendfile, Splice};
        matches!(self, ReadWrite | ReadvWritev | Splice | Sendfile | Hybrid)
    }
}

/// The system resources of a relay for one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RelayHolds {
    /// Descriptors, those of its pipes included.
    pub descriptors: u64,
    /// Threads of its own.
    pub threads: u64,
}

names! {
    /// How many threads a relay has, if its method supports both.
    #[derive(Default)]
    RelayThreads, "threading of a relay", RELAY_THREADS {
        #[default]
        Direction = "direction": "a thread for each direction of each connection, in calls that block",
        One = "one": "one thread for all connections, woken by epoll (edges)",
        Cpus = "cpus": "a thread for each CPU that the relay may use; the thread that accepts a connection carries it, woken by epoll (edges)",
    }
}

names! {
    /// Where a relay runs.
    #[derive(Default)]
    RelayPlacement, "place of a relay", RELAY_PLACEMENTS {
        #[default]
        Unpinned = "unpinned": "the scheduler decides",
        Own = "own": "a CPU that neither end uses",
        Client = "client": "the CPU of the end that connects: source or client",
        Server = "server": "the CPU of the end that accepts: sink or server",
    }
}

/// Counts of a relay over its whole life. `up` is the direction from the end that connects, `down` the other one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RelayReport {
    /// Connections that it accepted.
    pub connections: u64,
    /// Part of them that were reset since no connection to the other side could be made.
    pub unconnected: u64,
    /// Part of them that ended by a failure on either side, which it forwarded as a reset.
    pub broken: u64,
    /// Bytes received from the ends that connect.
    pub taken_up: u64,
    /// Bytes sent to the end that accepts.
    pub given_up: u64,
    /// Bytes received from that end.
    pub taken_down: u64,
    /// Bytes sent to the ends that connect.
    pub given_down: u64,
    /// Bytes received from the ends that connect, by `TCP_INFO`, for connections that ended in order; absent unless it is
    /// available for all of them.
    pub kernel_up: Option<u64>,
    /// Capacity of each of its pipes as the kernel made it, bytes.
    pub pipe_size: Option<u64>,
    /// CPU time in which the whole machine of a relay on another host was busy, from before the first byte to after the last,
    /// nanoseconds (ticks of 10 ms: sum before use); absent where the relay is on this host.
    pub host_busy_ns: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for row in RELAY_METHODS {
            assert_eq!(row.name.parse::<RelayMethod>().unwrap().to_string(), row.name);
            assert!(!row.value.has_threads() || !row.value.has_one_thread() && row.value != RelayMethod::Direct);
        }
        for row in RELAY_THREADS {
            assert_eq!(row.name.parse::<RelayThreads>().unwrap().to_string(), row.name);
        }
        for row in RELAY_PLACEMENTS {
            assert_eq!(row.name.parse::<RelayPlacement>().unwrap().to_string(), row.name);
        }
        let error = "splyce".parse::<RelayMethod>().unwrap_err().to_string();
        assert!(error.contains("did you mean `splice`?"), "{error}");
    }
}
