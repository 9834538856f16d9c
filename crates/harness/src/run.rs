//! A session in progress: the state of its stages, for a new session or one continued from any trial in the store.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytegauge_model::session::Stage;
use bytegauge_model::{Cell, CellId, CellKind, GroupId, Outcome, Probe, SessionId, Spec, Trial, Workload};
use bytegauge_plan::{Plan, RunTime};
use bytegauge_store::{NewSession, SessionLock, Store};
use bytegauge_sys::clock::{monotonic_ns, unix_ns};
use bytegauge_sys::environment::MachineEnvironment;
use bytegauge_sys::machine::irq_time_accounting;
use bytegauge_sys::topology::Topology;
use bytegauge_traffic::{EndPool, PlantedFault, RemoteHost, StartNetwork};
use serde_json::{Map, Value, json};

use crate::analysis_state::{AnalysisState, first_blocks};
use crate::bins::series;
use crate::environment::Watch;
use crate::event::{Event, Observer};
use crate::failures::Failures;
use crate::lost_host::LostHost;
use crate::run_error::RunError;
use crate::same_machine;

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

/// The part of a trial that screening needs: its cell, its block and its cost.
pub(crate) type Screened = (CellId, u64, f64);

/// A session in progress.
pub struct Run<'a> {
    pub(crate) plan: Plan,
    pub(crate) store: &'a mut Store,
    pub(crate) session: SessionId,
    pub(crate) options: RunOptions,
    pub(crate) observer: &'a mut dyn Observer,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) topology: Topology,
    pub(crate) watch: Watch,
    /// The kernel's name for this boot of this machine.
    pub(crate) boot_id: Option<String>,
    pub(crate) pool: Option<EndPool>,
    pub(crate) began_ns: u64,
    /// Whether it continues an earlier run.
    pub(crate) resumed: bool,
    pub(crate) next_block: u64,
    pub(crate) warmup: BTreeMap<GroupId, u64>,
    pub(crate) finalists: BTreeMap<GroupId, Vec<CellId>>,
    /// Blocks of every group until its first analysis, once they are fixed.
    pub(crate) first_blocks: BTreeMap<GroupId, u64>,
    /// The present analysis, from 1.
    pub(crate) look: u64,
    /// Trials that were shortened before the session was interrupted, nanoseconds.
    pub(crate) shortened: BTreeMap<GroupId, u64>,
    /// Lengthened trials of cells with slow calls, nanoseconds.
    pub(crate) lengthened: BTreeMap<CellId, u64>,
    pub(crate) visited: BTreeMap<(GroupId, Stage), u64>,
    pub(crate) failures: BTreeMap<CellId, Failures>,
    /// Reasons of failures in notes, without digits: each is written once.
    pub(crate) noted_reasons: BTreeSet<String>,
    /// Whether a note has reported that a program's runs need more time than given.
    pub(crate) noted_time: bool,
    /// The first value with which a user's server was not ready, and the reason.
    pub(crate) unserved: Option<(CellId, Outcome)>,
    pub(crate) left: BTreeSet<CellId>,
    /// Losses of a far host since the last measured trial.
    pub(crate) losses: u32,
    /// The host that did not come back.
    pub(crate) lost: Option<LostHost>,
    pub(crate) screening: Vec<Screened>,
    /// Cells whose load is below the maximum: looked up after every trial.
    offered: BTreeSet<CellId>,
    pub(crate) last_series: Option<Vec<f64>>,
    /// Time spent in long-trial checks, nanoseconds.
    pub(crate) audited_ns: u64,
    pub(crate) confirm_ns: u64,
    pub(crate) confirm_began_ns: u64,
    /// Expected time of the analyses after the present one, nanoseconds.
    pub(crate) further_ns: u64,
    // Held until the run is over: no other process measures this session.
    _owner: SessionLock,
    /// Overheads of trials by group: their sum, and their number.
    overheads_ns: BTreeMap<GroupId, (u64, u64)>,
    /// Times of trials of a program with their overhead, by cell: their sum, and their number.
    runs_ns: BTreeMap<CellId, (u64, u64)>,
    /// The runs alone: their sum, and their number.
    within_runs_ns: (u64, u64),
    /// Time spent in trials, nanoseconds.
    pub(crate) trials_ns: u64,
    /// Overheads of blocks in addition to their trials: their sum, and their number.
    pub(crate) block_overheads_ns: (u64, u64),
    /// Times of confirmation blocks of each group: their sum, and their number.
    pub(crate) block_times_ns: BTreeMap<GroupId, (u64, u64)>,
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
        let session = store.create_session(&NewSession {
            plan_name: plan.name.clone(),
            workload: plan.workload.to_string(),
            seed: plan.seed,
            margin: plan.margin,
            version: env!("CARGO_PKG_VERSION").into(),
            plan: serde_json::to_value(&plan).unwrap_or(Value::Null),
            machine: machine(&options.links),
            notes: plan.notes.clone(),
            started_unix_ns: unix_ns(),
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
        run.left = run.plan.skipped.iter().map(|(cell, _)| cell.clone()).collect();
        run.observer.hear(&Event::Began { session, resumed: false });
        Ok(run)
    }

    /// Continues a session: with the analysis in which it was interrupted, or with the next one if that is complete.
    /// Trials in the store count as done.
    ///
    /// # Errors
    /// When the store cannot be read, the session was begun by an older version, on another machine or before the last
    /// boot of this one, or all its analyses are complete.
    pub fn resume(
        session: SessionId,
        store: &'a mut Store,
        options: RunOptions,
        observer: &'a mut dyn Observer,
        stop: &'a AtomicBool,
    ) -> Result<Run<'a>, RunError> {
        let record = store.session(session)?;
        let plan: Plan = serde_json::from_value(record.plan).map_err(|_| RunError::OldPlan(session))?;
        if let Some(place) = same_machine::elsewhere(&record.machine, &machine(&options.links)) {
            return Err(RunError::Elsewhere { session, place });
        }
        let owner = store.own(session)?;
        // Checked once no other process measures it.
        let state = AnalysisState::of(&store.groups(session)?);
        let look = AnalysisState::look_ahead(state, store.session(session)?.status)
            .ok_or(RunError::Over { session, looks: plan.looks })?;
        // A kill at the start may have left out some of these.
        store.add_groups(session, &plan.groups)?;
        store.add_cells(session, &visited(&plan))?;
        let blocks = store.blocks(session)?;
        let trials = store.trials(session)?;
        let (groups, cells) = (store.groups(session)?, store.cells(session)?);
        let mut run = Run::new(plan, store, (session, owner), options, observer, stop);
        // A block that was cut off has trials but no record: its number is used up all the same.
        let last_seen = trials.iter().map(|trial| trial.block).chain(blocks.iter().map(|block| block.index)).max();
        run.next_block = last_seen.map_or(0, |last| last + 1);
        run.look = look;
        run.resumed = true;
        run.first_blocks = first_blocks(&groups);
        for block in &blocks {
            run.learn_block(&block.group, block.stage, block.complete, block.surroundings.wall_ns);
        }
        for row in groups {
            if let Some(ns) = row.number("warmup_ns") {
                run.warmup.insert(row.group.id.clone(), ns);
            }
            run.shortened.extend(row.number("trial_ns").map(|ns| (row.group.id.clone(), ns)));
            if let Some(ids) = row.facts.get("finalists").and_then(|ids| serde_json::from_value(ids.clone()).ok()) {
                run.finalists.insert(row.group.id.clone(), ids);
            }
        }
        run.left = cells.into_iter().filter(|row| row.outcome.is_some()).map(|row| row.cell.id).collect();
        for trial in &trials {
            run.remember(trial);
        }
        // Time spent before counts against the budget, including trials of a block that was cut off.
        let recorded: HashSet<u64> = blocks.iter().map(|block| block.index).collect();
        let cut_off = trials.iter().filter(|trial| !recorded.contains(&trial.block));
        let spent_ns: u64 = blocks.iter().map(|block| block.surroundings.wall_ns).sum::<u64>()
            + cut_off.map(|trial| trial.warmup_ns + trial.wall_ns).sum::<u64>();
        run.began_ns = run.began_ns.saturating_sub(spent_ns);
        // The last step that can fail: from here on `execute` closes the session, however it ends.
        run.store.resume_session(session)?;
        run.observer.hear(&Event::Began { session, resumed: true });
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
        let offered = plan.cells.iter().filter(|cell| cell.factors.offers_load()).map(|cell| cell.id.clone()).collect();
        Run {
            plan,
            store,
            session,
            options,
            observer,
            stop,
            topology: Topology::read().unwrap_or_default(),
            watch: Watch::open(),
            boot_id: MachineEnvironment::read().boot_id,
            pool: None,
            began_ns: monotonic_ns(),
            resumed: false,
            next_block: 0,
            warmup: BTreeMap::new(),
            finalists: BTreeMap::new(),
            first_blocks: BTreeMap::new(),
            look: 1,
            shortened: BTreeMap::new(),
            lengthened: BTreeMap::new(),
            visited: BTreeMap::new(),
            failures: BTreeMap::new(),
            noted_reasons: BTreeSet::new(),
            unserved: None,
            noted_time: false,
            left: BTreeSet::new(),
            losses: 0,
            lost: None,
            screening: Vec::new(),
            offered,
            last_series: None,
            audited_ns: 0,
            confirm_ns: 0,
            confirm_began_ns: 0,
            further_ns: 0,
            _owner: owner,
            overheads_ns: BTreeMap::new(),
            runs_ns: BTreeMap::new(),
            within_runs_ns: (0, 0),
            trials_ns: 0,
            block_overheads_ns: (0, 0),
            block_times_ns: BTreeMap::new(),
        }
    }

    /// The session's number.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Candidates of a group that have not left it.
    pub(crate) fn live_cells<'b>(&'b self, group: &'b GroupId) -> impl Iterator<Item = &'b Cell> {
        self.plan.measurable(group).filter(|cell| !self.left.contains(&cell.id))
    }

    /// The warm-up of a group's confirmation trials, nanoseconds.
    pub(crate) fn warmup(&self, group: &GroupId) -> u64 {
        self.plan.design.confirm_warmup_ns(self.conditions(group), self.warmup.get(group).copied())
    }

    /// Warm-up and length of a group's screening trials, nanoseconds.
    pub(crate) fn screening(&self, group: &GroupId) -> (u64, u64) {
        self.plan.design.screening_ns(self.conditions(group), self.warmup.get(group).copied())
    }

    /// The common conditions of all cells of a group.
    pub(crate) fn conditions(&self, group: &GroupId) -> &Spec {
        const NONE: &Spec = &Spec::of(Workload::Stream);
        self.plan.group(group).map_or(NONE, |group| &group.factors)
    }

    /// Blocks that a group has had in a stage.
    pub(crate) fn visits(&self, group: &GroupId, stage: Stage) -> u64 {
        self.visited.get(&(group.clone(), stage)).copied().unwrap_or(0)
    }

    /// Counts a block, and learns its time. A broken block is repeated if blocks are compared; otherwise it is good
    /// enough: its measured cells have scores.
    pub(crate) fn learn_block(&mut self, group: &GroupId, stage: Stage, complete: bool, spent_ns: u64) {
        if !complete && matches!(stage, Stage::Confirm | Stage::Audit) {
            return;
        }
        *self.visited.entry((group.clone(), stage)).or_default() += 1;
        if stage == Stage::Confirm {
            let (sum_ns, blocks) = self.block_times_ns.entry(group.clone()).or_default();
            *sum_ns += spent_ns;
            *blocks += 1;
        }
        if stage == Stage::Audit {
            self.audited_ns += spent_ns;
        }
    }

    /// Overhead of a trial in addition to its warm-up and window, as measured so far, nanoseconds: in its group (with many flows
    /// it is far more than with one), else in all groups.
    pub(crate) fn overhead_ns(&self, group: &GroupId) -> u64 {
        let all = || self.overheads_ns.values().fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
        let (sum_ns, trials) = self.overheads_ns.get(group).copied().unwrap_or_else(all);
        sum_ns.checked_div(trials).unwrap_or(self.plan.design.overhead_ns)
    }

    /// Time of a trial of a program with the value of a cell, as measured so far, nanoseconds: its run and its
    /// overhead. `None` without a measurement, or without a program.
    pub(crate) fn run_ns(&self, cell: &CellId) -> Option<u64> {
        let (sum_ns, runs) = self.runs_ns.get(cell)?;
        sum_ns.checked_div(*runs)
    }

    /// Mean time of a trial of a program over the measured values.
    pub(crate) fn mean_run(&self) -> Option<RunTime> {
        let seen: Vec<u64> = self.runs_ns.keys().filter_map(|cell| self.run_ns(cell)).collect();
        let all_ns = seen.iter().sum::<u64>().checked_div(seen.len() as u64)?;
        let (sum_ns, runs) = self.within_runs_ns;
        let run_ns = sum_ns.checked_div(runs)?.min(all_ns);
        Some(RunTime { run_ns, around_ns: all_ns - run_ns })
    }

    /// Time of a trial of those values that are likely confirmed, nanoseconds: the fast half of the measured ones, and those that are
    /// confirmed whatever they are. `mean_ns` if none was measured.
    pub(crate) fn confirmed_run_ns(&self, mean_ns: u64) -> u64 {
        let is_kept = |id: &CellId| {
            let cell = self.plan.cells.iter().find(|cell| cell.id == *id);
            cell.is_some_and(|cell| self.plan.always_confirms(&cell.factors))
        };
        let mut seen: Vec<(u64, bool)> =
            self.runs_ns.keys().filter_map(|cell| Some((self.run_ns(cell)?, is_kept(cell)))).collect();
        seen.sort_unstable();
        let fast = seen.len().div_ceil(2);
        let kept: Vec<u64> =
            seen.iter().enumerate().filter(|(at, (_, kept))| *at < fast || *kept).map(|(_, (ns, _))| *ns).collect();
        kept.iter().sum::<u64>().checked_div(kept.len() as u64).unwrap_or(mean_ns)
    }

    /// Overhead of a block in addition to its trials, as measured so far, nanoseconds.
    pub(crate) fn block_overhead_ns(&self) -> u64 {
        let (sum_ns, blocks) = self.block_overheads_ns;
        sum_ns.checked_div(blocks).unwrap_or(0)
    }

    /// Forgets the time of the first run of a program, which differs from the others: caches were cold.
    pub(crate) fn forget_overheads(&mut self) {
        self.overheads_ns.clear();
        self.runs_ns.clear();
        self.within_runs_ns = (0, 0);
    }

    /// Learns from a trial of one window, or of a search with several probes.
    pub(crate) fn learn_overhead(&mut self, trial: &Trial, window_ns: u64, spent_ns: u64, cell: &Cell) {
        self.trials_ns += spent_ns;
        if cell.kind == CellKind::Floor {
            return;
        }
        let probes = search(trial);
        let windows_ns = if probes.is_empty() { window_ns } else { probes.iter().map(|probe| probe.window_ns).sum() };
        let measurements = probes.len().max(1) as u64;
        let (sum_ns, seen) = self.overheads_ns.entry(cell.group.clone()).or_default();
        *sum_ns += spent_ns.saturating_sub(windows_ns + measurements * trial.warmup_ns);
        *seen += measurements;
        if self.plan.task.is_some() {
            let (sum_ns, runs) = self.runs_ns.entry(cell.subject().clone()).or_default();
            *sum_ns += spent_ns;
            *runs += 1;
            self.within_runs_ns.0 += trial.wall_ns;
            self.within_runs_ns.1 += 1;
        }
    }

    /// A conservative number of calls per second of a group's trials, which is also expected in its searches' probes: about
    /// half of the rate of a closed loop there; before one was measured, the plan's assumption.
    pub(crate) fn pace(&self, group: &GroupId) -> f64 {
        self.plan.pace(group, self.conditions(group))
    }

    /// Reports to the observer that a stage begins, with its trials and blocks.
    pub(crate) fn tell_stage(&mut self, stage: Stage, trials: u64, blocks: u64) {
        self.observer.hear(&Event::Stage { stage, trials, blocks, session: self.session, store: &*self.store });
    }

    /// Keeps the data of a trial that later stages need, and notifies the observer.
    pub(crate) fn tell_trial(&mut self, cell: &Cell, trial: &Trial) {
        self.remember(trial);
        let elapsed_ns = monotonic_ns() - self.began_ns;
        let left_ns = self.left_ns(elapsed_ns);
        self.observer.hear(&Event::Trial { cell, trial, elapsed_ns, left_ns, further_ns: self.further_ns });
    }

    fn remember(&mut self, trial: &Trial) {
        if let Some(pace) = pace(trial)
            && let Some(cell) = self.plan.cells.iter().find(|cell| cell.id == trial.cell)
        {
            self.plan.seen.paces.insert(cell.group.clone(), pace);
        }
        match trial.stage {
            Stage::Screen | Stage::Narrow => {
                let cost = trial.cost_ns(self.offered.contains(&trial.cell));
                self.screening.extend(cost.map(|cost| (trial.cell.clone(), trial.block, cost)));
            }
            Stage::Calibrate => self.last_series = series(trial),
            Stage::Confirm | Stage::Audit => {}
        }
    }

    /// Time until the end: by the budget until the blocks are fixed, then by the blocks that are left.
    fn left_ns(&self, elapsed_ns: u64) -> u64 {
        match self.confirm_began_ns {
            0 => self.plan.budget_ns.min(self.plan.schedule().total_ns()).saturating_sub(elapsed_ns),
            _ => self.confirm_ns.saturating_sub(monotonic_ns().saturating_sub(self.confirm_began_ns)),
        }
    }
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

/// The probes of a trial that searched.
fn search(trial: &Trial) -> &[Probe] {
    trial.client().map_or(&[], |call| &call.search)
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

/// The machine as it is now. Whether softirq time is accounted separately is checked here once, since the answer
/// is in the kernel's build, not in a counter.
pub(crate) fn machine(links: &[Arc<dyn RemoteHost>]) -> Value {
    let mut facts = serde_json::to_value(MachineEnvironment::read()).unwrap_or(Value::Null);
    if let Value::Object(facts) = &mut facts {
        facts.insert("irq_time_accounting".into(), irq_time_accounting().into());
        let far: Map<String, Value> =
            links.iter().filter_map(|link| Some((link.agent().to_string(), far(&**link)?))).collect();
        if !far.is_empty() {
            facts.insert(same_machine::FAR_HOSTS.into(), far.into());
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
