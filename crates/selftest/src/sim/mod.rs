//! Worlds whose truth is known.
//!
//! A statistical promise can only be checked where the answer is known beforehand. A [`Scenario`] is
//! one group: true costs, noise of a chosen kind, an environment that swings or drifts while the
//! trials run one after another, and a run order. A [`stages::World`] is a whole grid of choices
//! over several profiles, taken through screening and confirmation as a session would.
//!
//! The run order is a function, so that "the same trials, but in fixed order" is one switch.
//!
//! Never used to produce a number about the user's machine.

pub mod noise;
pub mod stages;

pub use noise::Noise;

use bytegauge_stats::group::{BlockInput, CellInput, GroupInput};
use bytegauge_stats::rng::{RandomStream, seeded};

/// Conditions of the machine, shared by all trials that run at the same time. In ln of cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Environment {
    /// Nothing.
    Still,
    /// The level swings from block to block with this lag-1 correlation and standard deviation
    /// (blocks of real loopback trials: 0.18 and up to 0.7).
    Swings {
        /// Lag-1 correlation.
        rho: f64,
        /// Standard deviation, in ln.
        spread: f64,
    },
    /// The level rises evenly, by this much in ln from the first trial to the last.
    Drifts {
        /// Rise over the session, in ln.
        total: f64,
    },
}

/// A machine whose level swings as that of usual sessions does.
pub const SWINGS: Environment = Environment::Swings { rho: 0.7, spread: 0.18 };

/// CPU time that a hypervisor takes: trials that are hit cost more.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Steal {
    /// Share of the trials of each cell that are hit, in turn (cell i has share i modulo their number): one number is
    /// noise, several are an effect of the cell. Empty: none.
    pub shares: Vec<f64>,
    /// Additional cost of a hit trial, in ln.
    pub ln_cost: f64,
}

impl Steal {
    fn share(&self, cell: usize) -> f64 {
        if self.shares.is_empty() { 0.0 } else { self.shares[cell % self.shares.len()] }
    }

    /// Its addition to the mean ln cost of a cell.
    pub fn effect(&self, cell: usize) -> f64 {
        self.share(cell) * self.ln_cost
    }
}

/// In what order trials run: every (block, cell) once. For the negative control, a function.
pub type Order = fn(blocks: usize, cells: usize, random: &mut RandomStream) -> Vec<(usize, usize)>;

/// Randomised complete blocks: each block visits all cells in a random order.
pub fn randomised_blocks(blocks: usize, cells: usize, random: &mut RandomStream) -> Vec<(usize, usize)> {
    let mut visits = Vec::with_capacity(blocks * cells);
    let mut order: Vec<usize> = (0..cells).collect();
    for block in 0..blocks {
        random.shuffle(&mut order);
        visits.extend(order.iter().map(|&cell| (block, cell)));
    }
    visits
}

/// One sweep: all repetitions of the first cell, then all of the second, and so on.
pub fn serial_sweep(blocks: usize, cells: usize, _random: &mut RandomStream) -> Vec<(usize, usize)> {
    (0..cells).flat_map(|cell| (0..blocks).map(move |block| (block, cell))).collect()
}

/// One group with known truth.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// True mean ln cost of each cell.
    pub effects: Vec<f64>,
    /// The kind of noise of each cell, in turn (cell i has kind i modulo their number).
    pub noise: Vec<Noise>,
    /// Standard deviation of a trial's ln cost. Paired differences have √2 times that.
    pub spread: f64,
    /// Correlation of a cell's own noise with that in the block before, which pairing cannot remove.
    pub own_rho: f64,
    /// Conditions of the machine.
    pub environment: Environment,
    /// In what order trials run.
    pub order: Order,
    /// The cell that an A/A control repeats in every block.
    pub twin_of: Option<usize>,
    /// CPU time that the hypervisor takes.
    pub steal: Steal,
}

/// Blocks with the conditions of each of their trials.
#[derive(Clone, Debug)]
pub struct Trials {
    /// ln costs, one row per block, one column per cell; the A/A control is the last column, if there is one.
    pub rows: Vec<Vec<f64>>,
    /// Whether each trial was hit by steal.
    pub hits: Vec<Vec<bool>>,
}

impl Scenario {
    /// A quiet group in randomised blocks without an A/A control.
    pub fn new(effects: Vec<f64>, noise: Noise, spread: f64) -> Self {
        Self {
            effects,
            noise: vec![noise],
            spread,
            own_rho: 0.0,
            environment: Environment::Still,
            order: randomised_blocks,
            twin_of: None,
            steal: Steal::default(),
        }
    }

    /// Runs it: ln costs, one row per block, one column per cell; the A/A control is the last column, if there is one.
    pub fn rows(&self, blocks: usize, random: &mut RandomStream) -> Vec<Vec<f64>> {
        self.trials(blocks, random).rows
    }

    /// True mean ln cost of every cell: its own cost and the addition by steal.
    pub fn truth(&self) -> Vec<f64> {
        self.effects.iter().enumerate().map(|(cell, effect)| effect + self.steal.effect(cell)).collect()
    }

    /// Runs it, and returns which trials were hit.
    pub fn trials(&self, blocks: usize, random: &mut RandomStream) -> Trials {
        let cells = self.effects.len();
        let columns = cells + usize::from(self.twin_of.is_some());
        let visits = (self.order)(blocks, columns, random);
        let levels = self.levels(visits.len(), columns, random);
        let mut rows = vec![vec![0.0; columns]; blocks];
        let mut hits = vec![vec![false; columns]; blocks];
        for (&(block, column), level) in visits.iter().zip(levels) {
            let cell = if column < cells { column } else { self.twin_of.unwrap_or(column) };
            let noise = self.noise[cell % self.noise.len()].draw(random);
            // A world without steal draws the same numbers as before.
            hits[block][column] = self.steal.share(cell) > 0.0 && random.uniform() < self.steal.share(cell);
            let stolen = if hits[block][column] { self.steal.ln_cost } else { 0.0 };
            rows[block][column] = self.effects[cell] + level + stolen + self.spread * noise;
        }
        if self.own_rho != 0.0 {
            self.tie_to_the_block_before(&mut rows, random);
        }
        Trials { rows, hits }
    }

    /// Adds to every column a wave of its own with lag-1 correlation `own_rho` and the spread of the
    /// noise.
    fn tie_to_the_block_before(&self, rows: &mut [Vec<f64>], random: &mut RandomStream) {
        let columns = rows.first().map_or(0, Vec::len);
        let renewal = (1.0 - self.own_rho * self.own_rho).sqrt();
        let mut waves: Vec<f64> = (0..columns).map(|_| random.normal()).collect();
        for row in rows {
            for (value, wave) in row.iter_mut().zip(&mut waves) {
                *value += self.spread * *wave;
                *wave = self.own_rho * *wave + renewal * random.normal();
            }
        }
    }

    /// Runs it as the input of [`bytegauge_stats::group::analyse`]. Footprints rise with the cell's index.
    pub fn group(&self, blocks: usize, seed: u64) -> GroupInput {
        self.packed(&self.rows(blocks, &mut seeded(seed, 0x51b)))
    }

    /// Packs its ln costs as a group. Footprints rise with the cell's index.
    pub fn packed(&self, rows: &[Vec<f64>]) -> GroupInput {
        let footprints: Vec<f64> = (0..self.effects.len()).map(|i| i as f64 + 1.0).collect();
        group_input(rows, &footprints, self.twin_of)
    }

    fn levels(&self, trials: usize, a_block: usize, random: &mut RandomStream) -> Vec<f64> {
        match self.environment {
            Environment::Still => vec![0.0; trials],
            Environment::Drifts { total } => (0..trials).map(|time| total * time as f64 / trials as f64).collect(),
            Environment::Swings { rho, spread } => {
                let mut level = random.normal();
                let renewal = (1.0 - rho * rho).sqrt();
                let level_at = |time: usize| {
                    if time.is_multiple_of(a_block) && time > 0 {
                        level = rho * level + renewal * random.normal();
                    }
                    spread * level
                };
                (0..trials).map(level_at).collect()
            }
        }
    }
}

/// Packs ln costs (the A/A control in the last column, if there is one) as a group.
pub fn group_input(rows: &[Vec<f64>], footprints: &[f64], twin_of: Option<usize>) -> GroupInput {
    let cells = footprints.len();
    let cell = |(order, &bytes): (usize, &f64)| CellInput {
        footprint_bytes: Some(bytes),
        cpu_per_unit: None,
        order,
        is_default: false,
        unfit: false,
    };
    let block = |row: &Vec<f64>| BlockInput {
        cost: row[..cells].iter().map(|ln| Some(ln.exp())).collect(),
        twin_cost: twin_of.map(|_| row[cells].exp()),
    };
    GroupInput {
        cells: footprints.iter().enumerate().map(cell).collect(),
        twin_of,
        blocks: rows.iter().map(block).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(order: Order, expected_first: Option<&[(usize, usize)]>) {
        let mut visits = order(3, 2, &mut seeded(1, 0));
        if let Some(first) = expected_first {
            assert_eq!(&visits[..first.len()], first);
        }
        visits.sort_unstable();
        assert_eq!(visits, [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]);
    }

    #[test]
    fn orders_visit_everything_once() {
        check(randomised_blocks, None);
        check(serial_sweep, Some(&[(0, 0), (1, 0), (2, 0)]));
    }

    #[test]
    fn steal_hits_as_often_and_hard_as_set() {
        let mut scenario = Scenario::new(vec![0.0, 0.1], Noise::Normal, 0.01);
        scenario.steal = Steal { shares: vec![0.1, 0.4], ln_cost: 0.5 };
        scenario.twin_of = Some(0);
        let Trials { rows, hits } = scenario.trials(4000, &mut seeded(3, 0));
        let share = |column: usize| hits.iter().filter(|row| row[column]).count() as f64 / 4000.0;
        assert!((share(0) - 0.1).abs() < 0.02 && (share(1) - 0.4).abs() < 0.03 && (share(2) - 0.1).abs() < 0.02);
        let mean = |column: usize| rows.iter().map(|row| row[column]).sum::<f64>() / 4000.0;
        assert!((mean(0) - scenario.truth()[0]).abs() < 0.01 && (mean(1) - 0.3).abs() < 0.015);
        assert!((mean(2) - mean(0)).abs() < 0.015);
    }

    #[test]
    fn effects_show_through() {
        let mut scenario = Scenario::new(vec![0.0, 0.1], Noise::Normal, 0.01);
        scenario.environment = Environment::Swings { rho: 0.7, spread: 0.18 };
        scenario.twin_of = Some(1);
        let rows = scenario.rows(200, &mut seeded(2, 0));
        let mean = |of: &dyn Fn(&Vec<f64>) -> f64| rows.iter().map(of).sum::<f64>() / 200.0;
        assert!((mean(&|row| row[1] - row[0]) - 0.1).abs() < 0.005);
        assert!(mean(&|row| row[2] - row[1]).abs() < 0.005);
    }
}
