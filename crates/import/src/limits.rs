//! The limits of every import, whatever its format: checked where data come in, before and after they are parsed.

use bytegauge_model::Outcome;
use bytegauge_store::SessionData;

use super::{ImportDraft, ImportError};

/// Longest text of a name, value or reason, bytes: a path (PATH_MAX).
pub(super) const FIELD_MAX: usize = 4096;

/// Longest line of a table, bytes. A line of an export may be longer.
const LINE_MAX: usize = 64 << 10;

/// Most columns of a table.
pub(super) const COLUMNS_MAX: usize = 1_000;

/// Most options of a session: a report of more takes minutes.
const OPTIONS_MAX: usize = 5_000;

/// Most rows of a table: each takes 1 to 3 KiB of memory.
const RESULTS_MAX: usize = 300_000;

/// Longest JSON of all settings of an option, bytes.
const SETTINGS_MAX: usize = 64 << 10;

/// Refuses text with a line that is too long.
pub(super) fn check_lines(text: &str) -> Result<(), ImportError> {
    let is_json = text.trim_start().starts_with('{');
    match text.lines().enumerate().find(|(_, line)| !is_json && line.len() > LINE_MAX) {
        None => Ok(()),
        Some((at, line)) => {
            let reason = format!("it has {} bytes, where {LINE_MAX} are the most", line.len());
            Err(ImportError::Line { line: at as u64 + 1, reason })
        }
    }
}

/// Refuses a session with too many options, or with longer texts than any that a report shows.
pub(super) fn check(draft: &ImportDraft) -> Result<(), ImportError> {
    let ImportDraft { whole: SessionData { record, groups, cells, trials, .. }, warnings } = draft;
    within("options", cells.len(), OPTIONS_MAX)?;
    let field = |len: usize| within("bytes in a field", len, FIELD_MAX);
    field(record.plan_name.len())?;
    record.notes.iter().chain(warnings).try_for_each(|text| field(text.len()))?;
    for group in groups {
        field(group.group.id.0.len())?;
        settings(&group.group.factors)?;
    }
    for row in cells {
        field(row.cell.id.0.len())?;
        field(row.outcome.as_ref().and_then(Outcome::reason).map_or(0, str::len))?;
        settings(&row.cell.factors)?;
    }
    trials.iter().try_for_each(|trial| field(trial.outcome.reason().map_or(0, str::len)))
}

/// Refuses too many options or results of a table, as soon as they are found.
pub(super) fn table(options: usize, results: usize) -> Result<(), ImportError> {
    within("options", options, OPTIONS_MAX)?;
    within("results", results, RESULTS_MAX)
}

/// Refuses a number above a limit.
pub(super) fn within(what: &'static str, found: usize, most: usize) -> Result<(), ImportError> {
    if found > most { Err(ImportError::TooMany { what, most }) } else { Ok(()) }
}

/// Refuses settings of an option or a test with a long name or value, or with too many of them.
fn settings(factors: &impl serde::Serialize) -> Result<(), ImportError> {
    let settings = serde_json::to_value(factors).unwrap_or_default();
    for (name, value) in settings.as_object().into_iter().flatten() {
        within("bytes in a field", name.len().max(value.as_str().map_or(0, str::len)), FIELD_MAX)?;
    }
    within("bytes of settings", settings.to_string().len(), SETTINGS_MAX)
}
