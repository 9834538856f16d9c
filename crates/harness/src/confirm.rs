//! The last stage: the finalists, an A/A control of the leader and the harness's floor, in complete blocks.
//!
//! All reported results come from here. The number of blocks until the first analysis is fixed before the first of
//! them, from the time that is left; each further analysis doubles it. A block that breaks is repeated whole.

use bytegauge_model::session::Stage;
use bytegauge_model::{
    Cell, CellId, CellKind, Engine, FactorKey, GroupId, Implementation, Level, Nanos, Spec, Work, Workload,
};
use bytegauge_plan::{OVERTIME, block_order, trial_length};
use bytegauge_stats::block_dependence::FEW_BLOCKS;
use serde_json::json;

use crate::block::BlockTask;
use crate::interim::SessionAnalysis;
use crate::run::{Ended, Run, RunError};
use crate::run_state::TimeSum;

/// Trials are shortened to no less than this share of their length to keep within a budget.
pub(crate) const SHORTEST_SHARE: f64 = 0.25;

/// A group with all cells of its blocks.
pub(crate) struct ConfirmedGroup {
    pub group: GroupId,
    /// Finalists, A/A control and floor.
    pub cells: Vec<Cell>,
    /// Length of a trial, nanoseconds.
    pub(crate) window_ns: u64,
}

impl Run<'_> {
    /// Confirms the finalists of every group, from analysis to analysis.
    pub(crate) fn confirm(&mut self, analysis: &mut dyn SessionAnalysis) -> Result<Ended, RunError> {
        let mut groups = self.confirmed_groups()?;
        if groups.is_empty() {
            // Every cell has left its group, each with a note.
            return Ok(Ended::Complete);
        }
        self.fix_blocks(&mut groups)?;
        if let Some(ended) = self.beyond_cap_at_once(&groups)? {
            return Ok(ended);
        }
        loop {
            if let Some(ended) = self.carry_out_analysis(&groups)? {
                return Ok(ended);
            }
            if !self.audit(&groups, analysis)? {
                return Ok(Ended::Interrupted);
            }
            if !self.goes_on(&groups, analysis)? {
                return Ok(Ended::Complete);
            }
            self.analysis += 1;
        }
    }

    /// Measures the blocks of the present analysis. Returns how the session ends if not every group has its blocks.
    fn carry_out_analysis(&mut self, groups: &[ConfirmedGroup]) -> Result<Option<Ended>, RunError> {
        self.begin_analysis(groups)?;
        let analysis = self.analysis;
        let rounds = groups.iter().map(|confirmed| self.target(&confirmed.group, analysis)).max().unwrap_or(0);
        for number in 0..rounds {
            for turn in block_order::order(groups.len(), !self.plan.seed, number) {
                let ConfirmedGroup { group, cells, window_ns, .. } = &groups[turn];
                // Blocks of a group with fewer of them are spread evenly over the whole time, not bunched at an end of it.
                let due = (number + 1) * self.target(group, analysis) / rounds;
                while self.visits(group, Stage::Confirm) < due && !self.is_out_of_time(number, &groups[turn]) {
                    if !self.has_live(&groups[turn]) {
                        break;
                    }
                    let live: Vec<Cell> = cells.iter().filter(|cell| self.lives(cell)).cloned().collect();
                    let task = BlockTask { stage: Stage::Confirm, group, cells: &live, window_ns: *window_ns };
                    if !self.visit(&task)? {
                        return Ok(Some(Ended::Interrupted));
                    }
                }
            }
            // Cells that left have a note: groups without cells lack nothing.
            let live: Vec<&ConfirmedGroup> = groups.iter().filter(|confirmed| self.has_live(confirmed)).collect();
            if live.is_empty() {
                break;
            }
            if live.iter().any(|confirmed| self.is_out_of_time(number, confirmed)) {
                return self.end_by_time(&live);
            }
            if number == 0 {
                self.warn_of_slow_blocks(groups)?;
            }
        }
        Ok(None)
    }

    /// Ends an analysis whose time is over, with a note where blocks are missing: the session is complete if they suffice.
    fn end_by_time(&mut self, live: &[&ConfirmedGroup]) -> Result<Option<Ended>, RunError> {
        let analysis = self.analysis;
        let progress = |confirmed: &&ConfirmedGroup| {
            (self.visits(&confirmed.group, Stage::Confirm), self.target(&confirmed.group, analysis))
        };
        let share = |(done, of): &(u64, u64)| *done as f64 / (*of).max(1) as f64;
        let least = live.iter().map(progress).min_by(|a, b| share(a).total_cmp(&share(b)));
        let Some((done, of)) = least.filter(|(done, of)| done < of) else { return Ok(None) };
        let time = match analysis {
            1 => format!("the budget of {}", Nanos(self.plan.budget_ns)),
            _ => "the time of --max-time".to_owned(),
        };
        let note = format!("the blocks of analysis {analysis} stopped after {done} of {of}, when {time} was over");
        if analysis == 1 && live.iter().all(|confirmed| self.has_fewest(confirmed)) {
            self.record.note(note)?;
            return Ok(Some(Ended::Complete));
        }
        // Not stored with the session: it is only true until the session is resumed.
        self.record.tell(format!("{note}; --resume measures what the analysis lacks"));
        Ok(Some(Ended::OutOfTime))
    }

    /// Whether a group still has a cell to compare.
    fn has_live(&self, confirmed: &ConfirmedGroup) -> bool {
        confirmed.cells.iter().any(|cell| cell.kind == CellKind::Candidate && self.lives(cell))
    }

    /// Whether a group has the minimum number of blocks; a group without comparisons needs none.
    fn has_fewest(&self, confirmed: &ConfirmedGroup) -> bool {
        let compares = confirmed.cells.iter().filter(|cell| cell.kind == CellKind::Candidate).count() > 1;
        let fewest = if compares { FEW_BLOCKS as u64 } else { 1 };
        self.visits(&confirmed.group, Stage::Confirm) >= fewest.min(self.target(&confirmed.group, 1))
    }

    /// Whether a cell is still measured. An A/A control leaves with the cell that it repeats.
    pub(crate) fn lives(&self, cell: &Cell) -> bool {
        let gone = |id: &CellId| self.cells.left.contains(id);
        !gone(&cell.id) && !cell.twin_of.as_ref().is_some_and(gone)
    }

    /// Every group with its finalists, A/A control and floor, and the length of its trials.
    fn confirmed_groups(&mut self) -> Result<Vec<ConfirmedGroup>, RunError> {
        let mut groups = Vec::new();
        for family in self.plan.families.clone() {
            for group in &family.groups {
                let ids = self.done.finalists.get(group).cloned().unwrap_or_default();
                let mut cells: Vec<Cell> =
                    self.live_cells(group).filter(|cell| ids.contains(&cell.id)).cloned().collect();
                // The screening leader; without screening the middle of the grid, which is no extreme.
                let named = if family.is_screened() { ids.first() } else { ids.get(ids.len() / 2) };
                let leader = named.and_then(|id| cells.iter().find(|cell| cell.id == *id).cloned());
                let Some(leader) = leader.or_else(|| cells.first().cloned()) else { continue };
                // No change is left, and long runs of the program as it is alone show nothing.
                if cells.len() == 1 && self.plan.has_long_runs() {
                    continue;
                }
                let twin = (cells.len() > 1).then(|| twin(&leader));
                // The harness costs nothing while a program runs.
                let floor = self.plan.task.is_none().then(|| floor(&leader));
                let artefacts = self.plan.artefacts_of(group).cloned();
                let extra: Vec<Cell> = twin.into_iter().chain(floor).chain(artefacts).collect();
                self.record.store.add_cells(self.record.session, &extra)?;
                cells.extend(extra);
                groups.push(ConfirmedGroup {
                    group: group.clone(),
                    cells,
                    window_ns: self.done.shortened.get(group).copied().unwrap_or(family.trial_ns),
                });
            }
        }
        Ok(groups)
    }

    /// Fixes the number of blocks of every group until the first analysis, from the time that is left; a resumed session keeps
    /// its numbers. If the time does not suffice for the minimum, trials become shorter.
    fn fix_blocks(&mut self, groups: &mut [ConfirmedGroup]) -> Result<(), RunError> {
        if groups.iter().all(|confirmed| self.done.first_blocks.contains_key(&confirmed.group)) {
            return Ok(());
        }
        // If a kill left out some, no block was measured yet.
        let design = self.plan.design;
        let spent_ns = self.clock.spent_ns();
        let fewest = design.blocks_min as f64;
        let (windows_ns, rest_ns) = self.round_ns(groups);
        let free_ns = self.left_of_budget_ns();
        let kept_ns = kept_for_audit(self.plan.schedule().audit_ns, free_ns, fewest * (windows_ns + rest_ns));
        let left_ns = (free_ns - kept_ns as f64).max(0.0);
        if self.plan.blocks.is_none() && windows_ns > 0.0 && left_ns < fewest * (windows_ns + rest_ns) {
            let share = (left_ns / fewest - rest_ns) / windows_ns;
            for confirmed in groups.iter_mut() {
                let shortened_ns = (confirmed.window_ns as f64 * share.clamp(SHORTEST_SHARE, 1.0)) as u64;
                // A trial without a completed call is worth nothing, even if it fits the budget.
                let shortest_ns = design.shortest_confirm_ns(self.conditions(&confirmed.group));
                confirmed.window_ns = shortened_ns.max(shortest_ns.min(confirmed.window_ns));
                let ns = json!(confirmed.window_ns);
                self.record.set_fact(&confirmed.group, "trial_ns", &ns)?;
            }
        }
        let (windows_ns, rest_ns) = self.round_ns(groups);
        let round_ns = windows_ns + rest_ns;
        let blocks = self.plan.blocks.unwrap_or_else(|| design.fitting_blocks(left_ns, round_ns));
        self.done.first_blocks = groups.iter().map(|confirmed| (confirmed.group.clone(), blocks)).collect();
        self.declare_analyses(groups)?;
        let end_ns = (spent_ns + kept_ns) as f64 + blocks as f64 * round_ns;
        if self.plan.blocks.is_none() && end_ns > self.plan.budget_ns as f64 * OVERTIME {
            self.take_longer(end_ns as u64)?;
        }
        Ok(())
    }

    /// Time of one block of every group: windows that may be shortened, and everything else, nanoseconds.
    fn round_ns(&self, groups: &[ConfirmedGroup]) -> (f64, f64) {
        let parts_ns = groups.iter().map(|confirmed| self.parts_ns(confirmed));
        parts_ns.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Time of one block of a group, nanoseconds: that of measured blocks, else the sum of its trials. Forecasts are based on
    /// it, and spent time is compared with it.
    pub(crate) fn forecast_ns(&self, confirmed: &ConfirmedGroup) -> f64 {
        match self.times.blocks.get(&confirmed.group) {
            Some(TimeSum { ns, count: count @ 1.. }) => *ns as f64 / *count as f64,
            _ => {
                let (windows_ns, rest_ns) = self.parts_ns(confirmed);
                windows_ns + rest_ns
            }
        }
    }

    /// Time of one block, from measured trials and blocks: windows that may be shortened, and everything else,
    /// nanoseconds.
    fn parts_ns(&self, confirmed: &ConfirmedGroup) -> (f64, f64) {
        let group_ns = self.overhead_ns(&confirmed.group);
        let (mut windows_ns, mut rest_ns) = (0, 0);
        for cell in &confirmed.cells {
            if cell.kind == CellKind::Floor {
                rest_ns += self.floor_trial_ns(&confirmed.group);
                continue;
            }
            let overhead_ns = self.times.run_ns(cell.subject()).unwrap_or(group_ns);
            let explicit_ns = cell.factors.duration();
            let warmup_ns = self.warmup_of(cell);
            let (warmup_ns, window_ns) = match explicit_ns {
                Some(window_ns) => (warmup_ns, window_ns),
                None => self.lengths_ns(cell, (warmup_ns, confirmed.window_ns)),
            };
            let pace = self.pace(&confirmed.group);
            let (asked, lengths_ns) = (self.plan.objective, (warmup_ns, window_ns));
            let trial_ns = trial_length::search_trial_ns(&cell.factors, asked, lengths_ns, overhead_ns, pace);
            // Windows of a search are as long as its objective needs, others as long as enough calls take.
            let shortens = explicit_ns.is_none() && !cell.factors.searches_rate() && window_ns <= confirmed.window_ns;
            windows_ns += if shortens { window_ns } else { 0 };
            rest_ns += if shortens { warmup_ns + overhead_ns } else { trial_ns };
        }
        (self.plan.block_ns(windows_ns, 0) as f64, self.block_ns(rest_ns) as f64)
    }
}

/// Time reserved for the long-trial check: at most the time that the minimum number of blocks leaves.
fn kept_for_audit(planned_ns: u64, free_ns: f64, fewest_ns: f64) -> u64 {
    planned_ns.min((free_ns - fewest_ns).max(0.0) as u64)
}

/// The A/A control: the leader a second time under another name.
fn twin(leader: &Cell) -> Cell {
    Cell {
        id: CellId(format!("{}t", leader.id).into()),
        kind: CellKind::Twin,
        twin_of: Some(leader.id.clone()),
        ..leader.clone()
    }
}

/// Changes the level of a factor that a cell has.
fn set_if_given(factors: &mut Spec, key: FactorKey, level: Level) {
    if factors.level(key) != Level::Absent {
        factors.set_level(key, level);
    }
}

/// The leader's loop without anything to move or to do.
fn floor(leader: &Cell) -> Cell {
    let mut factors = leader.factors.clone();
    // It connects to no other process, and stays on this host.
    for key in [FactorKey::connect, FactorKey::host, FactorKey::relay_host] {
        set_if_given(&mut factors, key, Level::auto());
    }
    for key in [FactorKey::link_delay, FactorKey::link_loss, FactorKey::link_rate] {
        set_if_given(&mut factors, key, Level::Absent);
    }
    set_if_given(&mut factors, FactorKey::engine, Level::Name(Engine::Null.to_string()));
    set_if_given(&mut factors, FactorKey::implementation, Level::Name(Implementation::Null.to_string()));
    if factors.workload() == Workload::Call {
        // The client alone is left, with one call at a time and as fast as it can.
        factors.put(FactorKey::flows, 1);
        factors.put(FactorKey::depth, 1);
        factors.put(FactorKey::idle_flows, 0);
        factors.put(FactorKey::competing_flows, 0);
        factors.put(FactorKey::think_time, 0);
        factors.put(FactorKey::client_engine, Engine::Null);
        factors.put(FactorKey::server_engine, Engine::Null);
        factors.set_level(FactorKey::call_rate, "max".into());
        factors.set_level(FactorKey::slo, "none".into());
    }
    if factors.workload().has_path() {
        factors.put(FactorKey::work, Work::None);
        factors.put(FactorKey::working_set, 0);
        set_if_given(&mut factors, FactorKey::writer_work, "none".into());
        set_if_given(&mut factors, FactorKey::call_work, 0.into());
    }
    Cell {
        id: CellId(format!("{}n", leader.group).into()),
        group: leader.group.clone(),
        kind: CellKind::Floor,
        twin_of: None,
        factors,
    }
}

#[cfg(test)]
mod tests {
    use bytegauge_model::Fill;

    use super::*;

    #[test]
    fn the_floor_has_no_work() {
        let factors = Spec::from([
            ("workload", "stream".into()),
            ("transport", "tcp".into()),
            ("work", "sum".into()),
            ("writer_work", "touch".into()),
            ("call_work", 1000.into()),
        ]);
        let leader = Cell {
            id: CellId("c1".into()),
            group: GroupId("g1".into()),
            kind: CellKind::Candidate,
            twin_of: None,
            factors,
        };
        let floor = floor(&leader).factors;
        assert_eq!(
            (floor.work(), floor.writer_work(), floor.call_work()),
            (Some(Work::None), Some(Fill::None), Some(0))
        );
    }

    #[test]
    fn the_check_leaves_time_for_the_blocks() {
        assert_eq!(kept_for_audit(6, 60.0, 20.0), 6);
        assert_eq!(kept_for_audit(6, 24.0, 20.0), 4);
        assert_eq!(kept_for_audit(6, 20.0, 30.0), 0);
        assert_eq!(kept_for_audit(6, -5.0, 30.0), 0);
    }
}
