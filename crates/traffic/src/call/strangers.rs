//! Connections to a server whose clients are on another host. Until one has shown the ticket it costs a descriptor and nothing else,
//! and the one that has been silent longest is closed for the next one, so that silent connections lock no client out.
//!
//! A connection may enter if it comes from the clients' host, shows the ticket, and not more are open than the memory of an agent
//! was charged for ([`open_at_most`]). Only then does it get the memory of its work.

use std::collections::BTreeMap;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use bytegauge_sys::socket;

use crate::address::peer_of;
use crate::call::request_work::RequestWork;
use crate::path::FarPath;
use crate::setup::Setup;
use crate::ticket::{SHOWN, Shown, Ticket};

/// Connections beyond the clients' that one thread of a server keeps: without a ticket, and again with one, since a client's next
/// connection comes before the end of its last one is seen.
const BESIDE: usize = 64;

/// Connections of the clients' host of which no copy is kept, so that they are never closed for others: a client that shows its
/// ticket at once costs no system call more.
const SEATS: usize = 16;

/// Memory of a silent connection in addition to one buffer of the engine, bytes: its socket, and the thread that some engines give
/// it.
const SILENT_BYTES: u64 = 16 << 10;

/// Connections without a ticket that one thread of a server keeps at most.
fn silent_at_most(setup: &Setup) -> usize {
    clients(setup).saturating_add(BESIDE + SEATS)
}

/// Connections with a ticket that one thread of a server has open at most.
fn open_at_most(setup: &Setup) -> usize {
    let closing = if setup.connect_per_call() { setup.flows() } else { 0 };
    clients(setup).saturating_add(closing).saturating_add(BESIDE)
}

/// Memory of the connections of one thread of a server beside the buffers of those that take part: the work of as many as may be
/// open, and what silent ones cost, bytes.
pub(crate) fn memory_at_most(setup: &Setup) -> u64 {
    let work = RequestWork::memory(setup).saturating_mul(open_at_most(setup) as u64);
    let silent = (setup.read_size() as u64).saturating_add(SILENT_BYTES);
    work.saturating_add(silent.saturating_mul(silent_at_most(setup) as u64))
}

fn clients(setup: &Setup) -> usize {
    setup.flows().saturating_add(setup.idle_flows()).saturating_add(setup.competing_flows())
}

/// The connections of one thread of a server, as long as they have not shown the ticket, and how many have.
#[derive(Debug)]
pub(super) struct Strangers {
    ticket: Ticket,
    /// The clients' host; behind a relay on a third host known with the first connection that shows the ticket.
    other: OnceLock<IpAddr>,
    standing_max: usize,
    open_max: usize,
    present: Mutex<PresentCount>,
}

#[derive(Debug, Default)]
struct PresentCount {
    seated: usize,
    /// Copies of connections, by the order in which they came, from 1 on.
    standing: BTreeMap<u64, TcpStream>,
    came: u64,
    /// Connections that have shown the ticket.
    open: usize,
    /// The work of connections that have left.
    idle_work: Vec<RequestWork>,
}

/// A connection's place until it has shown what it has to show, or has left.
#[derive(Debug)]
pub(super) struct Place {
    /// Its number among the standing, 0 with a seat.
    number: u64,
    /// Where it comes from.
    peer: Option<IpAddr>,
}

impl Strangers {
    /// None yet, at a server of these calls; `None` if its clients are on this host.
    pub(super) fn of(setup: &Setup) -> Option<Strangers> {
        let far: FarPath = setup.far?;
        Some(Strangers {
            ticket: far.ticket,
            other: far.comes_from().map_or_else(OnceLock::new, OnceLock::from),
            standing_max: silent_at_most(setup) - SEATS,
            open_max: open_at_most(setup),
            present: Mutex::default(),
        })
    }

    /// A place for a connection that came; `None` where no descriptor is left for it.
    pub(super) fn comes(&self, connection: BorrowedFd<'_>) -> Option<Place> {
        let peer = peer_of(connection);
        let mut present = self.present();
        if self.may_enter(peer) && present.seated < SEATS {
            present.seated += 1;
            return Some(Place { number: 0, peer });
        }
        let copy = connection.try_clone_to_owned().ok()?;
        if present.standing.len() >= self.standing_max {
            present.close_one();
        }
        present.came += 1;
        let number = present.came;
        present.standing.insert(number, copy.into());
        Some(Place { number, peer })
    }

    /// A connection has shown everything, or has left.
    pub(super) fn leaves(&self, place: &Place) {
        let mut present = self.present();
        match place.number {
            0 => present.seated -= 1,
            number => drop(present.standing.remove(&number)),
        }
    }

    /// Whether a connection shows what clients show, and is one of theirs.
    pub(super) fn admits(&self, place: &Place, shown: &Shown) -> bool {
        let admits = self.may_enter(place.peer) && self.ticket.admits(shown).is_some();
        // It is set once: whoever is admitted later comes from there as well.
        admits && place.peer.is_some_and(|peer| *self.other.get_or_init(|| peer) == peer)
    }

    /// Whether a connection comes from the clients' host: an overheard ticket is of no use to any other.
    fn may_enter(&self, peer: Option<IpAddr>) -> bool {
        peer.is_some_and(|peer| self.other.get().is_none_or(|other| *other == peer))
    }

    /// Counts a connection that was admitted. Work that is left from another one, if any; `None`: too many are open.
    pub(super) fn opens(&self) -> Option<Option<RequestWork>> {
        let mut present = self.present();
        let has_room = present.open < self.open_max;
        present.open += usize::from(has_room);
        has_room.then(|| present.idle_work.pop())
    }

    /// A connection that was admitted has left, and its work is free.
    pub(super) fn closes(&self, work: Option<RequestWork>) {
        let mut present = self.present();
        present.open -= 1;
        present.idle_work.extend(work);
    }

    fn present(&self) -> MutexGuard<'_, PresentCount> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PresentCount {
    /// Closes the oldest of those that have not sent everything yet, even what was not read.
    fn close_one(&mut self) {
        let is_silent = |stream: &TcpStream| !matches!(socket::peek(stream.as_fd(), &mut [0; SHOWN]), Ok(SHOWN));
        let silent = self.standing.iter().find_map(|(number, stream)| is_silent(stream).then_some(*number));
        let Some(first) = silent.or_else(|| self.standing.keys().next().copied()) else { return };
        if let Some(stream) = self.standing.remove(&first) {
            // Its flow sees the end of the stream, and closes it.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener};

    use bytegauge_model::{Side, Spec, Workload};
    use socket2::{Domain, Socket, Type};

    use super::*;

    const CLIENTS: usize = 2;

    fn call() -> Setup {
        let levels = [("transport", "tcp".into()), ("engine", "epoll".into()), ("request", 8.into())];
        let mut setup = Setup::of(&Spec::from(levels).said_of(Workload::Call)).unwrap();
        (setup.spec.flows, setup.spec.working_set) = (Some(CLIENTS as u64), Some(64));
        setup.far = Some(FarPath::to(([127, 0, 0, 1], 1).into(), Side::Sink, Ticket::fresh().unwrap()));
        setup
    }

    fn connected_from(host: [u8; 4], listener: &TcpListener) -> (TcpStream, TcpStream) {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((host, 0)).into()).unwrap();
        socket.connect(&listener.local_addr().unwrap().into()).unwrap();
        (socket.into(), listener.accept().unwrap().0)
    }

    #[test]
    fn oldest_silent_connection_goes_first() {
        const CLOSED: usize = 3;
        let kept = silent_at_most(&call());
        // Has shown everything, which was not read yet.
        const SPOKE: usize = SEATS + 1;
        let strangers = Strangers::of(&call()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let comes = |n| {
            let (mut caller, accepted) = connected_from([127, 0, 0, 1], &listener);
            if n == SPOKE {
                caller.write_all(&[0; SHOWN]).unwrap();
                accepted.peek(&mut [0]).unwrap();
            }
            let place = strangers.comes(accepted.as_fd()).unwrap();
            (caller, accepted, place)
        };
        let came: Vec<_> = (0..kept + CLOSED).map(comes).collect();
        let has_ended = |(caller, _, _): &(TcpStream, TcpStream, Place)| {
            caller.set_nonblocking(true).unwrap();
            matches!((&*caller).read(&mut [0]), Ok(0))
        };
        let ended: Vec<bool> = came.iter().map(has_ended).collect();
        let expected = |n: usize| (SEATS..=SEATS + CLOSED).contains(&n) && n != SPOKE;
        assert_eq!(ended, (0..came.len()).map(expected).collect::<Vec<_>>());
        came.into_iter().for_each(|(_, _, place)| strangers.leaves(&place));
        let present = strangers.present();
        assert_eq!((present.seated, present.standing.len()), (0, 0));
    }

    #[test]
    fn other_addresses_never_enter_and_keep_no_seat() {
        let strangers = Strangers::of(&call()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let shown = strangers.ticket.shown_by(0);
        let (_theirs, accepted) = connected_from([127, 0, 0, 2], &listener);
        let other = strangers.comes(accepted.as_fd()).unwrap();
        assert!(!strangers.admits(&other, &shown) && strangers.present().seated == 0);
        let (_ours, accepted) = connected_from([127, 0, 0, 1], &listener);
        let client = strangers.comes(accepted.as_fd()).unwrap();
        assert!(strangers.admits(&client, &shown) && strangers.present().seated == 1);
        assert!(!strangers.admits(&client, &Ticket::fresh().unwrap().shown_by(0)));
    }

    #[test]
    fn first_ticket_behind_a_third_host_names_it() {
        let mut setup = call();
        setup.far = setup.far.map(|far| FarPath { relay: far.end.map(|(agent, _)| agent), ..far });
        let strangers = Strangers::of(&setup).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let shown = strangers.ticket.shown_by(0);
        let comes = |host: u8, shown: &Shown| {
            let (_caller, accepted) = connected_from([127, 0, 0, host], &listener);
            let place = strangers.comes(accepted.as_fd()).unwrap();
            strangers.admits(&place, shown)
        };
        assert!(!comes(2, &[0; SHOWN]) && comes(3, &shown));
        assert!(!comes(2, &shown) && comes(3, &shown));
    }

    #[test]
    fn open_connections_and_their_work_are_bounded() {
        let setup = call();
        let strangers = Strangers::of(&setup).unwrap();
        for _ in 0..open_at_most(&setup) {
            assert!(strangers.opens().is_some_and(|work| work.is_none()));
        }
        assert!(strangers.opens().is_none());
        strangers.closes(RequestWork::of(&setup));
        // The work of the one that left is used again.
        assert!(strangers.opens().is_some_and(|work| work.is_some()));
        assert!(strangers.opens().is_none());
    }
}
