//! The results of a session in a few lines, among those of other sessions.

use crate::Report;
use crate::document::Decision;
use crate::words::paint::wrap;

/// At most `lines_max` tests, certain ones first; the last line counts the rest, and names the command that shows them, where
/// `program` is how this one is called to find the session.
pub fn render(report: &Report, lines_max: usize, width: usize, program: &str) -> Vec<String> {
    let mut shown: Vec<(usize, &Decision)> = report.decisions.iter().enumerate().collect();
    shown.sort_by_key(|(at, one)| (!one.is_certain, *at));
    let hidden = shown.len().saturating_sub(lines_max);
    shown.truncate(lines_max);
    shown.sort_by_key(|(at, _)| *at);
    let mut out: Vec<String> = Vec::new();
    for (_, one) in shown {
        let sure = if one.is_certain { "" } else { "not certain: " };
        let lines = wrap(&format!("{}: {}; {sure}{}.", one.name, one.set, one.why), width.saturating_sub(4));
        out.extend(lines.iter().enumerate().map(|(at, line)| format!("{}{line}", if at == 0 { "  " } else { "    " })));
    }
    if hidden > 0 {
        out.push(format!("  {hidden} more: {program} report {}", report.session));
    }
    out
}
