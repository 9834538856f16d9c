//! A session whole: as it is reported, and as an import writes it.

use std::collections::HashMap;

use bytegauge_model::{BlockRecord, CellId, SessionId, SessionRecord, SessionStatus, Stage, Trial};

use crate::cell::{CellRow, GroupRow};
use crate::error::StoreError;
use crate::{Store, block, cell, session, trial};

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
            let id = session::insert(connection, &data.record)?;
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
                block::upsert(connection, id, block)?;
            }
            for trial in &data.trials {
                trial::insert(connection, id, trial)?;
            }
            Ok(id)
        })
    }
}
