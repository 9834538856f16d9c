//! A session as it lies in the store. Reads and nothing else.

use bytegauge_model::{BlockRecord, SessionId, SessionRecord, Trial};
use bytegauge_store::{CellRow, GroupRow, Store, StoreError};

/// Everything stored of one session, interval series aside.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionData {
    /// The session.
    pub record: SessionRecord,
    /// Its groups in the order of the plan, with what the harness found about them.
    pub groups: Vec<GroupRow>,
    /// Its cells in the order of the plan, twins and floors included, with how they ended for good.
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
        Ok(SessionData {
            record: store.session(id)?,
            groups: store.groups(id)?,
            cells: store.cells(id)?,
            blocks: store.blocks(id)?,
            trials: store.trials(id)?,
        })
    }
}
