//! Writes a session whole, as an import does.

use bytegauge_model::{BlockRecord, SessionId, SessionRecord, Trial};

use crate::cell::{CellRow, GroupRow};
use crate::error::StoreError;
use crate::{Store, block, cell, session, trial};

/// A session with everything that the store has on it.
#[derive(Debug)]
pub struct WholeSession {
    /// The session; its number is not used.
    pub session: SessionRecord,
    /// Its groups with their facts.
    pub groups: Vec<GroupRow>,
    /// Its cells with their outcomes.
    pub cells: Vec<CellRow>,
    /// Its blocks.
    pub blocks: Vec<BlockRecord>,
    /// Its trials.
    pub trials: Vec<Trial>,
}

impl Store {
    /// Adds a session under a new number, in one transaction.
    ///
    /// # Errors
    /// When the store cannot be written. Nothing is added then.
    pub fn add_whole(&mut self, whole: &WholeSession) -> Result<SessionId, StoreError> {
        self.write(|connection| {
            let id = session::insert(connection, &whole.session)?;
            for GroupRow { group, facts } in &whole.groups {
                cell::upsert_group(connection, id, group)?;
                for (name, value) in facts {
                    cell::upsert_fact(connection, id, &group.id, name, value)?;
                }
            }
            for row in &whole.cells {
                cell::upsert_cell(connection, id, &row.cell)?;
                if let Some(outcome) = &row.outcome {
                    cell::write_outcome(connection, id, &row.cell.id, outcome)?;
                }
            }
            for record in &whole.blocks {
                block::upsert(connection, id, record)?;
            }
            for trial in &whole.trials {
                trial::insert(connection, id, trial)?;
            }
            Ok(id)
        })
    }
}
