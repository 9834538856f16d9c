//! Sessions that stand at an agent, by their tickets: whose line broke comes back with another one and goes on.

use std::net::IpAddr;
use std::sync::mpsc::{self, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytegauge_wire::{Receiver, Sender};

use crate::far::post::OutgoingPost;
use crate::far::words::ToHome;
use crate::ticket::Ticket;

/// Other lines of a session that wait at most. The newest one is used; a session needs no second one.
const LINES_MAX: usize = 4;

/// What an agent says in a session, from whichever thread.
pub(super) type HostOutbox = Arc<Mutex<OutgoingPost<ToHome>>>;

/// Another line of a session, and what its caller has heard by now.
pub(super) struct Line {
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    pub(super) heard: u64,
}

/// The sessions.
#[derive(Default)]
pub(super) struct Standing(Mutex<Vec<Entry>>);

struct Entry {
    ticket: Ticket,
    peer: IpAddr,
    lines: mpsc::SyncSender<Box<Line>>,
    outbox: HostOutbox,
}

/// A session that stands until this is dropped.
pub(super) struct AgentStand<'a> {
    all: &'a Standing,
    ticket: Ticket,
    /// Where its other lines come from.
    pub(super) lines: mpsc::Receiver<Box<Line>>,
}

impl Standing {
    /// A session begins.
    pub(super) fn enter(&self, ticket: Ticket, peer: IpAddr, outbox: &HostOutbox) -> AgentStand<'_> {
        let (lines, others) = mpsc::sync_channel(LINES_MAX);
        self.entries().push(Entry { ticket, peer, lines, outbox: Arc::clone(outbox) });
        AgentStand { all: self, ticket, lines: others }
    }

    /// Goes on with a session over another line, even if the agent has not noticed yet that the older one broke.
    ///
    /// # Errors
    /// Gives the line back where no such session of that host stands.
    pub(super) fn take_up(&self, ticket: Ticket, peer: IpAddr, line: Box<Line>) -> Result<(), Box<Line>> {
        let found = {
            let entries = self.entries();
            let entry = entries.iter().find(|entry| entry.ticket == ticket && entry.peer == peer);
            entry.map(|entry| (Arc::clone(&entry.outbox), entry.lines.clone()))
        };
        let Some((outbox, lines)) = found else { return Err(line) };
        // First, so that it is the older line that breaks.
        outbox.lock().unwrap_or_else(PoisonError::into_inner).break_off();
        lines.try_send(line).map_err(|unsent| match unsent {
            TrySendError::Full(line) | TrySendError::Disconnected(line) => line,
        })
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for AgentStand<'_> {
    fn drop(&mut self) {
        self.all.entries().retain(|entry| entry.ticket != self.ticket);
    }
}
