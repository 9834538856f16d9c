//! The results of a session in a few lines, among those of other sessions.

use bytegauge_report::View;
use bytegauge_report::view::document::Test;
use bytegauge_text::paint::wrap;

/// At most `lines_max` tests, those with a result first; the last line counts the rest, and names the command that shows
/// them, where `program` is how this one is called to find the session.
pub fn render(view: &View, lines_max: usize, width: usize, program: &str) -> Vec<String> {
    let is_open = |test: &Test| !test.is_compared();
    let mut tests: Vec<(usize, &Test)> = view.tests.iter().enumerate().collect();
    tests.sort_by_key(|(at, test)| (is_open(test), *at));
    let hidden = tests.len().saturating_sub(lines_max);
    tests.truncate(lines_max);
    tests.sort_by_key(|(at, _)| *at);
    let mut out: Vec<String> = Vec::new();
    for (_, test) in tests {
        let lines = wrap(&format!("{}: {}.", test.name, test.result), width.saturating_sub(4));
        out.extend(lines.iter().enumerate().map(|(at, line)| format!("{}{line}", if at == 0 { "  " } else { "    " })));
    }
    if hidden > 0 {
        out.push(format!("  {hidden} more: {program} report {}", view.session));
    }
    out
}
