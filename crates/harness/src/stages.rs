//! A session from its first trial to its last: one stage after the other, and the session closed, however they end.
//!
//! Also the events of a run in progress.

use bytegauge_model::session::SessionStatus;
use bytegauge_model::{AnalysisProgress, BlockRecord, Cell, GroupId, SessionId, Stage, Trial};
use bytegauge_plan::Plan;
use bytegauge_store::Store;
use bytegauge_sys::clock::unix_ns;
use serde_json::Value;

use crate::interim::SessionAnalysis;
use crate::run::{Ended, Run, RunError, machine};

impl Run<'_> {
    /// Runs all stages, up to the first analysis or to the one that completes the session. However it ends, it is closed in
    /// the store.
    ///
    /// # Errors
    /// When the store cannot be written or the ends cannot be started; the session is marked incomplete if
    /// that can still be written.
    pub fn execute(mut self, analysis: &mut dyn SessionAnalysis) -> Result<Ended, RunError> {
        let ended = self.stages(analysis);
        self.machine.pool = None;
        let status = match ended {
            Ok(Ended::Complete) => SessionStatus::Complete,
            // Missing blocks can still be measured by `--resume`.
            _ => SessionStatus::Incomplete,
        };
        // The wait for a host that did not come back does not count as the session's time.
        let finished_unix_ns = self.lost.as_ref().map_or_else(unix_ns, |lost| lost.at_unix_ns);
        let machine = machine(&self.options.links);
        let closed = self.record.store.finish_session(self.record.session, status, finished_unix_ns, &machine);
        // The first error explains the second.
        let ended = ended?;
        closed?;
        Ok(self.lost.map_or(ended, |lost| Ended::HostLost(lost.reason)))
    }

    fn stages(&mut self, analysis: &mut dyn SessionAnalysis) -> Result<Ended, RunError> {
        if !self.calibrate()? {
            return Ok(Ended::Interrupted);
        }
        self.fit_runs()?;
        self.fit_pace()?;
        if !self.screen()? {
            return Ok(Ended::Interrupted);
        }
        self.confirm(analysis)
    }

    /// After calibration of calls: if they are slower than planned, confirms less, or extends the time, with a note in
    /// advance. A resumed session keeps its earlier decision.
    fn fit_pace(&mut self) -> Result<(), RunError> {
        let spent_ns = self.clock.spent_ns();
        let paced: Vec<GroupId> = self.plan.seen.paces.keys().cloned().collect();
        if paced.is_empty() || self.plan.task.is_some() || !self.done.first_blocks.is_empty() {
            return Ok(());
        }
        self.plan.seen.calibrated_ns = Some(spent_ns);
        self.plan.seen.overheads_ns =
            paced.into_iter().map(|group| (group.clone(), self.overhead_ns(&group))).collect();
        let (given_ns, families) = (self.plan.budget_ns, self.plan.families.clone());
        let notes = self.plan.fit_budget();
        if self.plan.families != families {
            let amended = Plan { budget_ns: given_ns, ..self.plan.clone() };
            self.record
                .store
                .amend_plan(self.record.session, &serde_json::to_value(&amended).unwrap_or(Value::Null))?;
        }
        for text in notes {
            self.record.note(text)?;
        }
        Ok(())
    }

    /// After calibration of a program: extends an unstated budget to the minimum number of blocks, or notes that a stated
    /// one is too short. The blocks that fit are then measured, since the time of a run may be unknown in advance. Without
    /// effect once the blocks are fixed: some of them are measured, and the analysis notes the rest. What the finalists of changes
    /// need is known after their screening.
    fn fit_runs(&mut self) -> Result<(), RunError> {
        let is_due = self.done.first_blocks.is_empty() && !self.plan.screens_changes();
        let Some(run_ns) = self.times.mean_run_ns().filter(|_| is_due) else { return Ok(()) };
        let spent_ns = self.clock.spent_ns();
        if let Some(needed_ns) = self.plan.budget_for_runs(run_ns, self.confirmed_run_ns(run_ns), spent_ns) {
            let mut text = self.plan.too_short_for(run_ns, needed_ns);
            self.noted_time = true;
            if self.plan.keeps_budget() {
                text += &self.stops_at(needed_ns);
                self.record.store.add_note(self.record.session, &text)?;
            } else {
                self.plan.budget_ns = needed_ns;
            }
            self.record.tell(text);
        }
        Ok(())
    }
}

// Events of a run in progress. They come between trials, while nothing is measured.

/// Something that happened.
#[derive(Debug)]
pub enum Event<'a> {
    /// The session exists in the store.
    Began {
        /// Its number.
        session: SessionId,
        /// Whether it continues an interrupted session.
        resumed: bool,
    },
    /// A stage begins.
    Stage {
        /// Which.
        stage: Stage,
        /// Trials it is going to take, if nothing breaks.
        trials: u64,
        /// Blocks of these trials.
        blocks: u64,
        /// The session, whose cells of this stage are in the store.
        session: SessionId,
        /// The store.
        store: &'a Store,
    },
    /// A block is in the store.
    Block(&'a BlockRecord),
    /// A trial is in the store.
    Trial {
        /// Its cell.
        cell: &'a Cell,
        /// The result.
        trial: &'a Trial,
        /// Time since the run began, nanoseconds.
        elapsed_ns: u64,
        /// Expected time until the end of the session, or of the analysis, nanoseconds.
        left_ns: u64,
    },
    /// An analysis is complete.
    Analysed {
        /// Its number, from 1.
        analysis: u64,
        /// The planned number.
        of: u64,
        /// Its result.
        progress: AnalysisProgress,
        /// Time that the next one would take, nanoseconds.
        next_ns: u64,
    },
    /// Something worth a line: a cell left its group, the number of blocks was fixed.
    Note(String),
}

/// A receiver of events.
pub trait Observer {
    /// Receives an event. Nothing is measured meanwhile, so it may draw; it should be quick all the same.
    fn hear(&mut self, event: &Event<'_>);
}

/// Ignores all events.
pub struct Silent;

impl Observer for Silent {
    fn hear(&mut self, _event: &Event<'_>) {}
}
