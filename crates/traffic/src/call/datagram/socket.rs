//! The server's sockets over datagrams. Nobody is accepted: a bound socket takes whatever comes.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use bytegauge_sys::option::{self, SocketOption};
use bytegauge_sys::socket_memory::socket_memory;

use crate::call::setup::CallSetup;
use crate::call::socket::{open, set_all, size, told, unbound};
use crate::fault::Fault;
use crate::message::{Address, PathSetup};
use crate::transport::datagram::RECEIVE_BUFFER;

/// Binds the server's sockets: one that its threads share, or one a thread with `SO_REUSEPORT`.
///
/// # Errors
/// [`Fault::Missing`] if the machine lacks the transport or an option.
pub fn bind(setup: &PathSetup, call: &CallSetup) -> Result<(Vec<OwnedFd>, Address), Fault> {
    let own_sockets = call.reuseport && setup.transport.is_udp();
    let count = if own_sockets { call.server_threads } else { 1 };
    let mut address = unbound(setup)?;
    let mut sockets = Vec::with_capacity(count);
    for _ in 0..count {
        let socket = open(&setup.transport, &address)?;
        let options = &setup.options;
        set_all(
            socket.as_fd(),
            [
                own_sockets.then_some(SocketOption::ReusePort(true)),
                size(options.rcvbuf).map(SocketOption::ReceiveBuffer),
                size(options.sndbuf).map(SocketOption::SendBuffer),
                call.busy_poll_us.map(SocketOption::BusyPollUs),
            ],
        )?;
        if setup.transport.is_udp() && options.rcvbuf.is_none() {
            enlarge(socket.as_fd());
        }
        socket.bind(&address).map_err(Fault::io("binding the server's socket"))?;
        // The next socket of the group takes the port that this one got.
        address = socket.local_addr().map_err(Fault::io("reading the port"))?;
        sockets.push(socket.into());
    }
    Ok((sockets, told(&address)?))
}

/// Gives a socket that all clients share room for what they send at once: as much as a privileged process may have, or
/// as the system's limit allows. What it got is read back and reported.
fn enlarge(fd: BorrowedFd<'_>) {
    if option::set(fd, &SocketOption::ReceiveBufferForce(RECEIVE_BUFFER)).is_err() {
        let _ = option::set(fd, &SocketOption::ReceiveBuffer(RECEIVE_BUFFER));
    }
}

/// Datagrams that a socket had no room for, in its whole life.
pub fn dropped_at(fd: BorrowedFd<'_>) -> u64 {
    socket_memory(fd).map_or(0, |memory| memory.drops.into())
}
