//! Who is answered by a server of datagrams whose clients are on another host: whoever has shown the trial's ticket, from that
//! host's own address. To everybody else nothing is said, so that nothing can be reflected.
//!
//! A client shows the ticket from the socket of each of its flows until it is answered by the ticket, which is shorter than what
//! it sent; its requests are requests and nothing else. The server looks each sender up by its address.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytegauge_sys::datagram::PeerAddress;
use bytegauge_sys::io as sys_io;
use bytegauge_sys::socket::{self, Until};

use crate::datagram::KNOCKS_EVERY;
use crate::fault::Fault;
use crate::setup::Setup;
use crate::ticket::{LEN, Shown, Ticket};
use crate::transport::JOIN_TIMEOUT;

/// How often a flow is answered that goes on showing its ticket: more often than it asks before it gives up.
const ANSWERS_MAX: u32 = 1000;

/// What a datagram is to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comes {
    /// A request of somebody who was let in.
    ToCall,
    /// A ticket, to be answered.
    ToBeLetIn,
    /// From nobody who is answered.
    Uninvited,
}

/// Who was let in, as the threads of a server know it together.
#[derive(Debug)]
pub(crate) struct GuestList {
    ticket: Ticket,
    /// The only host that is heard.
    other: IpAddr,
    /// By flow.
    places: Mutex<Vec<Place>>,
}

/// A flow's sender, and how often it was answered.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    source: Option<SocketAddr>,
    answers: u32,
}

impl GuestList {
    /// The list of a trial, where clients are on another host.
    pub(crate) fn of(setup: &Setup) -> Option<Arc<GuestList>> {
        let far = setup.far?;
        let places = Mutex::new(vec![Place::default(); setup.flows()]);
        Some(Arc::new(GuestList { ticket: far.ticket, other: far.faces()?.ip().to_canonical(), places }))
    }

    /// Whether so much shown from there lets somebody in, or in again.
    fn lets_in(&self, shown: &[u8], source: SocketAddr) -> bool {
        let flow = <&Shown>::try_from(shown).ok().and_then(|shown| self.ticket.admits(shown));
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(place) = flow.and_then(|flow| places.get_mut(flow)) else { return false };
        // A flow comes once: whoever shows its number after it, perhaps what was overheard, is nobody.
        if *place.source.get_or_insert(source) != source || place.answers == ANSWERS_MAX {
            return false;
        }
        place.answers += 1;
        true
    }

    fn knows(&self, source: SocketAddr) -> bool {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.iter().any(|place| place.source == Some(source))
    }
}

/// One thread's view of the list: whom it has met it need not ask for again.
#[derive(Debug)]
pub(super) struct Guests {
    list: Arc<GuestList>,
    met: HashSet<SocketAddr>,
}

impl Guests {
    pub(super) fn new(list: Arc<GuestList>) -> Guests {
        Guests { list, met: HashSet::new() }
    }

    /// What somebody comes for who sends this.
    #[inline]
    pub(super) fn comes(&mut self, datagram: &[u8], from: &PeerAddress) -> Comes {
        let Some(source) = from.ip() else { return Comes::Uninvited };
        if self.met.contains(&source) && datagram.len() != size_of::<Shown>() {
            return Comes::ToCall;
        }
        self.looked_up(datagram, source)
    }

    /// The same of somebody who was not met, or may have shown a ticket.
    #[cold]
    fn looked_up(&mut self, datagram: &[u8], source: SocketAddr) -> Comes {
        if source.ip().to_canonical() != self.list.other {
            return Comes::Uninvited;
        }
        if datagram.starts_with(&self.list.ticket.answer()) {
            return if self.list.lets_in(datagram, source) { Comes::ToBeLetIn } else { Comes::Uninvited };
        }
        if self.met.contains(&source) || self.list.knows(source) {
            self.met.insert(source);
            return Comes::ToCall;
        }
        Comes::Uninvited
    }

    /// What whoever is let in is answered.
    pub(super) fn answer(&self) -> [u8; LEN] {
        self.list.ticket.answer()
    }
}

/// Shows the ticket by each of these connected sockets until a server on another host has let it in.
///
/// # Errors
/// [`Fault::Io`] if it does not in time.
pub(crate) fn let_in(sockets: &[OwnedFd], ticket: &Ticket) -> Result<(), Fault> {
    let deadline = Instant::now() + JOIN_TIMEOUT;
    let mut waiting: Vec<(usize, BorrowedFd<'_>)> = sockets.iter().map(AsFd::as_fd).enumerate().collect();
    loop {
        for (flow, fd) in &waiting {
            // It is shown again soon.
            let _ = socket::send_now(*fd, &ticket.shown_by(*flow));
        }
        let until = Instant::now() + KNOCKS_EVERY;
        waiting.retain(|(_, fd)| !is_let_in(*fd, ticket, until));
        if waiting.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let source = io::Error::new(
                io::ErrorKind::TimedOut,
                format!("{} of {} flows were not: does a firewall stand between?", waiting.len(), sockets.len()),
            );
            return Err(Fault::Io { doing: "waiting to be let in by the server on the other host".into(), source });
        }
        // Where the network says that nobody is there, nothing was waited for.
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
    }
}

/// Whether the server's answer comes until then.
fn is_let_in(fd: BorrowedFd<'_>, ticket: &Ticket, until: Instant) -> bool {
    let mut said = [0; LEN + 1];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match socket::wait(fd, Until::Readable, left.as_nanos() as u64) {
            Ok(Some(_)) => {}
            Ok(None) => return false,
            Err(_) if left == Duration::ZERO => return false,
            Err(_) => continue,
        }
        match sys_io::read(fd, &mut said) {
            Ok(len) if said[..len] == ticket.answer() => return true,
            Ok(_) => {}
            Err(_) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use bytegauge_model::{Side, Spec};

    use super::*;
    use crate::path::FarPath;
    use crate::ticket::SHOWN;

    const FLOWS: u64 = 3;

    fn list(ticket: Ticket) -> Arc<GuestList> {
        let levels = Spec::from([("transport", "udp".into()), ("flows", FLOWS.into())]);
        let far = Some(FarPath::to(([192, 0, 2, 7], 1).into(), Side::Sink, ticket));
        GuestList::of(&Setup { far, ..Setup::unchecked(levels) }).unwrap()
    }

    fn from(host: u8, port: u16) -> PeerAddress {
        SocketAddr::from(([192, 0, 2, host], port)).into()
    }

    #[test]
    fn only_who_showed_the_ticket_from_the_other_host_is_answered() {
        let (ticket, other) = (Ticket::fresh().unwrap(), Ticket::fresh().unwrap());
        let list = list(ticket);
        let [mut one, mut two] = [0, 1].map(|_| Guests::new(Arc::clone(&list)));
        let mut check = |datagram: &[u8], from: PeerAddress, expected: Comes| {
            assert_eq!(one.comes(datagram, &from), expected, "{datagram:?} from {:?}", from.ip());
        };
        // Before it has shown a ticket; garbage, another trial's, too long, too short, of a flow that there is not.
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
        strange.iter().for_each(|datagram| check(datagram, from(7, 1), Comes::Uninvited));
        // What was overheard, from any other address: it is not let in, and takes nobody's place.
        check(&ticket.shown_by(0), from(8, 1), Comes::Uninvited);
        check(&ticket.shown_by(0), PeerAddress::NONE, Comes::Uninvited);
        check(&ticket.shown_by(0), from(7, 1), Comes::ToBeLetIn);
        check(&ticket.shown_by(0), from(7, 1), Comes::ToBeLetIn);
        check(&ticket.shown_by(0), from(7, 2), Comes::Uninvited);
        check(b"a request", from(7, 1), Comes::ToCall);
        // As long as what is shown.
        check(&[7; SHOWN], from(7, 1), Comes::ToCall);
        check(b"a request", from(7, 2), Comes::Uninvited);
        check(b"a request", from(8, 1), Comes::Uninvited);
        // Another thread of the server knows it as well.
        assert_eq!(two.comes(b"a request", &from(7, 1)), Comes::ToCall);
        assert_eq!(two.comes(b"a request", &from(7, 2)), Comes::Uninvited);
    }

    #[test]
    fn who_shows_its_ticket_for_ever_is_not_answered_for_ever() {
        let ticket = Ticket::fresh().unwrap();
        let mut guests = Guests::new(list(ticket));
        let answered =
            (0..2 * ANSWERS_MAX).filter(|_| guests.comes(&ticket.shown_by(1), &from(7, 1)) == Comes::ToBeLetIn);
        assert_eq!(answered.count() as u32, ANSWERS_MAX);
        assert_eq!(guests.comes(b"a request", &from(7, 1)), Comes::ToCall);
    }
}
