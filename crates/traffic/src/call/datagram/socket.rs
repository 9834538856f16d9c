//! The server's sockets over datagrams, and admission of clients on another host. There is no accept: a bound socket receives from any
//! sender.
//!
//! A sender is admitted if it sends the trial's ticket from that host's own address. Other senders get no answer, so that the server
//! cannot be used for reflection. A client sends the ticket from the socket of each of its flows until the ticket comes back, which is
//! shorter than the message that it sent; its requests carry no ticket. The server recognises each sender by its address.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytegauge_model::Place;
use bytegauge_sys::datagram::PeerAddress;
use bytegauge_sys::io as sys_io;
use bytegauge_sys::socket::{self, Until};

use crate::address::{Address, unbindable};
use crate::call::socket::of_server;
use crate::datagram::handshake::TICKET_INTERVAL;
use crate::path::{Admission, LEN, Shown, Ticket};
use crate::setup::Setup;
use crate::transport::JOIN_TIMEOUT;
use crate::transport::datagram::enlarge;
use crate::transport::options::Moment;
use crate::{EndError, lock};

/// Most answers to a flow that repeats its ticket: more than the requests of a flow before it gives up.
const ANSWERS_MAX: u32 = 1000;

/// The sender of a datagram, for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SenderStatus {
    /// An admitted sender, whose datagrams are requests.
    Admitted,
    /// It shows a ticket, to be answered.
    ShowsTicket,
    /// It gets no answer.
    Unknown,
}

/// The admitted senders, shared by the threads of a server.
#[derive(Debug)]
pub(crate) struct Admissions {
    admission: Admission,
    /// The front of what a sender shows, and the answer to it.
    answer: [u8; LEN],
    /// By flow.
    places: Mutex<Vec<AdmittedFlow>>,
}

/// A flow's sender, and the number of answers to it.
#[derive(Clone, Copy, Debug, Default)]
struct AdmittedFlow {
    source: Option<SocketAddr>,
    answers: u32,
}

impl Admissions {
    /// The admitted senders of a trial, if its clients are on another host.
    pub(crate) fn of(setup: &Setup) -> Option<Arc<Admissions>> {
        let far = setup.far?;
        let places = Mutex::new(vec![AdmittedFlow::default(); setup.flows()]);
        let admission = Admission::new(far.ticket, Some(far.faces()?.ip()));
        Some(Arc::new(Admissions { admission, answer: far.ticket.answer(), places }))
    }

    /// Whether these first bytes from a sender admit it, or admit it again.
    fn lets_in(&self, shown: &[u8], source: SocketAddr) -> bool {
        let flow = self.admission.admits(Some(source.ip()), shown);
        let mut places = lock(&self.places);
        let Some(place) = flow.and_then(|flow| places.get_mut(flow)) else { return false };
        // A flow is admitted once: another sender with its number, perhaps with an overheard ticket, is refused.
        if *place.source.get_or_insert(source) != source || place.answers == ANSWERS_MAX {
            return false;
        }
        place.answers += 1;
        true
    }

    fn knows(&self, source: SocketAddr) -> bool {
        let places = lock(&self.places);
        places.iter().any(|place| place.source == Some(source))
    }
}

/// One thread's view: it need not look up a sender that it has seen.
#[derive(Debug)]
pub(super) struct AdmittedSenders {
    list: Arc<Admissions>,
    met: HashSet<SocketAddr>,
}

impl AdmittedSenders {
    pub(super) fn new(list: Arc<Admissions>) -> AdmittedSenders {
        AdmittedSenders { list, met: HashSet::new() }
    }

    /// The kind of a datagram from this sender.
    #[inline]
    pub(super) fn status_of(&mut self, datagram: &[u8], from: &PeerAddress) -> SenderStatus {
        let Some(source) = from.ip() else { return SenderStatus::Unknown };
        if self.met.contains(&source) && datagram.len() != size_of::<Shown>() {
            return SenderStatus::Admitted;
        }
        self.looked_up(datagram, source)
    }

    /// The same for a sender that was not seen, or may have sent a ticket.
    #[cold]
    fn looked_up(&mut self, datagram: &[u8], source: SocketAddr) -> SenderStatus {
        if !self.list.admission.may_enter(Some(source.ip())) {
            return SenderStatus::Unknown;
        }
        if datagram.starts_with(&self.list.answer) {
            return if self.list.lets_in(datagram, source) { SenderStatus::ShowsTicket } else { SenderStatus::Unknown };
        }
        if self.met.contains(&source) || self.list.knows(source) {
            self.met.insert(source);
            return SenderStatus::Admitted;
        }
        SenderStatus::Unknown
    }

    /// The answer to an admitted sender.
    pub(super) fn answer(&self) -> [u8; LEN] {
        self.list.answer
    }
}

/// Sends the ticket by each of these connected sockets until a server on another host has admitted it.
///
/// # Errors
/// [`EndError::Io`] if it is not admitted in time.
pub(crate) fn let_in(sockets: &[OwnedFd], ticket: &Ticket) -> Result<(), EndError> {
    let deadline = Instant::now() + JOIN_TIMEOUT;
    let mut waiting: Vec<(usize, BorrowedFd<'_>)> = sockets.iter().map(AsFd::as_fd).enumerate().collect();
    loop {
        for (flow, fd) in &waiting {
            // It is sent again soon.
            let _ = socket::send_now(*fd, &ticket.shown_by(*flow));
        }
        let until = Instant::now() + TICKET_INTERVAL;
        waiting.retain(|(_, fd)| !is_let_in(*fd, ticket, until));
        if waiting.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let why = format!("{} of {} flows were not: does a firewall block them?", waiting.len(), sockets.len());
            return Err(EndError::late("waiting for admission by the server on the other host", why));
        }
        // If the network reports that there is no listener, the wait was cut short.
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
    }
}

/// Whether the server's answer arrives before `until`.
fn is_let_in(fd: BorrowedFd<'_>, ticket: &Ticket, until: Instant) -> bool {
    let mut received = [0; LEN + 1];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match socket::wait(fd, Until::Readable, left.as_nanos() as u64) {
            Ok(Some(_)) => {}
            Ok(None) => return false,
            Err(_) if left == Duration::ZERO => return false,
            Err(_) => continue,
        }
        match sys_io::read(fd, &mut received) {
            Ok(len) if received[..len] == ticket.answer() => return true,
            Ok(_) => {}
            Err(_) => return false,
        }
    }
}

/// Binds the server's sockets: one that its threads share, or one per thread with `SO_REUSEPORT`.
///
/// # Errors
/// [`EndError::Missing`] if the machine lacks the transport or an option.
pub fn bind(setup: &Setup) -> Result<(Vec<OwnedFd>, Address), EndError> {
    of_server(setup, Moment::Own, |socket, address| {
        // The value in force is read back and reported.
        let _ = enlarge(socket.as_fd(), setup);
        socket.bind(address).map_err(|error| match setup.shares_port() {
            // Another program may have the agent's UDP port.
            true => unbindable(&Place::Ip(setup.host.any_port(setup.transport())), error),
            false => EndError::io("binding the server's socket")(error),
        })
    })
}

#[cfg(test)]
mod tests {
    use bytegauge_model::{Side, Spec};

    use super::*;
    use crate::path::{FarPath, SHOWN};

    const FLOWS: u64 = 3;

    fn list(ticket: Ticket) -> Arc<Admissions> {
        let levels = Spec::from([("transport", "udp".into()), ("flows", FLOWS.into())]);
        let far = Some(FarPath::to(([192, 0, 2, 7], 1).into(), Side::Sink, ticket));
        Admissions::of(&Setup { far, ..Setup::unchecked(levels) }).unwrap()
    }

    fn from(host: u8, port: u16) -> PeerAddress {
        SocketAddr::from(([192, 0, 2, host], port)).into()
    }

    #[test]
    fn only_admitted_senders_are_answered() {
        let (ticket, other) = (Ticket::fresh().unwrap(), Ticket::fresh().unwrap());
        let list = list(ticket);
        let [mut one, mut two] = [0, 1].map(|_| AdmittedSenders::new(Arc::clone(&list)));
        let mut check = |datagram: &[u8], from: PeerAddress, expected: SenderStatus| {
            assert_eq!(one.status_of(datagram, &from), expected, "{datagram:?} from {:?}", from.ip());
        };
        // Before a ticket; garbage, another trial's, too long, too short, of an unknown flow.
        let long = [&ticket.shown_by(0)[..], &[0]].concat();
        let strange: [&[u8]; 8] = [
            b"",
            b"a request",
            &[0; SHOWN],
            &other.shown_by(0),
            &long,
            &ticket.shown_by(0)[..SHOWN - 1],
            &ticket.shown_by(FLOWS as usize),
            &ticket.shown_by(usize::MAX),
        ];
        strange.iter().for_each(|datagram| check(datagram, from(7, 1), SenderStatus::Unknown));
        // An overheard ticket from another address: it is not admitted, and replaces no sender.
        check(&ticket.shown_by(0), from(8, 1), SenderStatus::Unknown);
        check(&ticket.shown_by(0), PeerAddress::NONE, SenderStatus::Unknown);
        check(&ticket.shown_by(0), from(7, 1), SenderStatus::ShowsTicket);
        check(&ticket.shown_by(0), from(7, 1), SenderStatus::ShowsTicket);
        check(&ticket.shown_by(0), from(7, 2), SenderStatus::Unknown);
        check(b"a request", from(7, 1), SenderStatus::Admitted);
        // As long as a ticket.
        check(&[7; SHOWN], from(7, 1), SenderStatus::Admitted);
        check(b"a request", from(7, 2), SenderStatus::Unknown);
        check(b"a request", from(8, 1), SenderStatus::Unknown);
        // Another thread of the server knows it as well.
        assert_eq!(two.status_of(b"a request", &from(7, 1)), SenderStatus::Admitted);
        assert_eq!(two.status_of(b"a request", &from(7, 2)), SenderStatus::Unknown);
    }

    #[test]
    fn repeated_tickets_are_answered_a_few_times() {
        let ticket = Ticket::fresh().unwrap();
        let mut admitted = AdmittedSenders::new(list(ticket));
        let answered = (0..2 * ANSWERS_MAX)
            .filter(|_| admitted.status_of(&ticket.shown_by(1), &from(7, 1)) == SenderStatus::ShowsTicket);
        assert_eq!(answered.count() as u32, ANSWERS_MAX);
        assert_eq!(admitted.status_of(b"a request", &from(7, 1)), SenderStatus::Admitted);
    }
}
