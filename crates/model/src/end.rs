//! The ends of a trial by their role.

use std::fmt;

use serde::{Deserialize, Serialize};

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
    #[must_use]
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
