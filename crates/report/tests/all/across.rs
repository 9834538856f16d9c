//! Several sessions of one plan: results over all of them, with the session as the replicate.

use crate::flat;
use crate::several::{one_of_several, slow_large_reads};
use crate::support::session;
use bytegauge_compare::AcrossView;
use bytegauge_compare::across::AcrossState;
use bytegauge_compare::across::{self, AcrossTest};
use bytegauge_model::{SessionId, SessionStatus};
use bytegauge_report::{SessionData, Settings, render};

/// Sessions that ask which of four cells is best, each with noise of its own.
fn sessions(count: u64) -> Vec<SessionData> {
    let one = |number: u64| {
        let mut data = session(&one_of_several(number, 12));
        data.record.id = SessionId(number as i64);
        data.record.machine["boot_id"] = format!("boot {}", number / 2).into();
        data
    };
    (1..=count).map(one).collect()
}

fn across(sessions: &[SessionData]) -> AcrossView {
    AcrossView::of(sessions, &Settings::default())
}

fn only(view: &AcrossView) -> &AcrossTest {
    let [test] = view.tests.as_slice() else { panic!("{:?}", view.tests) };
    test
}

#[test]
fn an_answer_that_every_session_gives_holds() {
    let view = across(&sessions(5));
    let test = only(&view);
    assert!(test.state == AcrossState::Certain && test.slower_upper.is_some_and(|bound| bound < 0.05), "{test:?}");
    assert_eq!((test.sessions.len(), test.compared, test.recommended.as_deref()), (5, 4, Some("read 1M + write 64K")));
    assert!(test.between.is_some_and(|between| between < 0.02), "{test:?}");
    assert_eq!((view.sessions.len(), view.boots), (5, 3));
    let text = across::render(&view, &render::TerminalStyle { columns: 80, ..Default::default() });
    for part in ["5 sessions in 3 boots", "certain: use read 1M + write 64K, at most", "in the mean of 5"] {
        assert!(flat(&text).contains(part), "{part}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn sessions_with_opposite_results_have_no_common_one() {
    let mut all = sessions(6);
    all.iter_mut().step_by(2).for_each(|data| slow_large_reads(data, 3));
    let view = across(&all);
    let test = only(&view);
    assert!(test.sessions.iter().filter(|result| result.state == AcrossState::Certain).count() >= 4, "{test:?}");
    assert!(test.state == AcrossState::Undecided && test.slower_upper.is_some_and(|bound| bound > 0.2), "{test:?}");
    assert!(test.between.is_some_and(|between| between > 0.3), "blocks of one session cannot see it: {test:?}");
}

#[test]
fn two_sessions_have_no_common_bound() {
    let mut all = sessions(3);
    all[2].record.status = SessionStatus::Incomplete;
    let view = across(&all);
    let test = only(&view);
    assert_eq!((test.sessions.len(), test.slower_upper, test.state), (2, None, AcrossState::NoResult));
    assert!(test.recommended.is_some());
    assert!(across(&all[..1]).tests.is_empty());
}
