//! Patterns of a mesh: which ranks measure each other, as the user names them.
//!
//! Also rounds after the pattern.

use std::fmt;
use std::str::FromStr;

use bytegauge_stats::rng::seeded;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::Rank;
use crate::result::{MeshResult, REPETITIONS_MIN};

/// Which ranks measure each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum MeshPattern {
    /// Every pair once: N − 1 rounds (N rounds if N is odd) of ⌊N/2⌋ disjoint pairs.
    Pairs,
    /// This number of random rounds of disjoint pairs. No pair occurs twice within a replicate.
    Matchings(u32),
    /// This number of clients send to one server at the same time; every rank is the server once.
    Incast(u32),
    /// One rank sends to all others at the same time; every rank is the sender once.
    OneToAll,
    /// Half of the ranks are paired with the other half, all at the same time.
    Bisection,
}

/// A pattern that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is not a pattern: use pairs, matchings:K, incast:K, one-to-all or bisection, with K from 1")]
pub struct MeshPatternError(String);

impl MeshPattern {
    /// Whether a slot has one server and several clients, instead of two ranks.
    pub fn has_hub(self) -> bool {
        matches!(self, MeshPattern::Incast(_) | MeshPattern::OneToAll)
    }

    /// The clients of a slot in a mesh of this many ranks.
    pub fn clients(self, ranks: u32) -> u32 {
        match self {
            MeshPattern::Incast(clients) => clients,
            MeshPattern::OneToAll => ranks.saturating_sub(1),
            MeshPattern::Pairs | MeshPattern::Matchings(_) | MeshPattern::Bisection => 1,
        }
    }

    /// Whether both directions are measured. Clients of an incast only send, and a sender to all only sends.
    pub fn is_two_way(self) -> bool {
        !self.has_hub()
    }
}

impl FromStr for MeshPattern {
    type Err = MeshPatternError;

    fn from_str(text: &str) -> Result<MeshPattern, MeshPatternError> {
        let (name, count) = match text.split_once(':') {
            Some((name, count)) => (name, Some(count.parse::<u32>().ok().filter(|count| *count > 0))),
            None => (text, None),
        };
        match (name, count) {
            ("pairs", None) => Ok(MeshPattern::Pairs),
            ("matchings", Some(Some(count))) => Ok(MeshPattern::Matchings(count)),
            ("incast", Some(Some(count))) => Ok(MeshPattern::Incast(count)),
            ("one-to-all", None) => Ok(MeshPattern::OneToAll),
            ("bisection", None) => Ok(MeshPattern::Bisection),
            _ => Err(MeshPatternError(text.to_owned())),
        }
    }
}

impl fmt::Display for MeshPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MeshPattern::Pairs => f.write_str("pairs"),
            MeshPattern::Matchings(count) => write!(f, "matchings:{count}"),
            MeshPattern::Incast(count) => write!(f, "incast:{count}"),
            MeshPattern::OneToAll => f.write_str("one-to-all"),
            MeshPattern::Bisection => f.write_str("bisection"),
        }
    }
}

impl From<MeshPattern> for String {
    fn from(pattern: MeshPattern) -> String {
        pattern.to_string()
    }
}

impl TryFrom<String> for MeshPattern {
    type Error = MeshPatternError;

    fn try_from(text: String) -> Result<MeshPattern, MeshPatternError> {
        text.parse()
    }
}

// Rounds after the pattern: pairs that look slow are repeated, and hosts that look slow meet sound partners.
//
// A pattern measures most pairs once, so a slow test may be a disturbance of that moment. Pure: a function of the
// result and the seed.

/// The stream of random numbers that partners are drawn from.
const RANDOM_STREAM: u64 = 0x666f_6c6c;

/// The most pairs that are repeated: more are no exceptions but the normal state of this mesh.
pub const SUSPECTS_MAX: usize = 64;

/// Sound partners of each suspect host.
const PARTNERS: usize = 4;

/// One round: disjoint pairs of a hub and its client.
pub type FollowUpRound = Vec<(Rank, Rank)>;

/// The rounds that the suspects of a result need; empty if there are none.
pub fn follow_up(result: &MeshResult, seed: u64) -> Vec<FollowUpRound> {
    let mut random = seeded(seed, RANDOM_STREAM);
    let is_suspect =
        |rank: Rank| result.suspect_hosts.contains(&rank) || result.slow_hosts.iter().any(|host| host.rank == rank);
    let ranks: Vec<Rank> = result.fit.senders.keys().copied().collect();
    let mut pairs: Vec<(Rank, Rank)> = Vec::new();
    for pair in result.suspects.iter().take(SUSPECTS_MAX) {
        pairs.extend(std::iter::repeat_n(*pair, REPETITIONS_MIN));
    }
    for host in result.suspect_hosts.iter().take(SUSPECTS_MAX) {
        let mut partners: Vec<Rank> = ranks.iter().copied().filter(|rank| !is_suspect(*rank)).collect();
        random.shuffle(&mut partners);
        pairs.extend(partners.into_iter().take(PARTNERS).map(|partner| (*host, partner)));
    }
    rounds_of(pairs)
}

/// Puts pairs into as few rounds as a greedy choice finds, without a rank twice in a round.
fn rounds_of(pairs: Vec<(Rank, Rank)>) -> Vec<FollowUpRound> {
    let mut rounds: Vec<FollowUpRound> = Vec::new();
    for (one, other) in pairs {
        let is_free =
            |round: &FollowUpRound| round.iter().all(|(a, b)| ![*a, *b].iter().any(|rank| [one, other].contains(rank)));
        // Alternate the hub, so that both hosts are measured from both sides.
        let pair = if rounds.len().is_multiple_of(2) { (one, other) } else { (other, one) };
        match rounds.iter_mut().find(|round| is_free(round)) {
            Some(round) => round.push(pair),
            None => rounds.push(vec![pair]),
        }
    }
    rounds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_read_back_as_written() {
        for text in ["pairs", "matchings:3", "incast:32", "one-to-all", "bisection"] {
            assert_eq!(text.parse::<MeshPattern>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn bad_patterns_are_refused() {
        for text in ["", "pair", "pairs:2", "matchings", "matchings:0", "incast:", "incast:-1", "bisection:2"] {
            assert_eq!(text.parse::<MeshPattern>(), Err(MeshPatternError(text.into())), "{text}");
        }
    }
}

#[cfg(test)]
mod follow_up_tests {
    use super::*;

    #[test]
    fn a_round_has_no_rank_twice() {
        let rounds = rounds_of(vec![(0, 1), (0, 1), (2, 3), (1, 2), (4, 5)]);
        for round in &rounds {
            let mut ranks: Vec<Rank> = round.iter().flat_map(|(a, b)| [*a, *b]).collect();
            ranks.sort_unstable();
            ranks.dedup();
            assert_eq!(ranks.len(), 2 * round.len(), "{rounds:?}");
        }
        assert_eq!(rounds.len(), 3);
    }

    #[test]
    fn suspects_are_repeated_often_enough() {
        let result = MeshResult { suspects: vec![(0, 1)], ..MeshResult::default() };
        assert_eq!(follow_up(&result, 1).concat().len(), REPETITIONS_MIN);
    }

    #[test]
    fn no_suspects_need_no_rounds() {
        assert_eq!(follow_up(&MeshResult::default(), 1), Vec::<FollowUpRound>::new());
    }
}
