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
    Corrupt(u64),
    /// The sink closes after this number of bytes; as a process, it dies.
    Die(u64),
    /// The sink stops reading after this number of bytes but keeps its socket.
    Stall(u64),
    /// The sink miscounts: it reports this number of bytes that never arrived.
    Overcount(u64),
    /// The path loses every n-th datagram.
    Lose(u64),
    /// The path lets every n-th datagram overtake another.
    Swap(u64),
    /// The path delivers every n-th datagram twice.
    Repeat(u64),
    /// A ring stops taking completions after this number of rounds.
    Untaken(u64),
    /// A ring expects other user data than it submits after this number of rounds.
    WrongUserData(u64),
    /// A relay drops the byte at this offset of each connection's data, and counts it as sent.
    RelayLoses(u64),
    /// A relay flips a bit of the byte at this offset of each connection's data.
    RelayCorrupts(u64),
    /// The reader spins after each read, by the clock, for this number of nanoseconds.
    Spin(f64),
    /// The reader spins in every other block for this number of nanoseconds a read: a path with two modes.
    Modes(f64),
    /// The reader spins until this number of nanoseconds after its first read: the first trial pays the warm-up.
    Cold(u64),
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
            PlantedFault::Corrupt(_) | PlantedFault::Lose(_) | PlantedFault::Swap(_) | PlantedFault::Repeat(_)
        )
    }

    /// Whether a relay applies it.
    pub fn is_of_relay(&self) -> bool {
        matches!(self, PlantedFault::RelayLoses(_) | PlantedFault::RelayCorrupts(_))
    }
}
