//! Connections to a server whose clients are on another host. Until a connection has sent the ticket it costs only a descriptor, and
//! the one that has been silent longest is closed for a new one, so that silent connections lock no client out.
//!
//! A connection is admitted if it comes from the clients' host, sends the ticket, and no more are open than the memory of an agent
//! was charged for ([`open_at_most`]). Only then does it get the memory of its work.

use std::collections::BTreeMap;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, MutexGuard};

use bytegauge_sys::socket;

use crate::address::peer_of;
use crate::lock;
use crate::path::{Admission, FarPath, SHOWN, Shown};
use crate::setup::Setup;
use crate::stream::ReaderWork;

/// Connections in addition to the clients' that one thread of a server keeps: without a ticket, and again with one, since a
/// client's next connection may begin before the end of its last one is noticed.
const SPARE: usize = 64;

/// Connections of the clients' host of which no copy is kept, so that they are never closed for others: a client that sends its
/// ticket at once costs no additional system call.
const SEATS: usize = 16;

/// Memory of a silent connection in addition to one buffer of the engine, bytes: its socket, and the thread that some engines
/// start for it.
const SILENT_BYTES: u64 = 16 << 10;

/// Most connections without a ticket that one thread of a server keeps.
fn silent_at_most(setup: &Setup) -> usize {
    clients(setup).saturating_add(SPARE + SEATS)
}

/// Most open connections with a ticket of one thread of a server.
fn open_at_most(setup: &Setup) -> usize {
    let closing = if setup.connect_per_call() { setup.flows() } else { 0 };
    clients(setup).saturating_add(closing).saturating_add(SPARE)
}

/// Memory of the connections of one thread of a server in addition to the clients' buffers: the work of as many as may be
/// open, and the cost of silent ones, bytes.
pub fn memory_at_most(setup: &Setup) -> u64 {
    let work = ReaderWork::memory(setup).saturating_mul(open_at_most(setup) as u64);
    let silent = (setup.read_size() as u64).saturating_add(SILENT_BYTES);
    work.saturating_add(silent.saturating_mul(silent_at_most(setup) as u64))
}

fn clients(setup: &Setup) -> usize {
    setup.flows().saturating_add(setup.idle_flows()).saturating_add(setup.competing_flows())
}

/// The connections of one thread of a server that have not sent the ticket, and the number of those that have.
#[derive(Debug)]
pub(super) struct Unadmitted {
    admission: Admission,
    standing_max: usize,
    open_max: usize,
    present: Mutex<PresentCount>,
}

#[derive(Debug, Default)]
struct PresentCount {
    seated: usize,
    /// Copies of connections, by order of arrival, from 1 on.
    standing: BTreeMap<u64, TcpStream>,
    came: u64,
    /// Connections that have sent the ticket.
    open: usize,
    /// The work of closed connections.
    idle_work: Vec<ReaderWork>,
}

/// A connection's place until it has sent its ticket, or has left.
#[derive(Debug)]
pub(super) struct PendingPlace {
    /// Its number among those with a copy, 0 without.
    number: u64,
    /// Its peer's address.
    peer: Option<IpAddr>,
}

impl Unadmitted {
    /// No connections yet, at a server of these calls; `None` if its clients are on this host.
    pub(super) fn of(setup: &Setup) -> Option<Unadmitted> {
        let far: FarPath = setup.far?;
        Some(Unadmitted {
            // Behind a relay on a third host the clients' host is known from the first connection that sends the ticket.
            admission: Admission::new(far.ticket, far.comes_from()),
            standing_max: silent_at_most(setup) - SEATS,
            open_max: open_at_most(setup),
            present: Mutex::default(),
        })
    }

    /// A place for a new connection; `None` if there is no descriptor for it.
    pub(super) fn comes(&self, connection: BorrowedFd<'_>) -> Option<PendingPlace> {
        let peer = peer_of(connection);
        let mut present = self.present();
        if self.admission.may_enter(peer) && present.seated < SEATS {
            present.seated += 1;
            return Some(PendingPlace { number: 0, peer });
        }
        let copy = connection.try_clone_to_owned().ok()?;
        if present.standing.len() >= self.standing_max {
            present.close_one();
        }
        present.came += 1;
        let number = present.came;
        present.standing.insert(number, copy.into());
        Some(PendingPlace { number, peer })
    }

    /// A connection has sent its ticket, or has left.
    pub(super) fn leaves(&self, place: &PendingPlace) {
        let mut present = self.present();
        match place.number {
            0 => present.seated -= 1,
            number => drop(present.standing.remove(&number)),
        }
    }

    /// Whether a connection sent a client's ticket and comes from the clients' host.
    #[inline(never)]
    pub(super) fn admits(&self, place: &PendingPlace, shown: &Shown) -> bool {
        self.admission.admits(place.peer, shown).is_some()
    }

    /// Counts an admitted connection. Returns the work of a closed one, if any; `None`: too many are open.
    pub(super) fn opens(&self) -> Option<Option<ReaderWork>> {
        let mut present = self.present();
        let has_room = present.open < self.open_max;
        present.open += usize::from(has_room);
        has_room.then(|| present.idle_work.pop())
    }

    /// An admitted connection has closed, and its work is free.
    pub(super) fn closes(&self, work: Option<ReaderWork>) {
        let mut present = self.present();
        present.open -= 1;
        present.idle_work.extend(work);
    }

    fn present(&self) -> MutexGuard<'_, PresentCount> {
        lock(&self.present)
    }
}

impl PresentCount {
    /// Closes the oldest of those that have not sent their ticket, even with unread bytes.
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

    use bytegauge_model::{FactorKey, Side, Spec, Workload};
    use socket2::{Domain, Socket, Type};

    use super::*;
    use crate::path::Ticket;

    const CLIENTS: usize = 2;

    fn call() -> Setup {
        let levels = [("transport", "tcp".into()), ("engine", "epoll".into()), ("request", 8.into())];
        let mut setup = Setup::of(&Spec::from(levels).with_workload(Workload::Call)).unwrap();
        setup.spec.put(FactorKey::flows, CLIENTS as u64);
        setup.spec.put(FactorKey::working_set, 64);
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
        // Has sent its ticket, which was not read yet.
        const SENDER: usize = SEATS + 1;
        let unadmitted = Unadmitted::of(&call()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let comes = |n| {
            let (mut caller, accepted) = connected_from([127, 0, 0, 1], &listener);
            if n == SENDER {
                caller.write_all(&[0; SHOWN]).unwrap();
                accepted.peek(&mut [0]).unwrap();
            }
            let place = unadmitted.comes(accepted.as_fd()).unwrap();
            (caller, accepted, place)
        };
        let came: Vec<_> = (0..kept + CLOSED).map(comes).collect();
        let has_ended = |(caller, _, _): &(TcpStream, TcpStream, PendingPlace)| {
            caller.set_nonblocking(true).unwrap();
            matches!((&*caller).read(&mut [0]), Ok(0))
        };
        let ended: Vec<bool> = came.iter().map(has_ended).collect();
        let expected = |n: usize| (SEATS..=SEATS + CLOSED).contains(&n) && n != SENDER;
        assert_eq!(ended, (0..came.len()).map(expected).collect::<Vec<_>>());
        came.into_iter().for_each(|(_, _, place)| unadmitted.leaves(&place));
        let present = unadmitted.present();
        assert_eq!((present.seated, present.standing.len()), (0, 0));
    }

    #[test]
    fn other_addresses_never_enter_and_keep_no_seat() {
        let setup = call();
        let unadmitted = Unadmitted::of(&setup).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let shown = setup.shown_by(0).unwrap();
        let (_theirs, accepted) = connected_from([127, 0, 0, 2], &listener);
        let other = unadmitted.comes(accepted.as_fd()).unwrap();
        assert!(!unadmitted.admits(&other, &shown) && unadmitted.present().seated == 0);
        let (_ours, accepted) = connected_from([127, 0, 0, 1], &listener);
        let client = unadmitted.comes(accepted.as_fd()).unwrap();
        assert!(unadmitted.admits(&client, &shown) && unadmitted.present().seated == 1);
        assert!(!unadmitted.admits(&client, &Ticket::fresh().unwrap().shown_by(0)));
    }

    #[test]
    fn first_ticket_behind_a_third_host_names_it() {
        let mut setup = call();
        setup.far = setup.far.map(|far| FarPath { relay: far.end.map(|(agent, _)| agent), ..far });
        let unadmitted = Unadmitted::of(&setup).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let shown = setup.shown_by(0).unwrap();
        let comes = |host: u8, shown: &Shown| {
            let (_caller, accepted) = connected_from([127, 0, 0, host], &listener);
            let place = unadmitted.comes(accepted.as_fd()).unwrap();
            unadmitted.admits(&place, shown)
        };
        assert!(!comes(2, &[0; SHOWN]) && comes(3, &shown));
        assert!(!comes(2, &shown) && comes(3, &shown));
    }

    #[test]
    fn open_connections_and_their_work_are_bounded() {
        let setup = call();
        let unadmitted = Unadmitted::of(&setup).unwrap();
        for _ in 0..open_at_most(&setup) {
            assert!(unadmitted.opens().is_some_and(|work| work.is_none()));
        }
        assert!(unadmitted.opens().is_none());
        unadmitted.closes(ReaderWork::of(&setup));
        // The work of the closed one is used again.
        assert!(unadmitted.opens().is_some_and(|work| work.is_some()));
        assert!(unadmitted.opens().is_none());
    }
}
