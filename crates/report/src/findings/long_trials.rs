//! The results of the long-trial check.

use bytegauge_model::CellKind;

use super::{Fact, Finding, LongTrials, Severity};
use crate::view::numbers::{AuditFinding, CellView, GroupView, View};

/// One finding for each test that was checked, and one for those that were not.
pub fn findings(view: &View) -> Vec<Finding> {
    let window_s = view.audit.map_or(0.0, |all| all.window_ns as f64 / 1e9);
    let fact = |result, lower, upper| Fact::LongTrials { result, window_s, lower, upper };
    let of_test = |group: &GroupView| {
        let audit = group.audit.as_ref()?;
        let better = audit.rivals.iter().find(|rival| audit.better.as_ref() == Some(&rival.cell));
        let (result, severity) = match audit.finding {
            AuditFinding::Contradicts => (LongTrials::Contradict, Severity::Error),
            AuditFinding::Holds => (LongTrials::Confirm, Severity::Note),
            AuditFinding::Open => (LongTrials::Open, Severity::Note),
        };
        let (lower, upper) = better.map_or((None, audit.bound), |rival| (rival.slower_lower, rival.slower_upper));
        let finding = Finding::new(fact(result, lower, upper), severity).of_test(&group.id).of_option(&audit.choice);
        Some(finding.with_other(audit.better.as_ref()))
    };
    let mut all: Vec<Finding> = view.groups.iter().filter_map(of_test).collect();
    // Each test alone decides nothing, and all of them together do.
    let none_alone = all.iter().all(|finding| finding.severity != Severity::Error);
    if view.audit.is_some_and(|all| all.finding == AuditFinding::Contradicts && none_alone) {
        all.push(Finding::new(fact(LongTrials::ContradictTogether, None, None), Severity::Error));
    }
    let missing = missing(view);
    if let Some(first) = missing.first() {
        let one = Finding::new(fact(LongTrials::Missing, None, None), Severity::Note);
        all.push(if missing.len() == view.groups.len() { one } else { one.of_test(&first.id) });
    }
    all
}

/// Longer trials of confirmation need no check, nanoseconds.
const LONG_NS: u64 = 250_000_000;

/// Whether a group has long trials, or has them planned where there is time.
pub fn is_checked(group: &GroupView) -> bool {
    group.audit.is_some() || is_short(group)
}

/// Whether its trials are so short that longer ones may have another result. A search for a rate lasts as long as it needs.
fn is_short(group: &GroupView) -> bool {
    !group.factors.searches_rate() && group.age_ns.is_some_and(|(_, to)| to < LONG_NS)
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
