//! Blocks: when each was measured, whether it is complete, and the state of the machine around it.

use bytegauge_model::{BlockRecord, GroupId, SessionId, Stage};
use rusqlite::{Connection, Row, params};

use crate::Store;
use crate::column::{Json, UnsignedColumn, named};
use crate::error::StoreError;

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
        self.read(|c| Ok(c.prepare_cached(sql)?.query_map([session.0], record)?.collect::<Result<_, _>>()?))
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

fn record(row: &Row<'_>) -> rusqlite::Result<BlockRecord> {
    Ok(BlockRecord {
        index: row.get::<_, UnsignedColumn>(0)?.0,
        group: GroupId(row.get(1)?),
        stage: named(row, 2, Stage::from_name)?,
        started_unix_ns: row.get::<_, UnsignedColumn>(3)?.0,
        complete: row.get(4)?,
        surroundings: row.get::<_, Json<_>>(5)?.0,
    })
}
