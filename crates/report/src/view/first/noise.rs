//! What disturbed, and whom.

use std::collections::HashSet;

use bytegauge_model::unit::{counted, significant};
use bytegauge_model::{CellId, CellKind, Nanos, SessionStatus, session};
use bytegauge_stats::trend::{self, Trend};

use super::super::document::{CellView, GroupView, StalledView, View};
use super::super::lateness;
use super::super::stolen::TOLD_P;
use super::{Questions, crowd, resource, rows, seconds};
use crate::outward::at_most;
use crate::phrase::rate_unit;
use crate::sentence::{
    carried, excludes_nothing, measured_twice, moved_nothing, percent, same_twice, share_or_times, up_to_times,
};

/// Values that failed or were skipped are named, unless there are more.
const LOST_NAMED_MAX: usize = 6;

/// Of choices whose trials moved nothing as many are named.
const STALLED_NAMED_MAX: usize = 3;

/// Other programs that took less than this, in CPUs, are not worth a line.
const FOREIGN_TOLD: f64 = 0.05;
/// The harness's cost above which it is said; the aim is 1 % of the shortest real call.
const FLOOR_AIM: f64 = 0.01;
/// A session that took less than so many times its budget is no news.
const OVERRUN_TOLD: f64 = 1.25;
/// Runs shorter than this measure a good deal of starting, nanoseconds.
const RUN_SHORT_NS: f64 = 20e6;

/// What disturbed, and whom.
pub fn noise(view: &View, questions: &Questions) -> Vec<String> {
    // What is certain and asks to be mended comes first, then what speaks against an answer, then what only may have
    // disturbed: a screen cuts the last.
    let mut said = misbehaved(view);
    let gave_way: Vec<&str> = view.notes.iter().filter_map(|note| note.strip_prefix(session::SLOWER)).collect();
    said.extend((!gave_way.is_empty()).then(|| format!("{}{}", session::SLOWER, gave_way.join(", "))));
    said.extend(stalled(view, questions));
    said.extend(behind(view, questions));
    said.extend(overrun(view));
    said.extend(once(view, questions, "proven", |group| &group.once_proven));
    said.extend(twins(view, questions));
    said.extend(weakened(view, questions));
    said.extend(all_trials(view, questions));
    said.extend(uneven(view, questions));
    said.extend(drift(view, questions));
    said.extend(once(view, questions, "to be avoided", |group| &group.once_avoided));
    said.extend(speeds(view, questions));
    // Of what the rows show: second measurements and the harness's own trials stand in no table.
    let shown = || view.cells.iter().filter(|cell| cell.kind == CellKind::Candidate);
    let sum = |of: fn(&CellView) -> usize| shown().map(of).sum::<usize>();
    let (hit, trials) = (sum(|cell| cell.stolen_trials), sum(|cell| cell.trials));
    if hit > 0 {
        said.push(format!("the virtual machine's host took CPU in {hit} of these {trials} trials"));
    }
    if let Some(us) = view.environment.throttled_us.filter(|us| *us > 0) {
        said.push(format!("the control group held the session up for {}", Nanos(us.saturating_mul(1000))));
    }
    let told_above = crowd(view).is_some();
    if let Some(cpus) = view.environment.foreign_cpus.filter(|cpus| *cpus >= FOREIGN_TOLD && !told_above) {
        said.push(format!("other programs used {} CPUs meanwhile", significant(cpus, 2)));
    }
    said.extend(lateness::sentence(&view.cells, true));
    if let Some(share) = view.floor.share.filter(|share| *share >= FLOOR_AIM) {
        said.push(format!("bytegauge itself takes {} of the shortest real call", percent(share)));
    }
    said.extend(short_runs(view));
    if said.is_empty() {
        let reach = view.environment.twin_reach;
        let nothing = match told_above {
            _ if view.status == SessionStatus::Imported => "what disturbed where it was measured is not known",
            true => "nothing beside the other programs that are named above",
            false => "nothing was noticed",
        };
        said.push(match reach {
            Some(reach) => format!("{nothing}; the same choice {}", measured_twice(reach)),
            None if view.groups.iter().any(|group| group.twin.is_some()) => {
                format!("{nothing}; how far the same choice is from itself is not known from so few blocks")
            }
            None => nothing.into(),
        });
    }
    said
}

/// What programs and choices did that they should not have done.
fn misbehaved(view: &View) -> Vec<String> {
    let mut said = Vec::new();
    if let Some(check) = &view.check {
        let runs = |count: usize, what: &str| (count > 0).then(|| format!("after {} {what}", counted(count, "run")));
        said.extend(runs(check.left_behind, "processes were left behind, and ended"));
        said.extend(runs(check.stopped_by_force, "the server did not heed its signal, and was killed (--stop)"));
    }
    // Where all of a group failed its own line says so, and why.
    let candidates = || view.cells.iter().filter(|cell| cell.kind == CellKind::Candidate);
    let measured: HashSet<_> = candidates().filter(|cell| cell.outcome == "measured").map(|cell| &cell.group).collect();
    for outcome in ["failed", "skipped"] {
        let lost = candidates().filter(|cell| cell.outcome == outcome && measured.contains(&cell.group));
        let Some(reason) = lost.clone().find_map(|cell| cell.reason.as_ref()) else { continue };
        let few = view.check.is_some() || lost.clone().count() <= LOST_NAMED_MAX;
        let which = match few {
            true => {
                let named: Vec<&str> = lost.clone().map(|cell| cell.label.as_str()).collect();
                let more = named.len().saturating_sub(LOST_NAMED_MAX);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                format!("{}{more}", named[..named.len().min(LOST_NAMED_MAX)].join(", "))
            }
            false => counted(lost.count(), "choice"),
        };
        said.push(format!("{which} {outcome}: {reason}"));
    }
    said
}

/// Choices of which a trial moved nothing: a share that no rate and no bound holds. One that was taken out of its group is told
/// above.
fn stalled(view: &View, questions: &Questions) -> Option<String> {
    let each = view.cells.iter().filter(|cell| cell.kind == CellKind::Candidate && cell.trials > 0);
    let mut each: Vec<(&CellView, StalledView)> = each.filter_map(|cell| Some((cell, cell.stalled?))).collect();
    each.sort_by(|(_, a), (_, b)| (b.trials * a.of).cmp(&(a.trials * b.of)));
    let said = |(cell, StalledView { trials, of }): &(&CellView, StalledView)| {
        let group = view.groups.iter().find(|group| group.id == cell.group);
        let question = group.map_or_else(String::new, |group| format!("{}: ", questions.of_group(group)));
        format!("{question}{}: {}", cell.label, moved_nothing(*trials, *of))
    };
    let named: Vec<String> = each.iter().take(STALLED_NAMED_MAX).map(said).collect();
    let more = each.len() - named.len();
    let more = if more > 0 { format!(" (and {})", counted(more, "other choice")) } else { String::new() };
    (!named.is_empty()).then(|| format!("{}{more}: nothing is proven of a choice that stalls", named.join("; ")))
}

/// Choices that left a load to others: what they cost for what they did says nothing for them.
fn behind(view: &View, questions: &Questions) -> Option<String> {
    let mut each: Vec<(&CellView, f64)> = view.cells.iter().filter_map(|cell| Some((cell, cell.behind?))).collect();
    each.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    let said = |(cell, share): &(&CellView, f64)| {
        let group = view.groups.iter().find(|group| group.id == cell.group);
        let question = group.map_or_else(String::new, |group| format!("{}: ", questions.of_group(group)));
        format!("{question}{} {}", cell.label, carried(*share))
    };
    let named: Vec<String> = each.iter().take(STALLED_NAMED_MAX).map(said).collect();
    let more = each.len() - named.len();
    let more = if more > 0 { format!(" (and {})", counted(more, "other choice")) } else { String::new() };
    (!named.is_empty())
        .then(|| format!("{}{more}: nothing is proven of a choice that others outdo so", named.join("; ")))
}

/// That the session took far longer than it was given until its first judgement: the fewest blocks are given the time they take,
/// and what cannot be cut is a block.
fn overrun(view: &View) -> Option<String> {
    let is_first =
        |group: &GroupView| group.look.as_ref().is_none_or(|look| look.done + usize::from(look.so_far > 0) <= 1);
    let bound = !view.plan.states_blocks && view.status != SessionStatus::Imported && view.groups.iter().all(is_first);
    let (took_ns, given_ns) = view.elapsed_ns.zip(view.plan.budget_ns).filter(|_| bound)?;
    (took_ns as f64 > OVERRUN_TOLD * given_ns as f64).then(|| {
        let (took, given) = (seconds(took_ns), seconds(given_ns));
        format!("took {took} of the {given} given: a block is every choice once, and what was begun is finished")
    })
}

/// What a proof rests on, where that is less than was planned: blocks, a machine that was not quiet, and how far the same choice
/// may be from itself.
fn weakened(view: &View, questions: &Questions) -> Option<String> {
    let proven: Vec<&GroupView> = view.groups.iter().filter(|group| group.recommendation.proven).collect();
    let short = proven.iter().find_map(|group| {
        let look = group.look.as_ref().filter(|look| look.cut_short)?;
        Some(format!("{}: {} of {} planned blocks", questions.of_group(group), look.blocks, look.planned))
    });
    let grade = view.environment.grade.filter(|grade| *grade >= 'C');
    let grade = grade.map(|grade| format!("a machine of grade {grade} (A quiet, D not)"));
    let reach = proven.iter().filter_map(|group| Some((group.twin_reach?, *group)));
    let widest = reach.filter(|(reach, _)| *reach > view.plan.margin).max_by(|a, b| a.0.total_cmp(&b.0));
    // A bound is of two choices' difference, and the reach of another pair's: neither is the other's limit.
    let reach = widest.map(|(reach, group)| {
        let question =
            if view.groups.len() > 1 { format!("in {}, ", questions.of_group(group)) } else { String::new() };
        format!("{question}one choice measured twice: equal within {}", share_or_times(reach))
    });
    let parts: Vec<String> = [short, grade, reach].into_iter().flatten().collect();
    // Two sides have a verdict and no marks.
    let mark = if view.versus.is_some() { "the verdict" } else { "✓" };
    (!proven.is_empty() && !parts.is_empty()).then(|| format!("what {mark} rests on: {}", parts.join(", ")))
}

/// Runs that are hardly longer than it takes to start a program, which a shell and a dynamic linker do in milliseconds.
fn short_runs(view: &View) -> Option<String> {
    view.check.as_ref()?;
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
        "{}: the virtual machine's host took CPU in {} of the trials of {} and in {} of those of {} (p = {}): part of why they differ{more}",
        questions.of_group(group),
        percent(stolen.most_share),
        named(&stolen.most),
        percent(stolen.least_share),
        named(&stolen.least),
        significant(stolen.p, 1)
    ))
}

/// The named choice of a group, where its rate rose or fell while it was measured.
pub fn drifted<'a>(view: &'a View, group: &GroupView) -> Option<(&'a CellView, Trend)> {
    let (cell, course) = (view.cell(group.recommendation.cell.as_ref()?)?, group.course.as_ref()?);
    let rates = course.cells.iter().find(|course| course.cell == cell.id)?;
    let rates: Vec<f64> = rates.rate.iter().copied().flatten().collect();
    trend::drift(&rates).map(|found| (cell, found))
}

/// A named choice whose rate rose or fell while it was measured: its median then stands for neither end.
fn drift(view: &View, questions: &Questions) -> Option<String> {
    let over = view.judged_ns.or(view.elapsed_ns).map_or_else(String::new, |ns| format!(" of these {}", seconds(ns)));
    let of_group = |group: &GroupView| {
        let (cell, Trend { first, last, .. }) = drifted(view, group)?;
        let (divisor, unit) = rate_unit(cell.estimate.unit, first.max(last));
        let shown = |rate: f64| significant(rate / divisor, 2);
        let what = if last > first { "rose" } else { "fell" };
        let text = format!(
            "{}: {} {what} from {} to {} {unit} (first and last third{over}): its median tells of neither",
            questions.of_group(group),
            cell.label,
            shown(first),
            shown(last)
        );
        Some(((last / first).max(first / last), text))
    };
    // Rows say of themselves whether their rates moved.
    let found = view.groups.iter().filter_map(of_group);
    found.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, text)| text)
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

/// What the answer said before, when a part of these trials was there, and does not say now: together both keep the
/// session's level, so this is said, and not kept silent.
fn once(view: &View, questions: &Questions, what: &str, of: fn(&GroupView) -> &[CellId]) -> Option<String> {
    let label = |id: &CellId| view.cell(id).map_or_else(|| id.to_string(), |cell| cell.label.clone());
    let each = view.groups.iter().filter(|group| !of(group).is_empty()).map(|group| {
        let cells: Vec<String> = of(group).iter().map(label).collect();
        format!("{}: {}", questions.of_group(group), cells.join(", "))
    });
    let each: Vec<String> = each.collect();
    (!each.is_empty())
        .then(|| format!("{what} earlier and not any more (speeds changed, or chance): {}", each.join("; ")))
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
        let twin = first.twin.as_ref();
        let apart = twin.and_then(|twin| twin.difference).unwrap_or(0.0);
        let what = twin.and_then(|twin| view.cell(&twin.cell)).map_or("the same choice", |cell| cell.label.as_str());
        said.push(format!(
            "{}: {what}, measured twice in every block, was {}, so something other than the settings decides",
            named(&alarms),
            same_twice(apart)
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
