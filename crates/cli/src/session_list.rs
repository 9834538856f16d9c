//! The list of sessions in a store.

use bytegauge_model::SessionStatus;
use bytegauge_model::unit::Nanos;
use bytegauge_report::view::rfc3339;
use bytegauge_report::words::paint::{Paint, TerminalStyle, wrap};
use bytegauge_report::words::table::{self, Column};
use bytegauge_store::SessionSummary;

/// The status as it is shown.
fn status(session: &SessionSummary) -> String {
    let SessionSummary { status, has_result, imported, .. } = *session;
    let name = if status == SessionStatus::Complete && !has_result { "failed" } else { status.name() };
    let imported = imported && status != SessionStatus::Imported;
    format!("{name}{}", if imported { ", imported" } else { "" })
}

/// The time from the begin to the end.
fn took(session: &SessionSummary) -> String {
    let took = session.finished_unix_ns.and_then(|end| end.checked_sub(session.started_unix_ns));
    took.map_or_else(|| "–".into(), |ns| Nanos(ns).to_string())
}

/// A heading, whether its texts align right, and the text of a session.
type ListColumn = (&'static str, bool, fn(&SessionSummary) -> String);

const COLUMNS: [ListColumn; 10] = [
    ("ID", true, |own| own.id.to_string()),
    ("started (UTC)", false, |own| rfc3339(own.started_unix_ns).replace('T', " ").trim_end_matches('Z').to_owned()),
    ("took", true, took),
    ("status", false, status),
    ("plan", false, |own| own.plan_name.clone()),
    ("tests", true, |own| own.groups.to_string()),
    ("options", true, |own| own.cells.to_string()),
    ("trials", true, |own| own.trials.to_string()),
    (VERSION, false, |own| own.version.clone()),
    (SAVED, false, |own| own.saved.clone().unwrap_or_default()),
];

/// The columns that may be hidden.
const VERSION: &str = "version";
const SAVED: &str = "saved as";

/// One line per session, the newest first as in the store.
pub fn render(sessions: &[SessionSummary], style: &TerminalStyle) -> String {
    let paint = Paint(style.colour);
    if sessions.is_empty() {
        return "no sessions yet: run `bytegauge run buffer-size`\n".into();
    }
    let mut columns = COLUMNS.map(|(heading, right, text)| Column::of(heading, right, sessions, text)).to_vec();
    // A column without any entry is left out, and that of versions where it has no room.
    columns.retain(|column| column.heading != SAVED || column.texts.iter().any(|text| !text.is_empty()));
    let width = |columns: &[Column]| columns.iter().map(|column| column.width() + 2).sum::<usize>();
    if width(&columns) > style.columns + 2 {
        columns.retain(|column| column.heading != VERSION);
    }
    let mut lines = table::lines(&columns);
    if let Some(head) = lines.first_mut() {
        *head = paint.dim(head);
    }
    lines.push(String::new());
    let legend = "took: from the begin to the end, with pauses of a resumed session; complete: the planned analysis is done, and --resume continues with the next one; failed: no option has a result";
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
        let text = render(std::slice::from_ref(&summary), &style);
        assert!(text.contains(" 3  2025-11-21 20:17:49  61.5 s  complete  buffer-size"), "{text}");
        assert!(!text.contains("saved as"), "{text}");
        let saved = SessionSummary { saved: Some("before-1.2".into()), ..summary.clone() };
        let wide = TerminalStyle { columns: 120, ..TerminalStyle::default() };
        let text = render(&[summary.clone(), saved], &wide);
        assert!(text.contains("saved as") && text.contains("0.1.0    before-1.2"), "{text}");
        let narrow = TerminalStyle { columns: 80, ..TerminalStyle::default() };
        let text = render(std::slice::from_ref(&summary), &narrow);
        assert!(text.lines().all(|line| line.chars().count() <= 80) && !text.contains("0.1.0"), "{text}");
        let text = render(&[SessionSummary { has_result: false, ..summary }], &style);
        assert!(text.contains("61.5 s  failed") && !text.contains("s  complete"), "{text}");
        assert_eq!(render(&[], &style), "no sessions yet: run `bytegauge run buffer-size`\n");
    }
}
