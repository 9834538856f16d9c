//! What all connections of a relay share: the listener, where to connect to, the books, and when it is over.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytegauge_model::RelayReport;
use bytegauge_sys::tcp_info;

use crate::fault::Fault;
use crate::relay::door::RelayDoor;
use crate::relay::socket::Upstream;
use crate::setup::Setup;
use crate::ticket::SHOWN;

/// A relay's listener and its books.
#[derive(Debug)]
pub struct RelayShared {
    pub(super) listener: OwnedFd,
    pub(super) upstream: Upstream,
    /// Where the relay stands on another host.
    door: Option<RelayDoor>,
    /// Connections after whose end it is over; absent, it is over when it is told.
    expected: Option<u64>,
    over: AtomicBool,
    /// The relay itself ends what is still open.
    closes: AtomicBool,
    books: Mutex<Books>,
}

#[derive(Debug, Default)]
struct Books {
    report: RelayReport,
    ended: u64,
    /// Whether every connection's bytes are in `kernel_up`.
    kernel_is_partial: bool,
    fault: Option<Fault>,
}

/// One direction of a connection when it is over.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Passage {
    /// Bytes that came.
    pub(super) taken: u64,
    /// Bytes that were handed on.
    pub(super) given: u64,
    /// Whether it ended in order: the end of the stream was taken and passed on.
    pub(super) in_order: bool,
}

impl RelayShared {
    /// Nobody yet. Of a stream it is known how many connections there will be, and each lasts until its writer has said
    /// all: with `expected` of them ended it is over. Without, when it is told.
    pub fn new(listener: OwnedFd, upstream: Upstream, expected: Option<usize>) -> RelayShared {
        let expected = expected.map(|connections| connections as u64);
        RelayShared {
            listener,
            upstream,
            door: None,
            expected,
            over: AtomicBool::new(false),
            closes: AtomicBool::new(false),
            books: Mutex::default(),
        }
    }

    /// The same for so many connections of a path, of which a relay on another host lets nobody else in.
    #[must_use]
    pub fn on(self, setup: &Setup, connections: usize) -> RelayShared {
        RelayShared { door: RelayDoor::of(setup, connections), ..self }
    }

    /// Whether a connection that was accepted is one to pass on. Any other one is to be closed, and is none of the books'.
    pub(super) fn admits(&self, connection: impl AsFd) -> bool {
        self.door.as_ref().is_none_or(|door| door.admits(connection.as_fd(), self.books().ended))
    }

    /// No connection is accepted any more.
    pub(crate) fn shuts(&self) {
        self.door.iter().for_each(|door| door.shuts(self.listener()));
    }

    /// It is over for all its threads, whoever still comes.
    pub(super) fn gives_up(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// What was counted, and what was wrong with it.
    pub fn take_books(&self) -> (RelayReport, Option<Fault>) {
        let mut books = self.books();
        let kernel_up = books.report.kernel_up.filter(|_| !books.kernel_is_partial);
        (RelayReport { kernel_up, ..books.report }, books.fault.take())
    }

    /// Set once every connection that was expected has ended.
    pub(super) fn over(&self) -> &AtomicBool {
        &self.over
    }

    /// Whether nobody needs the relay any more.
    pub(super) fn is_over(&self, told: &AtomicBool) -> bool {
        self.over.load(Ordering::Relaxed) || self.leaves_when_told() && told.load(Ordering::Relaxed)
    }

    /// Whether it goes on until it is told.
    pub(super) fn leaves_when_told(&self) -> bool {
        self.expected.is_none()
    }

    /// What is open from now on is ended by the relay itself, which is no failure of its connections.
    pub(super) fn closes(&self) {
        self.closes.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_pipes_of(&self, bytes: usize) {
        self.books().report.pipe_size = Some(bytes as u64);
    }

    /// A connection was taken for which nobody could be connected to.
    pub(super) fn unconnected(&self, fault: Fault) {
        let mut books = self.books();
        books.report.connections += 1;
        books.report.unconnected += 1;
        books.fault.get_or_insert(fault);
        self.ends(&mut books);
    }

    /// The relay cannot do what its method promises.
    pub(super) fn fails(&self, fault: Fault) {
        self.books().fault.get_or_insert(fault);
    }

    /// A connection has ended: what passed, whether a side failed, and its legs, which are still open.
    pub(super) fn settle(&self, [up, down]: [Passage; 2], failed: bool, legs: [Option<BorrowedFd<'_>>; 2]) {
        let in_order = up.in_order && down.in_order;
        let kernel = legs.map(|leg| tcp_info::tcp_info(leg?).ok()?.bytes_received);
        let mut books = self.books();
        let wrong = if in_order { miscounted(&[up, down], &kernel) } else { None };
        books.fault = books.fault.take().or(wrong);
        let Books { report, kernel_is_partial, .. } = &mut *books;
        report.connections += 1;
        report.broken += u64::from(failed && !self.closes.load(Ordering::Relaxed));
        // What connections between hosts show first is none of what was sent.
        let shown = self.door.as_ref().map_or(0, |_| SHOWN as u64);
        report.taken_up += up.taken.saturating_sub(shown);
        report.given_up += up.given.saturating_sub(shown);
        report.taken_down += down.taken;
        report.given_down += down.given;
        match kernel[0].filter(|_| in_order) {
            // The end of the stream counts as a byte.
            Some(bytes) => *report.kernel_up.get_or_insert(0) += bytes.saturating_sub(1 + shown),
            None => *kernel_is_partial = true,
        }
        self.ends(&mut books);
    }

    fn ends(&self, books: &mut Books) {
        books.ended += 1;
        if self.expected.is_some_and(|expected| books.ended >= expected) {
            self.over.store(true, Ordering::Relaxed);
        }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// What came in must have gone out, and be what the kernel says arrived (the end of a stream counts as a byte).
fn miscounted(passed: &[Passage; 2], kernel: &[Option<u64>; 2]) -> Option<Fault> {
    for ((way, passage), kernel) in ["to the server", "back"].into_iter().zip(passed).zip(kernel) {
        let Passage { taken, given, .. } = *passage;
        if taken != given {
            return Some(Fault::Miscounted(format!(
                "the relay took {taken} bytes on their way {way} and gave {given}"
            )));
        }
        if let Some(kernel) = kernel.filter(|kernel| *kernel != taken && *kernel != taken + 1) {
            return Some(Fault::Miscounted(format!(
                "the relay counted {taken} bytes on their way {way}, TCP_INFO says {kernel}"
            )));
        }
    }
    None
}
