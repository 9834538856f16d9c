//! Are recommendations true, on quiet and shared machines, and is the default recommended without false claims?
//!
//! Among significantly good options the default comes first. It is also recommended without a significant result if
//! nothing contradicts it, although another option has the smallest bound, and sometimes although it is slower. Its own
//! bound must then cover its excess cost.

use std::f64::consts::SQRT_2;

use super::{Demand, RunTally, Runs, VerificationRow, row};
use crate::sim::{Noise, SWINGS, Scenario};
use bytegauge_stats::group::{Method, analyse};
use bytegauge_stats::recommendation::recommend;

const TRUE: Demand = Demand::at_least(95.0);
const FALSE: Demand = Demand::at_most(5.0);
/// The cell with the default everywhere.
const DEFAULT: usize = 0;

/// A kind of machine, and the shape of its session.
struct MachineKind {
    noise: Noise,
    /// Standard deviation of paired differences.
    paired: f64,
    blocks: usize,
    /// Cells other than the default; the first is the best of them, the others cost up to 12 % more.
    others: usize,
    /// Shares of trials that CPU steal hits, in turn of the cells.
    steal: &'static [f64],
    /// True excess of the default over the best of the other cells: none, within the margin, and beyond it.
    excesses: &'static [f64],
    /// Repetitions.
    minute: usize,
    name: &'static str,
}

const USUAL: MachineKind = MachineKind {
    noise: Noise::Normal,
    paired: 0.14,
    blocks: 27,
    others: 4,
    steal: &[],
    excesses: &[0.0, 0.03, 0.1, 0.4],
    minute: 700,
    name: "noise 14 %",
};
const NOISY: MachineKind = MachineKind { paired: 0.3, name: "noise 30 %", ..USUAL };
/// The smallest bound often exceeds a factor of two, so it decides nothing; there are hardly any significant results.
const NO_ANSWER: MachineKind = MachineKind { paired: 0.6, blocks: 8, name: "noise 60 %, 8 blocks", ..USUAL };
/// Many blocks of a shared machine.
const SHARED: MachineKind = MachineKind {
    paired: 0.3,
    blocks: 128,
    others: 3,
    excesses: &[0.03],
    minute: 100,
    name: "noise 30 %, 128 blocks",
    ..USUAL
};

const KINDS: [MachineKind; 9] = [
    USUAL,
    NOISY,
    MachineKind { noise: Noise::Bursts, paired: 0.5, name: "bursts", ..USUAL },
    // No bound of other cells comes between: here the two ends of one interval decide.
    MachineKind { paired: 0.25, others: 1, name: "one rival, noise 25 %", ..USUAL },
    NO_ANSWER,
    SHARED,
    MachineKind { paired: 0.6, blocks: 256, name: "noise 60 %, 256 blocks", ..SHARED },
    MachineKind { steal: &[0.16], name: "noise 30 %, steal hits all cells alike", ..SHARED },
    MachineKind { steal: &[0.02, 0.3, 0.02], name: "noise 30 %, steal depends on the cell", ..SHARED },
];

pub(super) fn rows(runs: Runs) -> Vec<VerificationRow> {
    let mut rows = Vec::new();
    for kind in &KINDS {
        let (name, mut is_true) = (kind.name, RunTally::default());
        for &excess in kind.excesses {
            let [covered, of_proven, beyond_bound, ..] = groups(kind, excess, runs);
            let world = format!("auto costs {:.0} % more, {name}", 100.0 * excess);
            rows.push(row(covered, format!("bound of the recommended cell covers, {world}"), TRUE));
            if excess > Method::default().margin {
                let name = format!("auto is recommended and exceeds its bound, {world}");
                rows.push(row(beyond_bound, name, FALSE));
            }
            is_true = RunTally { held: is_true.held + of_proven.held, of: is_true.of + of_proven.of };
        }
        if kind.blocks >= USUAL.blocks {
            rows.push(row(is_true, format!("proven is true of the finalists, one is auto, {name}"), TRUE));
        }
    }
    // Bounds that could be shown in place of its own.
    let [.., anyway] = groups(&NOISY, 0.1, runs);
    let [.., by_estimate, _] = groups(&NO_ANSWER, 0.1, runs);
    rows.push(row(by_estimate, "auto's estimate in place of its bound", FALSE).control());
    rows.push(row(anyway, "auto always recommended, with the least bound", FALSE).control());
    rows
}

/// How often groups show that
///
/// - the bound of the recommended cell covers;
/// - the significant result is true;
/// - the default is recommended, and its excess is beyond the margin and beyond its bound;
/// - the same with its estimate in place of its bound;
/// - the same with the smallest bound of the group, even where results contradict the default.
fn groups(kind: &MachineKind, excess: f64, runs: Runs) -> [RunTally; 5] {
    let footprints: Vec<f64> = (0..=kind.others).map(|cell| 1.0 + cell as f64).collect();
    runs.tally(kind.minute, 0xa070, |random, seed| {
        let method = Method { seed, random_flips: 299, ..Method::default() };
        let mut effects = vec![excess.ln_1p(), 0.0];
        effects.extend((1..kind.others).map(|_| 0.12 * random.uniform()));
        let quiet = Scenario::new(effects, kind.noise, kind.paired / SQRT_2);
        let scenario = Scenario { environment: SWINGS, twin_of: Some(1), steal: kind.steal.to_vec(), ..quiet };
        let truth = scenario.truth();
        let best = truth.iter().copied().fold(f64::INFINITY, f64::min);
        let mut input = scenario.group_with(&footprints, kind.blocks, random);
        input.cells[DEFAULT].is_default = true;
        let verdict = analyse(&input, &method);
        let recommended = recommend(&input, &verdict, &method);
        // Without a bound there is no claim.
        let bounded = recommended.cell.zip(recommended.upper);
        let default = bounded.filter(|(cell, _)| *cell == DEFAULT);
        let least = verdict.upper.iter().map(|upper| upper.unwrap_or(0.0)).fold(f64::INFINITY, f64::min);
        let exceeds = |bound: f64| truth[DEFAULT] - best > method.ln_margin().max(bound);
        let proven = recommended.cell.filter(|_| recommended.proven);
        [
            bounded.map(|(cell, bound)| truth[cell] - best <= bound),
            proven.map(|cell| truth[cell] - best <= method.ln_margin()),
            Some(default.is_some_and(|(_, bound)| exceeds(bound))),
            Some(default.is_some() && recommended.excess.is_some_and(exceeds)),
            Some(bounded.is_some() && exceeds(least)),
        ]
    })
}
