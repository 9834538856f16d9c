//! Sessions of an agent by ticket, so that a caller whose line broke can continue its session over another line.

use std::net::IpAddr;
use std::sync::mpsc::{self, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard};

use bytegauge_traffic::path::Ticket;
use bytegauge_wire::{Receiver, Sender};

use crate::outbox::OutgoingPost;
use crate::protocol::ToHome;
use bytegauge_traffic::lock;

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
        self.entries().push(Entry { ticket, peer, lines, outbox: Arc::clone(outbox) });
        RegisteredSession { all: self, ticket, lines: others }
    }

    /// Continues a session over another line, even if the agent has not noticed yet that the older one broke.
    ///
    /// # Errors
    /// Returns the line if that host has no such session.
    pub(super) fn take_up(&self, ticket: Ticket, peer: IpAddr, line: Box<ControlLine>) -> Result<(), Box<ControlLine>> {
        let found = {
            let entries = self.entries();
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

    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        lock(&self.0)
    }
}

impl Drop for RegisteredSession<'_> {
    fn drop(&mut self) {
        self.all.entries().retain(|entry| entry.ticket != self.ticket);
    }
}
