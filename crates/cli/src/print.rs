//! The widths of text for people, and the welcome. Writes nothing.

use bytegauge_model::escape;
use bytegauge_report::words::fit::{text_width, wrap};

/// Columns of text that is no table of results.
pub const COLUMNS: usize = 80;

/// `bytegauge` alone: the commands a newcomer needs.
pub const WELCOME: &str = "\
bytegauge measures how bytes move on this machine and recommends settings,
with 95 % intervals.

  bytegauge run buffer-size   which read and write sizes? TCP, Unix; 1 minute
  bytegauge run survey        all built-in plans, briefly; 5 minutes
  bytegauge stream -h         one way: sizes, engines, socket options
  bytegauge call -h           requests and replies: servers and clients
  bytegauge tune -h           the settings that make your own program faster
  bytegauge doctor            what disturbs measurements on this machine
  bytegauge report            the latest result again

All commands: bytegauge --help
";

/// Lines in at most `width` columns, hidden characters escaped. A longer line continues under its last column, or
/// indented. A command stays whole, so that it can be copied.
pub fn fitted<'a>(lines: impl IntoIterator<Item = &'a str>, width: usize) -> String {
    let mut out = String::new();
    for line in lines {
        let line = escape::line(line);
        // Columns are two spaces apart.
        let column = line.get(..width / 2).and_then(|head| head.rfind("  ")).map_or(0, |at| at + 2);
        let start = line.bytes().take(width / 2).take_while(|byte| *byte == b' ').count();
        let (head, further) = if column > start { (column, 0) } else { (start, 2) };
        let indent = text_width(&line[..head]) + further;
        if text_width(&line) <= width || line[head..].starts_with("bytegauge ") {
            out.push_str(&line);
            out.push('\n');
            continue;
        }
        for (at, part) in wrap(&line[head..], width.saturating_sub(indent)).iter().enumerate() {
            let before = if at == 0 { line[..head].to_owned() } else { " ".repeat(indent) };
            out.push_str(&format!("{before}{part}\n"));
        }
    }
    out
}

/// Whether `TERM` names a terminal without colours and cursor movement.
pub fn terminal_is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_continue_under_their_column() {
        let levels = "1K 2K 4K 8K ".repeat(8);
        let text = format!("short\n     read-size  compared  {levels}\n  {}\n", "note ".repeat(20));
        let lines: Vec<String> = fitted(text.lines(), COLUMNS).lines().map(str::to_owned).collect();
        assert!(lines.iter().all(|line| line.chars().count() <= COLUMNS), "{lines:?}");
        assert!(lines[1].starts_with("     read-size  compared  1K 2K") && lines[2].starts_with(&" ".repeat(26)));
        assert!(lines[lines.len() - 1].starts_with("    note"), "{lines:?}");
    }
}
