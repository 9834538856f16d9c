//! Worlds whose truth is known.
//!
//! A statistical promise can only be checked where the answer is known beforehand. A [`Scenario`] is
//! one group: true costs, noise of a chosen kind, an environment that swings or drifts while the
//! trials run one after another, and a run order.
//!
//! The run order is a function, so that "the same trials, but in fixed order" is one switch.
//!
//! Never used to produce a number about the user's machine.

use bytegauge_stats::group::{BlockInput, CellInput, GroupInput};
use bytegauge_stats::rng::{RandomStream, seeded};
use statrs::distribution::{ContinuousCDF, Normal};

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

/// Additional ln cost of a trial from which the hypervisor took CPU time: 10 ms of one of two CPUs in a trial of 6 ms
/// and its set-up.
const STEAL_COST: f64 = 0.4;

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
    /// True mean ln cost of each cell, without CPU steal.
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
    /// Share of the trials of each cell from which a hypervisor takes CPU time, in turn, as with noise: one number is noise, several
    /// are an effect of the cell. Empty: none.
    pub steal: Vec<f64>,
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
            steal: Vec::new(),
        }
    }

    /// True mean ln cost of every cell: its own cost and the addition by steal.
    pub fn truth(&self) -> Vec<f64> {
        (0..self.effects.len()).map(|cell| self.effects[cell] + self.steal_share(cell) * STEAL_COST).collect()
    }

    fn steal_share(&self, cell: usize) -> f64 {
        if self.steal.is_empty() { 0.0 } else { self.steal[cell % self.steal.len()] }
    }

    /// Runs it: ln costs, one row per block, one column per cell; the A/A control is the last column, if there is one.
    pub fn rows(&self, blocks: usize, random: &mut RandomStream) -> Vec<Vec<f64>> {
        let cells = self.effects.len();
        let columns = cells + usize::from(self.twin_of.is_some());
        let visits = (self.order)(blocks, columns, random);
        let levels = self.levels(visits.len(), columns, random);
        let mut rows = vec![vec![0.0; columns]; blocks];
        for (&(block, column), level) in visits.iter().zip(levels) {
            let cell = if column < cells { column } else { self.twin_of.unwrap_or(column) };
            let noise = self.noise[cell % self.noise.len()].draw(random);
            let is_hit = !self.steal.is_empty() && random.uniform() < self.steal_share(cell);
            let stolen = if is_hit { STEAL_COST } else { 0.0 };
            rows[block][column] = self.effects[cell] + level + stolen + self.spread * noise;
        }
        if self.own_rho != 0.0 {
            self.tie_to_the_block_before(&mut rows, random);
        }
        rows
    }

    /// The same as costs.
    pub fn costs(&self, blocks: usize, random: &mut RandomStream) -> Vec<Vec<Option<f64>>> {
        let rows = self.rows(blocks, random);
        rows.iter().map(|row| row.iter().map(|ln| Some(ln.exp())).collect()).collect()
    }

    /// Runs it as the input of [`bytegauge_stats::group::analyse`]. Footprints rise with the cell's index.
    pub fn group(&self, blocks: usize, seed: u64) -> GroupInput {
        let footprints: Vec<f64> = (0..self.effects.len()).map(|i| i as f64 + 1.0).collect();
        self.group_with(&footprints, blocks, &mut seeded(seed, 0x51b))
    }

    /// The same with these footprints, in bytes.
    pub fn group_with(&self, footprints: &[f64], blocks: usize, random: &mut RandomStream) -> GroupInput {
        let cell = |(order, &bytes): (usize, &f64)| CellInput {
            footprint_bytes: Some(bytes),
            cpu_per_unit: None,
            order,
            is_default: false,
            unfit: false,
        };
        let block = |mut cost: Vec<Option<f64>>| {
            let twin_cost = self.twin_of.and_then(|_| cost.pop()).flatten();
            BlockInput { cost, twin_cost }
        };
        GroupInput {
            cells: footprints.iter().enumerate().map(cell).collect(),
            twin_of: self.twin_of,
            blocks: self.costs(blocks, random).into_iter().map(block).collect(),
        }
    }

    /// Adds to every column a wave of its own with lag-1 correlation `own_rho` and the spread of the
    /// noise.
    fn tie_to_the_block_before(&self, rows: &mut [Vec<f64>], random: &mut RandomStream) {
        let columns = rows.first().map_or(0, Vec::len);
        let waves: Vec<Vec<f64>> = (0..columns).map(|_| wave(self.own_rho, rows.len(), random)).collect();
        for (block, row) in rows.iter_mut().enumerate() {
            row.iter_mut().zip(&waves).for_each(|(value, wave)| *value += self.spread * wave[block]);
        }
    }

    fn levels(&self, trials: usize, a_block: usize, random: &mut RandomStream) -> Vec<f64> {
        match self.environment {
            Environment::Still => vec![0.0; trials],
            Environment::Drifts { total } => (0..trials).map(|time| total * time as f64 / trials as f64).collect(),
            Environment::Swings { rho, spread } => {
                let levels = wave(rho, trials.div_ceil(a_block), random);
                (0..trials).map(|time| spread * levels[time / a_block]).collect()
            }
        }
    }
}

/// Values of mean 0 and standard deviation 1, with this lag-1 correlation.
pub fn wave(rho: f64, values: usize, random: &mut RandomStream) -> Vec<f64> {
    let mut wave: Vec<f64> = (0..values).map(|_| random.normal()).collect();
    let renewal = (1.0 - rho * rho).sqrt();
    (1..values).for_each(|at| wave[at] = rho * wave[at - 1] + renewal * wave[at]);
    wave
}

// Kinds of noise, each with standard deviation 1 and mean 0, so that they can be exchanged.
//
// Medians are known exactly (or to 1e-9), since sign intervals estimate medians.

/// Samples within a trial, where a kind looks inside it.
const SAMPLES: usize = 10;
/// Correlation of the samples of one trial.
const WITHIN_TRIAL: f64 = 0.4;

/// A kind of noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noise {
    /// Gaussian.
    Normal,
    /// Student's t with 3 degrees of freedom: heavy tails.
    StudentT3,
    /// exp of a Gaussian with σ = 1: long right tail.
    LogNormal,
    /// 85 % in one mode, 15 % in a slower one six mode widths away.
    Bimodal,
    /// Ten samples a trial with correlation 0.4; the trial is their mean.
    IntraTrial,
    /// A Gaussian with 5 % of trials slower by sixteen of its widths, as it occurs on shared machines
    /// (measured: 14 % wide, tenfold slower).
    Bursts,
}

impl Noise {
    /// Every kind.
    pub const ALL: [Self; 6] =
        [Self::Normal, Self::StudentT3, Self::LogNormal, Self::Bimodal, Self::IntraTrial, Self::Bursts];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::StudentT3 => "t3",
            Self::LogNormal => "log-normal",
            Self::Bimodal => "bimodal 85/15",
            Self::IntraTrial => "intra-trial 0.4",
            Self::Bursts => "bursts",
        }
    }

    /// One trial's deviation.
    pub fn draw(self, random: &mut RandomStream) -> f64 {
        match self {
            Self::Normal => random.normal(),
            Self::StudentT3 => {
                let square: f64 = (0..3).map(|_| random.normal().powi(2)).sum();
                // t₃ has variance 3.
                random.normal() / (square / 3.0).sqrt() / 3.0_f64.sqrt()
            }
            Self::LogNormal => (random.normal().exp() - log_normal_mean()) / log_normal_spread(),
            Self::Bimodal => BIMODAL.draw(random),
            Self::Bursts => BURSTS.draw(random),
            Self::IntraTrial => self.samples(random).iter().sum::<f64>() / SAMPLES as f64,
        }
    }

    /// The samples of one trial. Only [`Noise::IntraTrial`] looks inside; the others have one.
    pub fn samples(self, random: &mut RandomStream) -> Vec<f64> {
        if self != Self::IntraTrial {
            return vec![self.draw(random)];
        }
        // Scaled so that the mean of the samples has standard deviation 1.
        let scale = (WITHIN_TRIAL + (1.0 - WITHIN_TRIAL) / SAMPLES as f64).sqrt().recip();
        let shared = WITHIN_TRIAL.sqrt() * random.normal();
        (0..SAMPLES).map(|_| scale * (shared + (1.0 - WITHIN_TRIAL).sqrt() * random.normal())).collect()
    }

    /// The true median of [`Noise::draw`].
    pub fn median(self) -> f64 {
        match self {
            Self::Normal | Self::StudentT3 | Self::IntraTrial => 0.0,
            Self::LogNormal => (1.0 - log_normal_mean()) / log_normal_spread(),
            Self::Bimodal => BIMODAL.median(),
            Self::Bursts => BURSTS.median(),
        }
    }
}

/// Two Gaussians of one width; the second is `shift` higher and has the given share.
struct Mixture {
    share: f64,
    shift: f64,
    width: f64,
}

const BIMODAL: Mixture = Mixture { share: 0.15, shift: 2.4, width: 0.4 };
const BURSTS: Mixture = Mixture { share: 0.05, shift: 4.0, width: 0.25 };

impl Mixture {
    fn draw(&self, random: &mut RandomStream) -> f64 {
        let shift = if random.uniform() < self.share { self.shift } else { 0.0 };
        self.standard(self.width * random.normal() + shift)
    }

    fn standard(&self, value: f64) -> f64 {
        let mean = self.share * self.shift;
        let variance = self.width.powi(2) + self.share * (1.0 - self.share) * self.shift.powi(2);
        (value - mean) / variance.sqrt()
    }

    fn median(&self) -> f64 {
        let normal = Normal::standard();
        let below = |x: f64| {
            (1.0 - self.share) * normal.cdf(x / self.width) + self.share * normal.cdf((x - self.shift) / self.width)
        };
        self.standard(crossing(-self.width, self.shift, |x| below(x) - 0.5))
    }
}

/// Where a rising function crosses 0 between two values, by halving.
pub fn crossing(mut low: f64, mut high: f64, rising: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if rising(middle) < 0.0 { low = middle } else { high = middle }
    }
    low
}

fn log_normal_mean() -> f64 {
    0.5_f64.exp()
}

fn log_normal_spread() -> f64 {
    (1.0_f64.exp() * (1.0_f64.exp() - 1.0)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytegauge_stats::quantile::median;

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
        scenario.steal = vec![0.1, 0.4];
        scenario.twin_of = Some(0);
        let rows = scenario.rows(4000, &mut seeded(3, 0));
        let share = |column: usize| rows.iter().filter(|row| row[column] > 0.25).count() as f64 / 4000.0;
        assert!((share(0) - 0.1).abs() < 0.02 && (share(1) - 0.4).abs() < 0.03 && (share(2) - 0.1).abs() < 0.02);
        let mean = |column: usize| rows.iter().map(|row| row[column]).sum::<f64>() / 4000.0;
        assert!((mean(0) - scenario.truth()[0]).abs() < 0.01 && (mean(1) - 0.26).abs() < 0.015);
        assert!((mean(2) - mean(0)).abs() < 0.015);
    }

    #[test]
    fn effects_show_through() {
        let mut scenario = Scenario::new(vec![0.0, 0.1], Noise::Normal, 0.01);
        scenario.environment = SWINGS;
        scenario.twin_of = Some(1);
        let rows = scenario.rows(200, &mut seeded(2, 0));
        let mean = |of: &dyn Fn(&Vec<f64>) -> f64| rows.iter().map(of).sum::<f64>() / 200.0;
        assert!((mean(&|row| row[1] - row[0]) - 0.1).abs() < 0.005);
        assert!(mean(&|row| row[2] - row[1]).abs() < 0.005);
    }

    #[test]
    fn every_kind_is_standard_and_knows_its_median() {
        for noise in Noise::ALL {
            let mut random = seeded(1, 2);
            let values: Vec<f64> = (0..60_000).map(|_| noise.draw(&mut random)).collect();
            let n = values.len() as f64;
            let mean = values.iter().sum::<f64>() / n;
            let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
            assert!(mean.abs() < 0.02, "{noise:?} has mean {mean}");
            // The variance of t₃ converges slowly, if at all.
            let slack = if matches!(noise, Noise::StudentT3 | Noise::LogNormal) { 0.4 } else { 0.05 };
            assert!((variance - 1.0).abs() < slack, "{noise:?} has variance {variance}");
            let middle = median(&values).unwrap();
            assert!((middle - noise.median()).abs() < 0.015, "{noise:?} has median {middle}");
        }
    }
}
