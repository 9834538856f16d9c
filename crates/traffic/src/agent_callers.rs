//! Callers of an agent whose connections arrive at its end: while an end listens on the agent's port it gets all connections
//! there, and passes those of the agent on.
//!
//! So an end itself accepts its data connections, whatever engine it is measured with, from a listener with its cell's options;
//! only calls of the agent take the longer path. They are passed over the end's standard input, which at an agent is a Unix socket.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use bytegauge_sys::network::NetworkTables;
use bytegauge_sys::{io as sys_io, option, shared_port, socket};
use bytegauge_wire::{FIRST_WORDS, may_open};

use crate::{EndError, program};

/// The most connections that are passed on when a listener closes: as many as may wait for an agent.
const LATE_MAX: usize = 4096;

/// Listens, on the agent's port if that is shared: connections there belong to this socket as long as it listens. Where a relay runs
/// already, its end listens on the port to which that relay forwards.
pub(crate) fn listen(
    socket: &socket2::Socket,
    address: &socket2::SockAddr,
    backlog: i32,
    shares: bool,
) -> io::Result<()> {
    let share = |on: bool| option::set(socket.as_fd(), &option::REUSE_PORT.to(on)).map_err(io::Error::from);
    let port = address.as_socket().map_or(0, |address| address.port());
    if port != 0 {
        // Connections of the last trial may linger in TIME_WAIT.
        socket.set_reuse_address(true)?;
    }
    if shares {
        share(true)?;
    }
    socket.bind(address).and_then(|()| socket.listen(backlog)).map_err(|error| refused(error, port))?;
    // It is in the agent's group by now, and connections that it accepts are normal ones.
    if shares { share(false) } else { Ok(()) }
}

/// The error for a fixed port that is taken: its owner, and the fix.
fn refused(error: io::Error, port: u16) -> io::Error {
    if port == 0 || error.kind() != io::ErrorKind::AddrInUse {
        return error;
    }
    let owner = program::owner(NetworkTables::own(), port);
    io::Error::new(
        error.kind(),
        format!("{error}: port {port} is taken{owner}, and bytegauge must listen there: end that program"),
    )
}

/// Passes a connection on if a caller may begin with its bytes so far, and closes it otherwise.
pub(crate) fn pass_on(connection: impl AsFd, received: &[u8]) {
    if may_open(received) {
        let bytes = [&[received.len() as u8], received].concat();
        // An agent that takes no more connections has enough.
        let _ = shared_port::pass_on(io::stdin().as_fd(), &bytes, connection.as_fd());
    }
}

/// The same of a connection whose bytes so far are all unread.
pub(crate) fn pass_on_unread(connection: impl AsFd, unread: &[u8]) {
    if may_open(unread) {
        pass_on(connection, &[]);
    }
}

/// Passes on the connections of a listener that is about to close.
pub(crate) fn pass_on_rest(listener: BorrowedFd<'_>) {
    // An engine that waits for connections in the kernel has made it blocking.
    if sys_io::set_nonblocking(listener, true).is_err() {
        return;
    }
    for _ in 0..LATE_MAX {
        match socket::accept(listener, false) {
            Ok(connection) => pass_on(&connection, &[]),
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(_) => return,
        }
    }
}

/// Waits for the next caller that an end passes on, with its bytes so far; `None` after the last one.
pub fn next(over: &UnixStream) -> Option<(TcpStream, Vec<u8>)> {
    let mut bytes = [0; 1 + FIRST_WORDS];
    loop {
        match shared_port::take_on(over.as_fd(), &mut bytes) {
            Ok((0, _)) => return None,
            Ok((read, Some(connection))) => {
                let received = bytes[1..read].iter().take(bytes[0].into()).copied().collect();
                return Some((connection.into(), received));
            }
            // Messages without a connection have no meaning here.
            Ok((_, None)) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}

/// Lets an end that is about to listen on this socket have all connections, as long as it listens.
///
/// # Errors
/// [`EndError::Missing`] where the kernel cannot.
pub fn give_way(socket: &socket2::Socket) -> Result<(), EndError> {
    shared_port::give_way(socket.as_fd()).map_err(|error| EndError::Missing(error.to_string()))
}
