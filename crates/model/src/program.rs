//! The user's program: the end of a path, or the relay between its ends, and the age of its connections.
//!
//! A program that only reads does not control its peer's writes: the size of a write is then a condition, and only the size
//! of a read is compared. This module defines meanings only, never measurements.

use std::fmt;
use std::str::FromStr;

use crate::catalog::{NameError, Row, lookup, name_of, named};

/// Which end of a stream the program controls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ProgramRole {
    /// The end that reads: its peer's writes are conditions.
    Reader,
    /// The end that writes: its peer's reads are conditions.
    Writer,
    /// The relay between the ends: properties of both ends are conditions.
    Relay,
    /// Both ends.
    #[default]
    Both,
}

/// The ends that a program may control.
pub const PROGRAMS: &[Row<ProgramRole>] = &[
    Row { value: ProgramRole::Reader, name: "reader", summary: "your program reads; its peer's writes are conditions" },
    Row { value: ProgramRole::Writer, name: "writer", summary: "your program writes; its peer's reads are conditions" },
    Row {
        value: ProgramRole::Relay,
        name: "relay",
        summary: "your program relays from one peer to another; both peers' settings are conditions",
    },
    Row { value: ProgramRole::Both, name: "both", summary: "both ends are yours" },
];

/// A condition that is compared although most programs cannot choose it: a program that may open several connections, or
/// place its threads, can choose how many and where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ComparedCondition {
    /// Nothing: conditions separate tests.
    #[default]
    None,
    /// How many connections carry the bytes together.
    Flows,
    /// Where the ends run.
    Placement,
    /// How the ends are joined.
    Transport,
    /// How many requests are in flight on a connection.
    Depth,
    /// Whether threads share their descriptors.
    FdTable,
    /// Encryption of connections.
    Tls,
    /// Where a relay runs.
    RelayPlacement,
    /// How a client moves bytes.
    ClientEngine,
}

impl ComparedCondition {
    /// Whether this is the factor of the name.
    pub fn is(self, factor: &str) -> bool {
        self != ComparedCondition::None && name_of(COMPARED_CONDITIONS, &self).replace('-', "_") == factor
    }
}

/// The conditions that may be compared.
pub const COMPARED_CONDITIONS: &[Row<ComparedCondition>] = &[
    Row { value: ComparedCondition::None, name: "none", summary: "conditions separate tests" },
    Row {
        value: ComparedCondition::Flows,
        name: "flows",
        summary: "how many of the listed numbers of connections are enough",
    },
    Row { value: ComparedCondition::Placement, name: "placement", summary: "where the ends should run" },
    Row {
        value: ComparedCondition::Transport,
        name: "transport",
        summary: "which of the listed transports is fastest, such as unix or tcp",
    },
    Row { value: ComparedCondition::Depth, name: "depth", summary: "how many requests should be in flight" },
    Row { value: ComparedCondition::FdTable, name: "fd-table", summary: "whether a private descriptor table helps" },
    Row { value: ComparedCondition::Tls, name: "tls", summary: "the cost of encryption, by the program or the kernel" },
    Row { value: ComparedCondition::RelayPlacement, name: "relay-placement", summary: "where a relay should run" },
    Row { value: ComparedCondition::ClientEngine, name: "client-engine", summary: "how a client should move bytes" },
];

/// How old a connection is when it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectionAge {
    /// A few milliseconds: its windows, and its place in the CPU's caches, still change.
    Fresh,
    /// Old enough that its later time is alike.
    Steady,
}

/// The ages.
pub const CONNECTION_AGES: &[Row<ConnectionAge>] = &[
    Row { value: ConnectionAge::Fresh, name: "fresh", summary: "the first milliseconds of a connection" },
    Row { value: ConnectionAge::Steady, name: "steady", summary: "after its first 50 ms, as most bytes are moved" },
];

named!(ProgramRole, "end of a path", PROGRAMS);
named!(ComparedCondition, "condition to compare", COMPARED_CONDITIONS);
named!(ConnectionAge, "connection age", CONNECTION_AGES);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        assert!(PROGRAMS.iter().all(|row| row.name.parse() == Ok(row.value) && row.value.to_string() == row.name));
        assert!(
            CONNECTION_AGES.iter().all(|row| row.name.parse() == Ok(row.value) && row.value.to_string() == row.name)
        );
        assert_eq!(
            "steddy".parse::<ConnectionAge>().unwrap_err().to_string(),
            "no connection age is called `steddy`: did you mean `steady`?"
        );
    }
}
