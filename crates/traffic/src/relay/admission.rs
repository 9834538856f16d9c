//! Admission to a relay on another host: a connection with the trial's ticket is admitted and forwarded together with the
//! ticket, which the end behind the relay checks too. Other connections get no connection to that end, and no answer.
//!
//! A connection is accepted when its first bytes have arrived (`TCP_DEFER_ACCEPT`). The ticket of an end is in one piece in its
//! first segment, so one peek, which consumes nothing and does not block, is enough for every method and thread.

use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use bytegauge_sys::socket;
use bytegauge_wire::may_open;

use crate::address::peer_of;
use crate::agent_callers;
use crate::setup::Setup;
use crate::ticket::{SHOWN, Ticket};

/// How long a connection may be silent before the kernel lets it be accepted anyway, seconds: a lost first segment is
/// retransmitted by then.
pub(super) const SILENT_S: u64 = 5;

/// Open connections allowed in addition to twice the requested number: a call's next connection may begin before the end of its
/// last one is noticed.
const SPARE: u64 = 64;

/// Admits connections of a trial.
#[derive(Debug)]
pub(super) struct RelayDoor {
    ticket: Ticket,
    /// The only host whose connections are admitted: other hosts cannot use an overheard ticket.
    other: IpAddr,
    shares_port: bool,
    /// Most connections at once.
    room: u64,
    entered: AtomicU64,
}

impl RelayDoor {
    /// The admission to a relay on another host, for this number of connections; `None` on one host.
    pub(super) fn of(setup: &Setup, connections: usize) -> Option<RelayDoor> {
        let (far, room) = (setup.far?, 2 * connections as u64 + SPARE);
        let other = far.faces()?.ip().to_canonical();
        Some(RelayDoor {
            ticket: far.ticket,
            other,
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
        if have == SHOWN && self.ticket.admits(&shown).is_some() {
            if peer_of(connection) != Some(self.other) {
                return false;
            }
            let open = self.entered.load(Ordering::Relaxed).saturating_sub(ended);
            if open < self.room {
                self.entered.fetch_add(1, Ordering::Relaxed);
            }
            return open < self.room;
        }
        if self.shares_port && may_open(&shown[..have]) {
            // Its bytes are all unread.
            agent_callers::pass_on(connection, &[]);
        }
        false
    }

    /// Passes waiting connections on, which were not accepted.
    pub(super) fn shuts(&self, listener: BorrowedFd<'_>) {
        if self.shares_port {
            agent_callers::pass_on_rest(listener);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use bytegauge_model::{Side, Spec};

    use super::*;
    use crate::path::FarPath;

    #[test]
    fn connection_with_ticket_is_admitted_unread() {
        let ticket = Ticket::fresh().unwrap();
        let levels = Spec::from([("transport", "tcp".into()), ("flows", 1.into())]);
        let far = Some(FarPath::to(([127, 0, 0, 1], 1).into(), Side::Sink, ticket));
        let path = Setup { far, ..Setup::unchecked(levels) };
        let door = RelayDoor::of(&path, 1).unwrap();
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
            assert!(!door.admits(accepted.as_fd(), 0), "{unadmitted:?}");
        }
        // An overheard ticket, from another host.
        let (_caller, accepted) = connects_from([127, 0, 0, 2], &shown);
        assert!(!door.admits(accepted.as_fd(), 0));
        let (_caller, accepted) = connects(&[&shown[..], b"more"].concat());
        assert!(door.admits(accepted.as_fd(), 0));
        let mut left = [0; SHOWN];
        assert_eq!((accepted.peek(&mut left).unwrap(), left), (SHOWN, shown));
        // No more at once than a trial of one connection may have, however often the ticket is sent.
        let more = (1..100).filter(|_| door.admits(accepted.as_fd(), 0)).count() as u64;
        assert_eq!(more, 1 + SPARE);
        assert!(door.admits(accepted.as_fd(), 1));
        assert!(RelayDoor::of(&Setup { far: None, ..path }, 1).is_none());
    }
}
