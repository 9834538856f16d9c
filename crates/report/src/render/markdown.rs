//! A session as Markdown, in the order of the screen: the sentence, what to set, the matrix, cautions, next steps; then one table for
//! each test, findings, scope, environment and notes.
//!
//! Lines are made by `heading`, `paragraph`, `item` and `table` alone, which escape their text.

use bytegauge_model::escape;

use crate::Report;
use crate::document::{Decision, MatrixRow, TestTexts, harness_cost};
use crate::results::{OptionResult, Test};
use crate::words::table::Column;

/// The whole report.
pub fn render(report: &Report) -> String {
    let mut out =
        vec![heading(1, &format!("bytegauge: {}, session {}", report.plan.name, report.session)), String::new()];
    out.extend([paragraph(&report.heading), String::new(), paragraph(&report.sentence)]);
    if report.tests.len() > 1 {
        out.extend(decisions(report));
        out.extend(matrix(report));
    }
    out.push(String::new());
    out.extend(report.cautions.iter().map(|text| item(&format!("Caution: {text}"))));
    for step in &report.next {
        let command = step.command.as_ref().map_or_else(String::new, |command| format!(": {command}"));
        out.push(item(&format!("Next: {}{command}", step.text)));
    }
    for (test, texts) in report.tests.iter().zip(&report.texts) {
        out.extend(self::test(test, texts));
    }
    let findings: Vec<String> = report.findings.iter().map(|finding| finding.text.clone()).collect();
    out.extend(section("Findings", &findings));
    out.extend(section("Valid for", &report.scope));
    let quietness = report.environment.quietness().unwrap_or("not known");
    let mut environment: Vec<String> = report.environment.reasons.clone();
    environment.extend(harness_cost(&report.view).map(|cost| format!("harness: {cost}")));
    environment.extend(report.notes.iter().map(ToString::to_string));
    out.extend(section(&format!("Machine: {quietness}"), &environment));
    out.join("\n") + "\n"
}

/// What to set in each test.
fn decisions(report: &Report) -> Vec<String> {
    let rate = |one: &Decision| match one.rate.is_empty() {
        true => "–".to_owned(),
        false => format!("{} {}", one.rate, one.unit),
    };
    let all = &report.decisions;
    let name = Column::of("test", false, all, |one| one.name.clone());
    let set = Column::of("set", false, all, |one| one.set.clone());
    let why = Column::of("the best", false, all, |one| one.why.clone());
    [vec![String::new()], table(&[name, set, Column::of("rate", false, all, rate), why])].concat()
}

fn matrix(report: &Report) -> Vec<String> {
    let Some(matrix) = &report.matrix else { return Vec::new() };
    let name = |row: &MatrixRow| format!("{} {}", row.name, row.part).trim().to_owned();
    let mut columns = vec![Column::of(&matrix.heading, false, &matrix.rows, name)];
    for (at, heading) in matrix.columns.iter().enumerate() {
        columns.push(Column::of(heading, true, &matrix.rows, |row| row.text(at).to_owned()));
    }
    [vec![String::new()], table(&columns)].concat()
}

/// A heading, a rule that aligns numbers right, and a line for each row.
fn table(columns: &[Column]) -> Vec<String> {
    let row = |fields: Vec<&String>| fields.iter().fold("|".to_owned(), |row, field| row + " " + &escape(field) + " |");
    let heading = row(columns.iter().map(|column| &column.heading).collect());
    let rule = columns.iter().map(|column| if column.right { " ---: |" } else { " --- |" }).collect::<String>();
    let rows = 0..columns.first().map_or(0, |column| column.texts.len());
    let rows = rows.map(|at| row(columns.iter().map(|column| &column.texts[at]).collect()));
    [heading, format!("|{rule}")].into_iter().chain(rows).collect()
}

fn section(name: &str, texts: &[String]) -> Vec<String> {
    if texts.is_empty() {
        return Vec::new();
    }
    let head = [String::new(), heading(2, name), String::new()];
    head.into_iter().chain(texts.iter().map(|text| item(text))).collect()
}

fn test(test: &Test, texts: &TestTexts) -> Vec<String> {
    let mut out = vec![String::new(), heading(2, &format!("{} ({})", test.title, test.id)), String::new()];
    if !texts.rows.is_empty() {
        let rows: Vec<&OptionResult> = texts.rows.iter().filter_map(|id| test.option(id)).collect();
        let label = Column::of("option", false, &rows, |row| row.label.clone());
        let status = Column::of("", false, &rows, |row| row.status.name().to_owned());
        out.extend(table(&[&[label], texts.columns.as_slice(), &[status]].concat()));
        out.push(String::new());
    }
    let facts = texts.facts.iter().map(|fact| format!("{}: {}", fact.heading, fact.text));
    let lines = texts.without_result.iter().cloned().chain(facts).chain(texts.details.iter().cloned());
    out.extend(lines.map(|text| item(&text)));
    out
}

fn heading(level: usize, text: &str) -> String {
    format!("{} {}", "#".repeat(level), escape(text))
}

/// A line of its own. A mark at its beginning, which would make it a heading, a list or a quotation, is escaped.
fn paragraph(text: &str) -> String {
    let text = escape(text);
    if text.starts_with(['#', '+', '-', '=']) { format!("\\{text}") } else { text }
}

fn item(text: &str) -> String {
    format!("- {}", escape(text))
}

/// Text within a line, without markup (CommonMark 0.31, section 2.4): no HTML, links, code or emphasis, no end of a field or
/// of the line.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in escape::line(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\\' | '|' | '*' | '_' | '`' | '[' | ']' | '~' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}
