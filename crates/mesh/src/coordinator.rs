//! The coordinator of a mesh as a state machine: which slot may start, which has ended, which rank is lost.
//!
//! Rank 0 runs it. Its caller passes on what ranks send and what time it is, and carries out the [`Action`]s. It has no
//! socket and no clock, so that a test can step 1,000 ranks through a run in which some are dead, slow or lying.
//!
//! There is no barrier between rounds. A slot starts when it is the next one of each of its members and all of them
//! are idle. Slots are in one order for all ranks, so the first unfinished slot can always start or be given up:
//! nothing waits for ever. Every wait has a limit ([`CoordinatorLimits`]).

use std::collections::{BTreeMap, BTreeSet};

use bytegauge_model::Outcome;
use thiserror::Error;

use crate::Rank;
use crate::message::shortened;
use crate::rate_model::RateSample;
use crate::schedule::{MeshSchedule, SlotId};

/// Why a rank takes no further part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum LostRank {
    /// It never joined.
    #[error("did not join in time")]
    Absent,
    /// Its connection ended before its work did.
    #[error("disconnected")]
    Disconnected,
    /// It gave no sign of life for too long.
    #[error("stopped answering")]
    Silent,
    /// It did not confirm that it had stopped.
    #[error("did not stop when its test was cancelled")]
    Stuck,
    /// It reported a slot that it was not measuring.
    #[error("reported a test that it was not running")]
    Misreported,
    /// It left because it cannot measure; the reason is in its log.
    #[error("left because of an error of its own")]
    Left,
}

/// A client's part of a slot that was not measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingPart {
    /// The slot.
    pub slot: SlotId,
    /// The client.
    pub client: Rank,
    /// Skipped or failed, with the reason.
    pub outcome: Outcome,
}

/// How long the coordinator waits, and how many slots run at a time. Times are nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoordinatorLimits {
    /// From the start until a rank that has not joined counts as absent.
    pub join_ns: u64,
    /// From the last sign of life of a rank until it counts as lost.
    pub silence_ns: u64,
    /// From the start of a slot until it is cancelled.
    pub slot_ns: u64,
    /// From the cancellation of a slot until a client that has not confirmed it counts as lost.
    pub cancel_ns: u64,
    /// The most slots that run at the same time.
    pub concurrent: usize,
}

/// An instruction to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Tell a client to measure its part of a slot, and to report.
    Start(Rank, SlotId),
    /// Tell a client to stop measuring, and to report.
    Cancel(Rank, SlotId),
    /// Close the connection of a rank: it is lost, or it has broken the protocol.
    Drop(Rank, LostRank),
}

/// The largest logarithm of a rate, and the negative of the smallest: e^60 bytes per second are a hundred million EB/s.
const LN_RATE_MAX: f64 = 60.0;

/// The slots of one run: those that wait, run and are over.
#[derive(Debug)]
pub struct Coordinator {
    schedule: MeshSchedule,
    limits: CoordinatorLimits,
    /// By rank; an external server is the last one.
    ranks: Vec<RankState>,
    /// Whether a slot is over, by its id.
    over: Vec<bool>,
    running: BTreeMap<SlotId, RunningSlot>,
    /// Slots whose members are all idle and have it next.
    ready: BTreeSet<SlotId>,
    /// Parts of an earlier run.
    done: BTreeSet<(SlotId, Rank)>,
    missing: Vec<MissingPart>,
    actions: Vec<Action>,
    left: usize,
}

#[derive(Debug)]
struct RankState {
    phase: RankPhase,
    /// The last sign of life, nanoseconds.
    heard_ns: u64,
    /// Its slots in order.
    queue: Vec<SlotId>,
    /// The first of them that is not over.
    next: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RankPhase {
    Expected,
    Idle,
    /// A member of a running slot.
    Busy(SlotId),
    /// Asked to stop at this time; has not confirmed it.
    Stopping(SlotId, u64),
    Lost(LostRank),
}

#[derive(Debug)]
struct RunningSlot {
    since_ns: u64,
    /// Clients that have not reported, or not confirmed that they have stopped.
    waits_for: BTreeSet<Rank>,
    /// Whether it was cancelled. It holds its members until its clients have confirmed that, or are lost.
    is_cancelled: bool,
}

impl Coordinator {
    /// Waits for all ranks of a schedule.
    pub fn new(schedule: MeshSchedule, limits: CoordinatorLimits) -> Coordinator {
        let (ranks, parties) = (schedule.ranks(), schedule.parties());
        let state = |rank| {
            // An external server joins and leaves no mesh.
            let phase = if rank < ranks { RankPhase::Expected } else { RankPhase::Idle };
            RankState { phase, heard_ns: 0, queue: Vec::new(), next: 0 }
        };
        let mut coordinator = Coordinator {
            schedule,
            limits,
            ranks: (0..parties).map(state).collect(),
            over: Vec::new(),
            running: BTreeMap::new(),
            ready: BTreeSet::new(),
            done: BTreeSet::new(),
            missing: Vec::new(),
            actions: Vec::new(),
            left: 0,
        };
        coordinator.enqueue(0);
        coordinator
    }

    /// Adds a round: for each slot its hub and clients. Lost ranks are skipped as in any other slot.
    ///
    /// # Panics
    /// If a rank occurs twice in the round.
    pub fn push_round(&mut self, replicate: u32, slots: &[(Rank, Vec<Rank>)], now_ns: u64) {
        let first = self.schedule.len() as SlotId;
        self.schedule.push_round(replicate, slots);
        self.enqueue(first);
        for rank in 0..self.schedule.ranks() {
            if let RankPhase::Lost(why) = self.ranks[rank as usize].phase {
                self.give_up_slots(rank, why);
            }
        }
        self.start_ready(now_ns);
    }

    /// The schedule, with added rounds.
    pub fn schedule(&self) -> &MeshSchedule {
        &self.schedule
    }

    /// Whether no slot is left to run.
    pub fn is_over(&self) -> bool {
        self.left == 0
    }

    /// The number of slots that wait or run.
    pub fn slots_left(&self) -> usize {
        self.left
    }

    /// Parts of slots that were not measured, in the order in which that became certain.
    pub fn missing(&self) -> &[MissingPart] {
        &self.missing
    }

    /// Ranks that take no further part, with the reason.
    pub fn lost(&self) -> impl Iterator<Item = (Rank, LostRank)> {
        self.ranks.iter().enumerate().filter_map(|(rank, state)| match state.phase {
            RankPhase::Lost(why) => Some((rank as Rank, why)),
            _ => None,
        })
    }

    /// The instructions to the caller since the last call.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// A rank joins. `done` has the slots of which it has its part already. `false` if it cannot join: no rank of this
    /// mesh, joined already, or lost.
    pub fn join(&mut self, rank: Rank, done: &[SlotId], now_ns: u64) -> bool {
        let Some(state) = self.ranks.get_mut(rank as usize) else { return false };
        if state.phase != RankPhase::Expected {
            return false;
        }
        (state.phase, state.heard_ns) = (RankPhase::Idle, now_ns);
        for slot in done {
            self.mark_done(*slot, rank);
        }
        self.offer_next(rank);
        self.start_ready(now_ns);
        true
    }

    /// Records a part that was measured in an earlier run; a slot is over when all its clients have theirs.
    fn mark_done(&mut self, slot: SlotId, client: Rank) {
        let is_open = self.over.get(slot as usize) == Some(&false) && !self.running.contains_key(&slot);
        if !is_open || !self.schedule.slot(slot).clients.contains(&client) {
            return;
        }
        self.done.insert((slot, client));
        let clients = self.schedule.slot(slot).clients;
        if clients.iter().all(|client| self.done.contains(&(slot, *client))) {
            self.end_slot(slot);
        }
    }

    /// A rank gave a sign of life.
    pub fn heard(&mut self, rank: Rank, now_ns: u64) {
        if let Some(state) = self.ranks.get_mut(rank as usize) {
            state.heard_ns = now_ns;
        }
    }

    /// The caller did not listen for a while, for example because its process was stopped: signs of life may wait for it, so
    /// silence counts from now on.
    pub fn was_away(&mut self, now_ns: u64) {
        for state in &mut self.ranks {
            state.heard_ns = state.heard_ns.max(now_ns);
        }
    }

    /// A client reports how its part of a slot ended. Whether this report was awaited: no other one may count.
    pub fn report(&mut self, rank: Rank, slot: SlotId, outcome: Outcome, now_ns: u64) -> bool {
        self.heard(rank, now_ns);
        let Some(state) = self.ranks.get(rank as usize) else { return false };
        let mut was_awaited = false;
        match state.phase {
            RankPhase::Busy(running) if running == slot && self.is_awaited(slot, rank) => {
                was_awaited = true;
                self.record(slot, rank, outcome);
                self.release(slot, rank);
            }
            RankPhase::Stopping(stopped, _) if stopped == slot => {
                self.ranks[rank as usize].phase = RankPhase::Busy(slot);
                self.release(slot, rank);
            }
            // Its connection is closed already.
            RankPhase::Lost(_) => return false,
            // Sent before it received the cancellation.
            _ if self.is_over_for(slot, rank) => {}
            _ => self.lose(rank, LostRank::Misreported, now_ns),
        }
        self.start_ready(now_ns);
        was_awaited
    }

    /// The rates of a report that a client may send about its slot, at most one per option and direction. Others are
    /// dropped: a rank decides about no other pair of hosts.
    pub fn own_rates(
        &self,
        client: Rank,
        slot: SlotId,
        rates: &[(u32, RateSample)],
        options: usize,
    ) -> Vec<(u32, RateSample)> {
        if slot as usize >= self.over.len() {
            return Vec::new();
        }
        let hub = self.schedule.slot(slot).hub;
        let mut seen = BTreeSet::new();
        let is_own = |(option, sample): &&(u32, RateSample)| {
            let pair = (sample.sender, sample.receiver);
            (*option as usize) < options
                && (pair == (hub, client) || pair == (client, hub))
                && sample.ln_rate.abs() <= LN_RATE_MAX
                && seen.insert((*option, sample.sender))
        };
        rates.iter().filter(is_own).copied().collect()
    }

    /// A rank is gone.
    pub fn lose(&mut self, rank: Rank, why: LostRank, now_ns: u64) {
        let Some(state) = self.ranks.get_mut(rank as usize) else { return };
        if matches!(state.phase, RankPhase::Lost(_)) {
            return;
        }
        let before = std::mem::replace(&mut state.phase, RankPhase::Lost(why));
        self.actions.push(Action::Drop(rank, why));
        if let RankPhase::Busy(slot) | RankPhase::Stopping(slot, _) = before {
            self.break_slot(slot, rank, why, now_ns);
        }
        self.give_up_slots(rank, why);
        self.start_ready(now_ns);
    }

    /// Time has passed: ends what has taken too long.
    pub fn tick(&mut self, now_ns: u64) {
        let limit_ns = self.limits.slot_ns;
        let is_late = |slot: &RunningSlot| !slot.is_cancelled && now_ns >= slot.since_ns.saturating_add(limit_ns);
        let late: Vec<SlotId> = self.running.iter().filter(|(_, slot)| is_late(slot)).map(|(id, _)| *id).collect();
        for slot in late {
            let limit_s = limit_ns as f64 / 1e9;
            self.cancel(slot, &Outcome::Failed(format!("not finished within {limit_s:.0} s")), now_ns);
        }
        for rank in 0..self.schedule.ranks() {
            if let Some((when_ns, why)) = self.expiry(rank)
                && now_ns >= when_ns
            {
                self.lose(rank, why, now_ns);
            }
        }
        self.start_ready(now_ns);
    }

    /// When a rank counts as lost if nothing comes from it, and why.
    fn expiry(&self, rank: Rank) -> Option<(u64, LostRank)> {
        let state = &self.ranks[rank as usize];
        let silent = (state.heard_ns.saturating_add(self.limits.silence_ns), LostRank::Silent);
        match state.phase {
            RankPhase::Expected => Some((self.limits.join_ns, LostRank::Absent)),
            RankPhase::Idle | RankPhase::Busy(_) => Some(silent),
            RankPhase::Stopping(_, since_ns) => {
                Some(silent.min((since_ns.saturating_add(self.limits.cancel_ns), LostRank::Stuck)))
            }
            RankPhase::Lost(_) => None,
        }
    }

    /// Puts the slots from `first` on into the queues of their members.
    fn enqueue(&mut self, first: SlotId) {
        self.over.resize(self.schedule.len(), false);
        for id in first..self.schedule.len() as SlotId {
            self.left += 1;
            for rank in self.schedule.slot(id).members() {
                self.ranks[rank as usize].queue.push(id);
            }
        }
        for rank in 0..self.schedule.ranks() {
            self.offer_next(rank);
        }
    }

    /// Marks the next slot of a rank as ready if all its members can start it.
    fn offer_next(&mut self, rank: Rank) {
        let state = &mut self.ranks[rank as usize];
        while state.queue.get(state.next).is_some_and(|slot| self.over[*slot as usize]) {
            state.next += 1;
        }
        let Some(slot) = state.queue.get(state.next).copied() else { return };
        if self.can_start(slot) {
            self.ready.insert(slot);
        }
    }

    /// Whether every member of a slot is idle and has the slot next. Lost clients do not count.
    fn can_start(&self, slot: SlotId) -> bool {
        self.schedule.slot(slot).members().all(|rank| {
            let state = &self.ranks[rank as usize];
            match state.phase {
                RankPhase::Idle => state.queue.get(state.next) == Some(&slot),
                RankPhase::Lost(_) => true,
                _ => false,
            }
        })
    }

    fn start_ready(&mut self, now_ns: u64) {
        while self.running.len() < self.limits.concurrent.max(1) {
            let Some(id) = self.ready.pop_first() else { return };
            let slot = self.schedule.slot(id);
            let is_idle = |rank: &Rank| self.ranks[*rank as usize].phase == RankPhase::Idle;
            let clients: BTreeSet<Rank> = slot.clients.iter().copied().filter(is_idle).collect();
            let members: Vec<Rank> = slot.members().filter(is_idle).collect();
            for rank in members {
                self.ranks[rank as usize].phase = RankPhase::Busy(id);
            }
            self.actions.extend(clients.iter().map(|rank| Action::Start(*rank, id)));
            self.running.insert(id, RunningSlot { since_ns: now_ns, waits_for: clients, is_cancelled: false });
        }
    }

    fn is_awaited(&self, slot: SlotId, rank: Rank) -> bool {
        self.running.get(&slot).is_some_and(|running| running.waits_for.contains(&rank))
    }

    /// Whether a rank was a client of a slot and nothing is expected of it there.
    fn is_over_for(&self, slot: SlotId, rank: Rank) -> bool {
        let exists = (slot as usize) < self.over.len();
        let started = exists && (self.over[slot as usize] || self.running.contains_key(&slot));
        started && self.schedule.slot(slot).clients.contains(&rank) && !self.is_awaited(slot, rank)
    }

    /// Records how the part of a client ended.
    fn record(&mut self, slot: SlotId, client: Rank, mut outcome: Outcome) {
        if let Some(reason) = outcome.reason_mut() {
            // One is kept for each part that was not measured.
            *reason = shortened(std::mem::take(reason));
            self.missing.push(MissingPart { slot, client, outcome });
        }
    }

    /// Nothing more is awaited from a client. The slot is over when that is true of all its clients.
    fn release(&mut self, slot: SlotId, client: Rank) {
        let Some(running) = self.running.get_mut(&slot) else { return };
        running.waits_for.remove(&client);
        if running.waits_for.is_empty() {
            self.running.remove(&slot);
            self.end_slot(slot);
        }
    }

    /// A slot is over: its members go on to their next ones.
    fn end_slot(&mut self, slot: SlotId) {
        if std::mem::replace(&mut self.over[slot as usize], true) {
            return;
        }
        self.left -= 1;
        self.ready.remove(&slot);
        let members: Vec<Rank> = self.schedule.slot(slot).members().collect();
        for rank in &members {
            if self.ranks[*rank as usize].phase == RankPhase::Busy(slot) {
                self.ranks[*rank as usize].phase = RankPhase::Idle;
            }
        }
        for rank in members {
            self.offer_next(rank);
        }
    }

    /// Cancels a running slot: the parts that are not reported end as given.
    fn cancel(&mut self, slot: SlotId, outcome: &Outcome, now_ns: u64) {
        let Some(running) = self.running.get_mut(&slot) else { return };
        if std::mem::replace(&mut running.is_cancelled, true) {
            return;
        }
        for client in running.waits_for.clone() {
            self.ranks[client as usize].phase = RankPhase::Stopping(slot, now_ns);
            self.actions.push(Action::Cancel(client, slot));
            self.record(slot, client, outcome.clone());
        }
    }

    /// A member of a running slot is lost: without its hub the slot is cancelled, without a client it goes on.
    fn break_slot(&mut self, slot: SlotId, rank: Rank, why: LostRank, now_ns: u64) {
        let outcome = Outcome::Failed(format!("rank {rank} {why}"));
        if self.schedule.slot(slot).hub == rank {
            self.cancel(slot, &outcome, now_ns);
        } else if self.is_awaited(slot, rank) {
            if self.running.get(&slot).is_some_and(|running| !running.is_cancelled) {
                self.record(slot, rank, outcome);
            }
            self.release(slot, rank);
        }
    }

    /// Ends the slots of a lost rank that have not started: as a hub altogether, as a client its part.
    fn give_up_slots(&mut self, rank: Rank, why: LostRank) {
        let state = &mut self.ranks[rank as usize];
        let waiting = state.queue.split_off(state.next.min(state.queue.len()));
        for id in waiting {
            if self.over[id as usize] || self.running.contains_key(&id) {
                continue;
            }
            let slot = self.schedule.slot(id);
            let is_hub = slot.hub == rank;
            let clients = slot.clients.to_vec();
            // Clients that were lost before have been recorded.
            let is_recorded = |client: Rank| client != rank && self.is_lost(client);
            let parts: Vec<Rank> =
                clients.iter().copied().filter(|client| (is_hub || *client == rank) && !is_recorded(*client)).collect();
            for client in parts {
                self.record(id, client, Outcome::Skipped(format!("rank {rank} {why}")));
            }
            if is_hub || clients.iter().all(|client| self.is_lost(*client)) {
                self.end_slot(id);
            } else if self.can_start(id) {
                self.ready.insert(id);
            }
        }
    }

    fn is_lost(&self, rank: Rank) -> bool {
        matches!(self.ranks[rank as usize].phase, RankPhase::Lost(_))
    }
}

#[cfg(test)]
mod tests;
