//! Arranges the rows of a table as groups, cells and blocks.
//!
//! Rows that agree in every condition form a group; rows that also agree in every other factor form a cell. The nth row
//! of each cell of a group is its nth block. Names and numbers in the table (as in an export of bytegauge) are kept.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytegauge_model::session::Surroundings;
use bytegauge_model::{
    BlockRecord, Cell, CellId, CellKind, Group, GroupId, Outcome, SessionId, SessionRecord, SessionStatus, Spec, Stage,
    Workload,
};
use serde_json::{Map, Value};

use bytegauge_store::{CellRow, GroupRow};

use super::observation::{Observation, conditions};
use super::serial::{self, Visit};
use super::{ImportDraft, ImportError, limits};

/// The margin of "within 5 % of the best", as in the plans.
const MARGIN: f64 = 0.05;

/// Builds a session from the rows of a table.
pub(super) fn arrange(
    rows: Vec<Observation>,
    name: Option<String>,
    warnings: Vec<String>,
) -> Result<ImportDraft, ImportError> {
    if rows.is_empty() {
        return Err(ImportError::Empty);
    }
    let mut found = GroupsAndCells::default();
    let places = rows.iter().map(|row| found.place(row)).collect::<Result<Vec<_>, _>>()?;
    let numbers = block_numbers(&rows, &places);
    let serial = serial::in_one_go(visits(&rows, &places));

    let mut seen: HashSet<(u64, usize)> = HashSet::new();
    let mut blocks: BTreeMap<u64, BlockRecord> = BTreeMap::new();
    let mut measured: BTreeMap<u64, HashSet<usize>> = BTreeMap::new();
    let mut next_positions: HashMap<u64, u32> = HashMap::new();
    let mut trials = Vec::with_capacity(rows.len());
    for ((row, row_place), number) in rows.into_iter().zip(&places).zip(numbers) {
        let mut trial = row.trial;
        if trial.stage == Stage::Confirm && !seen.insert((number, row_place.cell)) {
            let id = &found.cells[row_place.cell].cell.id;
            let reason = format!("cell {id} is twice in block {number}; without a block column rows are numbered");
            return Err(ImportError::Line { line: row.line, reason });
        }
        let next_position = next_positions.entry(number).or_default();
        trial.cell = found.cells[row_place.cell].cell.id.clone();
        trial.block = number;
        trial.position = row.position.unwrap_or(*next_position);
        *next_position += 1;
        if trial.outcome == Outcome::Measured {
            measured.entry(number).or_default().insert(row_place.cell);
        }
        found.stages[row_place.group].entry(trial.stage).or_default().insert(row_place.cell);
        blocks.entry(number).or_insert_with(|| BlockRecord {
            index: number,
            group: found.groups[row_place.group].group.id.clone(),
            stage: trial.stage,
            started_unix_ns: trial.started_unix_ns,
            // Set below if the table does not show it: a block is then complete if every cell was measured in it.
            complete: row.block_complete.unwrap_or(false),
            surroundings: Surroundings::default(),
        });
        if row.block_complete.is_some() {
            found.with_completeness.insert(number);
        }
        trials.push(trial);
    }
    for block in blocks.values_mut().filter(|block| !found.with_completeness.contains(&block.index)) {
        let group = found.groups.iter().position(|row| row.group.id == block.group);
        let expected = group.and_then(|group| found.stages[group].get(&block.stage));
        block.complete = measured.get(&block.index) == expected;
    }
    let workload = trials.first().map_or(Workload::default(), |trial| trial.workload);
    let mut session = session(name, workload, &warnings);
    if !serial.is_empty() {
        let ids: Vec<String> = serial.iter().map(|&group| found.groups[group].group.id.to_string()).collect();
        session.notes.push(serial::note(&ids));
    }
    let GroupsAndCells { groups, cells, .. } = found;
    Ok(ImportDraft { session, groups, cells, blocks: blocks.into_values().collect(), trials, warnings })
}

/// The groups and cells found.
#[derive(Default)]
struct GroupsAndCells {
    groups: Vec<GroupRow>,
    cells: Vec<CellRow>,
    group_by_key: HashMap<GroupKey, usize>,
    cell_by_key: HashMap<(usize, CellKey), usize>,
    /// The place of rows without a group or cell name, by their shared levels.
    places: HashMap<*const Spec, RowPlace>,
    /// Per group, the cells that each stage visits.
    stages: Vec<HashMap<Stage, HashSet<usize>>>,
    /// Blocks for which the table shows whether they are complete.
    with_completeness: HashSet<u64>,
}

/// The group and cell of a row.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct RowPlace {
    group: usize,
    cell: usize,
}

/// The key of a group or cell: a name in the table, or the levels that distinguish it.
#[derive(PartialEq, Eq, Hash)]
enum GroupKey {
    Named(String),
    Conditions(Box<Spec>),
}

#[derive(PartialEq, Eq, Hash)]
enum CellKey {
    Named(String),
    Spec(Box<Spec>),
}

impl GroupsAndCells {
    fn place(&mut self, row: &Observation) -> Result<RowPlace, ImportError> {
        // Rows of one cell share their levels, so a row without names belongs to the group and cell of the previous row
        // with the same levels.
        let unnamed = row.group.is_none() && row.cell.is_none();
        let shared = Rc::as_ptr(&row.factors);
        if let Some(row_place) = self.places.get(&shared).filter(|_| unnamed) {
            return Ok(*row_place);
        }
        let conditions = conditions(&row.factors);
        let key = match &row.group {
            Some(name) => GroupKey::Named(name.clone()),
            None => GroupKey::Conditions(Box::new(conditions.clone())),
        };
        let group = *self.group_by_key.entry(key).or_insert_with(|| {
            let index = self.groups.len();
            let id = GroupId(row.group.clone().unwrap_or_else(|| format!("g{index}")));
            self.groups.push(GroupRow { group: Group { id, factors: conditions }, facts: Map::new() });
            self.stages.push(HashMap::new());
            index
        });
        let key = match &row.cell {
            Some(name) => CellKey::Named(name.clone()),
            None => CellKey::Spec(Box::new(row.factors.as_ref().clone())),
        };
        let cell = *self.cell_by_key.entry((group, key)).or_insert_with(|| {
            let index = self.cells.len();
            let cell = Cell {
                id: CellId(row.cell.clone().unwrap_or_else(|| format!("c{index}")).into()),
                group: self.groups[group].group.id.clone(),
                kind: row.kind,
                twin_of: row.twin_of.clone().map(|twin| CellId(twin.into())),
                factors: row.factors.as_ref().clone(),
            };
            self.cells.push(CellRow { cell, outcome: None });
            index
        });
        limits::options(self.cells.len())?;
        if self.cells[cell].cell.factors != *row.factors {
            let reason = format!("cell {} has other levels here than in an earlier line", self.cells[cell].cell.id);
            return Err(ImportError::Line { line: row.line, reason });
        }
        let row_place = RowPlace { group, cell };
        if unnamed {
            self.places.insert(shared, row_place);
        }
        Ok(row_place)
    }
}

/// The block of every row. The table's own numbers are kept if each belongs to one group. Otherwise, and in tables
/// without numbers, blocks are the repetitions within a group.
fn block_numbers(rows: &[Observation], places: &[RowPlace]) -> Vec<u64> {
    let mut owner: HashMap<u64, usize> = HashMap::new();
    let own = rows.iter().zip(places).all(|(row, row_place)| {
        row.block.is_some_and(|block| *owner.entry(block).or_insert(row_place.group) == row_place.group)
    });
    if own {
        return rows.iter().filter_map(|row| row.block).collect();
    }
    let mut repetitions: HashMap<RowPlace, u64> = HashMap::new();
    let mut numbers: HashMap<(usize, u64), u64> = HashMap::new();
    rows.iter()
        .zip(places)
        .map(|(row, row_place)| {
            let repetition = repetitions.entry(*row_place).or_default();
            let label = row.block.unwrap_or(*repetition);
            *repetition += 1;
            let next = numbers.len() as u64;
            *numbers.entry((row_place.group, label)).or_insert(next)
        })
        .collect()
}

/// The measured rows of compared cells, in the order of the table.
fn visits(rows: &[Observation], places: &[RowPlace]) -> Vec<Visit> {
    let compared = |row: &Observation| {
        row.kind == CellKind::Candidate && row.trial.stage == Stage::Confirm && row.trial.outcome == Outcome::Measured
    };
    let visit = |(row, row_place): (&Observation, &RowPlace)| Visit {
        started_unix_ns: row.trial.started_unix_ns,
        block: row.block.unwrap_or(0),
        group: row_place.group,
        cell: row_place.cell,
    };
    rows.iter().zip(places).filter(|(row, _)| compared(row)).map(visit).collect()
}

fn session(name: Option<String>, workload: Workload, warnings: &[String]) -> SessionRecord {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    SessionRecord {
        id: SessionId(0),
        started_unix_ns: now,
        finished_unix_ns: Some(now),
        status: SessionStatus::Imported,
        plan_name: name.unwrap_or_else(|| "import".into()),
        workload: workload.to_string(),
        seed: 0,
        margin: MARGIN,
        version: "unknown".into(),
        plan: Value::Null,
        machine: Value::Null,
        machine_after: Value::Null,
        notes: warnings.to_vec(),
        imported: true,
    }
}
