//! TCP over loopback or between two hosts, IPv4 and IPv6; and MPTCP, whose sockets differ in their protocol alone.
//!
//! `SO_RCVBUF` is set on the listener, before the handshake: the window scale is chosen there and stays
//! for life (tcp(7)); set later, a small value does not bind.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use bytegauge_sys::{errno, option};
use socket2::{Domain, Socket, Type};

use crate::address::Address;
use crate::agent_callers;
use crate::end_error::EndError;
use crate::setup::Setup;
use crate::tls::{self, TlsRole};
use crate::transport::admission::admit_all;
use crate::transport::options::Moment;
use crate::transport::unix::accept_all;
use crate::transport::{Joint, Listening, connect_in_time, protocol, set_options, unopened};
use bytegauge_model::{Side, Transport};

/// The joint of `tcp`, `tcp6` and `mptcp`.
pub struct TcpJoint;

struct TcpListening {
    socket: Socket,
    address: SocketAddr,
}

impl Joint for TcpJoint {
    fn listen(&self, setup: &Setup) -> Result<Box<dyn Listening>, EndError> {
        let ours = setup.host.any_port(setup.transport());
        let socket = stream(setup.transport(), &ours)?;
        set_options(&socket, Moment::Listening, Side::Sink, setup)?;
        agent_callers::listen(&socket, &ours.into(), setup.joined().min(4096) as i32, setup.shares_port())
            .map_err(|error| no_family(&ours, error))?;
        let bound = socket.local_addr().map_err(EndError::io("reading the port"))?;
        let address = bound.as_socket().ok_or_else(|| EndError::Impossible("a TCP socket without an IP".into()))?;
        Ok(Box::new(TcpListening { socket, address }))
    }

    fn connect(&self, address: &Address, setup: &Setup) -> Result<Vec<OwnedFd>, EndError> {
        let Address::Ip(address) = address else {
            return Err(EndError::Impossible(format!("TCP cannot connect to {address:?}")));
        };
        (0..setup.joined())
            .map(|flow| {
                let socket = connected(address, setup, Side::Source)?;
                show(&socket, setup, flow).map_err(EndError::io(format!("showing the ticket at {address}")))?;
                tls::kernel::encrypt(&socket, setup, TlsRole::Client)?;
                Ok(socket.into())
            })
            .collect()
    }
}

/// One connection of the side that connects, with its options.
pub(crate) fn connected(address: &SocketAddr, setup: &Setup, side: Side) -> Result<Socket, EndError> {
    let socket = stream(setup.transport(), address)?;
    set_options(&socket, Moment::Own, side, setup)?;
    bind_to(&socket, setup.bound_to()).map_err(EndError::io("binding a connection to this host's address"))?;
    connect_in_time(&socket, &(*address).into(), setup.is_external())
        .map_err(EndError::io(format!("connecting to {address}")))?;
    Ok(socket)
}

impl Listening for TcpListening {
    fn address(&self) -> Address {
        Address::Ip(self.address)
    }

    fn accept(&mut self, setup: &Setup) -> Result<Vec<OwnedFd>, EndError> {
        match &setup.far {
            Some(far) => {
                let flows = admit_all(&self.socket, setup, far)?;
                flows.iter().try_for_each(|flow| tls::kernel::encrypt(flow, setup, TlsRole::Server))?;
                Ok(flows)
            }
            None => accept_all(&self.socket, setup),
        }
    }
}

/// Shows the ticket of a path between two hosts on a connection that was just made: there is room for it.
fn show(mut socket: &Socket, setup: &Setup, flow: usize) -> io::Result<()> {
    setup.shown_by(flow).map_or(Ok(()), |shown| socket.write_all(&shown))
}

/// Binds a socket that is about to connect to an address, and leaves the port to connect(2).
pub(crate) fn bind_to(socket: &Socket, address: Option<SocketAddr>) -> io::Result<()> {
    let Some(address) = address else { return Ok(()) };
    option::set(socket.as_fd(), &option::BIND_ADDRESS_NO_PORT.to(true)).map_err(|error| error.source)?;
    socket.bind(&address.into())
}

fn stream(transport: &Transport, address: &SocketAddr) -> Result<Socket, EndError> {
    Socket::new(Domain::for_address(*address), Type::STREAM, protocol(transport))
        .map_err(|error| unopened(transport, error, |error| no_family(address, error)))
}

/// A machine without IPv6 skips those cells; any other error is one.
fn no_family(address: &SocketAddr, error: io::Error) -> EndError {
    match error.kind() {
        io::ErrorKind::AddrNotAvailable | io::ErrorKind::Unsupported if address.is_ipv6() => {
            EndError::Missing("this machine has no IPv6 loopback: leave out --transport tcp6".into())
        }
        _ if error.raw_os_error() == Some(errno::EAFNOSUPPORT) => {
            EndError::Missing(format!("this kernel lacks the address family of {address}"))
        }
        _ => EndError::Io { doing: format!("opening a TCP socket on {address}"), source: error },
    }
}
