//! Common needs of all terminal output: the target, colour, and lines of a width.

use std::borrow::Cow;

use anstyle::Style;
use bytegauge_model::escape;

pub use super::fit::wrap;

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
