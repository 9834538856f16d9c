//! Datagram sockets, a pair per flow, connected to each other. The source greets each of the sink's sockets with an empty
//! datagram, and the sink connects to its sender: datagrams of other senders are not counted afterwards. Between two hosts the source
//! shows a ticket instead, at one port for all flows.

use std::io;
use std::mem::MaybeUninit;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytegauge_model::{Place, Side};
use bytegauge_sys::option::{self, OptionError};
use bytegauge_sys::socket::{self, During};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::EndError;
use crate::address::{Address, unbindable};
use crate::path::{Admission, FarPath, SHOWN};
use crate::setup::Setup;
use crate::transport::options::Moment;
use crate::transport::sockets::abstract_name;
use crate::transport::{JOIN_TIMEOUT, Listening, set_options, uninterrupted};

/// The `SO_RCVBUF` that `auto` requests for a socket that receives UDP. The system's default, 208 KiB on most machines, holds a hundred
/// small datagrams, less than a sender sends while its reader waits for a CPU.
const RECEIVE_BUFFER: u64 = 4 << 20;

/// The sink's side.
pub(super) fn listen(setup: &Setup) -> Result<Listening, EndError> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    if let Some(far) = &setup.far {
        let admission = UdpAdmission::open(setup, far)?;
        let address = Address::Ip(admission.address);
        return Ok(Listening { address, accept: Box::new(move |setup| admission.accept(setup)) });
    }
    let name = format!("bytegauge-dgram-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let sockets = (0..setup.joined()).map(|flow| {
        let socket = bound(&of_flow(&name, Side::Sink, flow, setup)?)?;
        prepare(&socket, Side::Sink, setup)?;
        Ok(socket)
    });
    let mut sockets = sockets.collect::<Result<Vec<Socket>, EndError>>()?;
    let port = |socket: &Socket| Ok(socket.local_addr()?.as_socket());
    let ports = sockets.iter().filter_map(|socket| port(socket).transpose()).collect::<io::Result<Vec<_>>>();
    let ports = ports.map_err(EndError::io("naming a UDP socket"))?;
    let address = if setup.transport().is_udp() { Address::Ports(ports) } else { Address::Abstract(name) };
    let accept = move |_: &Setup| std::mem::take(&mut sockets).into_iter().map(greeted).collect();
    Ok(Listening { address, accept: Box::new(accept) })
}

/// The source's side.
pub(super) fn connect(address: &Address, setup: &Setup) -> Result<Vec<OwnedFd>, EndError> {
    let (is_udp, is_far) = (setup.transport().is_udp(), setup.far.is_some());
    let joined = (0..setup.joined()).map(|flow| {
        let (name, sink) = match address {
            // Another host names no addresses: it could name those of third parties.
            Address::Ports(ports) if is_udp && !is_far && flow < ports.len() => ("", ports[flow].into()),
            // One port for all flows.
            Address::Ip(port) if is_udp && is_far => ("", (*port).into()),
            Address::Abstract(name) if !is_udp => (name.as_str(), of_flow(name, Side::Sink, flow, setup)?),
            _ => return Err(EndError::Impossible(format!("a datagram socket cannot connect to {address:?}"))),
        };
        let socket = bound(&of_flow(name, Side::Source, flow, setup)?)?;
        set_options(&socket, Moment::Own, Side::Source, setup)?;
        socket.connect(&sink).map_err(EndError::io("connecting a datagram socket"))?;
        if !is_far {
            socket.send(&[]).map_err(EndError::io("greeting the sink"))?;
        }
        Ok(socket.into())
    });
    joined.collect()
}

/// A sink's socket, connected to the source that greets it.
fn greeted(sink: Socket) -> Result<OwnedFd, EndError> {
    sink.set_read_timeout(Some(JOIN_TIMEOUT)).map_err(EndError::io("bounding a wait"))?;
    let greeting = uninterrupted(|| sink.recv_from(&mut [MaybeUninit::uninit()]));
    let (_, source) = greeting.map_err(EndError::io("waiting for the source's greeting"))?;
    sink.connect(&source).map_err(EndError::io("connecting to the source"))?;
    sink.set_read_timeout(None).map_err(EndError::io("unbounding a wait"))?;
    Ok(sink.into())
}

fn bound(address: &SockAddr) -> Result<Socket, EndError> {
    let socket = Socket::new(address.domain(), Type::DGRAM, None);
    let bound = socket.and_then(|socket| socket.bind(address).map(|()| socket));
    bound.map_err(EndError::io("binding a datagram socket"))
}

/// The address of one side of a flow. Over Unix sockets both have a name, unlike a stream's: the sink answers too.
fn of_flow(name: &str, side: Side, flow: usize, setup: &Setup) -> Result<SockAddr, EndError> {
    if setup.transport().is_udp() {
        let ours = setup.host.any_port(setup.transport());
        // The agent's own port is for ends that accept.
        return Ok(if side == Side::Source { SocketAddr::new(ours.ip(), 0) } else { ours }.into());
    }
    let end = if side == Side::Source { "source" } else { "sink" };
    abstract_name(&format!("{name}-{end}-{flow}"))
}

/// Gives a UDP socket room for bursts of senders, unless its size was requested: the limit of a privileged process,
/// or the system's limit. The resulting size is read back and reported.
pub(crate) fn enlarge(fd: BorrowedFd<'_>, setup: &Setup) -> Result<(), OptionError> {
    let is_left_to_us = setup.transport().is_udp() && setup.spec.rcvbuf().is_none();
    if is_left_to_us && option::set(fd, &option::RECEIVE_BUFFER_FORCE.to(RECEIVE_BUFFER)).is_err() {
        return option::set(fd, &option::RECEIVE_BUFFER.to(RECEIVE_BUFFER));
    }
    Ok(())
}

/// Sets the options of one side on a socket; of both sides, if it carries data in both directions.
///
/// # Errors
/// [`EndError::Missing`] if one is refused.
pub(crate) fn prepare(socket: &impl AsFd, side: Side, setup: &Setup) -> Result<(), EndError> {
    set_options(socket, Moment::Own, side, setup)?;
    match side {
        Side::Source => Ok(()),
        Side::Sink => Ok(enlarge(socket.as_fd(), setup)?),
    }
}

// Admission to a UDP sink between two hosts, one port for all flows: a source with the trial's ticket gets a socket of its own at
// that port, connected to it, so that the kernel separates flows and excludes other senders. Other senders get no answer.
//
// Sockets of one port and one user are a group (`SO_REUSEPORT`). A datagram goes to the socket that is connected to its source, and
// otherwise to an unconnected one (`udp4_lib_lookup2`, net/ipv4/udp.c).
//
// The ticket goes over the network in the clear, and a source address may be forged: a third party with a recorded ticket might take a
// flow's place from another address. So only datagrams from the other host's own address, that of the control connection, are accepted.
//
// Never sends.

/// Most datagrams that are discarded from a new socket, since they arrived before it was connected: more than fit its buffer.
const STRANGE_MAX: usize = 1 << 16;

/// A port that admits flows.
pub(super) struct UdpAdmission {
    socket: UdpSocket,
    address: SocketAddr,
    admission: Admission,
}

impl UdpAdmission {
    /// Binds the socket of a trial, at the agent's port where that is shared.
    pub(super) fn open(setup: &Setup, far: &FarPath) -> Result<UdpAdmission, EndError> {
        let other = far.faces().ok_or_else(|| EndError::Impossible("an admission between two hosts on one".into()))?;
        let asked = setup.host.any_port(setup.transport());
        let socket = shared(asked)?;
        socket.bind(&asked.into()).map_err(|error| unbindable(&Place::Ip(asked), error))?;
        let socket: UdpSocket = socket.into();
        let address = socket.local_addr().map_err(EndError::io("naming a UDP socket"))?;
        Ok(UdpAdmission { socket, address, admission: Admission::new(far.ticket, Some(other.ip())) })
    }

    /// A socket at the same port for one source.
    fn joined(&self, source: SocketAddr, setup: &Setup) -> Result<UdpSocket, EndError> {
        let socket = shared(self.address)?;
        prepare(&socket, Side::Sink, setup)?;
        socket.bind(&self.address.into()).map_err(EndError::io("binding a UDP socket for a flow"))?;
        let socket: UdpSocket = socket.into();
        socket.connect(source).map_err(EndError::io("connecting to the source"))?;
        // Until it was connected it received from any sender.
        socket.set_nonblocking(true).map_err(EndError::io("making a UDP socket not block"))?;
        let _ = (0..STRANGE_MAX).take_while(|_| socket.recv(&mut [0; 1]).is_ok()).count();
        socket.set_nonblocking(false).map_err(EndError::io("making a UDP socket block"))?;
        Ok(socket)
    }

    /// Waits until every flow has shown its ticket.
    fn accept(&self, setup: &Setup) -> Result<Vec<OwnedFd>, EndError> {
        let deadline = Instant::now() + JOIN_TIMEOUT;
        let mut flows: Vec<Option<UdpSocket>> = (0..setup.joined()).map(|_| None).collect();
        // One byte more than a ticket, so that longer messages are noticed.
        let mut received = [0; SHOWN + 1];
        while flows.iter().any(Option::is_none) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let why = "its datagrams did not arrive in time: check for a firewall between the hosts";
                return Err(EndError::late(format!("waiting for the other host at UDP {}", self.address), why));
            }
            let left = left.max(Duration::from_millis(1));
            self.socket.set_read_timeout(Some(left)).map_err(EndError::io("bounding a wait"))?;
            let (len, source) = match self.socket.recv_from(&mut received) {
                Ok(heard) => heard,
                Err(error) if socket::is_transient(&error, During::Transfer) => continue,
                Err(error) => return Err(EndError::io("waiting for the other host's datagrams")(error)),
            };
            let flow = self.admission.admits(Some(source.ip()), &received[..len]);
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
    option::set(socket.as_fd(), &option::REUSE_PORT.to(true))?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use bytegauge_model::Spec;

    use super::*;
    use crate::path::{FarPath, Ticket};

    #[test]
    fn another_host_cannot_choose_the_target() {
        let third = UdpSocket::bind("127.0.0.1:0").unwrap();
        let named = Address::Ports(vec![third.local_addr().unwrap()]);
        let mut setup = Setup::unchecked(Spec::from([("transport", "udp".into())]));
        assert!(connect(&named, &setup).is_ok());
        setup.far = Some(FarPath::to(([192, 0, 2, 7], 1).into(), Side::Sink, Ticket::fresh().unwrap()));
        assert!(matches!(connect(&named, &setup), Err(EndError::Impossible(_))));
    }
}

#[cfg(test)]
mod datagram_admission_tests {
    use bytegauge_model::{Side, Spec};

    use super::*;
    use crate::path::Ticket;

    fn path(flows: u64, ticket: Ticket) -> Setup {
        let levels = Spec::from([("transport", "udp".into()), ("flows", flows.into())]);
        let far = Some(FarPath::to(([127, 0, 0, 1], 1).into(), Side::Sink, ticket));
        Setup { far, ..Setup::unchecked(levels) }
    }

    /// A socket at some port that is connected to the sink, and sends these bytes.
    fn showing(at: SocketAddr, with: &[u8]) -> UdpSocket {
        showing_from("127.0.0.1:0", at, with)
    }

    fn showing_from(here: &str, at: SocketAddr, with: &[u8]) -> UdpSocket {
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
        let admission = UdpAdmission::open(&setup, &setup.far.unwrap()).unwrap();
        let at = admission.address;
        let other = Ticket::fresh().unwrap();
        let long = [&ticket.shown_by(0)[..], &[0]].concat();
        let mut unadmitted: Vec<UdpSocket> = [&b"garbage"[..], &[], &[0; 2000], &other.shown_by(0), &long]
            .into_iter()
            .chain([&ticket.shown_by(0)[..SHOWN - 1], &ticket.shown_by(3), &ticket.shown_by(usize::MAX)])
            .map(|with| showing(at, with))
            .collect();
        let flows: Vec<UdpSocket> = [2, 0].into_iter().map(|flow| showing(at, &ticket.shown_by(flow))).collect();
        // A replay of another flow's ticket.
        unadmitted.push(showing(at, &ticket.shown_by(2)));
        let last = showing(at, &ticket.shown_by(1));
        let admitted: Vec<UdpSocket> = admission.accept(&setup).unwrap().into_iter().map(UdpSocket::from).collect();
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
        let admission = UdpAdmission::open(&setup, &setup.far.unwrap()).unwrap();
        let forged = (0..2).map(|flow| showing_from("127.0.0.2:0", admission.address, &ticket.shown_by(flow)));
        let forged: Vec<UdpSocket> = forged.collect();
        let flows: Vec<UdpSocket> = (0..2).map(|flow| showing(admission.address, &ticket.shown_by(flow))).collect();
        let admitted: Vec<UdpSocket> = admission.accept(&setup).unwrap().into_iter().map(UdpSocket::from).collect();
        for (admitted, flow) in admitted.iter().zip(&flows) {
            assert_eq!(admitted.peer_addr().unwrap(), flow.local_addr().unwrap());
        }
        for unadmitted in forged {
            assert_eq!(unadmitted.recv(&mut [0; 8]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
    }
}
