//! Is the best kept, are claims true, and does the A/A control alarm only if it differs?

use std::f64::consts::SQRT_2;

use super::{Demand, Runs, VerificationRow, row};
use crate::sim::{Noise, SWINGS, Scenario};
use bytegauge_stats::decision_rule::{ClaimKind, OptionState, claim, state};
use bytegauge_stats::group::{Method, analyse};

const TRUE: Demand = Demand::at_least(95.0);

/// Fewer flips than in a report: they only affect the critical value, not its mean.
fn method(seed: u64) -> Method {
    Method { seed, random_flips: 999, ..Method::default() }
}

/// Equal cells are the hard case for a best set: every one of them is the best. Also cells of one group with different kinds of noise,
/// whose differences are skewed. The control keeps the observed standard error at every flip.
pub(super) fn kept(runs: Runs) -> Vec<VerificationRow> {
    let kept = |kinds: &[Noise], blocks: usize, minute: usize, studentise_each_flip: bool| {
        let scenario = Scenario { noise: kinds.to_vec(), ..Scenario::new(vec![0.0; 7], Noise::Normal, 0.03) };
        let [kept] = runs.tally(minute, 0x51b, |_, seed| {
            let verdict = analyse(&scenario.group(blocks, seed), &Method { studentise_each_flip, ..method(runs.seed) });
            // A group without a result keeps everything and would make the method look better.
            [verdict.inconclusive.is_none().then(|| verdict.best_set.contains(&0))]
        });
        kept
    };
    let mut rows = Vec::new();
    for blocks in [6, 8, 12, 20, 48] {
        let name = format!("best set keeps the best, {blocks} blocks");
        rows.push(row(kept(&[Noise::Normal], blocks, 1300, true), name, TRUE));
    }
    for noise in Noise::ALL.into_iter().skip(1) {
        let name = format!("best set keeps the best, {}", noise.name());
        rows.push(row(kept(&[noise], 20, 700, true), name, TRUE));
    }
    let mixed = kept(&[Noise::Normal, Noise::LogNormal], 20, 700, true);
    rows.push(row(mixed, "best set keeps the best, normal among log-normal", TRUE));
    for blocks in [6, 8] {
        let name = format!("fixed standard error, {blocks} blocks");
        rows.push(row(kept(&[Noise::Normal], blocks, 1300, false), name, TRUE).control());
    }
    rows
}

/// Whether every number of a claim is true. The control believes that neighbouring blocks are independent where a cell's own noise
/// lasts from block to block, which pairing cannot remove.
pub(super) fn claims(runs: Runs) -> Vec<VerificationRow> {
    let truth = [0.0, 0.02, 0.06, 0.12, 0.7];
    let is_true = |own_rho: f64, blocks: usize, merge_dependent_blocks: bool| {
        let scenario = Scenario { own_rho, ..Scenario::new(truth.to_vec(), Noise::Normal, 0.04) };
        let method = Method { merge_dependent_blocks, ..method(runs.seed) };
        let [is_true] = runs.tally(350, 0x51b, |_, seed| {
            let verdict = analyse(&scenario.group(blocks, seed), &method);
            // As the report does: shares, and options that plain means contradict are doubted.
            let option = |&cell: &usize| {
                let (lower, upper) = (verdict.lower[cell]?.exp_m1(), verdict.upper[cell]?.exp_m1());
                let state = state(lower, upper, verdict.contradicted.contains(&cell), method.margin);
                Some((truth[cell].exp_m1(), lower, state, upper))
            };
            let options: Vec<(f64, f64, OptionState, f64)> = verdict.present.iter().filter_map(option).collect();
            let kind = claim(&options.iter().map(|option| (option.2, option.3)).collect::<Vec<_>>(), method.margin);
            [options.iter().all(|(truth, lower, state, upper)| match state {
                OptionState::Good => truth <= upper,
                OptionState::Undecided => !matches!(kind, Some(ClaimKind::FreeChoice(apart)) if *truth > apart),
                OptionState::Avoid => truth >= lower,
            })]
        });
        is_true
    };
    vec![
        row(is_true(0.0, 12, true), "claim is true, independent, 12 blocks", TRUE),
        row(is_true(0.9, 48, false), "no merging, own noise AR(1) 0.9", TRUE).control(),
    ]
}

/// How often an equal A/A control alarms, and how often one that is 2 % off does. Uses the whole path of a report:
/// limiting, merging, judging. Limiting is meant for bursts.
pub(super) fn twin_alarms(runs: Runs) -> Vec<VerificationRow> {
    let few = Demand::at_most(1.5);
    let alarm = |(noise, spread, shift, demand): (Noise, f64, f64, Demand)| {
        let quiet = Scenario::new(vec![0.0, 0.02, 0.05], noise, spread);
        let scenario = Scenario { environment: SWINGS, twin_of: Some(0), ..quiet };
        let [alarms] = runs.tally(400, 0x51b, |_, seed| {
            let mut input = scenario.group(48, seed);
            input.blocks.iter_mut().filter_map(|block| block.twin_cost.as_mut()).for_each(|cost| *cost *= shift.exp());
            // The flips judge the cells, not the control.
            [analyse(&input, &Method { random_flips: 19, ..method(seed) }).systematic() > 0.0]
        });
        row(alarms, format!("A/A alarm, {}, control {:.0} % off", noise.name(), 100.0 * shift), demand)
    };
    let rows = [
        (Noise::Normal, 0.019, 0.0, few),
        (Noise::LogNormal, 0.019, 0.0, few),
        // Without the bursts, paired differences spread by 14 %.
        (Noise::Bursts, 0.5 / SQRT_2, 0.0, few),
        (Noise::Normal, 0.019, 0.02, Demand::at_least(95.0)),
    ];
    rows.map(alarm).to_vec()
}
