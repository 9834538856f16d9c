//! The summary of the files of a mesh: counts, reasons of missing parts, and the result of each option.

use std::collections::{BTreeMap, BTreeSet};

use bytegauge_model::Outcome;

use crate::Rank;
use crate::call_times::CallTimes;
use crate::fastest_options::{MeshStanding, standings};
use crate::files::MeshData;
use crate::rate_model::{RateSample, rack_numbers};
use crate::result::MeshResult;
use crate::row::SlotPlace;

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
        let measured: BTreeSet<(u32, Rank)> =
            data.rows.iter().filter(|row| row.outcome == Outcome::Measured).map(|row| row.place.part()).collect();
        let (parts, missing, has_files_elsewhere) = missing(data, &measured);
        MeshSummary {
            results,
            parts,
            measured: measured.len(),
            missing,
            has_files_elsewhere,
            racks,
            hub_rates: if settings.pattern.has_hub() { hub_rates(data) } else { Vec::new() },
            call_times: call_times(data),
            standings: standings(&data.rows, settings.options.len()),
            span_ns: span_ns(data),
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
    let mut reasons: Vec<(String, usize)> = missing.into_iter().collect();
    reasons.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    (parts.len(), reasons, has_files_elsewhere)
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

fn call_times(data: &MeshData) -> Vec<CallTimes> {
    let measured = || data.rows.iter().filter(|row| row.outcome == Outcome::Measured);
    let options = 0..data.settings.options.len() as u32;
    options.map(|option| CallTimes::of(measured().filter(|row| row.option == Some(option)))).collect()
}

fn span_ns(data: &MeshData) -> u64 {
    let measured = || data.rows.iter().filter(|row| row.outcome == Outcome::Measured);
    let first = measured().map(|row| row.started_unix_ns).min().unwrap_or(0);
    let last = measured().map(|row| row.started_unix_ns.saturating_add(row.window_ns)).max().unwrap_or(0);
    last.saturating_sub(first)
}
