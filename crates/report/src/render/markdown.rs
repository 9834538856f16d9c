//! A session as markdown: verdicts, one table a group, environment and notes.

use super::cell_text::{Marks, call_noun};
use super::overview::{Grid, Overview};
use super::table::{columns, rows};
use crate::View;
use crate::sentence::percent;
use crate::view::document::GroupView;
use crate::view::{link, relays};

/// The whole report.
pub fn render(view: &View) -> String {
    let mut out = vec![format!("# bytegauge: {}, session {}", view.plan.name, view.session), String::new()];
    out.push(format!("{} · {} · bytegauge {}", view.started, view.status.name(), view.version));
    out.push(String::new());
    if let Some(overview) = Overview::of(view) {
        out.push(escape(&overview.legend));
        for grid in &overview.grids {
            out.push(String::new());
            out.extend(self::grid(grid));
        }
        out.push(String::new());
    }
    // Of two the verdict says it.
    let gain = view.answer.gain.iter().filter(|_| view.versus.is_none());
    out.extend(gain.map(|text| format!("- {}", escape(text))));
    for verdict in &view.verdicts {
        out.push(format!("- {}", escape(&verdict.recommendation.text)));
    }
    for group in &view.groups {
        out.push(String::new());
        out.extend(self::group(view, group));
    }
    out.push(String::new());
    out.push(format!("## Environment {}", view.environment.grade.map_or_else(|| "not known".into(), String::from)));
    out.push(String::new());
    out.extend(view.environment.reasons.iter().map(|reason| format!("- {}", escape(reason))));
    if let Some(ns) = view.floor.ns_per_call {
        let call = call_noun(view);
        let share =
            view.floor.share.map_or_else(String::new, |s| format!(", {} of the fastest real {call}", percent(s)));
        out.push(format!("- harness: {ns:.1} ns a {call}{share}"));
    }
    out.extend(view.notes.iter().map(|note| format!("- {}", escape(note))));
    out.join("\n") + "\n"
}

fn grid(grid: &Grid) -> Vec<String> {
    let row = |name: &str, fields: &[String]| {
        let fields: Vec<String> = fields.iter().map(|text| escape(text)).collect();
        format!("| {} | {} |", escape(name), fields.join(" | "))
    };
    let title = (!grid.title.is_empty()).then(|| format!("**{}**\n", escape(&grid.title)));
    let head = [row(&grid.corner, &grid.columns), format!("| --- |{}", " --- |".repeat(grid.columns.len()))];
    title.into_iter().chain(head).chain(grid.rows.iter().map(|(name, fields)| row(name, fields))).collect()
}

fn group(view: &View, group: &GroupView) -> Vec<String> {
    let mut out = vec![format!("## {} ({})", escape(&group.label), group.id), String::new()];
    out.push(escape(&group.recommendation.text));
    let rows = rows(view, group);
    if rows.cells.is_empty() {
        return out;
    }
    let columns = columns(view, group);
    let marks = Marks::of_group(view, group);
    let cells = |texts: Vec<String>| format!("| {} |", texts.join(" | "));
    out.push(String::new());
    out.push(cells([String::new()].into_iter().chain(columns.iter().map(|column| column.heading.clone())).collect()));
    let rules = columns.iter().map(|column| if column.right { "---:" } else { "---" }.to_owned());
    out.push(cells(["---".to_owned()].into_iter().chain(rules).collect()));
    for cell in &rows.cells {
        let mark = marks.of(cell).symbol().trim().to_owned();
        out.push(cells([mark].into_iter().chain(columns.iter().map(|column| escape(&column.text(cell)))).collect()));
    }
    let mut beside = super::calls::lines(&rows, &marks);
    beside.extend(super::rings::lines(view, group, &rows, &marks));
    beside.extend(relays::lines(view, group));
    beside.extend(link::lines(group));
    if !beside.is_empty() {
        out.push(String::new());
        out.extend(beside.iter().map(|text| format!("- {}", escape(text))));
    }
    if rows.left_out > 0 {
        out.push(format!("\n{} more cells: `--format csv`", rows.left_out));
    }
    out
}

/// A bar would end a field, a star or an underscore would set the type.
fn escape(text: &str) -> String {
    text.replace('|', "\\|").replace('*', "\\*").replace('_', "\\_")
}
