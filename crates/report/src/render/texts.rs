//! The tables and lines of the full screen as data: the page shows the same texts. Nothing else of the document has them.

use std::collections::BTreeSet;

use bytegauge_model::CellId;
use serde::Serialize;

use super::screen::table::{ScreenColumn, columns, cpu_explained, facts, legend, mark, methods, rows, without_result};
use super::screen::{overview, result_heading};
use crate::View;
use crate::interval_rounding::percent;
use crate::phrase;
use crate::view::document::{Finding, SummaryLine, Test};
use crate::view::results::summary::{self, Heading};

/// The page as `page/` builds it: `cargo xtask page`.
pub const PAGE: &str = include_str!("../../page/page.html");

/// If a test has more options, only those with an interval have a row.
const OPTIONS_MAX: usize = 12;
/// The most rows of a table: the page has another one with every cell.
const ROWS_MAX: usize = 48;

/// The texts of a session.
#[derive(Serialize)]
pub struct ScreenTexts<'a> {
    /// The heading of what to use, and how sure it is.
    result: (&'static str, String),
    /// The lines of the summary with what to use.
    results: Vec<&'a SummaryLine>,
    /// Those with the reasons: the biggest effect, and what limits.
    reasons: Vec<&'a SummaryLine>,
    /// The others.
    facts: Vec<&'a SummaryLine>,
    /// The headings of one row for each test.
    overview_head: Vec<&'static str>,
    /// The rows, in the order of the tests.
    overview: Vec<Vec<String>>,
    /// The meaning of intervals, marks and columns: a name, and a text.
    legend: Vec<(&'static str, String)>,
    /// The quantity in each column of CPU time.
    units: BTreeSet<&'static str>,
    /// The tests, in the order of the document.
    tests: Vec<TestTexts<'a>>,
    /// The findings that are no results, under their headings.
    findings: Vec<(String, Vec<String>)>,
}

/// The table and the lines of a test.
#[derive(Serialize)]
struct TestTexts<'a> {
    /// The options with a row.
    rows: Vec<&'a CellId>,
    /// How many options with a rate have no row.
    hidden: usize,
    /// The columns; the last one compares with the best option.
    columns: Vec<ScreenColumn>,
    /// Why the option of each row is recommended; empty if it is not.
    marks: Vec<String>,
    /// Whether the intervals are multiples, not percentages.
    multiples: bool,
    /// Options without a result, and why.
    without_result: Vec<String>,
    /// The lines below: a heading, and a text.
    facts: Vec<(&'static str, String)>,
    /// Counts and costs, a sentence each.
    details: Vec<String>,
}

impl<'a> ScreenTexts<'a> {
    /// The texts of a session.
    pub fn of(view: &'a View) -> ScreenTexts<'a> {
        let (overview_head, overview) = overview::whole(view);
        let (results, others): (Vec<_>, Vec<_>) = view.summary.iter().partition(|line| line.is_result);
        let (reasons, facts) = others.into_iter().partition(|line| summary::is_reason(line));
        ScreenTexts {
            result: sure_heading(view),
            results,
            reasons,
            facts,
            overview_head,
            overview,
            legend: legend(&view.tests, view.scale, true).into_iter().chain(methods(&view.tests)).collect(),
            units: view.tests.iter().filter_map(cpu_explained).collect(),
            tests: view.tests.iter().map(|test| TestTexts::of(view, test)).collect(),
            findings: findings(view),
        }
    }
}

/// The heading of what to use, and how sure it is: also of a single test, whose line above a prompt has no room for it.
fn sure_heading(view: &View) -> (&'static str, String) {
    let (heading, sure) = result_heading(view);
    let is_compared = view.tests.iter().any(|test| test.options.iter().any(|option| option.slower_upper.is_some()));
    let level = || format!(" ({} confidence)", percent(view.plan.level));
    (heading, if sure.is_empty() && is_compared { level() } else { sure })
}

/// The heading of a finding, as a report prints it.
pub fn heading_of(finding: &Finding) -> &'static str {
    Heading::of(finding).name()
}

/// The findings that are no results, under their headings, which are in the order of their first findings.
fn findings(view: &View) -> Vec<(String, Vec<String>)> {
    let others = view.findings.iter().filter(|finding| !Heading::of(finding).is_result());
    phrase::grouped(others.map(|finding| (heading_of(finding).to_owned(), finding.text.clone())))
}

impl<'a> TestTexts<'a> {
    fn of(view: &View, test: &'a Test) -> TestTexts<'a> {
        let (mut rows, _) = rows(test, test.options.len() <= OPTIONS_MAX);
        rows.truncate(ROWS_MAX);
        let rated = test.options.iter().filter(|option| option.rate.is_some()).count();
        let group = view.group(&test.id);
        TestTexts {
            columns: columns(test, &rows, true, &view.tests),
            hidden: rated - rows.len(),
            marks: rows.iter().map(|row| mark(test, row, true)).collect(),
            multiples: view.scale.multiples,
            rows: rows.iter().map(|row| &row.id).collect(),
            without_result: without_result(test),
            facts: facts(test, &view.tests, view.scale),
            details: group.map_or_else(Vec::new, |group| super::details::lines(view, group)),
        }
    }
}
