//! Is the default recommended without false claims?
//!
//! Among significantly good options the default comes first. It is also recommended without a significant result if
//! nothing contradicts it, although another option has the smallest bound, and sometimes although it is slower. Its own
//! bound must then cover its excess cost.

use super::{Demand, RunTally, Runs, VerificationRow};
use crate::sim::{Noise, SWINGS, Scenario};
use bytegauge_stats::group::{GroupInput, Method, analyse};
use bytegauge_stats::recommendation::recommend;
use bytegauge_stats::rng::{RandomStream, seeded};

const TRUE: Demand = Demand::AtLeast(95.0);
const FALSE: Demand = Demand::AtMost(5.0);
/// The cell with the default everywhere.
const AUTO: usize = 0;
/// Its true excess over the best of the other cells: none, within the margin, and beyond it.
const EXCESS: [f64; 4] = [0.0, 0.03, 0.1, 0.4];

/// A kind of machine, and the shape of its session.
#[derive(Clone, Copy)]
struct MachineKind {
    noise: Noise,
    paired: f64,
    blocks: usize,
    /// Cells other than [`AUTO`]; the first is the best of them, the others cost up to 12 % more.
    others: usize,
    name: &'static str,
}

const USUAL: MachineKind =
    MachineKind { noise: Noise::Normal, paired: 0.14, blocks: 27, others: 4, name: "noise 14 %" };
const NOISY: MachineKind = MachineKind { paired: 0.3, name: "noise 30 %", ..USUAL };
const BURSTS: MachineKind = MachineKind { noise: Noise::Bursts, paired: 0.5, name: "bursts", ..USUAL };
/// No bound of other cells comes between: here the two ends of one interval decide.
const ONE_RIVAL: MachineKind = MachineKind { paired: 0.25, others: 1, name: "one rival, noise 25 %", ..USUAL };
/// The smallest bound often exceeds a factor of two, so it decides nothing.
const NO_ANSWER: MachineKind = MachineKind { paired: 0.6, blocks: 8, name: "noise 60 %", ..USUAL };

/// Counts over groups.
#[derive(Default)]
struct GroupCounts {
    proven: RunTally,
    /// The significant result is true.
    is_true: RunTally,
    /// The bound of the recommended cell covers.
    covered: RunTally,
    /// `AUTO` is recommended.
    auto: RunTally,
    /// It is recommended, and its excess is beyond the margin and beyond its bound.
    beyond_bound: RunTally,
    /// The same with its estimate in place of its bound.
    by_estimate: RunTally,
    /// The same with the smallest bound of the group, even where results contradict `AUTO`.
    anyway: RunTally,
}

pub(super) fn rows(runs: Runs) -> Vec<VerificationRow> {
    let mut rows = Vec::new();
    for kind in [USUAL, NOISY, BURSTS, ONE_RIVAL, NO_ANSWER] {
        let [mut proven, mut is_true] = [RunTally::default(); 2];
        let name = kind.name;
        let shape = format!("{} cells, {} blocks", 1 + kind.others, kind.blocks);
        for excess in EXCESS {
            let found = groups(kind, excess, runs);
            let world = format!("auto costs {:.0} % more, {name}", 100.0 * excess);
            let note = format!("{shape}; auto is recommended in {:.1} % of groups", found.auto.percent());
            rows.push(runs.row(found.covered, format!("bound of the recommended cell covers, {world}"), TRUE, note));
            if excess > Method::default().margin {
                let note = format!("{shape}; of all groups, {} of which recommend it", found.auto.held);
                let name = format!("auto is recommended and exceeds its bound, {world}");
                rows.push(runs.row(found.beyond_bound, name, FALSE, note));
            }
            proven.add(found.proven);
            is_true.add(found.is_true);
        }
        // The other kinds have almost no significant results.
        if kind.blocks == USUAL.blocks {
            let note = format!("{shape}; auto costs 0 to 40 % more; something is proven in {:.1} %", proven.percent());
            rows.push(runs.row(is_true, format!("proven is true of the finalists, one is auto, {name}"), TRUE, note));
        }
    }
    rows.extend(crippled(runs));
    rows
}

/// Bounds that could be shown in place of its own.
fn crippled(runs: Runs) -> Vec<VerificationRow> {
    let [noisy, open] = [NOISY, NO_ANSWER].map(|kind| groups(kind, EXCESS[2], runs));
    let note = |kind: MachineKind| format!("auto costs 10 % more, {}, {} blocks", kind.name, kind.blocks);
    vec![
        runs.row(open.by_estimate, "auto's estimate in place of its bound", FALSE, note(NO_ANSWER)).control(),
        runs.row(noisy.anyway, "auto always recommended, with the least bound", FALSE, note(NOISY)).control(),
    ]
}

fn groups(kind: MachineKind, excess: f64, runs: Runs) -> GroupCounts {
    let mut found = GroupCounts::default();
    for seed in runs.seeds(runs.repetitions(4000)) {
        let mut random = seeded(seed, 0xa070);
        let method = Method { seed, random_flips: 299, ..Method::default() };
        let truth = truth(kind, excess, &mut random);
        let input = confirmed(&truth, kind, &mut random);
        let verdict = analyse(&input, &method);
        let recommended = recommend(&input, &verdict, &method);
        // Without a bound there is no claim.
        let bounded = recommended.cell.zip(recommended.upper);
        let regret = |cell: usize| truth[cell].max(0.0);
        if let Some((cell, bound)) = bounded {
            found.covered.count(regret(cell) <= bound);
        }
        found.proven.count(recommended.proven);
        if let Some(cell) = recommended.cell.filter(|_| recommended.proven) {
            found.is_true.count(regret(cell) <= method.ln_margin());
        }
        let least = verdict.upper.iter().map(|upper| upper.unwrap_or(0.0)).fold(f64::INFINITY, f64::min);
        let exceeds = |bound: f64| regret(AUTO) > method.ln_margin().max(bound);
        let auto = bounded.filter(|(cell, _)| *cell == AUTO);
        found.auto.count(auto.is_some());
        found.beyond_bound.count(auto.is_some_and(|(_, bound)| exceeds(bound)));
        found.by_estimate.count(auto.is_some() && recommended.excess.is_some_and(exceeds));
        found.anyway.count(bounded.is_some() && exceeds(least));
    }
    found
}

/// ln costs over that of the best of the others; `AUTO` comes first.
fn truth(kind: MachineKind, excess: f64, random: &mut RandomStream) -> Vec<f64> {
    let mut truth = vec![excess.ln_1p(), 0.0];
    truth.extend((1..kind.others).map(|_| 0.12 * random.uniform()));
    truth
}

fn confirmed(truth: &[f64], kind: MachineKind, random: &mut RandomStream) -> GroupInput {
    let quiet = Scenario::new(truth.to_vec(), kind.noise, kind.paired / 2.0_f64.sqrt());
    let scenario = Scenario { environment: SWINGS, twin_of: Some(1), ..quiet };
    let mut input = scenario.packed(&scenario.rows(kind.blocks, random));
    input.cells[AUTO].is_default = true;
    input
}
