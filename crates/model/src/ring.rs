//! The names of the workload `ring`: the code that drives the ring, the data of each operation, the set-up of the ring,
//! and the counted events. A ring has no path, so it has no transport.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::name_tables::{Row, lookup, names, row, text_serde};
use crate::unit::TextError;

/// Submissions that a ring holds at most (`IORING_MAX_ENTRIES`, io_uring_setup(2)).
pub const ENTRIES_MAX: u64 = 32_768;

names! {
    /// The code that drives the ring.
    Implementation, "implementation", IMPLEMENTATIONS {
        Raw = "raw": "our own ring: mapped queues and system calls only",
        IoUring = "io-uring": "the io-uring crate",
        Liburing = "liburing": "liburing, a loop in C; if it was there at build time",
        LiburingUndrained = "liburing-undrained": "an artefact, shown but never compared: liburing as a published benchmark used it, whose loop takes no completion and counts submissions",
        Null = "null": "no ring at all: measures the harness itself",
    }
}

impl Implementation {
    /// Whether it measures something other than it seems to, and is only shown.
    pub fn is_artefact(self) -> bool {
        self == Implementation::LiburingUndrained
    }
}

names! {
    /// The data of each operation.
    #[derive(Default)]
    UserData, "user data", USER_DATA {
        #[default]
        None = "none": "nothing",
        Unique = "unique": "a number of its own for every operation",
        Boxed = "boxed": "an object on the heap for every operation, made at submission and freed at completion",
    }
}

names! {
    /// The task of the loop.
    #[derive(Default)]
    Mode, "mode", MODES {
        #[default]
        Ceiling = "ceiling": "writes the opcode (and user data) alone; reads a completion only to free its object; counts all",
        Checked = "checked": "writes the whole entry, and compares the result and user data of every completion",
    }
}

/// How a ring is made: any of these together, or `default`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RingFlags {
    /// One thread submits and does the completion work in its own calls.
    pub single_issuer: bool,
    /// No interrupts for completion work.
    pub coop: bool,
    /// A thread of the kernel submits.
    pub sqpoll: bool,
    /// No array of indices.
    pub no_sqarray: bool,
    /// The ring's descriptor is registered.
    pub registered: bool,
}

/// The flags of a set-up, as `--setup` names them, joined by `+`.
pub const SETUPS: &[Row<RingFlags>] = &[
    row(RingFlags::NONE, "default", "no flag"),
    row(
        RingFlags { single_issuer: true, ..RingFlags::NONE },
        "single-issuer",
        "IORING_SETUP_SINGLE_ISSUER and IORING_SETUP_DEFER_TASKRUN (Linux 6.1)",
    ),
    row(RingFlags { coop: true, ..RingFlags::NONE }, "coop", "IORING_SETUP_COOP_TASKRUN (Linux 5.19)"),
    row(
        RingFlags { sqpoll: true, ..RingFlags::NONE },
        "sqpoll",
        "IORING_SETUP_SQPOLL: a thread of the kernel submits, and takes a CPU of its own",
    ),
    row(RingFlags { no_sqarray: true, ..RingFlags::NONE }, "no-sqarray", "IORING_SETUP_NO_SQARRAY (Linux 6.6)"),
    row(
        RingFlags { registered: true, ..RingFlags::NONE },
        "registered",
        "IORING_REGISTER_RING_FDS: no descriptor lookup per call (Linux 5.18)",
    ),
];

impl RingFlags {
    const NONE: RingFlags =
        RingFlags { single_issuer: false, coop: false, sqpoll: false, no_sqarray: false, registered: false };

    fn with(self, other: RingFlags) -> RingFlags {
        RingFlags {
            single_issuer: self.single_issuer || other.single_issuer,
            coop: self.coop || other.coop,
            sqpoll: self.sqpoll || other.sqpoll,
            no_sqarray: self.no_sqarray || other.no_sqarray,
            registered: self.registered || other.registered,
        }
    }
}

impl FromStr for RingFlags {
    type Err = TextError;

    fn from_str(text: &str) -> Result<RingFlags, TextError> {
        text.split('+').try_fold(RingFlags::NONE, |sum, name| lookup("set-up", SETUPS, name).map(|part| sum.with(part)))
    }
}

impl fmt::Display for RingFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The first row is the one without flags.
        let parts = SETUPS.iter().skip(1).filter(|row| self.with(row.value) == *self).map(|row| row.name);
        let named: Vec<&str> = parts.collect();
        f.pad(&if named.is_empty() { SETUPS[0].name.to_owned() } else { named.join("+") })
    }
}
text_serde!(RingFlags);

/// Counts of a ring: the evidence that all submissions completed, and that a mode did run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RingReport {
    /// Operations handed to the kernel in the window.
    pub submitted: u64,
    /// The same over the ring's whole life.
    pub total_submitted: u64,
    /// Completions taken by the loop over the ring's whole life.
    pub total_completed: u64,
    /// Completions that the loop left and that were taken after its end.
    pub left: u64,
    /// Completions of which result and user data were compared, over the ring's whole life.
    pub checked: u64,
    /// Calls of io_uring_enter(2) in the window.
    pub enters: u64,
    /// Rounds after which the completion queue had overflowed (`IORING_SQ_CQ_OVERFLOW`), if it had.
    pub overflowed_after_rounds: Option<u64>,
    /// Completions that fit the ring that the kernel made.
    pub completion_entries: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for row in IMPLEMENTATIONS {
            assert_eq!(row.name.parse::<Implementation>().unwrap().to_string(), row.name);
        }
        for row in USER_DATA {
            assert_eq!(row.name.parse::<UserData>().unwrap().to_string(), row.name);
        }
        for row in MODES {
            assert_eq!(row.name.parse::<Mode>().unwrap().to_string(), row.name);
        }
        for row in SETUPS {
            assert_eq!(row.name.parse::<RingFlags>().unwrap().to_string(), row.name);
        }
    }

    #[test]
    fn setup_flags_combine_in_any_order() {
        let check = |text: &str, expected: &str| assert_eq!(text.parse::<RingFlags>().unwrap().to_string(), expected);
        check("no-sqarray+single-issuer", "single-issuer+no-sqarray");
        check("default+coop", "coop");
        check("sqpoll+sqpoll", "sqpoll");
    }

    #[test]
    fn unknown_names_suggest() {
        let check = |error: String, expected: &str| assert!(error.contains(expected), "{error}");
        check("libruing".parse::<Implementation>().unwrap_err().to_string(), "did you mean `liburing`?");
        check("uniqe".parse::<UserData>().unwrap_err().to_string(), "did you mean `unique`?");
        check("ceilling".parse::<Mode>().unwrap_err().to_string(), "did you mean `ceiling`?");
        check("coop+sqpol".parse::<RingFlags>().unwrap_err().to_string(), "did you mean `sqpoll`?");
    }
}
