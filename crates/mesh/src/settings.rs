//! The settings of a mesh: rank 0 sends them to all ranks, and its file keeps them.

use bytegauge_model::{Cell, Direction, Ends, Level, Spec, Workload};
use serde::{Deserialize, Serialize};

use crate::launcher::RANKS_MAX;
use crate::schedule::{MeshPattern, MeshSchedule, SLOTS_MAX};

/// The format of the files and of the messages. A rank with another one is refused.
pub const FORMAT: u32 = 1;

/// The most clients of all slots together, twice [`SLOTS_MAX`].
const MEMBERS_MAX: u64 = 2 * SLOTS_MAX;

/// Factors with the place at which a cell is measured; they distinguish no options.
const PLACES: [&str; 3] = ["direction", "host", "connect"];

/// One option in one direction, as seen from the client of a slot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeshCell {
    /// The position of its option in [`MeshSettings::options`].
    pub option: u32,
    /// Whether the client sends or calls (`to` the hub), the hub does (`from`), or both send at once.
    pub direction: Direction,
    /// Its levels. The far host, or the external server, is a placeholder that each visit replaces.
    pub cell: Cell,
}

/// Everything that all ranks of a mesh have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeshSettings {
    /// The format, [`FORMAT`].
    pub format: u32,
    /// A random number that distinguishes this run.
    pub run: u64,
    /// The number of ranks.
    pub ranks: u32,
    /// Which ranks measure each other.
    pub pattern: MeshPattern,
    /// The external server that ranks call, as rank 0 names it. Its number is that after the last rank.
    pub server: Option<String>,
    /// Repetitions of the pattern.
    pub replicates: u32,
    /// The most slots at the same time; `None` for all.
    pub concurrent: Option<u32>,
    /// Seed of the schedule and of every random order.
    pub seed: u64,
    /// The kind of traffic.
    pub workload: Workload,
    /// Warm-up of each trial, nanoseconds.
    pub warmup_ns: u64,
    /// Length of each trial, nanoseconds.
    pub window_ns: u64,
    /// Threads or processes.
    pub ends: Ends,
    /// Whether the content of all bytes is checked at the receiver.
    #[serde(default)]
    pub verify: bool,
    /// Differences below this share of the typical rate are never called slow.
    pub margin: f64,
    /// Whether suspects are repeated after the pattern.
    pub follow_up: bool,
    /// The options that are compared, by name.
    pub options: Vec<String>,
    /// Every option in every direction.
    pub cells: Vec<MeshCell>,
}

impl MeshCell {
    /// The rows of a trial: one per direction.
    pub fn rows(&self) -> usize {
        if self.direction == Direction::Both { 2 } else { 1 }
    }
}

impl MeshSettings {
    /// Settings of a mesh of all pairs with one option, for tests of what is made of its results.
    #[cfg(test)]
    pub(crate) fn of_pairs(ranks: u32) -> MeshSettings {
        MeshSettings {
            format: FORMAT,
            run: 1,
            ranks,
            pattern: MeshPattern::Pairs,
            server: None,
            replicates: 1,
            concurrent: None,
            seed: 1,
            workload: Workload::Stream,
            warmup_ns: 1,
            window_ns: 1,
            ends: Ends::Threads,
            verify: false,
            margin: 0.1,
            follow_up: false,
            options: vec!["all".into()],
            cells: Vec::new(),
        }
    }

    /// Checks settings that came from another process or a file: the schedule that they describe has bounded size.
    ///
    /// # Errors
    /// The wrong value.
    pub fn check(&self) -> Result<(), String> {
        if self.format != FORMAT {
            return Err(format!(
                "format {}, where this version reads {FORMAT}: use one version on all hosts",
                self.format
            ));
        }
        if !(2..=RANKS_MAX).contains(&self.ranks) {
            return Err(format!("{} ranks, out of the range 2 to {RANKS_MAX}", self.ranks));
        }
        // A pattern of many clients has few slots, but each has as many members.
        let slots = MeshSchedule::slot_count(self.ranks, self.pattern, self.replicates);
        let members = slots.saturating_mul(self.pattern.clients(self.ranks).min(self.ranks).into());
        if members > MEMBERS_MAX {
            return Err(format!("{members} parts of tests, more than {MEMBERS_MAX}"));
        }
        if !(0.0..1.0).contains(&self.margin) {
            return Err(format!("a margin of {}, not between 0 and 1", self.margin));
        }
        if let Some(cell) = self.cells.iter().find(|cell| cell.option as usize >= self.options.len()) {
            return Err(format!("option {} of {}", cell.option, self.options.len()));
        }
        Ok(())
    }

    /// The schedule, which is the same at all ranks.
    pub fn schedule(&self) -> MeshSchedule {
        let MeshSettings { ranks, pattern, replicates, seed, .. } = *self;
        match self.server {
            Some(_) => MeshSchedule::of_server(ranks, pattern.clients(ranks), replicates, seed),
            None => MeshSchedule::new(ranks, pattern, replicates, seed),
        }
    }

    /// Numbers of the ranks and, after them, of an external server.
    pub fn parties(&self) -> u32 {
        self.ranks + u32::from(self.server.is_some())
    }

    /// Whether results of both settings may be pooled: everything but the run is the same.
    pub fn is_same_test(&self, other: &MeshSettings) -> bool {
        MeshSettings { run: 0, ..self.clone() } == MeshSettings { run: 0, ..other.clone() }
    }

    /// The expected time of one slot, nanoseconds: its trials, with 150 ms of set-up each.
    pub fn slot_ns(&self) -> u64 {
        const SETUP_NS: u64 = 150_000_000;
        let trials = self.cells.iter().map(|cell| self.trial_ns(cell).saturating_add(SETUP_NS));
        trials.fold(0, u64::saturating_add)
    }

    /// The length of a trial of a cell with its warm-up, nanoseconds.
    pub fn trial_ns(&self, cell: &MeshCell) -> u64 {
        self.warmup_ns.saturating_add(cell.cell.factors.duration().unwrap_or(self.window_ns))
    }

    /// Rows of a part of which every trial was made.
    pub fn rows_of_part(&self) -> usize {
        self.cells.iter().map(MeshCell::rows).sum()
    }

    /// Whether a level distinguishes options. A direction does so if it is both at once: one way and the other are rows of one option.
    pub(crate) fn distinguishes(name: &str, levels: &Spec) -> bool {
        !PLACES.contains(&name) || (name == "direction" && levels.goes_both_ways())
    }

    /// Sets the options from cells of a plan: cells that measure one direction each, and differ in nothing else, are one option.
    pub fn set_cells(&mut self, cells: Vec<Cell>) {
        let (mut levels, mut own): (Vec<Spec>, Vec<MeshCell>) = (Vec::new(), Vec::new());
        for cell in cells {
            let direction = cell.factors.direction().unwrap_or_default();
            let mut option = cell.factors.clone();
            option.retain(|name| Self::distinguishes(name, &cell.factors));
            let at = levels.iter().position(|known| *known == option).unwrap_or_else(|| {
                levels.push(option);
                levels.len() - 1
            });
            own.push(MeshCell { option: at as u32, direction, cell });
        }
        self.options = names(&levels);
        self.cells = own;
    }
}

/// Names of options by the levels in which they differ. A factor that applies to some options only, at the same level, follows
/// from another one.
fn names(options: &[Spec]) -> Vec<String> {
    let differ = |name: &str| {
        let mut levels = options.iter().map(|option| option.get(name)).filter(|level| *level != Level::Absent);
        let first = levels.next();
        levels.any(|level| Some(level) != first)
    };
    let both = options.iter().filter(|option| option.goes_both_ways()).count();
    let name = |option: &Spec| {
        let ways = if option.goes_both_ways() { "both ways at once" } else { "one way" };
        let ways = ((1..options.len()).contains(&both)).then(|| ways.to_owned());
        let levels = option
            .present()
            .filter(|(factor, _)| differ(factor.name))
            .map(|(factor, level)| format!("{} {}", factor.heading, factor.kind.compact(&level)));
        let parts: Vec<String> = ways.into_iter().chain(levels).collect();
        if parts.is_empty() { "all".to_owned() } else { parts.join(", ") }
    };
    options.iter().map(name).collect()
}
