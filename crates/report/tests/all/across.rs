//! Several sessions of one plan: results over all of them, with the session as the replicate.

use crate::several::{one_of_several, slow_large_reads};
use crate::support::session;
use bytegauge_model::{SessionId, SessionStatus};
use bytegauge_report::view::across::AcrossQuestion;
use bytegauge_report::{AcrossView, SessionData, Settings, render};

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

fn only(view: &AcrossView) -> &AcrossQuestion {
    let [question] = view.questions.as_slice() else { panic!("{:?}", view.questions) };
    question
}

#[test]
fn an_answer_that_every_session_gives_holds() {
    let view = across(&sessions(5));
    let question = only(&view);
    assert!(question.holds && question.bound.is_some_and(|bound| bound < 0.05), "{question:?}");
    assert_eq!(
        (question.answers.len(), question.compared, question.choice.as_deref()),
        (5, 4, Some("read 1 MiB, write 64 KiB"))
    );
    assert!(question.between.is_some_and(|between| between < 0.02), "{question:?}");
    assert_eq!((view.sessions.len(), view.boots), (5, 3));
    let text = render::across::render(&view, &render::TerminalStyle { columns: 80, ..Default::default() });
    for part in ["5 sessions in 3 boots", "✓ Unix", "read 1 MiB, write 64 KiB: at most", "in the mean of 5 sessions"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn sessions_with_opposite_results_have_no_common_one() {
    let mut all = sessions(6);
    all.iter_mut().step_by(2).for_each(|data| slow_large_reads(data, 3));
    let view = across(&all);
    let question = only(&view);
    assert!(question.answers.iter().filter(|answer| answer.proven).count() >= 4, "{question:?}");
    assert!(!question.holds && question.bound.is_some_and(|bound| bound > 0.2), "{question:?}");
    assert!(question.between.is_some_and(|between| between > 0.3), "blocks of one session cannot see it: {question:?}");
}

#[test]
fn two_sessions_have_no_common_bound() {
    let mut all = sessions(3);
    all[2].record.status = SessionStatus::Incomplete;
    let view = across(&all);
    let question = only(&view);
    assert_eq!((question.answers.len(), question.bound, question.holds), (2, None, false));
    assert!(question.choice.is_some());
    assert!(across(&all[..1]).questions.is_empty());
}
