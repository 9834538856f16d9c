//! The server's sockets over datagrams. There is no accept: a bound socket receives from any sender.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use bytegauge_model::Place;
use bytegauge_model::option::Setter;
use bytegauge_sys::socket_memory::socket_memory;

use crate::address::Address;
use crate::call::socket::{announced, cpu_of_thread, open, unbound};
use crate::end_error::EndError;
use crate::server_lookup::unbindable;
use crate::setup::Setup;
use crate::transport::datagram::enlarge;
use crate::transport::options::{Moment, for_cpu, set_all, wanted};

/// Binds the server's sockets: one that its threads share, or one per thread with `SO_REUSEPORT`.
///
/// # Errors
/// [`EndError::Missing`] if the machine lacks the transport or an option.
pub fn bind(setup: &Setup) -> Result<(Vec<OwnedFd>, Address), EndError> {
    let count = if setup.reuseport() { setup.server_threads() } else { 1 };
    let options = wanted(&setup.spec, (Setter::Server, Moment::Own), setup.transport());
    let mut address = unbound(setup)?;
    let mut sockets = Vec::with_capacity(count);
    for thread in 0..count {
        let socket = open(setup.transport(), &address)?;
        set_all(&socket, &for_cpu(&options, cpu_of_thread(setup, thread)))?;
        // The value in force is read back and reported.
        let _ = enlarge(socket.as_fd(), setup);
        match setup.shares_port() {
            // Another program may have the agent's UDP port.
            true => {
                let asked = setup.host.any_port(setup.transport());
                socket.bind(&address).map_err(|error| unbindable(&Place::Ip(asked), error))?;
            }
            false => socket.bind(&address).map_err(EndError::io("binding the server's socket"))?,
        }
        // The next socket of the group gets the port of this one.
        address = socket.local_addr().map_err(EndError::io("reading the port"))?;
        sockets.push(socket.into());
    }
    Ok((sockets, announced(&address)?))
}

/// Datagrams for which a socket had no room, since its creation.
pub fn dropped_at(fd: BorrowedFd<'_>) -> u64 {
    socket_memory(fd).map_or(0, |memory| memory.drops.into())
}
