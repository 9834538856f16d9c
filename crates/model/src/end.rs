//! The ends of a trial by their role.
//!
//! Also the counts of all ends of a trial ([`ByRole`]).

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::end_report::EndReport;

/// The role of an end in a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndRole {
    /// Writes a stream.
    Source,
    /// Reads a stream, a device or a file.
    Sink,
    /// Makes calls, and measures them.
    Client,
    /// Serves calls.
    Server,
    /// A second group of clients that loads the same server meanwhile.
    Competitor,
    /// Runs a ring, without a path.
    Ring,
    /// Relays between the two sides of a path.
    Relay,
    /// Runs the user's program.
    Command,
}

/// Gives an enum the names of its values, as they are stored and printed, and the list of them.
macro_rules! stored_names {
    ($type:ident, $all:ident { $($value:ident = $name:literal),+ $(,)? }) => {
        #[doc = concat!("Every value of `", stringify!($type), "`, in order.")]
        pub const $all: [$type; [$($name),+].len()] = [$($type::$value),+];

        impl $type {
            /// Its name, as it is stored and printed.
            pub fn name(self) -> &'static str {
                match self {
                    $($type::$value => $name,)+
                }
            }

            /// The value of that name.
            pub fn from_name(name: &str) -> Option<$type> {
                $all.into_iter().find(|value| value.name() == name)
            }
        }
    };
}

pub(crate) use stored_names;

stored_names!(EndRole, END_ROLES {
    Source = "source", Sink = "sink", Client = "client", Server = "server", Competitor = "competitor", Ring = "ring",
    Relay = "relay", Command = "command",
});

/// A side of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// Connects: it writes, or calls.
    Source,
    /// Accepts: it reads, or serves.
    Sink,
}

impl Side {
    /// The other one.
    pub fn other(self) -> Side {
        match self {
            Side::Source => Side::Sink,
            Side::Sink => Side::Source,
        }
    }
}

impl EndRole {
    /// Whether other ends get its address to connect to, and it connects to none.
    pub fn is_connected_to(self) -> bool {
        matches!(self, EndRole::Sink | EndRole::Server)
    }

    /// The side of a path that it is on. A ring has no path: it counts as the side where data arrives, as do a relay, to
    /// which others connect, and the user's program.
    pub fn side(self) -> Side {
        match self {
            EndRole::Source | EndRole::Client | EndRole::Competitor => Side::Source,
            EndRole::Sink | EndRole::Server | EndRole::Ring | EndRole::Relay | EndRole::Command => Side::Sink,
        }
    }
}

impl fmt::Display for EndRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

// Counts of the ends of a trial.

/// Values by the role of an end, in the order of roles: a map in documents. A trial has two or three ends, and a report holds
/// 100,000 trials: a list takes a quarter of the memory of a tree, whose nodes have room for eleven.
#[derive(Clone, Debug, PartialEq)]
pub struct ByRole<T>(Vec<(EndRole, T)>);

impl<T> ByRole<T> {
    fn place(&self, role: EndRole) -> Result<usize, usize> {
        self.0.binary_search_by_key(&role, |(role, _)| *role)
    }

    /// The value of a role.
    pub fn get(&self, role: EndRole) -> Option<&T> {
        self.place(role).ok().map(|at| &self.0[at].1)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, role: EndRole) -> Option<&mut T> {
        self.place(role).ok().map(|at| &mut self.0[at].1)
    }

    /// Sets the value of a role.
    pub fn insert(&mut self, role: EndRole, value: T) {
        match self.place(role) {
            Ok(at) => self.0[at].1 = value,
            Err(at) => {
                // Doubling would leave room for ends that a trial does not have.
                self.0.reserve_exact(1);
                self.0.insert(at, (role, value));
            }
        }
    }

    /// Removes a role, and returns its value.
    pub fn remove(&mut self, role: EndRole) -> Option<T> {
        self.place(role).ok().map(|at| self.0.remove(at).1)
    }

    /// Every role with its value.
    pub fn iter(&self) -> impl Iterator<Item = (EndRole, &T)> {
        self.0.iter().map(|(role, value)| (*role, value))
    }

    /// The values, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().map(|(_, value)| value)
    }
}

impl<T> Default for ByRole<T> {
    fn default() -> ByRole<T> {
        ByRole(Vec::new())
    }
}

impl<T> FromIterator<(EndRole, T)> for ByRole<T> {
    fn from_iter<I: IntoIterator<Item = (EndRole, T)>>(pairs: I) -> ByRole<T> {
        let mut found = ByRole::default();
        pairs.into_iter().for_each(|(role, value)| found.insert(role, value));
        found
    }
}

impl<T, const N: usize> From<[(EndRole, T); N]> for ByRole<T> {
    fn from(pairs: [(EndRole, T); N]) -> ByRole<T> {
        pairs.into_iter().collect()
    }
}

impl<T: Serialize> Serialize for ByRole<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for ByRole<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ByRole<T>, D::Error> {
        Ok(BTreeMap::deserialize(deserializer)?.into_iter().collect())
    }
}

/// Counts of the ends of a trial, by role: those that reported.
pub type EndReports = ByRole<EndReport>;

impl EndReports {
    /// The end that connects: a client, or a source. In a trial of calls a source only loads the path.
    pub fn source_side(&self) -> Option<&EndReport> {
        self.get(EndRole::Client).or_else(|| self.get(EndRole::Source))
    }

    /// The end that accepts, a sink or a server; or a ring, or a command.
    pub fn sink_side(&self) -> Option<&EndReport> {
        [EndRole::Server, EndRole::Sink, EndRole::Ring, EndRole::Command].into_iter().find_map(|role| self.get(role))
    }

    /// The end whose window is the trial's: the client of calls, the sink of a stream, its source where the sink is
    /// external, a ring, a command.
    pub fn measuring(&self) -> Option<&EndReport> {
        const MEASURING: [EndRole; 5] =
            [EndRole::Client, EndRole::Ring, EndRole::Command, EndRole::Sink, EndRole::Source];
        MEASURING.into_iter().find_map(|role| self.get(role))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_have_names_that_lead_back() {
        for role in END_ROLES {
            assert_eq!(EndRole::from_name(role.name()), Some(role));
            assert_eq!(serde_json::to_value(role).unwrap(), role.name());
        }
        assert!(END_ROLES.is_sorted());
    }
}

#[cfg(test)]
mod by_role_tests {
    use super::*;

    #[test]
    fn it_is_stored_as_an_ordered_map() {
        let mut cpus = ByRole::from([(EndRole::Sink, 1), (EndRole::Source, 0), (EndRole::Sink, 2)]);
        let text = serde_json::to_string(&cpus).unwrap();
        let as_tree: BTreeMap<EndRole, usize> = cpus.iter().map(|(role, cpu)| (role, *cpu)).collect();
        assert_eq!(text, serde_json::to_string(&as_tree).unwrap());
        assert_eq!(serde_json::from_str::<ByRole<usize>>(&text).unwrap(), cpus);
        assert_eq!((cpus.get(EndRole::Sink), cpus.get(EndRole::Relay)), (Some(&2), None));
        cpus.values_mut().for_each(|cpu| *cpu += 1);
        assert_eq!((cpus.remove(EndRole::Sink), cpus.remove(EndRole::Sink)), (Some(3), None));
        assert_eq!(cpus, ByRole::from([(EndRole::Source, 1)]));
    }
}
