//! Patterns of a mesh: which ranks measure each other, as the user names them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

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
    type Err = String;

    fn from_str(text: &str) -> Result<MeshPattern, String> {
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
            _ => Err(format!(
                "{text:?} is not a pattern: use pairs, matchings:K, incast:K, one-to-all or bisection, with K from 1"
            )),
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
    type Error = String;

    fn try_from(text: String) -> Result<MeshPattern, String> {
        text.parse()
    }
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
            assert!(text.parse::<MeshPattern>().is_err(), "{text}");
        }
    }
}
