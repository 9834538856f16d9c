//! A whole session in a world whose truth is known: a grid of choices over several profiles,
//! screened, reduced to finalists, confirmed, and a recommendation made.
//!
//! The shape of the costs is that of buffer sizes: small reads and small writes pay a call each,
//! very large ones leave the cache, and every cell has a random effect of its own of about 1.5 %. The size of
//! each effect is drawn for every world and profile.

use std::f64::consts::SQRT_2;

use super::{Demand, Runs, VerificationRow, row};
use crate::sim::{Noise, SWINGS, Scenario};
use bytegauge_stats::finalists::{choose_over_profiles, score};
use bytegauge_stats::group::{Method, analyse};
use bytegauge_stats::recommendation::recommend;
use bytegauge_stats::rng::RandomStream;

const TRUE: Demand = Demand::at_least(95.0);

/// Read sizes, and as many write sizes: powers of two from 4 KiB.
const SIDE: usize = 8;
/// Blocks in which all cells are screened.
const SCREENS: usize = 4;

/// How a session spends its trials.
struct Design {
    profiles: usize,
    finalists: usize,
    /// Confirmation blocks of every profile.
    blocks: usize,
    /// Standard deviation of paired differences of ln costs.
    paired: f64,
    noise: Noise,
    name: &'static str,
}

const USUAL: Design =
    Design { profiles: 1, finalists: 6, blocks: 48, paired: 0.06, noise: Noise::Normal, name: "noise 6 %" };

const DESIGNS: [Design; 9] = [
    Design { paired: 0.03, name: "noise 3 %", ..USUAL },
    USUAL,
    Design { paired: 0.14, name: "noise 14 %", ..USUAL },
    Design { noise: Noise::LogNormal, name: "noise 6 %, log-normal", ..USUAL },
    // As on a shared machine.
    Design {
        noise: Noise::Bursts,
        paired: 0.5,
        finalists: 4,
        blocks: 80,
        name: "bursts, 4 finalists, 80 blocks",
        ..USUAL
    },
    Design { profiles: 3, blocks: 24, paired: 0.027, name: "3 profiles, 24 blocks, noise 2.7 %", ..USUAL },
    Design { profiles: 4, blocks: 24, paired: 0.027, name: "4 profiles, 24 blocks, noise 2.7 %", ..USUAL },
    Design { profiles: 4, blocks: 24, name: "4 profiles, 24 blocks, noise 6 %", ..USUAL },
    Design { profiles: 4, name: "4 profiles, 48 blocks, noise 6 %", ..USUAL },
];

/// Whether the best set holds the best unless it was no finalist, and whether proven options are so among the finalists, which is the
/// claim; both in every profile.
pub(super) fn rows(runs: Runs) -> Vec<VerificationRow> {
    let mut rows = Vec::new();
    for design in &DESIGNS {
        let [held, is_true] = runs.tally(350, 500, |random, seed| session(design, seed, random));
        rows.push(row(held, format!("best set or undecided holds the best, {}", design.name), TRUE));
        rows.push(row(is_true, format!("proven is true of the finalists, {}", design.name), TRUE));
    }
    rows
}

fn session(design: &Design, seed: u64, random: &mut RandomStream) -> [Option<bool>; 2] {
    let method = Method { seed, random_flips: 999, groups: design.profiles, ..Method::default() };
    let scenario = |effects: &[f64], twin_of: Option<usize>| {
        let quiet = Scenario::new(effects.to_vec(), design.noise, design.paired / SQRT_2);
        Scenario { environment: SWINGS, twin_of, ..quiet }
    };
    let profiles = world(design.profiles, random);
    let footprints: Vec<Option<f64>> = (0..SIDE * SIDE).map(|cell| Some(4096.0 * (read(cell) + write(cell)))).collect();
    let screened = profiles.iter().map(|effects| score(&scenario(effects, None).costs(SCREENS, random)));
    let scores: Vec<Vec<Option<f64>>> = screened.collect();
    let finalists = choose_over_profiles(&scores, &footprints, design.finalists, method.margin);
    let sizes: Vec<f64> = finalists.iter().filter_map(|&cell| footprints[cell]).collect();
    let (mut held, mut is_true) = (true, None);
    for effects in &profiles {
        let few: Vec<f64> = finalists.iter().map(|&cell| effects[cell]).collect();
        let least = |costs: &[f64]| costs.iter().copied().fold(f64::INFINITY, f64::min);
        let input = scenario(&few, Some(0)).group_with(&sizes, design.blocks, random);
        let verdict = analyse(&input, &method);
        held &= (0..few.len()).all(|cell| few[cell] > least(effects) || verdict.best_set.contains(&cell));
        let recommended = recommend(&input, &verdict, &method);
        if let Some(cell) = recommended.cell.filter(|_| recommended.proven) {
            is_true = Some(is_true.unwrap_or(true) && few[cell] - least(&few) <= method.ln_margin());
        }
    }
    [Some(held), is_true]
}

/// True mean ln costs, by profile and cell.
fn world(profiles: usize, random: &mut RandomStream) -> Vec<Vec<f64>> {
    let quirks: Vec<f64> = (0..SIDE * SIDE).map(|_| 0.015 * random.normal()).collect();
    let profile = |_| {
        let mut between = |low: f64, high: f64| low * (high / low).powf(random.uniform());
        let (read_call, write_call, cache) = (between(0.05, 2.0), between(0.05, 1.0), between(0.01, 0.3));
        let largest = f64::from(1_u32 << (SIDE - 1));
        let mut cell = |cell: usize| {
            let size = (read(cell) + write(cell)) / (2.0 * largest);
            let cost = 1.0 + read_call / read(cell) + write_call / write(cell) + cache * size;
            cost.ln() + quirks[cell] + 0.007 * random.normal()
        };
        (0..SIDE * SIDE).map(&mut cell).collect()
    };
    (0..profiles).map(profile).collect()
}

/// The read size of a cell, in units of the smallest.
fn read(cell: usize) -> f64 {
    f64::from(1_u32 << (cell / SIDE))
}

/// Its write size.
fn write(cell: usize) -> f64 {
    f64::from(1_u32 << (cell % SIDE))
}
