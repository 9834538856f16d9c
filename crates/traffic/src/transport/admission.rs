//! Accepts the connections of a sink whose source is on another host. A connection becomes a flow when it comes from that host and
//! shows the trial's ticket, in any order. Others wait, few of them, and are closed or passed on at the end.
//!
//! Never blocks on one connection, so that a silent one delays no other. Never waits longer than its time limit, however many
//! connections arrive meanwhile.

use std::collections::VecDeque;
use std::io::Read;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use bytegauge_model::Side;
use bytegauge_sys::socket::{self, During};
use socket2::Socket;

use crate::EndError;
use crate::agent_callers::{pass_on_rest, pass_on_unread};
use crate::path::{Admission, FarPath, SHOWN};
use crate::setup::Setup;
use crate::transport::options::Moment;
use crate::transport::set_options;

/// Connections beyond the flows that may wait; the one that has waited longest goes first.
const UNADMITTED_MAX: usize = 64;

/// How often waiting connections are read: nothing is measured yet.
const CHECK_INTERVAL: Duration = Duration::from_micros(500);

/// Accepts one connection per flow, each with the ticket of the path and from the other host.
pub(super) fn admit_within(
    patience: Duration,
    listener: &Socket,
    setup: &Setup,
    far: &FarPath,
) -> Result<Vec<OwnedFd>, EndError> {
    // Behind a relay on a third host the first flow shows the address from which that host connects.
    let admission = Admission::new(far.ticket, far.comes_from());
    listener.set_nonblocking(true).map_err(EndError::io("making a listener not block"))?;
    let deadline = Instant::now() + patience;
    let mut waiting: VecDeque<(Socket, Option<IpAddr>)> = VecDeque::new();
    let mut flows: Vec<Option<Socket>> = (0..setup.joined()).map(|_| None).collect();
    // The last address from which a connection showed the ticket that is not the other host's.
    let mut elsewhere = None;
    while flows.iter().any(Option::is_none) {
        let mut news = false;
        match listener.accept() {
            Ok((socket, peer)) => {
                news = true;
                waiting.push_back((socket, peer.as_socket().map(|peer| peer.ip().to_canonical())));
                if waiting.len() > setup.joined() + UNADMITTED_MAX {
                    waiting.pop_front().into_iter().for_each(|(oldest, _)| go_elsewhere(&oldest, setup));
                }
            }
            Err(error) if socket::is_transient(&error, During::Accept) => {}
            Err(error) => return Err(EndError::io("waiting for the source to connect")(error)),
        }
        for (socket, peer) in std::mem::take(&mut waiting) {
            let mut shown = [0; SHOWN];
            match socket::peek(socket.as_fd(), &mut shown) {
                Ok(0) => {}
                Ok(SHOWN) if far.ticket.admits(&shown).is_none() => go_elsewhere(&socket, setup),
                Ok(SHOWN) => {
                    let Some(flow) = admission.admits(peer, &shown) else {
                        elsewhere = peer;
                        continue;
                    };
                    news = true;
                    // The first connection with a flow's number is the flow. Its ticket is taken, which does not block.
                    if let Some(place) = flows.get_mut(flow).filter(|place| place.is_none()) {
                        (&socket).read_exact(&mut shown).map_err(EndError::io("reading a ticket"))?;
                        *place = Some(socket);
                    }
                }
                Err(error) if !socket::is_transient(&error, During::Accept) => {}
                Ok(_) | Err(_) => waiting.push_back((socket, peer)),
            }
        }
        // Connections without a ticket do not delay the trial.
        if Instant::now() >= deadline {
            return Err(late(admission.host().zip(elsewhere)));
        }
        if !news {
            std::thread::sleep(CHECK_INTERVAL);
        }
    }
    if setup.shares_port() {
        waiting.iter().for_each(|(other, _)| go_elsewhere(other, setup));
        pass_on_rest(listener.as_fd());
    }
    let ready = |socket: Socket| {
        set_options(&socket, Moment::Accepted, Side::Sink, setup)?;
        Ok(socket.into())
    };
    flows.into_iter().flatten().map(ready).collect()
}

fn late(elsewhere: Option<(IpAddr, IpAddr)>) -> EndError {
    let from = elsewhere.map_or_else(String::new, |(other, from)| {
        format!("; one came from {from} instead of {other}: use the address from which that host connects")
    });
    let why = format!("its data connections did not arrive in time{from}");
    EndError::late("waiting for the other host to connect", why)
}

/// A connection without a ticket may be a caller of the agent. All its bytes are unread.
fn go_elsewhere(socket: &Socket, setup: &Setup) {
    if setup.shares_port() {
        let mut unread = [0; SHOWN];
        let have = socket::peek(socket.as_fd(), &mut unread).unwrap_or(0);
        pass_on_unread(socket, &unread[..have]);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

    use std::sync::atomic::{AtomicBool, Ordering};

    use bytegauge_model::Spec;
    use socket2::{Domain, Type};

    use super::*;
    use crate::path::Ticket;

    fn path(flows: u64) -> Setup {
        let levels = Spec::from([("transport", "tcp".into()), ("flows", flows.into())]);
        Setup::unchecked(levels)
    }

    fn far(ticket: Ticket) -> FarPath {
        FarPath::to(([127, 0, 0, 1], 1).into(), Side::Sink, ticket)
    }

    fn connected_from(host: [u8; 4], at: SocketAddr) -> TcpStream {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((host, 0)).into()).unwrap();
        socket.connect(&at.into()).unwrap();
        socket.into()
    }

    #[test]
    fn overheard_ticket_takes_no_place_from_another_address() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let ticket = Ticket::fresh().unwrap();
        // They are accepted first.
        let mut thieves: Vec<_> = (0..2).map(|_| connected_from([127, 0, 0, 2], at)).collect();
        for (flow, thief) in thieves.iter_mut().enumerate() {
            thief.write_all(&ticket.shown_by(flow)).unwrap();
        }
        let mut flows: Vec<_> = (0..2).map(|_| connected_from([127, 0, 0, 1], at)).collect();
        for (flow, socket) in flows.iter_mut().enumerate() {
            socket.write_all(&ticket.shown_by(flow)).unwrap();
        }
        let admitted = admit_within(crate::transport::JOIN_TIMEOUT, &listener.into(), &path(2), &far(ticket)).unwrap();
        for (admitted, flow) in admitted.iter().zip(&flows) {
            let peer = socket2::SockRef::from(admitted).peer_addr().unwrap().as_socket();
            assert_eq!(peer, Some(flow.local_addr().unwrap()));
        }
    }

    #[test]
    fn connections_without_ticket_do_not_delay() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let ticket = Ticket::fresh().unwrap();
        let mut thief = connected_from([127, 0, 0, 2], at);
        thief.write_all(&ticket.shown_by(0)).unwrap();
        let is_over = AtomicBool::new(false);
        let fault = std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        let _ = TcpStream::connect(at);
                    }
                });
            }
            let admitted = admit_within(Duration::from_millis(300), &listener.into(), &path(1), &far(ticket));
            is_over.store(true, Ordering::Relaxed);
            admitted.unwrap_err()
        });
        let reason = fault.to_string();
        assert!(reason.contains("127.0.0.2 instead of 127.0.0.1"), "{reason}");
    }

    #[test]
    fn flows_arrive_in_any_order() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let ticket = Ticket::fresh().unwrap();
        let door = std::thread::spawn(move || {
            admit_within(crate::transport::JOIN_TIMEOUT, &listener.into(), &path(3), &far(ticket)).unwrap()
        });
        // Silent ones, more than may wait; one with half a ticket; one with another ticket; one that closes.
        let silent: Vec<_> = (0..UNADMITTED_MAX + 20).map(|_| TcpStream::connect(at).unwrap()).collect();
        let mut half = TcpStream::connect(at).unwrap();
        half.write_all(&ticket.shown_by(0)[..SHOWN - 1]).unwrap();
        let mut other = TcpStream::connect(at).unwrap();
        other.write_all(&Ticket::fresh().unwrap().shown_by(0)).unwrap();
        TcpStream::connect(at).unwrap().shutdown(Shutdown::Both).unwrap();
        let show = |flow: usize, then: &[u8]| {
            let mut socket = TcpStream::connect(at).unwrap();
            // In one write: a refused connection may be closed before it sends more.
            socket.write_all(&[&ticket.shown_by(flow)[..], then].concat()).unwrap();
            socket
        };
        let _flows = [show(2, b"c"), show(0, b"a"), show(0, b"x"), show(9, b"x"), show(1, b"b")];
        let admitted = door.join().unwrap();
        let first = |fd: &OwnedFd| {
            let mut byte = [0];
            assert_eq!(bytegauge_sys::io::read(fd.as_fd(), &mut byte).unwrap(), 1);
            byte[0]
        };
        assert_eq!(admitted.iter().map(first).collect::<Vec<_>>(), b"abc");
        // A refused connection has only received the end.
        drop(silent);
        let mut answer = Vec::new();
        let _reset = other.read_to_end(&mut answer);
        assert!(answer.is_empty());
    }
}
