//! The next steps after the user's own program was tried: failed values first, and the present value where it is missing.

use bytegauge_model::CellKind;
use bytegauge_model::unit::counted;

use super::further_steps::again_instead;
use super::next::{step, words};
use super::{NextStep, Results};
use crate::results::{Claim, InvalidReason, OptionResult, OptionStatus, Test, is_answered};
use crate::view::numbers::{TuneView, View};
use crate::view::tune::has_value;
use crate::words::number::time;

/// The next steps; `usual` are those of every comparison.
pub fn next(view: &Results, tune: &TuneView, usual: Vec<NextStep>) -> Vec<NextStep> {
    let is_measured = view.tests.iter().any(|test| !has_reason(test, &[InvalidReason::NothingMeasured]));
    if !is_measured {
        return ready_at(view).map_or(usual, |step| vec![step]);
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

/// The command with the port at which a server listened that was never ready.
pub fn ready_at(view: &Results) -> Option<NextStep> {
    let port = view.tune.as_ref()?.listens_at?;
    let command = again_instead(view, &["--ready"], &[format!("--ready=tcp:{port}")])?;
    Some(step(&command, "wait for the port at which the server listens"))
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
    let mut left: Vec<&str> = Vec::new();
    for label in options().filter(|option| !has_failed(option)).map(|option| option.label.as_str()) {
        if !left.contains(&label) {
            left.push(label);
        }
    }
    let cells = || failed.iter().filter_map(|option| view.cell(&option.id));
    let is_default = tune.default.as_ref().is_some_and(|default| cells().any(|cell| has_value(cell, default)));
    // A condition may be at fault, and the present value is what others are compared with. Changes of sockets are no values.
    let is_of_values = view.tests.len() == 1 && tune.changes.is_none();
    let command = match left.len() < 2 || !is_of_values || is_default {
        true => None,
        false => again_instead(view, &["--values"], &[format!("--values={}", left.join(","))]),
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
pub fn shortest_run_ns(view: &View) -> Option<f64> {
    let candidates = view.cells.iter().filter(|cell| cell.kind == CellKind::Candidate);
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
