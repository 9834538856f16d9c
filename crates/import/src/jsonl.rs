//! Reads our own JSON lines: the session is rebuilt as it was, under a new number.

use std::collections::HashSet;

use bytegauge_model::{CellId, GroupId};
use bytegauge_store::export::{self, ExchangeLine};
use bytegauge_store::{CellRow, GroupRow, SessionData};
use serde_json::Value;

use super::{ImportDraft, ImportError};

/// Parses an export of a session: `bytegauge report export`.
pub(super) fn parse(text: &str, map: &[(String, String)]) -> Result<ImportDraft, ImportError> {
    if let Some((ours, theirs)) = map.first() {
        return Err(ImportError::map_without_columns(ours, theirs, "jsonl"));
    }
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let mut whole = match lines.next() {
        Some((number, line)) => first(number, line)?,
        None => return Err(ImportError::Empty),
    };
    let mut groups: HashSet<GroupId> = HashSet::new();
    let mut cells: HashSet<CellId> = HashSet::new();
    for (number, line) in lines {
        let wrong = |reason: String| ImportError::Line { line: number, reason };
        let needs_group = |groups: &HashSet<GroupId>, group: &GroupId| match groups.contains(group) {
            true => Ok(()),
            false => Err(wrong(format!("group {group} is not described by an earlier line"))),
        };
        match serde_json::from_str(line).map_err(|error| wrong(error.to_string()))? {
            ExchangeLine::Session { .. } => {
                return Err(wrong("a second session begins here; import one at a time".into()));
            }
            ExchangeLine::Group { group, facts } => {
                groups.insert(group.id.clone());
                whole.groups.push(GroupRow { group, facts });
            }
            ExchangeLine::Cell { cell, outcome } => {
                needs_group(&groups, &cell.group)?;
                cells.insert(cell.id.clone());
                whole.cells.push(CellRow { cell, outcome });
            }
            ExchangeLine::Block { block } => {
                needs_group(&groups, &block.group)?;
                whole.blocks.push(block);
            }
            ExchangeLine::Trial { trial } => {
                if !cells.contains(&trial.cell) {
                    return Err(wrong(format!("cell {} is not described by an earlier line", trial.cell)));
                }
                whole.trials.push(*trial);
            }
        }
    }
    Ok(ImportDraft { whole, warnings: Vec::new() })
}

/// Reads the header line.
fn first(number: u64, line: &str) -> Result<SessionData, ImportError> {
    let wrong = |reason: String| ImportError::Line { line: number, reason };
    let value: Value = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
    // Before anything else is read: a newer header may hold what this version cannot parse.
    let not_first = || wrong("it is not the first line of `bytegauge report export --format jsonl`".into());
    match value["schema_version"].as_u64() {
        Some(found) if found > export::VERSION => return Err(ImportError::Newer { found, known: export::VERSION }),
        Some(export::VERSION) if value["kind"] == "session" => {}
        _ => return Err(not_first()),
    }
    match serde_json::from_value(value).map_err(|error| wrong(error.to_string()))? {
        ExchangeLine::Session { session, .. } => {
            let (groups, cells, blocks, trials) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
            Ok(SessionData { record: session, groups, cells, blocks, trials })
        }
        _ => Err(not_first()),
    }
}
