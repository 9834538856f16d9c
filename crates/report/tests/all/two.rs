//! Two subjects without a result: one forecast in all texts, and the reason for the end of the session.

use bytegauge_model::{CellKind, SessionStatus};
use bytegauge_report::view::numbers::Verdict;
use bytegauge_report::{Report, SessionData, Settings, render};
use serde_json::json;

use crate::phrases;
use crate::support::{Plan, session};

/// Two sizes that hardly differ, `noise` apart in every trial, in the blocks of the first of three analyses.
fn two(noise: f64, blocks: u64) -> SessionData {
    two_of(Plan { read_sizes: vec![512 << 10, 1 << 20], noise, ..Plan::default() }, blocks)
}

/// The two read sizes of a plan, in the blocks of the first of three analyses.
fn two_of(plan: Plan, blocks: u64) -> SessionData {
    let plan = Plan {
        transports: vec!["unix"],
        profiles: vec!["sum"],
        write_sizes: vec![64 << 10],
        screen_blocks: 0,
        confirm_blocks: blocks,
        finalists: 2,
        ..plan
    };
    let mut data = session(&plan);
    let cells: Vec<_> =
        data.cells.iter().filter(|row| row.cell.kind == CellKind::Candidate).map(|row| row.cell.id.clone()).collect();
    let side = |at: usize| json!({ "cell": cells[at], "words": format!("cmd:{at}") });
    data.record.plan_name = "ab".into();
    data.record.plan = json!({ "budget_ns": 30_000_000_000u64, "versus": { "a": side(0), "b": side(1) } });
    for (fact, value) in [("looks", 3), ("blocks_fixed", blocks), ("look", 1)] {
        data.groups[0].facts.insert(fact.into(), json!(value));
    }
    data
}

fn view(data: &SessionData) -> Report {
    Report::of(data, &Settings::default())
}

fn next(view: &Report) -> String {
    let lines = view.next.iter().flat_map(|step| [step.command.as_deref(), Some(step.text.as_str())]);
    lines.flatten().collect::<Vec<_>>().join(" | ")
}

#[test]
fn the_next_step_continues_an_undecided_session() {
    let mut data = two(0.12, 12);
    data.record
        .notes
        .push("ended after analysis 1 of 3: the next would take about 61 s and end beyond --max-time 90 s".into());
    let view = view(&data);
    let versus = view.versus.as_ref().expect("two");
    assert_eq!(
        (versus.difference.verdict, &versus.why_open),
        (Verdict::Open, &None),
        "{}",
        versus.why_open.as_deref().unwrap_or_default()
    );
    let next = next(&view);
    assert!(next.contains("ab --resume 12 --until conclusive") || next.contains("--time"), "{next}");
    assert!(next.contains("the session ended after analysis 1 of 3: the next would take"), "{next}");
    let markdown = render::markdown::render(&view);
    assert_eq!(markdown.matches("UNDECIDED").count(), 1, "{markdown}");
}

#[test]
fn shown_rates_agree_with_the_difference() {
    let view = view(&two(1.0, 24));
    let versus = view.versus.as_ref().expect("two");
    let texts = &view.texts[0];
    let shown = |id| {
        let row = texts.rows.iter().position(|row| row == id).expect("a row");
        texts.columns[0].texts[row].parse::<f64>().expect("a rate")
    };
    let longer = versus.difference.longer.expect("a difference");
    let in_pairs = if longer < 0.0 { 1.0 / (1.0 - longer) } else { 1.0 + longer };
    let differs = |ratio: f64| (ratio / in_pairs - 1.0).abs();
    assert!(differs(shown(&versus.a.cell) / shown(&versus.b.cell)) < 0.011, "{texts:?}");
    let stated = versus.a.rate.zip(versus.b.rate).map(|(a, b)| a / b).expect("rates");
    assert!(differs(stated) < 1e-9, "the document has the same rates: {stated}");
    let [a, b] = [&versus.a, &versus.b].map(|side| view.cell(&side.cell).expect("a cell").estimate.median);
    let medians = a.zip(b).map(|(a, b)| a / b).expect("medians");
    assert!(differs(medians) > 0.02, "medians would agree by chance: {medians} {in_pairs}");
}

#[test]
fn differing_control_widens_the_interval() {
    let control = |read_sizes: Vec<u64>| {
        let view = view(&two_of(Plan { read_sizes, noise: 0.005, twin_bias: 0.06, ..Plan::default() }, 24));
        assert!(view.groups[0].twin.as_ref().is_some_and(|twin| twin.alarm));
        let versus = view.versus.clone().expect("two");
        (phrases(&view, "control-differs"), versus)
    };
    // A difference far beyond that of the control is a result.
    let (text, versus) = control(vec![1 << 10, 1 << 20]);
    assert!(
        versus.difference.verdict != Verdict::Open && versus.why_open.is_none(),
        "{}",
        versus.why_open.as_deref().unwrap_or_default()
    );
    assert!(text.contains("intervals are wider by"), "{text}");
    let (lower, upper) = versus.difference.lower.zip(versus.difference.upper).expect("an interval");
    assert!(upper - lower > 0.05, "{lower} to {upper}");
    // Equal sizes are not called equivalent within 5 %.
    let (text, versus) = control(vec![768 << 10, 1 << 20]);
    assert_eq!(versus.difference.verdict, Verdict::Open, "{}", versus.why_open.as_deref().unwrap_or_default());
    assert!(text.contains("intervals are wider by"), "{text}");
}

#[test]
fn an_interrupted_session_of_two_has_no_forecast() {
    let mut data = two(0.12, 12);
    data.record.status = SessionStatus::Incomplete;
    let view = view(&data);
    assert!(next(&view).contains("ab --resume 12"), "{}", next(&view));
    assert!(!next(&view).contains("likely"), "{}", next(&view));
}
