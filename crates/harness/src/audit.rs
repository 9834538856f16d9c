//! The last part of an analysis: the long-trial check compares the recommendation with its rivals again, in far longer trials.
//!
//! Confirmation trials are short, because many short ones are more precise than few long ones, but they cannot show slow
//! changes within a connection. So a share of the time goes to blocks in which a group's recommended option, the runner-up
//! and the smallest cell run for [`bytegauge_plan::Design::audit_ns`]. The clock alone determines the number of blocks,
//! before the first of them; the [`SessionAnalysis`] names the cells. The results are judged elsewhere.

use bytegauge_model::session::Stage;
use bytegauge_model::unit::audit_after_ns;
use bytegauge_model::{AnalysedGroup, Cell, CellId, CellKind};
use bytegauge_plan::{AUDIT_CELLS_MIN, block_order};
use bytegauge_sys::clock::monotonic_ns;

use crate::block::BlockTask;
use crate::confirm::ConfirmedGroup;
use crate::interim::SessionAnalysis;
use crate::run::{Run, RunError};

/// With this number of blocks a group has an interval of its own; with fewer, as many groups as possible are visited.
const BLOCKS_OF_ITS_OWN: u64 = 3;

/// A group whose recommendation is checked.
struct Audited<'a> {
    confirmed: &'a ConfirmedGroup,
    proven: bool,
    /// The recommended option first, then its rivals, the most important first.
    cells: Vec<Cell>,
}

impl Run<'_> {
    /// Checks the recommendations of the analysis that was just completed. `false` if interrupted.
    pub(crate) fn audit(
        &mut self,
        groups: &[ConfirmedGroup],
        analysis: &mut dyn SessionAnalysis,
    ) -> Result<bool, RunError> {
        let time_ns = self.audit_time_ns();
        if time_ns == 0 || !groups.iter().any(|confirmed| self.is_audited(confirmed)) {
            return Ok(true);
        }
        let subjects = analysis.subjects(self.record.store, self.record.session)?;
        let mut audited: Vec<Audited> =
            groups.iter().filter_map(|confirmed| self.audited(confirmed, &subjects)).collect();
        let Some(blocks) = self.fit_audit(&mut audited, time_ns) else { return Ok(true) };
        // Those with fewer blocks go first, then significant results; chance decides between equals.
        let mut turns = block_order::order(audited.len(), !self.plan.seed, self.analysis);
        turns.sort_by_key(|&at| (self.visits(&audited[at].confirmed.group, Stage::Audit), !audited[at].proven));
        let visits = || turns.iter().cycle().take(blocks).map(|&at| &audited[at]);
        let trials = visits().map(|group| group.cells.len() as u64).sum();
        (self.clock.confirm_ns, self.clock.confirm_began_ns) = (time_ns, monotonic_ns());
        self.record.tell_stage(Stage::Audit, trials, blocks as u64);
        for Audited { confirmed, cells, .. } in visits() {
            let live: Vec<Cell> = cells.iter().filter(|cell| self.lives(cell)).cloned().collect();
            if live.len() < AUDIT_CELLS_MIN as usize {
                continue;
            }
            let (group, window_ns) = (&confirmed.group, self.plan.design.audit_ns);
            let task = BlockTask { stage: Stage::Audit, group, cells: &live, window_ns };
            if !self.visit(&task)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Time that is due to the long-trial check by now, nanoseconds: its share of the spent time, less its own time so far.
    fn audit_time_ns(&self) -> u64 {
        let spent_ns = self.clock.spent_ns();
        let due_ns = audit_after_ns(self.plan.audit, spent_ns.saturating_sub(self.clock.audited_ns));
        let due_ns = due_ns.saturating_sub(self.clock.audited_ns);
        due_ns.min(self.left_for_audit_ns())
    }

    /// Time that is left for the check of an analysis, nanoseconds. Before the first analysis, blocks have priority, and the
    /// check takes none of their overtime.
    pub(crate) fn left_for_audit_ns(&self) -> u64 {
        let spent_ns = self.clock.spent_ns();
        let limit_ns = self.limit_ns().map(|limit_ns| match self.analysis {
            1 => self.plan.budget_ns,
            _ => limit_ns as u64,
        });
        limit_ns.map_or(u64::MAX, |limit_ns| limit_ns.saturating_sub(spent_ns))
    }

    /// Whether longer trials could change the result of a group.
    pub(crate) fn is_audited(&self, confirmed: &ConfirmedGroup) -> bool {
        let candidates = || confirmed.cells.iter().filter(|cell| cell.kind == CellKind::Candidate);
        let needed_ns = |cell: &Cell| self.lengths_ns(cell, (0, confirmed.window_ns)).1;
        self.plan.audit > 0.0
            && candidates().count() >= AUDIT_CELLS_MIN as usize
            && candidates().all(|cell| self.plan.design.audits(&cell.factors, needed_ns(cell)))
    }

    fn audited<'a>(&self, confirmed: &'a ConfirmedGroup, subjects: &[AnalysedGroup]) -> Option<Audited<'a>> {
        let subject = subjects.iter().find(|subject| subject.group == confirmed.group)?;
        let find = |id: &CellId| confirmed.cells.iter().find(|cell| cell.id == *id).cloned();
        let cells: Vec<Cell> = subject.cells.iter().filter_map(find).collect();
        let compares = self.is_audited(confirmed) && cells.len() >= AUDIT_CELLS_MIN as usize;
        compares.then_some(Audited { confirmed, proven: subject.proven, cells })
    }

    /// How many blocks fit into a time; `None` if not even one does. Rivals beyond the first are visited if that leaves
    /// every group blocks of its own.
    fn fit_audit(&self, audited: &mut [Audited<'_>], time_ns: u64) -> Option<usize> {
        let fitting = |audited: &[Audited<'_>]| {
            let block_ns = |group: &Audited<'_>| {
                let overhead_ns = self.overhead_ns(&group.confirmed.group);
                let trial_ns = |cell: &Cell| self.warmup_of(cell) + self.plan.design.audit_ns + overhead_ns;
                self.block_ns(group.cells.iter().map(trial_ns).sum())
            };
            let round_ns: u64 = audited.iter().map(block_ns).sum();
            (round_ns > 0).then(|| time_ns as f64 / round_ns as f64 * audited.len() as f64)
        };
        let enough = (BLOCKS_OF_ITS_OWN as usize * audited.len()) as f64;
        while fitting(audited)? < enough {
            let most = audited.iter().map(|group| group.cells.len()).max().unwrap_or(0);
            if most <= AUDIT_CELLS_MIN as usize {
                break;
            }
            audited.iter_mut().for_each(|group| group.cells.truncate(most - 1));
        }
        fitting(audited).map(|blocks| blocks as usize).filter(|blocks| *blocks > 0)
    }
}
