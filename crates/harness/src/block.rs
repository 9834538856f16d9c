//! One block: a group's contiguous visit to cells, each trial stored before the next. The order is seeded and random, except
//! where cells with long runs are screened: those keep the plan's order.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytegauge_model::factor::Role;
use bytegauge_model::session::{BlockRecord, Stage};
use bytegauge_model::{
    Cell, CellKind, EndRole, FactorKey, GroupId, Nanos, Outcome, ProgramTask, ReadyWhen, RunningRelay, TaskReport,
    Trial, Workload, without_digits,
};
use bytegauge_plan::trial_length::CallsNeeded;
use bytegauge_plan::{block_order, trial_length};
use bytegauge_sys::clock::{monotonic_ns, unix_ns};
use bytegauge_sys::process_tree;
use bytegauge_traffic::path::Ticket;
use bytegauge_traffic::program::running_service::ServiceRecord;
use bytegauge_traffic::setup::GRACE_NS;
use bytegauge_traffic::{EndPool, PlantedFault, RemoteHost, Setup, relay};

use crate::environment::{block_end, block_start};
use crate::run::{Run, RunError, RunOptions};
use crate::run_state::sleep_unless;
use crate::stages::Event;
use crate::trial::{self, TrialResult};
use crate::{cpu_placement, knee};

/// The settings of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockTask<'a> {
    pub stage: Stage,
    pub group: &'a GroupId,
    pub cells: &'a [Cell],
    /// Length of a trial unless the cell's `duration` sets another one, nanoseconds.
    pub window_ns: u64,
}

/// How an attempt at a trial or a block ended.
pub(crate) enum Attempt<T> {
    /// It is in the store.
    Done(T),
    /// The user wants to stop, or a far host did not come back. Nothing of it is stored.
    Interrupted,
    /// A far host was lost and is back: the block is repeated.
    Repeat,
}

/// Series are kept for trials at least this long.
const SERIES_FROM_NS: u64 = 1_000_000_000;

/// Incomplete blocks of a group in a row, after which a cell leaves at its first failure. Options of which each fails now and
/// then would else keep every block from being complete, without an end where a number of blocks was given.
const INCOMPLETE_MAX: u32 = 5;

/// Why a change of a program with long runs is not tried.
const NO_ROOM: &str = "no time for a run of it: name it with --option, or give more --time";

/// How often a pause checks whether the user wants to stop.
const REST_STEP: Duration = Duration::from_millis(20);

impl Run<'_> {
    /// Visits the cells once, records the block, and learns its time. `false` if interrupted: its trials are
    /// kept, but there is no record of the block. A block that lost a far host is repeated when the host is back, as often as
    /// [`Losses`](crate::lost_host::Losses) allows; nothing of the earlier attempt is kept.
    pub(crate) fn visit(&mut self, task: &BlockTask<'_>) -> Result<bool, RunError> {
        self.losses.begin_block();
        loop {
            match self.block(task)? {
                Attempt::Done(()) => return Ok(true),
                Attempt::Interrupted => return Ok(false),
                Attempt::Repeat => {
                    self.done.next_block -= 1;
                    self.record.store.remove_trials(self.record.session, self.done.next_block)?;
                }
            }
        }
    }

    fn block(&mut self, task: &BlockTask<'_>) -> Result<Attempt<()>, RunError> {
        let (block_began_ns, trials_ns) = (monotonic_ns(), self.times.trials_ns);
        let mut rested_ns = 0;
        let index = self.done.next_block;
        self.done.next_block += 1;
        // Processes are fresh in every block; threads are fresh in every trial anyway.
        self.machine.pool = None;
        let started_unix_ns = unix_ns();
        let start = block_start(self.elsewhere_ns());
        let mut complete = true;
        for (position, cell) in self.order(task, index).into_iter().enumerate() {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(Attempt::Interrupted);
            }
            if task.stage == Stage::Screen && position > 0 && !self.fits_long_run() {
                self.leave(&task.cells[cell], &Outcome::Skipped(NO_ROOM.into()))?;
                continue;
            }
            let (began_ns, cell) = (monotonic_ns(), &task.cells[cell]);
            let measured = match self.trial(task, cell, index, position as u32)? {
                Attempt::Done(measured) => measured,
                Attempt::Interrupted => return Ok(Attempt::Interrupted),
                Attempt::Repeat => return Ok(Attempt::Repeat),
            };
            if self.plan.gentle {
                let took_ns = monotonic_ns() - began_ns;
                sleep_unless(|| self.stop.load(Ordering::Relaxed), Duration::from_nanos(took_ns), REST_STEP);
                rested_ns += took_ns;
            }
            // If the harness's own loop got no CPU, the options were compared all the same.
            complete &= measured || cell.kind == CellKind::Floor;
        }
        if self.plan.task.is_some() {
            // The CPU time of a program is charged to its parent, and to us once that parent has ended.
            self.machine.pool = None;
        }
        let surroundings = block_end(&start, self.elsewhere_ns());
        let (group, stage) = (task.group.clone(), task.stage);
        let record = BlockRecord { index, group, stage, started_unix_ns, complete, surroundings };
        self.record.store.record_block(self.record.session, &record)?;
        self.record.observer.hear(&Event::Block(&record));
        let spent_ns = monotonic_ns() - block_began_ns;
        self.learn_block(task.group, task.stage, complete, spent_ns);
        if complete {
            self.times.block_overheads.add(spent_ns.saturating_sub(self.times.trials_ns - trials_ns + rested_ns), 1);
        }
        Ok(Attempt::Done(()))
    }

    /// The order of the trials of a block. Where few runs of a program fit, the first suspects are tried first.
    fn order(&self, task: &BlockTask<'_>, index: u64) -> Vec<usize> {
        match task.stage == Stage::Screen && self.plan.has_long_runs() {
            true => (0..task.cells.len()).collect(),
            false => block_order::order(task.cells.len(), self.plan.seed, index),
        }
    }

    /// Measures one cell once and stores the trial. Returns whether it was measured.
    fn trial(
        &mut self,
        task: &BlockTask<'_>,
        cell: &Cell,
        block: u64,
        position: u32,
    ) -> Result<Attempt<bool>, RunError> {
        let mut setup = self.setup(task, cell, block)?;
        let limit_ns = self.run_limit_ns(task.stage, cell).filter(|limit_ns| *limit_ns < setup.run_timeout_ns());
        if let Some(limit_ns) = limit_ns {
            setup.spec.put(FactorKey::run_timeout, limit_ns);
        }
        self.record_service();
        let began_ns = monotonic_ns();
        let started_unix_ns = unix_ns();
        let Some(mut measured) = self.measure(task, cell, &setup) else {
            self.machine.pool = None;
            return Ok(Attempt::Interrupted);
        };
        if let Some(attempt) = self.loss(&cell.id, &setup, (began_ns, &measured))? {
            return Ok(attempt);
        }
        if !measured.ends_are_sound {
            self.machine.pool = None;
        }
        self.leave_out_own_agent(&setup, &mut measured);
        let window_ns = setup.window_ns;
        let too_short = self.lengthen(task, cell, &measured, window_ns);
        // No call in a window that was then lengthened is no stall yet: the next trial decides.
        let went_well = measured.outcome == Outcome::Measured || measured.outcome.moved_nothing();
        if let Some(calls) = too_short.filter(|_| went_well) {
            measured.outcome = Outcome::Failed(format!(
                "{calls} calls of {} flows are too few: measured once more, for longer",
                cell.factors.flows().unwrap_or(1)
            ));
        }
        if let Some(limit_ns) = limit_ns.filter(|ns| measured.outcome.is_failed() && monotonic_ns() - began_ns >= *ns) {
            let is_long = limit_ns > self.plan.watched_ns();
            let than = if is_long { "longer than the watched run" } else { "when another took a small part of that" };
            measured.outcome = Outcome::Skipped(format!("stopped after {}, {than}", Nanos(limit_ns)));
        }
        let place = Trial::without_numbers(cell.id.clone(), self.plan.workload, task.stage, Outcome::Measured);
        let record = measured.recorded(&setup, Trial { block, position, started_unix_ns, ..place });
        self.record.store.record_trial(self.record.session, &record)?;
        let spent_ns = monotonic_ns() - began_ns;
        if record.outcome == Outcome::Measured {
            self.times.learn_overhead(&record, window_ns, spent_ns, cell, self.plan.task.is_some());
        }
        self.tell_trial(cell, &record);
        if let Some(why) = self.why_service_is_left(cell, &record) {
            self.end_all(&Outcome::Failed(why))?;
            return Ok(Attempt::Done(false));
        }
        let good = record.outcome == Outcome::Measured;
        if too_short.is_some() {
            // The trial was only too short.
            return self.trial(task, cell, block, position);
        }
        if !good {
            self.trouble(cell, &record)?;
        } else if task.stage != Stage::Calibrate {
            // Calibration has no objective: its trials show nothing about those of a search.
            self.cells.failures.entry(cell.id.clone()).or_default().succeed();
        }
        Ok(Attempt::Done(good))
    }

    /// Runs one trial, or the search of a knee. `None` if the user stopped it.
    fn measure(&mut self, task: &BlockTask<'_>, cell: &Cell, setup: &Setup) -> Option<TrialResult> {
        let stop = self.stop;
        // The path settles independently of the rate: a closed loop calibrates.
        let slo = cell.factors.slo().filter(|_| task.stage != Stage::Calibrate);
        // Each end is started when it is first used.
        let pool = self.machine.pool.get_or_insert_with(|| {
            let RunOptions { program, links, start_network, .. } = &self.options;
            EndPool::new(self.plan.ends, program).with_links(links.clone()).with_network(*start_network)
        });
        let max_loss = cell.factors.max_loss().filter(|_| task.stage != Stage::Calibrate);
        match (&slo, max_loss, setup.workload()) {
            (Some(slo), _, Workload::Call) => knee::measure(pool, setup, slo, stop),
            (_, Some(limit), Workload::Stream) => knee::measure_loss(pool, setup, limit, stop),
            _ => trial::measure(pool, setup, stop),
        }
    }

    /// Leaves out the load of the relay's host if that is this machine, where it is counted already.
    fn leave_out_own_agent(&self, setup: &Setup, measured: &mut TrialResult) {
        let relay_host = setup.far.and_then(|far| far.relay);
        let is_here = |link: &Arc<dyn RemoteHost>| Some(link.agent()) == relay_host && self.is_here(&**link);
        if let Some(relay) = measured.ends.get_mut(EndRole::Relay).and_then(|end| end.relay.as_mut())
            && self.options.links.iter().any(is_here)
        {
            relay.host_busy_ns = None;
        }
    }

    /// Lengthens the trials of a cell in which hardly any call is completed. Returns the number of calls. `None` if
    /// there were enough, at the limit, and if calls fail or the user fixed the duration.
    fn lengthen(&mut self, task: &BlockTask<'_>, cell: &Cell, measured: &TrialResult, window_ns: u64) -> Option<u64> {
        let call = measured.end(EndRole::Client)?.call.as_ref()?;
        let fixed = task.stage == Stage::Confirm && cell.factors.duration().is_some();
        let CallsNeeded { enough, longest_ns, .. } = CallsNeeded::of(&cell.factors, self.plan.objective);
        if cell.kind == CellKind::Floor || fixed || call.calls >= enough || !call.errors.is_empty() {
            return None;
        }
        let longer_ns = (window_ns as f64 * 2.0 * enough as f64 / call.calls.max(enough / 2) as f64) as u64;
        let longer_ns = longer_ns.min(longest_ns);
        if longer_ns <= window_ns {
            return None;
        }
        self.cells.lengthened.insert(cell.subject().clone(), longer_ns);
        Some(call.calls)
    }

    /// Warm-up and window of a trial of a cell, no shorter than those given: as long as the calls of its group need, and longer
    /// if those of this cell were slower. An A/A control has those of the leader.
    pub(crate) fn lengths_ns(&self, cell: &Cell, lengths_ns: (u64, u64)) -> (u64, u64) {
        let at_pace_ns =
            trial_length::lengths_ns(&cell.factors, self.plan.objective, lengths_ns, self.pace(&cell.group));
        trial_length::lengthened_ns(at_pace_ns, self.cells.lengthened.get(cell.subject()).copied().unwrap_or(0))
    }

    fn setup(&self, task: &BlockTask<'_>, cell: &Cell, block: u64) -> Result<Setup, RunError> {
        let design = &self.plan.design;
        // A duration applies to reported trials: calibration and screening keep their own lengths.
        let explicit_ns = cell.factors.duration().filter(|_| task.stage == Stage::Confirm);
        let warmup_ns = match task.stage {
            Stage::Calibrate => 0,
            Stage::Screen | Stage::Narrow => self.screening(task.group).0,
            Stage::Confirm | Stage::Audit => self.warmup_of(cell),
        };
        let (warmup_ns, window_ns) = match (cell.kind, explicit_ns) {
            // The null loop only warms up its lap length and the CPU's clock.
            (CellKind::Floor, _) => (500_000, design.floor_ns),
            (_, Some(window_ns)) => (warmup_ns, window_ns),
            (_, None) => self.lengths_ns(cell, (warmup_ns, task.window_ns)),
        };
        let series = task.stage == Stage::Calibrate || window_ns >= SERIES_FROM_NS;
        let cpus = cpu_placement::cpus(&cell.factors, &self.machine.topology, block_order::coin(self.plan.seed, block));
        let grace_ns = self.options.grace_ns.unwrap_or(GRACE_NS);
        let plant = self.plant(cell);
        if let Some(task) = &self.plan.task {
            let setup = Setup::of_program(&cell.factors, task);
            let ready_ns = Some(self.plan.ready_ns(setup.run_timeout_ns()));
            return Ok(Setup { cpus, ready_ns, seed: self.plan.seed ^ block, ..setup });
        }
        // No byte reaches the null engine's reader, so none can be compared.
        let verify = self.plan.verify && cell.kind != CellKind::Floor;
        let seed = self.plan.seed ^ block;
        let mut setup = Setup::of(&cell.factors)?;
        if let Some(far) = setup.far.as_mut() {
            far.ticket = Ticket::fresh()?;
        }
        Ok(Setup { warmup_ns, window_ns, series, verify, seed, cpus, grace_ns, plant, ..setup })
    }

    /// The time limit of a first run of a changed program, nanoseconds.
    fn run_limit_ns(&self, stage: Stage, cell: &Cell) -> Option<u64> {
        let is_first = stage != Stage::Confirm || self.times.run_ns(cell.subject()).is_none();
        let is_limited = is_first && !self.plan.is_unchanged(&cell.factors);
        self.plan.run_limit_ns(self.times.shortest_run_ns()?).filter(|_| is_limited)
    }

    /// The fault that is planted in a cell, if one is.
    fn plant(&self, cell: &Cell) -> Option<PlantedFault> {
        let (choice, plant) = self.options.plant.as_ref()?;
        let meant = cell.kind != CellKind::Floor && choice.as_ref().is_none_or(|id| *id == cell.id);
        meant.then_some(*plant)
    }

    /// CPU time of participants here that this process did not start: the ends of agents on this machine, and relays and programs
    /// that ran already. It belongs to the measurement, not to other programs. Load of other machines is not included.
    /// `None` if `/proc` does not report it.
    fn elsewhere_ns(&self) -> Option<u64> {
        let running = self.plan.cells.iter().filter_map(|cell| cell.factors.relay()?.running());
        let relays: HashSet<&RunningRelay> = running.collect();
        let relays: Vec<RunningRelay> = relays.into_iter().cloned().collect();
        let changes = self.plan.task.as_ref().and_then(|task| task.changes.as_ref());
        let service = changes.and_then(|changes| changes.service.as_ref());
        let service_ns = service.map_or(Some(0), |service| {
            process_tree::used_by(&BTreeSet::from([service.pid])).ok().map(|used| used.cpu_ns)
        })?;
        let here = self.options.links.iter().filter(|link| self.is_here(&***link));
        let at_agents_ns: u64 = here.filter_map(|link| link.used_ns()).sum();
        Some(at_agents_ns + service_ns + relay::used_by_running(&relays).ok()?.cpu_ns)
    }

    /// Whether an agent is on this machine, perhaps in another network namespace.
    fn is_here(&self, link: &dyn RemoteHost) -> bool {
        let facts = link.facts();
        let there = facts.as_ref().and_then(|facts| facts.machine.get("boot_id")?.as_str());
        there.is_some() && there == self.machine.boot_id.as_deref()
    }

    /// Counts a failure. A skipped cell leaves at once, a failed one by the rule of [`Failures`](crate::run_state::Failures), or
    /// at once if the group's blocks are never complete. The block of a failure is repeated. All cells leave if a user's server serves no value.
    fn trouble(&mut self, cell: &Cell, trial: &Trial) -> Result<(), RunError> {
        let outcome = &trial.outcome;
        if self.is_never_served(cell, trial) {
            return self.end_all(outcome);
        }
        let is_too_often = self.cells.failures.entry(cell.id.clone()).or_default().fail();
        let is_last = self.cells.incomplete.get(&cell.group).is_some_and(|blocks| *blocks >= INCOMPLETE_MAX);
        let leaves = matches!(outcome, Outcome::Skipped(_)) || is_too_often || is_last;
        if leaves && self.leave(cell, outcome)? {
            let reason = outcome.reason().unwrap_or("no reason was given").to_owned();
            let name = self.side(cell).map_or_else(|| named(cell), str::to_owned);
            let is_new = self.cells.noted_reasons.insert(without_digits(&reason));
            let why = if is_new { reason } else { "the same failure".into() };
            self.record.tell(format!("{name} gets no further trials: {why}"));
        }
        Ok(())
    }

    /// Keeps the options of a running program's connections, in case the process that switches them is killed.
    fn record_service(&mut self) {
        let changes = self.plan.task.as_ref().and_then(|task| task.changes.as_ref());
        let Some((changes, service)) = changes.and_then(|changes| Some((changes, changes.service.as_ref()?))) else {
            return;
        };
        if self.machine.service.is_none() {
            self.machine.service = ServiceRecord::new(service, changes).ok();
        }
        // A program that cannot be read fails its trial, with the reason.
        self.machine.service.as_mut().and_then(|record| record.update().ok());
    }

    /// Why no further trial of a running program is made: it has ended or could not be set back, or a change does harm.
    fn why_service_is_left(&mut self, cell: &Cell, trial: &Trial) -> Option<String> {
        let task = self.plan.task.as_ref()?;
        let service = task.changes.as_ref()?.service.as_ref()?;
        let reason = || trial.outcome.reason().unwrap_or_default().to_owned();
        if matches!(trial.outcome, Outcome::Failed(_)) && trial.end(EndRole::Command).is_none() {
            let then = match self.machine.service.as_mut().map(ServiceRecord::restore) {
                Some(0) => "its options were set back".to_owned(),
                Some(left) => format!("{left} of its connections may keep changed options: restart it"),
                None => "its connections may keep changed options: restart it".to_owned(),
            };
            return Some(format!("{}: the trial of {service} was lost, and {then}", reason()));
        }
        if trial.task().is_some_and(|task| task.service_lost) {
            return Some(reason());
        }
        let value = cell.factors.value()?;
        self.cells.guard.add(trial, &value, task.default.as_ref() == Some(&value), service.max_harm)
    }

    /// A cell leaves its group. Returns whether it was there.
    fn leave(&mut self, cell: &Cell, outcome: &Outcome) -> Result<bool, RunError> {
        let is_new = self.cells.left.insert(cell.id.clone());
        if is_new {
            self.record.store.set_cell_outcome(self.record.session, &cell.id, outcome)?;
        }
        Ok(is_new)
    }

    /// All cells leave, for one reason.
    fn end_all(&mut self, outcome: &Outcome) -> Result<(), RunError> {
        for cell in self.plan.cells.clone() {
            self.leave(&cell, outcome)?;
        }
        let reason = outcome.reason().unwrap_or("no reason was given").to_owned();
        self.record.tell(format!("nothing is measured: {reason}"));
        Ok(())
    }

    /// Whether the server of a program will serve no value: it listens at another port than named; or it is never ready, and the
    /// same with every value; or two values failed in the same way. Remembers the first.
    fn is_never_served(&mut self, cell: &Cell, trial: &Trial) -> bool {
        let is_unserved = |task: &&TaskReport| task.server_not_ready || task.server_unreached;
        let Some(report) = trial.task().filter(is_unserved).filter(|_| self.times.trials_ns == 0) else { return false };
        let task = self.plan.task.as_ref();
        let ready = task.and_then(|task| task.server.as_ref()).map(|server| &server.ready);
        let is_elsewhere = matches!(ready, Some(ReadyWhen::Tcp(_))) && !report.server_ports.is_empty();
        let is_fixed = report.server_not_ready && task.is_some_and(ProgramTask::has_fixed_server);
        if is_elsewhere || is_fixed {
            return true;
        }
        let (first, same) = self.cells.unserved.get_or_insert_with(|| (cell.subject().clone(), trial.outcome.clone()));
        let kind = |outcome: &Outcome| outcome.reason().map(without_digits);
        first != cell.subject() && kind(same) == kind(&trial.outcome)
    }

    /// The name of a side, where two are compared.
    fn side(&self, cell: &Cell) -> Option<&'static str> {
        let versus = self.plan.versus.as_ref()?;
        let sides = [("A", &versus.a.cell), ("B", &versus.b.cell)];
        sides.into_iter().find(|(_, id)| **id == cell.id).map(|(name, _)| name)
    }
}

/// A cell by its options, in the notation of the user: `read 32K, write 64K`.
fn named(cell: &Cell) -> String {
    let chosen = cell.factors.present().filter(|(factor, level)| {
        cell.factors.role_of(factor.name) == Role::Choice && !level.is_auto() && factor.name != "engine"
    });
    let words: Vec<String> =
        chosen.map(|(factor, level)| format!("{} {}", factor.heading, factor.kind.compact(&level))).collect();
    let again = if cell.twin_of.is_some() { " (measured a second time)" } else { "" };
    match words.is_empty() {
        true => cell.id.to_string(),
        false => format!("{}{again}", words.join(", ")),
    }
}
