//! The progress of a session at an analysis: which tests have a result, and which need no more blocks.

use bytegauge_model::AnalysisProgress;

use crate::results::{Claim, InvalidReason, Test, is_answered};
use crate::view::numbers::Verdict;
use crate::{Report, SessionData, Settings};

/// Analyses a session up to the last analysis that its tests completed. The report and the end of a session follow one rule.
#[must_use]
pub fn progress(session: &SessionData, settings: &Settings) -> AnalysisProgress {
    let view = Report::of(session, &Settings { is_running: true, ..*settings });
    if let Some(versus) = &view.versus {
        let is_decided = versus.difference.verdict != Verdict::Open;
        // Where a side came to nothing, more pairs show nothing.
        let settled = (is_decided || versus.blocks == 0).into();
        return AnalysisProgress { tests: 1, decided: is_decided.into(), settled };
    }
    let mut progress = AnalysisProgress { tests: 0, decided: 0, settled: 0 };
    let compares = |test: &Test| {
        !matches!(test.claim, Claim::Invalid { reason: InvalidReason::OneOption | InvalidReason::NothingMeasured })
    };
    for (test, group) in view.tests.iter().zip(&view.groups).filter(|(test, _)| compares(test)) {
        let is_decided = is_answered(&view, test);
        progress.tests += 1;
        progress.decided += usize::from(is_decided);
        progress.settled += usize::from(is_decided || group.recommendation.more_blocks.is_none());
    }
    progress
}
