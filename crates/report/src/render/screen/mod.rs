//! A session on a terminal: a table for each test, the summary, and what to use as the last lines.
//!
//! The summary and the results of a usual plan fit on 24 lines together.
//!
//! Lays out the tests, findings and summary of the document and settles nothing. Never cut to the height of a window.

mod overview;
pub(super) mod table;

use bytegauge_model::escape;

use super::fit::chars;
use super::paint::{Paint, TerminalStyle, wrap};
use crate::View;
use crate::interval_rounding::percent;
use crate::view::document::{NextStep, Test, TestState};
use crate::view::results::summary::Heading;

/// Longer lines are hard to read; shorter ones hold no table.
const COLUMNS: std::ops::RangeInclusive<usize> = 40..=80;
/// The same of the full text, whose tables have more columns.
const COLUMNS_FULL: std::ops::RangeInclusive<usize> = 40..=110;
/// Sessions with more tests are shown as one row for each test.
const TESTS_MAX: usize = 6;
/// The same where their tables have more rows together.
const ROWS_MAX: usize = 40;

/// The results of a session.
pub fn render(view: &View, style: &TerminalStyle) -> String {
    let page = Page::of(view, style);
    let mut out = page.heading();
    out.extend(page.tests());
    out.extend(page.summary());
    out.join("\n") + "\n"
}

/// The same with the table of every test, every finding, and the details of the measurement, given as lines.
pub(super) fn full(view: &View, style: &TerminalStyle, details: Vec<String>) -> String {
    let mut page = Page::of(view, style);
    page.layout.width = wide(style);
    let mut out = page.heading();
    for test in &view.tests {
        out.extend(of_test(view, test, style));
        out.push(String::new());
    }
    out.extend(page.findings());
    out.extend(details);
    out.push(String::new());
    out.extend(page.summary());
    out.join("\n") + "\n"
}

/// The table of one test, with all columns.
pub(super) fn of_test(view: &View, test: &Test, style: &TerminalStyle) -> Vec<String> {
    let layout = ScreenLayout { width: wide(style), ..ScreenLayout::of(view, style) };
    let group = view.groups.iter().find(|group| group.id == test.id);
    let further = group.map_or_else(Vec::new, |group| super::details::lines(view, group));
    let further = further.iter().flat_map(|text| wrap(text, layout.width - 4)).map(|line| format!("    {line}"));
    table::lines(test, &layout, true).into_iter().chain(further).collect()
}

/// How wide and in which colours text is laid out, and in which units.
pub(super) struct ScreenLayout<'a> {
    width: usize,
    paint: Paint,
    /// All tests of the session: their rates have one unit.
    tests: &'a [Test],
}

impl<'a> ScreenLayout<'a> {
    fn of(view: &'a View, style: &TerminalStyle) -> ScreenLayout<'a> {
        ScreenLayout { width: width(style), paint: Paint(style.colour), tests: &view.tests }
    }
}

/// The lines of a heading, broken between its parts. Unusual space in a name is kept, so that it is escaped and seen.
fn heading(text: &str, width: usize) -> Vec<String> {
    if chars(text) <= width || text.contains(escape::is_hidden) {
        return vec![text.to_owned()];
    }
    let mut lines: Vec<String> = Vec::new();
    for part in text.split(" · ") {
        match lines.last_mut() {
            Some(line) if chars(line) + 3 + chars(part) <= width => {
                line.push_str(" · ");
                line.push_str(part);
            }
            _ => lines.extend(wrap(part, width)),
        }
    }
    lines
}

/// A command, broken before its flags where it does not fit, so that a shell takes all lines together.
fn command_lines(command: &str, width: usize) -> Vec<String> {
    // Words in quotes have spaces of their own, and the words of a program are its own.
    if chars(command) <= width || command.contains(['\'', '"']) || command.contains(" -- ") {
        return vec![command.to_owned()];
    }
    let mut lines: Vec<String> = Vec::new();
    for (at, flag) in command.split(" --").enumerate() {
        let flag = if at == 0 { flag.to_owned() } else { format!("--{flag}") };
        match lines.last_mut() {
            Some(line) if chars(line) + 3 + chars(&flag) <= width => *line += &format!(" {flag}"),
            Some(line) => {
                line.push_str(" \\");
                lines.push(format!("  {flag}"));
            }
            None => lines.push(flag),
        }
    }
    lines
}

fn wide(style: &TerminalStyle) -> usize {
    style.columns.clamp(*COLUMNS_FULL.start(), *COLUMNS_FULL.end())
}

fn width(style: &TerminalStyle) -> usize {
    style.columns.clamp(*COLUMNS.start(), *COLUMNS.end())
}

struct Page<'a> {
    view: &'a View,
    program: &'a str,
    layout: ScreenLayout<'a>,
}

impl<'a> Page<'a> {
    fn of(view: &'a View, style: &'a TerminalStyle) -> Page<'a> {
        Page { view, program: &style.program, layout: ScreenLayout::of(view, style) }
    }

    fn heading(&self) -> Vec<String> {
        let lines = heading(&self.view.heading, self.layout.width);
        let mut lines: Vec<String> = lines.iter().map(|line| self.layout.paint.bold(line)).collect();
        lines.push(String::new());
        lines
    }

    fn tests(&self) -> Vec<String> {
        if let Some(versus) = &self.view.versus {
            return super::versus::lines(self.view, versus, self.layout.width, &self.layout.paint);
        }
        let tests = &self.view.tests;
        let rows: usize = tests.iter().map(|test| table::rows(test, false).0.len()).sum();
        match tests.len() > TESTS_MAX || (tests.len() > 1 && rows > ROWS_MAX) {
            true => overview::lines(self.view, &self.layout),
            false => tests.iter().flat_map(|test| self.table(test, false)).collect(),
        }
    }

    fn table(&self, test: &Test, full: bool) -> Vec<String> {
        let mut lines = table::lines(test, &self.layout, full);
        lines.push(String::new());
        lines
    }

    /// Every finding under its heading.
    fn findings(&self) -> Vec<String> {
        if self.view.findings.is_empty() {
            return Vec::new();
        }
        let mut lines = vec![self.layout.paint.bold("Findings")];
        for finding in &self.view.findings {
            lines.extend(self.item(Heading::of(finding).name(), &finding.text));
        }
        lines.push(String::new());
        lines
    }

    /// Facts and next steps, then what to use: a terminal shows its last lines.
    fn summary(&self) -> Vec<String> {
        let (results, facts): (Vec<_>, Vec<_>) = self.view.summary.iter().partition(|line| line.is_result);
        let mut lines = vec![self.layout.paint.bold("Summary")];
        lines.extend(facts.iter().flat_map(|line| self.item(&line.heading, &line.text)));
        lines.extend(self.view.next.iter().flat_map(|step| self.step(step)));
        let report = format!("{} report {}", self.program, self.view.session);
        lines.extend(self.item("All details", &format!("{report} --full")));
        lines.extend([String::new(), self.result_heading()]);
        lines.extend(results.iter().flat_map(|line| match line.heading.as_str() {
            "Result" | "Results" => self.indented(&line.text),
            heading => self.item(heading, &line.text),
        }));
        lines
    }

    /// `Result`, or `Use` and how sure the results of several tests are.
    fn result_heading(&self) -> String {
        let tests = &self.view.tests;
        let has = |state: TestState| tests.iter().any(|test| test.state == state);
        let is_open = has(TestState::Inconclusive);
        if tests.len() < 2 || tests.len() > TESTS_MAX || !(is_open || has(TestState::Decided)) {
            return self.layout.paint.bold("Result");
        }
        let open = if is_open { "; “for now”: inconclusive, more time may change it" } else { "" };
        format!("{} ({} confidence{open})", self.layout.paint.bold("Use"), percent(self.view.plan.level))
    }

    fn indented(&self, text: &str) -> Vec<String> {
        let lines = wrap(text, self.layout.width - 4);
        lines.iter().enumerate().map(|(at, line)| format!("{}{line}", if at == 0 { "  " } else { "    " })).collect()
    }

    /// A command is on a line of its own, so that it can be copied.
    fn step(&self, step: &NextStep) -> Vec<String> {
        let Some(command) = &step.command else { return self.item("Next", &format!("{}.", step.text)) };
        let command = command.replacen("bytegauge ", &format!("{} ", self.program), 1);
        let mut lines = self.item("Next", &format!("{}:", step.text));
        lines.extend(command_lines(&command, self.layout.width - 4).iter().map(|line| format!("    {line}")));
        lines
    }

    /// `  Heading: text`, its further lines indented.
    fn item(&self, heading: &str, text: &str) -> Vec<String> {
        let phrases = wrap(&format!("{heading}: {text}"), self.layout.width - 4);
        let prefix = format!("{heading}:");
        let named = phrases.iter().enumerate().map(|(at, line)| match (at, line.strip_prefix(&prefix)) {
            (0, Some(rest)) => format!("  {}{rest}", self.layout.paint.bold(&prefix)),
            (0, None) => format!("  {line}"),
            _ => format!("    {line}"),
        });
        named.collect()
    }
}
