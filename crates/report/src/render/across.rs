//! Several sessions beside each other: a line a question, and what each session said of it.

use anstyle::AnsiColor;

use super::paint::{Paint, TerminalStyle, wrap};
use crate::sentence::percent;
use crate::view::across::{AcrossAnswer, AcrossQuestion, AcrossView};

/// Room before what belongs to a question.
const INDENT: usize = 4;

/// What holds over the sessions.
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

fn of_question(question: &AcrossQuestion, view: &AcrossView, width: usize, paint: &Paint) -> Vec<String> {
    let sessions = question.answers.len();
    let (mark, said) = match (&question.choice, question.bound) {
        (None, _) => ("-", "no two choices were confirmed in all of them".to_owned()),
        (Some(choice), bound) => {
            let mark = if question.holds { "✓" } else { "○" };
            let bound = match bound {
                Some(bound) => format!("at most {} dearer in the mean of {sessions} sessions", percent(bound)),
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
    lines.extend(indented(&said));
    let each: Vec<String> = question.answers.iter().map(|answer| of_session(answer, view)).collect();
    lines.extend(indented(&each.join("; ")).iter().map(|line| paint.dim(line)));
    lines
}

fn of_session(answer: &AcrossAnswer, view: &AcrossView) -> String {
    let choice = answer.choice.as_deref().unwrap_or("nothing");
    let bound = match answer.bound {
        Some(bound) if !answer.proven && bound > view.margin => format!(" (within {})", percent(bound)),
        _ => String::new(),
    };
    let mark = if answer.proven { "✓" } else { "○" };
    format!("{} {mark} {choice}{bound}", answer.session)
}

fn legend(view: &AcrossView) -> String {
    format!(
        "✓ one answer holds: shown at {} to be within {} of the best of those confirmed in every session, with the sessions \
         as replicates. Below each question what every session said by itself. “between sessions”: how far a difference of \
         two choices is spread by what differs between sessions, beyond what their own blocks leave open.",
        percent(view.level),
        percent(view.margin)
    )
}
