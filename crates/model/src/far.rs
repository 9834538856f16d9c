//! The far host: which of the ends of a path is there.
//!
//! Bytes of a stream go, and calls are made, in a direction; the end at its far end, or at its beginning, is the agent's.

use crate::catalog::names;
use crate::end::Side;

names! {
    /// Which way a stream goes, or calls are made, between this host and the far one.
    #[derive(Default)]
    Direction, "direction", DIRECTIONS {
        #[default]
        To = "to": "this host writes, or calls, and the far one reads, or serves",
        From = "from": "the far host writes, or calls, and this one reads, or serves: it must be reachable from there",
        Both = "both": "of a stream: both hosts write and read at once, over TCP over the same connections, and the rate is the sum (also on one host, without --host)",
    }
}

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
