//! The analysis of a session between two rounds of blocks: code outside of this crate, which only uses the stored data.

use bytegauge_model::{CellId, GroupId, SessionId};
use bytegauge_store::{Store, StoreError};

/// The result of an analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnalysisProgress {
    /// Groups in which options are compared.
    pub groups: usize,
    /// Those with a conclusive result.
    pub decided: usize,
    /// Those with a conclusive result, or in which more blocks would not help.
    pub settled: usize,
}

impl AnalysisProgress {
    /// Whether another analysis is useless.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.settled >= self.groups
    }
}

/// Analyses a session by its stored data only.
pub trait SessionAnalysis {
    /// Analyses a session whose blocks were just completed.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn analyse(&mut self, store: &Store, session: SessionId) -> Result<AnalysisProgress, StoreError>;

    /// The recommendations of a session so far, for the long-trial check.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn subjects(&mut self, store: &Store, session: SessionId) -> Result<Vec<AnalysedGroup>, StoreError>;
}

/// The recommended option of a group, and the options that it should be compared with again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnalysedGroup {
    /// The group.
    pub group: GroupId,
    /// The recommended option first, then the others, the most important first.
    pub cells: Vec<CellId>,
    /// Whether the option has a significant result.
    pub proven: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settled_sessions_need_no_analysis() {
        assert!(AnalysisProgress { groups: 0, decided: 0, settled: 0 }.is_settled());
        assert!(AnalysisProgress { groups: 3, decided: 2, settled: 3 }.is_settled());
        assert!(!AnalysisProgress { groups: 3, decided: 2, settled: 2 }.is_settled());
    }
}
