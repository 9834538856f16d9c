//! Two subjects that are compared with each other: their cells, and the words that name them.

use serde::{Deserialize, Serialize};

use crate::cell::CellId;

/// Two subjects of one session. The question is whether the second is worse.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versus {
    /// The present one.
    pub a: VersusSide,
    /// The one that may replace it.
    pub b: VersusSide,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersusSide {
    /// Its cell.
    pub cell: CellId,
    /// As it was given: `run:stream --read-size 4K`.
    pub words: String,
}
