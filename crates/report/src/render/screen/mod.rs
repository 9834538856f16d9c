//! A session on a terminal: a table for each test, the summary, and what to use as the last lines.
//!
//! The summary and the results of a usual plan fit on 24 lines together.
//!
//! Lays out the tests, findings and summary of the document and settles nothing. Never cut to the height of a window.

pub(super) mod overview;
pub mod table;

use std::collections::BTreeSet;

use bytegauge_model::escape;

use super::fit::chars;
use super::paint::{Paint, TerminalStyle, wrap};
use crate::View;
use crate::interval_rounding::{ShareScale, percent};
use crate::view::document::{Finding, NextStep, Note, SummaryLine, Test};
use crate::view::results::outcome;
use crate::view::results::summary::{self, Heading};

/// Shorter lines hold no table; wider tables are hard to follow.
const COLUMNS: std::ops::RangeInclusive<usize> = 40..=200;
/// Longer lines of text are hard to read.
const TEXT_MAX: usize = 110;
/// Lines of results that a terminal of 24 lines shows below their heading and above the prompt.
const RESULT_MAX: usize = 22;
/// Sessions with more tests are shown as one row for each test.
const TESTS_MAX: usize = 6;
/// The same where their tables have more rows together.
const ROWS_MAX: usize = 40;

/// The results of a session.
pub fn render(view: &View, style: &TerminalStyle) -> String {
    let page = Page::of(view, style);
    let mut out = page.heading();
    out.extend(page.tests());
    out.extend(page.summary(false));
    out.join("\n") + "\n"
}

/// The same with the table of every test, every finding, and the details of the measurement, given as lines.
pub(super) fn full(view: &View, style: &TerminalStyle, details: Vec<String>) -> String {
    let page = Page::of(view, style);
    let mut out = page.heading();
    out.extend(page.whole_tests(&view.tests));
    out.extend(page.findings(None));
    out.extend(details);
    out.push(String::new());
    out.extend(page.summary(true));
    out.join("\n") + "\n"
}

/// One test with all columns, and its findings and notes; `None` where there is none of that name.
pub fn one_test(view: &View, id: &str, style: &TerminalStyle) -> Option<String> {
    let test = view.tests.iter().find(|test| test.id.0 == id)?;
    let page = Page::of(view, style);
    let mut out = page.heading();
    out.extend(page.whole_tests(std::slice::from_ref(test)));
    out.extend(page.findings(Some(test)));
    Some(out.join("\n"))
}

/// How wide and in which colours text is laid out, and in which units.
pub(super) struct ScreenLayout<'a> {
    width: usize,
    paint: Paint,
    /// All tests of the session: their rates have one unit.
    tests: &'a [Test],
    /// The unit of all differences.
    scale: ShareScale,
}

impl<'a> ScreenLayout<'a> {
    fn of(view: &'a View, style: &TerminalStyle) -> ScreenLayout<'a> {
        let width = style.columns.clamp(*COLUMNS.start(), *COLUMNS.end());
        ScreenLayout { width, paint: Paint(style.colour), tests: &view.tests, scale: view.scale }
    }

    /// How wide text is; tables use the whole width.
    fn text(&self) -> usize {
        self.width.min(TEXT_MAX)
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

/// A command, broken before its flags and before the words of a program where it does not fit, so that a shell takes all lines
/// together.
fn command_lines(command: &str, width: usize) -> Vec<String> {
    // Words in quotes have spaces of their own.
    if chars(command) <= width || command.contains(['\'', '"']) {
        return vec![command.to_owned()];
    }
    // The words of a program are its own.
    let (own, program) = command.split_once(" -- ").map_or((command, None), |(own, program)| (own, Some(program)));
    let flags = own.split(" --").enumerate();
    let flags = flags.map(|(at, flag)| if at == 0 { flag.to_owned() } else { format!("--{flag}") });
    let mut lines: Vec<String> = Vec::new();
    for part in flags.chain(program.map(|words| format!("-- {words}"))) {
        match lines.last_mut() {
            Some(line) if chars(line) + 3 + chars(&part) <= width => *line += &format!(" {part}"),
            Some(line) => {
                line.push_str(" \\");
                lines.push(format!("  {part}"));
            }
            None => lines.push(part),
        }
    }
    lines
}

/// A line of the summary, with the number of findings that are left out.
fn whole(line: &SummaryLine) -> String {
    line.more.map_or_else(|| line.text.clone(), |more| format!("{} ({more} more in --full)", line.text))
}

/// The heading of what to use, and how sure the results of several tests are.
pub(super) fn result_heading(view: &View) -> (&'static str, String) {
    if view.tests.len() < 2 || view.tests.len() > TESTS_MAX || !view.tests.iter().any(Test::is_compared) {
        return ("Result", String::new());
    }
    let safest = if view.tests.iter().any(outcome::has_safest) { "; safest: not decided" } else { "" };
    ("Use", format!(" ({} confidence{safest})", percent(view.plan.level)))
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
            return super::versus::lines(self.view, versus, self.layout.text(), &self.layout.paint);
        }
        let tests = &self.view.tests;
        let rows: usize = tests.iter().map(|test| table::rows(test, false).0.len()).sum();
        match tests.len() > TESTS_MAX || (tests.len() > 1 && rows > ROWS_MAX) {
            true => overview::lines(self.view, &self.layout),
            false => {
                let tables = tests
                    .iter()
                    .flat_map(|test| table::lines(test, &self.layout, false).into_iter().chain([String::new()]));
                tables.chain(self.legend(tests, false)).collect()
            }
        }
    }

    /// The tables of some tests with all columns and details, and what their columns and marks mean.
    fn whole_tests(&self, tests: &[Test]) -> Vec<String> {
        let mut out = Vec::new();
        for test in tests {
            let group = self.view.group(&test.id);
            let further = group.map_or_else(Vec::new, |group| super::details::lines(self.view, group));
            let further = further.iter().flat_map(|text| wrap(text, self.layout.text() - 4));
            out.extend(table::lines(test, &self.layout, true));
            out.extend(further.map(|line| format!("    {line}")).chain([String::new()]));
        }
        let units: BTreeSet<&str> = tests.iter().filter_map(table::cpu_explained).collect();
        if !units.is_empty() {
            let lines = units.into_iter().flat_map(|text| wrap(text, self.layout.text()));
            out.extend(lines.chain([String::new()]));
        }
        out.extend(self.legend(tests, true));
        out
    }

    /// The meaning of intervals, marks and columns, once below all tables; the full text explains its columns of CPU time above.
    fn legend(&self, tests: &[Test], full: bool) -> Vec<String> {
        let legend = table::legend(tests, self.layout.scale, full);
        if legend.is_empty() {
            return Vec::new();
        }
        let lines = |items: Vec<(&str, String)>| -> Vec<String> {
            let indent = items.iter().map(|(name, _)| chars(name)).max().unwrap_or(0) + 4;
            let item = |(name, text): (&str, String)| -> Vec<String> {
                let lines = wrap(&text, self.layout.width.saturating_sub(indent)).into_iter().enumerate();
                let name = format!("  {name}");
                lines.map(|(at, line)| format!("{:<indent$}{line}", if at == 0 { &name } else { "" })).collect()
            };
            items.into_iter().flat_map(item).collect()
        };
        let mut out = vec![format!("With {} confidence:", percent(self.view.plan.level))];
        out.extend(lines(legend).into_iter().chain(lines(table::methods(tests))));
        let units = if full { BTreeSet::new() } else { table::units(&self.layout) };
        out.extend(units.iter().flat_map(|text| wrap(text, self.layout.width - 2)).map(|line| format!("  {line}")));
        let mut out: Vec<String> = out.iter().map(|line| self.layout.paint.dim(line)).collect();
        out.push(String::new());
        out
    }

    /// The findings and notes of one test under their headings; else every finding, without those that are results.
    fn findings(&self, test: Option<&Test>) -> Vec<String> {
        let is_shown = |finding: &&Finding| match test {
            Some(test) => finding.test.as_ref() == Some(&test.id),
            None => !Heading::of(finding).is_result(),
        };
        let findings = self.view.findings.iter().filter(is_shown);
        let findings = findings.map(|finding| (Heading::of(finding), finding.text.as_str()));
        let is_own = |note: &&Note| test.is_some_and(|test| note.group.as_ref() == Some(&test.id));
        let notes = self.view.notes.iter().filter(is_own).map(|note| (Heading::Note, note.own()));
        let items: Vec<String> =
            findings.chain(notes).flat_map(|(heading, text)| self.item(heading.name(), text)).collect();
        if items.is_empty() {
            return Vec::new();
        }
        [self.layout.paint.bold("Findings")].into_iter().chain(items).chain([String::new()]).collect()
    }

    /// Facts and further steps, then the biggest effect, what limits, what to use, and the next step if a terminal shows it
    /// together with the results. The full text has the facts that are findings already.
    fn summary(&self, full: bool) -> Vec<String> {
        let is_shown = |line: &&SummaryLine| !(line.is_result || full && Heading::is_of_finding(&line.heading));
        let facts = self.view.summary.iter().filter(is_shown);
        let (reasons, facts): (Vec<&SummaryLine>, Vec<&SummaryLine>) = facts.partition(|line| summary::is_reason(line));
        let results = summary::results(self.view, if full { usize::MAX } else { summary::LINES_MAX });
        let results: Vec<String> = results
            .iter()
            .flat_map(|line| match line.heading.as_str() {
                "Result" | "Results" => self.indented(&line.text),
                heading => self.item(heading, &whole(line)),
            })
            .collect();
        let steps: Vec<Vec<String>> = self.view.next.iter().enumerate().map(|(at, step)| self.step(at, step)).collect();
        let has_room = steps.first().is_some_and(|first| results.len() + first.len() <= RESULT_MAX);
        let (last, others) = steps.split_at(usize::from(has_room));
        let mut lines = vec![self.layout.paint.bold("Summary")];
        lines.extend(facts.iter().flat_map(|line| self.item(&line.heading, &whole(line))));
        lines.extend(others.iter().flatten().cloned());
        let report = format!("{} report {} --full", self.program, self.view.session);
        lines.extend(if full { Vec::new() } else { self.item("All details", &report) });
        lines.extend(reasons.iter().flat_map(|line| self.item(&line.heading, &whole(line))));
        let (heading, sure) = result_heading(self.view);
        lines.extend([String::new(), format!("{}{sure}", self.layout.paint.bold(heading))]);
        lines.extend(results.into_iter().chain(last.iter().flatten().cloned()));
        lines
    }

    fn indented(&self, text: &str) -> Vec<String> {
        let lines = wrap(text, self.layout.text() - 4);
        lines.iter().enumerate().map(|(at, line)| format!("{}{line}", if at == 0 { "  " } else { "    " })).collect()
    }

    /// A command is on a line of its own, so that it can be copied. Only the first step is the next one.
    fn step(&self, at: usize, step: &NextStep) -> Vec<String> {
        let heading = if at == 0 { "Next" } else { "Also" };
        let Some(command) = &step.command else { return self.item(heading, &format!("{}.", step.text)) };
        let command = command.replacen("bytegauge ", &format!("{} ", self.program), 1);
        let mut lines = self.item(heading, &format!("{}:", step.text));
        lines.extend(command_lines(&command, self.layout.text() - 4).iter().map(|line| format!("    {line}")));
        lines
    }

    /// `  Heading: text`, its further lines indented.
    fn item(&self, heading: &str, text: &str) -> Vec<String> {
        let phrases = wrap(&format!("{heading}: {text}"), self.layout.text() - 4);
        let prefix = format!("{heading}:");
        let named = phrases.iter().enumerate().map(|(at, line)| match (at, line.strip_prefix(&prefix)) {
            (0, Some(rest)) => format!("  {}{rest}", self.layout.paint.bold(&prefix)),
            (0, None) => format!("  {line}"),
            _ => format!("    {line}"),
        });
        named.collect()
    }
}
