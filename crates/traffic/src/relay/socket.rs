//! The sockets of a relay: the listener that replaces that of the other side, and connections to that side.
//!
//! The options of an end's sockets are also set on the relay's socket that faces it. Over TCP both of its sockets have
//! `TCP_NODELAY` unless a plan turns it off, as in every good proxy: a relay must not wait for more bytes.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use bytegauge_model::{EndRole, Transport, Workload};
use bytegauge_sys::option::{self, SocketOption};
use bytegauge_sys::socket;
use socket2::{SockAddr, Socket, Type};

use crate::address::Address;
use crate::relay::state::SILENT_S;
use crate::setup::Setup;
use crate::transport::options::{Moment, set_all, wanted};
use crate::transport::sockets::{announced, bind_to, open, sock_addr, unbound};
use crate::transport::{begin_connecting, connect_in_time, options, protocol};
use crate::{EndError, agent_callers};

/// Connections that may wait to be accepted; the system clamps it at `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Listens in place of the other side. The listener does not block.
///
/// # Errors
/// [`EndError::Missing`] if the machine lacks the transport or an option.
pub fn listen(setup: &Setup) -> Result<(OwnedFd, Address), EndError> {
    let address = unbound(setup)?;
    let socket = open(setup.transport(), &address)?;
    let [_, theirs] = setters(setup.workload());
    let mut options = wanted(&setup.spec, (theirs, Moment::Listening), setup.transport());
    options.extend(setup.far.map(|_| option::DEFER_ACCEPT.to(SILENT_S)));
    set_all(&socket, &options)?;
    agent_callers::listen(&socket, &address, BACKLOG, setup.shares_port())
        .map_err(EndError::io("listening for a relay"))?;
    socket.set_nonblocking(true).map_err(EndError::io("making a listener not block"))?;
    let bound = socket.local_addr().map_err(EndError::io("reading the relay's address"))?;
    Ok((socket.into(), announced(&bound)?))
}

/// The address that a relay connects to.
#[derive(Debug)]
pub struct Upstream {
    address: SockAddr,
    transport: Transport,
    external: bool,
    /// This host's address, if the other side is on another host.
    from: Option<SocketAddr>,
    /// The options of a socket to the other side.
    options: Vec<SocketOption>,
    /// The options of an accepted socket.
    accepted: Vec<SocketOption>,
}

impl Upstream {
    /// The side behind a relay.
    ///
    /// # Errors
    /// [`EndError::Impossible`] if a socket cannot connect to the address.
    pub fn new(address: &Address, setup: &Setup) -> Result<Upstream, EndError> {
        let [ours, theirs] = setters(setup.workload());
        let of = |setter, moment| {
            let mut options = wanted(&setup.spec, (setter, moment), setup.transport());
            options.extend(setup.transport().is_tcp().then(|| option::NO_DELAY.to(setup.relay_nodelay())));
            options
        };
        Ok(Upstream {
            address: sock_addr(address)?,
            transport: setup.transport().clone(),
            external: setup.is_external(),
            // A third host may have no route to the address at which the caller reaches this one.
            from: setup.bound_to().filter(|_| setup.far.is_some_and(|far| far.comes_from().is_some())),
            options: of(ours, Moment::Own),
            accepted: of(theirs, Moment::Accepted),
        })
    }

    /// Bytes that the kernel received on a connection to this side, or from the other one.
    pub(super) fn bytes_received(&self, leg: BorrowedFd<'_>) -> Option<u64> {
        options::bytes_received(leg, &self.transport)
    }

    /// Prepares an accepted connection.
    pub(super) fn prepare_accepted(&self, fd: impl AsFd) -> Result<(), EndError> {
        set_all(fd, &self.accepted)
    }

    /// Connects, and waits for it.
    pub(super) fn join(&self) -> Result<OwnedFd, EndError> {
        let joined = self.socket().and_then(|socket| {
            connect_in_time(&socket, &self.address, self.external)?;
            Ok(socket.into())
        });
        joined.map_err(unconnected)
    }

    /// Begins to connect.
    pub(super) fn begin(&self) -> io::Result<OwnedFd> {
        begin_connecting(self.socket()?, &self.address)
    }

    fn socket(&self) -> io::Result<Socket> {
        let socket = Socket::new(self.address.domain(), Type::STREAM, protocol(&self.transport))?;
        set_all(&socket, &self.options).map_err(|fault| io::Error::other(fault.to_string()))?;
        bind_to(&socket, self.from)?;
        Ok(socket)
    }
}

/// The ends whose options the socket to the end behind the relay has, and an accepted one.
fn setters(workload: Workload) -> [EndRole; 2] {
    // Only a path has relays.
    workload.path_ends().unwrap_or([EndRole::Source, EndRole::Sink])
}

/// The relay could not reach the other side.
pub(super) fn unconnected(error: io::Error) -> EndError {
    if socket::is_exhausted(&error) {
        return EndError::Missing(format!(
            "no descriptor is left for another connection of the relay ({error}): raise ulimit -n or use fewer --flows"
        ));
    }
    EndError::Io { doing: "connecting from the relay to the end behind it".into(), source: error }
}
