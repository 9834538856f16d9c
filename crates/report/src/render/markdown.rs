//! A session as Markdown, in the order of the screen: the sentence, what to set, the matrix, cautions, next steps; then one table for
//! each test, findings, scope, environment and notes.
//!
//! Lines are made by `heading`, `paragraph`, `item` and `row` alone, which escape their text.

use bytegauge_model::escape;

use crate::Report;
use crate::document::{TestTexts, harness_cost};
use crate::results::Test;

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
    let mut out =
        vec![String::new(), row(["test", "set", "rate", "the best"].into_iter()), "| --- | --- | --- | --- |".into()];
    for one in &report.decisions {
        let rate = if one.rate.is_empty() { "–".to_owned() } else { format!("{} {}", one.rate, one.unit) };
        out.push(row([one.name.as_str(), &one.set, &rate, &one.why].into_iter()));
    }
    out
}

fn matrix(report: &Report) -> Vec<String> {
    let Some(matrix) = &report.matrix else { return Vec::new() };
    let columns = matrix.columns.iter().map(String::as_str);
    let rules = " ---: |".repeat(matrix.columns.len());
    let mut out =
        vec![String::new(), row([matrix.heading.as_str()].into_iter().chain(columns)), format!("| --- |{rules}")];
    for line in &matrix.rows {
        let name = format!("{} {}", line.name, line.part);
        out.push(row([name.trim()].into_iter().chain((0..line.cells.len()).map(|at| line.text(at)))));
    }
    out
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
        let headings = texts.columns.iter().map(|column| column.heading.as_str());
        out.push(row(["option"].into_iter().chain(headings).chain([""])));
        let rules: Vec<&str> =
            texts.columns.iter().map(|column| if column.right { " ---: |" } else { " --- |" }).collect();
        out.push(format!("| --- |{} --- |", rules.concat()));
        for (at, option) in texts.rows.iter().enumerate() {
            let Some(option) = test.option(option) else { continue };
            let cells = texts.columns.iter().map(|column| column.texts[at].as_str());
            out.push(row([option.label.as_str()].into_iter().chain(cells).chain([option.status.name()])));
        }
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

/// A row of a table.
fn row<'a>(fields: impl Iterator<Item = &'a str>) -> String {
    fields.fold("|".to_owned(), |row, field| row + " " + &escape(field) + " |")
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
