//! Several sessions: a line per group, and the result of each session.

use anstyle::AnsiColor;

use super::paint::{Paint, TerminalStyle, wrap};
use crate::outward::{at_most, excludes_nothing, percent, up_to_times};
use crate::view::across::{AcrossAnswer, AcrossQuestion, AcrossView};

/// Indentation of a group's lines.
const INDENT: usize = 4;

/// The result over the sessions.
pub fn render(view: &AcrossView, style: &TerminalStyle) -> String {
    let paint = Paint(style.colour);
    let width = style.columns.clamp(60, 100);
    let mut lines = vec![paint.bold(&head(view)), String::new()];
    if view.questions.is_empty() {
        lines.extend(wrap("no question was asked, and judged, in more than one of these sessions", width));
    }
    for question in &view.questions {
        lines.extend(of_question(question, view, width, &paint));
    }
    if !view.questions.is_empty() {
        lines.push(String::new());
        lines.extend(congestion(view).iter().flat_map(|phrases| wrap(phrases, width)));
        lines.extend(wrap(&legend(view), width).iter().map(|line| paint.dim(line)));
    }
    lines.join("\n") + "\n"
}

fn head(view: &AcrossView) -> String {
    let days: Vec<&str> = view.sessions.iter().filter_map(|session| session.started.get(..10)).collect();
    let (first, last) = (days.iter().min(), days.iter().max());
    let days = match (first, last) {
        (Some(first), Some(last)) if first == last => format!(" · {first}"),
        (Some(first), Some(last)) => format!(" · {first} to {last}"),
        _ => String::new(),
    };
    let boots = if view.boots == 1 { "one boot".to_owned() } else { format!("{} boots", view.boots) };
    format!("bytegauge {} · {} sessions in {boots}{days}", view.plan, view.sessions.len())
}

/// The default congestion control of TCP: good sizes depend on it, and no cell shows it.
fn congestion(view: &AcrossView) -> Option<String> {
    let is_tcp = |question: &AcrossQuestion| {
        question.factors.get("transport").is_some_and(|transport| transport == "tcp" || transport == "tcp6")
    };
    if !view.questions.iter().any(is_tcp) {
        return None;
    }
    let mut by_name: Vec<(&str, Vec<String>)> = Vec::new();
    for session in &view.sessions {
        let name = session.congestion.as_deref().unwrap_or("unknown");
        match by_name.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sessions)) => sessions.push(session.session.to_string()),
            None => by_name.push((name, vec![session.session.to_string()])),
        }
    }
    Some(match by_name.as_slice() {
        [(name, _)] => format!("TCP's congestion control, where none is named: {name} in all of them (--congestion)"),
        several => {
            let each: Vec<String> =
                several.iter().map(|(name, sessions)| format!("{name} in {}", sessions.join(", "))).collect();
            format!(
                "TCP's congestion control, where none is named, was not the same: {}; differences between sessions may be due to \
                 that",
                each.join("; ")
            )
        }
    })
}

fn of_question(question: &AcrossQuestion, view: &AcrossView, width: usize, paint: &Paint) -> Vec<String> {
    let sessions = question.answers.len();
    let (mark, phrases) = match (&question.choice, question.bound) {
        (None, _) => ("-", "no two choices were confirmed in all of them".to_owned()),
        (Some(choice), bound) => {
            let is_open = bound.is_some_and(excludes_nothing);
            let mark = if question.holds { "✓" } else { ["○", "?"][usize::from(is_open)] };
            let bound = match bound {
                Some(bound) if is_open => format!(
                    "no answer yet: in the mean of {sessions} sessions it may take {} the time of the best",
                    up_to_times(bound)
                ),
                Some(bound) => {
                    let nothing = question.changes_nothing && !question.holds;
                    let why = if nothing { " (nothing is shown to be better)" } else { "" };
                    format!("at most {} slower in the mean of {sessions} sessions{why}", at_most(bound))
                }
                None => format!("the best on average of {sessions} sessions, which are too few for a bound"),
            };
            let between = question.between.map(|share| format!("; between sessions {}", percent(share)));
            let named = format!("; chosen in {} of {sessions}", question.named_in);
            (mark, format!("{choice}: {bound}{named}{}", between.unwrap_or_default()))
        }
    };
    let mark = if question.holds { paint.colour(AnsiColor::Green, mark) } else { mark.to_owned() };
    let mut lines = vec![format!("{mark} {}", paint.bold(&question.question))];
    let indented = |text: &str| {
        wrap(text, width - INDENT).into_iter().map(|line| format!("{:INDENT$}{line}", "")).collect::<Vec<_>>()
    };
    lines.extend(indented(&phrases));
    let each: Vec<String> = question.answers.iter().map(|answer| of_session(answer, view)).collect();
    lines.extend(indented(&each.join("; ")).iter().map(|line| paint.dim(line)));
    lines
}

fn of_session(answer: &AcrossAnswer, view: &AcrossView) -> String {
    let choice = answer.choice.as_deref().unwrap_or("nothing");
    let bound = match answer.bound {
        Some(bound) if !answer.proven && excludes_nothing(bound) => " (no answer)".to_owned(),
        Some(bound) if !answer.proven && bound > view.margin => format!(" (at most {} slower)", at_most(bound)),
        _ => String::new(),
    };
    let mark = if answer.proven { "✓" } else { "○" };
    format!("{} {mark} {choice}{bound}", answer.session)
}

fn legend(view: &AcrossView) -> String {
    format!(
        "✓ one answer holds: shown at {} to be within {} of the best of those confirmed in every session, each of which \
         counts once. Below each question what every session phrases by itself. “between sessions”: how far a difference of \
         two choices is spread by what differs between sessions, beyond what their own blocks leave open.",
        percent(view.level),
        percent(view.margin)
    )
}
