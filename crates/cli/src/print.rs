//! The characters and widths of text for people, and the welcome. Writes nothing.

use bytegauge_text::paint::wrap;

/// Columns of text that is no table of results.
pub const COLUMNS: usize = 80;

/// `bytegauge` alone: the commands a newcomer needs.
pub const WELCOME: &str = "\
bytegauge measures how bytes move on this machine and recommends settings,
with 95 % intervals.

  bytegauge run buffer-size   which read and write sizes? TCP, Unix; 1 minute
  bytegauge survey            all built-in plans, briefly; 5 minutes
  bytegauge stream -h         one way: sizes, engines, socket options
  bytegauge call -h           requests and replies: servers and clients
  bytegauge check -h          a setting of your own program
  bytegauge doctor            what disturbs measurements on this machine
  bytegauge report            the latest result again

All commands: bytegauge --help
";

/// Text for users, in the characters of their locale: ASCII in `C` and `POSIX`. Output for programs does not change, and
/// neither does any text without a locale.
pub fn in_locale(text: String) -> String {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(std::env::var_os).find(|value| !value.is_empty());
    if set.is_some_and(|locale| locale == "C" || locale == "POSIX") { ascii(&text) } else { text }
}

/// A line of at most `width` characters; a longer one is cut after a whole word, with `…`.
pub fn whole_words(line: &str, width: usize) -> String {
    if line.chars().count() <= width {
        return line.to_owned();
    }
    // A space and `…` need room as well.
    let fits: String = line.chars().take(width.saturating_sub(2)).collect();
    let whole = if line[fits.len()..].starts_with(' ') {
        fits.as_str()
    } else {
        fits.rsplit_once(' ').map_or(fits.as_str(), |(words, _)| words)
    };
    format!("{} …", whole.trim_end()).chars().take(width).collect()
}

/// The same lines in at most [`COLUMNS`] characters. A longer line continues under its last column, or indented.
pub fn fitted(text: &str) -> String {
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        let line = line.trim_end_matches('\n');
        if line.chars().count() <= COLUMNS {
            out.push_str(line);
            out.push('\n');
            continue;
        }
        let start = line.len() - line.trim_start().len();
        // Columns are two spaces apart.
        let column = line.get(..COLUMNS / 2).and_then(|head| head.rfind("  ")).map_or(0, |at| at + 2);
        let (head, indent) = if column > start { (column, column) } else { (start, start + 2) };
        for (at, part) in wrap(&line[head..], COLUMNS - indent).iter().enumerate() {
            let before = if at == 0 { line[..head].to_owned() } else { " ".repeat(indent) };
            out.push_str(&format!("{before}{part}\n"));
        }
    }
    out
}

/// The same text in ASCII. Marks and lines keep their width, so that columns stay where they are, and differ as before.
fn ascii(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\0'..='\x7f' => plain.push(character),
            '±' => plain.push_str("+-"),
            '–' | '—' | '─' | '−' | '·' => plain.push('-'),
            '│' => plain.push('|'),
            '×' => plain.push('x'),
            'µ' | 'μ' => plain.push('u'),
            '≤' => plain.push_str("<="),
            '≥' => plain.push_str(">="),
            '…' => plain.push_str("..."),
            '²' => plain.push('2'),
            '√' => plain.push_str("sqrt "),
            '●' => plain.push('*'),
            '○' => plain.push('o'),
            '✓' => plain.push('+'),
            '★' => plain.push('!'),
            '◆' => plain.push('#'),
            '◇' => plain.push('%'),
            '→' | '▶' => plain.push('>'),
            '▷' => plain.push(')'),
            '◀' => plain.push('<'),
            '◁' => plain.push('('),
            '↓' => plain.push('v'),
            'α' => plain.push('a'),
            '\u{2580}'..='\u{259f}' => plain.push('#'),
            '“' | '”' => plain.push('"'),
            '‘' | '’' => plain.push('\''),
            _ => plain.push('?'),
        }
    }
    plain
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
        let lines: Vec<String> = fitted(&text).lines().map(str::to_owned).collect();
        assert!(lines.iter().all(|line| line.chars().count() <= COLUMNS), "{lines:?}");
        assert!(lines[1].starts_with("     read-size  compared  1K 2K") && lines[2].starts_with(&" ".repeat(26)));
        assert!(lines[lines.len() - 1].starts_with("    note"), "{lines:?}");
    }

    #[test]
    fn lines_end_with_a_whole_word() {
        let line = "  2.1 GiB/s so far: unix read 32K";
        let check = |width: usize, expected: &str| assert_eq!(whole_words(line, width), expected);
        check(40, "  2.1 GiB/s so far: unix read 32K");
        check(33, "  2.1 GiB/s so far: unix read 32K");
        check(32, "  2.1 GiB/s so far: unix read …");
        check(31, "  2.1 GiB/s so far: unix read …");
        check(30, "  2.1 GiB/s so far: unix …");
        check(29, "  2.1 GiB/s so far: unix …");
    }
}
