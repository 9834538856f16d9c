//! The ends of a trial by what they do, and what each of them counted.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::factor::Workload;
use crate::trial::EndReport;

/// What an end does in a trial.
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
}

/// Every role, in their order.
pub const END_ROLES: [EndRole; 6] =
    [EndRole::Source, EndRole::Sink, EndRole::Client, EndRole::Server, EndRole::Competitor, EndRole::Ring];

/// Which side of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// Connects: it writes, or calls.
    Source,
    /// Is connected to: it reads, or serves.
    Sink,
}

impl EndRole {
    /// Its name, as it is stored and printed.
    pub fn name(self) -> &'static str {
        match self {
            EndRole::Source => "source",
            EndRole::Sink => "sink",
            EndRole::Client => "client",
            EndRole::Server => "server",
            EndRole::Competitor => "competitor",
            EndRole::Ring => "ring",
        }
    }

    /// The role of that name.
    pub fn from_name(name: &str) -> Option<EndRole> {
        END_ROLES.into_iter().find(|role| role.name() == name)
    }

    /// The role of the end on one side of a workload's path; a ring has one end alone.
    pub fn of(workload: Workload, side: Side) -> Option<EndRole> {
        Some(match (workload, side) {
            (Workload::Stream, Side::Source) => EndRole::Source,
            (Workload::Stream, Side::Sink) => EndRole::Sink,
            (Workload::Call, Side::Source) => EndRole::Client,
            (Workload::Call, Side::Sink) => EndRole::Server,
            (Workload::Ring, Side::Source) => return None,
            (Workload::Ring, Side::Sink) => EndRole::Ring,
        })
    }

    /// The side of a path that it is on. A ring has no path: it is where something arrives.
    pub fn side(self) -> Side {
        match self {
            EndRole::Source | EndRole::Client | EndRole::Competitor => Side::Source,
            EndRole::Sink | EndRole::Server | EndRole::Ring => Side::Sink,
        }
    }
}

impl fmt::Display for EndRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What the ends of a trial counted, by role: those that reported.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EndReports(pub BTreeMap<EndRole, EndReport>);

impl EndReports {
    /// What an end counted.
    pub fn get(&self, role: EndRole) -> Option<&EndReport> {
        self.0.get(&role)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, role: EndRole) -> Option<&mut EndReport> {
        self.0.get_mut(&role)
    }

    /// The end that connects: a source, or a client.
    pub fn source_side(&self) -> Option<&EndReport> {
        self.get(EndRole::Source).or_else(|| self.get(EndRole::Client))
    }

    /// The end that is connected to, a sink or a server; or a ring.
    pub fn sink_side(&self) -> Option<&EndReport> {
        [EndRole::Sink, EndRole::Server, EndRole::Ring].into_iter().find_map(|role| self.get(role))
    }

    /// The end whose window is the trial's: the client of calls, the sink of a stream, or its source where the sink is
    /// not ours, a ring.
    pub fn measuring(&self) -> Option<&EndReport> {
        const MEASURING: [EndRole; 4] = [EndRole::Client, EndRole::Ring, EndRole::Sink, EndRole::Source];
        MEASURING.into_iter().find_map(|role| self.get(role))
    }

    /// Every end with its role.
    pub fn iter(&self) -> impl Iterator<Item = (EndRole, &EndReport)> {
        self.0.iter().map(|(role, report)| (*role, report))
    }
}

impl FromIterator<(EndRole, EndReport)> for EndReports {
    fn from_iter<I: IntoIterator<Item = (EndRole, EndReport)>>(ends: I) -> EndReports {
        EndReports(ends.into_iter().collect())
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
