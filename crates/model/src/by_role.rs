//! Counts of the ends of a trial.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::end::EndRole;
use crate::end_report::EndReport;

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
