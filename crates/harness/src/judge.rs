//! Who judges a session whose look is complete: somebody outside of this crate, by what is stored and by nothing else.

use bytegauge_model::{CellId, GroupId, SessionId};
use bytegauge_store::{Store, StoreError};

/// What a look shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// Groups in which choices are compared.
    pub groups: usize,
    /// Those in which something is proven, or nothing ever will be by more blocks.
    pub settled: usize,
}

impl Judgement {
    /// Whether another look is of no use.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.settled >= self.groups
    }
}

/// Somebody who judges a session by what is stored of it, and by nothing else.
pub trait Judge {
    /// Judges a session whose look was just completed.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn judge(&mut self, store: &Store, session: SessionId) -> Result<Judgement, StoreError>;

    /// Whose answers a session gives so far, to be audited.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn subjects(&mut self, store: &Store, session: SessionId) -> Result<Vec<Subject>, StoreError>;
}

/// The answer of a group, and whom it should be compared with once more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The group.
    pub group: GroupId,
    /// The choice first, then the others, the most important first.
    pub cells: Vec<CellId>,
    /// Whether something is proven of the choice.
    pub proven: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_settled_needs_no_look() {
        assert!(Judgement { groups: 0, settled: 0 }.is_settled());
        assert!(!Judgement { groups: 3, settled: 2 }.is_settled());
    }
}
