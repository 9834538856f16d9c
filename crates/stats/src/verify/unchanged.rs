//! Is what leaves everything to the system named without a false word?
//!
//! It comes first of what is proven, and of what is open where nothing speaks for a change: so it is named although another
//! choice has the least bound, and sometimes although it is dear. Then its own bound has to say how dear it may be.

use super::{Demand, Row, Scale, Tally};
use crate::group::{GroupInput, GroupVerdict, Method, analyse};
use crate::recommend::over_profiles;
use crate::rng::{RandomStream, seeded};
use crate::sim::{Environment, Noise, Scenario, group_input};

const TRUE: Demand = Demand::AtLeast(95.0);
const FALSE: Demand = Demand::AtMost(5.0);
/// The cell that leaves everything to the system.
const AUTO: usize = 0;
/// How much dearer it truly is than the best of the others: not at all, within the margin, and beyond it.
const DEARER: [f64; 4] = [0.0, 0.03, 0.1, 0.4];

/// A kind of machine, and how it is asked.
#[derive(Clone, Copy)]
struct Kind {
    noise: Noise,
    paired: f64,
    blocks: usize,
    /// Cells beside [`AUTO`]; the first is the best of them, the others are up to 12 % dearer.
    others: usize,
    profiles: usize,
    name: &'static str,
}

const USUAL: Kind = Kind { noise: Noise::Normal, paired: 0.14, blocks: 27, others: 4, profiles: 1, name: "noise 14 %" };
const NOISY: Kind = Kind { paired: 0.3, name: "noise 30 %", ..USUAL };
const BURSTS: Kind = Kind { noise: Noise::Bursts, paired: 0.5, name: "bursts", ..USUAL };
/// No bound of others comes between: here the two ends of one interval decide.
const ONE_RIVAL: Kind = Kind { paired: 0.25, others: 1, name: "one rival, noise 25 %", ..USUAL };
/// The least bound often excludes not even a double, so that it decides nothing.
const NO_ANSWER: Kind = Kind { paired: 0.6, blocks: 8, name: "noise 60 %", ..USUAL };
const PROFILES: Kind = Kind { profiles: 3, name: "3 profiles, noise 30 %", ..NOISY };

/// What groups came to.
#[derive(Default)]
struct Found {
    proven: Tally,
    /// What is proven is true.
    is_true: Tally,
    /// The bound of what is named, proven or open, covers.
    covered: Tally,
    /// `AUTO` is named.
    auto: Tally,
    /// It is named, dearer than the margin, and dearer than its bound.
    unsaid: Tally,
    /// The same if its estimate stood beside it, or the least bound of the group.
    by_estimate: Tally,
    by_least: Tally,
    /// The least bound beside it, whatever speaks against it.
    anyway: Tally,
}

pub(super) fn rows(scale: Scale, seed: u64) -> Vec<Row> {
    let mut rows = Vec::new();
    for kind in [USUAL, NOISY, BURSTS, ONE_RIVAL, NO_ANSWER, PROFILES] {
        let [mut proven, mut is_true] = [Tally::default(); 2];
        let name = kind.name;
        let shape = format!("{} cells, {} blocks", 1 + kind.others, kind.blocks);
        for dearer in DEARER {
            let found = groups(kind, dearer, scale, seed);
            let world = format!("auto {:.0} % dearer, {name}", 100.0 * dearer);
            let note = format!("{shape}; auto is named in {:.1} % of groups", found.auto.percent());
            rows.push(found.covered.row(format!("bound of what is named covers, {world}"), TRUE, scale, note));
            if dearer > Method::default().margin {
                let note = format!("{shape}; of all groups, {} of which name it", found.auto.held);
                rows.push(found.unsaid.row(format!("auto is named and dearer than said, {world}"), FALSE, scale, note));
            }
            proven.add(found.proven);
            is_true.add(found.is_true);
        }
        // Elsewhere next to nothing is proven.
        if kind.profiles == 1 && kind.blocks == USUAL.blocks {
            let note = format!("{shape}; auto 0 to 40 % dearer; something is proven in {:.1} %", proven.percent());
            rows.push(is_true.row(format!("proven is true of the finalists, one is auto, {name}"), TRUE, scale, note));
        }
    }
    rows.extend(crippled(scale, seed));
    rows
}

/// What else might stand beside it. That the least bound of the group would seldom be false is the rule's own doing: it is named
/// where its bound is at most half as wide again.
fn crippled(scale: Scale, seed: u64) -> Vec<Row> {
    let [noisy, rival, open] = [NOISY, ONE_RIVAL, NO_ANSWER].map(|kind| groups(kind, DEARER[2], scale, seed));
    let note = |kind: Kind| format!("auto 10 % dearer, {}, {} blocks", kind.name, kind.blocks);
    vec![
        open.by_estimate.control("auto's estimate in place of its bound", FALSE, scale, note(NO_ANSWER)),
        noisy.anyway.control("auto named whatever speaks against it, with the least bound", FALSE, scale, note(NOISY)),
        rival.by_least.row(
            "the least bound beside auto in place of its own",
            Demand::Published,
            scale,
            format!(
                "{}; of all groups, {} of which name it, with its own {}",
                note(ONE_RIVAL),
                rival.auto.held,
                rival.unsaid.held
            ),
        ),
    ]
}

fn groups(kind: Kind, dearer: f64, scale: Scale, seed: u64) -> Found {
    let mut found = Found::default();
    for run in 0..scale.repetitions(4000) as u64 {
        let seed = seed.wrapping_mul(1_000_003).wrapping_add(run);
        let mut random = seeded(seed, 0xa070);
        let method = Method { seed, random_flips: 299, groups: kind.profiles, ..Method::default() };
        let truths: Vec<Vec<f64>> = (0..kind.profiles).map(|_| truth(kind, dearer, &mut random)).collect();
        let inputs: Vec<GroupInput> = truths.iter().map(|truth| confirmed(truth, kind, &mut random)).collect();
        let verdicts: Vec<GroupVerdict> = inputs.iter().map(|input| analyse(input, &method)).collect();
        let pairs: Vec<(&GroupInput, &GroupVerdict)> = inputs.iter().zip(&verdicts).collect();
        let recommended = over_profiles(&pairs, &method);
        // Where nothing is bounded nothing is said.
        let said = recommended.cell.zip(recommended.worst_upper);
        let regret = |cell: usize| truths.iter().map(|truth| truth[cell]).fold(0.0, f64::max);
        if let Some((cell, bound)) = said {
            found.covered.count(regret(cell) <= bound);
        }
        found.proven.count(recommended.proven);
        if let Some(cell) = recommended.cell.filter(|_| recommended.proven) {
            found.is_true.count(regret(cell) <= method.ln_margin());
        }
        let worst = |cell: usize| verdicts.iter().filter_map(|verdict| verdict.upper[cell]).fold(0.0, f64::max);
        let least = (0..=kind.others).map(worst).fold(f64::INFINITY, f64::min);
        let dearer_than = |bound: f64| regret(AUTO) > method.ln_margin().max(bound);
        let auto = said.filter(|(cell, _)| *cell == AUTO);
        found.auto.count(auto.is_some());
        found.unsaid.count(auto.is_some_and(|(_, bound)| dearer_than(bound)));
        found.by_estimate.count(auto.is_some() && recommended.worst_excess.is_some_and(dearer_than));
        found.by_least.count(auto.is_some() && dearer_than(least));
        found.anyway.count(said.is_some() && dearer_than(least));
    }
    found
}

/// ln costs over that of the best of the others; `AUTO` comes first.
fn truth(kind: Kind, dearer: f64, random: &mut RandomStream) -> Vec<f64> {
    let mut truth = vec![dearer.ln_1p(), 0.0];
    truth.extend((1..kind.others).map(|_| 0.12 * random.uniform()));
    truth
}

fn confirmed(truth: &[f64], kind: Kind, random: &mut RandomStream) -> GroupInput {
    let mut scenario = Scenario::new(truth.to_vec(), kind.noise, kind.paired / 2.0_f64.sqrt());
    scenario.environment = Environment::Swings { rho: 0.7, spread: 0.18 };
    scenario.twin_of = Some(1);
    let footprints: Vec<f64> = (0..truth.len()).map(|cell| cell as f64 + 1.0).collect();
    let mut input = group_input(&scenario.rows(kind.blocks, random), &footprints, scenario.twin_of);
    input.cells[AUTO].is_default = true;
    input
}
