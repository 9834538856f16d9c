//! A program's output: its last part, and the number that is extracted from it.

use regex_lite::Regex;

use crate::end_error::EndError;

/// Bytes kept from the end of an output: summaries are there.
const KEPT: usize = 64 << 10;

/// Longest printed line; longer ones are cut.
const LINE_MAX: usize = 160;

/// One output of a program.
#[derive(Default)]
pub(super) struct ProgramOutput {
    last: Vec<u8>,
}

impl ProgramOutput {
    /// Adds bytes that were read.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        self.last.extend_from_slice(bytes);
        // Cut rarely, so that a flood costs little.
        if self.last.len() > 4 * KEPT {
            self.last.drain(..self.last.len() - KEPT);
        }
    }

    /// The kept part, as text.
    pub(super) fn text(&self) -> String {
        let from = self.last.len().saturating_sub(KEPT);
        String::from_utf8_lossy(&self.last[from..]).into_owned()
    }
}

/// The last line with text, made safe to print.
pub(super) fn last_line(text: &str) -> Option<String> {
    last_lines(text, 1).pop()
}

/// The last lines with text in their order, made safe to print.
pub(super) fn last_lines(text: &str, max: usize) -> Vec<String> {
    let safe = |line: &str| line.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LINE_MAX).collect();
    let mut lines: Vec<String> =
        text.lines().rev().map(str::trim).filter(|line| !line.is_empty()).take(max).map(safe).collect();
    lines.reverse();
    lines
}

/// A regular expression.
pub(super) fn pattern(pattern: &str) -> Result<Regex, EndError> {
    Regex::new(pattern).map_err(|error| EndError::Impossible(format!("`{pattern}` is no regular expression: {error}")))
}

/// The last number printed where the pattern matches: the number in its first group, or in the whole match. `words` is appended to
/// the error if nothing matches.
pub(super) fn number(expression: &str, text: &str, words: &str) -> Result<f64, EndError> {
    let found = pattern(expression)?.captures_iter(text).last().map(|found| {
        let part = found.get(1).or_else(|| found.get(0)).map_or("", |part| part.as_str());
        part.trim().replace('_', "")
    });
    let Some(part) = found else {
        return Err(EndError::Program(format!("the command printed no number: nothing matches `{expression}`{words}")));
    };
    let number = part.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| {
        EndError::Program(format!(
            "`{part}`, which `{expression}` found, is no number above 0: put parentheses around its digits"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_flood_is_kept() {
        let mut output = ProgramOutput::default();
        for _ in 0..1000 {
            output.take(&[b'x'; 4096]);
        }
        output.take(b"\n1.5 GB/s\n\n");
        assert!(output.last.len() <= 5 * KEPT && output.text().len() == KEPT);
        assert_eq!(last_line(&output.text()).as_deref(), Some("1.5 GB/s"));
    }

    #[test]
    fn last_line_has_no_control_characters() {
        assert_eq!(last_line("a\n\u{1b}[31mred\u{7}\n").as_deref(), Some(" [31mred "));
        assert_eq!(last_line(" \n"), None);
    }
}
