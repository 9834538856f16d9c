//! Interim analyses as users get them: computed by the report.

use bytegauge_harness::{AnalysedGroup, AnalysisProgress, SessionAnalysis};
use bytegauge_model::SessionId;
use bytegauge_report::{AuditedGroup, Progress, SessionData, Settings};
use bytegauge_store::{Store, StoreError};

/// Analyses a session as its report does.
pub struct ByReport;

impl SessionAnalysis for ByReport {
    fn analyse(&mut self, store: &Store, session: SessionId) -> Result<AnalysisProgress, StoreError> {
        Ok(judged(&SessionData::load(store, session)?))
    }

    fn subjects(&mut self, store: &Store, session: SessionId) -> Result<Vec<AnalysedGroup>, StoreError> {
        let answered = AuditedGroup::all_of(&SessionData::load(store, session)?, &Settings::default());
        let subject = |AuditedGroup { group, cells, proven }| AnalysedGroup { group, cells, proven };
        Ok(answered.into_iter().map(subject).collect())
    }
}

fn judged(data: &SessionData) -> AnalysisProgress {
    let Progress { tests, decided, settled } = Progress::of(data, &Settings::default());
    AnalysisProgress { groups: tests, decided, settled }
}
