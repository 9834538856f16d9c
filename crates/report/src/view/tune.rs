//! The gain of a program of the user: the recommended value compared with its present one, and the result of an
//! earlier recommendation.
//!
//! Differences are of the same blocks, with intervals that hold for all values at once: the present value was
//! fixed beforehand, so it is the reference of the family.

use bytegauge_model::{
    Counted, Level, Metric, OptionChange, OwnOption, ProgramChange, ProgramTask, ServiceCounts, SocketChanges, Trial,
};
use bytegauge_stats::interim::growth_to_decide;
use bytegauge_stats::quantile::median;

use super::compare::GroupAnalysis;
use super::counted_trials::Settled;
use super::groups::Conditions;
use super::numbers::difference::share;
use super::numbers::{
    AdviceView, CellView, ChangeEffect, ChangeView, ChangesView, GainView, GroupView, InterimView, ServiceView,
    TuneView, VersusCost, least_growth,
};
use crate::phrase;

/// The factor whose levels are tried.
const VALUE: &str = "value";

/// The results of a session that checked a program.
pub fn tune(task: &ProgramTask, judged: &[GroupAnalysis], conditions: &Conditions) -> TuneView {
    let gains = judged.iter().filter_map(|judged| gain(task, judged, conditions));
    let advice = judged.iter().flat_map(|judged| advice(task, judged));
    TuneView {
        program: task.name(),
        metric: task.metric.to_string(),
        includes_start: matches!(task.metric, Metric::Wall | Metric::Bytes(_)),
        default: task.default.as_ref().map(shown),
        gains: gains.collect(),
        changes: changes(task, judged, conditions),
        advice: advice.collect(),
        left_behind: runs(conditions, |trial| trial.task().is_some_and(|task| task.left_behind > 0)),
        stopped_by_force: runs(conditions, |trial| trial.task().is_some_and(|task| task.stopped_by_force)),
    }
}

/// Whether a cell has the value that a [`TuneView`] names.
pub fn has_value(cell: &CellView, value: &str) -> bool {
    shown(&cell.level(VALUE)) == value
}

/// A value for people.
fn shown(value: &Level) -> String {
    phrase::compact(VALUE, value)
}

/// Whether runs of a program are rated by their CPU time.
pub fn compares_cpu(judged: &GroupAnalysis, settled: &[Settled]) -> bool {
    let trials = judged.cells.iter().flat_map(|at| &settled[*at].measured);
    trials.filter_map(|trial| trial.task()).any(|task| task.counted == Counted::CpuTime)
}

fn runs(conditions: &Conditions, of: impl Fn(&Trial) -> bool) -> usize {
    conditions.settled.iter().flat_map(|cell| &cell.measured).filter(|trial| of(trial)).count()
}

/// The choice that takes a value, where it was confirmed.
fn choice_of(judged: &GroupAnalysis, value: &Level, conditions: &Conditions) -> Option<usize> {
    judged.cells.iter().position(|&at| conditions.settled[at].cell.factors.get(VALUE) == *value)
}

/// ln(cost of the reference / cost of the choice) as a share, with its ends: above 0 the choice is better.
fn against(judged: &GroupAnalysis, choice: usize, reference: usize) -> Option<(f64, f64, f64)> {
    let pair = judged.verdict.pair(choice, reference)?;
    Some((share(-pair.mean)?, share(-pair.mean - pair.reach())?, share(-pair.mean + pair.reach())?))
}

/// The gain of the recommended value over the present one; its numbers are unknown where one of the two was not confirmed, or
/// before the first analysis.
fn gain(task: &ProgramTask, judged: &GroupAnalysis, conditions: &Conditions) -> Option<GainView> {
    let default = task.default.as_ref().filter(|_| conditions.cells.iter().any(|cell| cell.trials > 0))?;
    let reference = choice_of(judged, default, conditions);
    let named = judged.alone.cell;
    let known = reference.zip(named).filter(|(reference, named)| judged.standing.proves && reference != named);
    let found = known.and_then(|(reference, named)| against(judged, named, reference));
    Some(GainView {
        group: judged.row.group.id.clone(),
        cell: conditions.id(judged, named),
        gain: found.map(|(gain, ..)| gain),
        lower: found.map(|(_, lower, _)| lower),
        upper: found.map(|(.., upper)| upper),
    })
}

/// The options that were changed, each against the program as it is.
fn changes(task: &ProgramTask, judged: &[GroupAnalysis], conditions: &Conditions) -> Option<ChangesView> {
    let (changes, default) = (task.changes.as_ref()?, task.default.as_ref()?);
    let waits = || changes.seen().map(|(_, seen)| &seen.waits);
    let is_local = match &changes.service {
        Some(service) => service.is_local,
        // A connection may be too short to be seen.
        None => {
            (task.server.is_some() || waits().any(|seen| seen.over_loopback)) && !waits().any(|seen| seen.over_network)
        }
    };
    let of_group = |judged: &GroupAnalysis| {
        let reference = choice_of(judged, default, conditions);
        let candidates = judged.candidates.iter().map(|at| (&conditions.settled[*at], &conditions.cells[*at]));
        let are_chosen = judged.candidates.iter().any(|at| conditions.settled[*at].is_confirmed());
        let changed = candidates.filter(|(settled, _)| settled.cell.factors.get(VALUE) != *default);
        let each = changed.map(|(settled, cell)| {
            let value = settled.cell.factors.get(VALUE);
            let choice = choice_of(judged, &value, conditions);
            let pair = choice.zip(reference).and_then(|(choice, reference)| judged.verdict.pair(choice, reference));
            let pair = pair.filter(|_| judged.standing.proves);
            let end = |side: f64| pair.and_then(|pair| share(pair.mean + side * pair.reach()));
            let dropped = are_chosen && !settled.is_confirmed() && cell.trials > 0;
            let behind = dropped.then(|| "behind in the first runs, and not measured further".to_owned());
            let reason = cell.reason.clone().or(behind).or_else(|| match judged.verdict.inconclusive {
                Some(why) => Some(why.to_string()),
                None => pair.is_none().then(|| "no result before the first analysis".to_owned()),
            });
            let (change, lower, upper) = (end(0.0), end(-1.0), end(1.0));
            let left_for = cell.reason.clone();
            let effect = ChangeEffect::of(lower, upper, conditions.margin);
            let is_undecided = effect == ChangeEffect::Undecided;
            let growth = pair
                .filter(|_| is_undecided && left_for.is_none())
                .map(|pair| growth_to_decide(pair.mean, pair.random, pair.systematic, conditions.margin.ln_1p()));
            let is_local = is_local && settled.cell.factors.emulated_link().is_none();
            let mut options = changes.of_value(&value).iter().filter_map(ProgramChange::option);
            ChangeView {
                beyond_loopback: options.find_map(|option| beyond_loopback(option, changes)).filter(|_| is_local),
                value: shown(&value),
                cell: cell.id.clone(),
                change,
                lower,
                upper,
                effect,
                is_best: false,
                reason,
                left_for,
                dropped,
                growth,
            }
        });
        let mut each = each.collect::<Vec<_>>();
        mark_best(&mut each, changes);
        each
    };
    Some(ChangesView {
        on: changes.on.to_string(),
        cost: match task.metric {
            Metric::Cpu => VersusCost::CpuTime,
            Metric::Counter(_) => VersusCost::Events,
            _ => VersusCost::Time,
        },
        changes: judged.iter().flat_map(of_group).collect(),
        not_tried: changes.not_tried.clone(),
        service: changes.service.iter().flat_map(|_| service(conditions)).collect(),
        task: Some(changes.clone()),
    })
}

/// The blocks of the remaining analyses, if they should decide a change of a group: whether it differs from the program as it is,
/// not which of several good ones is the best.
pub fn more_blocks(group: &GroupView, changes: &ChangesView, cells: &[CellView]) -> Option<u64> {
    let is_own = |change: &&ChangeView| cells.iter().any(|cell| cell.id == change.cell && cell.group == group.id);
    blocks_left(group.analysis.as_ref()?, least_growth(changes.changes.iter().filter(is_own))?)
}

/// The blocks of the remaining analyses, if they make `growth` times the blocks that the last one had.
fn blocks_left(analysis: &InterimView, growth: f64) -> Option<u64> {
    let suffices = analysis.blocks > 0 && analysis.blocks as f64 * growth <= analysis.left_until()? as f64;
    analysis.blocks_left().filter(|_| suffices)
}

/// What a change may do on a network, where it may be the best over loopback alone. Without a call that sets an option to 1 the
/// kernel's default is in force.
pub fn beyond_loopback(change: &OptionChange, changes: &SocketChanges) -> Option<&'static str> {
    let known = change.row().beyond_loopback?;
    let turns_on = |own: &OwnOption| own.option.as_deref() == Some(change.option.as_str()) && own.value == "1";
    let seen = changes.seen_of(change);
    let is_concerned = match &change.level {
        Some(level) => (known.concerns)(level),
        None => seen.own.values().any(turns_on) && (known.concerns)(&Level::auto()),
    };
    let is_concerned =
        is_concerned && (seen.opened.is_empty() || seen.opened.keys().any(|socket| socket.transport.is_tcp()));
    is_concerned.then_some(known.sentence)
}

/// Marks the change to make, of those that are shown to save something, and not over loopback alone: the one that saves most, or the
/// removal of a call of the program that may save as much, since it is the simpler change.
pub fn mark_best(all: &mut [ChangeView], changes: &SocketChanges) {
    let saves = |change: &ChangeView| change.change.unwrap_or(0.0);
    let is_better = |change: &ChangeView| change.effect == ChangeEffect::Better && !change.helps_over_loopback();
    let mut better: Vec<usize> = (0..all.len()).filter(|at| is_better(&all[*at])).collect();
    better.sort_by(|a, b| saves(&all[*a]).total_cmp(&saves(&all[*b])));
    let Some(most) = better.first().map(|at| all[*at].upper) else { return };
    let is_as_good = |change: &ChangeView| change.lower.zip(most).is_some_and(|(lower, upper)| lower <= upper);
    let simpler = better.iter().find(|at| changes.only_removes(&all[**at].value) && is_as_good(&all[**at]));
    all[*simpler.unwrap_or(&better[0])].is_best = true;
}

/// What the connections of a running program did with each value that was measured.
fn service(conditions: &Conditions) -> Vec<ServiceView> {
    let of_cell = |settled: &Settled| {
        let trials = || settled.measured.iter().filter_map(|trial| Some((trial, trial.task()?.service.as_ref()?)));
        let of = |number: fn(&Trial, &ServiceCounts) -> f64| {
            median(&trials().map(|(trial, counts)| number(trial, counts)).collect::<Vec<_>>())
        };
        ServiceView {
            value: shown(&settled.cell.factors.get(VALUE)),
            gib_per_s: of(|trial, counts| counts.gib() * 1e9 / trial.wall_ns.max(1) as f64),
            retransmitted_per_gib: of(|_, counts| counts.retransmitted as f64 / counts.gib()),
            rtt_us: of(|_, counts| counts.rtt_us as f64),
        }
    };
    let candidates = conditions.settled.iter().filter(|settled| settled.cell.twin_of.is_none());
    candidates.map(of_cell).filter(|view| view.gib_per_s.is_some()).collect()
}

/// The values that an earlier session recommended; whether they held follows from the options of the test.
fn advice(task: &ProgramTask, judged: &GroupAnalysis) -> Vec<AdviceView> {
    let each = task.advice.iter().flat_map(|advice| advice.values.iter().map(|advised| (advice.session, advised)));
    each.map(|(session, advised)| AdviceView {
        group: judged.row.group.id.clone(),
        session,
        value: shown(&advised.value),
        question: advised.question.clone(),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_left_where_they_should_decide() {
        let analysis = |blocks: usize, next_blocks: Option<usize>| InterimView {
            done: 1,
            of: 3,
            level: 0.98,
            blocks,
            so_far: 2,
            next_blocks,
            last_blocks: 36,
        };
        assert_eq!(blocks_left(&analysis(9, Some(18)), 2.1), Some(25));
        assert_eq!(blocks_left(&analysis(9, Some(18)), 4.1), None);
        assert_eq!(blocks_left(&analysis(36, None), 1.0), None);
        assert_eq!(blocks_left(&analysis(0, Some(9)), 1.0), None);
    }
}
