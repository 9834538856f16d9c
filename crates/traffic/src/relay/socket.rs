//! The sockets of a relay: the listener that replaces that of the other side, and connections to that side.
//!
//! The options of an end's sockets are also set on the relay's socket that faces it. Over TCP both of its sockets have
//! `TCP_NODELAY` unless a plan turns it off, as in every good proxy: a relay must not wait for more bytes.

use std::os::fd::{AsFd, OwnedFd};

use bytegauge_model::{EndRole, Workload};
use bytegauge_sys::option::{self, SocketOption};

use crate::address::Address;
use crate::call::Connector;
use crate::relay::state::SILENT_S;
use crate::setup::Setup;
use crate::transport::options::{Moment, set_all, wanted};
use crate::transport::sockets::{announced, open, unbound};
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

/// The side behind a relay.
#[derive(Debug)]
pub struct Upstream {
    pub(super) connector: Connector,
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
        // A third host may have no route to the address at which the caller reaches this one.
        let from = setup.bound_to().filter(|_| setup.far.is_some_and(|far| far.comes_from().is_some()));
        let doing = "connecting from the relay to the end behind it";
        let connector = Connector::plain(doing, address, setup, of(ours, Moment::Own), from)?;
        Ok(Upstream { connector, accepted: of(theirs, Moment::Accepted) })
    }

    /// Prepares an accepted connection.
    pub(super) fn prepare_accepted(&self, fd: impl AsFd) -> Result<(), EndError> {
        set_all(fd, &self.accepted)
    }
}

/// The ends whose options the socket to the end behind the relay has, and an accepted one.
fn setters(workload: Workload) -> [EndRole; 2] {
    // Only a path has relays.
    workload.path_ends().unwrap_or([EndRole::Source, EndRole::Sink])
}
