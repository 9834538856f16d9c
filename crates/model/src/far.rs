//! The far host: which of the ends of a path is there.
//!
//! Bytes of a stream go, and calls are made, in a direction; the end at its far end, or at its beginning, is the agent's.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::catalog::{NameError, Row, lookup, name_of, named};
use crate::end::Side;

/// Which way a stream goes, or calls are made, between this host and the far one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From here to the far host.
    #[default]
    To,
    /// From the far host to here.
    From,
    /// Both at once: of TCP over the same connections, of datagrams over as many flows each way.
    Both,
}

/// The directions.
pub const DIRECTIONS: &[Row<Direction>] = &[
    Row { value: Direction::To, name: "to", summary: "this host writes, or calls, and the far one reads, or serves" },
    Row {
        value: Direction::From,
        name: "from",
        summary: "the far host writes, or calls, and this one reads, or serves: it must be reachable from there",
    },
    Row {
        value: Direction::Both,
        name: "both",
        summary: "of a stream: both hosts write and read at once, over TCP over the same connections, and the rate is the sum (also \
                  on one host, without --host)",
    },
];
named!(Direction, "direction", DIRECTIONS);

impl Direction {
    /// The side of the path that is at the far host: both ways are over connections that are made from here.
    pub fn far_side(self) -> Side {
        match self {
            Direction::To | Direction::Both => Side::Sink,
            Direction::From => Side::Source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_have_names_that_lead_back() {
        for row in DIRECTIONS {
            assert_eq!(row.name.parse::<Direction>().unwrap(), row.value);
            assert_eq!(row.value.to_string(), row.name);
        }
        assert!("back".parse::<Direction>().is_err());
        assert_eq!((Direction::To.far_side(), Direction::From.far_side()), (Side::Sink, Side::Source));
    }
}
