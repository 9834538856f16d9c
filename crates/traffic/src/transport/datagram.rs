//! Datagram sockets, a pair per flow, connected to each other. The source greets each of the sink's sockets with an empty
//! datagram, and the sink connects to its sender: datagrams of other senders are not counted afterwards. Between two hosts the source
//! shows a ticket instead, at one port for all flows ([`super::datagram_admission`]).

use std::io;
use std::mem::MaybeUninit;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram};
use std::sync::atomic::{AtomicU64, Ordering};

use bytegauge_model::Side;
use bytegauge_sys::option::{self, OptionError};
use socket2::Socket;

use crate::address::Address;
use crate::end_error::EndError;
use crate::setup::Setup;
use crate::transport::datagram_admission::UdpDoor;
use crate::transport::options::Moment;
use crate::transport::{JOIN_TIMEOUT, Joint, Listening, set_options, uninterrupted};

/// The `SO_RCVBUF` that `auto` requests for a socket that receives UDP. The system's default, 208 KiB on most machines, holds a hundred
/// small datagrams, less than a sender sends while its reader waits for a CPU.
const RECEIVE_BUFFER: u64 = 4 << 20;

/// The joint of `udp` and `udp6`.
pub struct Udp;

/// The joint of `unix-dgram`.
pub struct UnixDatagramJoint;

impl Joint for Udp {
    fn listen(&self, setup: &Setup) -> Result<Box<dyn Listening>, EndError> {
        if let Some(far) = &setup.far {
            return Ok(Box::new(UdpDoor::open(setup, far)?));
        }
        let sockets = (0..setup.joined()).map(|_| {
            let socket = UdpSocket::bind(setup.host.any_port(setup.transport()))
                .map_err(EndError::io("binding a UDP socket"))?;
            prepare_sink(&socket, setup)?;
            Ok(socket)
        });
        let sockets = sockets.collect::<Result<Vec<UdpSocket>, EndError>>()?;
        let ports = sockets.iter().map(UdpSocket::local_addr).collect::<io::Result<_>>();
        let ports = ports.map_err(EndError::io("naming a UDP socket"))?;
        Ok(Box::new(Ports { sockets, ports }))
    }

    fn connect(&self, address: &Address, setup: &Setup) -> Result<Vec<OwnedFd>, EndError> {
        let ports = match address {
            // Another host names no addresses: it could name those of third parties.
            Address::Ports(ports) if setup.far.is_none() => ports.clone(),
            // One door for all flows.
            Address::Ip(door) if setup.far.is_some() => vec![*door; setup.joined()],
            _ => return Err(EndError::Impossible(format!("a UDP socket cannot connect to {address:?}"))),
        };
        // The agent's own port is for ends that accept.
        let mut ours = setup.host.any_port(setup.transport());
        ours.set_port(0);
        let joined = ports.iter().map(|port| {
            let socket = UdpSocket::bind(ours).map_err(EndError::io("binding a UDP socket"))?;
            set_options(&socket, Moment::Own, Side::Source, setup)?;
            socket.connect(port).map_err(EndError::io("connecting a UDP socket"))?;
            if setup.far.is_none() {
                socket.send(&[]).map_err(EndError::io("greeting the sink"))?;
            }
            Ok(socket.into())
        });
        joined.collect()
    }
}

/// UDP sockets that wait for their sources.
struct Ports {
    sockets: Vec<UdpSocket>,
    ports: Vec<SocketAddr>,
}

impl Listening for Ports {
    fn address(&self) -> Address {
        Address::Ports(self.ports.clone())
    }

    fn accept(&mut self, _setup: &Setup) -> Result<Vec<OwnedFd>, EndError> {
        std::mem::take(&mut self.sockets).into_iter().map(greeted).collect()
    }
}

impl Joint for UnixDatagramJoint {
    fn listen(&self, setup: &Setup) -> Result<Box<dyn Listening>, EndError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("bytegauge-dgram-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let sockets = (0..setup.joined()).map(|flow| {
            let socket = bound(&name, Side::Sink, flow)?;
            prepare_sink(&socket, setup)?;
            Ok(socket)
        });
        Ok(Box::new(Names { sockets: sockets.collect::<Result<_, EndError>>()?, name }))
    }

    fn connect(&self, address: &Address, setup: &Setup) -> Result<Vec<OwnedFd>, EndError> {
        let Address::Abstract(name) = address else {
            return Err(EndError::Impossible(format!("a Unix datagram socket cannot connect to {address:?}")));
        };
        let joined = (0..setup.joined()).map(|flow| {
            let socket = bound(name, Side::Source, flow)?;
            set_options(&socket, Moment::Own, Side::Source, setup)?;
            let sink = of_flow(name, Side::Sink, flow)?;
            socket.connect_addr(&sink).map_err(EndError::io("connecting a Unix datagram socket"))?;
            socket.send(&[]).map_err(EndError::io("greeting the sink"))?;
            Ok(socket.into())
        });
        joined.collect()
    }
}

/// Unix datagram sockets that wait for their sources.
struct Names {
    sockets: Vec<UnixDatagram>,
    name: String,
}

impl Listening for Names {
    fn address(&self) -> Address {
        Address::Abstract(self.name.clone())
    }

    fn accept(&mut self, _setup: &Setup) -> Result<Vec<OwnedFd>, EndError> {
        std::mem::take(&mut self.sockets).into_iter().map(greeted).collect()
    }
}

/// A sink's socket, connected to the source that greets it.
fn greeted(sink: impl Into<Socket>) -> Result<OwnedFd, EndError> {
    let sink = sink.into();
    sink.set_read_timeout(Some(JOIN_TIMEOUT)).map_err(EndError::io("bounding a wait"))?;
    let greeting = uninterrupted(|| sink.recv_from(&mut [MaybeUninit::uninit()]));
    let (_, source) = greeting.map_err(EndError::io("waiting for the source's greeting"))?;
    sink.connect(&source).map_err(EndError::io("connecting to the source"))?;
    sink.set_read_timeout(None).map_err(EndError::io("unbounding a wait"))?;
    Ok(sink.into())
}

/// Unlike a stream's, both ends have a name: the sink answers too.
fn bound(name: &str, side: Side, flow: usize) -> Result<UnixDatagram, EndError> {
    UnixDatagram::bind_addr(&of_flow(name, side, flow)?).map_err(EndError::io("binding a Unix datagram socket"))
}

fn of_flow(name: &str, side: Side, flow: usize) -> Result<UnixAddress, EndError> {
    let end = match side {
        Side::Source => "source",
        Side::Sink => "sink",
    };
    UnixAddress::from_abstract_name(format!("{name}-{end}-{flow}")).map_err(EndError::io("naming a Unix socket"))
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

/// Sets the options of a receiving socket.
pub(super) fn prepare_sink(socket: &impl AsFd, setup: &Setup) -> Result<(), EndError> {
    let fd = socket.as_fd();
    set_options(socket, Moment::Own, Side::Sink, setup)?;
    if !setup.transport().is_udp() {
        return Ok(());
    }
    enlarge(fd, setup).map_err(|error| EndError::Missing(error.to_string()))
}

/// Sets the options of the other side on a socket as well: it carries data in both directions.
///
/// # Errors
/// As options.
pub(crate) fn turn(socket: &impl AsFd, to: Side, setup: &Setup) -> Result<(), EndError> {
    match to {
        Side::Source => set_options(socket, Moment::Own, to, setup),
        Side::Sink => prepare_sink(socket, setup),
    }
}

/// Lets the kernel join several datagrams for one receive (udp(7), `UDP_GRO`).
///
/// # Errors
/// [`EndError::Missing`] where the kernel cannot.
pub(crate) fn join_segments(fd: BorrowedFd<'_>) -> Result<(), EndError> {
    option::set(fd, &option::UDP_COALESCE.to(true)).map_err(|error| EndError::Missing(error.to_string()))
}

/// Lets the kernel segment each send into datagrams of `size` bytes (udp(7), `UDP_SEGMENT`).
///
/// # Errors
/// [`EndError::Missing`] where the kernel cannot.
pub(crate) fn cut_sends(fd: BorrowedFd<'_>, size: u64) -> Result<(), EndError> {
    option::set(fd, &option::UDP_SEGMENT.to(size)).map_err(|error| EndError::Missing(error.to_string()))
}

#[cfg(test)]
mod tests {
    use bytegauge_model::Spec;

    use super::*;
    use crate::path::FarPath;
    use crate::ticket::Ticket;

    #[test]
    fn another_host_cannot_choose_the_target() {
        let third = UdpSocket::bind("127.0.0.1:0").unwrap();
        let named = Address::Ports(vec![third.local_addr().unwrap()]);
        let mut setup = Setup::unchecked(Spec::from([("transport", "udp".into())]));
        assert!(Udp.connect(&named, &setup).is_ok());
        setup.far = Some(FarPath::to(([192, 0, 2, 7], 1).into(), Side::Sink, Ticket::fresh().unwrap()));
        assert!(matches!(Udp.connect(&named, &setup), Err(EndError::Impossible(_))));
    }
}
