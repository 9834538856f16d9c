//! Groups with the facts found about them, and cells with their final outcomes.

use std::sync::Arc;

use bytegauge_model::{Cell, CellId, CellKind, Group, GroupId, Outcome, SessionId, Spec};
use rusqlite::{Connection, Row, params};
use serde_json::{Map, Value};

use crate::Store;
use crate::column::{Json, named, outcome};
use crate::error::StoreError;

/// A group and the facts found about it.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupRow {
    /// The group.
    pub group: Group,
    /// Facts that the harness found: `warmup_ns`, `steady`, `finalists`, …
    pub facts: Map<String, Value>,
}

impl GroupRow {
    /// A fact that is a whole number; `None` if it is missing or has another type.
    pub fn number(&self, fact: &str) -> Option<u64> {
        self.facts.get(fact).and_then(Value::as_u64)
    }
}

/// A cell and its final outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct CellRow {
    /// The cell.
    pub cell: Cell,
    /// Set when the cell was skipped, or finally failed.
    pub outcome: Option<Outcome>,
}

impl Store {
    /// Adds groups, or replaces their conditions. They are listed in the order in which they were first added.
    ///
    /// # Errors
    /// When the session does not exist, or the store cannot be written.
    pub fn add_groups(&mut self, session: SessionId, groups: &[Group]) -> Result<(), StoreError> {
        self.write(|c| groups.iter().try_for_each(|group| upsert_group(c, session, group)))
    }

    /// Adds cells, or replaces their levels; their groups must exist. A/A controls may be added at any time.
    ///
    /// # Errors
    /// When a group does not exist, or the store cannot be written.
    pub fn add_cells(&mut self, session: SessionId, cells: &[Cell]) -> Result<(), StoreError> {
        let known = self.groups(session)?;
        if let Some(cell) = cells.iter().find(|cell| known.iter().all(|row| row.group.id != cell.group)) {
            return Err(StoreError::NoMember(session, format!("group {}", cell.group)));
        }
        self.write(|c| cells.iter().try_for_each(|cell| upsert_cell(c, session, cell)))
    }

    /// Stores one fact about a group under a name, replacing an earlier value.
    ///
    /// # Errors
    /// When the group does not exist, or the store cannot be written.
    pub fn set_group_fact(
        &mut self,
        session: SessionId,
        group: &GroupId,
        name: &str,
        value: &Value,
    ) -> Result<(), StoreError> {
        self.write(|c| {
            let sql = "SELECT EXISTS (SELECT 1 FROM groups WHERE session = ?1 AND id = ?2)";
            if !c.query_row(sql, params![session.0, group.0], |row| row.get::<_, bool>(0))? {
                return Err(StoreError::NoMember(session, format!("group {group}")));
            }
            upsert_fact(c, session, group, name, value)
        })
    }

    /// Stores the final outcome of a cell: skipped, or failed and left out from now on.
    ///
    /// # Errors
    /// When the cell does not exist, or the store cannot be written.
    pub fn set_cell_outcome(&mut self, session: SessionId, cell: &CellId, outcome: &Outcome) -> Result<(), StoreError> {
        let changed = self.write(|c| write_outcome(c, session, cell, outcome))?;
        if changed { Ok(()) } else { Err(StoreError::NoMember(session, format!("cell {cell}"))) }
    }

    /// The groups of a session, in the order in which they were added.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn groups(&self, session: SessionId) -> Result<Vec<GroupRow>, StoreError> {
        self.read(|c| {
            let mut rows: Vec<GroupRow> = c
                .prepare_cached(
                    "SELECT groups.id, factors, workload FROM groups JOIN sessions ON sessions.id = session
                     WHERE session = ?1 ORDER BY groups.rowid",
                )?
                .query_map([session.0], |row| {
                    let group = Group { id: GroupId(row.get(0)?), factors: factors(row, 1, 2)? };
                    Ok(GroupRow { group, facts: Map::new() })
                })?
                .collect::<Result<_, _>>()?;
            let mut facts = c.prepare_cached("SELECT group_id, name, value FROM group_facts WHERE session = ?1")?;
            let mut facts = facts.query([session.0])?;
            while let Some(fact) = facts.next()? {
                let group = fact.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
                if let Some(row) = rows.iter_mut().find(|row| row.group.id.0 == group) {
                    row.facts.insert(fact.get(1)?, fact.get::<_, Json<Value>>(2)?.0);
                }
            }
            Ok(rows)
        })
    }

    /// The cells of a session, in the order in which they were added.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn cells(&self, session: SessionId) -> Result<Vec<CellRow>, StoreError> {
        let sql = "SELECT cells.id, group_id, kind, twin_of, factors, outcome, reason, workload
                   FROM cells JOIN sessions ON sessions.id = session WHERE session = ?1 ORDER BY cells.rowid";
        self.read(|c| Ok(c.prepare_cached(sql)?.query_map([session.0], cell_row)?.collect::<Result<_, _>>()?))
    }
}

/// Inserts a group, or replaces its conditions.
pub(crate) fn upsert_group(connection: &Connection, session: SessionId, group: &Group) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT INTO groups (session, id, factors) VALUES (?1, ?2, ?3)
             ON CONFLICT (session, id) DO UPDATE SET factors = excluded.factors",
        )?
        .execute(params![session.0, group.id.0, Json(&group.factors)])?;
    Ok(())
}

/// Sets one fact of a group.
pub(crate) fn upsert_fact(
    connection: &Connection,
    session: SessionId,
    group: &GroupId,
    name: &str,
    value: &Value,
) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT INTO group_facts (session, group_id, name, value) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (session, group_id, name) DO UPDATE SET value = excluded.value",
        )?
        .execute(params![session.0, group.0, name, Json(value)])?;
    Ok(())
}

/// Inserts a cell, or replaces its levels.
pub(crate) fn upsert_cell(connection: &Connection, session: SessionId, cell: &Cell) -> Result<(), StoreError> {
    let Cell { id, group, kind, twin_of, factors } = cell;
    connection
        .prepare_cached(
            "INSERT INTO cells (session, id, group_id, kind, twin_of, factors) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (session, id) DO UPDATE SET group_id = excluded.group_id, kind = excluded.kind,
             twin_of = excluded.twin_of, factors = excluded.factors",
        )?
        .execute(params![
            session.0,
            &*id.0,
            group.0,
            kind.name(),
            twin_of.as_ref().map(|twin| &*twin.0),
            Json(factors)
        ])?;
    Ok(())
}

/// Sets the outcome of a cell; `false` if there is no such cell.
pub(crate) fn write_outcome(
    connection: &Connection,
    session: SessionId,
    cell: &CellId,
    outcome: &Outcome,
) -> Result<bool, StoreError> {
    let changed = connection
        .prepare_cached("UPDATE cells SET outcome = ?3, reason = ?4 WHERE session = ?1 AND id = ?2")?
        .execute(params![session.0, cell.0, outcome.tag(), outcome.reason()])?;
    Ok(changed > 0)
}

/// Levels, with the session's workload where they have none of their own. A workload that this version does not know
/// changes nothing.
fn factors(row: &Row<'_>, levels: usize, workload: usize) -> rusqlite::Result<Spec> {
    let levels: Spec = row.get::<_, Json<_>>(levels)?.0;
    let workload = row.get_ref(workload)?.as_str()?.parse();
    Ok(match workload {
        Ok(workload) => levels.with_workload(workload),
        Err(_) => levels,
    })
}

fn cell_row(row: &Row<'_>) -> rusqlite::Result<CellRow> {
    let cell = Cell {
        id: CellId(row.get(0)?),
        group: GroupId(row.get(1)?),
        kind: named(row, 2, CellKind::from_name)?,
        twin_of: row.get::<_, Option<Arc<str>>>(3)?.map(CellId),
        factors: factors(row, 4, 7)?,
    };
    let has_outcome = row.get_ref(5)?.as_str_or_null()?.is_some();
    let outcome = has_outcome.then(|| outcome(row, 5)).transpose()?;
    Ok(CellRow { cell, outcome })
}
