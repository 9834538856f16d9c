//! Admission to a UDP sink between two hosts, one port for all flows: a source with the trial's ticket gets a socket of its own at
//! that port, connected to it, so that the kernel separates flows and excludes other senders. Other senders get no answer.
//!
//! Sockets of one port and one user are a group (`SO_REUSEPORT`). A datagram goes to the socket that is connected to its source, and
//! otherwise to an unconnected one (`udp4_lib_lookup2`, net/ipv4/udp.c).
//!
//! The ticket goes over the network in the clear, and a source address may be forged: a third party with a recorded ticket might take a
//! flow's place from another address. So only datagrams from the other host's own address, that of the control connection, are accepted.
//!
//! Never sends.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use bytegauge_model::Place;
use bytegauge_sys::option;
use socket2::{Domain, Socket, Type};

use crate::address::Address;
use crate::end_error::EndError;
use crate::path::FarPath;
use crate::server_lookup::unbindable;
use crate::setup::Setup;
use crate::ticket::{SHOWN, Shown, Ticket};
use crate::transport::datagram::prepare_sink;
use crate::transport::{JOIN_TIMEOUT, Listening};

/// Most datagrams that are discarded from a new socket, since they arrived before it was connected: more than fit its buffer.
const STRANGE_MAX: usize = 1 << 16;

/// A port that admits flows.
pub(super) struct UdpDoor {
    socket: UdpSocket,
    address: SocketAddr,
    ticket: Ticket,
    /// The only accepted host.
    other: IpAddr,
}

impl UdpDoor {
    /// Opens the door of a trial, at the agent's port where that is shared.
    pub(super) fn open(setup: &Setup, far: &FarPath) -> Result<UdpDoor, EndError> {
        let other = far.faces().ok_or_else(|| EndError::Impossible("a door between two hosts on one".into()))?;
        let asked = setup.host.any_port(setup.transport());
        let socket = shared(asked)?;
        socket.bind(&asked.into()).map_err(|error| unbindable(&Place::Ip(asked), error))?;
        let socket: UdpSocket = socket.into();
        let address = socket.local_addr().map_err(EndError::io("naming a UDP socket"))?;
        Ok(UdpDoor { socket, address, ticket: far.ticket, other: other.ip().to_canonical() })
    }

    /// A socket at the same port for one source.
    fn joined(&self, source: SocketAddr, setup: &Setup) -> Result<UdpSocket, EndError> {
        let socket = shared(self.address)?;
        prepare_sink(&socket, setup)?;
        socket.bind(&self.address.into()).map_err(EndError::io("binding a UDP socket for a flow"))?;
        let socket: UdpSocket = socket.into();
        socket.connect(source).map_err(EndError::io("connecting to the source"))?;
        // Until it was connected it received from any sender.
        socket.set_nonblocking(true).map_err(EndError::io("making a UDP socket not block"))?;
        let _ = (0..STRANGE_MAX).take_while(|_| socket.recv(&mut [0; 1]).is_ok()).count();
        socket.set_nonblocking(false).map_err(EndError::io("making a UDP socket block"))?;
        Ok(socket)
    }
}

impl Listening for UdpDoor {
    fn address(&self) -> Address {
        Address::Ip(self.address)
    }

    fn accept(&mut self, setup: &Setup) -> Result<Vec<OwnedFd>, EndError> {
        let deadline = Instant::now() + JOIN_TIMEOUT;
        let mut flows: Vec<Option<UdpSocket>> = (0..setup.joined()).map(|_| None).collect();
        // One byte more than a ticket, so that longer messages are noticed.
        let mut received = [0; SHOWN + 1];
        while flows.iter().any(Option::is_none) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let source = io::Error::new(
                    io::ErrorKind::TimedOut,
                    "its datagrams did not arrive in time: check for a firewall between the hosts",
                );
                return Err(EndError::Io {
                    doing: format!("waiting for the other host at UDP {}", self.address),
                    source,
                });
            }
            let left = left.max(Duration::from_millis(1));
            self.socket.set_read_timeout(Some(left)).map_err(EndError::io("bounding a wait"))?;
            let (len, source) = match self.socket.recv_from(&mut received) {
                Ok(heard) => heard,
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                    continue;
                }
                Err(error) => return Err(EndError::io("waiting for the other host's datagrams")(error)),
            };
            if source.ip().to_canonical() != self.other {
                continue;
            }
            let flow = <&Shown>::try_from(&received[..len]).ok().and_then(|shown| self.ticket.admits(shown));
            // A flow is admitted once: a later message with its number, perhaps a replay, is ignored.
            if let Some(place) = flow.and_then(|flow| flows.get_mut(flow)).filter(|place| place.is_none()) {
                *place = Some(self.joined(source, setup)?);
            }
        }
        Ok(flows.into_iter().flatten().map(OwnedFd::from).collect())
    }
}

/// A socket that may have a port together with others of this user's.
fn shared(address: SocketAddr) -> Result<Socket, EndError> {
    let socket =
        Socket::new(Domain::for_address(address), Type::DGRAM, None).map_err(EndError::io("opening a UDP socket"))?;
    option::set(socket.as_fd(), &option::REUSE_PORT.to(true)).map_err(|error| EndError::Missing(error.to_string()))?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use bytegauge_model::{Side, Spec};

    use super::*;

    fn path(flows: u64, ticket: Ticket) -> Setup {
        let levels = Spec::from([("transport", "udp".into()), ("flows", flows.into())]);
        let far = Some(FarPath::to(([127, 0, 0, 1], 1).into(), Side::Sink, ticket));
        Setup { far, ..Setup::unchecked(levels) }
    }

    /// A socket at some port that is connected to the sink, and sends these bytes.
    fn knocking(at: SocketAddr, with: &[u8]) -> UdpSocket {
        knocking_from("127.0.0.1:0", at, with)
    }

    fn knocking_from(here: &str, at: SocketAddr, with: &[u8]) -> UdpSocket {
        let socket = UdpSocket::bind(here).unwrap();
        socket.connect(at).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket.send(with).unwrap();
        socket
    }

    #[test]
    fn only_tickets_are_admitted_and_answered() {
        let ticket = Ticket::fresh().unwrap();
        let setup = path(3, ticket);
        let mut door = UdpDoor::open(&setup, &setup.far.unwrap()).unwrap();
        let at = door.address;
        let other = Ticket::fresh().unwrap();
        let long = [&ticket.shown_by(0)[..], &[0]].concat();
        let mut unadmitted: Vec<UdpSocket> = [&b"garbage"[..], &[], &[0; 2000], &other.shown_by(0), &long]
            .into_iter()
            .chain([&ticket.shown_by(0)[..SHOWN - 1], &ticket.shown_by(3), &ticket.shown_by(usize::MAX)])
            .map(|with| knocking(at, with))
            .collect();
        let flows: Vec<UdpSocket> = [2, 0].into_iter().map(|flow| knocking(at, &ticket.shown_by(flow))).collect();
        // A replay of another flow's ticket.
        unadmitted.push(knocking(at, &ticket.shown_by(2)));
        let last = knocking(at, &ticket.shown_by(1));
        let admitted: Vec<UdpSocket> = door.accept(&setup).unwrap().into_iter().map(UdpSocket::from).collect();
        let peers: Vec<SocketAddr> = admitted.iter().map(|socket| socket.peer_addr().unwrap()).collect();
        assert_eq!(peers, [&flows[1], &last, &flows[0]].map(|socket| socket.local_addr().unwrap()));
        assert!(admitted.iter().all(|socket| socket.local_addr().unwrap() == at), "one port");
        // Each receives from its own source only, without datagrams from before it was connected.
        unadmitted.iter().for_each(|unadmitted| drop(unadmitted.send(b"unadmitted")));
        for (socket, text) in [(&flows[1], b"a"), (&last, b"b"), (&flows[0], b"c")] {
            socket.send(text).unwrap();
        }
        let heard = |socket: &UdpSocket| {
            let mut byte = [0; 8];
            let len = socket.recv(&mut byte).unwrap();
            byte[..len].to_vec()
        };
        assert_eq!(admitted.iter().map(heard).collect::<Vec<_>>(), [b"a", b"b", b"c"]);
        // All of them were read before the last one was admitted.
        for unadmitted in unadmitted.iter().chain(&flows) {
            assert_eq!(unadmitted.recv(&mut [0; 8]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
    }

    #[test]
    fn a_replay_from_another_address_is_ignored() {
        let ticket = Ticket::fresh().unwrap();
        let setup = path(2, ticket);
        let mut door = UdpDoor::open(&setup, &setup.far.unwrap()).unwrap();
        let forged = (0..2).map(|flow| knocking_from("127.0.0.2:0", door.address, &ticket.shown_by(flow)));
        let forged: Vec<UdpSocket> = forged.collect();
        let flows: Vec<UdpSocket> = (0..2).map(|flow| knocking(door.address, &ticket.shown_by(flow))).collect();
        let admitted: Vec<UdpSocket> = door.accept(&setup).unwrap().into_iter().map(UdpSocket::from).collect();
        for (admitted, flow) in admitted.iter().zip(&flows) {
            assert_eq!(admitted.peer_addr().unwrap(), flow.local_addr().unwrap());
        }
        for unadmitted in forged {
            assert_eq!(unadmitted.recv(&mut [0; 8]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
    }
}
