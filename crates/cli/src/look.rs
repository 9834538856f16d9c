//! Looks as their user meets them: judged by the report.

use bytegauge_harness::{AnalysisProgress, SessionAnalysis, Subject};
use bytegauge_model::SessionId;
use bytegauge_report::{Progress, SessionData, Settings, Subject as Answered};
use bytegauge_store::{Store, StoreError};

/// Judges a session as its report does.
pub struct ByReport;

impl SessionAnalysis for ByReport {
    fn analyse(&mut self, store: &Store, session: SessionId) -> Result<AnalysisProgress, StoreError> {
        Ok(judged(&SessionData::load(store, session)?))
    }

    fn subjects(&mut self, store: &Store, session: SessionId) -> Result<Vec<Subject>, StoreError> {
        let answered = Answered::all_of(&SessionData::load(store, session)?, &Settings::default());
        let subject = |Answered { group, cells, proven }| Subject { group, cells, proven };
        Ok(answered.into_iter().map(subject).collect())
    }
}

fn judged(data: &SessionData) -> AnalysisProgress {
    let Progress { groups, settled } = Progress::of(data, &Settings::default());
    AnalysisProgress { groups, settled }
}
