//! Connections to a server on another host that have not shown their ticket yet: few at a time, and whoever has been silent longest
//! is sent away for the next one, so that strangers who say nothing lock no client out.

use std::collections::BTreeMap;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytegauge_sys::socket;

use crate::ticket::{SHOWN, Shown, Ticket};

/// Strangers who may be sent away, at most.
const STANDING_MAX: usize = 64;

/// Who is let in by one thread of a server.
#[derive(Debug)]
pub(super) struct Strangers {
    ticket: Ticket,
    /// As many as clients may be connecting at once: so many are not sent away, and nothing is kept of them.
    seats: usize,
    present: Mutex<Present>,
}

#[derive(Debug, Default)]
struct Present {
    seated: usize,
    /// The others' connections, by the order in which they came, from 1 on.
    standing: BTreeMap<u64, TcpStream>,
    came: u64,
}

/// A stranger's place until it has shown what it has to show, or has left: its number among the standing, 0 with a seat.
#[derive(Debug)]
pub(super) struct Place(u64);

impl Strangers {
    /// Strangers at a server of so many clients, who show this ticket.
    pub(super) fn new(ticket: Ticket, clients: usize) -> Strangers {
        Strangers { ticket, seats: clients, present: Mutex::default() }
    }

    /// A place for a connection that came; `None` where no descriptor is left for it.
    pub(super) fn enters(&self, connection: BorrowedFd<'_>) -> Option<Place> {
        let mut present = self.present();
        if present.seated < self.seats {
            present.seated += 1;
            return Some(Place(0));
        }
        let copy = connection.try_clone_to_owned().ok()?;
        if present.standing.len() >= STANDING_MAX {
            present.send_one_away();
        }
        present.came += 1;
        let number = present.came;
        present.standing.insert(number, copy.into());
        Some(Place(number))
    }

    /// A stranger has shown everything, or has left.
    pub(super) fn leaves(&self, place: &Place) {
        let mut present = self.present();
        match place {
            Place(0) => present.seated -= 1,
            Place(number) => drop(present.standing.remove(number)),
        }
    }

    /// Whether this is what clients show.
    pub(super) fn admits(&self, shown: &Shown) -> bool {
        self.ticket.admits(shown).is_some()
    }

    fn present(&self) -> MutexGuard<'_, Present> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Present {
    /// Sends away whoever came first, of those who have not shown everything yet while nobody has looked.
    fn send_one_away(&mut self) {
        let is_silent = |stream: &TcpStream| !matches!(socket::peek(stream.as_fd(), &mut [0; SHOWN]), Ok(SHOWN));
        let silent = self.standing.iter().find_map(|(number, stream)| is_silent(stream).then_some(*number));
        let Some(first) = silent.or_else(|| self.standing.keys().next().copied()) else { return };
        if let Some(stream) = self.standing.remove(&first) {
            // Whoever serves it hears that nothing more comes, and closes it.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn whoever_has_been_silent_longest_makes_way_and_a_seat_is_kept() {
        const CLIENTS: usize = 2;
        const SENT_AWAY: usize = 3;
        // Has shown everything, to nobody yet.
        const SPOKE: usize = CLIENTS + 1;
        let strangers = Strangers::new(Ticket::fresh().unwrap(), CLIENTS);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let comes = |n| {
            let mut caller = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (accepted, _) = listener.accept().unwrap();
            if n == SPOKE {
                caller.write_all(&[0; SHOWN]).unwrap();
                accepted.peek(&mut [0]).unwrap();
            }
            let place = strangers.enters(accepted.as_fd()).unwrap();
            (caller, accepted, place)
        };
        let came: Vec<_> = (0..CLIENTS + STANDING_MAX + SENT_AWAY).map(comes).collect();
        let has_ended = |(caller, _, _): &(TcpStream, TcpStream, Place)| {
            caller.set_nonblocking(true).unwrap();
            matches!((&*caller).read(&mut [0]), Ok(0))
        };
        let ended: Vec<bool> = came.iter().map(has_ended).collect();
        let expected = |n: usize| (CLIENTS..=CLIENTS + SENT_AWAY).contains(&n) && n != SPOKE;
        assert_eq!(ended, (0..came.len()).map(expected).collect::<Vec<_>>());
        // Whoever leaves makes room, those that were sent away as well.
        came.into_iter().for_each(|(_, _, place)| strangers.leaves(&place));
        let present = strangers.present();
        assert_eq!((present.seated, present.standing.len()), (0, 0));
    }
}
