//! Sessions that stand at an agent, by their tickets: whose line broke comes back with another one and goes on.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use bytegauge_wire::{Receiver, Sender};

use crate::far::post::Post;
use crate::far::words::ToHome;
use crate::ticket::Ticket;

/// What an agent says in a session, from whichever thread.
pub(super) type Outbox = Arc<Mutex<Post<ToHome>>>;

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
    lines: mpsc::Sender<Line>,
    outbox: Outbox,
}

/// A session that stands until this is dropped.
pub(super) struct Stand<'a> {
    all: &'a Standing,
    ticket: Ticket,
    /// Where its other lines come from.
    pub(super) lines: mpsc::Receiver<Line>,
}

impl Standing {
    /// A session begins.
    pub(super) fn enter(&self, ticket: Ticket, peer: IpAddr, outbox: &Outbox) -> Stand<'_> {
        let (lines, others) = mpsc::channel();
        self.entries().push(Entry { ticket, peer, lines, outbox: Arc::clone(outbox) });
        Stand { all: self, ticket, lines: others }
    }

    /// Goes on with a session over another line, even if nobody here has noticed yet that the older one broke.
    ///
    /// # Errors
    /// Gives the line back where no such session of that host stands.
    pub(super) fn take_up(&self, ticket: Ticket, peer: IpAddr, line: Line) -> Result<(), Line> {
        let found = {
            let entries = self.entries();
            let entry = entries.iter().find(|entry| entry.ticket == ticket && entry.peer == peer);
            entry.map(|entry| (Arc::clone(&entry.outbox), entry.lines.clone()))
        };
        let Some((outbox, lines)) = found else { return Err(line) };
        // First, so that it is the older line that breaks.
        outbox.lock().unwrap_or_else(PoisonError::into_inner).break_off();
        lines.send(line).map_err(|unsent| unsent.0)
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Stand<'_> {
    fn drop(&mut self) {
        self.all.entries().retain(|entry| entry.ticket != self.ticket);
    }
}
