//! Common needs of all terminal output: the target, colour, and lines of a width.

use std::borrow::Cow;

use anstyle::Style;
use bytegauge_model::escape;

/// The target of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerminalStyle {
    /// Width of the terminal, characters.
    pub columns: usize,
    /// Escape sequences for colour are understood and wanted.
    pub colour: bool,
    /// The result file, to name at the end.
    pub store: Option<String>,
    /// The command by which the program finds the same results: `bytegauge`, or with `--store PATH`.
    pub program: String,
}

impl Default for TerminalStyle {
    fn default() -> TerminalStyle {
        TerminalStyle { columns: 100, colour: false, store: None, program: "bytegauge".into() }
    }
}

/// The output of `render` for a style, without control sequences from outside: the coloured text if the same text without colour
/// has no hidden character, so that every control sequence in it is ours; else the text without colour, escaped.
pub fn on_terminal(style: &TerminalStyle, render: impl Fn(&TerminalStyle) -> String) -> String {
    match escape::lines(&render(&TerminalStyle { colour: false, ..style.clone() })) {
        Cow::Borrowed(_) if style.colour => render(style),
        plain => plain.into_owned(),
    }
}

/// Puts colour on text, or leaves it.
#[derive(Clone, Copy, Debug)]
pub struct Paint(pub bool);

impl Paint {
    /// Text in a style.
    pub fn style(self, style: Style, text: &str) -> String {
        if self.0 && !text.is_empty() { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    /// Bold text.
    pub fn bold(self, text: &str) -> String {
        self.style(Style::new().bold(), text)
    }

    /// Dim text.
    pub fn dim(self, text: &str) -> String {
        self.style(Style::new().dimmed(), text)
    }
}

/// Greedy lines of at most `width` characters; a longer word gets its own line.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    // A number stays with its unit.
    for word in bound(text).split('\u{1f}') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Separates words by a unit separator, but leaves the spaces between a number and its unit, and around `≤`.
fn bound(text: &str) -> String {
    let mut out = String::new();
    let mut previous = "";
    for word in text.split_whitespace() {
        let unit = previous.ends_with(|c: char| c.is_ascii_digit())
            && word.starts_with(['%', '×', 'K', 'M', 'G', 'B', 'T', 'k', 'n', 'µ', 's', 'm'])
            && word.len() <= 7;
        if !out.is_empty() {
            out.push(if unit || [previous, word].contains(&"≤") { ' ' } else { '\u{1f}' });
        }
        out.push_str(word);
        previous = word;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_numbers_and_units_together() {
        let check = |text: &str, width, expected: &[&str]| assert_eq!(wrap(text, width), expected, "{text}");
        check("it is up to 200 k calls/s", 16, &["it is up to", "200 k calls/s"]);
        check("it is up to 18.4 ms", 15, &["it is up to", "18.4 ms"]);
        check("512 B, p99 ≤ 2ms", 12, &["512 B,", "p99 ≤ 2ms"]);
        check("in 14 trials", 9, &["in 14", "trials"]);
        check("", 5, &[""]);
    }
}
