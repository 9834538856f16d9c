//! The recommendations of an earlier session of the same plan that the present one does not repeat.
//!
//! Two sessions contradict each other where their intervals of a recommended option have no value in common. Otherwise one of them is
//! only wider, and both are possible. Never pools the trials of two sessions.

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
    let before_one = before.recommended_option()?;
    let option = same_option(earlier, &before_one.id, view, test)?;
    let is_repeated = test.recommended.as_ref() == Some(&option.id) || option.status == OptionStatus::Best;
    let present_one = test.recommended_option();
    let present_one_there = present_one.and_then(|own| same_option(view, &own.id, earlier, before));
    let is_slower = |lower: &f64| *lower > test.margin;
    let is_above = |one: &OptionResult, other: &OptionResult| {
        one.slower_lower.filter(is_slower).zip(other.slower_upper).is_some_and(|(lower, upper)| lower > upper)
    };
    let here = is_above(option, before_one);
    let is_contradicted = here || present_one_there.zip(present_one).is_some_and(|(there, here)| is_above(there, here));
    let there = present_one_there.and_then(|own| own.slower_lower).filter(is_slower).filter(|_| !here);
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
