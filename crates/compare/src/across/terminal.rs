//! Several sessions: a line per group, and the result of each session.

use bytegauge_report::words::interval_rounding::{NOTHING, at_most, percent};
use bytegauge_report::words::paint::{Paint, TerminalStyle, wrap};

use super::{AcrossResult, AcrossState, AcrossTest, AcrossView};

/// Indentation of a group's lines.
const INDENT: usize = 4;

/// The result over the sessions.
pub fn render(view: &AcrossView, style: &TerminalStyle) -> String {
    let paint = Paint(style.colour);
    let width = style.columns.clamp(60, 100);
    let mut lines = vec![paint.bold(&head(view)), String::new()];
    if view.tests.is_empty() {
        lines.extend(wrap(
            "no test has a result in more than one of these sessions; measure one plan several times",
            width,
        ));
    }
    for test in &view.tests {
        lines.extend(of_test(test, width, &paint));
    }
    if !view.tests.is_empty() {
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

fn of_test(test: &AcrossTest, width: usize, paint: &Paint) -> Vec<String> {
    let sessions = test.sessions.len();
    let is_decided = test.state == AcrossState::Certain;
    let text = match (&test.recommended, test.slower_upper) {
        (None, _) => "no two options were confirmed in all sessions".to_owned(),
        (Some(option), bound) => {
            let bound = match bound {
                Some(bound) => {
                    let why = match test.changes_nothing && !is_decided {
                        true => " (the default; no option is significantly better)",
                        false => "",
                    };
                    let how = match bound {
                        bound if bound <= NOTHING => "the fastest".to_owned(),
                        bound => format!("at most {} slower than the best", at_most(bound)),
                    };
                    let named = if is_decided { "use" } else { "can lose least:" };
                    format!("{named} {option}, {how} in the mean of {sessions} sessions{why}")
                }
                None => format!(
                    "{option} is the best on average; {sessions} sessions are too few for an interval, measure 3"
                ),
            };
            let between = test.between.filter(|share| *share > NOTHING);
            let between = between.map(|share| format!("; sessions differ by {}", percent(share)));
            format!(
                "{}: {bound}; recommended in {} of {sessions}{}",
                if is_decided { "certain" } else { "undecided" },
                test.recommended_in,
                between.unwrap_or_default()
            )
        }
    };
    let mut lines = vec![paint.bold(&test.title)];
    let indented = |text: &str| {
        wrap(text, width - INDENT).into_iter().map(|line| format!("{:INDENT$}{line}", "")).collect::<Vec<_>>()
    };
    lines.extend(indented(&text));
    let each: Vec<String> = test.sessions.iter().map(of_session).collect();
    lines.extend(indented(&each.join("; ")).iter().map(|line| paint.dim(line)));
    lines
}

fn of_session(result: &AcrossResult) -> String {
    let option = result.recommended.as_deref().unwrap_or("no result");
    let bound = match (result.state, result.slower_upper) {
        (AcrossState::Certain, _) => " (certain)".to_owned(),
        (_, Some(bound)) => format!(" (at most {} slower)", at_most(bound)),
        _ => String::new(),
    };
    format!("session {}: {option}{bound}", result.session)
}

fn legend(view: &AcrossView) -> String {
    format!(
        "certain: within {} of the best option, at {} confidence. Only options that every session confirmed are compared, \
         and each session counts once. “sessions differ by”: how much more a difference of two options varies between \
         sessions than their own trials explain.",
        percent(view.margin),
        percent(view.level)
    )
}
