//! Messages between rank 0 and the other ranks. They travel over an encrypted connection, as JSON.

use std::net::SocketAddr;

use bytegauge_model::Outcome;
use bytegauge_model::escape::cut;
use serde::{Deserialize, Serialize};

use crate::Rank;
use crate::rate_model::RateSample;
use crate::row::SlotPlace;
use crate::settings::MeshSettings;

/// The version of the connection, in the place where an agent has that of its own messages: a rank that connects to an
/// agent by mistake learns so at once.
pub const VERSION: u16 = 0x4d02;

/// The longest message of a rank, bytes.
pub const TO_RANK_0_MAX: usize = 1 << 20;

/// The longest message of rank 0, bytes.
pub const TO_RANK_MAX: usize = 8 << 20;

/// The longest name of a host, a rack or a version, bytes. Names of hosts have up to 253 (RFC 1035, section 2.3.4).
pub const NAME_MAX: usize = 256;

/// The longest reason of another host that is kept, bytes.
const REASON_MAX: usize = 2048;

/// A text of another host without the part beyond 2 KiB.
pub fn shortened(reason: String) -> String {
    cut(reason, REASON_MAX)
}

/// A rank introduces itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankHello {
    /// Its number.
    pub rank: Rank,
    /// The number of ranks that it expects.
    pub size: u32,
    /// The version of its program.
    pub program: String,
    /// The name of its host.
    pub host: String,
    /// Its rack, if it has one.
    pub rack: Option<String>,
    /// Where its agent listens.
    pub agent: SocketAddr,
}

impl RankHello {
    /// The same with names of at most [`NAME_MAX`] bytes: rank 0 keeps and prints them.
    #[must_use]
    pub fn within_caps(self) -> RankHello {
        RankHello {
            program: cut(self.program, NAME_MAX),
            host: cut(self.host, NAME_MAX),
            rack: self.rack.map(|rack| cut(rack, NAME_MAX)),
            ..self
        }
    }
}

/// A message of a rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToRankZero {
    /// The first message.
    Hello(Box<RankHello>),
    /// Slots of which its file has its part already; the second message, after the welcome.
    Done(Vec<u32>),
    /// It is alive.
    Alive,
    /// Its part of a slot has ended.
    Report {
        /// The slot.
        slot: u32,
        /// How it ended.
        outcome: Outcome,
        /// The rates that it measured, by option.
        rates: Vec<(u32, RateSample)>,
    },
    /// It leaves because of an error.
    Leave(String),
}

/// A message of rank 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToRank {
    /// The answer to a hello.
    Welcome {
        /// The settings of the mesh.
        settings: Box<MeshSettings>,
        /// The clock of rank 0 at this moment, nanoseconds of Unix time: all rows are dated by it.
        unix_ns: u64,
    },
    /// The rank cannot take part, for this reason.
    Refused(String),
    /// Rank 0 is alive.
    Alive,
    /// Measure.
    Start {
        /// The place of the part.
        place: SlotPlace,
        /// The agent of the hub; `None` if the hub is the external server, whose address each rank has from its own user.
        agent: Option<SocketAddr>,
    },
    /// Stop measuring.
    Cancel {
        /// The slot.
        slot: u32,
    },
    /// Everything is over: finish the file and leave.
    Finish,
}

impl ToRank {
    /// The same with a reason of at most 2 KiB: ranks print it.
    #[must_use]
    pub fn within_caps(self) -> ToRank {
        match self {
            ToRank::Refused(reason) => ToRank::Refused(shortened(reason)),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_ranks_are_cut() {
        let long = "é".repeat(1 << 19);
        let agent = ([192, 0, 2, 1], 60_000).into();
        let hello = RankHello { rank: 1, size: 2, program: long.clone(), host: long.clone(), rack: Some(long), agent };
        let hello = hello.within_caps();
        let name = "é".repeat(NAME_MAX / 2);
        assert_eq!((&hello.program, &hello.host, hello.rack.as_ref()), (&name, &name, Some(&name)));
        assert!(hello.host.capacity() <= 2 * NAME_MAX);
    }

    #[test]
    fn a_test_takes_less_than_half_a_kilobyte() {
        let place = SlotPlace { replicate: 2, round: 2_996, slot: 1_498_499, hub: 998, client: 999, clients: 1 };
        let start = ToRank::Start { place, agent: Some(([192, 168, 100, 100], 60_000).into()) };
        let rate = |sender, receiver| (0, RateSample { sender, receiver, ln_rate: 23.456_789_012_345_6 });
        let (slot, outcome) = (place.slot, Outcome::Measured);
        let report = ToRankZero::Report { slot, outcome, rates: vec![rate(998, 999), rate(999, 998)] };
        let bytes = serde_json::to_vec(&start).unwrap().len() + serde_json::to_vec(&report).unwrap().len();
        assert!(bytes < 500, "{bytes}");
    }
}
