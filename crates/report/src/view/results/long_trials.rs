//! The results of the long-trial check.

use bytegauge_model::{CellId, CellKind};

use super::super::document::{AuditRival, AuditView, CellView, Finding, FindingKind, GroupView, Severity, View};
use super::build::found;

/// Whether long trials contradict an option: those of its test, or those of the session together.
pub fn contradict(view: &View, group: &GroupView, cell: &CellView) -> bool {
    let all_lose = view.audit.is_some_and(|all| all.finding == "contradicts");
    let loses = |audit: &AuditView| audit.choice == cell.id && (audit.finding == "contradicts" || all_lose);
    group.audit.as_ref().is_some_and(loses)
}

/// One finding a test that was checked, and one for those that were not.
pub fn findings(view: &View) -> Vec<Finding> {
    let window_s = view.audit.map_or(0.0, |all| all.window_ns as f64 / 1e9);
    let mut phrases: Vec<Finding> = view
        .groups
        .iter()
        .filter_map(|group| Some((group, group.audit.as_ref()?)))
        .map(|(group, audit)| of_test(group, audit).number("window_s", Some(window_s)))
        .collect();
    // Each test alone decides nothing, and all of them together do.
    let none_alone = phrases.iter().all(|finding| finding.kind != FindingKind::LongTrialsContradict);
    if let Some(all) = view.audit.as_ref().filter(|all| all.finding == "contradicts" && none_alone) {
        let tests = all.questions;
        let text =
            format!("trials of {window_s} s of all {tests} checked tests together contradict the recommendations.");
        phrases.push(
            found(FindingKind::LongTrialsContradict, Severity::Error)
                .number("tests", Some(tests as f64))
                .with_text(text),
        );
    }
    phrases.extend(differ(view).map(|finding| finding.number("window_s", Some(window_s))));
    let missing = missing(view);
    let oldest = missing.iter().filter_map(|group| group.age_ns).map(|(_, to)| to).max();
    if let (Some(oldest), Some(first)) = (oldest, missing.first()) {
        let all = missing.len() == view.groups.len();
        let one = found(FindingKind::LongTrialsMissing, Severity::Note);
        let one = if all { one } else { one.test(&first.id) };
        phrases.push(one.number("tests", Some(missing.len() as f64)).number("age_s", Some(oldest as f64 / 1e9)));
    }
    phrases
}

/// Rates that differ by less than this factor may do so by chance or by drift.
const RATES_APART: f64 = 1.25;
/// Fewer options, or trials of all of them, show nothing about all.
const OPTIONS_MIN: usize = 3;
const TRIALS_MIN: usize = 6;

/// The long trials of all options are slower than the shorter ones, or faster.
fn differ(view: &View) -> Option<Finding> {
    let all = view.audit.filter(|all| all.options >= OPTIONS_MIN && all.trials >= TRIALS_MIN)?;
    let is_slower = all.rate_most.is_some_and(|most| most < RATES_APART.recip());
    let is_faster = all.rate_least.is_some_and(|least| least > RATES_APART);
    (is_slower || is_faster).then(|| {
        found(FindingKind::LongTrialsDiffer, Severity::Warning)
            .number("options", Some(all.options as f64))
            .number("rate_share", all.rate_median)
    })
}

fn of_test(group: &GroupView, audit: &AuditView) -> Finding {
    let rival_of = |id: &CellId| audit.rivals.iter().find(|rival: &&AuditRival| rival.cell == *id);
    match audit.finding {
        "contradicts" => {
            let rival = audit.better.as_ref().and_then(rival_of);
            found(FindingKind::LongTrialsContradict, Severity::Error)
                .test(&group.id)
                .option(&audit.choice)
                .other(audit.better.as_ref())
                .number("slower_lower", rival.and_then(|rival| rival.slower_lower))
                .number("slower_upper", rival.and_then(|rival| rival.slower_upper))
        }
        "holds" => found(FindingKind::LongTrialsConfirm, Severity::Note)
            .test(&group.id)
            .option(&audit.choice)
            .number("slower_upper", audit.bound),
        _ => {
            let is_slower = |rival: &&AuditRival| rival.slower_lower.is_some_and(|lower| lower > 0.0);
            let rival = audit.rivals.iter().find(is_slower);
            found(FindingKind::LongTrialsInconclusive, Severity::Note)
                .test(&group.id)
                .option(&audit.choice)
                .other(rival.map(|rival| &rival.cell))
                .number("slower_lower", rival.and_then(|rival| rival.slower_lower))
                .number("slower_upper", rival.map_or(audit.bound, |rival| rival.slower_upper))
        }
    }
}

/// Longer trials of confirmation need no check, nanoseconds.
const LONG_NS: u64 = 250_000_000;

/// Whether a group has long trials, or has them planned where there is time.
pub fn is_checked(group: &GroupView) -> bool {
    group.audit.is_some() || is_short(group)
}

/// Whether its trials are so short that longer ones may have another result. A search for a rate lasts as long as it needs.
fn is_short(group: &GroupView) -> bool {
    !group.spec().searches_rate() && group.age_ns.is_some_and(|(_, to)| to < LONG_NS)
}

/// Groups whose options were compared in short trials only.
fn missing(view: &View) -> Vec<&GroupView> {
    let measured = |group: &GroupView| {
        let of_it = |cell: &&CellView| cell.kind == CellKind::Candidate && cell.trials > 0;
        view.cells_of(&group.id).filter(of_it).count()
    };
    let missing = |group: &&GroupView| group.audit.is_none() && is_short(group) && measured(group) > 1;
    view.groups.iter().filter(missing).collect()
}
