//! What trials far longer than those of the confirmation say of the answers.

use bytegauge_model::unit::{counted, significant};
use bytegauge_model::{CellId, Nanos};

use super::super::document::{AuditView, GroupView, View};
use super::Questions;
use crate::sentence::percent;

/// What trials far longer than those of the confirmation say of the answers.
pub fn audit(view: &View, questions: &Questions) -> Vec<String> {
    let Some(all) = view.audit else { return Vec::new() };
    let long = Nanos(all.window_ns / 1_000_000 * 1_000_000);
    let audited = || view.groups.iter().filter_map(|group| Some((group, group.audit.as_ref()?)));
    let label = |id: &CellId| view.cell(id).map_or_else(|| id.to_string(), |cell| cell.label.clone());
    let split = |(group, audit): (&GroupView, &AuditView)| {
        let better = audit.better.as_ref()?;
        let rival = audit.rivals.iter().find(|rival| rival.cell == *better)?;
        Some(format!(
            "{}: short-lived connections: {}; long-lived: {}, {} cheaper in trials of {long}",
            questions.of_group(group),
            label(&audit.choice),
            label(better),
            range(cheaper(rival.dearer_lower?), cheaper(rival.dearer_upper?))
        ))
    };
    let mut said: Vec<String> = audited().filter_map(split).collect();
    said.extend(held(view, questions, &audited().collect::<Vec<_>>(), long));
    let open = all.questions - all.hold - all.contradicted;
    if open > 0 {
        let questions = counted(open, "question");
        said.push(format!("trials of {long} are too few to tell for {questions} alone"));
    }
    if let (Some(lower), Some(upper), 3..) = (all.dearer_lower, all.dearer_upper, all.questions) {
        let finding = if all.finding == "contradicts" { "do not trust the choices there: " } else { "" };
        let of = |share: f64| match share {
            share if share < 0.0 => format!("{} cheaper", percent(-share)),
            share => format!("{} dearer", percent(share)),
        };
        let (lower, upper, all) = (of(lower), of(upper), all.questions);
        said.push(format!("{finding}over all {all} together the choices were {lower} to {upper} than the runner-up"));
    }
    said
}

/// Where long trials show the choice within the margin of its rivals.
fn held(view: &View, questions: &Questions, audited: &[(&GroupView, &AuditView)], long: Nanos) -> Option<String> {
    let held: Vec<_> = audited.iter().filter(|(_, audit)| audit.finding == "holds").collect();
    let (group, _) = held.first()?;
    let who = match held.len() {
        n if n == view.groups.len() => String::new(),
        1 => format!(" for {}", questions.of_group(group)),
        n => format!(" for {}", counted(n, "question")),
    };
    let bound = held.iter().filter_map(|(_, audit)| audit.bound).fold(0.0, f64::max);
    Some(format!("held in trials of {long}{who}: at most {} dearer than its rivals", percent(bound)))
}

/// By so much less a rival costs where the choice costs so much more.
fn cheaper(dearer: f64) -> f64 {
    dearer / (1.0 + dearer)
}

/// `12 to 40 %`, `-3 to 7 %`.
fn range(lower: f64, upper: f64) -> String {
    let whole = |share: f64| significant((share * 100.0).round(), 3);
    format!("{} to {} %", whole(lower), whole(upper))
}
