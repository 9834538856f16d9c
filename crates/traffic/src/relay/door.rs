//! The door of a relay on another host: who shows the trial's ticket is let in and passed on with what it has shown, so that the
//! end behind sees it as well. Nothing is connected to, and nothing answered, for anybody else.
//!
//! A connection is accepted when its first bytes are there (`TCP_DEFER_ACCEPT`), and what our ends show is their first segment,
//! whole. So one look is enough, which takes nothing and waits for nobody, whatever method of whatever thread has accepted it.

use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use bytegauge_sys::socket;
use bytegauge_wire::may_open;

use crate::address::peer_of;
use crate::astray;
use crate::setup::Setup;
use crate::ticket::{SHOWN, Ticket};

/// How long a connection may say nothing before the kernel lets it be accepted all the same, seconds: a first segment that was lost
/// is sent again by then.
pub(super) const SILENT_S: u64 = 5;

/// Connections that may be open beside twice as many as were asked for: a call's next one comes before the last one's end was seen.
const BESIDE: u64 = 64;

/// Lets connections of a trial in.
#[derive(Debug)]
pub(super) struct RelayDoor {
    ticket: Ticket,
    /// The only host whose connections are let in: an overheard ticket is of no use to any other.
    other: IpAddr,
    shares_port: bool,
    /// Connections at once.
    room: u64,
    entered: AtomicU64,
}

impl RelayDoor {
    /// The door of a relay that stands on another host, for so many connections; `None` where all are on one.
    pub(super) fn of(setup: &Setup, connections: usize) -> Option<RelayDoor> {
        let (far, room) = (setup.far?, 2 * connections as u64 + BESIDE);
        let other = far.faces()?.ip().to_canonical();
        Some(RelayDoor {
            ticket: far.ticket,
            other,
            shares_port: setup.shares_port(),
            room,
            entered: AtomicU64::new(0),
        })
    }

    /// Whether a connection that was accepted is one of the trial's; so many have ended. Who may have come to see the agent goes there.
    pub(super) fn admits(&self, connection: BorrowedFd<'_>, ended: u64) -> bool {
        let mut shown = [0; SHOWN];
        // What cannot be looked at has nothing to show.
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
            // It is all still there to be read.
            astray::pass_on(connection, &[]);
        }
        false
    }

    /// Passes on who came last and was not accepted.
    pub(super) fn shuts(&self, listener: BorrowedFd<'_>) {
        if self.shares_port {
            astray::pass_on_rest(listener);
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
    fn who_shows_the_ticket_is_let_in_and_nothing_of_it_is_taken() {
        let ticket = Ticket::fresh().unwrap();
        let levels = Spec::from([("transport", "tcp".into()), ("flows", 1.into())]);
        let far = Some(FarPath::to(([127, 0, 0, 1], 1).into(), Side::Sink, ticket));
        let path = Setup { far, ..Setup::unchecked(levels) };
        let door = RelayDoor::of(&path, 1).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let shown = ticket.shown_by(3);
        let says_from = |from: [u8; 4], bytes: &[u8]| {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
            socket.connect(&listener.local_addr().unwrap().into()).unwrap();
            let mut caller = TcpStream::from(socket);
            caller.write_all(bytes).unwrap();
            let (accepted, _) = listener.accept().unwrap();
            // What was said is on its way.
            if !bytes.is_empty() {
                accepted.peek(&mut [0]).unwrap();
            }
            (caller, accepted)
        };
        let says = |bytes: &[u8]| says_from([127, 0, 0, 1], bytes);
        let other = Ticket::fresh().unwrap().shown_by(0);
        let strangers: [&[u8]; 5] =
            [&[], &shown[..SHOWN - 1], &other, b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n", &[0; SHOWN]];
        for stranger in strangers {
            let (_caller, accepted) = says(stranger);
            assert!(!door.admits(accepted.as_fd(), 0), "{stranger:?}");
        }
        // Overheard, and shown from another host.
        let (_caller, accepted) = says_from([127, 0, 0, 2], &shown);
        assert!(!door.admits(accepted.as_fd(), 0));
        let (_caller, accepted) = says(&[&shown[..], b"more"].concat());
        assert!(door.admits(accepted.as_fd(), 0));
        let mut left = [0; SHOWN];
        assert_eq!((accepted.peek(&mut left).unwrap(), left), (SHOWN, shown));
        // No more at once than a trial of one connection may have, however often the ticket is shown.
        let more = (1..100).filter(|_| door.admits(accepted.as_fd(), 0)).count() as u64;
        assert_eq!(more, 1 + BESIDE);
        assert!(door.admits(accepted.as_fd(), 1));
        assert!(RelayDoor::of(&Setup { far: None, ..path }, 1).is_none());
    }
}
