//! Interim analyses: whether a session is complete, or continues to twice the blocks.
//!
//! The analyses are declared before the first confirmation block, and stored with every group; results are judged
//! elsewhere, from the store. So no measurement decides how many analyses there are, or when.

use bytegauge_model::session::{ENDED_AFTER, Stage};
use bytegauge_model::unit::{audit_after_ns, forecast};
use bytegauge_model::{GroupId, Nanos};
use bytegauge_sys::clock::monotonic_ns;
use serde_json::json;

use crate::analysis::{AnalysisState, BEGUN, BLOCKS, LOOKS, SessionAnalysis};
use crate::confirm::ConfirmedGroup;
use crate::event::Event;
use crate::run::{Ended, Run, RunError};
use crate::time_limit::with_spare;

impl Run<'_> {
    /// Declares the analyses of all groups, before their first block.
    pub(crate) fn declare_analyses(&mut self, groups: &[ConfirmedGroup]) -> Result<(), RunError> {
        for ConfirmedGroup { group, .. } in groups {
            let blocks = self.target(group, 1);
            self.record.set_fact(group, LOOKS, &json!(self.plan.looks))?;
            self.record.set_fact(group, BLOCKS, &json!(blocks))?;
        }
        Ok(())
    }

    /// Blocks of a group at the end of an analysis.
    pub(crate) fn target(&self, group: &GroupId, look: u64) -> u64 {
        let first = self.done.first_blocks.get(group).copied().unwrap_or(0);
        first.saturating_mul(1 << look.saturating_sub(1).min(62))
    }

    /// Stores the number of the analysis: a session that is killed between two analyses continues with the right one.
    pub(crate) fn begin_analysis(&mut self, groups: &[ConfirmedGroup]) -> Result<(), RunError> {
        let look = self.look;
        for ConfirmedGroup { group, .. } in groups {
            self.record.set_fact(group, BEGUN, &json!(look))?;
        }
        self.clock.confirm_ns = self.time_until(groups, look);
        self.clock.confirm_began_ns = monotonic_ns();
        self.clock.further_ns = self.time_after(groups, look);
        let due = |run: &Run<'_>, confirmed: &ConfirmedGroup| {
            run.target(&confirmed.group, look).saturating_sub(run.visits(&confirmed.group, Stage::Confirm))
        };
        let trials = groups.iter().map(|confirmed| due(self, confirmed) * confirmed.cells.len() as u64).sum();
        self.record.tell_stage(Stage::Confirm, trials, groups.iter().map(|confirmed| due(self, confirmed)).sum());
        Ok(())
    }

    /// Whether the session continues to the next analysis at once, now that one is complete.
    pub(crate) fn goes_on(
        &mut self,
        groups: &[ConfirmedGroup],
        analysis: &mut dyn SessionAnalysis,
    ) -> Result<bool, RunError> {
        let (look, of) = (self.look, self.plan.looks);
        let wanted = self.options.until_proven && !self.stop.load(std::sync::atomic::Ordering::Relaxed);
        if look >= of || !wanted {
            return Ok(false);
        }
        let progress = analysis.analyse(self.record.store, self.record.session)?;
        let next_ns = self.time_until(groups, look + 1);
        self.record.observer.hear(&Event::Analysed { look, of, progress, next_ns });
        let note = if progress.is_settled() {
            let saved = forecast(self.time_until(groups, of));
            let why = match progress.decided == progress.tests {
                true => "every test is conclusive",
                false => "more blocks would not help",
            };
            format!("{ENDED_AFTER} {look} of {of}: {why}, {saved} saved")
        } else if let Some(beyond) = self.beyond_cap(next_ns) {
            format!("{ENDED_AFTER} {look} of {of}: the next {beyond}")
        } else {
            return Ok(true);
        };
        self.record.note(note)?;
        Ok(false)
    }

    /// For a resumed session whose missing blocks would end beyond the user's limit: notes that, and measures nothing. Returns
    /// how the session then ends, which is unchanged.
    pub(crate) fn beyond_cap_at_once(&mut self, groups: &[ConfirmedGroup]) -> Result<Option<Ended>, RunError> {
        let next_ns = self.time_until(groups, self.look);
        let Some(beyond) = self.beyond_cap(next_ns).filter(|_| self.clock.resumed && self.look > 1) else {
            return Ok(None);
        };
        let needed = with_spare(self.clock.spent_ns() + next_ns);
        self.record.tell(format!(
            "nothing more is measured: analysis {} of {} {beyond}: give --max-time {needed}, or leave it out",
            self.look, self.plan.looks
        ));
        let begun = AnalysisState::of(&self.record.store.groups(self.record.session)?).map_or(0, |state| state.begun);
        Ok(Some(if begun < self.look { Ended::Complete } else { Ended::OutOfTime }))
    }

    /// The text if something of this length would end beyond the user's limit; `None` if it does not, or there is none.
    fn beyond_cap(&self, next_ns: u64) -> Option<String> {
        let spent_ns = self.clock.spent_ns();
        let cap_ns = self.options.until_max_ns.filter(|cap_ns| spent_ns.saturating_add(next_ns) > *cap_ns)?;
        let (next, spent, cap) = (forecast(next_ns), forecast(spent_ns), Nanos(cap_ns));
        Some(format!("would take about {next} in addition to the measured {spent}, and end beyond --max-time {cap}"))
    }

    /// Time of all analyses after one, which follow at once if tests are inconclusive and the user allows it, nanoseconds; as
    /// far as the user's limit lets them begin.
    fn time_after(&self, groups: &[ConfirmedGroup], look: u64) -> u64 {
        if !self.options.until_proven {
            return 0;
        }
        let (until_ns, spent_ns) = (self.time_until(groups, look), self.clock.spent_ns());
        let ends = (look + 1..=self.plan.looks).map(|later| self.time_until(groups, later));
        let allowed = ends
            .filter(|end_ns| self.options.until_max_ns.is_none_or(|cap_ns| spent_ns.saturating_add(*end_ns) <= cap_ns));
        allowed.max().unwrap_or(until_ns).saturating_sub(until_ns)
    }

    /// Time of the blocks until an analysis, nanoseconds.
    fn blocks_until(&self, groups: &[ConfirmedGroup], look: u64) -> u64 {
        let time_ns = |confirmed: &ConfirmedGroup| {
            let due = self.target(&confirmed.group, look).saturating_sub(self.visits(&confirmed.group, Stage::Confirm));
            due.saturating_mul(self.forecast_ns(confirmed) as u64)
        };
        groups.iter().map(time_ns).fold(0, u64::saturating_add)
    }

    /// Time until the end of an analysis, including its long-trial check, nanoseconds.
    fn time_until(&self, groups: &[ConfirmedGroup], look: u64) -> u64 {
        let blocks_ns = self.blocks_until(groups, look);
        let audits = groups.iter().any(|confirmed| self.is_audited(confirmed));
        let share = if audits { self.plan.audit } else { 0.0 };
        let audit_ns = audit_after_ns(share, blocks_ns);
        let left_ns = self.left_for_audit_ns().saturating_sub(blocks_ns);
        blocks_ns.saturating_add(if look == 1 { audit_ns.min(left_ns) } else { audit_ns })
    }
}
