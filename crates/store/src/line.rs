//! The lines of a JSON-lines export: written by `export`, read by `import`, defined here.
//!
//! In this order: one `session`, then `group`, `cell`, `block`, and `trial` with its interval series.

use bytegauge_model::{BlockRecord, Cell, Group, Outcome, SessionRecord, Trial};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The version of these lines, independent of the schema version. Version 2 added calls: an earlier reader would take
/// their trials for streams. Version 3 stores ends by role.
pub const VERSION: u64 = 3;

/// One line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ExchangeLine {
    /// The first line.
    Session {
        /// The version of the lines.
        schema_version: u64,
        /// The session, with its number in the original store.
        session: SessionRecord,
    },
    /// A group and its facts.
    Group {
        /// The group.
        group: Group,
        /// The facts found about it.
        #[serde(default)]
        facts: Map<String, Value>,
    },
    /// A cell and its final outcome.
    Cell {
        /// The cell.
        cell: Cell,
        /// Its outcome, if it was skipped or failed.
        #[serde(default)]
        outcome: Option<Outcome>,
    },
    /// A block.
    Block {
        /// The block.
        block: BlockRecord,
    },
    /// A trial.
    Trial {
        /// The trial.
        trial: Box<Trial>,
    },
}
