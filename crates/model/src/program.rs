//! The program that is asked about: which end of a path it controls, and how old its connections are.
//!
//! A program that only reads does not choose what its peer writes: then the size of a write is a condition that life
//! imposes, and the size of a read alone is compared. Never says what is measured, only what it means.

use std::fmt;
use std::str::FromStr;

use crate::catalog::{NameError, Row, lookup, name_of, named};
use crate::factor::{Factor, Role};
use crate::option::{self, Setter};

/// Which end of a stream the program controls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IAm {
    /// The end that reads: the peer's writes are what they are.
    Reader,
    /// The end that writes: how its peer reads is not its choice.
    Writer,
    /// Both ends.
    #[default]
    Both,
}

/// The ends that a program may control.
pub const PROGRAMS: &[Row<IAm>] = &[
    Row { value: IAm::Reader, name: "reader", summary: "your program reads, and its peer writes as it likes" },
    Row { value: IAm::Writer, name: "writer", summary: "your program writes, and its peer reads as it likes" },
    Row { value: IAm::Both, name: "both", summary: "both ends are yours" },
];

/// How old a connection is when it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// A few milliseconds: its windows, and its place among the CPU's caches, are still being found.
    Fresh,
    /// Old enough that what comes later is alike.
    Steady,
}

/// The ages.
pub const AGES: &[Row<Age>] = &[
    Row { value: Age::Fresh, name: "fresh", summary: "the first milliseconds of a connection" },
    Row { value: Age::Steady, name: "steady", summary: "after its first 50 ms, as most bytes are moved" },
];

impl IAm {
    /// The role of a factor for the program: what its peer decides is a condition.
    pub fn role_of(self, factor: &Factor) -> Role {
        let is_the_peers = self != IAm::Both && owner(factor.name).is_some_and(|owner| owner != self);
        if is_the_peers { Role::Condition } else { factor.role }
    }
}

/// The end of a stream at which a factor is set, where it is one of them alone.
fn owner(factor: &str) -> Option<IAm> {
    match factor {
        "read_size" => return Some(IAm::Reader),
        "write_size" => return Some(IAm::Writer),
        _ => {}
    }
    let (setters, _) = (option::of_factor(factor)?.sites)(&Default::default());
    match (setters.contains(&Setter::Source), setters.contains(&Setter::Sink)) {
        (true, false) => Some(IAm::Writer),
        (false, true) => Some(IAm::Reader),
        _ => None,
    }
}

named!(IAm, "end of a path", PROGRAMS);
named!(Age, "age", AGES);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::factor::FACTORS;

    fn check(i_am: IAm, factor: &str, expected: Role) {
        let factor = FACTORS.iter().find(|row| row.name == factor).unwrap();
        assert_eq!(i_am.role_of(factor), expected, "{i_am} {}", factor.name);
    }

    #[test]
    fn what_the_peer_decides_is_a_condition() {
        check(IAm::Reader, "read_size", Role::Choice);
        check(IAm::Reader, "write_size", Role::Condition);
        check(IAm::Reader, "congestion", Role::Condition);
        check(IAm::Reader, "rcvlowat", Role::Choice);
        check(IAm::Writer, "write_size", Role::Choice);
        check(IAm::Writer, "read_size", Role::Condition);
        check(IAm::Writer, "rcvbuf", Role::Condition);
        check(IAm::Writer, "sndbuf", Role::Choice);
        check(IAm::Both, "write_size", Role::Choice);
        check(IAm::Reader, "transport", Role::Condition);
        check(IAm::Reader, "engine", Role::Choice);
    }

    #[test]
    fn names_are_read_as_they_are_printed() {
        assert!(PROGRAMS.iter().all(|row| row.name.parse() == Ok(row.value) && row.value.to_string() == row.name));
        assert!(AGES.iter().all(|row| row.name.parse() == Ok(row.value) && row.value.to_string() == row.name));
        assert_eq!(
            "steddy".parse::<Age>().unwrap_err().to_string(),
            "no age is called `steddy`: did you mean `steady`?"
        );
    }
}
