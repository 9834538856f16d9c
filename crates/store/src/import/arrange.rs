//! Rows of a table as groups, cells and blocks.
//!
//! Rows that agree in every condition are a group, those that also agree in every choice a cell; the nth
//! row of each cell of a group is its nth block, as if it had been measured so. Names and numbers that the
//! table itself gives (an export of ours does) are kept.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytegauge_model::session::Surroundings;
use bytegauge_model::{
    BlockRecord, Cell, CellId, CellKind, Group, GroupId, Outcome, SessionId, SessionRecord, SessionStatus, Spec, Stage,
    Workload,
};
use serde_json::{Map, Value};

use crate::cell::{CellRow, GroupRow};

use super::observation::{Observation, conditions};
use super::serial::{self, Visit};
use super::{Draft, ImportError};

/// "Within 5 % of the best", as the plans have it.
const MARGIN: f64 = 0.05;

/// Makes a session of the rows of a table.
pub(super) fn arrange(
    rows: Vec<Observation>,
    name: Option<String>,
    warnings: Vec<String>,
) -> Result<Draft, ImportError> {
    if rows.is_empty() {
        return Err(ImportError::Empty);
    }
    let mut families = Families::default();
    let homes = rows.iter().map(|row| families.place(row)).collect::<Result<Vec<_>, _>>()?;
    let numbers = block_numbers(&rows, &homes);
    let serial = serial::in_one_go(visits(&rows, &homes));

    let mut seen: HashSet<(u64, usize)> = HashSet::new();
    let mut blocks: BTreeMap<u64, BlockRecord> = BTreeMap::new();
    let mut measured: BTreeMap<u64, HashSet<usize>> = BTreeMap::new();
    let mut places: HashMap<u64, u32> = HashMap::new();
    let mut trials = Vec::with_capacity(rows.len());
    for ((row, home), number) in rows.into_iter().zip(&homes).zip(numbers) {
        let mut trial = row.trial;
        if trial.stage == Stage::Confirm && !seen.insert((number, home.cell)) {
            let id = &families.cells[home.cell].cell.id;
            let reason = format!("cell {id} stands twice in block {number}; without a block column rows are numbered");
            return Err(ImportError::Line { line: row.line, reason });
        }
        let place = places.entry(number).or_default();
        trial.cell = families.cells[home.cell].cell.id.clone();
        trial.block = number;
        trial.position = row.position.unwrap_or(*place);
        *place += 1;
        if trial.outcome == Outcome::Measured {
            measured.entry(number).or_default().insert(home.cell);
        }
        families.stages[home.group].entry(trial.stage).or_default().insert(home.cell);
        blocks.entry(number).or_insert_with(|| BlockRecord {
            index: number,
            group: families.groups[home.group].group.id.clone(),
            stage: trial.stage,
            started_unix_ns: trial.started_unix_ns,
            // Settled below where the table does not say: then it is whole if every cell was measured in it.
            complete: row.block_complete.unwrap_or(false),
            surroundings: Surroundings::default(),
        });
        if row.block_complete.is_some() {
            families.told.insert(number);
        }
        trials.push(trial);
    }
    for block in blocks.values_mut().filter(|block| !families.told.contains(&block.index)) {
        let group = families.groups.iter().position(|row| row.group.id == block.group);
        let expected = group.and_then(|group| families.stages[group].get(&block.stage));
        block.complete = measured.get(&block.index) == expected;
    }
    let workload = trials.first().map_or(Workload::default(), |trial| trial.workload);
    let mut session = session(name, workload, &warnings);
    if !serial.is_empty() {
        let ids: Vec<String> = serial.iter().map(|&group| families.groups[group].group.id.to_string()).collect();
        session.notes.push(serial::note(&ids));
    }
    let Families { groups, cells, .. } = families;
    Ok(Draft { session, groups, cells, blocks: blocks.into_values().collect(), trials, warnings })
}

/// The groups and cells found so far.
#[derive(Default)]
struct Families {
    groups: Vec<GroupRow>,
    cells: Vec<CellRow>,
    group_by_key: HashMap<GroupKey, usize>,
    cell_by_key: HashMap<(usize, CellKey), usize>,
    /// Where rows that name neither are, by the levels that they share.
    homes: HashMap<*const Spec, Home>,
    /// Per group, the cells that each stage visits.
    stages: Vec<HashMap<Stage, HashSet<usize>>>,
    /// The blocks of which the table says whether they are whole.
    told: HashSet<u64>,
}

/// Where a row belongs.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Home {
    group: usize,
    cell: usize,
}

/// A name that the table gives, or the levels that make the difference.
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

impl Families {
    fn place(&mut self, row: &Observation) -> Result<Home, ImportError> {
        // Rows of one cell share their levels: whoever names neither group nor cell is at home where the last one was.
        let unnamed = row.group.is_none() && row.cell.is_none();
        let shared = Rc::as_ptr(&row.factors);
        if let Some(home) = self.homes.get(&shared).filter(|_| unnamed) {
            return Ok(*home);
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
                id: CellId(row.cell.clone().unwrap_or_else(|| format!("c{index}"))),
                group: self.groups[group].group.id.clone(),
                kind: row.kind,
                twin_of: row.twin_of.clone().map(CellId),
                factors: row.factors.as_ref().clone(),
            };
            self.cells.push(CellRow { cell, outcome: None });
            index
        });
        if self.cells[cell].cell.factors != *row.factors {
            let reason = format!("cell {} has other levels here than in a line above", self.cells[cell].cell.id);
            return Err(ImportError::Line { line: row.line, reason });
        }
        let home = Home { group, cell };
        if unnamed {
            self.homes.insert(shared, home);
        }
        Ok(home)
    }
}

/// The block of every row. The table's own numbers are kept if each belongs to one group; else they are
/// repetitions within a group, as they are where the table has none.
fn block_numbers(rows: &[Observation], homes: &[Home]) -> Vec<u64> {
    let mut owner: HashMap<u64, usize> = HashMap::new();
    let own = rows
        .iter()
        .zip(homes)
        .all(|(row, home)| row.block.is_some_and(|block| *owner.entry(block).or_insert(home.group) == home.group));
    if own {
        return rows.iter().filter_map(|row| row.block).collect();
    }
    let mut repetitions: HashMap<Home, u64> = HashMap::new();
    let mut numbers: HashMap<(usize, u64), u64> = HashMap::new();
    rows.iter()
        .zip(homes)
        .map(|(row, home)| {
            let repetition = repetitions.entry(*home).or_default();
            let label = row.block.unwrap_or(*repetition);
            *repetition += 1;
            let next = numbers.len() as u64;
            *numbers.entry((home.group, label)).or_insert(next)
        })
        .collect()
}

/// What is compared, in the order of the table.
fn visits(rows: &[Observation], homes: &[Home]) -> Vec<Visit> {
    let compared = |row: &Observation| {
        row.kind == CellKind::Candidate && row.trial.stage == Stage::Confirm && row.trial.outcome == Outcome::Measured
    };
    let visit = |(row, home): (&Observation, &Home)| Visit {
        started_unix_ns: row.trial.started_unix_ns,
        block: row.block.unwrap_or(0),
        group: home.group,
        cell: home.cell,
    };
    rows.iter().zip(homes).filter(|(row, _)| compared(row)).map(visit).collect()
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
