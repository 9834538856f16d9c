//! What the buffers that rows advise come to in memory, where a program has many connections.

use std::collections::BTreeMap;

use bytegauge_model::Level;
use bytegauge_model::unit::about_bytes;

use super::super::document::{CellView, ChoiceColumn, GroupView, Standing, UseRow, View};
use super::super::footprint::{BUFFERS, Buffer};
use super::levels;
use crate::phrase;

/// Connections that a server may well have: what a buffer comes to with them.
const CONNECTIONS: u64 = 1000;

/// Smaller buffers are no cost worth a line, bytes.
const BUFFER_LARGE: u64 = 256 << 10;

/// The price of the buffers that rows advise, or leave to the kernel; `shown` is the choice that the row of a group shows.
pub fn told<'a>(
    view: &'a View,
    columns: &[ChoiceColumn],
    rows: &[UseRow],
    shown: impl Fn(&'a GroupView) -> Option<&'a CellView>,
) -> Option<String> {
    let groups = advised(rows).filter(|row| !row.one_for_all).flat_map(|row| &row.groups);
    let groups = groups.filter_map(|id| view.groups.iter().find(|group| group.id == *id));
    let cells: Vec<&CellView> = groups.filter_map(shown).collect();
    let told: Vec<String> = asked_for(view, columns, rows).into_iter().chain(left_to_kernel(columns, &cells)).collect();
    (!told.is_empty()).then(|| told.join("; "))
}

/// Of what is not shown to be good nobody is told the price.
fn advised(rows: &[UseRow]) -> impl Iterator<Item = &UseRow> {
    rows.iter().filter(|row| matches!(row.standing, Standing::Proven | Standing::Open))
}

/// What the largest buffer that a row advises comes to with many connections.
fn asked_for(view: &View, columns: &[ChoiceColumn], rows: &[UseRow]) -> Option<String> {
    let connects = |group: &GroupView| {
        let levels = levels(&group.factors);
        levels.transport().is_some_and(bytegauge_model::Transport::two_ended) && view.plan.workload != "check"
    };
    if !view.groups.iter().any(connects) {
        return None;
    }
    let own = |row: &UseRow| -> Option<u64> {
        let sizes = columns.iter().zip(&row.shown).filter(|(column, shown)| {
            matches!(column.factor.as_str(), "read_size" | "write_size") && !shown.starts_with('(')
        });
        sizes.filter_map(|(column, _)| row.choice.get(&column.factor)?.as_u64()).max()
    };
    let largest = advised(rows).filter_map(own).max().filter(|bytes| *bytes >= BUFFER_LARGE)?;
    let all = (largest * CONNECTIONS) as f64;
    // One decimal at most: how many connections there are is not known any better.
    let all = match all < (1_u64 << 29) as f64 {
        true => format!("{:.0} MiB", all / (1_u64 << 20) as f64),
        false => format!("{} GiB", (all / (1_u64 << 30) as f64 * 10.0).round() / 10.0),
    };
    let each = phrase::compact("read_size", &Level::Number(largest));
    let is_smaller = |row: &UseRow| {
        let size = |choice: &BTreeMap<String, serde_json::Value>, name: &str| choice.get(name)?.as_u64();
        ["read_size", "write_size"].iter().any(|name| {
            let own = size(&row.choice, name).filter(|own| *own == largest);
            own.is_some_and(|own| row.ties.iter().any(|tie| size(tie, name).is_some_and(|other| other < own)))
        })
    };
    let ties = match advised(rows).any(is_smaller) {
        true => "; smaller ones may do as well: not told apart",
        false => "",
    };
    Some(format!("{each} × {CONNECTIONS} connections: {all}{ties}"))
}

/// `SO_RCVBUF auto: grew to 6 MiB a connection`: what the kernel had in force at the end of a trial, where rows leave a large
/// buffer to it. A size that is asked for tells its price itself.
fn left_to_kernel(columns: &[ChoiceColumn], cells: &[&CellView]) -> Option<String> {
    let seen = |buffer: &Buffer, cell: &CellView| {
        let levels = levels(&cell.factors);
        let option = cell.counters.options.get(buffer.factor).filter(|_| levels.get(buffer.factor).is_auto())?;
        if buffer.is_of_source(&levels) { &option.source } else { &option.sink }.as_u64()
    };
    let told = |buffer: &Buffer| {
        let column = columns.iter().find(|column| column.factor == buffer.factor)?;
        let sizes = cells.iter().filter_map(|cell| seen(buffer, cell));
        let most = sizes.max().filter(|bytes| *bytes >= BUFFER_LARGE)?;
        Some(format!("{} auto: grew to {} a connection", column.heading, about_bytes(most)))
    };
    let told: Vec<String> = BUFFERS.iter().filter_map(told).collect();
    (!told.is_empty()).then(|| told.join("; "))
}
