//! A session as markdown: the summary, one table a test, findings, environment and notes.
//!
//! Lines are made by `heading`, `paragraph`, `item` and `row` alone, which escape their text.

use bytegauge_model::escape;

use bytegauge_report::View;
use bytegauge_report::render::cell_text::call_noun;
use bytegauge_report::render::details;
use bytegauge_report::render::screen::table::{columns, mark, rows};
use bytegauge_report::render::texts::heading_of;
use bytegauge_report::view::document::{OptionStatus, Test};
use bytegauge_text::interval_rounding::percent;
use bytegauge_text::phrase::capital;

/// The whole report.
pub fn render(view: &View) -> String {
    let mut out = vec![heading(1, &format!("bytegauge: {}, session {}", view.plan.name, view.session)), String::new()];
    out.push(paragraph(&format!("{} · {} · bytegauge {}", view.started, view.status.name(), view.version)));
    out.push(String::new());
    out.extend(view.summary.iter().map(|line| item(&format!("{}: {}", line.heading, line.text))));
    for step in &view.next {
        let command = step.command.as_ref().map_or_else(String::new, |command| format!(": {command}"));
        out.push(item(&format!("Next: {}{command}", step.text)));
    }
    for test in &view.tests {
        out.push(String::new());
        out.extend(self::test(view, test));
    }
    if !view.findings.is_empty() {
        out.extend([String::new(), heading(2, "Findings"), String::new()]);
        let phrases = view.findings.iter().map(|finding| (heading_of(finding), &finding.text));
        out.extend(phrases.map(|(name, text)| item(&format!("{name}: {text}"))));
    }
    out.push(String::new());
    let grade = view.environment.grade.map_or_else(|| "not known".into(), String::from);
    out.push(heading(2, &format!("Environment {grade}")));
    out.push(String::new());
    out.extend(view.environment.reasons.iter().map(|reason| item(reason)));
    if let Some(ns) = view.floor.ns_per_call {
        let call = call_noun(view);
        let share =
            view.floor.share.map_or_else(String::new, |s| format!(", {} of the least time per {call}", percent(s)));
        out.push(item(&format!("harness: {ns:.1} ns a {call}{share}")));
    }
    out.extend(view.notes.iter().map(|note| item(note)));
    out.join("\n") + "\n"
}

fn test(view: &View, test: &Test) -> Vec<String> {
    let mut out = vec![heading(2, &format!("{} ({})", test.title, test.id)), String::new()];
    out.push(paragraph(&format!("{}.", capital(&test.result))));
    let (rows, _) = rows(test, true);
    if !rows.is_empty() {
        let columns = columns(test, &rows, true, &view.tests);
        out.push(String::new());
        out.push(row(["option"].into_iter().chain(columns.iter().map(|column| column.heading.as_str())).chain([""])));
        let rules: Vec<&str> = columns.iter().map(|column| if column.right { " ---: |" } else { " --- |" }).collect();
        out.push(format!("| --- |{} --- |", rules.concat()));
        for (at, option) in rows.iter().enumerate() {
            let texts = columns.iter().map(|column| column.texts[at].as_str());
            let mark = mark(test, option, true);
            out.push(row([option.label.as_str()].into_iter().chain(texts).chain([mark.as_str()])));
        }
    }
    let unmeasured = test.options.iter().filter(|option| option.status >= OptionStatus::Skipped);
    let phrases: Vec<String> = unmeasured
        .map(|option| format!("{}: {}", option.label, option.reason.as_deref().unwrap_or("not measured")))
        .chain(counted(view, test))
        .collect();
    if !phrases.is_empty() {
        out.push(String::new());
        out.extend(phrases.iter().map(|text| item(text)));
    }
    out
}

/// Counts other than rates.
fn counted(view: &View, test: &Test) -> Vec<String> {
    let Some(group) = view.groups.iter().find(|group| group.id == test.id) else { return Vec::new() };
    details::counts(view, group)
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
