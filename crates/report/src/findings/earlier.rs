//! The recommendations of an earlier session of the same plan that the present one does not repeat.
//!
//! Two sessions contradict each other where their intervals of a recommended option have no value in common. Otherwise one of them is
//! only wider, and both are possible. Never pools the trials of two sessions.

use bytegauge_model::{CellId, CellKind};

use super::{Fact, Finding, Severity};
use crate::results::{OptionResult, OptionStatus, Test};
use crate::view::numbers::View;

/// A finding for each test in which the session before recommended another option; the contradicted ones first.
pub fn findings(now: (&View, &[Test]), before: (&View, &[Test])) -> Vec<Finding> {
    if [now.0, before.0].iter().any(|view| view.versus.is_some()) {
        return Vec::new();
    }
    let tests = now.1.iter().filter(|test| test.is_compared());
    let mut all: Vec<Finding> = tests.filter_map(|test| of_test(now.0, test, before)).collect();
    all.sort_by_key(|finding| !matches!(finding.fact, Fact::Earlier { contradicts: true, .. }));
    all
}

fn of_test(view: &View, test: &Test, (before, tests): (&View, &[Test])) -> Option<Finding> {
    let is_same = |other: &&Test| other.environment == test.environment && other.compares == test.compares;
    let earlier = tests.iter().filter(|other| other.is_compared()).find(is_same)?;
    let used_there = earlier.used()?;
    let option = same_option(before, &used_there.id, view, test)?;
    let used = test.used();
    let used_before = used.and_then(|own| same_option(view, &own.id, before, earlier));
    let is_above = |one: &OptionResult, other: &OptionResult| {
        let lower = one.slower_lower.filter(|lower| *lower > test.margin);
        lower.zip(other.slower_upper).is_some_and(|(lower, upper)| lower > upper)
    };
    let contradicts =
        is_above(option, used_there) || used_before.zip(used).is_some_and(|(there, here)| is_above(there, here));
    let is_repeated = matches!(option.status, OptionStatus::Use | OptionStatus::AsGood);
    let fact = Fact::Earlier {
        session: before.session.0,
        contradicts,
        lower: option.slower_lower,
        upper: option.slower_upper,
    };
    let finding = Finding::new(fact, Severity::Warning).of_test(&test.id).of_option(&option.id);
    (!is_repeated).then(|| finding.with_other(used.map(|own| &own.id)))
}

/// The option of a test of another session that has the settings of `cell`.
fn same_option<'a>(from: &View, cell: &CellId, in_: &View, test: &'a Test) -> Option<&'a OptionResult> {
    let wanted = &from.cell(cell)?.factors;
    let mut cells = in_.cells_of(&test.id).filter(|cell| cell.kind == CellKind::Candidate);
    test.option(&cells.find(|cell| cell.factors == *wanted)?.id)
}
