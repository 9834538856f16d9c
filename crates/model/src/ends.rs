//! Counts of the ends of a trial.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::end::EndRole;
use crate::end_report::EndReport;

/// Counts of the ends of a trial, by role: those that reported. Boxed, because a node of the map has room for eleven reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EndReports(pub BTreeMap<EndRole, Box<EndReport>>);

impl EndReports {
    /// The counts of an end.
    pub fn get(&self, role: EndRole) -> Option<&EndReport> {
        self.0.get(&role).map(Box::as_ref)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, role: EndRole) -> Option<&mut EndReport> {
        self.0.get_mut(&role).map(Box::as_mut)
    }

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

    /// Every end with its role.
    pub fn iter(&self) -> impl Iterator<Item = (EndRole, &EndReport)> {
        self.0.iter().map(|(role, report)| (*role, report.as_ref()))
    }
}

impl FromIterator<(EndRole, EndReport)> for EndReports {
    fn from_iter<I: IntoIterator<Item = (EndRole, EndReport)>>(ends: I) -> EndReports {
        EndReports(ends.into_iter().map(|(role, report)| (role, Box::new(report))).collect())
    }
}
