//! What a program prints: how much of it, its last part, and the number that is looked for in it.

use regex_lite::Regex;

use crate::fault::Fault;

/// So much of the end of an output is kept: a summary stands there.
const KEPT: usize = 64 << 10;

/// Longer lines are cut where they are told.
const LINE_MAX: usize = 160;

/// One output of a program.
#[derive(Default)]
pub(super) struct Output {
    /// All bytes that came.
    pub(super) bytes: u64,
    last: Vec<u8>,
}

impl Output {
    /// Takes what was read.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.last.extend_from_slice(bytes);
        // Cut seldom, so that a flood costs little.
        if self.last.len() > 4 * KEPT {
            self.last.drain(..self.last.len() - KEPT);
        }
    }

    /// What is kept, as text.
    pub(super) fn text(&self) -> String {
        let from = self.last.len().saturating_sub(KEPT);
        String::from_utf8_lossy(&self.last[from..]).into_owned()
    }
}

/// The last line that says something, fit to be told.
pub(super) fn last_line(text: &str) -> Option<String> {
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LINE_MAX).collect())
}

/// A regular expression.
pub(super) fn pattern(pattern: &str) -> Result<Regex, Fault> {
    Regex::new(pattern).map_err(|error| Fault::Impossible(format!("`{pattern}` is no regular expression: {error}")))
}

/// The number that was printed last where the pattern matches: of its first group, or of the whole. Where nothing does, it
/// is told what was `said`.
pub(super) fn number(expression: &str, text: &str, said: &str) -> Result<f64, Fault> {
    let found = pattern(expression)?.captures_iter(text).last().map(|found| {
        let part = found.get(1).or_else(|| found.get(0)).map_or("", |part| part.as_str());
        part.trim().replace('_', "")
    });
    let Some(part) = found else {
        return Err(Fault::Program(format!("the command printed no number: nothing matches `{expression}`{said}")));
    };
    let number = part.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| {
        Fault::Program(format!(
            "`{part}`, which `{expression}` found, is no number above 0: put its digits in brackets"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_counted_and_its_end_kept() {
        let mut output = Output::default();
        for _ in 0..1000 {
            output.take(&[b'x'; 4096]);
        }
        output.take(b"\n1.5 GB/s\n\n");
        assert_eq!(output.bytes, 4096 * 1000 + 11);
        assert!(output.last.len() <= 5 * KEPT && output.text().len() == KEPT);
        assert_eq!(last_line(&output.text()).as_deref(), Some("1.5 GB/s"));
    }

    #[test]
    fn what_is_told_has_no_controls() {
        assert_eq!(last_line("a\n\u{1b}[31mred\u{7}\n").as_deref(), Some(" [31mred "));
        assert_eq!(last_line(" \n"), None);
    }
}
