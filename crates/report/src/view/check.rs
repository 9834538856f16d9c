//! The gain of a program of the user: the recommended value compared with its present one, and the result of an
//! earlier recommendation.
//!
//! Differences are of the same blocks, with intervals that hold for all values at once: the present value was
//! fixed beforehand, so it is the reference of the family.

use bytegauge_model::{CellId, CellKind, Counted, Level, Metric, ProgramTask, ReadyWhen, Trial};
use bytegauge_stats::quantile::median;

use super::compare::GroupAnalysis;
use super::counted_trials::Settled;
use super::document::difference::share;
use super::document::{AdviceView, CellView, CheckView, GainView, Unreached};
use super::recommendation::Conditions;
use crate::interval_rounding::ShareScale;
use crate::phrase;

/// The factor whose levels are tried.
const VALUE: &str = "value";

/// The results of a session that checked a program.
pub fn check(task: &ProgramTask, judged: &[GroupAnalysis], conditions: &Conditions) -> CheckView {
    let gains = judged.iter().filter_map(|judged| gain(task, judged, conditions));
    let advice = judged.iter().flat_map(|judged| advice(task, judged, conditions));
    CheckView {
        program: task.name(),
        metric: task.metric.to_string(),
        rates_by_time: !matches!(task.metric, Metric::Cpu | Metric::Counter(_)),
        includes_start: matches!(task.metric, Metric::Wall | Metric::Bytes(_)),
        listens_at: listens_at(conditions),
        unreached: unreached(task, conditions),
        default: task.default.as_ref().map(shown),
        gains: gains.collect(),
        advice: advice.collect(),
        left_behind: runs(conditions, |trial| trial.task().is_some_and(|task| task.left_behind > 0)),
        stopped_by_force: runs(conditions, |trial| trial.task().is_some_and(|task| task.stopped_by_force)),
    }
}

/// Whether a cell has the value that a [`CheckView`] or [`GainView`] names.
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

/// The one port at which a server listened that was never ready.
fn listens_at(conditions: &Conditions) -> Option<u16> {
    let failed = conditions.settled.iter().flat_map(|cell| &cell.failed).filter_map(|trial| trial.task());
    let mut ports = failed.flat_map(|task| &task.server_ports);
    let first = *ports.next()?;
    ports.all(|port| *port == first).then_some(first)
}

/// The server that no connection of the command reached.
fn unreached(task: &ProgramTask, conditions: &Conditions) -> Option<Unreached> {
    let ReadyWhen::Tcp(listens_at) = task.server.as_ref()?.ready else { return None };
    let mut failed = conditions.settled.iter().flat_map(|cell| &cell.failed).filter_map(|trial| trial.task());
    let one = failed.find(|task| task.server_unreached)?;
    let named = task.port_of_command().filter(|(port, _)| one.wrong_port == Some(*port));
    Some(Unreached { listens_at, named })
}

/// The choice that takes a value, where it was confirmed.
fn choice_of(judged: &GroupAnalysis, value: &Level, conditions: &Conditions) -> Option<usize> {
    judged.cells.iter().position(|&at| conditions.settled[at].cell.factors.get(VALUE) == *value)
}

/// ln(cost of the reference / cost of the choice) as a share, with its ends: above 0 the choice is better.
fn against(judged: &GroupAnalysis, choice: usize, reference: usize) -> Option<(f64, f64, f64)> {
    let pair = judged.verdict.pair(choice, reference)?;
    let reach = pair.critical * pair.error;
    Some((share(-pair.mean)?, share(-pair.mean - reach)?, share(-pair.mean + reach)?))
}

fn cpu_ns(settled: &Settled) -> Option<f64> {
    median(&settled.trials.iter().filter_map(|trial| trial.cpu_ns_per_run()).collect::<Vec<_>>())
}

fn gain(task: &ProgramTask, judged: &GroupAnalysis, conditions: &Conditions) -> Option<GainView> {
    let default = task.default.as_ref().filter(|_| conditions.cells.iter().any(|cell| cell.trials > 0))?;
    let reference = choice_of(judged, default, conditions);
    let named = judged.alone.cell;
    let label = phrase::placed(&judged.row.group.factors).filter(|_| {
        // A single test needs no name.
        conditions.settled.iter().any(|cell| cell.cell.group != judged.row.group.id)
    });
    let place = label.map_or_else(String::new, |label| format!("{label}: "));
    let phrases = |text: String, cell: Option<CellId>| GainView {
        group: judged.row.group.id.clone(),
        cell,
        default: shown(default),
        gain: None,
        lower: None,
        upper: None,
        cpu_ns: None,
        default_cpu_ns: None,
        text: format!("{place}{text}"),
    };
    let (Some(reference), Some(named)) = (reference, named) else {
        let own = conditions.cells.iter().find(|cell| {
            cell.group == judged.row.group.id
                && cell.kind == CellKind::Candidate
                && cell.factors.get(VALUE) == serde_json::to_value(default).ok().as_ref()
        });
        let why = if own.is_some_and(|cell| cell.reason.is_some()) { "not measured" } else { "not confirmed" };
        return Some(phrases(format!("unknown: the present value, {}, was {why}", shown(default)), None));
    };
    let (at, at_default) = (judged.cell(Some(named))?, judged.cell(Some(reference))?);
    let value = shown(&conditions.settled[at].cell.factors.get(VALUE));
    let id = Some(conditions.cells[at].id.clone());
    if named == reference {
        let text = match judged.cells.len() {
            ..2 => format!("unknown: no value but the present one, {value}, was measured"),
            _ if !judged.standing.proves => "unknown: no result before the first analysis".into(),
            _ => format!("none: no value is recommended instead of the present one, {value}"),
        };
        return Some(phrases(text, id));
    }
    let instead = format!("{value} instead of {}", shown(default));
    if !judged.standing.proves {
        return Some(phrases(format!("{instead}: no result before the first analysis"), id));
    }
    let Some((gain, lower, upper)) = against(judged, named, reference) else {
        return Some(phrases(format!("{instead}: unknown without an interval"), id));
    };
    let scale = ShareScale::of([gain, lower, upper]);
    let interval = scale.signed_interval(lower, upper);
    let default = shown(default);
    let is_cpu = compares_cpu(judged, conditions.settled);
    let how = match (lower > 0.0, upper < 0.0) {
        _ if is_cpu => of_cpu(&value, &default, [gain, lower, upper]),
        (true, _) if scale.multiples => format!("{value} is {} as fast as {default} ({interval})", scale.signed(gain)),
        (true, _) => format!("{instead}: {} ({interval})", scale.signed(gain)),
        (_, true) => format!("{value} is slower than the present value, {default}: {interval}"),
        _ => format!("{instead}: not significant ({interval})"),
    };
    Some(GainView {
        gain: Some(gain),
        lower: Some(lower),
        upper: Some(upper),
        cpu_ns: cpu_ns(&conditions.settled[at]),
        default_cpu_ns: cpu_ns(&conditions.settled[at_default]),
        ..phrases(how, id)
    })
}

/// The change of the CPU time by a value, of a gain and its ends.
fn of_cpu(value: &str, default: &str, [gain, lower, upper]: [f64; 3]) -> String {
    let change = |gain: f64| 1.0 / (1.0 + gain) - 1.0;
    let (least, most) = (change(upper), change(lower));
    let scale = ShareScale::of([change(gain), least, most]);
    let interval = scale.signed_interval(least, most);
    match (lower > 0.0, upper < 0.0) {
        (true, _) => format!("{value} instead of {default}: CPU time {} ({interval})", scale.signed(change(gain))),
        (_, true) => format!("{value} takes more CPU time than the present value, {default}: {interval}"),
        _ => format!("{value} instead of {default}: not significant (CPU time {interval})"),
    }
}

/// An earlier recommendation, compared with the present value; whether it held follows from the options of the test.
fn advice(task: &ProgramTask, judged: &GroupAnalysis, conditions: &Conditions) -> Vec<AdviceView> {
    let Some(advice) = &task.advice else { return Vec::new() };
    let reference = task.default.as_ref().and_then(|default| choice_of(judged, default, conditions));
    let each = advice.values.iter().map(|advised| {
        let choice = choice_of(judged, &advised.value, conditions);
        let observed = choice.zip(reference).and_then(|(choice, reference)| against(judged, choice, reference));
        AdviceView {
            group: judged.row.group.id.clone(),
            session: advice.session,
            value: shown(&advised.value),
            question: advised.question.clone(),
            held: None,
            predicted: advised.against_default,
            observed: observed.map(|(share, ..)| 1.0 + share),
            observed_lower: observed.map(|(_, lower, _)| 1.0 + lower),
            observed_upper: observed.map(|(.., upper)| 1.0 + upper),
        }
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gain_of_cpu_time_is_its_change() {
        let text = |gain| of_cpu("64 KiB", "4 KiB", gain);
        assert!(
            text([1.0, 0.6, 1.5]).starts_with("64 KiB instead of 4 KiB: CPU time −50 % (−60 %"),
            "{}",
            text([1.0, 0.6, 1.5])
        );
        assert!(text([0.0, -0.1, 0.1]).contains("not significant (CPU time −9"), "{}", text([0.0, -0.1, 0.1]));
        assert!(text([-0.35, -0.4, -0.3]).contains("takes more CPU time than the present value, 4 KiB: +4"));
    }
}
