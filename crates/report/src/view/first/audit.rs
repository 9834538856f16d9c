//! What trials far longer than those of the confirmation say of the answers.

use bytegauge_model::unit::significant;
use bytegauge_model::{CellId, Nanos};

use super::super::document::{AuditView, GroupView, View};
use super::{Questions, resource};
use crate::sentence::percent;

/// What trials far longer than those of the confirmation say of the answers, and of which.
pub fn audit(view: &View, questions: &Questions) -> Vec<String> {
    let Some(all) = view.audit else { return Vec::new() };
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
            range(less(rival.dearer_lower?), less(rival.dearer_upper?)),
            resource(view)
        ))
    };
    let mut said: Vec<String> = audited().filter_map(split).collect();
    let found = |finding: &str| audited().filter(|(_, audit)| audit.finding == finding).collect::<Vec<_>>();
    said.extend(held(view, questions, &found("holds"), long));
    let open = found("open");
    if !open.is_empty() {
        said.push(format!("trials of {long} were too few to tell{}", of(view, questions, &open)));
    }
    if let (Some(lower), Some(upper), 3..) = (all.dearer_lower, all.dearer_upper, all.questions) {
        let signed = |share: f64| match share {
            share if share < 0.0 => format!("{} less", percent(-share)),
            share => format!("{} more", percent(share)),
        };
        let (lower, upper, together) = (signed(lower), signed(upper), all.questions);
        let what = resource(view);
        let took = format!("the choices took {lower} to {upper} {what} than the next best");
        said.push(match all.finding {
            "contradicts" => format!("do not trust the choices there: over all {together} together {took}"),
            "holds" => format!("over all {together} together {took}"),
            // An interval that reaches from less to much more is no verdict, however it reads.
            _ => format!("all {together} together cannot tell: {took}"),
        });
    }
    said
}

/// Where long trials show the choice within the margin of its rivals.
fn held(view: &View, questions: &Questions, held: &[(&GroupView, &AuditView)], long: Nanos) -> Option<String> {
    let bound = held.iter().filter_map(|(_, audit)| audit.bound).reduce(f64::max)?;
    Some(format!(
        "held in trials of {long}{}: takes at most {} more {} than its rivals there",
        of(view, questions, held),
        percent(bound.max(0.0)),
        resource(view)
    ))
}

/// ` for g2, g6`; nothing where all questions are meant.
fn of(view: &View, questions: &Questions, audited: &[(&GroupView, &AuditView)]) -> String {
    let ids: Vec<_> = audited.iter().map(|(group, _)| &group.id).collect();
    match questions.names(view, &ids) {
        names if names.is_empty() => String::new(),
        names => format!(" for {names}"),
    }
}

/// By so much less a rival takes where the choice takes so much more.
fn less(dearer: f64) -> f64 {
    dearer / (1.0 + dearer)
}

/// `12 to 40 %`, `-3 to 7 %`.
fn range(lower: f64, upper: f64) -> String {
    let whole = |share: f64| significant((share * 100.0).round(), 3);
    format!("{} to {} %", whole(lower), whole(upper))
}
