//! Recommendations of an earlier session that the present one does not repeat.

use bytegauge_compare::earlier;
use bytegauge_model::{SessionId, Stage};
use bytegauge_report::view::document::{FindingKind, OptionResult, OptionStatus};
use bytegauge_report::{SessionData, Settings, View};

use crate::several::{one_of_several, slow_large_reads};
use crate::support::session;

/// Large reads are the best ones.
fn data(number: u64) -> SessionData {
    let mut data = session(&one_of_several(number, 40));
    data.record.id = SessionId(number as i64);
    data
}

/// Small reads are the best ones.
fn changed(number: u64) -> SessionData {
    let mut data = data(number);
    slow_large_reads(&mut data, 2);
    data
}

fn view(data: &SessionData) -> View {
    View::of(data, &Settings::default())
}

/// The same with intervals that exclude no option.
fn undecided(mut view: View) -> View {
    for option in &mut view.tests[0].options {
        (option.slower_lower, option.slower_upper) = (Some(0.0), Some(0.3));
        option.status = OptionStatus::Tied;
    }
    view
}

/// The kinds and sentences of the findings about an earlier session.
fn found(before: &View, mut present: View) -> Vec<(FindingKind, String)> {
    present.add(earlier::findings(&present, before));
    let kinds = [FindingKind::EarlierContradicts, FindingKind::EarlierDiffers];
    let of_earlier = present.findings.into_iter().filter(|finding| kinds.contains(&finding.kind));
    let found: Vec<(FindingKind, String)> = of_earlier.map(|finding| (finding.kind, finding.text)).collect();
    let lines = present.summary.iter().filter(|line| line.heading == "Earlier session" && line.is_result);
    assert_eq!(
        lines.map(|line| &line.text).collect::<Vec<_>>(),
        found.iter().map(|(_, text)| text).collect::<Vec<_>>()
    );
    found
}

fn recommended(view: &View) -> &OptionResult {
    let test = &view.tests[0];
    test.options.iter().find(|option| test.recommended.as_ref() == Some(&option.id)).expect("a recommendation")
}

#[test]
fn an_earlier_recommendation_that_is_slower_contradicts() {
    let before = view(&data(2));
    let found = found(&before, view(&changed(3)));
    let [(FindingKind::EarlierContradicts, text)] = found.as_slice() else { panic!("{found:?}") };
    let begin =
        format!("{}: recommended by session 2, but it is at least 45 % slower than", recommended(&before).label);
    assert!(text.starts_with(&begin), "{text}");
}

#[test]
fn the_earlier_interval_contradicts_as_well() {
    let (before, present) = (view(&data(2)), undecided(view(&changed(3))));
    let begin = format!("recommended by session 2, where {} is at least 43", recommended(&present).label);
    let found = found(&before, present);
    let [(FindingKind::EarlierContradicts, text)] = found.as_slice() else { panic!("{found:?}") };
    assert!(text.contains(&begin), "{text}");
}

#[test]
fn overlapping_intervals_contradict_nothing() {
    let found = found(&undecided(view(&data(2))), undecided(view(&changed(3))));
    let [(FindingKind::EarlierDiffers, text)] = found.as_slice() else { panic!("{found:?}") };
    let end = "recommended by session 2; here it is at most 30 % slower than the best, and may be the best.";
    assert!(text.ends_with(end), "{text}");
}

#[test]
fn a_wide_earlier_interval_contradicts_nothing() {
    let mut before = undecided(view(&data(2)));
    before.tests[0].options.iter_mut().for_each(|option| option.slower_upper = Some(2.0));
    let found = found(&before, view(&changed(3)));
    let [(FindingKind::EarlierDiffers, text)] = found.as_slice() else { panic!("{found:?}") };
    assert!(text.ends_with(" slower than the best, which its interval there allows."), "{text}");
}

#[test]
fn contradicting_sessions_propose_a_look_at_all() {
    let propose = |before: &View, mut present: View| {
        present.add(earlier::findings(&present, before));
        present.next.iter().any(|step| step.command.as_deref() == Some("bytegauge report 3 --across"))
    };
    assert!(propose(&view(&data(2)), view(&changed(3))));
    assert!(!propose(&undecided(view(&data(2))), undecided(view(&changed(3)))));
}

#[test]
fn an_undecided_session_leaves_the_earlier_recommendation() {
    let mut present = undecided(view(&changed(3)));
    present.tests[0].recommended = None;
    let found = found(&undecided(view(&data(2))), present);
    let [(FindingKind::EarlierDiffers, text)] = found.as_slice() else { panic!("{found:?}") };
    assert!(text.ends_with("recommended by session 2, and nothing here contradicts it."), "{text}");
}

#[test]
fn sessions_that_agree_have_no_finding() {
    assert_eq!(found(&view(&data(2)), view(&data(3))), []);
    // Another option is recommended, and the earlier one is within the margin.
    let mut present = view(&data(3));
    present.tests[0].recommended = present.tests[0].options.last().map(|option| option.id.clone());
    assert_eq!(found(&view(&data(2)), present), []);
}

#[test]
fn an_option_without_an_interval_is_reported() {
    let (before, mut present) = (view(&changed(2)), data(3));
    let id = recommended(&before).id.clone();
    present.trials.retain(|trial| trial.cell != id || trial.stage != Stage::Confirm);
    let mut present = view(&present);
    present.tests[0].recommended = None;
    let found = found(&before, present);
    let [(FindingKind::EarlierDiffers, text)] = found.as_slice() else { panic!("{found:?}") };
    assert!(text.ends_with("recommended by session 2; here it has no interval (screening only)."), "{text}");
}
