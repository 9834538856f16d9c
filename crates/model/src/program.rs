//! The program that is asked about: which end of a path, or what between its ends, it controls, and how old its connections are.
//!
//! A program that only reads does not choose what its peer writes: then the size of a write is a condition that life
//! imposes, and the size of a read alone is compared. Never says what is measured, only what it means.

use std::fmt;
use std::str::FromStr;

use crate::catalog::{NameError, Row, lookup, name_of, named};

/// Which end of a stream the program controls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ProgramRole {
    /// The end that reads: the peer's writes are what they are.
    Reader,
    /// The end that writes: how its peer reads is not its choice.
    Writer,
    /// What stands between the ends: what both of them do is not its choice.
    Relay,
    /// Both ends.
    #[default]
    Both,
}

/// The ends that a program may control.
pub const PROGRAMS: &[Row<ProgramRole>] = &[
    Row { value: ProgramRole::Reader, name: "reader", summary: "your program reads, and its peer writes as it likes" },
    Row { value: ProgramRole::Writer, name: "writer", summary: "your program writes, and its peer reads as it likes" },
    Row {
        value: ProgramRole::Relay,
        name: "relay",
        summary: "your program passes on what one peer writes to another that reads, both as they like",
    },
    Row { value: ProgramRole::Both, name: "both", summary: "both ends are yours" },
];

/// What is compared although life imposes it on most programs: a program that may open several connections, or place its
/// threads, chooses how many and where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ComparedCondition {
    /// Nothing: conditions separate questions.
    #[default]
    None,
    /// How many connections carry the bytes together.
    Flows,
    /// Where the ends run.
    Placement,
}

impl ComparedCondition {
    /// Whether this is the factor of the name.
    pub fn is(self, factor: &str) -> bool {
        self != ComparedCondition::None && name_of(COMPARED_CONDITIONS, &self) == factor
    }
}

/// The conditions that may be compared.
pub const COMPARED_CONDITIONS: &[Row<ComparedCondition>] = &[
    Row { value: ComparedCondition::None, name: "none", summary: "conditions separate questions" },
    Row {
        value: ComparedCondition::Flows,
        name: "flows",
        summary: "how many connections, of those that are listed, are enough",
    },
    Row { value: ComparedCondition::Placement, name: "placement", summary: "where the ends should run" },
];

/// How old a connection is when it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectionAge {
    /// A few milliseconds: its windows, and its place among the CPU's caches, are still being found.
    Fresh,
    /// Old enough that what comes later is alike.
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
    fn names_are_read_as_they_are_printed() {
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
