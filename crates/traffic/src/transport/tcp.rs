//! TCP over loopback, IPv4 and IPv6.
//!
//! `SO_RCVBUF` is set on the listener, before the handshake: the window scale is chosen there and stays
//! for life (tcp(7)); set later, a small value does not bind.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use bytegauge_sys::errno;
use socket2::{Domain, Socket, Type};

use crate::address::Address;
use crate::fault::Fault;
use crate::setup::PathSetup;
use crate::transport::options::Moment;
use crate::transport::unix::accept_all;
use crate::transport::{Joint, Listening, connect_in_time, set_options};
use bytegauge_model::Side;

/// The joint of `tcp` and `tcp6`.
pub struct Tcp;

struct Listener {
    socket: Socket,
    address: SocketAddr,
}

impl Joint for Tcp {
    fn listen(&self, setup: &PathSetup) -> Result<Box<dyn Listening>, Fault> {
        let ours = setup.host.any_port(&setup.transport);
        let socket = stream(&ours)?;
        set_options(&socket, Moment::Listening, Side::Sink, setup)?;
        socket.bind(&ours.into()).map_err(|error| no_family(&ours, error))?;
        socket.listen(setup.flows.min(4096) as i32).map_err(Fault::io("listening on TCP"))?;
        let bound = socket.local_addr().map_err(Fault::io("reading the port"))?;
        let address = bound.as_socket().ok_or_else(|| Fault::Impossible("a TCP socket without an IP".into()))?;
        Ok(Box::new(Listener { socket, address }))
    }

    fn connect(&self, address: &Address, setup: &PathSetup) -> Result<Vec<OwnedFd>, Fault> {
        let Address::Ip(address) = address else {
            return Err(Fault::Impossible(format!("TCP cannot connect to {address:?}")));
        };
        (0..setup.flows)
            .map(|_| {
                let socket = stream(address)?;
                set_options(&socket, Moment::Own, Side::Source, setup)?;
                connect_in_time(&socket, &(*address).into(), setup.foreign.is_some())
                    .map_err(Fault::io(format!("connecting to {address}")))?;
                Ok(socket.into())
            })
            .collect()
    }
}

impl Listening for Listener {
    fn address(&self) -> Address {
        Address::Ip(self.address)
    }

    fn accept(&mut self, setup: &PathSetup) -> Result<Vec<OwnedFd>, Fault> {
        accept_all(&self.socket, setup)
    }
}

fn stream(address: &SocketAddr) -> Result<Socket, Fault> {
    Socket::new(Domain::for_address(*address), Type::STREAM, None).map_err(|error| no_family(address, error))
}

/// A machine without IPv6 skips those cells; any other error is one.
fn no_family(address: &SocketAddr, error: io::Error) -> Fault {
    match error.kind() {
        io::ErrorKind::AddrNotAvailable | io::ErrorKind::Unsupported if address.is_ipv6() => {
            Fault::Missing("this machine has no IPv6 loopback: leave out --transport tcp6".into())
        }
        _ if error.raw_os_error() == Some(errno::EAFNOSUPPORT) => {
            Fault::Missing(format!("this kernel lacks the address family of {address}"))
        }
        _ => Fault::Io { doing: format!("opening a TCP socket on {address}"), source: error },
    }
}
