//! One group: its best set, its A/A control, its recommendation and its cost model.

use bytegauge_model::{Cost, Transport, Trial};
use bytegauge_stats::group::{GroupVerdict, Twin};
use bytegauge_stats::quantile::median;
use serde_json::Value;

use super::compare::GroupAnalysis;
use super::counted_trials::Settled;
use super::input::GroupBlocks;
use super::numbers::difference::share;
use super::numbers::{GroupView, LinkView, OptionRatio, SerialView, TwinView};
use super::recommendation::{Conditions, recommendation};
use super::{audit, cost, link, tune};

/// Puts together what is printed of one group.
pub fn view(judged: &GroupAnalysis, conditions: &Conditions, blocks: &GroupBlocks, fit_max: Option<u64>) -> GroupView {
    let of_choice = |choice: usize| conditions.id(judged, Some(choice));
    let verdict = &judged.verdict;
    let mut counted = blocks.of_group(&judged.row.group.id);
    // An import has no block records, and what stats could use is what counts.
    counted.used = verdict.blocks_used;
    let compares = compared(judged, conditions.settled);
    GroupView {
        id: judged.row.group.id.clone(),
        factors: judged.row.group.factors.clone(),
        varied: judged.varied.clone(),
        throws_away: conditions.throw_away(judged),
        cost: compares.name(judged.row.group.factors.workload()),
        compares,
        twin_reach: judged.twin_reach(),
        twin: twin(judged, conditions),
        blocks: counted,
        analysis: judged.standing.view.clone(),
        age_ns: age_ns(judged, conditions),
        warmup_ns: warmup_ns(judged, conditions),
        steady: judged.row.facts.get("steady").and_then(Value::as_bool),
        serial: (verdict.present.len() > 1)
            .then_some(SerialView { merged_by: verdict.merged_by, independent: verdict.independent }),
        // With one cell, or too few blocks, nothing has left the set, but nothing was compared either.
        best_set: match verdict.inconclusive {
            None if verdict.present.len() > 1 => verdict.best_set.iter().filter_map(|&c| of_choice(c)).collect(),
            _ => Vec::new(),
        },
        limited_trials: verdict.slow_limited.iter().sum(),
        spoken_against: verdict.contradicted.iter().filter_map(|&choice| of_choice(choice)).collect(),
        audit: audit::view(judged, conditions),
        recommendation: recommendation(judged, conditions),
        once_avoided: judged.once.avoided.iter().filter_map(|&choice| of_choice(choice)).collect(),
        once_proven: judged.once.proven.iter().filter_map(|&choice| of_choice(choice)).collect(),
        cost_model: cost::model(&judged.candidates, pivot(judged, conditions), conditions.settled, fit_max),
        over_time: None,
        link: link_of(judged, conditions),
        asked: false,
        ratios: ratios(&judged.verdict, judged, conditions),
        p99_ratios: judged.p99.as_ref().map_or_else(Vec::new, |verdict| ratios(verdict, judged, conditions)),
    }
}

/// The best option against each other one. None where too few blocks were measured.
fn ratios(verdict: &GroupVerdict, judged: &GroupAnalysis, conditions: &Conditions) -> Vec<OptionRatio> {
    let Some(leader) = verdict.leader().filter(|_| judged.standing.proves) else {
        return Vec::new();
    };
    let of_other = |&other: &usize| {
        let pair = verdict.pair(other, leader).filter(|_| other != leader)?;
        let reach = pair.reach();
        Some(OptionRatio {
            option: conditions.id(judged, Some(leader))?,
            other: conditions.id(judged, Some(other))?,
            times: pair.mean.exp(),
            times_lower: (pair.mean - reach).exp(),
            times_upper: Some((pair.mean + reach).exp()).filter(|times| times.is_finite()),
        })
    };
    let mut ratios: Vec<OptionRatio> = verdict.present.iter().filter_map(of_other).collect();
    ratios.sort_by(|a, b| b.times.total_cmp(&a.times));
    ratios
}

/// The counts of the link between its ends, over all trials of the group.
fn link_of(judged: &GroupAnalysis, conditions: &Conditions) -> Option<LinkView> {
    let cells = judged.candidates.iter().map(|&at| &conditions.settled[at]);
    let trials: Vec<&Trial> = cells.flat_map(|cell| cell.trials.iter().copied()).collect();
    link::view(&judged.row.group.factors, &trials)
}

/// The compared quantity.
pub fn compared(judged: &GroupAnalysis, settled: &[Settled]) -> Cost {
    if tune::compares_cpu(judged, settled) { Cost::Cpu } else { judged.cost }
}

fn twin(judged: &GroupAnalysis, conditions: &Conditions) -> Option<TwinView> {
    let Twin { difference, spread, alarm, reach, blocks, .. } = judged.verdict.twin?;
    let reported = judged.twin_reach().is_some();
    // The reach is the far end of the interval about the difference: its half width follows.
    let half = reach - difference.abs();
    Some(TwinView {
        cell: conditions.id(judged, judged.input.twin_of)?,
        twin: conditions.cells[judged.twin?].id.clone(),
        difference: share(difference),
        spread: share(spread),
        lower: share(difference - half).filter(|_| reported),
        upper: share(difference + half).filter(|_| reported),
        alarm,
        exchanged_bound: judged.alone.cell.and_then(|cell| share(*judged.verdict.exchanged_upper.get(cell)?.as_ref()?)),
        blocks,
    })
}

/// The value that the harness found; else that of the trials.
fn warmup_ns(judged: &GroupAnalysis, conditions: &Conditions) -> Option<u64> {
    let found = judged.row.facts.get("warmup_ns").and_then(|ns| ns.as_u64().or(ns.as_f64().map(|ns| ns as u64)));
    let first = || judged.candidates.iter().find_map(|&at| conditions.settled[at].trials.first());
    found.or_else(|| first().map(|trial| trial.warmup_ns).filter(|ns| *ns > 0))
}

/// How old the connections were when the window of a trial opened and when it closed, nanoseconds: medians over the
/// confirmed trials. `None` where there is no connection, or one a call.
fn age_ns(judged: &GroupAnalysis, conditions: &Conditions) -> Option<(u64, u64)> {
    let has_an_age = |cell: &&Settled| {
        let factors = &cell.cell.factors;
        factors.transport().is_some_and(Transport::two_ended) && factors.connect_per_call() != Some(true)
    };
    let cells = judged.cells.iter().map(|&at| &conditions.settled[at]).filter(has_an_age);
    let trials = cells.flat_map(|cell| &cell.trials).filter(|trial| trial.warmup_ns > 0 && trial.wall_ns > 0);
    let ages = trials.map(|trial| (trial.warmup_ns as f64, trial.warmup_ns.saturating_add(trial.wall_ns) as f64));
    let (opened, closed): (Vec<f64>, Vec<f64>) = ages.unzip();
    Some((median(&opened)? as u64, median(&closed)? as u64))
}

/// The cell that the verdict names; else the best confirmed; else the fastest seen.
fn pivot(judged: &GroupAnalysis, conditions: &Conditions) -> Option<usize> {
    let fastest = || {
        let rated = judged.candidates.iter().filter_map(|&at| Some((at, conditions.cells[at].estimate.median?)));
        rated.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| at)
    };
    judged.cell(judged.alone.cell).or_else(|| judged.cell(judged.verdict.leader())).or_else(fastest)
}
