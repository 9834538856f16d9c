//! Reads our own JSON lines: the session is rebuilt as it was, under a new number.

use std::collections::HashSet;

use bytegauge_model::{CellId, EndRole, GroupId, Side, Workload};
use serde_json::{Map, Value};

use bytegauge_store::export::{self, ExchangeLine};
use bytegauge_store::{CellRow, GroupRow, SessionData, column};

use super::{Format, ImportDraft, ImportError};

/// Parses an export of a session: `bytegauge report export`.
pub(super) fn parse(text: &str, map: &[(String, String)]) -> Result<ImportDraft, ImportError> {
    if let Some((ours, theirs)) = map.first() {
        return Err(ImportError::map_without_columns(ours, theirs, Format::JsonLines));
    }
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let (version, mut whole) = match lines.next() {
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
        match read(line, version, &whole.record.workload).map_err(|error| wrong(error.to_string()))? {
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
                whole.cells.push(CellRow { cell, outcome: outcome.map(column::typed) });
            }
            ExchangeLine::Block { block } => {
                needs_group(&groups, &block.group)?;
                whole.blocks.push(block);
            }
            ExchangeLine::Trial { mut trial } => {
                if !cells.contains(&trial.cell) {
                    return Err(wrong(format!("cell {} is not described by an earlier line", trial.cell)));
                }
                trial.outcome = column::typed(trial.outcome);
                whole.trials.push(*trial);
            }
        }
    }
    Ok(ImportDraft { whole, warnings: Vec::new() })
}

/// Reads the header line.
fn first(number: u64, line: &str) -> Result<(u64, SessionData), ImportError> {
    let wrong = |reason: String| ImportError::Line { line: number, reason };
    let value: Value = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
    // Before anything else is read: a newer header may hold what this version cannot parse.
    let version = match value["schema_version"].as_u64() {
        Some(found) if found > export::VERSION => return Err(ImportError::Newer { found, known: export::VERSION }),
        Some(found) if value["kind"] == "session" => found,
        _ => return Err(wrong("it is not the first line of `bytegauge report export --format jsonl`".into())),
    };
    match serde_json::from_value(value).map_err(|error| wrong(error.to_string()))? {
        ExchangeLine::Session { session, .. } => {
            let (groups, cells, blocks, trials) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
            Ok((version, SessionData { record: session, groups, cells, blocks, trials }))
        }
        _ => Err(wrong("it is not the first line of `bytegauge report export --format jsonl`".into())),
    }
}

/// A line of this version or an earlier one.
fn read(line: &str, version: u64, workload: &str) -> serde_json::Result<ExchangeLine> {
    if version >= TWO_ENDS_UNTIL {
        return serde_json::from_str(line);
    }
    let mut value: Value = serde_json::from_str(line)?;
    match value["kind"].as_str() {
        Some("trial") => by_role(&mut value["trial"], workload.parse().unwrap_or_default()),
        // Earlier versions had only one kind of path: a fresh one.
        Some("group") => value["facts"]["age"] = "fresh".into(),
        _ => {}
    }
    serde_json::from_value(value)
}

/// The first version whose trials have ends by role.
const TWO_ENDS_UNTIL: u64 = 3;

/// A trial of two ends, as it would be written today.
fn by_role(trial: &mut Value, workload: Workload) {
    let Some(fields) = trial.as_object_mut() else { return };
    let mut ends = Map::new();
    let mut cpus = Map::new();
    let pinned = fields.remove("cpus").unwrap_or_default();
    for (index, (name, side)) in [("source", Side::Source), ("sink", Side::Sink)].into_iter().enumerate() {
        let report = fields.remove(name).filter(|report| !report.is_null());
        let Some(role) = workload.end(side) else { continue };
        ends.extend(report.map(|report| (role.name().to_owned(), report)));
        cpus.extend(pinned.get(index).map(|cpu| (role.name().to_owned(), cpu.clone())));
    }
    let competing = fields.remove("competing").filter(|report| !report.is_null());
    ends.extend(competing.map(|report| (EndRole::Competitor.name().to_owned(), report)));
    fields.insert("workload".into(), workload.to_string().into());
    fields.insert("ends".into(), ends.into());
    fields.insert("cpus".into(), cpus.into());
}
