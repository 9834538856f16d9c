//! Forecast of a mesh: rounds, time, bytes and concurrent connections; and the limits on them.

use std::collections::BTreeMap;

use bytegauge_mesh::MeshSettings;
use bytegauge_model::unit::{about_bytes, counted};
use bytegauge_model::{Bytes, Nanos};
use clap::ArgMatches;

use crate::args;
use crate::exit_code::{Failure, usage};

/// Time above which a mesh needs `--yes`, nanoseconds: an hour.
const TIME_MAX_NS: u64 = 3_600_000_000_000;

/// Bytes above which a mesh needs `--yes`: 1 PiB.
const BYTES_MAX: u64 = 1 << 50;

/// The assumed rate of a host without `--rate`, bytes per second: 100 Gbit/s.
const RATE: u64 = 12_500_000_000;

/// The expected size of a mesh.
pub struct MeshForecast {
    rounds: u32,
    tests: u64,
    trials: u64,
    time_ns: u64,
    bytes: u64,
    /// Tests at the same time.
    at_once: u64,
    /// Connections at the same time.
    flows: u64,
    /// Whether the rate is that of `--rate`.
    is_paced: bool,
}

impl MeshForecast {
    /// The expected size of these settings.
    pub fn of(settings: &MeshSettings) -> MeshForecast {
        let schedule = settings.schedule();
        let mut in_round = BTreeMap::<u32, u64>::new();
        let mut parts = 0;
        let mut most_clients = 1;
        for (_, slot) in schedule.slots() {
            *in_round.entry(slot.round).or_default() += 1;
            parts += slot.clients.len() as u64;
            most_clients = most_clients.max(slot.clients.len() as u64);
        }
        let most = settings.concurrent.map_or(u64::MAX, u64::from);
        let waves: u64 = in_round.values().map(|tests| tests.div_ceil(most)).sum();
        let at_once = in_round.values().copied().max().unwrap_or(0).min(most);
        let flows = settings.cells.iter().filter_map(|cell| cell.cell.factors.flows()).max().unwrap_or(1);
        let rates = settings.cells.iter().map(|cell| cell.cell.factors.rate());
        let is_paced = rates.clone().all(|rate| rate.is_some());
        let each: f64 = settings
            .cells
            .iter()
            .zip(rates)
            .map(|(cell, rate)| settings.trial_ns(cell) as f64 / 1e9 * cell.rows() as f64 * rate.unwrap_or(RATE) as f64)
            .sum();
        // Clients of one server share its link.
        let senders = if is_paced { parts } else { schedule.len() as u64 };
        MeshForecast {
            rounds: schedule.rounds(),
            tests: schedule.len() as u64,
            trials: parts * settings.cells.len() as u64,
            time_ns: waves.saturating_mul(settings.slot_ns()),
            bytes: (each * senders as f64) as u64,
            at_once,
            flows: at_once * most_clients * flows,
            is_paced,
        }
    }

    /// The forecast as text, with its last line ended.
    pub fn text(&self, settings: &MeshSettings) -> String {
        let assumed = if self.is_paced { "" } else { ", if each host reaches 100 Gbit/s" };
        let repeated = if settings.follow_up { "; pairs that look slow are repeated after it" } else { "" };
        format!(
            "Mesh of {} ranks, pattern {}, {}: {} in {}, {} trials\nTime: {}{repeated}\nBytes: at most {}{assumed}\nAt the same \
             time: {}, {}\n",
            settings.ranks,
            settings.pattern,
            counted(settings.options.len(), "option"),
            counted(self.tests as usize, "test"),
            counted(self.rounds as usize, "round"),
            self.trials,
            Nanos(self.time_ns),
            about_bytes(self.bytes),
            counted(self.at_once as usize, "test"),
            counted(self.flows as usize, "connection"),
        )
    }

    /// Refuses a mesh beyond its limits unless the user agrees.
    ///
    /// # Errors
    /// [`Failure`] of wrong usage, with the flags that allow it.
    pub fn check(&self, matches: &ArgMatches) -> Result<(), Failure> {
        if matches.get_flag("yes") {
            return Ok(());
        }
        let time_ns = args::parsed(matches, "max-time")?.map_or(TIME_MAX_NS, |Nanos(ns)| ns);
        let bytes = args::parsed(matches, "max-bytes")?.map_or(BYTES_MAX, |Bytes(bytes)| bytes);
        if self.time_ns > time_ns {
            return usage(format!(
                "this mesh takes about {}, more than {}: use fewer --replicates, --pattern matchings:K, a larger --max-time, or --yes",
                Nanos(self.time_ns),
                Nanos(time_ns)
            ));
        }
        if self.bytes > bytes {
            return usage(format!(
                "this mesh may move {}, more than {}: use a --rate, fewer --replicates, a larger --max-bytes, or --yes",
                about_bytes(self.bytes),
                about_bytes(bytes)
            ));
        }
        Ok(())
    }
}
