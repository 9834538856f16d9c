//! The next steps: the command that helps most, and its likely effect.

use bytegauge_bottleneck::call_errors::remedy_of;
use bytegauge_model::session::NoteKind;
use bytegauge_model::unit::{audit_after_ns, counted, forecast};
use bytegauge_model::{COMPARED_CONDITIONS, SessionStatus};
use bytegauge_stats::block_dependence::MIN_BLOCKS;

use super::further_steps::{self, LENGTHS, again_instead, is_asked, resuming, round_below};
use super::{NextStep, Results};
use crate::findings::{Fact, is_checked};
use crate::results::{Claim, InvalidReason, OptionResult, OptionStatus, Test, control_is_wide, is_answered};
use crate::view::calls::lowest_missed;
use crate::view::environment::crowd;
use crate::view::numbers::{CellOutcome, GroupView, InterimView, TuneView, Verdict, VersusView, View, least_growth};
use crate::view::tune::has_value;
use crate::words::interval_rounding::{FORECAST_MAX_S, TEST_S, budget, likely_bound, percent};
use crate::words::number::time;
use crate::words::phrase::unique;

/// A new session of this many times the length has intervals half as wide.
const LONGER: f64 = 4.0;

/// From this share on a bound does not exclude twice the time of the best: no forecast begins there.
const TWOFOLD: f64 = 1.0;

/// The next steps, the most useful first. An imported session cannot be continued here, and a new one would have other results.
pub fn next(view: &Results) -> Vec<NextStep> {
    let mut steps = steps(view);
    if view.plan.is_imported && view.status != SessionStatus::Imported {
        for step in steps.iter_mut().filter(|step| step.command.is_some()) {
            step.text = format!("on the machine that measured it, {}", step.text);
        }
    }
    steps
}

/// A next step that is a command.
pub fn step(command: &str, text: &str) -> NextStep {
    NextStep { command: Some(command.to_owned()), text: text.to_owned(), takes: None, continues: false }
}

/// A next step without a command.
pub fn words(text: &str) -> NextStep {
    NextStep { command: None, text: text.to_owned(), takes: None, continues: false }
}

/// The step that follows from an earlier session that contradicts this one.
fn over_sessions(view: &Results) -> Option<NextStep> {
    let contradicts =
        view.findings.iter().any(|finding| matches!(finding.fact, Fact::Earlier { contradicts: true, .. }));
    let command = format!("bytegauge report {} --across", view.session);
    contradicts.then(|| step(&command, "after one more session, see what all sessions of this plan show together"))
}

/// The interval end that must come down to the margin, as a share: that of the option that can lose least, or of the A/A control
/// where it is the wider one.
fn open_bound(view: &Results, group: &GroupView) -> Option<f64> {
    let own = view.test(&group.id).and_then(|test| test.safest());
    let control = group.twin_reach.filter(|_| control_is_wide(view, group, own.map(|option| &option.id)));
    let bound = own.and_then(|option| option.slower_upper).filter(|bound| *bound < TWOFOLD)?;
    Some(bound.max(control.unwrap_or(0.0)))
}

fn steps(view: &Results) -> Vec<NextStep> {
    let imported = view.status == SessionStatus::Imported || view.plan.is_imported;
    match view.status {
        SessionStatus::Running => {
            return vec![words("the session is running; results follow at its first analysis")];
        }
        SessionStatus::Incomplete if imported => {
            return vec![words("the session was interrupted; continue it on the machine that measured it")];
        }
        SessionStatus::Incomplete => return continue_session(view),
        SessionStatus::Complete | SessionStatus::Imported => {}
    }
    if let Some(versus) = &view.versus {
        return of_two(view, versus, imported);
    }
    if view.status == SessionStatus::Imported {
        let command = match view.plan.workload.as_str() {
            "call" => "bytegauge run receive-buffer",
            "ring" => "bytegauge run ring-nop",
            "tune" => "bytegauge tune --help",
            _ => "bytegauge run buffer-size",
        };
        return vec![step(command, "measure on this machine")];
    }
    if let Some(tune) = &view.tune {
        return of_tune(view, tune, of_complete(view, imported));
    }
    let others = if imported { Vec::new() } else { further_steps::all(view) };
    of_complete(view, imported).into_iter().chain(others).chain(over_sessions(view)).collect()
}

/// The same measurement once more, with a command where it is known.
fn again(view: &Results, budget: Option<&str>, text: &str) -> NextStep {
    let command = match budget {
        Some(budget) => again_instead(view, &LENGTHS, &["--time", budget]),
        None => again_instead(view, &[], &[]),
    };
    let flag = budget.filter(|_| command.is_none()).map_or_else(String::new, |budget| format!(" (--time {budget})"));
    NextStep { command, takes: budget.map(str::to_owned), ..words(&format!("{text}{flag}")) }
}

/// The flags with which a session is measured on until all is decided.
const CONCLUSIVE: [&str; 2] = ["--until", "conclusive"];

/// The step that continues the session with these flags, and takes up to this time, nanoseconds.
fn resume(view: &Results, flags: &[&str], text: &str, most_ns: Option<u64>) -> NextStep {
    let command = [&[resuming(view).as_str()], flags].concat().join(" ");
    let takes = most_ns.filter(|ns| *ns > 0).map(|ns| format!("≤ {}", forecast(ns)));
    NextStep { takes, continues: true, ..step(&command, &when_quiet(view, text)) }
}

/// The text of a step that measures more, which needs a quiet machine where other programs kept this one busy.
fn when_quiet(view: &Results, text: &str) -> String {
    match crowd(&view.environment).filter(|_| view.tune.is_none()) {
        Some(_) => format!("stop the other programs (the command doctor lists them), then {text}"),
        None => text.to_owned(),
    }
}

fn continue_session(view: &Results) -> Vec<NextStep> {
    let is_until = is_asked(view, "--until");
    let most_ns = blocks_ns(view, |analysis| analysis.next_blocks);
    vec![resume(view, if is_until { &CONCLUSIVE } else { &[] }, "continue the session", most_ns)]
}

/// The session once more, after the reason of failures is removed.
fn after_failures(view: &Results) -> NextStep {
    let slo = longer_objective(view);
    if let Some(command) = slo.and_then(|slo| again_instead(view, &["--slo"], &["--slo", &slo])) {
        return step(&command, "allow a longer time");
    }
    let errors = view.cells.iter().filter_map(|cell| cell.call.as_ref()).flat_map(|call| &call.errors);
    let most = errors.max_by_key(|error| error.count).and_then(|error| remedy_of(error.class));
    again(view, None, &format!("{}, then run it again", most.unwrap_or("fix the reason above")))
}

/// An objective that an option may keep where none was kept: a few times the lowest percentile.
fn longer_objective(view: &Results) -> Option<String> {
    let (lowest_ns, knee) = lowest_missed(view.cells.iter())?;
    Some(format!("{}={}", knee.objective.percentile, round_below((4.0 * lowest_ns as f64).min(1e9))))
}

/// Where no longer session is likely to decide.
const FUTILE: &str = "an hour would not decide it either";

fn of_complete(view: &Results, imported: bool) -> Vec<NextStep> {
    if !view.candidates().any(|cell| cell.outcome == CellOutcome::Measured) {
        return vec![after_failures(view)];
    }
    let varied: Vec<&GroupView> = view.groups.iter().filter(|group| !group.varied.is_empty()).collect();
    let across = compare_levels(view);
    if let Some(step) = across.clone().filter(|_| varied.is_empty()) {
        return vec![step];
    }
    if varied.is_empty() {
        let help = format!("bytegauge {} --help", view.plan.workload);
        return vec![step(&help, "see what can be compared, and give two values or more")];
    }
    let is_compared = |group: &&GroupView| view.candidates_of(&group.id).filter(|cell| cell.trials > 0).count() > 1;
    let compared: Vec<&GroupView> = varied.into_iter().filter(is_compared).collect();
    if compared.is_empty() {
        let has_failed = view.cells.iter().any(|cell| cell.outcome == CellOutcome::Failed);
        let lacks = || step("bytegauge doctor", "see what the machine lacks, or compare other options");
        return vec![if has_failed { after_failures(view) } else { lacks() }];
    }
    let is_decided = |group: &&GroupView| view.test(&group.id).is_some_and(|test| is_answered(view, test));
    let open: Vec<&GroupView> = compared.into_iter().filter(|group| !is_decided(group)).collect();
    if open.is_empty() {
        return vec![again(view, None, &when_quiet(view, "repeat it at another time of day to check the result"))];
    }
    let mut steps = narrow(view, &open, imported);
    steps.extend(across);
    let is_dependent = |group: &&GroupView| group.serial.as_ref().is_some_and(|serial| !serial.independent);
    let is_disturbed = crowd(&view.environment).is_some() || open.iter().all(is_dependent);
    if steps.is_empty() && is_disturbed && !imported {
        let text = "run it again: the disturbance of this session may be over";
        steps.push(again(view, None, &when_quiet(view, text)));
    }
    if steps.is_empty() {
        let lacks_trials = |group: &&GroupView| {
            view.test(&group.id)
                .is_some_and(|test| matches!(test.claim, Claim::Invalid { reason: InvalidReason::FewBlocks }))
        };
        steps.push(words(&match view.tune {
            _ if open.iter().any(lacks_trials) => {
                "give it more time (--time), or compare fewer options at once".to_owned()
            }
            Some(_) => format!("{FUTILE}: {}, or compare fewer values", more_work(shortest_run_ns(view))),
            None => format!("{FUTILE}: take any of the undecided options, or compare fewer at once"),
        }));
    }
    steps.extend(why_ended(view));
    steps
}

/// A condition whose levels may be the question: the user named several of them, and several levels of nothing else.
fn compare_levels(view: &Results) -> Option<NextStep> {
    let names = |name: &str| is_asked(view, &format!("--{name}"));
    let differs = |flag: &&str| {
        let factor = flag.replace('-', "_");
        view.groups.windows(2).any(|pair| pair[0].factors.get(&factor) != pair[1].factors.get(&factor))
    };
    let is_compared =
        view.groups.iter().any(|group| group.asked) || names("compare") || names("host") || names("connect");
    let flags = COMPARED_CONDITIONS.iter().map(|row| row.name);
    let name = flags.filter(differs).find(|name| names(name)).filter(|_| !is_compared)?;
    let command = again_instead(view, &[], &["--compare", name])?;
    Some(step(&command, &format!("compare the levels of --{name} in one test")))
}

/// What more blocks bring where options of a program's sockets are changed.
const DECIDES_CHANGE: &str = ", likely to decide a change";

/// The analyses that are left; else a longer, new session. Only steps that likely decide a test.
fn narrow(view: &Results, open: &[&GroupView], imported: bool) -> Vec<NextStep> {
    if let Some(rest) = rest_of_analyses(view, open).filter(|_| !imported) {
        return vec![rest];
    }
    let Some(own_ns) = view.plan.budget_ns.or(view.elapsed_ns) else { return Vec::new() };
    let own_s = own_ns as f64 / 1e9;
    let bounded: Vec<(&GroupView, f64)> =
        open.iter().filter_map(|group| Some((*group, open_bound(view, group)?))).collect();
    let closest = bounded.iter().map(|(_, bound)| *bound).reduce(f64::min);
    let is_short = open.iter().any(|group| group.blocks.used < MIN_BLOCKS);
    let growth = view.changes().and_then(|changes| least_growth(changes.changes.iter()));
    let longer = match (growth, closest) {
        (Some(growth), _) => LONGER.max(growth),
        // Intervals narrow with the root of the time.
        (None, Some(bound)) => LONGER.max((bound / view.plan.margin).powi(2)),
        // A session that was stopped after a few blocks is no measure of the time that its tests need.
        (None, None) if is_short => LONGER.max(TEST_S * view.tests.len() as f64 / own_s),
        (None, None) => return Vec::new(),
    };
    let all_s = own_s * longer;
    if all_s > FORECAST_MAX_S {
        return Vec::new();
    }
    let bounds: Vec<(&GroupView, f64)> =
        bounded.iter().map(|(group, bound)| (*group, likely_bound(*bound, 1.0, longer))).collect();
    let time = budget(all_s);
    let brings = if growth.is_some() { DECIDES_CHANGE.to_owned() } else { brings(view, &bounds) };
    let text = format!("measure for {time} in a new session{brings}");
    vec![again(view, Some(&time), &when_quiet(view, &text))]
}

fn name<'a>(view: &'a Results, group: &GroupView) -> &'a str {
    view.test(&group.id).map_or("", |test| &test.name)
}

/// The analyses that are left; `None` where none is left, and where they likely decide no test.
fn rest_of_analyses(view: &Results, open: &[&GroupView]) -> Option<NextStep> {
    let gains = || open.iter().filter(|group| group.recommendation.more_blocks.is_some());
    gains().next()?;
    let forecast = |group: &GroupView| {
        let analysis = group.analysis.as_ref().filter(|analysis| analysis.blocks > 0)?;
        Some(likely_bound(open_bound(view, group)?, analysis.blocks as f64, analysis.left_until()? as f64))
    };
    if view.changes().is_some() {
        return Some(resume(view, &CONCLUSIVE, &format!("measure more{DECIDES_CHANGE}"), Some(rest_ns(view)?)));
    }
    let bounds: Vec<(&GroupView, f64)> = gains().filter_map(|group| Some((*group, forecast(group)?))).collect();
    if !bounds.is_empty() && decided(&bounds, view.plan.margin).is_empty() {
        return None;
    }
    let text = format!("measure more{}", brings(view, &bounds));
    Some(resume(view, &CONCLUSIVE, &text, Some(rest_ns(view)?)))
}

/// The tests whose interval ends are forecast to be within the margin.
fn decided<'a>(bounds: &[(&'a GroupView, f64)], margin: f64) -> Vec<&'a GroupView> {
    // A forecast of exactly the margin is not above it.
    let within = bounds.iter().filter(|(_, bound)| *bound <= margin * (1.0 + 1e-9));
    within.map(|(group, _)| *group).collect()
}

/// `, likely to decide “Read from TCP” within 5 %`, by the forecasts of interval ends.
fn brings(view: &Results, bounds: &[(&GroupView, f64)]) -> String {
    let within = percent(view.plan.margin);
    match decided(bounds, view.plan.margin).as_slice() {
        [] => format!(", to decide within {within}"),
        [_] if view.tests.len() == 1 => format!(", likely to decide within {within}"),
        [one] => format!(", likely to decide “{}”", name(view, one)),
        some => format!(", likely to decide {} of {} tests within {within}", some.len(), view.tests.len()),
    }
}

/// The next steps after two were compared.
fn of_two(view: &Results, versus: &VersusView, imported: bool) -> Vec<NextStep> {
    let failed = [("A", &versus.a), ("B", &versus.b)].into_iter().filter(|(_, side)| side.trials == 0);
    let failed: Vec<&str> = failed.map(|(name, _)| name).collect();
    if !failed.is_empty() {
        return vec![again(view, None, &format!("fix {}, then measure again", failed.join(" and ")))];
    }
    match versus.difference.verdict {
        Verdict::Worse => return vec![words("keep A (exit code 1 reports the regression to scripts)")],
        Verdict::Better => return vec![words("use B")],
        Verdict::Equivalent => {
            let is_near = versus.difference.lower.is_some_and(|lower| lower >= -versus.margin);
            let which = if is_near { "either" } else { "B" };
            return vec![words(&format!("use {which}: B is not slower by more than the margin (--margin)"))];
        }
        Verdict::Open => {}
    }
    let own_s = view.elapsed_ns.unwrap_or(0) as f64 / 1e9;
    let within = percent(versus.margin);
    let mut steps = match rest_ns(view).filter(|_| !imported) {
        Some(rest_ns) => {
            let text = format!("measure more, to decide within {within}");
            vec![resume(view, &CONCLUSIVE, &text, Some(rest_ns))]
        }
        None if own_s * LONGER > FORECAST_MAX_S => vec![words(&more_work(shortest_run_ns(view)))],
        None => {
            let time = budget(own_s * LONGER);
            let text = format!("measure for {time} in a new session, to decide within {within}");
            vec![again(view, Some(&time), &text)]
        }
    };
    steps.extend(why_ended(view));
    steps
}

/// Why the session ended before its last analysis.
fn why_ended(view: &Results) -> Option<NextStep> {
    let ended = view.notes.iter().rev().find(|note| note.kind == NoteKind::End)?;
    Some(words(&format!("the session {}", ended.text)))
}

/// How long the blocks of the analyses that are left take, with their audits, nanoseconds; `None` where none is left. By the
/// blocks that were measured, as the progress of a session that goes on forecasts them.
fn rest_ns(view: &Results) -> Option<u64> {
    blocks_ns(view, InterimView::left_until)
}

/// The same of the blocks until another moment.
fn blocks_ns(view: &Results, until: impl Fn(&InterimView) -> Option<usize>) -> Option<u64> {
    let left = view.groups.iter().filter_map(|group| {
        let analysis = group.analysis.as_ref()?;
        let blocks = until(analysis)?.saturating_sub((analysis.blocks + analysis.so_far).max(1)) as u64;
        Some(blocks.saturating_mul(group.blocks.mean_ns.unwrap_or(0)))
    });
    let blocks_ns = left.reduce(u64::saturating_add)?;
    let share = view.plan.audit_share.filter(|_| view.groups.iter().any(is_checked)).unwrap_or(0.0);
    Some(blocks_ns.saturating_add(audit_after_ns(share, blocks_ns)))
}

// The next steps after the user's own program was tried: failed values first, and the present value where it is missing.

/// The next steps; `usual` are those of every comparison.
fn of_tune(view: &Results, tune: &TuneView, usual: Vec<NextStep>) -> Vec<NextStep> {
    let is_measured = view.tests.iter().any(|test| !has_reason(test, &[InvalidReason::NothingMeasured]));
    if !is_measured {
        return usual;
    }
    let of_failed = of_failed(view, tune);
    let mut changes = tune.changes.iter().flat_map(|changes| &changes.changes);
    if changes.any(|change| change.is_best) {
        let change = words("make the change, then run the same command: what helps on top of it?");
        return [change].into_iter().chain(usual.into_iter().filter(|step| step.continues)).collect();
    }
    let is_alone =
        view.tests.iter().all(|test| has_reason(test, &[InvalidReason::OneOption, InvalidReason::NothingMeasured]));
    let is_open = view.tests.iter().any(|test| !is_answered(view, test));
    let default = tune.default.is_none().then(|| {
        let program = &tune.program;
        words(&format!("add --now VALUE, the present value of {program}, to get the gain over it"))
    });
    // No command that tries the failed values once more.
    let continues = |step: &NextStep| step.continues || step.command.is_none();
    let usual = usual.into_iter().filter(|step| of_failed.is_none() || (!is_alone && continues(step)));
    let usual = usual.filter(|_| is_open || default.is_none()).collect::<Vec<_>>();
    of_failed.into_iter().chain(usual).chain(default).collect()
}

/// Whether a test has no result for one of these reasons.
fn has_reason(test: &Test, reasons: &[InvalidReason]) -> bool {
    matches!(test.claim, Claim::Invalid { reason } if reasons.contains(&reason))
}

/// Values that failed: they are fixed or left out, by a command without them where others are left to compare.
fn of_failed(view: &Results, tune: &TuneView) -> Option<NextStep> {
    let options = || view.tests.iter().flat_map(|test| &test.options);
    let has_failed = |option: &&OptionResult| matches!(option.status, OptionStatus::Failed | OptionStatus::Skipped);
    let failed: Vec<&OptionResult> = options().filter(has_failed).collect();
    let first = failed.first()?;
    let (what, it) = match failed.len() {
        1 => (format!("{} failed (the reason is above)", first.label), "it"),
        count => (format!("{} failed (the reasons are above)", counted(count, "value")), "them"),
    };
    let left = unique(options().filter(|option| !has_failed(option)).map(|option| option.label.as_str()));
    let cells = || failed.iter().filter_map(|option| view.cell(&option.id));
    let is_default = tune.default.as_ref().is_some_and(|default| cells().any(|cell| has_value(cell, default)));
    // A condition may be at fault, and the present value is what others are compared with. Changes of sockets are no values.
    let is_of_values = view.tests.len() == 1 && tune.changes.is_none();
    let command = match left.len() < 2 || !is_of_values || is_default {
        true => None,
        false => again_instead(view, &["--values"], &[&format!("--values={}", left.join(","))]),
    };
    Some(match command {
        Some(command) => step(&command, &format!("{what}: fix {it}, or leave {it} out")),
        None if is_default => words(&format!("the present value is missing: {what}: fix {it}, then measure again")),
        None => words(&format!("{what}: fix {it}, or take other values")),
    })
}

// How long runs of a program take, and the advice to make them longer.

/// A run of a program that takes this long is hardly affected by the program's start, nanoseconds.
const RUN_LONG_NS: f64 = 50e6;

/// The shortest median time of a run of a program, nanoseconds.
fn shortest_run_ns(view: &View) -> Option<f64> {
    let candidates = view.candidates();
    candidates.filter_map(|cell| cell.median("ns_per_run")).reduce(f64::min)
}

/// The advice to make runs of a program longer, by how long they take.
pub fn more_work(run_ns: Option<f64>) -> String {
    let Some(run_ns) = run_ns else { return "give each run more work".into() };
    match (RUN_LONG_NS / run_ns).ceil() {
        times if times > 1.0 => {
            let [now, then] = [run_ns, RUN_LONG_NS].map(time);
            format!("give each run {times}× the work or more, to take at least {then} (the shortest takes {now})")
        }
        _ => format!("give each run more work (the shortest takes {})", time(run_ns)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_runs_get_the_missing_work() {
        assert_eq!(
            more_work(Some(3.1e6)),
            "give each run 17× the work or more, to take at least 50 ms (the shortest takes 3.1 ms)"
        );
        assert_eq!(more_work(Some(215e6)), "give each run more work (the shortest takes 215 ms)");
    }
}
