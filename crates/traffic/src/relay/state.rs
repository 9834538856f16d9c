//! State shared by all connections of a relay: the listener, the address to connect to, the counts, and whether it is over.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytegauge_model::RelayReport;

use crate::end_error::EndError;
use crate::relay::admission::RelayDoor;
use crate::relay::socket::Upstream;
use crate::setup::Setup;
use crate::ticket::SHOWN;

/// A relay's listener and its books.
#[derive(Debug)]
pub struct RelayShared {
    pub(super) listener: OwnedFd,
    pub(super) upstream: Upstream,
    /// Admission, if the relay runs on another host.
    door: Option<RelayDoor>,
    /// Connections after whose end it is over; if absent, it is over when it is stopped.
    expected: Option<u64>,
    over: AtomicBool,
    /// Whether the relay itself ends open connections.
    closes: AtomicBool,
    books: Mutex<Books>,
}

#[derive(Debug, Default)]
struct Books {
    report: RelayReport,
    ended: u64,
    /// Whether every connection's bytes are in `kernel_up`.
    kernel_is_partial: bool,
    fault: Option<EndError>,
}

/// One direction of a connection at its end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Passage {
    /// Bytes received.
    pub(super) taken: u64,
    /// Bytes passed on.
    pub(super) given: u64,
    /// Whether it ended in order: the end of the stream was received and passed on.
    pub(super) in_order: bool,
}

impl RelayShared {
    /// No connections yet. A stream has a known number of connections, each of which lasts until its writer has sent all: with
    /// `expected` of them ended it is over. Without a number, it is over when it is stopped.
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

    /// The same for `connections` connections of a path; a relay on another host admits no others.
    #[must_use]
    pub fn on(self, setup: &Setup, connections: usize) -> RelayShared {
        RelayShared { door: RelayDoor::of(setup, connections), ..self }
    }

    /// Whether an accepted connection is to be passed on. Any other is to be closed, and is not counted.
    pub(super) fn admits(&self, connection: impl AsFd) -> bool {
        self.door.as_ref().is_none_or(|door| door.admits(connection.as_fd(), self.books().ended))
    }

    /// Accepts no more connections.
    pub(crate) fn shuts(&self) {
        self.door.iter().for_each(|door| door.shuts(self.listener()));
    }

    /// The counts, and the fault if there was one.
    pub fn take_books(&self) -> (RelayReport, Option<EndError>) {
        let mut books = self.books();
        let kernel_up = books.report.kernel_up.filter(|_| !books.kernel_is_partial);
        (RelayReport { kernel_up, ..books.report }, books.fault.take())
    }

    /// Set once all expected connections have ended.
    pub(super) fn over(&self) -> &AtomicBool {
        &self.over
    }

    /// Whether the relay is to end.
    pub(super) fn is_over(&self, stop_requested: &AtomicBool) -> bool {
        self.over.load(Ordering::Relaxed) || self.leaves_when_stopped() && stop_requested.load(Ordering::Relaxed)
    }

    /// Whether it continues until it is stopped.
    pub(super) fn leaves_when_stopped(&self) -> bool {
        self.expected.is_none()
    }

    /// From now on the relay itself ends open connections, which does not count as their failure.
    pub(super) fn closes(&self) {
        self.closes.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_pipes_of(&self, bytes: usize) {
        self.books().report.pipe_size = Some(bytes as u64);
    }

    /// No connection to the other side could be made for an accepted one.
    pub(super) fn unconnected(&self, fault: EndError) {
        let mut books = self.books();
        books.report.connections += 1;
        books.report.unconnected += 1;
        books.fault.get_or_insert(fault);
        self.ends(&mut books);
    }

    /// The relay cannot do what its method promises.
    pub(super) fn fails(&self, fault: EndError) {
        self.books().fault.get_or_insert(fault);
    }

    /// A connection has ended: its bytes, whether a side failed, and its sockets, which are still open.
    pub(super) fn settle(&self, [up, down]: [Passage; 2], failed: bool, legs: [Option<BorrowedFd<'_>>; 2]) {
        let in_order = up.in_order && down.in_order;
        let kernel = legs.map(|leg| self.upstream.bytes_received(leg?));
        let mut books = self.books();
        let wrong = if in_order { miscounted(&[up, down], &kernel) } else { None };
        books.fault = books.fault.take().or(wrong);
        let Books { report, kernel_is_partial, .. } = &mut *books;
        report.connections += 1;
        report.broken += u64::from(failed && !self.closes.load(Ordering::Relaxed));
        // The ticket of connections between hosts is not part of the data.
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

/// The bytes received must equal those passed on, and the kernel's count (in which the end of a stream is a byte).
fn miscounted(passed: &[Passage; 2], kernel: &[Option<u64>; 2]) -> Option<EndError> {
    for ((way, passage), kernel) in ["to the server", "back"].into_iter().zip(passed).zip(kernel) {
        let Passage { taken, given, .. } = *passage;
        if taken != given {
            return Some(EndError::Miscounted(format!(
                "the relay took {taken} bytes on their way {way} and gave {given}"
            )));
        }
        if let Some(kernel) = kernel.filter(|kernel| *kernel != taken && *kernel != taken + 1) {
            return Some(EndError::Miscounted(format!(
                "the relay counted {taken} bytes on their way {way}, the kernel reports {kernel}"
            )));
        }
    }
    None
}
