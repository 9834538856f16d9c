//! The names of a factor's levels with their descriptions, from the tables, for readers of results.

use crate::catalog::{ARRIVALS, ENDS, FD_TABLES, PLACEMENTS, RCVBUF_ON, Row, TRANSPORTS};
use crate::engine::ENGINES;
use crate::far::DIRECTIONS;
use crate::profile::PROFILES;
use crate::relay::{RELAY_METHODS, RELAY_PLACEMENTS, RELAY_THREADS};
use crate::relay_program::READY_RELAYS;
use crate::ring::{IMPLEMENTATIONS, MODES, SETUPS, USER_DATA};
use crate::send_from::SEND_FROM;
use crate::tls::TLS_KINDS;

/// Every name that a level of the factor may have, with its description; empty if the levels are numbers.
pub fn of(factor: &str) -> Vec<(&'static str, &'static str)> {
    match factor {
        "transport" => rows(TRANSPORTS),
        "placement" => rows(PLACEMENTS),
        "fd_table" => rows(FD_TABLES),
        "tls" => rows(TLS_KINDS),
        "ends" => rows(ENDS),
        "profile" => PROFILES.iter().map(|profile| (profile.name, profile.summary)).collect(),
        "engine" | "server_engine" | "client_engine" => ENGINES.iter().map(|row| (row.name, row.summary)).collect(),
        "arrivals" => rows(ARRIVALS),
        "rcvbuf_on" => rows(RCVBUF_ON),
        "send_from" => rows(SEND_FROM),
        "relay" => {
            let programs = READY_RELAYS.iter().map(|ready| (ready.name, ready.summary));
            rows(RELAY_METHODS).into_iter().chain(programs).collect()
        }
        "relay_threads" => rows(RELAY_THREADS),
        "relay_placement" => rows(RELAY_PLACEMENTS),
        "direction" => rows(DIRECTIONS),
        "implementation" => rows(IMPLEMENTATIONS),
        "setup" => rows(SETUPS),
        "user_data" => rows(USER_DATA),
        "mode" => rows(MODES),
        _ => Vec::new(),
    }
}

fn rows<T>(table: &'static [Row<T>]) -> Vec<(&'static str, &'static str)> {
    table.iter().map(|row| (row.name, row.summary)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::factor::FACTORS;

    #[test]
    fn names_are_unique_within_their_factor() {
        let names: Vec<_> = FACTORS.iter().map(|factor| (factor.name, of(factor.name))).collect();
        assert!(names.iter().filter(|(_, names)| !names.is_empty()).count() >= 15);
        for (factor, names) in names {
            for (at, (name, meaning)) in names.iter().enumerate() {
                assert!(!meaning.is_empty(), "{factor} {name}");
                assert!(names[..at].iter().all(|(other, _)| other != name), "{factor}: {name} occurs twice");
            }
        }
    }
}
