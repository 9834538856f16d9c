//! What trials far longer than those of the confirmation say of the answers.

use bytegauge_model::{CellId, CellKind, Nanos, SessionStatus};

use super::super::document::{AuditRival, AuditView, CellView, GroupView, View};
use super::{Questions, levels, resource};
use crate::outward::{at_least, at_most, percent_up, whole_percents};
use crate::sentence::{is_nothing, shown_age};

/// Connections that became so many times as old are of another age.
const OLDER: f64 = 1.5;

/// Trials of this length need no audit, nanoseconds.
const LONG_NS: u64 = 250_000_000;

/// What trials far longer than those of the confirmation say of the answers, and of which.
pub fn audit(view: &View, questions: &Questions) -> Vec<String> {
    let missing = missing(view);
    let Some(all) = view.audit else { return not_run(view, &missing).into_iter().collect() };
    let long = Nanos(all.window_ns / 1_000_000 * 1_000_000);
    let audited = || view.groups.iter().filter_map(|group| Some((group, group.audit.as_ref()?)));
    let label = |id: &CellId| view.cell(id).map_or_else(|| id.to_string(), |cell| cell.label.clone());
    let split = |(group, audit): (&GroupView, &AuditView)| {
        let better = audit.better.as_ref()?;
        let rival = audit.rivals.iter().find(|rival| rival.cell == *better)?;
        Some(format!(
            "{}: short-lived connections: {}; long-lived: {}, which takes {} less {} in trials of {long}",
            questions.of_group(group),
            label(&audit.choice),
            label(better),
            whole_percents(less(rival.dearer_lower?), less(rival.dearer_upper?)).join(" to ") + " %",
            resource(view)
        ))
    };
    let mut said: Vec<String> = audited().filter_map(split).collect();
    let found = |finding: &str| audited().filter(|(_, audit)| audit.finding == finding).collect::<Vec<_>>();
    said.extend(held(view, questions, &found("holds"), long));
    let (leaning, open): (Vec<_>, Vec<_>) = found("open").into_iter().partition(|(_, audit)| against(audit).is_some());
    said.extend(leaning.iter().filter_map(|(group, audit)| {
        let rival = against(audit)?;
        Some(format!(
            "{}: trials of {long} lean against {}: {} more {} than {} there",
            questions.of_group(group),
            label(&audit.choice),
            whole_percents(rival.dearer_lower?, rival.dearer_upper?).join(" to ") + " %",
            resource(view),
            label(&rival.cell)
        ))
    }));
    if !open.is_empty() {
        let open: Vec<&GroupView> = open.iter().map(|(group, _)| *group).collect();
        said.push(format!("too few trials of {long} to say how older connections fare{}", of(view, questions, &open)));
    }
    if !missing.is_empty() {
        said.push(format!("not run{}: no time", of(view, questions, &missing)));
    }
    if let (Some(lower), Some(upper), 3..) = (all.dearer_lower, all.dearer_upper, all.questions) {
        // Outwards: the lower end never above what was shown, the upper one never below it.
        let lower =
            if lower < 0.0 { format!("{} less", percent_up(-lower)) } else { format!("{} more", at_least(lower)) };
        let upper =
            if upper < 0.0 { format!("{} less", at_least(-upper)) } else { format!("{} more", percent_up(upper)) };
        let together = all.questions;
        let what = resource(view);
        let took = format!("the choices took {lower} to {upper} {what} than the next best");
        said.push(match all.finding {
            "contradicts" => format!("do not trust the choices there: over all {together} together {took}"),
            "holds" => format!("over all {together} together {took}"),
            // An interval that reaches from less to much more is no verdict, and its ends would be read as one.
            _ => format!("too few of all {together} questions together as well"),
        });
    }
    said
}

/// The rival that long trials show to be the better one, though not by the margin.
fn against(audit: &AuditView) -> Option<&AuditRival> {
    audit.rivals.iter().find(|rival| rival.dearer_lower.is_some_and(|lower| lower > 0.0))
}

/// Whether a group has an audit, or will have one where there is time.
pub fn is_audited(group: &GroupView) -> bool {
    group.audit.is_some() || is_short(group)
}

/// Whether its trials were so short that longer ones may say something else. A search for a rate is as long as it takes, and is
/// not audited.
fn is_short(group: &GroupView) -> bool {
    !searches(group) && group.age_ns.is_some_and(|(_, to)| to < LONG_NS)
}

/// Whether each trial looks for the highest rate that keeps a latency.
fn searches(group: &GroupView) -> bool {
    levels(&group.factors).slo().is_some()
}

/// Groups whose choices were compared in short trials alone.
pub fn missing(view: &View) -> Vec<&GroupView> {
    let measured = |group: &GroupView| {
        let of_it = |cell: &&CellView| cell.kind == CellKind::Candidate && cell.trials > 0;
        view.cells_of(&group.id).filter(of_it).count()
    };
    let missing = |group: &&GroupView| group.audit.is_none() && is_short(group) && measured(group) > 1;
    view.groups.iter().filter(missing).collect()
}

/// That nothing was audited, and why, where older connections may have another answer.
fn not_run(view: &View, missing: &[&GroupView]) -> Option<String> {
    let asks = view.plan.asked.iter().flatten().any(|word| word.starts_with("--long-trials"));
    let why = match (view.status, view.plan.audit_share) {
        (SessionStatus::Running | SessionStatus::Imported, _) => return None,
        (SessionStatus::Incomplete, _) => " (cut off before)",
        (SessionStatus::Complete, Some(share)) if share > 0.0 => " (no time)",
        (SessionStatus::Complete, Some(_)) if asks => " (--long-trials off)",
        (SessionStatus::Complete, Some(_)) => " (not planned)",
        (SessionStatus::Complete, None) => "",
    };
    let ages = || missing.iter().filter_map(|group| group.age_ns).map(|(_, to)| to);
    let (least, oldest) = (shown_age(ages().min()?), shown_age(ages().max()?));
    // Each question has its own age: what is older than the oldest alone would speak for the younger ones as well.
    let oldest = if ages().max()? as f64 > ages().min()? as f64 * OLDER {
        format!("{least} to {oldest}, by question,")
    } else {
        oldest
    };
    Some(format!("not run{why}: connections older than {oldest} may differ"))
}

/// Where long trials show the choice within the margin of its rivals.
fn held(view: &View, questions: &Questions, held: &[(&GroupView, &AuditView)], long: Nanos) -> Option<String> {
    let bound = held.iter().filter_map(|(_, audit)| audit.bound).reduce(f64::max)?;
    let groups: Vec<&GroupView> = held.iter().map(|(group, _)| *group).collect();
    let more = match is_nothing(bound) {
        true => "no".to_owned(),
        false => format!("at most {}", at_most(bound)),
    };
    let (of_groups, what) = (of(view, questions, &groups), resource(view));
    Some(format!("holds{of_groups} in {long} trials: {more} more {what} than rivals"))
}

/// ` for g2, g6`; nothing where all questions are meant.
fn of(view: &View, questions: &Questions, groups: &[&GroupView]) -> String {
    let ids: Vec<_> = groups.iter().map(|group| &group.id).collect();
    match questions.names(view, &ids) {
        names if names.is_empty() => String::new(),
        names => format!(" for {names}"),
    }
}

/// By so much less a rival takes where the choice takes so much more.
fn less(dearer: f64) -> f64 {
    dearer / (1.0 + dearer)
}
