//! Interim analyses: whether a session is complete, or continues to twice the blocks.
//!
//! The analyses are declared before the first confirmation block, and stored with every group; results are judged
//! elsewhere, from the store. So no measurement decides how many analyses there are, or when.
//!
//! Also the trait of an analysis: code outside of this crate, which uses stored data alone.

use std::collections::BTreeMap;

use bytegauge_model::session::{ENDED_AFTER, Stage};
use bytegauge_model::unit::{audit_after_ns, forecast};
use bytegauge_model::{AnalysedGroup, AnalysisProgress, GroupId, Nanos, SessionId, SessionStatus};
use bytegauge_store::{GroupRow, Store, StoreError};
use bytegauge_sys::clock::monotonic_ns;
use serde_json::json;

use crate::confirm::ConfirmedGroup;
use crate::run::{Ended, Run, RunError};
use crate::stages::Event;
use crate::time_limit::with_spare;

impl Run<'_> {
    /// Declares the analyses of all groups, before their first block.
    pub(crate) fn declare_analyses(&mut self, groups: &[ConfirmedGroup]) -> Result<(), RunError> {
        for ConfirmedGroup { group, .. } in groups {
            let blocks = self.target(group, 1);
            self.record.set_fact(group, ANALYSES, &json!(self.plan.analyses))?;
            self.record.set_fact(group, BLOCKS, &json!(blocks))?;
        }
        Ok(())
    }

    /// Blocks of a group at the end of an analysis.
    pub(crate) fn target(&self, group: &GroupId, analysis: u64) -> u64 {
        let first = self.done.first_blocks.get(group).copied().unwrap_or(0);
        first.saturating_mul(1 << analysis.saturating_sub(1).min(62))
    }

    /// Stores the number of the analysis: a session that is killed between two analyses continues with the right one.
    pub(crate) fn begin_analysis(&mut self, groups: &[ConfirmedGroup]) -> Result<(), RunError> {
        let analysis = self.analysis;
        for ConfirmedGroup { group, .. } in groups {
            self.record.set_fact(group, BEGUN, &json!(analysis))?;
        }
        self.clock.confirm_ns = self.time_until(groups, analysis);
        self.clock.confirm_began_ns = monotonic_ns();
        let due = |run: &Run<'_>, confirmed: &ConfirmedGroup| {
            run.target(&confirmed.group, analysis).saturating_sub(run.visits(&confirmed.group, Stage::Confirm))
        };
        let trials = groups.iter().map(|confirmed| due(self, confirmed) * confirmed.cells.len() as u64).sum();
        self.record.tell_stage(Stage::Confirm, trials, groups.iter().map(|confirmed| due(self, confirmed)).sum());
        Ok(())
    }

    /// Whether the session continues to the next analysis at once, now that one is complete.
    pub(crate) fn goes_on(
        &mut self,
        groups: &[ConfirmedGroup],
        judge: &mut dyn SessionAnalysis,
    ) -> Result<bool, RunError> {
        let (analysis, of) = (self.analysis, self.plan.analyses);
        let wanted = self.options.until_proven && !self.stop.load(std::sync::atomic::Ordering::Relaxed);
        if analysis >= of || !wanted {
            return Ok(false);
        }
        let progress = judge.analyse(self.record.store, self.record.session)?;
        let next_ns = self.time_until(groups, analysis + 1);
        self.record.observer.hear(&Event::Analysed { analysis, of, progress, next_ns });
        let note = if progress.is_settled() {
            let saved = forecast(self.time_until(groups, of));
            let why = match progress.decided == progress.tests {
                true if progress.tests == 0 => "there is nothing to compare",
                true => "every test is conclusive",
                false => "more blocks would not help",
            };
            format!("{ENDED_AFTER} {analysis} of {of}: {why}, {saved} saved")
        } else if let Some(beyond) = self.beyond_cap(next_ns) {
            format!("{ENDED_AFTER} {analysis} of {of}: the next {beyond}")
        } else {
            return Ok(true);
        };
        self.record.note(note)?;
        Ok(false)
    }

    /// For a resumed session whose missing blocks would end beyond the user's limit: notes that, and measures nothing. Returns
    /// how the session then ends, which is unchanged.
    pub(crate) fn beyond_cap_at_once(&mut self, groups: &[ConfirmedGroup]) -> Result<Option<Ended>, RunError> {
        let next_ns = self.time_until(groups, self.analysis);
        let Some(beyond) = self.beyond_cap(next_ns).filter(|_| self.clock.resumed && self.analysis > 1) else {
            return Ok(None);
        };
        let needed = with_spare(self.clock.spent_ns() + next_ns);
        self.record.tell(format!(
            "nothing more is measured: analysis {} of {} {beyond}: give --max-time {needed}, or leave it out",
            self.analysis, self.plan.analyses
        ));
        let begun = AnalysisState::of(&self.record.store.groups(self.record.session)?).map_or(0, |state| state.begun);
        Ok(Some(if begun < self.analysis { Ended::Complete } else { Ended::OutOfTime }))
    }

    /// The text if something of this length would end beyond the user's limit; `None` if it does not, or there is none.
    fn beyond_cap(&self, next_ns: u64) -> Option<String> {
        let spent_ns = self.clock.spent_ns();
        let cap_ns = self.options.until_max_ns.filter(|cap_ns| spent_ns.saturating_add(next_ns) > *cap_ns)?;
        let (next, spent, cap) = (forecast(next_ns), forecast(spent_ns), Nanos(cap_ns));
        Some(format!("would take about {next} in addition to the measured {spent}, and end beyond --max-time {cap}"))
    }

    /// Time until the end of an analysis, including its long-trial check, nanoseconds.
    fn time_until(&self, groups: &[ConfirmedGroup], analysis: u64) -> u64 {
        let time_ns = |confirmed: &ConfirmedGroup| {
            let due =
                self.target(&confirmed.group, analysis).saturating_sub(self.visits(&confirmed.group, Stage::Confirm));
            due.saturating_mul(self.forecast_ns(confirmed) as u64)
        };
        let blocks_ns = groups.iter().map(time_ns).fold(0, u64::saturating_add);
        let audits = groups.iter().any(|confirmed| self.is_audited(confirmed));
        let share = if audits { self.plan.audit } else { 0.0 };
        let audit_ns = audit_after_ns(share, blocks_ns);
        let left_ns = self.left_for_audit_ns().saturating_sub(blocks_ns);
        blocks_ns.saturating_add(if analysis == 1 { audit_ns.min(left_ns) } else { audit_ns })
    }
}

// The analysis of a session between two rounds of blocks: code outside of this crate, which only uses the stored data.

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

// The state of a session between its analyses, from facts that are stored with its groups.

/// Fact of a group: the number of declared analyses.
pub(crate) const ANALYSES: &str = "looks";

/// Fact of a group: its blocks until the first analysis.
pub(crate) const BLOCKS: &str = "blocks_fixed";

/// Fact of a group: the analysis that was begun last.
pub(crate) const BEGUN: &str = "look";

/// The state of a session between its analyses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnalysisState {
    /// The analysis that was begun last, from 1; 0 before the first.
    pub begun: u64,
    /// The number of declared analyses.
    pub of: u64,
}

impl AnalysisState {
    /// Reads the facts of a session's groups; `None` if it declared no analyses: it has no confirmation yet, or an older
    /// version measured it.
    #[must_use]
    pub fn of(rows: &[GroupRow]) -> Option<AnalysisState> {
        let most = |name: &str| rows.iter().filter_map(|row| row.number(name)).max();
        Some(AnalysisState { begun: most(BEGUN).unwrap_or(0), of: most(ANALYSES)? })
    }

    /// Whether an analysis is left when the last begun one is complete.
    #[must_use]
    pub fn has_next(&self) -> bool {
        self.begun < self.of
    }

    /// The analysis with which a resumed session of a status continues: the begun one if it is not complete, else the next.
    /// `None` if none is left.
    #[must_use]
    pub fn analysis_ahead(state: Option<AnalysisState>, status: SessionStatus) -> Option<u64> {
        match (status, state) {
            (SessionStatus::Complete, Some(state)) if state.has_next() => Some(state.begun + 1),
            (SessionStatus::Complete, _) => None,
            (_, state) => Some(state.map_or(1, |state| state.begun.max(1))),
        }
    }
}

/// Blocks of every group until its first analysis, as far as they were fixed.
pub(crate) fn first_blocks(rows: &[GroupRow]) -> BTreeMap<GroupId, u64> {
    rows.iter().filter_map(|row| Some((row.group.id.clone(), row.number(BLOCKS)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytegauge_model::Group;
    use serde_json::{Value, json};

    fn row(facts: Value) -> GroupRow {
        let facts = serde_json::from_value(facts).expect("an object");
        GroupRow { group: Group { id: GroupId("g1".into()), factors: Default::default() }, facts }
    }

    #[test]
    fn the_plan_declares_what_the_statistics_expect() {
        assert_eq!(usize::try_from(bytegauge_plan::ANALYSES), Ok(bytegauge_stats::interim::ANALYSES));
    }

    #[test]
    fn facts_give_the_state_of_a_session() {
        let check = |facts: Value, expected: Option<(u64, u64, bool)>| {
            let got = AnalysisState::of(&[row(json!({})), row(facts.clone())]);
            assert_eq!(got.map(|state| (state.begun, state.of, state.has_next())), expected, "{facts}");
        };
        check(json!({"blocks_fixed": 40}), None);
        check(json!({"blocks_fixed": 40, "looks": 3}), Some((0, 3, true)));
        check(json!({"looks": 3, "look": 2}), Some((2, 3, true)));
        check(json!({"looks": 3, "look": 3}), Some((3, 3, false)));
    }

    #[test]
    fn a_resumed_session_finishes_the_begun_analysis() {
        use SessionStatus::{Complete, Incomplete, Running};
        let check = |begun: Option<u64>, status, expected| {
            let state = begun.map(|begun| AnalysisState { begun, of: 3 });
            assert_eq!(AnalysisState::analysis_ahead(state, status), expected, "{begun:?} {status:?}");
        };
        check(None, Incomplete, Some(1));
        check(None, Complete, None);
        check(Some(0), Running, Some(1));
        check(Some(1), Incomplete, Some(1));
        check(Some(1), Complete, Some(2));
        check(Some(2), Incomplete, Some(2));
        check(Some(3), Complete, None);
    }
}
