//! Arranges the rows of a table as groups, cells and blocks.
//!
//! Rows that agree in every condition form a group; rows that also agree in every other factor form a cell. The nth row
//! of each cell of a group is its nth block. Numbers of blocks in the table are kept.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::{SystemTime, UNIX_EPOCH};

use bytegauge_model::factor::Role;
use bytegauge_model::session::Surroundings;
use bytegauge_model::{
    BlockRecord, Cell, CellId, CellKind, Group, GroupId, SessionRecord, SessionStatus, Spec, Stage, Trial, Workload,
};
use bytegauge_store::{CellRow, GroupRow, SessionData};
use serde_json::Map;

use super::observation::{Observation, Shelf};
use super::{ImportDraft, ImportError};

/// The margin of "within 5 % of the best", as in the plans.
const MARGIN: f64 = 0.05;

/// Builds a session from the rows of a table, whose levels are on the shelf.
pub(super) fn arrange(
    rows: Vec<Observation>,
    shelf: Shelf,
    name: Option<String>,
    warnings: Vec<String>,
) -> Result<ImportDraft, ImportError> {
    if rows.is_empty() {
        return Err(ImportError::Empty);
    }
    let found = GroupsAndCells::of(shelf);
    let group_of = &found.group_of;
    let numbers = block_numbers(&rows, group_of);
    let visits = rows.iter().map(|row| (row.block.unwrap_or(0), group_of[row.cell], row.cell));
    let serial = in_one_go(visits.collect());

    // The block, and its cells.
    let mut blocks: BTreeMap<u64, (usize, HashSet<usize>)> = BTreeMap::new();
    let mut trials = Vec::with_capacity(rows.len());
    for (row, number) in rows.into_iter().zip(numbers) {
        let (_, cells) = blocks.entry(number).or_insert_with(|| (group_of[row.cell], HashSet::new()));
        let (position, id) = (cells.len() as u32, found.cells[row.cell].cell.id.clone());
        if !cells.insert(row.cell) {
            let reason = format!("cell {id} is twice in block {number}; without a block column rows are numbered");
            return Err(ImportError::Line { line: row.line, reason });
        }
        trials.push(Trial { cell: id, block: number, position, ..row.trial });
    }
    let block = |(index, (group, cells)): (u64, (usize, HashSet<usize>))| BlockRecord {
        index,
        group: found.groups[group].group.id.clone(),
        stage: Stage::Confirm,
        started_unix_ns: 0,
        complete: cells.len() == found.sizes[group],
        surroundings: Surroundings::default(),
    };
    let blocks = blocks.into_iter().map(block).collect();
    let workload = trials.first().map_or(Workload::default(), |trial| trial.workload);
    let mut session = session(name, workload, &warnings);
    if !serial.is_empty() {
        let ids: Vec<String> = serial.iter().map(|&group| found.groups[group].group.id.to_string()).collect();
        session.notes.push(format!(
            "{}: each option was measured in one go, in the order of the table: a drift of the machine cannot be separated \
             from the choice",
            ids.join(", ")
        ));
    }
    let GroupsAndCells { groups, cells, .. } = found;
    Ok(ImportDraft { whole: SessionData { record: session, groups, cells, blocks, trials }, warnings })
}

/// The groups and cells found.
#[derive(Default)]
struct GroupsAndCells {
    groups: Vec<GroupRow>,
    cells: Vec<CellRow>,
    /// Per cell, its group.
    group_of: Vec<usize>,
    /// Per group, the number of its cells.
    sizes: Vec<usize>,
}

impl GroupsAndCells {
    fn of(shelf: Shelf) -> GroupsAndCells {
        let mut found = GroupsAndCells::default();
        let mut by_conditions: HashMap<Spec, usize> = HashMap::new();
        for factors in shelf.cells {
            let conditions = factors.of_role(Role::Condition);
            let group = *by_conditions.entry(conditions.clone()).or_insert_with(|| {
                let id = GroupId(format!("g{}", found.groups.len()));
                found.groups.push(GroupRow { group: Group { id, factors: conditions }, facts: Map::new() });
                found.sizes.push(0);
                found.groups.len() - 1
            });
            found.sizes[group] += 1;
            found.group_of.push(group);
            let (id, kind) = (CellId(format!("c{}", found.cells.len()).into()), CellKind::Candidate);
            let cell = Cell { id, group: found.groups[group].group.id.clone(), kind, twin_of: None, factors };
            found.cells.push(CellRow { cell, outcome: None });
        }
        found
    }
}

/// Groups of several cells in which no cell was measured again later: effects of time (a CPU that warmed up, a neighbour that
/// became idle) and effects of the options cannot be separated there. `visits` has the block, the group and the cell of each row; rows of
/// a block are taken in the order of the table. Uses only the order, never a result.
fn in_one_go(mut visits: Vec<(u64, usize, usize)>) -> BTreeSet<usize> {
    visits.sort_by_key(|(block, ..)| *block);
    let mut orders: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (_, group, cell) in visits {
        orders.entry(group).or_default().push(cell);
    }
    let serial = |order: &mut Vec<usize>| {
        order.dedup();
        let cells: BTreeSet<usize> = order.iter().copied().collect();
        cells.len() > 1 && cells.len() == order.len()
    };
    orders.into_iter().filter_map(|(group, mut order)| serial(&mut order).then_some(group)).collect()
}

/// The block of every row. The table's own numbers are kept if each belongs to one group. Otherwise, and in tables
/// without numbers, blocks are the repetitions within a group.
fn block_numbers(rows: &[Observation], group_of: &[usize]) -> Vec<u64> {
    let mut owner: HashMap<u64, usize> = HashMap::new();
    let mut is_of_one_group = |row: &Observation| {
        let group = group_of[row.cell];
        row.block.is_some_and(|block| *owner.entry(block).or_insert(group) == group)
    };
    if rows.iter().all(&mut is_of_one_group) {
        return rows.iter().filter_map(|row| row.block).collect();
    }
    let mut repetitions = vec![0; group_of.len()];
    let mut numbers: HashMap<(usize, u64), u64> = HashMap::new();
    let number = |row: &Observation| {
        let label = row.block.unwrap_or(repetitions[row.cell]);
        repetitions[row.cell] += 1;
        let next = numbers.len() as u64;
        *numbers.entry((group_of[row.cell], label)).or_insert(next)
    };
    rows.iter().map(number).collect()
}

fn session(name: Option<String>, workload: Workload, warnings: &[String]) -> SessionRecord {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    SessionRecord {
        started_unix_ns: now,
        finished_unix_ns: Some(now),
        status: SessionStatus::Imported,
        plan_name: name.unwrap_or_else(|| "import".into()),
        workload: workload.to_string(),
        margin: MARGIN,
        version: "unknown".into(),
        notes: warnings.to_vec(),
        imported: true,
        ..SessionRecord::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cells of one group, in the order of the table.
    fn check(rows: &[(u64, usize)], expected: bool) {
        let visits = rows.iter().map(|(block, cell)| (*block, 3, *cell));
        let found = in_one_go(visits.collect());
        assert_eq!(found.contains(&3), expected, "{rows:?}");
    }

    #[test]
    fn repeated_cells_separate_drift_from_effects() {
        check(&[(0, 1), (0, 2), (0, 3)], true);
        check(&[(0, 1), (0, 1), (0, 2), (0, 2)], true);
        check(&[(0, 1), (0, 2), (0, 1), (0, 2)], false);
        // Sorted by cell, but the blocks show another order of measurement.
        check(&[(0, 1), (1, 1), (0, 2), (1, 2)], false);
    }

    #[test]
    fn a_single_cell_is_not_compared() {
        check(&[(0, 1), (0, 1)], false);
    }
}
