//! Faults and slowdowns that are planted on purpose, by tests.
//!
//! The feature `faults` of this crate compiles them in. Without it a trial ignores them: [`Plant::enabled`] is a constant, so no
//! measured loop contains a check.

use serde::{Deserialize, Serialize};

/// Whether planted faults are compiled in.
pub const PLANTS: bool = cfg!(feature = "faults");

/// A fault or a slowdown planted on purpose, to see that it is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Plant {
    /// The path flips one bit of the byte at this offset of flow 0; a server, of the first byte of a reply.
    Corrupt {
        /// Offset in the stream.
        offset: u64,
    },
    /// The sink goes away after so many bytes; as a process, it dies.
    Die {
        /// Bytes received before.
        after_bytes: u64,
    },
    /// The sink stops reading after so many bytes but keeps its socket.
    Stall {
        /// Bytes received before.
        after_bytes: u64,
    },
    /// The sink loses count: it reports bytes that never arrived.
    Overcount {
        /// Bytes reported too many.
        bytes: u64,
    },
    /// A server stands still once after so many bytes of requests.
    Nap {
        /// Bytes received before.
        after_bytes: u64,
        /// For how long, nanoseconds.
        ns: u64,
    },
    /// A server sends half a reply after so many bytes of requests, and closes.
    ShortReply {
        /// Bytes received before.
        after_bytes: u64,
    },
    /// A server sends a byte too many after so many bytes of requests.
    LongReply {
        /// Bytes received before.
        after_bytes: u64,
    },
    /// The path loses one datagram in so many; of calls, one reply.
    Lose {
        /// How many.
        every: u64,
    },
    /// The path lets one datagram in so many overtake another; of calls, a reply the one before it.
    Swap {
        /// How many.
        every: u64,
    },
    /// The path delivers one datagram in so many twice; of calls, a reply.
    Repeat {
        /// How many.
        every: u64,
    },
    /// A server holds one in so many replies back.
    Late {
        /// How many.
        every: u64,
        /// For how long, nanoseconds; then it goes out with the next reply.
        ns: u64,
    },
    /// A ring stops taking completions after so many rounds.
    Untaken {
        /// Rounds before.
        after_rounds: u64,
    },
    /// A ring expects other user data than it submits after so many rounds.
    WrongUserData {
        /// Rounds before.
        after_rounds: u64,
    },
    /// A relay drops the byte at this offset of what each connection sends, and counts it as given.
    RelayLoses {
        /// Offset in the stream.
        offset: u64,
    },
    /// A relay flips a bit of the byte at this offset.
    RelayCorrupts {
        /// Offset in the stream.
        offset: u64,
    },
    /// The reader spins after each read, by the clock.
    Spin {
        /// Nanoseconds a read.
        ns: f64,
    },
    /// The reader spins in every other block: a path with two modes.
    Modes {
        /// Nanoseconds a read.
        ns: f64,
    },
    /// The reader spins for so long from its first read on: what comes first pays the warm-up.
    Cold {
        /// Nanoseconds before it runs at its own speed.
        ns: u64,
    },
}

impl Plant {
    /// The same fault, where faults are compiled in: a loop asks this before it looks for one.
    #[inline]
    pub(crate) fn enabled(plant: Option<Plant>) -> Option<Plant> {
        if PLANTS { plant } else { None }
    }

    /// Whether the source carries it out: what a path does to datagrams, it does before they leave.
    pub fn is_of_source(&self) -> bool {
        matches!(self, Plant::Corrupt { .. } | Plant::Lose { .. } | Plant::Swap { .. } | Plant::Repeat { .. })
    }

    /// Whether a relay carries it out.
    pub fn is_of_relay(&self) -> bool {
        matches!(self, Plant::RelayLoses { .. } | Plant::RelayCorrupts { .. })
    }
}
