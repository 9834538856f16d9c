//! What disturbed, and whom.

use std::collections::HashSet;

use bytegauge_model::unit::{counted, significant};
use bytegauge_model::{CellId, CellKind, Nanos};

use super::super::document::{CellView, GroupView, View};
use super::super::stolen::TOLD_P;
use super::{Questions, crowd, resource, rows};
use crate::outward::at_most;
use crate::phrase::rate_unit;
use crate::sentence::{excludes_nothing, measured_twice, percent, up_to_times};

/// Values that failed are named, unless there are more.
const FAILED_NAMED_MAX: usize = 6;

/// Other programs that took less than this, in CPUs, are not worth a line.
const FOREIGN_TOLD: f64 = 0.05;
/// The harness's cost above which it is said; the aim is 1 % of the fastest real call.
const FLOOR_AIM: f64 = 0.01;
/// Runs shorter than this measure a good deal of starting, nanoseconds.
const RUN_SHORT_NS: f64 = 20e6;

/// What disturbed, and whom.
pub fn noise(view: &View, questions: &Questions) -> Vec<String> {
    // What speaks against an answer comes before what only may have disturbed: a screen cuts the last.
    let mut said = twins(view, questions);
    said.extend(all_trials(view, questions));
    said.extend(uneven(view, questions));
    said.extend(once_avoided(view, questions));
    said.extend(speeds(view, questions));
    // Of what the rows show: second measurements and the harness's own trials stand in no table.
    let shown = || view.cells.iter().filter(|cell| cell.kind == CellKind::Candidate);
    let sum = |of: fn(&CellView) -> usize| shown().map(of).sum::<usize>();
    let (hit, trials) = (sum(|cell| cell.stolen_trials), sum(|cell| cell.trials));
    if hit > 0 {
        said.push(format!("the host took CPU in {hit} of the {trials} trials that these numbers come from"));
    }
    if let Some(us) = view.environment.throttled_us.filter(|us| *us > 0) {
        said.push(format!("the control group held the session up for {}", Nanos(us.saturating_mul(1000))));
    }
    let told_above = crowd(view).is_some();
    if let Some(cpus) = view.environment.foreign_cpus.filter(|cpus| *cpus >= FOREIGN_TOLD && !told_above) {
        said.push(format!("other programs used {} CPUs meanwhile", significant(cpus, 2)));
    }
    if let Some(share) = view.floor.share.filter(|share| *share >= FLOOR_AIM) {
        said.push(format!("bytegauge itself takes {} of the fastest real call", percent(share)));
    }
    if let Some(check) = &view.check {
        let runs = |count: usize, what: &str| (count > 0).then(|| format!("after {} {what}", counted(count, "run")));
        said.extend(short_runs(view));
        said.extend(runs(check.left_behind, "processes were left behind, and ended"));
        said.extend(runs(check.stopped_by_force, "the server did not heed its signal, and was killed (--stop)"));
    }
    // Where all of a group failed its own line says so, and why.
    let candidates = || view.cells.iter().filter(|cell| cell.kind == CellKind::Candidate);
    let measured: HashSet<_> = candidates().filter(|cell| cell.outcome == "measured").map(|cell| &cell.group).collect();
    let failed = candidates().filter(|cell| cell.outcome == "failed" && measured.contains(&cell.group));
    if let Some(reason) = failed.clone().find_map(|cell| cell.reason.as_ref()) {
        let which = match view.check {
            Some(_) => {
                let named: Vec<&str> = failed.clone().map(|cell| cell.label.as_str()).collect();
                let more = named.len().saturating_sub(FAILED_NAMED_MAX);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                format!("{}{more}", named[..named.len().min(FAILED_NAMED_MAX)].join(", "))
            }
            None => counted(failed.count(), "choice"),
        };
        said.push(format!("{which} failed: {reason}"));
    }
    if said.is_empty() {
        let reach = view.environment.twin_reach;
        let nothing = match told_above {
            true => "nothing beside the other programs that are named above",
            false => "nothing was noticed",
        };
        said.push(match reach {
            Some(reach) => format!("{nothing}; the same choice {}", measured_twice(reach)),
            None => nothing.into(),
        });
    }
    said
}

/// Runs that are hardly longer than it takes to start a program, which a shell and a dynamic linker do in milliseconds.
fn short_runs(view: &View) -> Option<String> {
    let run_ns = |cell: &CellView| cell.more.get("ns_per_run").and_then(|estimate| estimate.median);
    let shortest_ns = view.cells.iter().filter_map(run_ns).reduce(f64::min)?;
    (shortest_ns < RUN_SHORT_NS).then(|| {
        format!("a run takes {}, and starting a program is part of that: give it more to do", Nanos(shortest_ns as u64))
    })
}

/// Where the host took CPU time from some choices more than from others: the clearest case, and how many more.
fn uneven(view: &View, questions: &Questions) -> Option<String> {
    let mut hit: Vec<_> = view
        .groups
        .iter()
        .filter_map(|group| Some((group, group.stolen.as_ref().filter(|stolen| stolen.p <= TOLD_P)?)))
        .collect();
    hit.sort_by(|a, b| a.1.p.total_cmp(&b.1.p));
    let (group, stolen) = hit.first()?;
    let named = |id: &CellId| view.cell(id).map_or_else(|| id.to_string(), |cell| cell.label.clone());
    let more = match hit.len() {
        1 => String::new(),
        n => format!("; as in {}", counted(n - 1, "more question")),
    };
    Some(format!(
        "{}: it hit “{}” in {} of trials, “{}” in {} (p = {}): part of why they differ{more}",
        questions.of_group(group),
        named(&stolen.most),
        percent(stolen.most_share),
        named(&stolen.least),
        percent(stolen.least_share),
        significant(stolen.p, 1)
    ))
}

/// Where typical trials prove one choice, and all trials together, slow ones in full, were faster with another.
fn all_trials(view: &View, questions: &Questions) -> Option<String> {
    let each: Vec<String> = view
        .groups
        .iter()
        .filter(|group| group.recommendation.proven)
        .filter_map(|group| {
            let cell = view.cell(group.recommendation.cell.as_ref()?)?;
            let rival = rows::for_others(view, group, cell)?;
            let (own, others) = cell.total_rate.zip(rival.total_rate)?;
            let (divisor, unit) = rate_unit(cell.estimate.unit, others);
            let shown = |rate: f64| significant(rate / divisor, 3);
            Some(format!(
                "{}: over all trials, slow ones in full, {} made {} {unit} and {} {}: ✓ is of typical trials",
                questions.of_group(group),
                rival.label,
                shown(others),
                cell.label,
                shown(own)
            ))
        })
        .collect();
    let (first, more) = each.split_first()?;
    Some(if more.is_empty() { first.clone() } else { format!("{first} (and {} more)", more.len()) })
}

/// What an earlier look said to avoid, and the present one does not: together they keep the session's level, so this is
/// said, and not kept silent.
fn once_avoided(view: &View, questions: &Questions) -> Option<String> {
    let label = |id: &CellId| view.cell(id).map_or_else(|| id.to_string(), |cell| cell.label.clone());
    let each = view.groups.iter().filter(|group| !group.once_avoided.is_empty()).map(|group| {
        let cells: Vec<String> = group.once_avoided.iter().map(label).collect();
        format!("{}: {}", questions.of_group(group), cells.join(", "))
    });
    let each: Vec<String> = each.collect();
    (!each.is_empty()).then(|| {
        format!(
            "to be avoided by an earlier judgement and not any more (speeds changed, or chance): {}",
            each.join("; ")
        )
    })
}

/// Choices that ran at two speeds or more, trial by trial: what is named first.
fn speeds(view: &View, questions: &Questions) -> Option<String> {
    let split = |cell: &&CellView| cell.modes.as_ref().is_some_and(|modes| !modes.modes.is_empty());
    let candidates = view.cells.iter().filter(|cell| cell.kind == CellKind::Candidate);
    let all: Vec<&CellView> = candidates.filter(split).collect();
    let is_named =
        |cell: &CellView| view.groups.iter().any(|group| group.recommendation.cell.as_ref() == Some(&cell.id));
    let first = all.iter().copied().find(|cell| is_named(cell)).or(all.first().copied())?;
    let group = view.groups.iter().find(|group| group.id == first.group)?;
    let modes = &first.modes.as_ref()?.modes;
    let fastest = modes.iter().map(|mode| mode.median).reduce(f64::max)?;
    let (divisor, unit) = rate_unit(first.estimate.unit, fastest);
    let each: Vec<String> = modes
        .iter()
        .map(|mode| format!("{} in {} of the trials", significant(mode.median / divisor, 3), percent(mode.share)))
        .collect();
    let more = match all.len() {
        1 => String::new(),
        n => format!(" (and {})", counted(n - 1, "other choice")),
    };
    Some(format!(
        "{}: {} has {} speeds, {unit}: {}{more}",
        questions.of_group(group),
        first.label,
        modes.len(),
        each.join(", ")
    ))
}

/// Where the same cell measured twice was not the same.
fn twins(view: &View, questions: &Questions) -> Vec<String> {
    let named = |groups: &[&GroupView]| {
        let first = groups.first().map(|group| questions.of_group(group)).unwrap_or_default();
        match groups.len() {
            1 => first,
            n => format!("{first} and {} more", n - 1),
        }
    };
    let alarms: Vec<&GroupView> =
        view.groups.iter().filter(|group| group.twin.as_ref().is_some_and(|twin| twin.alarm)).collect();
    let unsure: Vec<&GroupView> =
        view.groups.iter().filter(|group| group.recommendation.survives_exchange == Some(false)).collect();
    let mut said = Vec::new();
    if let Some(first) = alarms.first() {
        let apart = first.twin.as_ref().and_then(|twin| twin.difference).map_or(0.0, f64::abs);
        said.push(format!(
            "{}: the same choice measured twice differs by {}, so something other than the settings decides",
            named(&alarms),
            percent(apart)
        ));
    }
    if let Some(first) = unsure.first() {
        let bound = first.twin.as_ref().and_then(|twin| twin.exchanged_bound);
        let bound = bound.map_or_else(String::new, |bound| match excludes_nothing(bound) {
            true => format!(" ({} the best's {})", up_to_times(bound), resource(view)),
            false => format!(" (at most {} more {})", at_most(bound), resource(view)),
        });
        said.push(format!(
            "{}: one choice was measured twice, and by the second measurement it is not shown{bound}: trust it less",
            named(&unsure)
        ));
    }
    said
}
