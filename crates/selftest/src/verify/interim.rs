//! Do planned interim analyses keep the error level, and do unplanned ones exceed it?

use super::{Demand, RunTally, Runs, Scale, VerificationRow};
use crate::sim::{Noise, Scenario};
use bytegauge_stats::group::{GroupInput, Method, analyse};
use bytegauge_stats::interim::{LOOKS, level, schedule};

const FALSE: Demand = Demand::AtMost(5.0);
/// Blocks of the first analysis.
const FIRST: usize = 16;
/// Spread of paired differences, over √2.
const SPREAD: f64 = 0.14 / std::f64::consts::SQRT_2;

pub(super) fn rows(runs: Runs) -> Vec<VerificationRow> {
    // Errors are few, and the control has to miss by more than chance.
    let repetitions = runs.at_least(400, if runs.scale == Scale::Full { 4000 } else { 400 });
    // The cheaper cell costs slightly more than the margin above the best: a claim for it is an error.
    let effects = vec![0.05_f64.ln_1p() + 1e-4, 0.0];
    let scenario = Scenario { twin_of: Some(1), ..Scenario::new(effects, Noise::Normal, SPREAD) };
    let looks = schedule(FIRST, LOOKS, 0.95);
    let most = looks.last().map_or(FIRST, |look| look.blocks);
    let [mut shared, mut whole, mut peeked] = [RunTally::default(); 3];
    for seed in runs.seeds(repetitions) {
        let input = scenario.group(most, seed);
        let proves = |blocks: usize, level: f64| proves(&input, blocks, 0, &Method { level, seed, ..method() });
        shared.count(looks.iter().any(|look| proves(look.blocks, look.level)));
        whole.count(proves(most, 0.95));
        peeked.count((8..=most).step_by(2).any(|blocks| proves(blocks, 0.95)));
    }
    let shape = format!("a cell just beyond the margin; {FIRST} to {most} blocks, paired noise 14 %");
    vec![
        runs.row(shared, "false results over three analyses", FALSE, format!("{shape}; each at 98.3 %")),
        runs.row(whole, "false results, one analysis", FALSE, format!("{shape}; at 95 %")),
        runs.row(peeked, "analyses at any time", FALSE, format!("{shape}; after every other block, at 95 %")).control(),
    ]
}

fn proves(input: &GroupInput, blocks: usize, cell: usize, method: &Method) -> bool {
    let input = GroupInput { blocks: input.blocks[..blocks].to_vec(), ..input.clone() };
    analyse(&input, method).proves(cell, method)
}

fn method() -> Method {
    Method { level: level(0.95, 1), random_flips: 199, ..Method::default() }
}
