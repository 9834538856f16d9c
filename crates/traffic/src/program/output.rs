//! A program's output: its last part, and the number that is extracted from it.
//!
//! Also the number that another command prints.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use bytegauge_model::task::by_shell;
use bytegauge_model::{Metric, PrintedNumber};
use bytegauge_sys::clock::monotonic_ns;
use bytegauge_sys::network::{HeldNetwork, NetworkTables};
use bytegauge_sys::snmp::{Counter, CounterError};
use regex_lite::Regex;

use crate::EndError;
use crate::program::process::{Program, StartedIn, first_to_end};

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

/// Lines that may follow a stack trace which ended a program: Node prints its version and the fields of the error.
const AFTER_TRACE: usize = 20;

/// Lines of the output at its end in which the exception is looked for.
const TRACE_MAX: usize = 200;

/// The last line with text, or the exception whose stack trace ended the program; made safe to print.
pub(super) fn last_line(text: &str) -> Option<String> {
    let is_frame = |line: &str| {
        line.starts_with([' ', '\t']) && ["at ", "... "].iter().any(|word| line.trim_start().starts_with(word))
    };
    let last_first: Vec<&str> = text.lines().rev().filter(|line| !line.trim().is_empty()).collect();
    let has_trace = last_first.iter().take(AFTER_TRACE).any(|line| is_frame(line));
    let names_it = |pair: &&[&str]| {
        has_trace
            && is_frame(pair[0])
            && !is_frame(pair[1])
            && ["Error", "Exception"].iter().any(|word| pair[1].contains(word))
    };
    let end = &last_first[..last_first.len().min(TRACE_MAX)];
    let exception = end.windows(2).find(names_it).map(|pair| pair[1]);
    exception.or_else(|| last_first.iter().copied().find(|line| !is_frame(line))).map(safe)
}

/// The last lines with text in their order, made safe to print.
pub(super) fn last_lines(text: &str, max: usize) -> Vec<String> {
    let mut lines: Vec<String> =
        text.lines().rev().filter(|line| !line.trim().is_empty()).take(max).map(safe).collect();
    lines.reverse();
    lines
}

fn safe(line: &str) -> String {
    line.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(LINE_MAX).collect()
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

/// The events of the kernel that a metric counts.
pub(super) struct Events(Option<Counter>);

impl Events {
    pub(super) fn of(metric: &Metric, tables: NetworkTables) -> Result<Events, EndError> {
        let Metric::Counter(name) = metric else { return Ok(Events(None)) };
        Counter::open(tables, name).map(|counter| Events(Some(counter))).map_err(|error| unread(&error))
    }

    /// How many there were until now; `None` if the metric counts none.
    pub(super) fn read(&self) -> Result<Option<u64>, EndError> {
        self.0.as_ref().map(Counter::read).transpose().map_err(|error| unread(&error))
    }

    /// How many there were since an earlier count.
    pub(super) fn since(&self, before: Option<u64>) -> Result<Option<u64>, EndError> {
        Ok(self.read()?.map(|now| now.saturating_sub(before.unwrap_or(0))))
    }
}

fn unread(error: &CounterError) -> EndError {
    EndError::Program(error.to_string())
}

// The number that a command of the user prints: what a run, or a running program, did by its own account.

/// How long the command may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A command whose number is asked for at both ends of a run.
pub(super) struct AskedNumber<'a> {
    means: PrintedNumber,
    command: &'a str,
    /// The total before the run, and when it was printed.
    before: Option<(f64, u64)>,
}

impl<'a> AskedNumber<'a> {
    /// Asks for the number of a metric before a run, if it is a total. `None` if the metric asks for none.
    pub(super) fn before(
        metric: &'a Metric,
        network: Option<HeldNetwork>,
        stop_requested: BorrowedFd<'_>,
    ) -> Result<Option<AskedNumber<'a>>, EndError> {
        let Metric::Command(means, command) = metric else { return Ok(None) };
        let mut asked = AskedNumber { means: *means, command, before: None };
        if *means == PrintedNumber::Total {
            asked.before = Some((asked.ask(network, stop_requested)?, monotonic_ns()));
        }
        Ok(Some(asked))
    }

    /// The rate of the run, of which more is better.
    pub(super) fn rate(&self, network: Option<HeldNetwork>, stop_requested: BorrowedFd<'_>) -> Result<f64, EndError> {
        let number = self.ask(network, stop_requested)?;
        let rate = match (self.means, self.before) {
            (PrintedNumber::Time, _) => 1.0 / number,
            (_, Some((before, at_ns))) => (number - before) * 1e9 / (monotonic_ns() - at_ns).max(1) as f64,
            _ => number,
        };
        if rate > 0.0 && rate.is_finite() {
            return Ok(rate);
        }
        let grew = self.before.map_or_else(String::new, |(before, _)| format!(" after {before}"));
        let what = if self.before.is_some() { "does not grow" } else { "is no number above 0" };
        Err(EndError::Program(format!(
            "the command of --metric printed {number}{grew}, which {what}: give the program work, or correct `{}`",
            self.command
        )))
    }

    /// Runs the command, and reads the last number that it prints.
    fn ask(&self, network: Option<HeldNetwork>, stop_requested: BorrowedFd<'_>) -> Result<f64, EndError> {
        let what = "the command of --metric";
        let how = StartedIn { network, ..StartedIn::reading() };
        let mut program = Program::start(what, &by_shell(self.command), &[], how)?;
        let until = Instant::now() + PATIENCE;
        if first_to_end(&mut [&mut program], stop_requested, until)?.is_none() {
            let seconds = PATIENCE.as_secs();
            return Err(EndError::Program(format!("{what} took longer than {seconds} s: `{}`", self.command)));
        }
        let (status, _) = program.leave()?;
        if !status.success() {
            return Err(EndError::Program(format!("{what} {}", program.how(status))));
        }
        let text = program.output();
        let finite = |word: &str| word.parse::<f64>().ok().filter(|number| number.is_finite());
        let number = text.split_whitespace().rev().find_map(finite);
        number.ok_or_else(|| EndError::Program(format!("{what} printed no number{}", program.last_words())))
    }
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

    #[test]
    fn the_exception_of_a_trace_is_quoted() {
        let java = "start\nException in thread \"main\" java.net.ConnectException: Connection refused\n\tat a.B.c(B.java:1)\n\t... 5 more\n";
        let expected = "Exception in thread \"main\" java.net.ConnectException: Connection refused";
        assert_eq!(last_line(java).as_deref(), Some(expected));
        let node = "Error: connect ECONNREFUSED\n    at a (node:net:1)\nEmitted 'error' event at:\n    at b (node:c:2) {\n  errno: -111\n}\n\nNode.js v20\n";
        assert_eq!(last_line(node).as_deref(), Some("Error: connect ECONNREFUSED"));
        assert_eq!(last_line("Caused by:\n    at most 3\n    refused\n").as_deref(), Some("refused"));
    }
}
