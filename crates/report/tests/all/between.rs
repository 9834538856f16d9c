//! Several sessions compared: their differences, and whether the recommendation of one holds in another.

use crate::several::{one_of_several, slow_large_reads};
use crate::support::session;
use bytegauge_compare::BetweenView;
use bytegauge_compare::between::{BetweenChoice, BetweenQuestion};
use bytegauge_model::{Level, SessionId, SessionStatus};
use bytegauge_report::view::numbers::{SubjectDifference, Verdict};
use bytegauge_report::{SessionData, Settings};
use serde_json::Value;

const SCHEMA: &str = include_str!("../../../compare/schema/between.schema.json");

const OLD: &str = "6.1.0";
const NEW: &str = "6.18.0";

/// A session of four cells, of a kernel that is slower by this factor throughout.
fn on(kernel: &str, number: u64, slower: f64) -> SessionData {
    let mut data = session(&one_of_several(number, 120));
    data.record.id = SessionId(number as i64);
    data.record.machine["kernel_release"] = kernel.into();
    // Hours differ a little.
    let times = slower * (1.0 + 0.004 * (number % 3) as f64);
    data.trials.iter_mut().for_each(|trial| trial.bytes = (trial.bytes as f64 / times) as u64);
    data
}

fn between(sessions: &[SessionData]) -> BetweenView {
    let view = BetweenView::of(sessions, &Settings::default());
    let schema: Value = serde_json::from_str(SCHEMA).expect("the schema is JSON");
    let validator = jsonschema::draft202012::new(&schema).expect("the schema is a schema");
    let document = serde_json::to_value(&view).expect("plain data");
    let errors: Vec<String> = validator.iter_errors(&document).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    view
}

fn only(view: &BetweenView) -> &BetweenQuestion {
    let [question] = view.questions.as_slice() else { panic!("{:?}", view.questions) };
    question
}

fn verdicts(question: &BetweenQuestion) -> Vec<Verdict> {
    question.cells.iter().flat_map(|cell| &cell.differences).map(|one| one.difference.verdict).collect()
}

#[test]
fn a_slower_kernel_is_found_with_enough_sessions() {
    let mut all: Vec<SessionData> = (1..=6).map(|number| on(OLD, number, 1.0)).collect();
    all.extend((7..=8).map(|number| on(NEW, number, 1.2)));
    let view = between(&all);
    let names: Vec<(&str, usize)> = view.arms.iter().map(|arm| (arm.name.as_str(), arm.sessions.len())).collect();
    assert_eq!(names, [("Linux 6.1.0", 6), ("Linux 6.18.0", 2)]);
    let question = only(&view);
    assert_eq!((question.groups.len(), question.cells.len()), (8, 4));
    assert_eq!(verdicts(question), [Verdict::Worse; 4]);
    for difference in question.cells.iter().flat_map(|cell| &cell.differences) {
        assert_eq!((difference.arm, difference.sessions_first, difference.sessions), (1, 6, 2));
        let SubjectDifference { longer, lower, upper, .. } = difference.difference;
        assert!(lower > Some(0.15) && lower < longer && longer < upper, "{difference:?}");
        assert_eq!(difference.runs_lower, None, "two runs are not several sessions");
    }
}

#[test]
fn equal_sessions_are_equivalent() {
    let all: Vec<SessionData> = (1..=7).map(|number| on(OLD, number, 1.0)).collect();
    let view = between(&all);
    let names: Vec<(&str, usize)> = view.arms.iter().map(|arm| (arm.name.as_str(), arm.sessions.len())).collect();
    assert_eq!(names, [("the sessions before", 6), ("session 7", 1)]);
    assert_eq!(verdicts(only(&view)), [Verdict::Equivalent; 4]);
    assert!(view.choices.len() == 7 * 6 && view.choices.iter().all(|choice| choice.finding == "holds"));
}

#[test]
fn two_sessions_have_no_result_for_kernels() {
    let view = between(&[on(OLD, 1, 1.0), on(NEW, 2, 1.5)]);
    let question = only(&view);
    assert_eq!(verdicts(question), [Verdict::Open; 4]);
    for difference in question.cells.iter().flat_map(|cell| &cell.differences) {
        let SubjectDifference { longer, lower, upper, .. } = difference.difference;
        assert_eq!((lower, upper, difference.sessions_first), (None, None, 1));
        let longer = longer.expect("a difference");
        let (lower, upper) = difference.runs_lower.zip(difference.runs_upper).expect("how far apart the runs were");
        assert!(lower > 0.4 && upper < 0.6 && lower < longer && longer < upper);
    }
    assert_eq!(between(&[on(OLD, 1, 1.0)]).questions, []);
}

#[test]
fn recommendations_are_tested_in_other_sessions() {
    let finding = |other: SessionData| {
        let view = between(&[on(OLD, 1, 1.0), other]);
        let of_first = |choice: &&BetweenChoice| choice.session == SessionId(1);
        let choice = view.choices.iter().find(of_first).expect("the first session chose").clone();
        assert_eq!((choice.choice.as_str(), choice.tried_in), ("read 1M + write 64K", SessionId(2)));
        choice
    };
    assert_eq!(finding(on(NEW, 2, 2.0)).finding, "holds", "a slower machine with the same order");
    let mut turned = on(NEW, 2, 1.0);
    slow_large_reads(&mut turned, 3);
    let contradicted = finding(turned.clone());
    assert_eq!(contradicted.finding, "contradicted");
    assert!(contradicted.lower.is_some_and(|lower| lower > 0.05));
    // A session that was interrupted before its first analysis contradicts nothing.
    turned.record.status = SessionStatus::Incomplete;
    assert_eq!(finding(turned).finding, "open");
    let mut without = on(NEW, 2, 1.0);
    without.trials.retain(|trial| {
        let row = without.cells.iter().find(|row| row.cell.id == trial.cell).expect("a cell");
        row.cell.factors.write_size() != Some(64 << 10)
    });
    assert_eq!(finding(without).finding, "absent");
}

#[test]
fn a_published_table_is_compared_by_its_levels() {
    let mut table = on(OLD, 2, 1.1);
    table.record.plan_name = "a published table".into();
    table.record.status = SessionStatus::Imported;
    table.record.imported = true;
    table.record.machine = Value::Null;
    let states = |name: &str| ["transport", "read_size", "write_size"].contains(&name);
    let forget = |levels: &mut bytegauge_model::Spec| {
        let unstated: Vec<String> =
            levels.iter().map(|(name, _)| name.to_owned()).filter(|name| !states(name)).collect();
        unstated.iter().for_each(|name| levels.set(name, Level::Absent));
    };
    table.cells.iter_mut().for_each(|row| forget(&mut row.cell.factors));
    table.groups.iter_mut().for_each(|row| forget(&mut row.group.factors));
    for order in [[on(OLD, 1, 1.0), table.clone()], [table.clone(), on(OLD, 1, 1.0)]] {
        let view = between(&order);
        let known: Vec<bool> = view.arms.iter().map(|arm| arm.stated_only).collect();
        assert_eq!(known, order.clone().map(|data| data.record.imported));
        assert!(view.arms.iter().any(|arm| arm.name == "a published table"), "{:?}", view.arms);
        assert_eq!(only(&view).cells.len(), 4);
        assert!(only(&view).cells.iter().all(|cell| cell.cells.len() == 2));
    }
    // Other levels are another test.
    for row in &mut table.groups {
        row.group.factors.set("transport", Level::Name("tcp".into()));
    }
    assert_eq!(between(&[on(OLD, 1, 1.0), table]).questions, []);
}
