//! The summary of the files of a mesh: counts, reasons of missing parts, and the result of each option.
//!
//! Also the times of all calls, and which options are the fastest.

use std::collections::{BTreeMap, BTreeSet};

use bytegauge_model::Outcome;
use bytegauge_stats::best_set::best_set;
use bytegauge_stats::group::Method;
use bytegauge_stats::lifetimes::Lifetimes;
use bytegauge_stats::quantile::median;

use crate::Rank;
use crate::files::MeshData;
use crate::rate_model::{RateSample, rack_numbers};
use crate::result::MeshResult;
use crate::row::{MeshRow, SlotPlace};

/// Everything that a screen or a page shows of a mesh.
#[derive(Clone, Debug, PartialEq)]
pub struct MeshSummary {
    /// The result of each option, in the order of the settings.
    pub results: Vec<MeshResult>,
    /// Parts of slots that the schedule has, with repetitions of suspects.
    pub parts: usize,
    /// Parts of which at least one trial was measured.
    pub measured: usize,
    /// Parts without a measured trial: how many, by reason, the most frequent first.
    pub missing: Vec<(String, usize)>,
    /// Trials that failed in parts of which others were measured, and were not measured later, in the same way.
    pub failed: Vec<(String, usize)>,
    /// Whether files of ranks that took part are somewhere else.
    pub has_files_elsewhere: bool,
    /// Racks by number.
    pub racks: Vec<String>,
    /// By hub, the rates of its clients at the same time: the mean of their sums, by option. Empty for pairs.
    pub hub_rates: Vec<BTreeMap<Rank, f64>>,
    /// Times of the calls, by option.
    pub call_times: Vec<CallTimes>,
    /// Options from the fastest; empty with fewer than two.
    pub standings: Vec<MeshStanding>,
    /// From the first trial to the end of the last one, nanoseconds, by the clock of rank 0.
    pub span_ns: u64,
}

impl MeshSummary {
    /// Summarises the files of a directory.
    pub fn of(data: &MeshData) -> MeshSummary {
        let settings = &data.settings;
        let rack = |rank| data.hosts.get(&rank)?.rack.as_deref();
        let (rack_numbers, racks) = rack_numbers(settings.ranks, rack);
        let mut samples: Vec<Vec<RateSample>> = vec![Vec::new(); settings.options.len()];
        for row in &data.rows {
            let Some((option, sample)) = row.option.zip(row.sample()) else { continue };
            if let Some(samples) = samples.get_mut(option as usize) {
                samples.push(sample);
            }
        }
        let results = match settings.pattern.has_hub() {
            true => Vec::new(),
            false => samples.iter().map(|samples| MeshResult::of(samples, &rack_numbers, settings.margin)).collect(),
        };
        let rows: Vec<&MeshRow> = data.rows.iter().filter(|row| row.outcome == Outcome::Measured).collect();
        let measured: BTreeSet<(u32, Rank)> = rows.iter().map(|row| row.place.part()).collect();
        let of_option = |option| CallTimes::of(rows.iter().copied().filter(|row| row.option == Some(option)));
        let first_ns = rows.iter().map(|row| row.started_unix_ns).min().unwrap_or(0);
        let last_ns = rows.iter().map(|row| row.started_unix_ns.saturating_add(row.window_ns)).max().unwrap_or(0);
        let (parts, missing, has_files_elsewhere) = missing(data, &measured);
        MeshSummary {
            results,
            parts,
            measured: measured.len(),
            missing,
            failed: failed(&data.rows, &measured),
            has_files_elsewhere,
            racks,
            hub_rates: if settings.pattern.has_hub() { hub_rates(data) } else { Vec::new() },
            call_times: (0..settings.options.len() as u32).map(of_option).collect(),
            standings: standings(&data.rows, settings.options.len()),
            span_ns: last_ns.saturating_sub(first_ns),
        }
    }
}

/// The number of all parts, how many have no numbers by reason, and whether files are somewhere else.
fn missing(data: &MeshData, measured: &BTreeSet<(u32, Rank)>) -> (usize, Vec<(String, usize)>, bool) {
    let schedule = data.settings.schedule();
    let mut parts: BTreeSet<(u32, Rank)> = BTreeSet::new();
    for (id, slot) in schedule.slots() {
        parts.extend(slot.clients.iter().map(|client| (id, *client)));
    }
    // Repetitions of suspects are in the files alone.
    parts.extend(data.rows.iter().map(|row| row.place.part()));
    let reasons: BTreeMap<(u32, Rank), &str> =
        data.rows.iter().filter_map(|row| Some((row.place.part(), row.outcome.reason()?))).collect();
    let mut missing: BTreeMap<String, usize> = BTreeMap::new();
    let mut has_files_elsewhere = false;
    for part in parts.difference(measured) {
        let reason = match reasons.get(part) {
            Some(reason) => (*reason).to_owned(),
            None if !data.hosts.contains_key(&part.1) => {
                has_files_elsewhere = true;
                format!("the file of rank {} is not here", part.1)
            }
            None if data.unfinished.contains(&part.1) => format!("the file of rank {} is not finished", part.1),
            None => format!("rank {} has no result of it", part.1),
        };
        *missing.entry(reason).or_default() += 1;
    }
    (parts.len(), most_frequent(missing), has_files_elsewhere)
}

/// The failed trials of parts of which others were measured: how many, by reason.
fn failed(rows: &[MeshRow], measured: &BTreeSet<(u32, Rank)>) -> Vec<(String, usize)> {
    let trial = |row: &MeshRow| (row.place.part(), row.option, row.sender);
    let known: BTreeSet<_> = rows.iter().filter(|row| row.outcome == Outcome::Measured).map(trial).collect();
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for row in rows.iter().filter(|row| measured.contains(&row.place.part()) && !known.contains(&trial(row))) {
        let reason = row.option.and(row.outcome.reason());
        reason.into_iter().for_each(|reason| *reasons.entry(reason.to_owned()).or_default() += 1);
    }
    most_frequent(reasons)
}

fn most_frequent(reasons: BTreeMap<String, usize>) -> Vec<(String, usize)> {
    let mut reasons: Vec<(String, usize)> = reasons.into_iter().collect();
    reasons.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    reasons
}

/// The mean of the sums of the rates at each hub, by option. Slots of which a client is missing do not count.
fn hub_rates(data: &MeshData) -> Vec<BTreeMap<Rank, f64>> {
    let mut slots: BTreeMap<(usize, u32), (SlotPlace, BTreeSet<Rank>, f64)> = BTreeMap::new();
    for row in &data.rows {
        let (Some(option), Some(rate)) = (row.option, row.rate) else { continue };
        let slot = slots.entry((option as usize, row.place.slot)).or_insert((row.place, BTreeSet::new(), 0.0));
        slot.1.insert(row.place.client);
        slot.2 += rate;
    }
    let mut hubs: Vec<BTreeMap<Rank, (f64, f64)>> = vec![BTreeMap::new(); data.settings.options.len()];
    for ((option, _), (place, clients, sum)) in slots {
        if clients.len() == place.clients as usize
            && let Some(hubs) = hubs.get_mut(option)
        {
            let (sums, count) = hubs.entry(place.hub).or_insert((0.0, 0.0));
            *sums += sum;
            *count += 1.0;
        }
    }
    hubs.into_iter().map(|hubs| hubs.into_iter().map(|(hub, (sum, count))| (hub, sum / count)).collect()).collect()
}

// The times of the calls of a mesh, merged from the histograms of all trials: together, by server and by client.
//
// Percentiles of percentiles mean nothing, so the histograms are added up first. Calls that a window cut count for as
// long as they were observed (`Lifetimes`).

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

// Which options are the fastest over all pairs of hosts.
//
// Each part of a test measures every option once per direction, so differences are paired within it: the rates of hosts and
// links cancel. Bounds are simultaneous over all options (multiple comparisons with the best, `best_set`).

/// Parts that a comparison needs.
const BLOCKS_MIN: usize = 6;

/// The most blocks that are compared: those of a larger mesh are means of consecutive parts.
const BLOCKS_MAX: usize = 500;

/// An option compared with the best one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeshStanding {
    /// Its position in the settings.
    pub option: usize,
    /// The median of its rates in all parts that measured every option.
    pub rate: f64,
    /// How much slower than the best option it is, shares of the best rate, 95 % confidence; `None` with too few parts.
    pub slower: Option<(f64, f64)>,
    /// Whether it may be the best.
    pub may_be_best: bool,
}

/// Options from the fastest; those that were never measured are left out. Empty with fewer than two.
pub fn standings(rows: &[MeshRow], options: usize) -> Vec<MeshStanding> {
    let mut parts: BTreeMap<(u32, Rank, Rank), Vec<Option<f64>>> = BTreeMap::new();
    for row in rows {
        let (Some(option), Some(sample)) = (row.option, row.sample()) else { continue };
        let (slot, client) = row.place.part();
        let part = parts.entry((slot, client, sample.sender)).or_insert_with(|| vec![None; options]);
        if let Some(rate) = part.get_mut(option as usize) {
            *rate = Some(sample.ln_rate);
        }
    }
    let measured: Vec<usize> =
        (0..options).filter(|option| parts.values().any(|part| part[*option].is_some())).collect();
    let complete = |part: &Vec<Option<f64>>| measured.iter().map(|option| part[*option]).collect::<Option<Vec<f64>>>();
    let ln_rates: Vec<Vec<f64>> = parts.values().filter_map(complete).collect();
    if measured.len() < 2 || ln_rates.is_empty() {
        return Vec::new();
    }
    let each = ln_rates.len().div_ceil(BLOCKS_MAX);
    let column = |rows: &[Vec<f64>], at: usize| rows.iter().map(|row| row[at]).collect::<Vec<f64>>();
    // A cost is the reciprocal of a rate.
    let cost = |rows: &[Vec<f64>], at: usize| -column(rows, at).iter().sum::<f64>() / rows.len() as f64;
    let blocks: Vec<Vec<f64>> =
        ln_rates.chunks(each).map(|rows| (0..measured.len()).map(|at| cost(rows, at)).collect()).collect();
    let best = (blocks.len() >= BLOCKS_MIN).then(|| best_set(&blocks, 1.0, 0.0, &Method::default()));
    // ln(cost of this option / cost of the best one) as a share of the best rate.
    let share = |ln: f64| 1.0 - (-ln.max(0.0)).exp();
    let standing = |(at, option): (usize, &usize)| MeshStanding {
        option: *option,
        rate: median(&column(&ln_rates, at)).unwrap_or(0.0).exp(),
        slower: best.as_ref().map(|best| (share(best.lower[at]), share(best.upper[at]))),
        may_be_best: best.as_ref().is_none_or(|best| best.kept[at]),
    };
    let mut all: Vec<MeshStanding> = measured.iter().enumerate().map(standing).collect();
    all.sort_by(|one, other| other.rate.total_cmp(&one.rate));
    all
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

#[cfg(test)]
mod fastest_options_tests {
    use bytegauge_model::Outcome;

    use super::*;
    use crate::row::SlotPlace;

    /// Rows of `slots` pairs, whose own rates differ by far more than options: `factor` of an option and a slot.
    fn rows(slots: u32, options: u32, factor: impl Fn(u32, u32) -> f64) -> Vec<MeshRow> {
        let cells = (0..slots).flat_map(|slot| (0..options).map(move |option| (slot, option)));
        cells
            .map(|(slot, option)| {
                let place = SlotPlace { replicate: 0, round: slot, slot, hub: 0, client: 1, clients: 1 };
                let rate = 1e9 * (1.0 + f64::from(slot % 5)) * factor(option, slot);
                let row = MeshRow::without_numbers(place, Outcome::Measured, 1);
                MeshRow { option: Some(option), sender: Some(1), rate: Some(rate), ..row }
            })
            .collect()
    }

    #[test]
    fn the_slower_option_is_bounded() {
        let noise = |option: u32, slot: u32| 1.0 + f64::from((slot * 7 + option * 3) % 4) / 200.0;
        let all = standings(&rows(40, 2, |option, slot| noise(option, slot) * [0.8, 1.0][option as usize]), 2);
        assert_eq!((all[0].option, all[0].may_be_best, all[1].may_be_best), (1, true, false));
        let (low, high) = all[1].slower.unwrap();
        assert!(0.18 < low && low < 0.2 && 0.2 < high && high < 0.22, "{all:?}");
    }

    #[test]
    fn options_without_a_difference_are_tied() {
        let noise = |option: u32, slot: u32| 1.0 + f64::from((slot * 7 + option * 13) % 11) / 100.0;
        let all = standings(&rows(2_000, 3, noise), 3);
        assert!(all.iter().all(|standing| standing.may_be_best), "{all:?}");
    }

    #[test]
    fn few_parts_are_not_judged() {
        let all = standings(&rows(5, 2, |option, _| f64::from(option + 1)), 2);
        assert!(all.iter().all(|standing| standing.slower.is_none() && standing.may_be_best), "{all:?}");
        assert_eq!(standings(&rows(5, 1, |_, _| 1.0), 1), Vec::new());
    }
}
