//! Two of anything that are compared with each other: which cells they are, and the words that they were named by.

use serde::{Deserialize, Serialize};

use crate::cell::CellId;

/// Two subjects of one session. Whether the second is worse is what is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versus {
    /// What there is now.
    pub a: VersusSide,
    /// What may take its place.
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
