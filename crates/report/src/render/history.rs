//! Sessions before and after: the verdict, and a line a question, the worst first.

use anstyle::AnsiColor;

use super::cell_text::rate;
use super::paint::{Paint, TerminalStyle, wrap};
use crate::sentence::{at_least, percent, percent_up};
use crate::view::history::{HistoryLine, HistoryView};

/// Room for the name of a section.
const NAME: usize = 7;

/// More lines than this fit no screen.
const LINES_MAX: usize = 12;

/// The verdict and what it stands on.
pub fn render(view: &HistoryView, style: &TerminalStyle) -> String {
    let paint = Paint(style.colour);
    let width = style.columns.clamp(60, 100);
    let ids = |ids: &[bytegauge_model::SessionId]| ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let head = format!("bytegauge {} · before: {} · after: {}", view.plan, ids(&view.before), ids(&view.after));
    let mut out = vec![paint.bold(&head), String::new()];
    let (mark, colour) = match view.verdict {
        "worse" => ("✗", AnsiColor::Red),
        "better" => ("✓", AnsiColor::Green),
        "equivalent" => ("=", AnsiColor::Green),
        _ => ("?", AnsiColor::Yellow),
    };
    for (at, line) in wrap(&view.text, width - NAME - 2).into_iter().enumerate() {
        out.push(match at {
            0 => format!("{}{} {}", paint.bold("RESULT "), paint.colour(colour, mark), paint.bold(&line)),
            _ => format!("{:1$}{line}", "", NAME + 2),
        });
    }
    out.push(String::new());
    let mut lines: Vec<&HistoryLine> = view.lines.iter().collect();
    lines.sort_by(|a, b| b.longer.unwrap_or(0.0).total_cmp(&a.longer.unwrap_or(0.0)));
    for line in lines.iter().take(LINES_MAX) {
        out.extend(wrap(&line.label, width - 2).iter().take(1).map(|label| format!("  {}", paint.bold(label))));
        out.push(format!("    {}", of_line(line)));
    }
    if lines.len() > LINES_MAX {
        out.push(paint.dim(&format!("  … {} more: --format json", lines.len() - LINES_MAX)));
    }
    out.push(String::new());
    let legend = format!(
        "intervals hold for all lines together at {}; their error is the spread between sessions, of which each counts \
         once. What is compared: the choice that session {} names",
        percent(view.level),
        view.before.last().map_or_else(String::new, ToString::to_string)
    );
    out.extend(wrap(&legend, width).iter().map(|line| paint.dim(line)));
    out.join("\n") + "\n"
}

fn of_line(line: &HistoryLine) -> String {
    let shown = |per_second: Option<f64>| per_second.map_or_else(|| "–".into(), |value| rate(line.unit, value));
    let signed = |share: f64| format!("{}{}", if share < 0.0 { "−" } else { "+" }, percent(share.abs()));
    let difference = line.longer.map_or_else(|| "–".into(), |share| format!("time {}", signed(share)));
    // Outwards, so that what is printed claims no more than was shown.
    let least =
        |share: f64| if share < 0.0 { format!("−{}", percent_up(-share)) } else { format!("+{}", at_least(share)) };
    let most =
        |share: f64| if share < 0.0 { format!("−{}", at_least(-share)) } else { format!("+{}", percent_up(share)) };
    let interval = match (line.lower, line.upper) {
        (Some(lower), Some(upper)) => format!(" ({} to {})", least(lower), most(upper)),
        _ => format!(", no interval ({} before)", bytegauge_model::unit::counted(line.sessions_before, "session")),
    };
    let verdict = match line.verdict {
        "equivalent" => "as good",
        "open" => "not decided",
        other => other,
    };
    format!("{} → {}: {difference}{interval}: {verdict}", shown(line.rate_before), shown(line.rate_after))
}
