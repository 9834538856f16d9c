//! A shared machine: heavy noise, and steal that hits all cells equally or some more than others.

use super::{Demand, RunTally, Runs, Scale, VerificationRow};
use crate::sim::{Noise, SWINGS, Scenario, Steal, Trials};
use bytegauge_stats::group::{BlockInput, GroupInput, Method, analyse};
use bytegauge_stats::recommendation::recommend;
use bytegauge_stats::rng::{RandomStream, seeded};

const TRUE: Demand = Demand::AtLeast(95.0);
/// Cells of a group that are confirmed.
const CELLS: usize = 4;
/// Additional ln cost of a trial from which the hypervisor took CPU time: 10 ms of one of two CPUs in a trial of 6 ms
/// and its set-up.
const STEAL_COST: f64 = 0.4;

/// The cells that steal hits.
#[derive(Clone, Copy, PartialEq)]
enum Hit {
    None,
    All,
    Some,
}

/// A kind of world, and how its blocks are counted.
#[derive(Clone, Copy)]
struct WorldKind {
    paired: f64,
    hit: Hit,
    blocks: usize,
    /// Negative control when `false`: blocks in which a trial was hit are left out.
    all_blocks: bool,
}

const USUAL: WorldKind = WorldKind { paired: 0.3, hit: Hit::None, blocks: 128, all_blocks: true };

/// Counts over groups.
#[derive(Default)]
struct Groups {
    is_true: RunTally,
    covered: RunTally,
}

pub(super) fn rows(runs: Runs) -> Vec<VerificationRow> {
    let mut rows = Vec::new();
    for (kind, name) in [
        (USUAL, "noise 30 %"),
        (WorldKind { paired: 0.6, blocks: 256, ..USUAL }, "noise 60 %"),
        (WorldKind { hit: Hit::All, ..USUAL }, "noise 30 %, steal hits all cells alike"),
        (WorldKind { hit: Hit::Some, ..USUAL }, "noise 30 %, steal depends on the cell"),
    ] {
        let Groups { is_true, covered } = groups(kind, runs);
        let note = format!("{CELLS} cells, {} blocks", kind.blocks);
        rows.push(runs.row(is_true, format!("proven is true of the finalists, {name}"), TRUE, note.clone()));
        rows.push(runs.row(covered, format!("bound of the chosen cell covers, {name}"), TRUE, note));
    }
    let left_out = groups(WorldKind { hit: Hit::Some, blocks: 256, all_blocks: false, ..USUAL }, runs).is_true;
    let note = "the same groups; the remaining blocks do not contain the cost of steal";
    rows.push(runs.row(left_out, "blocks with steal left out, steal depends on the cell", TRUE, note).control());
    rows
}

fn groups(kind: WorldKind, runs: Runs) -> Groups {
    let mut found = Groups::default();
    // Seven kinds of worlds: a self-test has a minute for everything.
    let full = if runs.scale == Scale::Full { 2000 } else { 600 };
    // Few groups are proven where blocks are left out, and the control has to miss by more than chance.
    let repetitions = if kind.all_blocks { runs.repetitions(full) } else { runs.at_least(240, full) };
    for seed in runs.seeds(repetitions) {
        let mut random = seeded(seed, 0x5a4e);
        let method = Method { seed, random_flips: 299, ..Method::default() };
        let quirks: Vec<f64> = (0..CELLS).map(|_| 0.12 * random.uniform()).collect();
        let hit: Vec<f64> = (0..CELLS).map(|_| if random.uniform() < 0.5 { 0.02 } else { 0.3 }).collect();
        let scenario = world(kind, &quirks, &hit, &mut random);
        let truth = scenario.truth();
        let input = confirmed(&scenario, kind, &mut random);
        let verdict = analyse(&input, &method);
        let recommended = recommend(&input, &verdict, &method);
        let (Some(cell), Some(bound)) = (recommended.cell, recommended.upper) else { continue };
        let regret = truth[cell] - truth.iter().copied().fold(f64::INFINITY, f64::min);
        found.covered.count(regret <= bound);
        if recommended.proven {
            found.is_true.count(regret <= method.ln_margin());
        }
    }
    found
}

fn world(kind: WorldKind, quirks: &[f64], hit: &[f64], random: &mut RandomStream) -> Scenario {
    let effects = quirks.iter().map(|quirk| quirk + 0.02 * random.normal()).collect();
    let steal = match kind.hit {
        Hit::None => Steal::default(),
        Hit::All => Steal { shares: vec![0.16], ln_cost: STEAL_COST },
        Hit::Some => Steal { shares: hit.to_vec(), ln_cost: STEAL_COST },
    };
    let quiet = Scenario::new(effects, Noise::Normal, kind.paired / 2.0_f64.sqrt());
    Scenario { environment: SWINGS, twin_of: Some(0), steal, ..quiet }
}

fn confirmed(scenario: &Scenario, kind: WorldKind, random: &mut RandomStream) -> GroupInput {
    let Trials { rows, hits } = scenario.trials(kind.blocks, random);
    let mut input = scenario.packed(&rows);
    if !kind.all_blocks {
        let blocks = std::mem::take(&mut input.blocks).into_iter().zip(&hits);
        let calm = blocks.filter(|(_, hits)| hits[..CELLS].iter().all(|hit| !hit));
        input.blocks = calm.map(|(block, _): (BlockInput, _)| block).collect();
    }
    input
}
