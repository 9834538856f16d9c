//! State shared by all connections of a relay: the listener, the address to connect to, the counts, whether it is over, and who is
//! admitted to a relay on another host.
//!
//! The options of an end's sockets are also set on the relay's socket that faces it. Over TCP both of its sockets have
//! `TCP_NODELAY` unless a plan turns it off, as in every good proxy: a relay must not wait for more bytes.
//!
//! There a connection with the trial's ticket is admitted and forwarded together with the ticket, which the end behind the relay
//! checks too. Other connections get no connection to that end, and no answer. A connection is accepted when its first bytes have
//! arrived (`TCP_DEFER_ACCEPT`). The ticket of an end is in one piece in its first segment, so one peek, which consumes nothing and
//! does not block, is enough for every method and thread.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use bytegauge_model::{EndRole, RelayReport, Workload};
use bytegauge_sys::option::{self, SocketOption};
use bytegauge_sys::socket;

use crate::address::{Address, peer_of};
use crate::call::Connector;
use crate::path::{Admission, SHOWN};
use crate::setup::Setup;
use crate::transport::options::{self, Moment, set_all, wanted};
use crate::transport::sockets::{announced, open, unbound};
use crate::{EndError, agent_callers, lock};

/// How long a connection may be silent before the kernel lets it be accepted anyway, seconds: a lost first segment is
/// retransmitted by then.
const SILENT_S: u64 = 5;

/// Connections that may wait to be accepted; the system clamps it at `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Listens in place of the other side. The listener does not block.
///
/// # Errors
/// [`EndError::Missing`] if the machine lacks the transport or an option.
pub fn listen(setup: &Setup) -> Result<(OwnedFd, Address), EndError> {
    let address = unbound(setup.transport(), &setup.host)?;
    let socket = open(setup.transport(), &address)?;
    let [_, theirs] = setters(setup.workload());
    let mut options = wanted(&setup.spec, (theirs, Moment::Listening), setup.transport());
    options.extend(setup.far.map(|_| option::DEFER_ACCEPT.to(SILENT_S)));
    set_all(&socket, &options)?;
    agent_callers::listen(&socket, &address, BACKLOG, setup.shares_port())
        .map_err(EndError::io("listening for a relay"))?;
    socket.set_nonblocking(true).map_err(EndError::io("making a listener not block"))?;
    let bound = socket.local_addr().map_err(EndError::io("reading the relay's address"))?;
    Ok((socket.into(), announced(&bound)?))
}

/// The side behind a relay.
#[derive(Debug)]
pub struct Upstream {
    pub(super) connector: Connector,
    /// The options of an accepted socket.
    accepted: Vec<SocketOption>,
}

impl Upstream {
    /// The side behind a relay.
    ///
    /// # Errors
    /// [`EndError::Impossible`] if a socket cannot connect to the address.
    pub fn new(address: &Address, setup: &Setup) -> Result<Upstream, EndError> {
        let [ours, theirs] = setters(setup.workload());
        let of = |setter, moment| {
            let mut options = wanted(&setup.spec, (setter, moment), setup.transport());
            options.extend(
                setup.transport().is_tcp().then(|| option::NO_DELAY.to(setup.spec.relay_nodelay().unwrap_or(true))),
            );
            options
        };
        // A third host may have no route to the address at which the caller reaches this one.
        let from = setup.bound_to().filter(|_| setup.far.is_some_and(|far| far.comes_from().is_some()));
        let doing = "connecting from the relay to the end behind it";
        let connector = Connector::plain(doing, address, setup, of(ours, Moment::Own), from)?;
        Ok(Upstream { connector, accepted: of(theirs, Moment::Accepted) })
    }

    /// Prepares an accepted connection.
    pub(super) fn prepare_accepted(&self, fd: impl AsFd) -> Result<(), EndError> {
        set_all(fd, &self.accepted)
    }
}

/// The ends whose options the socket to the end behind the relay has, and an accepted one.
fn setters(workload: Workload) -> [EndRole; 2] {
    // Only a path has relays.
    workload.path_ends().unwrap_or([EndRole::Source, EndRole::Sink])
}

/// A relay's listener and its books.
#[derive(Debug)]
pub struct RelayShared {
    pub(super) listener: OwnedFd,
    pub(super) upstream: Upstream,
    /// Admission, if the relay runs on another host.
    admission: Option<RelayAdmission>,
    /// Connections after whose end it is over; if absent, it is over when it is stopped.
    expected: Option<u64>,
    /// Set once all expected connections have ended.
    pub(super) over: AtomicBool,
    /// Whether the relay itself ends open connections.
    closes: AtomicBool,
    books: Mutex<Books>,
}

#[derive(Debug, Default)]
struct Books {
    report: RelayReport,
    ended: u64,
    /// Whether `kernel_up` lacks the bytes of a connection.
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
            admission: None,
            expected,
            over: AtomicBool::new(false),
            closes: AtomicBool::new(false),
            books: Mutex::default(),
        }
    }

    /// The same for `connections` connections of a path; a relay on another host admits no others.
    #[must_use]
    pub fn on(self, setup: &Setup, connections: usize) -> RelayShared {
        RelayShared { admission: RelayAdmission::of(setup, connections), ..self }
    }

    /// Whether an accepted connection is to be passed on. Any other is to be closed, and is not counted.
    pub(super) fn admits(&self, connection: impl AsFd) -> bool {
        self.admission.as_ref().is_none_or(|admission| admission.admits(connection.as_fd(), self.books().ended))
    }

    /// Accepts no more connections.
    pub(crate) fn shuts(&self) {
        if self.admission.as_ref().is_some_and(|admission| admission.shares_port) {
            // Waiting connections, which were not accepted.
            agent_callers::pass_on_rest(self.listener.as_fd());
        }
    }

    /// The counts, and the fault if there was one.
    pub fn take_books(&self) -> (RelayReport, Option<EndError>) {
        let mut books = self.books();
        let kernel_up = books.report.kernel_up.filter(|_| !books.kernel_is_partial);
        (RelayReport { kernel_up, ..books.report }, books.fault.take())
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

    /// A connection has ended: its bytes, whether a side failed, and its sockets, which are still open.
    pub(super) fn settle(&self, [up, down]: [Passage; 2], failed: bool, legs: [Option<BorrowedFd<'_>>; 2]) {
        let in_order = up.in_order && down.in_order;
        let kernel = legs.map(|leg| options::bytes_received(leg?, &self.upstream.connector.transport));
        let mut books = self.books();
        let wrong = if in_order { miscounted(&[up, down], &kernel) } else { None };
        books.fault = books.fault.take().or(wrong);
        let Books { report, kernel_is_partial, .. } = &mut *books;
        report.connections += 1;
        report.broken += u64::from(failed && !self.closes.load(Ordering::Relaxed));
        // The ticket of connections between hosts is not part of the data.
        let shown = self.admission.as_ref().map_or(0, |_| SHOWN as u64);
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
        lock(&self.books)
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

/// Open connections allowed in addition to twice the requested number: a call's next connection may begin before the end of its
/// last one is noticed.
const SPARE: u64 = 64;

/// Admits connections of a trial.
#[derive(Debug)]
pub(super) struct RelayAdmission {
    admission: Admission,
    shares_port: bool,
    /// Most connections at once.
    room: u64,
    entered: AtomicU64,
}

impl RelayAdmission {
    /// The admission to a relay on another host, for this number of connections; `None` on one host.
    pub(super) fn of(setup: &Setup, connections: usize) -> Option<RelayAdmission> {
        let (far, room) = (setup.far?, 2 * connections as u64 + SPARE);
        Some(RelayAdmission {
            admission: Admission::new(far.ticket, Some(far.faces()?.ip())),
            shares_port: setup.shares_port(),
            room,
            entered: AtomicU64::new(0),
        })
    }

    /// Whether an accepted connection belongs to the trial, when `ended` connections have ended. Others may be callers of the
    /// agent, and are passed on to it.
    pub(super) fn admits(&self, connection: BorrowedFd<'_>, ended: u64) -> bool {
        let mut shown = [0; SHOWN];
        // A connection that cannot be peeked has no ticket.
        let have = socket::peek(connection, &mut shown).unwrap_or(0);
        if self.admission.admits(peer_of(connection), &shown[..have]).is_some() {
            let open = self.entered.load(Ordering::Relaxed).saturating_sub(ended);
            if open < self.room {
                self.entered.fetch_add(1, Ordering::Relaxed);
            }
            return open < self.room;
        }
        if self.shares_port {
            agent_callers::pass_on_unread(connection, &shown[..have]);
        }
        false
    }
}

#[cfg(test)]
mod admission_tests {
    use std::io::Write;
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use bytegauge_model::{Side, Spec};

    use super::*;
    use crate::path::{FarPath, Ticket};

    #[test]
    fn connection_with_ticket_is_admitted_unread() {
        let ticket = Ticket::fresh().unwrap();
        let levels = Spec::from([("transport", "tcp".into()), ("flows", 1.into())]);
        let far = Some(FarPath::to(([127, 0, 0, 1], 1).into(), Side::Sink, ticket));
        let path = Setup { far, ..Setup::unchecked(levels) };
        let admission = RelayAdmission::of(&path, 1).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let shown = ticket.shown_by(3);
        let connects_from = |from: [u8; 4], bytes: &[u8]| {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
            socket.connect(&listener.local_addr().unwrap().into()).unwrap();
            let mut caller = TcpStream::from(socket);
            caller.write_all(bytes).unwrap();
            let (accepted, _) = listener.accept().unwrap();
            // The bytes are on their way.
            if !bytes.is_empty() {
                accepted.peek(&mut [0]).unwrap();
            }
            (caller, accepted)
        };
        let connects = |bytes: &[u8]| connects_from([127, 0, 0, 1], bytes);
        let other = Ticket::fresh().unwrap().shown_by(0);
        let unadmitted: [&[u8]; 5] =
            [&[], &shown[..SHOWN - 1], &other, b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n", &[0; SHOWN]];
        for unadmitted in unadmitted {
            let (_caller, accepted) = connects(unadmitted);
            assert!(!admission.admits(accepted.as_fd(), 0), "{unadmitted:?}");
        }
        // An overheard ticket, from another host.
        let (_caller, accepted) = connects_from([127, 0, 0, 2], &shown);
        assert!(!admission.admits(accepted.as_fd(), 0));
        let (_caller, accepted) = connects(&[&shown[..], b"more"].concat());
        assert!(admission.admits(accepted.as_fd(), 0));
        let mut left = [0; SHOWN];
        assert_eq!((accepted.peek(&mut left).unwrap(), left), (SHOWN, shown));
        // No more at once than a trial of one connection may have, however often the ticket is sent.
        let more = (1..100).filter(|_| admission.admits(accepted.as_fd(), 0)).count() as u64;
        assert_eq!(more, 1 + SPARE);
        assert!(admission.admits(accepted.as_fd(), 1));
        assert!(RelayAdmission::of(&Setup { far: None, ..path }, 1).is_none());
    }
}
