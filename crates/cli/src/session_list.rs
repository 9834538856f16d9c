//! The list of sessions in a store.

use bytegauge_model::SessionStatus;
use bytegauge_model::unit::Nanos;
use bytegauge_report::view::rfc3339;
use bytegauge_report::words::paint::{Paint, TerminalStyle, wrap};
use bytegauge_store::SessionSummary;
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table};

/// A session of the list.
#[derive(Clone, Debug)]
pub struct ListedSession {
    /// The line of the store.
    pub summary: SessionSummary,
    /// The time of its pauses, nanoseconds.
    pub paused_ns: u64,
}

impl ListedSession {
    /// The status, which is `failed` where no option of a whole session has a result.
    fn status(&self) -> &'static str {
        match self.summary.status {
            SessionStatus::Complete if !self.summary.has_result => "failed",
            status => status.name(),
        }
    }
}

/// The columns that may be hidden.
const VERSION: usize = 8;
const SAVED: usize = 9;

/// One line per session, the newest first as in the store.
pub fn render(sessions: &[ListedSession], style: &TerminalStyle) -> String {
    let paint = Paint(style.colour);
    if sessions.is_empty() {
        return "no sessions yet: run `bytegauge run buffer-size`\n".into();
    }
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header([
        "ID",
        "started (UTC)",
        "took",
        "status",
        "plan",
        "tests",
        "options",
        "trials",
        "version",
        "saved as",
    ]);
    for listed in sessions {
        let session = &listed.summary;
        let started = rfc3339(session.started_unix_ns).replace('T', " ");
        let took = session
            .finished_unix_ns
            .and_then(|end| end.checked_sub(session.started_unix_ns)?.checked_sub(listed.paused_ns));
        let imported = session.imported && session.status.name() != "imported";
        table.add_row([
            session.id.to_string(),
            started.trim_end_matches('Z').to_owned(),
            took.map_or_else(|| "–".into(), |ns| Nanos(ns).to_string()),
            format!("{}{}", listed.status(), if imported { ", imported" } else { "" }),
            session.plan_name.clone(),
            session.groups.to_string(),
            session.cells.to_string(),
            session.trials.to_string(),
            session.version.clone(),
            session.saved.clone().unwrap_or_default(),
        ]);
    }
    let hide = |table: &mut Table, index: usize| {
        if let Some(column) = table.column_mut(index) {
            column.set_constraint(ColumnConstraint::Hidden);
        }
    };
    // A column without any entry is left out, and that of versions where it has no room.
    if sessions.iter().all(|listed| listed.summary.saved.is_none()) {
        hide(&mut table, SAVED);
    }
    if table.lines().any(|line| line.trim_end().chars().count() > style.columns) {
        hide(&mut table, VERSION);
    }
    for index in [0, 2, 5, 6, 7] {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    if let Some(head) = lines.first_mut() {
        *head = paint.dim(head);
    }
    lines.push(String::new());
    let legend = "took: without pauses; complete: the planned analysis is done, and --resume continues with the next one; failed: no option has a result";
    lines.extend(wrap(legend, style.columns.clamp(60, 100)).iter().map(|line| paint.dim(line)));
    lines.push(paint.dim(&format!("{} report ID prints one again", style.program)));
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use bytegauge_model::SessionId;

    use super::*;

    #[test]
    fn sessions_are_listed() {
        let summary = SessionSummary {
            id: SessionId(3),
            started_unix_ns: 1_763_756_269_000_000_000,
            finished_unix_ns: Some(1_763_756_330_500_000_000),
            status: SessionStatus::Complete,
            plan_name: "buffer-size".into(),
            workload: "stream".into(),
            version: "0.1.0".into(),
            imported: false,
            saved: None,
            groups: 6,
            cells: 132,
            trials: 2400,
            has_result: true,
        };
        let style = TerminalStyle::default();
        let listed = |summary: &SessionSummary| ListedSession { summary: summary.clone(), paused_ns: 0 };
        let text = render(&[listed(&summary)], &style);
        assert!(text.contains(" 3  2025-11-21 20:17:49  61.5 s  complete  buffer-size"), "{text}");
        assert!(!text.contains("saved as"), "{text}");
        let saved = SessionSummary { saved: Some("before-1.2".into()), ..summary.clone() };
        let wide = TerminalStyle { columns: 120, ..TerminalStyle::default() };
        let text = render(&[listed(&summary), listed(&saved)], &wide);
        assert!(text.contains("saved as") && text.contains("0.1.0    before-1.2"), "{text}");
        let narrow = TerminalStyle { columns: 80, ..TerminalStyle::default() };
        let text = render(&[listed(&summary)], &narrow);
        assert!(text.lines().all(|line| line.chars().count() <= 80) && !text.contains("0.1.0"), "{text}");
        let text = render(&[listed(&SessionSummary { has_result: false, ..summary })], &style);
        assert!(text.contains("61.5 s  failed") && !text.contains("s  complete"), "{text}");
        assert_eq!(render(&[], &style), "no sessions yet: run `bytegauge run buffer-size`\n");
    }
}
