//! A whole session in a world whose truth is known: a grid of choices over several profiles,
//! screened, reduced to finalists, confirmed, and a recommendation made.
//!
//! The shape of the costs is that of buffer sizes: small reads and small writes pay a call each,
//! very large ones leave the cache, and every cell has a random effect of its own of about 1.5 %. The size of
//! each effect is drawn for every world and profile.

use super::{Noise, SWINGS, Scenario, group_input};
use bytegauge_stats::finalists::{choose_over_profiles, score, worst_excess};
use bytegauge_stats::group::{GroupInput, GroupVerdict, Method, analyse};
use bytegauge_stats::recommendation::{OptionRecommendation, recommend};
use bytegauge_stats::rng::{RandomStream, seeded};

/// Choices whose true costs are known.
#[derive(Clone, Debug)]
pub struct World {
    /// True mean ln cost, by profile and cell.
    pub effects: Vec<Vec<f64>>,
    /// Footprint of each cell, in bytes.
    pub footprints: Vec<f64>,
}

/// How a session spends its trials.
#[derive(Clone, Copy, Debug)]
pub struct WorldDesign {
    /// Most finalists.
    pub finalists: usize,
    /// Confirmation blocks of every profile.
    pub blocks: usize,
    /// Standard deviation of the ln cost of a confirmation trial; paired differences have √2 times
    /// that.
    pub spread: f64,
    /// The kind of noise.
    pub noise: Noise,
}

impl WorldDesign {
    /// The usual design with paired differences of the given spread.
    pub fn paired(finalists: usize, blocks: usize, paired_spread: f64) -> Self {
        Self { finalists, blocks, spread: paired_spread / 2.0_f64.sqrt(), noise: Noise::Normal }
    }
}

/// The result of a session.
#[derive(Clone, Debug)]
pub struct SimulatedSession {
    /// The finalists, first the first profile's screening leader.
    pub finalists: Vec<usize>,
    /// Confirmation by profile; cells that were not confirmed have no costs.
    pub groups: Vec<(GroupInput, GroupVerdict)>,
    /// The recommendation of each profile.
    pub recommendations: Vec<OptionRecommendation>,
}

impl World {
    /// A world of `side`² cells (read size × write size, powers of two from 4 KiB).
    pub fn draw(profiles: usize, side: usize, random: &mut RandomStream) -> Self {
        let between = |random: &mut RandomStream, low: f64, high: f64| low * (high / low).powf(random.uniform());
        let quirks: Vec<f64> = (0..side * side).map(|_| 0.015 * random.normal()).collect();
        let mut effects = Vec::new();
        for _ in 0..profiles {
            let read_call = between(random, 0.05, 2.0);
            let write_call = between(random, 0.05, 1.0);
            let cache = between(random, 0.01, 0.3);
            let cell = |i: usize| {
                let (read, write) = (f64::from(1_u32 << (i / side)), f64::from(1_u32 << (i % side)));
                let largest = f64::from(1_u32 << (side - 1));
                let cost = 1.0 + read_call / read + write_call / write + cache * (read + write) / (2.0 * largest);
                cost.ln() + quirks[i]
            };
            effects.push((0..side * side).map(|i| cell(i) + 0.007 * random.normal()).collect());
        }
        let bytes = |i: usize| 4096.0 * f64::from((1_u32 << (i / side)) + (1_u32 << (i % side)));
        Self { effects, footprints: (0..side * side).map(bytes).collect() }
    }

    /// How much worse than the best of `cells` the cell truly is, in ln.
    pub fn regret_among(&self, profile: usize, cell: usize, cells: &[usize]) -> f64 {
        let effects = &self.effects[profile];
        effects[cell] - cells.iter().map(|&other| effects[other]).fold(f64::INFINITY, f64::min)
    }

    /// The truly best cell of a profile.
    pub fn best(&self, profile: usize) -> usize {
        let effects = &self.effects[profile];
        (0..effects.len()).min_by(|&a, &b| effects[a].total_cmp(&effects[b])).expect("a world has cells")
    }

    /// Runs a session in this world.
    pub fn session(&self, design: &WorldDesign, method: &Method, seed: u64) -> SimulatedSession {
        let mut random = seeded(seed, 0x5e55);
        let screening = screen(&self.effects, design, &mut random);
        let scores: Vec<Vec<Option<f64>>> = screening.iter().map(|blocks| score(blocks)).collect();
        let footprints: Vec<Option<f64>> = self.footprints.iter().copied().map(Some).collect();
        let finalists = choose_over_profiles(&scores, &footprints, design.finalists, method.margin);
        let groups: Vec<(GroupInput, GroupVerdict)> = self
            .effects
            .iter()
            .map(|effects| {
                let input = self.confirm(effects, &finalists, design, &mut random);
                let verdict = analyse(&input, &Method { groups: self.effects.len(), ..*method });
                (input, verdict)
            })
            .collect();
        let recommendations = groups.iter().map(|(input, verdict)| recommend(input, verdict, method)).collect();
        SimulatedSession { finalists, groups, recommendations }
    }

    fn confirm(
        &self,
        effects: &[f64],
        finalists: &[usize],
        design: &WorldDesign,
        random: &mut RandomStream,
    ) -> GroupInput {
        let few = finalists.iter().map(|&i| effects[i]).collect();
        let scenario = Scenario { twin_of: Some(0), ..scenario(few, design, 1.0) };
        let rows = scenario.rows(design.blocks, random);
        let few = group_input(&rows, &vec![1.0; finalists.len()], Some(0));
        // Back to the indices of the whole grid; unconfirmed cells have no cost.
        let mut blocks = few.blocks;
        for block in &mut blocks {
            let mut cost = vec![None; effects.len()];
            finalists.iter().zip(&block.cost).for_each(|(&cell, &value)| cost[cell] = value);
            block.cost = cost;
        }
        let cells = group_input(&[], &self.footprints, None).cells;
        GroupInput { cells, twin_of: finalists.first().copied(), blocks }
    }
}

/// How much more a shorter screening trial scatters (√(6 ms / 5 ms)).
const SCREENING_FACTOR: f64 = 1.1;
/// Blocks in which all cells are screened.
const SCREENS: usize = 2;
/// Cells that are screened again.
const NARROWED: usize = 20;

/// Costs by profile, block and cell: all cells in two blocks of every profile, then in two more the cells that are
/// least bad in their worst profile.
fn screen(effects: &[Vec<f64>], design: &WorldDesign, random: &mut RandomStream) -> Vec<Vec<Vec<Option<f64>>>> {
    let cells = effects.first().map_or(0, Vec::len);
    let mut visit = |effects: &[f64], visited: &[usize]| -> Vec<Vec<Option<f64>>> {
        let few = visited.iter().map(|&i| effects[i]).collect();
        let spread_out = |row: Vec<f64>| {
            let mut all = vec![None; cells];
            visited.iter().zip(row).for_each(|(&cell, ln)| all[cell] = Some(ln.exp()));
            all
        };
        scenario(few, design, SCREENING_FACTOR).rows(SCREENS, random).into_iter().map(spread_out).collect()
    };
    let all: Vec<usize> = (0..cells).collect();
    let mut screening: Vec<Vec<Vec<Option<f64>>>> = effects.iter().map(|effects| visit(effects, &all)).collect();
    let scores: Vec<Vec<Option<f64>>> = screening.iter().map(|blocks| score(blocks)).collect();
    let worst = worst_excess(&scores, cells);
    let mut ranked = all;
    ranked.sort_by(|&a, &b| worst[a].unwrap_or(f64::INFINITY).total_cmp(&worst[b].unwrap_or(f64::INFINITY)));
    ranked.truncate(NARROWED);
    for (blocks, effects) in screening.iter_mut().zip(effects) {
        blocks.extend(visit(effects, &ranked));
    }
    screening
}

fn scenario(effects: Vec<f64>, design: &WorldDesign, factor: f64) -> Scenario {
    Scenario { environment: SWINGS, ..Scenario::new(effects, design.noise, design.spread * factor) }
}
