//! Limits the sessions that run at once: one by default, since two disturb each other.

use std::net::IpAddr;
use std::sync::mpsc::{self, TrySendError};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytegauge_model::Nanos;
use bytegauge_traffic::lock;
use bytegauge_traffic::path::Ticket;
use bytegauge_wire::{Receiver, Sender};

use crate::outbox::OutgoingPost;
use crate::protocol::ToHome;

/// How long a caller waits for a place before it is refused: a session killed a moment ago occupies its place until its end
/// has ended.
const LEAVING: Duration = Duration::from_secs(3);

/// The places of an agent.
#[derive(Debug)]
pub(super) struct Slots {
    max: usize,
    taken: Mutex<Vec<Holder>>,
    left: Condvar,
}

#[derive(Debug)]
struct Holder {
    number: u64,
    peer: IpAddr,
    until: Instant,
}

/// A place; dropping it frees it.
#[derive(Debug)]
pub(super) struct AgentSlot {
    number: u64,
    slots: Arc<Slots>,
}

impl Slots {
    pub(super) fn new(max: usize) -> Arc<Slots> {
        Arc::new(Slots { max, taken: Mutex::default(), left: Condvar::new() })
    }

    /// Takes a place for this long, and waits a moment for one to become free.
    ///
    /// # Errors
    /// The session that occupies the place, and for how long.
    pub(super) fn take(self: &Arc<Slots>, number: u64, peer: IpAddr, lasts: Duration) -> Result<AgentSlot, String> {
        self.take_within(LEAVING, (number, peer, lasts))
    }

    fn take_within(
        self: &Arc<Slots>,
        patience: Duration,
        (number, peer, lasts): (u64, IpAddr, Duration),
    ) -> Result<AgentSlot, String> {
        let taken = lock(&self.taken);
        let is_full = |taken: &mut Vec<Holder>| taken.len() >= self.max;
        let waited = self.left.wait_timeout_while(taken, patience, is_full);
        let (mut taken, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if taken.len() < self.max {
            taken.push(Holder { number, peer, until: now + lasts });
            return Ok(AgentSlot { number, slots: Arc::clone(self) });
        }
        let soonest = taken.iter().min_by_key(|holder| holder.until);
        Err(soonest.map_or_else(
            || "the agent allows no session".into(),
            |holder| {
                // In whole seconds: it is an estimate.
                let left = holder.until.saturating_duration_since(now).as_secs() + 1;
                format!(
                    "the agent is busy until {} from now, with a session of {}: two would disturb each other; try again \
                     then, or start the agent with --max-sessions 2",
                    Nanos(left * 1_000_000_000),
                    holder.peer
                )
            },
        ))
    }
}

impl Drop for AgentSlot {
    fn drop(&mut self) {
        let mut taken = lock(&self.slots.taken);
        taken.retain(|holder| holder.number != self.number);
        self.slots.left.notify_one();
    }
}

// Sessions of an agent by ticket, so that a caller whose line broke can continue its session over another line.

/// Most other lines of a session that wait. The newest is used; a session needs only one.
const LINES_MAX: usize = 4;

/// An agent's messages in a session, from any thread.
pub(super) type HostOutbox = Arc<Mutex<OutgoingPost<ToHome>>>;

/// Another line of a session, and the last number that its caller received.
pub(super) struct ControlLine {
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    pub(super) heard: u64,
}

/// The sessions.
#[derive(Default)]
pub(super) struct SessionRegistry(Mutex<Vec<Entry>>);

struct Entry {
    ticket: Ticket,
    peer: IpAddr,
    lines: mpsc::SyncSender<Box<ControlLine>>,
    outbox: HostOutbox,
}

/// A registered session; dropping it removes it.
pub(super) struct RegisteredSession<'a> {
    all: &'a SessionRegistry,
    ticket: Ticket,
    /// The channel of its other lines.
    pub(super) lines: mpsc::Receiver<Box<ControlLine>>,
}

impl SessionRegistry {
    /// Registers a session.
    pub(super) fn enter(&self, ticket: Ticket, peer: IpAddr, outbox: &HostOutbox) -> RegisteredSession<'_> {
        let (lines, others) = mpsc::sync_channel(LINES_MAX);
        lock(&self.0).push(Entry { ticket, peer, lines, outbox: Arc::clone(outbox) });
        RegisteredSession { all: self, ticket, lines: others }
    }

    /// Continues a session over another line, even if the agent has not noticed yet that the older one broke.
    ///
    /// # Errors
    /// Returns the line if that host has no such session.
    pub(super) fn take_up(&self, ticket: Ticket, peer: IpAddr, line: Box<ControlLine>) -> Result<(), Box<ControlLine>> {
        let found = {
            let entries = lock(&self.0);
            let entry = entries.iter().find(|entry| entry.ticket == ticket && entry.peer == peer);
            entry.map(|entry| (Arc::clone(&entry.outbox), entry.lines.clone()))
        };
        let Some((outbox, lines)) = found else { return Err(line) };
        // First, so that the older line is broken off.
        lock(&outbox).break_off();
        lines.try_send(line).map_err(|unsent| match unsent {
            TrySendError::Full(line) | TrySendError::Disconnected(line) => line,
        })
    }
}

impl Drop for RegisteredSession<'_> {
    fn drop(&mut self) {
        lock(&self.all.0).retain(|entry| entry.ticket != self.ticket);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn place_is_exclusive_and_freed() {
        let slots = Slots::new(1);
        let first = slots.take(1, PEER, MINUTE).unwrap();
        let busy = slots.take_within(Duration::ZERO, (2, PEER, MINUTE)).unwrap_err();
        assert!(busy.contains("busy until") && busy.contains("192.0.2.7"), "{busy}");
        drop(first);
        let _second = slots.take(3, PEER, MINUTE).unwrap();
        assert!(Slots::new(0).take_within(Duration::ZERO, (4, PEER, MINUTE)).is_err());
    }

    #[test]
    fn next_caller_waits_for_a_leaving_one() {
        let slots = Slots::new(1);
        let first = slots.take(1, PEER, MINUTE).unwrap();
        let comes = {
            let slots = Arc::clone(&slots);
            std::thread::spawn(move || slots.take_within(MINUTE, (2, PEER, MINUTE)).is_ok())
        };
        drop(first);
        assert!(comes.join().unwrap());
    }
}
