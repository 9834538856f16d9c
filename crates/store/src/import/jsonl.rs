//! Reads our own JSON lines: the session is rebuilt as it was, under a new number.

use std::collections::HashSet;

use bytegauge_model::{CellId, GroupId};

use crate::cell::{CellRow, GroupRow};
use crate::line::{self, Line};

use super::{Draft, Format, ImportError};

/// Parses an export.
pub(super) fn parse(text: &str, map: &[(String, String)]) -> Result<Draft, ImportError> {
    if let Some((ours, theirs)) = map.first().cloned() {
        return Err(ImportError::MapUseless { ours, theirs, format: Format::JsonLines });
    }
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let mut draft = match lines.next() {
        Some((number, line)) => first(number, line)?,
        None => return Err(ImportError::Empty),
    };
    let mut groups: HashSet<GroupId> = HashSet::new();
    let mut cells: HashSet<CellId> = HashSet::new();
    for (number, line) in lines {
        let wrong = |reason: String| ImportError::Line { line: number, reason };
        let needs_group = |groups: &HashSet<GroupId>, group: &GroupId| match groups.contains(group) {
            true => Ok(()),
            false => Err(wrong(format!("group {group} has no line before this one"))),
        };
        match serde_json::from_str(line).map_err(|error| wrong(error.to_string()))? {
            Line::Session { .. } => return Err(wrong("a second session begins here; import one at a time".into())),
            Line::Group { group, facts } => {
                groups.insert(group.id.clone());
                draft.groups.push(GroupRow { group, facts });
            }
            Line::Cell { cell, outcome } => {
                needs_group(&groups, &cell.group)?;
                cells.insert(cell.id.clone());
                draft.cells.push(CellRow { cell, outcome });
            }
            Line::Block { block } => {
                needs_group(&groups, &block.group)?;
                draft.blocks.push(block);
            }
            Line::Trial { trial } => {
                if !cells.contains(&trial.cell) {
                    return Err(wrong(format!("cell {} has no line before this one", trial.cell)));
                }
                draft.trials.push(*trial);
            }
        }
    }
    Ok(draft)
}

/// The first line says what the rest is.
fn first(number: u64, line: &str) -> Result<Draft, ImportError> {
    let wrong = |reason: String| ImportError::Line { line: number, reason };
    let value: serde_json::Value = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
    // Before anything else is read: a newer header may hold what this version cannot parse.
    match value["schema_version"].as_u64() {
        Some(found) if found > line::VERSION => return Err(ImportError::Newer { found, known: line::VERSION }),
        Some(_) if value["kind"] == "session" => {}
        _ => return Err(wrong("it is not the first line of `bytegauge export --format jsonl`".into())),
    }
    match serde_json::from_value(value).map_err(|error| wrong(error.to_string()))? {
        Line::Session { session, .. } => Ok(Draft {
            session,
            groups: Vec::new(),
            cells: Vec::new(),
            blocks: Vec::new(),
            trials: Vec::new(),
            warnings: Vec::new(),
        }),
        _ => Err(wrong("it is not the first line of `bytegauge export --format jsonl`".into())),
    }
}
