//! Sessions: begun, resumed, annotated, finished, listed.
//!
//! Also a session whole.

use std::collections::HashMap;

use bytegauge_model::{BlockRecord, CellId, GroupId, SessionId, SessionRecord, SessionStatus, Stage, Trial};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Value;

use crate::cell::{self, CellRow, GroupRow};
use crate::column::{Json, UnsignedColumn, named};
use crate::error::StoreError;
use crate::{Store, trial};

/// A line of `bytegauge report list`.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionSummary {
    /// Its number.
    pub id: SessionId,
    /// Its start, nanoseconds of Unix time.
    pub started_unix_ns: u64,
    /// Its end, nanoseconds of Unix time.
    pub finished_unix_ns: Option<u64>,
    /// Its status.
    pub status: SessionStatus,
    /// The plan's name.
    pub plan_name: String,
    /// The workload.
    pub workload: String,
    /// Version of bytegauge that measured it.
    pub version: String,
    /// Whether it was imported: measured elsewhere, never resumed.
    pub imported: bool,
    /// The name given with `--save`.
    pub saved: Option<String>,
    /// Number of groups.
    pub groups: u64,
    /// Number of options: cells without A/A controls and floors.
    pub cells: u64,
    /// Number of trials, of any outcome.
    pub trials: u64,
    /// Whether an option was measured after calibration, which has no result.
    pub has_result: bool,
}

impl Store {
    /// Creates a session under a new number; that of the record is not used.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn create_session(&mut self, record: &SessionRecord) -> Result<SessionId, StoreError> {
        self.write(|connection| insert(connection, record))
    }

    /// Marks a session as running again.
    ///
    /// # Errors
    /// When there is no such session, or the store cannot be written.
    pub fn resume_session(&mut self, id: SessionId) -> Result<(), StoreError> {
        let sql = "UPDATE sessions SET status = ?2, finished_unix_ns = NULL WHERE id = ?1";
        let changed = self.write(|c| Ok(c.execute(sql, params![id.0, SessionStatus::Running.name()])?))?;
        self.require(id, changed > 0)
    }

    /// Stores a changed plan for `--resume`, after the harness has measured the machine's speed.
    ///
    /// # Errors
    /// When there is no such session, or the store cannot be written.
    pub fn amend_plan(&mut self, id: SessionId, plan: &Value) -> Result<(), StoreError> {
        let sql = "UPDATE sessions SET plan = ?2 WHERE id = ?1";
        let changed = self.write(|c| Ok(c.execute(sql, params![id.0, Json(plan)])?))?;
        self.require(id, changed > 0)
    }

    /// Ends a session: stores its status, the time, and the machine after its last trial.
    ///
    /// # Errors
    /// When there is no such session, or the store cannot be written.
    pub fn finish_session(
        &mut self,
        id: SessionId,
        status: SessionStatus,
        finished_unix_ns: u64,
        machine_after: &Value,
    ) -> Result<(), StoreError> {
        let sql = "UPDATE sessions SET status = ?2, finished_unix_ns = ?3, machine_after = ?4 WHERE id = ?1";
        let values = params![id.0, status.name(), UnsignedColumn(finished_unix_ns), Json(machine_after)];
        let changed = self.write(|c| Ok(c.execute(sql, values)?))?;
        self.require(id, changed > 0)
    }

    /// Adds a note to a session, unless it already has it.
    ///
    /// # Errors
    /// When there is no such session, or the store cannot be written.
    pub fn add_note(&mut self, id: SessionId, note: &str) -> Result<(), StoreError> {
        let found = self.write(|c| {
            let sql = "SELECT notes FROM sessions WHERE id = ?1";
            let Some(Json(mut notes)) =
                c.query_row(sql, [id.0], |row| row.get::<_, Json<Vec<String>>>(0)).optional()?
            else {
                return Ok(false);
            };
            if !notes.iter().any(|old| old == note) {
                notes.push(note.to_owned());
                c.execute("UPDATE sessions SET notes = ?2 WHERE id = ?1", params![id.0, Json(notes)])?;
            }
            Ok(true)
        })?;
        self.require(id, found)
    }

    /// All sessions, the newest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn sessions(&self) -> Result<Vec<SessionSummary>, StoreError> {
        let sql = "SELECT id, started_unix_ns, finished_unix_ns, status, plan_name, workload, version, imported,
                   (SELECT count(*) FROM groups WHERE session = sessions.id),
                   (SELECT count(*) FROM cells WHERE session = sessions.id AND kind = 'candidate'),
                   (SELECT count(*) FROM trials WHERE session = sessions.id),
                   plan ->> '$.saved',
                   EXISTS (SELECT 1 FROM trials JOIN cells ON cells.session = trials.session AND cells.id = trials.cell
                           WHERE trials.session = sessions.id AND trials.outcome = 'measured'
                           AND trials.stage <> 'calibrate' AND cells.kind = 'candidate')
                   FROM sessions ORDER BY id DESC";
        self.read(|c| Ok(c.prepare(sql)?.query_map([], summary)?.collect::<Result<_, _>>()?))
    }

    /// One session.
    ///
    /// # Errors
    /// When there is no such session, or the store cannot be read.
    pub fn session(&self, id: SessionId) -> Result<SessionRecord, StoreError> {
        let sql = "SELECT id, started_unix_ns, finished_unix_ns, status, plan_name, workload, seed, margin, version,
                   plan, machine, machine_after, notes, imported FROM sessions WHERE id = ?1";
        let found = self.read(|c| Ok(c.query_row(sql, [id.0], record).optional()?))?;
        found.ok_or_else(|| self.no_session(id))
    }

    /// The newest session.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn latest_session(&self) -> Result<Option<SessionId>, StoreError> {
        self.read(|c| Ok(c.query_row("SELECT max(id) FROM sessions", [], |row| row.get(0))?))
            .map(|id: Option<i64>| id.map(SessionId))
    }

    fn require(&self, id: SessionId, found: bool) -> Result<(), StoreError> {
        if found { Ok(()) } else { Err(self.no_session(id)) }
    }

    fn no_session(&self, id: SessionId) -> StoreError {
        StoreError::NoSession(id, self.path.clone())
    }
}

/// Inserts a session as given, with a new number.
pub(crate) fn insert(connection: &Connection, record: &SessionRecord) -> Result<SessionId, StoreError> {
    connection.execute(
        "INSERT INTO sessions (started_unix_ns, finished_unix_ns, status, plan_name, workload, seed, margin, version,
         plan, machine, machine_after, notes, imported)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        params![
            UnsignedColumn(record.started_unix_ns),
            record.finished_unix_ns.map(UnsignedColumn),
            record.status.name(),
            record.plan_name,
            record.workload,
            record.seed.to_string(),
            record.margin,
            record.version,
            Json(&record.plan),
            Json(&record.machine),
            Json(&record.machine_after),
            Json(&record.notes),
            record.imported,
        ],
    )?;
    Ok(SessionId(connection.last_insert_rowid()))
}

fn summary(row: &Row<'_>) -> rusqlite::Result<SessionSummary> {
    Ok(SessionSummary {
        id: SessionId(row.get(0)?),
        started_unix_ns: row.get::<_, UnsignedColumn>(1)?.0,
        finished_unix_ns: row.get::<_, Option<UnsignedColumn>>(2)?.map(|n| n.0),
        status: named(row, 3, SessionStatus::from_name)?,
        plan_name: row.get(4)?,
        workload: row.get(5)?,
        version: row.get(6)?,
        imported: row.get(7)?,
        groups: row.get::<_, UnsignedColumn>(8)?.0,
        cells: row.get::<_, UnsignedColumn>(9)?.0,
        trials: row.get::<_, UnsignedColumn>(10)?.0,
        saved: row.get(11)?,
        has_result: row.get(12)?,
    })
}

fn record(row: &Row<'_>) -> rusqlite::Result<SessionRecord> {
    Ok(SessionRecord {
        id: SessionId(row.get(0)?),
        started_unix_ns: row.get::<_, UnsignedColumn>(1)?.0,
        finished_unix_ns: row.get::<_, Option<UnsignedColumn>>(2)?.map(|n| n.0),
        status: named(row, 3, SessionStatus::from_name)?,
        plan_name: row.get(4)?,
        workload: row.get(5)?,
        seed: named(row, 6, |text| text.parse().ok())?,
        margin: row.get(7)?,
        version: row.get(8)?,
        plan: row.get::<_, Json<_>>(9)?.0,
        machine: row.get::<_, Json<_>>(10)?.0,
        machine_after: row.get::<_, Json<_>>(11)?.0,
        notes: notes(row)?,
        imported: row.get(13)?,
    })
}

/// Longest notes of a session in bytes: a line or two for each of thousands of options.
const NOTES_MAX: usize = 4 << 20;

fn notes(row: &Row<'_>) -> rusqlite::Result<Vec<String>> {
    const COLUMN: usize = 12;
    match row.get_ref(COLUMN)?.as_bytes()?.len() {
        0..=NOTES_MAX => Ok(row.get::<_, Json<_>>(COLUMN)?.0),
        bytes => {
            let why = format!("the notes of a session have {bytes} bytes, more than {NOTES_MAX}");
            Err(rusqlite::Error::FromSqlConversionFailure(COLUMN, Type::Text, why.into()))
        }
    }
}

// A session whole: as it is reported, and as an import writes it.

/// Everything stored of one session, interval series aside.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionData {
    /// The session. An import does not use its number.
    pub record: SessionRecord,
    /// Its groups in the order of the plan, with the facts that the harness found about them.
    pub groups: Vec<GroupRow>,
    /// Its cells in the order of the plan, A/A controls and floors included, with their final outcomes.
    pub cells: Vec<CellRow>,
    /// Its blocks by index.
    pub blocks: Vec<BlockRecord>,
    /// Its trials in the order of measurement.
    pub trials: Vec<Trial>,
}

impl SessionData {
    /// Reads a session.
    ///
    /// # Errors
    /// When there is no such session, or the store cannot be read.
    pub fn load(store: &Store, id: SessionId) -> Result<SessionData, StoreError> {
        let (record, trials) = (store.session(id)?, store.trials(id)?);
        let mut cells = store.cells(id)?;
        if record.status == SessionStatus::Complete {
            // A cell that only served to find its group's warm-up was never a candidate there.
            let mut further: HashMap<&CellId, bool> = HashMap::new();
            for trial in &trials {
                *further.entry(&trial.cell).or_default() |= trial.stage != Stage::Calibrate;
            }
            let helps = |row: &CellRow| row.outcome.is_none() && further.get(&row.cell.id) == Some(&false);
            cells.retain(|row| !helps(row));
        }
        Ok(SessionData { record, groups: store.groups(id)?, cells, blocks: store.blocks(id)?, trials })
    }
}

impl Store {
    /// Adds a session under a new number, in one transaction.
    ///
    /// # Errors
    /// When the store cannot be written. Nothing is added then.
    pub fn add_whole(&mut self, data: &SessionData) -> Result<SessionId, StoreError> {
        self.write(|connection| {
            let id = insert(connection, &data.record)?;
            for GroupRow { group, facts } in &data.groups {
                cell::upsert_group(connection, id, group)?;
                for (name, value) in facts {
                    cell::upsert_fact(connection, id, &group.id, name, value)?;
                }
            }
            for row in &data.cells {
                cell::upsert_cell(connection, id, &row.cell)?;
                if let Some(outcome) = &row.outcome {
                    cell::write_outcome(connection, id, &row.cell.id, outcome)?;
                }
            }
            for block in &data.blocks {
                upsert(connection, id, block)?;
            }
            for trial in &data.trials {
                trial::insert(connection, id, trial)?;
            }
            Ok(id)
        })
    }
}

// Blocks: when each was measured, whether it is complete, and the state of the machine around it.

impl Store {
    /// Stores a block, or replaces the one with the same index.
    ///
    /// # Errors
    /// When its group does not exist, or the store cannot be written.
    pub fn record_block(&mut self, session: SessionId, block: &BlockRecord) -> Result<(), StoreError> {
        self.write(|c| upsert(c, session, block))
    }

    /// The blocks of a session by index.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn blocks(&self, session: SessionId) -> Result<Vec<BlockRecord>, StoreError> {
        let sql = "SELECT block, group_id, stage, started_unix_ns, complete, surroundings
                   FROM blocks WHERE session = ?1 ORDER BY block";
        self.read(|c| Ok(c.prepare_cached(sql)?.query_map([session.0], block_record)?.collect::<Result<_, _>>()?))
    }
}

/// Inserts a block, or replaces the one with the same index.
pub(crate) fn upsert(connection: &Connection, session: SessionId, block: &BlockRecord) -> Result<(), StoreError> {
    let BlockRecord { index, group, stage, started_unix_ns, complete, surroundings } = block;
    connection
        .prepare_cached(
            "INSERT INTO blocks (session, block, group_id, stage, started_unix_ns, complete, surroundings)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT (session, block) DO UPDATE SET group_id = excluded.group_id, stage = excluded.stage,
             started_unix_ns = excluded.started_unix_ns, complete = excluded.complete,
             surroundings = excluded.surroundings",
        )?
        .execute(params![
            session.0,
            UnsignedColumn(*index),
            group.0,
            stage.name(),
            UnsignedColumn(*started_unix_ns),
            complete,
            Json(surroundings)
        ])?;
    Ok(())
}

fn block_record(row: &Row<'_>) -> rusqlite::Result<BlockRecord> {
    Ok(BlockRecord {
        index: row.get::<_, UnsignedColumn>(0)?.0,
        group: GroupId(row.get(1)?),
        stage: named(row, 2, Stage::from_name)?,
        started_unix_ns: row.get::<_, UnsignedColumn>(3)?.0,
        complete: row.get(4)?,
        surroundings: row.get::<_, Json<_>>(5)?.0,
    })
}
