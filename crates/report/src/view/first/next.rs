//! What to do next, and the commands that show the rest.

use bytegauge_model::SessionStatus;
use bytegauge_model::unit::significant;

use super::super::document::{GroupView, Standing, UseView, View};
use super::crowd;
use crate::sentence::budget;

/// Budgets that are offered, as multiples of the one that was given.
const LONGER: [f64; 3] = [2.0, 4.0, 8.0];
/// A forecast this far beyond what was measured is no plan.
const FORECAST_MAX_S: f64 = 3600.0;

/// What to do next. A copy of a session goes on where it was begun, and not here.
pub fn next(view: &View, to_use: &UseView, imported: bool) -> Vec<String> {
    match view.status {
        SessionStatus::Incomplete | SessionStatus::Running if imported => {
            return vec!["it was interrupted where it was measured, and goes on only there".into()];
        }
        SessionStatus::Incomplete | SessionStatus::Running => {
            let resume = format!("--resume {}", view.session);
            return vec![format!("the same command with {resume} goes on; until then nothing more is proven")];
        }
        SessionStatus::Complete | SessionStatus::Imported => {}
    }
    if let Some(check) = view.check.as_ref().filter(|check| check.default.is_none()) {
        return vec![format!(
            "say what {} has now, and it is told what is gained over it: --default VALUE",
            check.program
        )];
    }
    if view.status == SessionStatus::Imported {
        return vec!["measure here: bytegauge run buffer-size".into()];
    }
    let asked: Vec<&GroupView> = view.groups.iter().filter(|group| !group.varied.is_empty()).collect();
    if asked.is_empty() {
        return vec![format!("give a choice two levels or more: bytegauge {} --help", view.plan.workload)];
    }
    let open: Vec<&GroupView> = asked.iter().copied().filter(|group| !group.recommendation.proven).collect();
    if open.is_empty() {
        let readers = to_use.rows.iter().any(|row| row.standing == Standing::Open && row.one_for_all);
        return vec![match readers {
            true => "say which of the readers is yours: --profile NAME, or take the one for all".to_owned(),
            false => "all is shown; the same command in another hour tells whether it lasts".into(),
        }];
    }
    if let (Some(_), None) = (crowd(view), &view.check) {
        return vec![
            "again while other programs rest, or where there are none: they decide more than time".into(),
            "does (bytegauge doctor says what disturbs)".into(),
        ];
    }
    longer(view, &open, imported).unwrap_or_else(|| {
        vec![
            "more time alone would hardly prove more: take the choice with its bound, or ask".into(),
            match view.check {
                Some(_) => "less at once (fewer --values), or give a run more to do".into(),
                None => "less at once (one --transport, one --placement, fewer levels)".into(),
            },
        ]
    })
}

/// The looks that are left, where they likely prove something; else the shortest of the longer budgets that likely
/// proves half of what the longest would.
fn longer(view: &View, open: &[&GroupView], imported: bool) -> Option<Vec<String>> {
    let elapsed_s = view.elapsed_ns? as f64 / 1e9;
    // Every group gets blocks in proportion.
    let times: Vec<f64> = open
        .iter()
        .filter_map(|group| {
            let more = group.recommendation.more_blocks? as f64;
            Some(1.0 + more / group.blocks.used.max(1) as f64)
        })
        .collect();
    let within = |factor: f64| times.iter().filter(|times| **times <= factor).count();
    // Where too few blocks were measured for any bound, the forecast is of the first one, not of a proof.
    let unbounded = open.iter().filter(|group| group.recommendation.bound.is_none()).count();
    let what = |factor: f64| match 2 * unbounded > open.len() {
        true => format!("would give {} of the {} that are open their first bound", within(factor), open.len()),
        false => format!("would likely prove {} of the {} that are open", within(factor), open.len()),
    };
    let left = open.iter().filter_map(|group| looks_left(group)).reduce(f64::max).filter(|_| !imported);
    if let Some(factor) = left.filter(|factor| within(*factor) > 0) {
        let resumed = format!("the same command with --resume {} --until proven:", view.session);
        let at_most = significant((elapsed_s * (factor - 1.0)).max(1.0).ceil(), 2);
        return Some(vec![resumed, format!("at most {at_most} s more"), what(factor)]);
    }
    let most = within(LONGER[LONGER.len() - 1]);
    let factor = LONGER.into_iter().find(|factor| most > 0 && 2 * within(*factor) >= most)?;
    let budget_s = view.plan.budget_ns.map_or(elapsed_s, |ns| ns as f64 / 1e9) * factor;
    let anew = if left.is_some() { "a new session, without --resume and with" } else { "the same command with" };
    (budget_s <= FORECAST_MAX_S).then(|| vec![format!("{anew} --budget {}", budget(budget_s)), what(factor)])
}

/// How many times as many blocks as now a group has after the last of its looks.
fn looks_left(group: &GroupView) -> Option<f64> {
    Some(group.look.as_ref()?.last_blocks()? as f64 / group.blocks.used.max(1) as f64)
}

/// Commands that show the rest.
pub fn more(view: &View) -> Vec<String> {
    let report = format!("bytegauge report {}", view.session);
    let group = view.groups.first().map(|group| format!("--group {}", group.id));
    [Some(format!("{report} --full")), group, Some("--html p.html".into()), Some("--format json".into())]
        .into_iter()
        .flatten()
        .collect()
}
