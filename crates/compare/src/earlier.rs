//! The recommendations of an earlier session of the same plan that the present one does not repeat.
//!
//! A recommendation is contradicted where one of the two sessions shows by its own interval that the recommended option of the
//! other is slower than the best by more than the margin. Otherwise both are possible. Never pools the trials of two sessions.

use bytegauge_model::{CellId, CellKind};
use bytegauge_report::View;
use bytegauge_report::view::document::{Finding, FindingKind, OptionResult, OptionStatus, Severity, Test};

/// A finding for each test of `view` in which `earlier` recommended another option; the contradicted ones first.
pub fn findings(view: &View, earlier: &View) -> Vec<Finding> {
    let two = [view, earlier].iter().any(|view| view.versus.is_some());
    let tests = view.tests.iter().filter(|test| test.is_compared() && !two);
    let mut all: Vec<Finding> = tests.filter_map(|test| of_test(view, test, earlier)).collect();
    all.sort_by_key(|finding| finding.kind != FindingKind::EarlierContradicts);
    all
}

fn of_test(view: &View, test: &Test, earlier: &View) -> Option<Finding> {
    let is_same = |other: &&Test| other.environment == test.environment && other.compares == test.compares;
    let before = earlier.tests.iter().filter(|other| other.is_compared()).find(is_same)?;
    let option = same_option(earlier, before.recommended.as_ref()?, view, test)?;
    let is_repeated = test.recommended.as_ref() == Some(&option.id) || option.status == OptionStatus::Best;
    let present_one = test.recommended.as_ref().and_then(|own| same_option(view, own, earlier, before));
    let beyond = |lower: &f64| *lower > test.margin;
    let here = option.slower_lower.filter(beyond);
    let there = present_one.and_then(|own| own.slower_lower).filter(beyond).filter(|_| here.is_none());
    let is_contradicted = here.or(there).is_some();
    let numbers = [
        ("session", Some(earlier.session.0 as f64)),
        ("slower_lower", option.slower_lower),
        ("slower_upper", option.slower_upper),
        ("slower_there", there),
    ];
    (!is_repeated).then(|| Finding {
        kind: if is_contradicted { FindingKind::EarlierContradicts } else { FindingKind::EarlierDiffers },
        severity: Severity::Warning,
        test: Some(test.id.clone()),
        option: Some(option.id.clone()),
        other: test.recommended.clone(),
        numbers: numbers.into_iter().filter_map(|(name, number)| Some((name, number?))).collect(),
        names: [("interval", option.slower.clone().into())].into(),
        text: String::new(),
    })
}

/// The option of a test of another session that has the settings of `cell`.
fn same_option<'a>(from: &View, cell: &CellId, in_: &View, test: &'a Test) -> Option<&'a OptionResult> {
    let wanted = &from.cell(cell)?.factors;
    let mut cells = in_.cells_of(&test.id).filter(|cell| cell.kind == CellKind::Candidate);
    let found = cells.find(|cell| cell.factors == *wanted)?;
    test.options.iter().find(|option| option.id == found.id)
}
