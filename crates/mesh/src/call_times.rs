//! The times of the calls of a mesh, merged from the histograms of all trials: together, by server and by client.
//!
//! Percentiles of percentiles mean nothing, so the histograms are added up first. Calls that a window cut count for as
//! long as they were observed ([`Lifetimes`]).

use std::collections::BTreeMap;

use bytegauge_stats::lifetimes::Lifetimes;

use crate::Rank;
use crate::row::MeshRow;

/// Calls that must be longer than a percentile, or it is not stated.
const BEYOND_MIN: f64 = 10.0;

/// The times of the calls of one option, nanoseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallTimes {
    /// All calls.
    pub together: Lifetimes,
    /// By the rank that served.
    pub servers: BTreeMap<Rank, Lifetimes>,
    /// By the rank that called.
    pub clients: BTreeMap<Rank, Lifetimes>,
}

impl CallTimes {
    /// Merges the calls of rows.
    pub fn of<'a>(rows: impl Iterator<Item = &'a MeshRow>) -> CallTimes {
        let mut all = CallTimes::default();
        for row in rows {
            let (Some(times), Some(client), Some(server)) = (row.times(), row.sender, row.receiver()) else { continue };
            all.servers.entry(server).or_default().add(&times);
            all.clients.entry(client).or_default().add(&times);
        }
        // From the hosts, since adding to a large histogram takes longer.
        all.servers.values().for_each(|times| all.together.add(times));
        all
    }

    /// The host of a table with the longest time at a share of its calls; `None` if no host has enough calls.
    pub fn slowest(hosts: &BTreeMap<Rank, Lifetimes>, share: f64) -> Option<(Rank, f64)> {
        let times = hosts.iter().filter_map(|(rank, times)| Some((*rank, percentile(times, share)?)));
        times.max_by(|one, other| one.1.total_cmp(&other.1))
    }
}

/// The time that a share of the calls does not exceed, nanoseconds: infinite if it is longer than any observed one, `None` if
/// fewer than ten calls are longer.
pub fn percentile(times: &Lifetimes, share: f64) -> Option<f64> {
    let calls: u64 = times.ended.iter().map(|(_, count)| count).sum();
    // 1 − 0.9 is a little less than a tenth.
    let is_enough = calls as f64 * (1.0 - share) >= BEYOND_MIN - 1e-6;
    times.percentile(share).filter(|_| is_enough)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(durations: &[(u64, u64)]) -> Lifetimes {
        Lifetimes { ended: durations.to_vec(), ..Lifetimes::default() }
    }

    #[test]
    fn few_calls_have_no_high_percentile() {
        let few = times(&[(100, 19)]);
        assert_eq!((percentile(&few, 0.5), percentile(&few, 0.2)), (None, Some(100.0)));
    }

    #[test]
    fn the_slowest_host_has_enough_calls() {
        let hosts = BTreeMap::from([
            (0, times(&[(10, 1_000)])),
            (1, times(&[(10, 900), (50, 100)])),
            (2, times(&[(9_000, 5)])),
        ]);
        assert_eq!(CallTimes::slowest(&hosts, 0.95), Some((1, 50.0)));
        assert_eq!(CallTimes::slowest(&BTreeMap::new(), 0.95), None);
    }
}
