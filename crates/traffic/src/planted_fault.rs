//! Faults and slowdowns that are planted on purpose, by tests.
//!
//! The feature `faults` of this crate compiles them in. Without it a trial ignores them: `PlantedFault::enabled` is a constant, so no
//! measured loop contains a check.

use serde::{Deserialize, Serialize};

/// Whether planted faults are compiled in.
pub const PLANTED_FAULTS: bool = cfg!(feature = "faults");

/// A fault or a slowdown injected on purpose, to check that it is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlantedFault {
    /// The path flips one bit of the byte at this offset of flow 0.
    Corrupt {
        /// Offset in the stream.
        offset: u64,
    },
    /// The sink closes after this number of bytes; as a process, it dies.
    Die {
        /// Bytes received before.
        after_bytes: u64,
    },
    /// The sink stops reading after this number of bytes but keeps its socket.
    Stall {
        /// Bytes received before.
        after_bytes: u64,
    },
    /// The sink miscounts: it reports bytes that never arrived.
    Overcount {
        /// Bytes reported too many.
        bytes: u64,
    },
    /// The path loses every n-th datagram.
    Lose {
        /// The n.
        every: u64,
    },
    /// The path lets every n-th datagram overtake another.
    Swap {
        /// The n.
        every: u64,
    },
    /// The path delivers every n-th datagram twice.
    Repeat {
        /// The n.
        every: u64,
    },
    /// A ring stops taking completions after this number of rounds.
    Untaken {
        /// Rounds before.
        after_rounds: u64,
    },
    /// A ring expects other user data than it submits after this number of rounds.
    WrongUserData {
        /// Rounds before.
        after_rounds: u64,
    },
    /// A relay drops the byte at this offset of each connection's data, and counts it as sent.
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
    /// The reader spins for this time from its first read on: the first trial pays the warm-up.
    Cold {
        /// Nanoseconds before it runs at its own speed.
        ns: u64,
    },
}

impl PlantedFault {
    /// The same fault, where faults are compiled in: a loop asks this before it looks for one.
    #[inline]
    pub(crate) fn enabled(plant: Option<PlantedFault>) -> Option<PlantedFault> {
        if PLANTED_FAULTS { plant } else { None }
    }

    /// Whether the source applies it: faults of a path on datagrams happen before they leave.
    pub fn is_of_source(&self) -> bool {
        matches!(
            self,
            PlantedFault::Corrupt { .. }
                | PlantedFault::Lose { .. }
                | PlantedFault::Swap { .. }
                | PlantedFault::Repeat { .. }
        )
    }

    /// Whether a relay applies it.
    pub fn is_of_relay(&self) -> bool {
        matches!(self, PlantedFault::RelayLoses { .. } | PlantedFault::RelayCorrupts { .. })
    }
}
