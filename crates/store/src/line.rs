//! The lines of a JSON-lines export: written by `export`, read by `import`, described here once.
//!
//! In this order: one `session`, then `group`, `cell`, `block`, and `trial` with its interval series.

use bytegauge_model::{BlockRecord, Cell, Group, Outcome, SessionRecord, Trial};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The version of these lines. It is not the version of the tables: either may change without the other.
/// Version 2 has calls: read without them, their trials would pass for streams. Version 3 has ends by role.
pub(crate) const VERSION: u64 = 3;

/// One line.
#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum Line {
    /// The first line.
    Session {
        /// [`VERSION`].
        schema_version: u64,
        /// The session; its number is that of the store it came from.
        session: SessionRecord,
    },
    /// A group and its facts.
    Group {
        /// The group.
        group: Group,
        /// What was found about it.
        #[serde(default)]
        facts: Map<String, Value>,
    },
    /// A cell and how it ended for good.
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
