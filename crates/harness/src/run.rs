//! A session in progress: the state of its stages, for a new session or one continued from any trial in the store.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytegauge_model::session::Stage;
use bytegauge_model::{Cell, CellId, GroupId, SessionId, Spec, Trial, Workload};
use bytegauge_plan::{Plan, trial_length};
use bytegauge_stats::trial_metrics::cost_ns;
use bytegauge_store::{SessionLock, Store, StoreError};
use bytegauge_sys::clock::{monotonic_ns, unix_ns};
use bytegauge_sys::environment::MachineEnvironment;
use bytegauge_sys::topology::Topology;
use bytegauge_traffic::{EndError, PlantedFault, RemoteHost, StartNetwork};
use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::calibrate::series;
use crate::interim::{AnalysisState, first_blocks};
use crate::lost_host::{FAR_HOSTS, Losses, LostHost, elsewhere};
use crate::run_state::{CellStates, RunClock, RunMachine, RunTimes, SessionWriter, StageResults, search};
use crate::stages::{Event, Observer};

/// Settings of a run in addition to its plan.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// This program's own file, for ends that are processes.
    pub program: PathBuf,
    /// A fault to plant, in one cell or in all.
    pub plant: Option<(Option<CellId>, PlantedFault)>,
    /// How long an end may be late before it counts as stalled, nanoseconds.
    pub grace_ns: Option<u64>,
    /// Continues from analysis to analysis until more blocks would not help.
    pub until_proven: bool,
    /// Begins no further analysis that would end after this much of the session's time, nanoseconds: time before a resume
    /// counts, pauses do not.
    pub until_max_ns: Option<u64>,
    /// Links to the agents of other hosts, where ends run.
    pub links: Vec<Arc<dyn RemoteHost>>,
    /// Makes the network between the ends of trials with an emulated link; cells with a link fail without it.
    pub start_network: Option<StartNetwork>,
    /// How long the run waits for a host that is lost, nanoseconds; [`HOST_WAIT_NS`](crate::HOST_WAIT_NS) if absent.
    pub host_wait_ns: Option<u64>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Every block of the analysis was measured, or enough of them in the available time.
    Complete,
    /// The time was over before the minimum number of blocks was measured; the session can be resumed.
    OutOfTime,
    /// The user stopped it; the session can be resumed.
    Interrupted,
    /// A far host was lost and did not come back in time: its name and the reason. The session can be resumed.
    HostLost(String),
}

/// A session in progress.
pub struct Run<'a> {
    pub(crate) plan: Plan,
    pub(crate) options: RunOptions,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) record: SessionWriter<'a>,
    pub(crate) machine: RunMachine,
    pub(crate) clock: RunClock,
    pub(crate) times: RunTimes,
    pub(crate) done: StageResults,
    pub(crate) cells: CellStates,
    /// The present analysis, from 1.
    pub(crate) analysis: u64,
    /// Whether a note has reported that the blocks need more time than given.
    pub(crate) noted_time: bool,
    /// Lost far hosts.
    pub(crate) losses: Losses,
    /// The host that did not come back, or was lost too often.
    pub(crate) lost: Option<LostHost>,
}

impl<'a> Run<'a> {
    /// Begins a session.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn begin(
        plan: Plan,
        store: &'a mut Store,
        options: RunOptions,
        observer: &'a mut dyn Observer,
        stop: &'a AtomicBool,
    ) -> Result<Run<'a>, RunError> {
        let session = store.create_session(&bytegauge_model::SessionRecord {
            plan_name: plan.name.clone(),
            workload: plan.workload.to_string(),
            seed: plan.seed,
            margin: plan.margin,
            version: env!("CARGO_PKG_VERSION").into(),
            plan: serde_json::to_value(&plan).unwrap_or(Value::Null),
            machine: machine(&options.links),
            notes: plan.notes.clone(),
            // The watched run belongs to it.
            started_unix_ns: unix_ns().saturating_sub(plan.watched_ns()),
            ..bytegauge_model::SessionRecord::default()
        })?;
        store.add_groups(session, &plan.groups)?;
        let visited = visited(&plan);
        store.add_cells(session, &visited)?;
        let known: HashSet<&CellId> = visited.iter().map(|cell| &cell.id).collect();
        for (cell, outcome) in &plan.skipped {
            if known.contains(cell) {
                store.set_cell_outcome(session, cell, outcome)?;
            }
        }
        let owner = store.own(session)?;
        let mut run = Run::new(plan, store, (session, owner), options, observer, stop);
        run.cells.left = run.plan.skipped.iter().map(|(cell, _)| cell.clone()).collect();
        run.record.observer.hear(&Event::Began { session, resumed: false });
        Ok(run)
    }

    /// Continues a session: with the analysis in which it was interrupted, or with the next one if that is complete.
    /// Trials in the store count as done.
    ///
    /// # Errors
    /// When the store cannot be read, the session was begun by another version, on another machine or before the last
    /// boot of this one, or all its analyses are complete.
    pub fn resume(
        session: SessionId,
        store: &'a mut Store,
        options: RunOptions,
        observer: &'a mut dyn Observer,
        stop: &'a AtomicBool,
    ) -> Result<Run<'a>, RunError> {
        let record = store.session(session)?;
        let plan = stored_plan(session, record.plan)?;
        if let Some(place) = elsewhere(&record.machine, &machine(&options.links)) {
            return Err(RunError::Refused(format!(
                "session {session} cannot be resumed: it was begun {place}, and its results hold for one machine in one boot: \
                 show it with `bytegauge report {session}`, or run it again without --resume"
            )));
        }
        let owner = store.own(session)?;
        // Checked once no other process measures it.
        let state = AnalysisState::of(&store.groups(session)?);
        let analysis = AnalysisState::analysis_ahead(state, store.session(session)?.status)
            .ok_or_else(|| RunError::over(session, state, plan.analyses))?;
        // A kill at the start may have left out some of these.
        store.add_groups(session, &plan.groups)?;
        store.add_cells(session, &visited(&plan))?;
        let blocks = store.blocks(session)?;
        let trials = store.trials(session)?;
        let (groups, cells) = (store.groups(session)?, store.cells(session)?);
        let mut run = Run::new(plan, store, (session, owner), options, observer, stop);
        // A block that was cut off has trials but no record: its number is used up all the same.
        let last_seen = trials.iter().map(|trial| trial.block).chain(blocks.iter().map(|block| block.index)).max();
        run.done.next_block = last_seen.map_or(0, |last| last + 1);
        run.analysis = analysis;
        run.clock.resumed = true;
        run.done.first_blocks = first_blocks(&groups);
        for block in &blocks {
            run.learn_block(&block.group, block.stage, block.complete, block.surroundings.wall_ns);
        }
        for row in groups {
            if let Some(ns) = row.number("warmup_ns") {
                run.done.warmup.insert(row.group.id.clone(), ns);
            }
            run.done.shortened.extend(row.number("trial_ns").map(|ns| (row.group.id.clone(), ns)));
            if let Some(ids) = row.facts.get("finalists").and_then(|ids| serde_json::from_value(ids.clone()).ok()) {
                run.done.finalists.insert(row.group.id.clone(), ids);
            }
        }
        run.cells.left = cells.into_iter().filter(|row| row.outcome.is_some()).map(|row| row.cell.id).collect();
        for trial in &trials {
            run.remember(trial);
        }
        // Time spent before counts against the budget, including trials of a block that was cut off.
        let recorded: HashSet<u64> = blocks.iter().map(|block| block.index).collect();
        let cut_off = trials.iter().filter(|trial| !recorded.contains(&trial.block));
        let spent_ns: u64 = blocks.iter().map(|block| block.surroundings.wall_ns).sum::<u64>()
            + cut_off.map(|trial| trial.warmup_ns + trial.wall_ns).sum::<u64>();
        run.clock.began_ns = run.clock.began_ns.saturating_sub(spent_ns);
        // The last step that can fail: from here on `execute` closes the session, however it ends.
        run.record.store.resume_session(session)?;
        run.record.observer.hear(&Event::Began { session, resumed: true });
        Ok(run)
    }

    fn new(
        plan: Plan,
        store: &'a mut Store,
        (session, owner): (SessionId, SessionLock),
        options: RunOptions,
        observer: &'a mut dyn Observer,
        stop: &'a AtomicBool,
    ) -> Run<'a> {
        let clock = RunClock { began_ns: monotonic_ns().saturating_sub(plan.watched_ns()), ..RunClock::default() };
        let times = RunTimes::after_watched(&plan);
        Run {
            plan,
            options,
            stop,
            record: SessionWriter { store, session, observer, _owner: owner },
            machine: RunMachine {
                topology: Topology::read().unwrap_or_default(),
                boot_id: MachineEnvironment::read().boot_id,
                pool: None,
                service: None,
            },
            clock,
            times,
            done: StageResults::default(),
            cells: CellStates::default(),
            analysis: 1,
            noted_time: false,
            losses: Losses::default(),
            lost: None,
        }
    }

    /// The session's number.
    pub fn session(&self) -> SessionId {
        self.record.session
    }

    /// Candidates of a group that have not left it.
    pub(crate) fn live_cells<'b>(&'b self, group: &'b GroupId) -> impl Iterator<Item = &'b Cell> {
        self.plan.measurable(group).filter(|cell| !self.cells.left.contains(&cell.id))
    }

    /// The warm-up of a group's confirmation trials, nanoseconds.
    pub(crate) fn warmup(&self, group: &GroupId) -> u64 {
        self.plan.design.confirm_warmup_ns(self.conditions(group), self.done.warmup.get(group).copied())
    }

    /// The warm-up of a cell's confirmation trials, nanoseconds: cells that are compared may differ in a condition that sets it.
    pub(crate) fn warmup_of(&self, cell: &Cell) -> u64 {
        let found_ns = self.done.warmup.get(&cell.group).copied();
        self.warmup(&cell.group).max(self.plan.design.confirm_warmup_ns(&cell.factors, found_ns))
    }

    /// Warm-up and length of a group's screening trials, nanoseconds.
    pub(crate) fn screening(&self, group: &GroupId) -> (u64, u64) {
        self.plan.design.screening_ns(self.conditions(group), self.done.warmup.get(group).copied())
    }

    /// The common conditions of all cells of a group.
    pub(crate) fn conditions(&self, group: &GroupId) -> &Spec {
        const NONE: &Spec = &Spec::of(Workload::Stream);
        self.plan.group(group).map_or(NONE, |group| &group.factors)
    }

    /// Blocks that a group has had in a stage.
    pub(crate) fn visits(&self, group: &GroupId, stage: Stage) -> u64 {
        self.done.visited.get(&(group.clone(), stage)).copied().unwrap_or(0)
    }

    /// Counts a block, and learns its time. A broken block is repeated if blocks are compared; otherwise it is good
    /// enough: its measured cells have scores.
    pub(crate) fn learn_block(&mut self, group: &GroupId, stage: Stage, complete: bool, spent_ns: u64) {
        if matches!(stage, Stage::Confirm | Stage::Audit) {
            let incomplete = self.cells.incomplete.entry(group.clone()).or_default();
            *incomplete = if complete { 0 } else { *incomplete + 1 };
            if !complete {
                return;
            }
        }
        *self.done.visited.entry((group.clone(), stage)).or_default() += 1;
        if stage == Stage::Confirm {
            self.times.blocks.entry(group.clone()).or_default().add(spent_ns, 1);
        }
        if stage == Stage::Audit {
            self.clock.audited_ns += spent_ns;
        }
    }

    /// Overhead of a trial in addition to its warm-up and window, as measured so far or as planned, nanoseconds.
    pub(crate) fn overhead_ns(&self, group: &GroupId) -> u64 {
        self.plan.overhead_ns(self.conditions(group), self.times.overhead_ns(group))
    }

    /// Time of a trial of a group at the pace so far, nanoseconds.
    pub(crate) fn trial_ns(&self, group: &GroupId, lengths_ns: (u64, u64)) -> u64 {
        let (conditions, asked) = (self.conditions(group), self.plan.objective);
        trial_length::search_trial_ns(conditions, asked, lengths_ns, self.overhead_ns(group), self.pace(group))
    }

    /// A trial of the harness's own loop, nanoseconds.
    pub(crate) fn floor_trial_ns(&self, group: &GroupId) -> u64 {
        self.plan.floor_trial_ns(self.times.overhead_ns(group))
    }

    /// A block whose trials take this time, nanoseconds.
    pub(crate) fn block_ns(&self, trials_ns: u64) -> u64 {
        self.plan.block_ns(trials_ns, self.times.block_overheads.mean_ns().unwrap_or(0))
    }

    /// Time of a trial of those values that are likely confirmed, nanoseconds; `mean_ns` if none was measured.
    pub(crate) fn confirmed_run_ns(&self, mean_ns: u64) -> u64 {
        let is_kept = |id: &CellId| {
            let cell = self.plan.cells.iter().find(|cell| cell.id == *id);
            cell.is_some_and(|cell| self.plan.always_confirms(&cell.factors))
        };
        self.times.confirmed_run_ns(is_kept).unwrap_or(mean_ns)
    }

    /// A conservative number of calls per second of a group's trials, which is also expected in its searches' probes: about
    /// half of the rate of a closed loop there; before one was measured, the plan's assumption.
    pub(crate) fn pace(&self, group: &GroupId) -> f64 {
        self.plan.pace(group, self.conditions(group))
    }

    /// Keeps the data of a trial that later stages need, and notifies the observer.
    pub(crate) fn tell_trial(&mut self, cell: &Cell, trial: &Trial) {
        self.remember(trial);
        let elapsed_ns = self.clock.spent_ns();
        let left_ns = self.left_ns(elapsed_ns);
        self.record.observer.hear(&Event::Trial { cell, trial, elapsed_ns, left_ns });
    }

    fn remember(&mut self, trial: &Trial) {
        let cell = self.plan.cells.iter().find(|cell| cell.id == trial.cell);
        if let Some((pace, cell)) = pace(trial).zip(cell) {
            self.plan.seen.paces.insert(cell.group.clone(), pace);
        }
        match trial.stage {
            Stage::Screen | Stage::Narrow => {
                let factors = cell.map(|cell| &cell.factors);
                let cost = factors.and_then(|factors| cost_ns(trial, factors.cost(self.plan.objective), factors));
                self.done.screening.extend(cost.map(|cost| (trial.cell.clone(), trial.block, cost)));
            }
            Stage::Calibrate => self.done.last_series = series(trial),
            Stage::Confirm | Stage::Audit => {}
        }
    }

    /// Time until the end: by the budget until the blocks are fixed, then by the blocks that are left.
    fn left_ns(&self, elapsed_ns: u64) -> u64 {
        match self.clock.confirm_began_ns {
            0 => self.plan.budget_ns.min(self.plan.schedule().total_ns()).saturating_sub(elapsed_ns),
            _ => self.clock.confirm_ns.saturating_sub(monotonic_ns().saturating_sub(self.clock.confirm_began_ns)),
        }
    }
}

/// The plan with which a session was begun.
///
/// # Errors
/// If this version cannot read it, or lacks a factor or a level of it.
pub fn stored_plan(session: SessionId, stored: Value) -> Result<Plan, RunError> {
    let is_known = |plan: &Plan| plan.cells.iter().all(|cell| cell.factors.is_known());
    serde_json::from_value(stored).ok().filter(is_known).ok_or_else(|| {
        RunError::Refused(format!(
            "session {session} was begun by another version of bytegauge and cannot be resumed: run it again without --resume"
        ))
    })
}

/// The cells that are fixed from the start: a group that only measures the finalists gets its cells when they are chosen. One in
/// which everything is skipped never has finalists, and its cells have the reasons.
fn visited(plan: &Plan) -> Vec<Cell> {
    let skipped: HashSet<&CellId> = plan.skipped.iter().map(|(id, _)| id).collect();
    let live: HashSet<_> =
        plan.cells.iter().filter(|cell| !skipped.contains(&cell.id)).map(|cell| &cell.group).collect();
    let alone = plan.seeing_finalists_alone();
    let is_fixed = |cell: &&Cell| !alone.contains(&cell.group) || !live.contains(&cell.group);
    plan.cells.iter().filter(is_fixed).cloned().collect()
}

/// Mean rate of a search's probes, relative to the measured closed loop.
fn pace(trial: &Trial) -> Option<f64> {
    let closed = match (trial.stage, search(trial)) {
        (Stage::Calibrate, _) => trial.rate()?,
        (_, [first, ..]) if first.window_ns > 0 => first.calls as f64 * 1e9 / first.window_ns as f64,
        _ => return None,
    };
    (closed > 0.0).then_some(closed / 2.0)
}

/// The machine as it is now.
pub(crate) fn machine(links: &[Arc<dyn RemoteHost>]) -> Value {
    let mut facts = serde_json::to_value(MachineEnvironment::read()).unwrap_or(Value::Null);
    if let Value::Object(facts) = &mut facts {
        let far: Map<String, Value> =
            links.iter().filter_map(|link| Some((link.agent().to_string(), far(&**link)?))).collect();
        if !far.is_empty() {
            facts.insert(FAR_HOSTS.into(), far.into());
        }
    }
    facts
}

/// The agent's description of its host when the session began, or when its link was made again.
fn far(link: &dyn RemoteHost) -> Option<Value> {
    let facts = link.facts()?;
    Some(json!({ "program": facts.program, "machine": facts.machine }))
}

/// This machine, as sessions record it: an agent reports it for its own.
pub fn this_machine() -> Value {
    machine(&[])
}

// Why a run cannot continue, with the next step.

/// Why a run cannot continue. Everything recorded before is in the store.
#[derive(Debug, Error)]
pub enum RunError {
    /// The store refuses.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A cell does not resolve: a bug in planning.
    #[error(transparent)]
    EndError(#[from] EndError),
    /// The session cannot be continued, with what to do.
    #[error("{0}")]
    Refused(String),
}

impl RunError {
    /// Why a session that is complete cannot be continued.
    #[must_use]
    pub fn over(session: SessionId, state: Option<AnalysisState>, analyses: u64) -> RunError {
        RunError::Refused(match state {
            Some(_) => format!(
                "session {session} is over (analyses: {analyses} of {analyses}): its number of analyses was fixed at the start, \
                 since further ones could find a significant result by chance. Show it with `bytegauge report {session}`, or \
                 measure a new session without --resume"
            ),
            None => format!(
                "session {session} is over: every option failed, so there is nothing to add. Show the reasons with \
                 `bytegauge report {session}`, or measure a new session without --resume"
            ),
        })
    }
}
