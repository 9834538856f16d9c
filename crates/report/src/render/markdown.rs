//! A session as markdown: verdicts, one table a group, environment and notes.
//!
//! Lines are made by `heading`, `paragraph`, `item` and `row` alone, which escape their text.

use bytegauge_model::escape;

use super::cell_text::{Marks, call_noun};
use super::overview::{Grid, Overview};
use super::table::{columns, rows};
use crate::View;
use crate::sentence::percent;
use crate::view::document::GroupView;
use crate::view::{link, relays};

/// The whole report.
pub fn render(view: &View) -> String {
    let mut out = vec![heading(1, &format!("bytegauge: {}, session {}", view.plan.name, view.session)), String::new()];
    out.push(paragraph(&format!("{} · {} · bytegauge {}", view.started, view.status.name(), view.version)));
    out.push(String::new());
    if let Some(overview) = Overview::of(view) {
        out.push(paragraph(&overview.legend));
        for grid in &overview.grids {
            out.push(String::new());
            out.extend(self::grid(grid));
        }
        out.push(String::new());
    }
    // Of two the verdict says it.
    let gain = view.answer.gain.iter().filter(|_| view.versus.is_none());
    out.extend(gain.map(|text| item(text)));
    out.extend(view.verdicts.iter().map(|verdict| item(&verdict.recommendation.text)));
    for group in &view.groups {
        out.push(String::new());
        out.extend(self::group(view, group));
    }
    out.push(String::new());
    let grade = view.environment.grade.map_or_else(|| "not known".into(), String::from);
    out.push(heading(2, &format!("Environment {grade}")));
    out.push(String::new());
    out.extend(view.environment.reasons.iter().map(|reason| item(reason)));
    if let Some(ns) = view.floor.ns_per_call {
        let call = call_noun(view);
        let share =
            view.floor.share.map_or_else(String::new, |s| format!(", {} of the fastest real {call}", percent(s)));
        out.push(item(&format!("harness: {ns:.1} ns a {call}{share}")));
    }
    out.extend(view.notes.iter().map(|note| item(note)));
    out.join("\n") + "\n"
}

fn grid(grid: &Grid) -> Vec<String> {
    let named = |name: &str, fields: &[String]| row([name].into_iter().chain(fields.iter().map(String::as_str)));
    let title = (!grid.title.is_empty()).then(|| format!("**{}**\n", escape(&grid.title)));
    let head = [named(&grid.corner, &grid.columns), format!("| --- |{}", " --- |".repeat(grid.columns.len()))];
    title.into_iter().chain(head).chain(grid.rows.iter().map(|(name, fields)| named(name, fields))).collect()
}

fn group(view: &View, group: &GroupView) -> Vec<String> {
    let mut out = vec![heading(2, &format!("{} ({})", group.label, group.id)), String::new()];
    out.push(paragraph(&group.recommendation.text));
    let rows = rows(view, group);
    if rows.cells.is_empty() {
        return out;
    }
    let columns = columns(view, group);
    let marks = Marks::of_group(view, group);
    out.push(String::new());
    out.push(row([""].into_iter().chain(columns.iter().map(|column| column.heading.as_str()))));
    let rules: Vec<&str> = columns.iter().map(|column| if column.right { " ---: |" } else { " --- |" }).collect();
    out.push(format!("| --- |{}", rules.concat()));
    for cell in &rows.cells {
        let texts: Vec<String> = columns.iter().map(|column| column.text(cell)).collect();
        out.push(row([marks.of(cell).symbol().trim()].into_iter().chain(texts.iter().map(String::as_str))));
    }
    let mut further = super::calls::lines(&rows, &marks);
    further.extend(super::rings::lines(view, group, &rows, &marks));
    further.extend(relays::lines(view, group));
    further.extend(link::lines(group));
    if !further.is_empty() {
        out.push(String::new());
        out.extend(further.iter().map(|text| item(text)));
    }
    if rows.left_out > 0 {
        out.push(format!("\n{} more cells: `--format csv`", rows.left_out));
    }
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
