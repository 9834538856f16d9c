//! Two subjects of one session: their paired differences, block by block, and what follows from them.
//!
//! The verdict is read off the interval that is printed, so that the two never contradict each other. Differences are
//! logarithms of costs; a difference is a share of the faster one's time, so that a margin means the
//! same in both directions. Blocks count as everywhere: those up to the last analysis, merged where neighbours depend on each
//! other, with the interval widened for what dependence is left. An A/A control that differs significantly widens it by as much as
//! it may differ.
//!
//! CPU time of two programs is looked at only where time decides nothing, and can only show that B is worse: a program that
//! waits longer uses no more of it.

use std::collections::BTreeMap;

use bytegauge_model::unit::counted;
use bytegauge_model::{Cost, Counted, Level, Spec, Versus, VersusSide, factor};
use bytegauge_stats::block_dependence::merge;
use bytegauge_stats::compare::{Comparison, Verdict, paired};
use bytegauge_stats::group::{BlockInput, GroupInput, GroupVerdict};

use super::compare::GroupAnalysis;
use super::counted_trials::Settled;
use super::estimate::rate_of_all;
use super::groups::{self, Conditions};
use super::numbers::{CellView, SubjectDifference, VersusCost, VersusSideView, VersusView};
use crate::interval_rounding::{ShareScale, percent};
use crate::phrase;

/// The result of the paired differences.
struct Compared {
    /// `None` where one of the two was not confirmed.
    comparison: Option<Comparison>,
    verdict: Verdict,
    /// Why nothing is claimed whatever the interval, or the doubt that is left.
    why_open: Option<String>,
    /// The comparison is of CPU time: time leaves open what CPU time shows.
    by_cpu: bool,
}

/// By the blocks of the group that holds both.
fn compare(versus: &Versus, judged: &[GroupAnalysis], settled: &[Settled], margin: f64) -> Compared {
    let Some((group, a, b)) = judged.iter().find_map(|group| {
        let choice = |side: &VersusSide| group.cells.iter().position(|&at| settled[at].cell.id == side.cell);
        Some((group, choice(&versus.a)?, choice(&versus.b)?))
    }) else {
        return Compared { comparison: None, verdict: Verdict::Open, why_open: None, by_cpu: false };
    };
    let pairs = |input: &GroupInput, verdict: &GroupVerdict| {
        let merged = merge(&differences(input, [a, b]), verdict.merged_by.max(1));
        // The cause that makes equal subjects differ may make these two differ by as much.
        paired(&merged, verdict.widening, group.standing.level).widened(verdict.systematic())
    };
    let comparison = pairs(&group.input, &group.verdict);
    let verdict = comparison.by_interval(margin);
    // A side that is significantly worse may stall as well.
    let stalls = |name: &str, choice: usize, unless: Verdict| {
        let side = group.cell(Some(choice)).map(|at| &settled[at]);
        let side = side.filter(|side| side.stalled > 0 && verdict != unless)?;
        let of = counted(side.tried, "trial");
        Some(format!("{name}: {} of {of} moved nothing, which no comparison of rates holds", side.stalled))
    };
    let lags = |choice: usize, what: &str, other: &str| {
        group.behind(choice).map(|share| format!("{what} {} of the load, {other}", percent(share)))
    };
    let why_open = why_open(group, b, &comparison, margin)
        .or_else(|| stalls("A", a, Verdict::Better))
        .or_else(|| stalls("B", b, Verdict::Worse))
        .or_else(|| lags(a, "A carried", "which B carries"))
        .or_else(|| lags(b, "B carried", "which A carries"));
    let verdict = if why_open.is_some() { Verdict::Open } else { verdict };
    let by_cpu = group.of_cpu.as_ref().map(|(input, verdict)| pairs(input, verdict));
    let is_worse = |cpu: &Comparison| cpu.by_interval(margin) == Verdict::Worse;
    if let Some(cpu) = by_cpu.filter(|cpu| verdict == Verdict::Open && group.standing.proves && is_worse(cpu)) {
        let [lower, upper] = [comparison.lower, comparison.upper].map(f64::exp_m1);
        let why_open = lower.is_finite().then(|| {
            let between = ShareScale::of([lower, upper]).signed_interval(lower, upper);
            format!("time, which other programs disturb, does not decide it ({between})")
        });
        return Compared { comparison: Some(cpu), verdict: Verdict::Worse, why_open, by_cpu: true };
    }
    Compared { comparison: Some(comparison), verdict, why_open, by_cpu: false }
}

/// ln(cost of b / cost of a), block by block. The A/A control is another run of one of the two: its mean with that run is more
/// precise.
fn differences(input: &GroupInput, [a, b]: [usize; 2]) -> Vec<f64> {
    let ln = |cost: Option<f64>| cost.filter(|cost| cost.is_finite() && *cost > 0.0).map(f64::ln);
    let cost = |block: &BlockInput, choice: usize| {
        let own = ln(block.cost[choice])?;
        let again = ln(block.twin_cost).filter(|_| input.twin_of == Some(choice));
        Some(again.map_or(own, |again| (own + again) / 2.0))
    };
    input.blocks.iter().filter_map(|block| Some(cost(block, b)? - cost(block, a)?)).collect()
}

/// The reason for which there is no result, whatever the interval.
fn why_open(group: &GroupAnalysis, b: usize, comparison: &Comparison, margin: f64) -> Option<String> {
    let verdict = &group.verdict;
    if !group.standing.proves {
        return Some("too few pairs were measured to judge by".into());
    }
    if let Some(why) = verdict.inconclusive {
        return Some(why.to_string());
    }
    if !comparison.upper.is_finite() {
        return Some("so few pairs without a difference between them do not show how much runs vary".into());
    }
    let decides = comparison.by_interval(margin) != Verdict::Open;
    if verdict.systematic() > 0.0 && !decides {
        return Some("the same subject measured twice in every block differs by more than chance allows".into());
    }
    let slow = verdict.contradicted.contains(&b) && !group.input.cells[b].unfit && comparison.difference <= 0.0;
    slow.then(|| "plain means, in which slow trials count in full, show the opposite".into())
}

/// The results of a session that compares two.
pub fn versus(versus: &Versus, judged: &[GroupAnalysis], conditions: &Conditions) -> VersusView {
    let margin = conditions.margin;
    let Compared { comparison, verdict, why_open, by_cpu } = compare(versus, judged, conditions.settled, margin);
    let cell = |side: &VersusSide| conditions.cells.iter().find(|cell| cell.id == side.cell);
    let (a, b) = (cell(&versus.a), cell(&versus.b));
    let side = |side: &VersusSide, own: Option<&CellView>, other: Option<&CellView>| VersusSideView {
        cell: side.cell.clone(),
        words: side.words.clone(),
        differs: own.zip(other).map_or_else(BTreeMap::new, |(own, other)| differs(&own.factors, &other.factors)),
        trials: own.map_or(0, |cell| cell.trials),
        rate: own.and_then(|cell| rate_of_all(cell, margin).or(cell.estimate.median)),
        reason: own.and_then(|cell| cell.reason.clone()),
    };
    let (a_side, mut b_side) = (side(&versus.a, a, b), side(&versus.b, b, a));
    let judged_level = judged.first().map_or(0.95, |group| group.standing.level);
    let counts = judged.iter().flat_map(|group| &group.cells).any(|at| is_counted(&conditions.settled[*at]));
    let costs: Vec<Cost> = judged.iter().map(|group| groups::compared(group, conditions.settled)).collect();
    let cost = match costs.first() {
        _ if counts => VersusCost::Events,
        _ if by_cpu || costs.contains(&Cost::Cpu) => VersusCost::CpuTime,
        Some(Cost::Latency) => VersusCost::Latency,
        Some(Cost::P99) => VersusCost::P99,
        Some(Cost::GapP99) => VersusCost::GapP99,
        Some(Cost::Urgent) => VersusCost::Urgent,
        _ => VersusCost::Time,
    };
    let difference = SubjectDifference::of(comparison.as_ref(), verdict);
    // Medians of all trials may differ from the difference in pairs in their direction.
    if let (VersusCost::Time, Some((first, longer))) = (cost, a_side.rate.zip(difference.longer)) {
        b_side.rate = Some(if longer < 0.0 { first * (1.0 - longer) } else { first / (1.0 + longer) });
    }
    VersusView {
        alike: a.zip(b).map_or_else(String::new, |(a, b)| alike(&a.factors, &b.factors)),
        cost,
        difference,
        blocks: comparison.map_or(0, |comparison| comparison.n),
        level: judged_level,
        margin,
        why_open,
        a: a_side,
        b: b_side,
    }
}

/// The levels of one side that the other has not. Programs differ by their commands.
fn differs(own: &Spec, other: &Spec) -> BTreeMap<String, String> {
    let apart =
        factor::of(own.workload()).filter(|row| row.name != "value" && own.get(row.name) != other.get(row.name));
    // A level that does not apply to one side and was not set on the other is no difference.
    let asked = |levels: &Spec, name: &str| levels.get(name) != Level::Absent && levels.get(name) != Level::auto();
    let apart = apart.filter(|row| asked(own, row.name) || asked(other, row.name));
    let shown = |name: &str| match own.get(name) {
        Level::Absent => "–".to_owned(),
        level => phrase::level(name, &level),
    };
    apart.map(|row| (phrase::in_code(row.name).to_owned(), shown(row.name))).collect()
}

/// The common levels of both that differ from the default.
fn alike(a: &Spec, b: &Spec) -> String {
    // A level may ask for nothing.
    let is_asked = |level: Level| match level {
        Level::Absent | Level::Number(0) => false,
        level => !level.is_auto() && !matches!(level.name(), Some("none" | "off" | "max" | "direct")),
    };
    let is_same = |name: &str| name != "value" && a.get(name) == b.get(name);
    let same = factor::of(a.workload()).filter(|row| is_same(row.name) && is_asked(a.get(row.name)));
    same.map(|row| format!("{} {}", phrase::in_code(row.name), phrase::level(row.name, &a.get(row.name))))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Whether runs are rated by what was counted meanwhile.
fn is_counted(settled: &Settled) -> bool {
    settled.measured.iter().any(|trial| trial.task().is_some_and(|task| task.counted == Counted::Events))
}

#[cfg(test)]
mod tests {
    use super::super::numbers::difference::longer;
    use super::*;

    #[test]
    fn the_control_counts_with_its_side() {
        let check = |twin_of: Option<usize>, expected: f64| {
            let block = BlockInput { cost: vec![Some(1.0), Some(2.0)], twin_cost: Some(8.0) };
            let broken = BlockInput { cost: vec![None, Some(2.0)], twin_cost: Some(8.0) };
            let input = GroupInput { cells: Vec::new(), twin_of, blocks: vec![block, broken] };
            let found = differences(&input, [0, 1]);
            assert!(found.len() == 1 && (found[0] - expected.ln()).abs() < 1e-12, "{twin_of:?}: {found:?}");
        };
        check(None, 2.0);
        check(Some(1), 4.0);
        check(Some(0), 2.0 / 8f64.sqrt());
    }

    #[test]
    fn the_slower_one_takes_longer_whichever_it_is() {
        let close = |ln: f64, expected: f64| assert!((longer(ln) - expected).abs() < 1e-12, "{ln}");
        close(1.05f64.ln(), 0.05);
        close(-1.05f64.ln(), -0.05);
        close(0.0, 0.0);
    }
}
