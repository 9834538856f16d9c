//! Connections of streams and calls: TCP and MPTCP, Unix sockets (with message boundaries too), and vsock.
//!
//! `SO_RCVBUF` is set on the listener, before the handshake: the window scale is chosen there and stays for life (tcp(7)); set later, a
//! small value does not bind. Unix sockets have abstract names, so that no file is left behind and two processes can meet. vsock(7) goes
//! over the loopback of this machine, which needs the module `vsock_loopback`. With message boundaries (`SOCK_SEQPACKET`, unix(7)) each
//! message has to fit the sender's buffer and the reader's memory.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use bytegauge_model::{Side, Transport};
use bytegauge_sys::option::{self, Value};
use socket2::{SockAddr, Socket};

use crate::address::{Address, Host};
use crate::setup::Setup;
use crate::tls::{self, TlsRole};
use crate::transport::admission::admit_within;
use crate::transport::options::Moment;
use crate::transport::{
    JOIN_TIMEOUT, Listening, connect_in_time, kind_of, lacking, protocol, set_options, uninterrupted,
};
use crate::{EndError, agent_callers};

/// The sink's side of all transports with connections.
pub(super) fn listen(setup: &Setup) -> Result<Listening, EndError> {
    let ours = unbound(setup.transport(), &setup.host)?;
    let socket = open(setup.transport(), &ours)?;
    set_options(&socket, Moment::Listening, Side::Sink, setup)?;
    fit_read(setup, "write", setup.write_size().unwrap_or_default())?;
    agent_callers::listen(&socket, &ours, setup.joined().min(4096) as i32, setup.shares_port())
        .map_err(|error| unopenable(setup.transport(), error))?;
    let bound = socket.local_addr().map_err(EndError::io("reading the port"))?;
    let accept = move |setup: &Setup| {
        let flows = match &setup.far {
            Some(far) => admit_within(JOIN_TIMEOUT, &socket, setup, far)?,
            None => accept_all(&socket, setup)?,
        };
        flows.iter().try_for_each(|flow| tls::encrypt(flow, setup, TlsRole::Server))?;
        Ok(flows)
    };
    Ok(Listening { address: announced(&bound)?, accept: Box::new(accept) })
}

/// The source's side.
pub(super) fn connect(address: &Address, setup: &Setup) -> Result<Vec<OwnedFd>, EndError> {
    let to = sock_addr(address)?;
    let joined = (0..setup.joined()).map(|flow| {
        let mut socket = connected(&to, setup, Side::Source)?;
        // The ticket of a path between two hosts: there is room for it.
        setup
            .shown_by(flow)
            .map_or(Ok(()), |shown| socket.write_all(&shown))
            .map_err(EndError::io("showing the ticket to the other host"))?;
        tls::encrypt(&socket, setup, TlsRole::Client)?;
        Ok(socket.into())
    });
    joined.collect()
}

/// Accepts one connection per flow.
fn accept_all(listener: &Socket, setup: &Setup) -> Result<Vec<OwnedFd>, EndError> {
    // SO_RCVTIMEO bounds accept(2) too (socket(7)); a TCP connection inherits it and has to lose it.
    listener.set_read_timeout(Some(JOIN_TIMEOUT)).map_err(EndError::io("bounding accept"))?;
    (0..setup.joined())
        .map(|_| {
            let (socket, _) =
                uninterrupted(|| listener.accept()).map_err(EndError::io("waiting for the source to connect"))?;
            socket.set_read_timeout(None).map_err(EndError::io("unbounding a read"))?;
            set_options(&socket, Moment::Accepted, Side::Sink, setup)?;
            Ok(socket.into())
        })
        .collect()
}

/// One connection of the side that connects, with its options.
///
/// # Errors
/// [`EndError::Missing`] if an option is refused, [`EndError::Io`] if the connection fails.
pub(crate) fn connected(to: &SockAddr, setup: &Setup, side: Side) -> Result<Socket, EndError> {
    let socket = open(setup.transport(), to)?;
    set_options(&socket, Moment::Own, side, setup)?;
    fit_socket(&socket, setup, setup.write_size().unwrap_or_default())?;
    let whom = to.as_socket().map_or_else(|| format!("a {} socket", setup.transport()), |ip| ip.to_string());
    if to.as_socket().is_some() {
        bind_to(&socket, setup.bound_to()).map_err(EndError::io("binding a connection to this host's address"))?;
    }
    connect_in_time(&socket, to, setup.is_external()).map_err(EndError::io(format!("connecting to {whom}")))?;
    Ok(socket)
}

/// Binds a socket that is about to connect to an address, and leaves the port to connect(2).
pub(crate) fn bind_to(socket: &Socket, address: Option<SocketAddr>) -> io::Result<()> {
    let Some(address) = address else { return Ok(()) };
    option::set(socket.as_fd(), &option::BIND_ADDRESS_NO_PORT.to(true)).map_err(|error| error.source)?;
    socket.bind(&address.into())
}

/// A socket of a transport for an address.
///
/// # Errors
/// [`EndError::Missing`] if this machine has none.
pub(crate) fn open(transport: &Transport, address: &SockAddr) -> Result<Socket, EndError> {
    socket(transport, address).map_err(|error| unopenable(transport, error))
}

/// The same with the kernel's error.
pub(crate) fn socket(transport: &Transport, address: &SockAddr) -> io::Result<Socket> {
    Socket::new(address.domain(), kind_of(transport), protocol(transport))
}

/// The fault of a socket that could not be opened, or listen: a machine without the transport skips its cells.
pub(crate) fn unopenable(transport: &Transport, error: io::Error) -> EndError {
    match lacking(transport, &error) {
        Some(reason) => EndError::Missing(reason),
        None => EndError::Io { doing: format!("opening a socket for {transport}"), source: error },
    }
}

/// An address as the kernel's type.
///
/// # Errors
/// [`EndError::Impossible`] if a connection cannot be made to it.
pub(crate) fn sock_addr(address: &Address) -> Result<SockAddr, EndError> {
    match address {
        Address::Ip(ip) => Ok(SockAddr::from(*ip)),
        Address::Abstract(name) => abstract_name(name),
        Address::Vsock { cid, port } => Ok(SockAddr::vsock(*cid, *port)),
        Address::Path(path) => SockAddr::unix(path).map_err(EndError::io("naming a Unix socket")),
        other => Err(EndError::Impossible(format!("a socket cannot connect to {other:?}"))),
    }
}

/// An address of this host whose port or name is still to be chosen.
///
/// # Errors
/// [`EndError::Impossible`] if the transport has no sockets.
pub(crate) fn unbound(transport: &Transport, host: &Host) -> Result<SockAddr, EndError> {
    match transport {
        Transport::Unix | Transport::UnixSeqpacket | Transport::UnixDatagram => unused_name(),
        Transport::Vsock => Ok(SockAddr::vsock(VSOCK_LOCAL, VSOCK_ANY_PORT)),
        Transport::Pipe | Transport::Source(_) => Err(EndError::Impossible(format!("{transport} has no sockets"))),
        _ => Ok(host.any_port(transport).into()),
    }
}

/// A unique name for a Unix socket.
///
/// # Errors
/// None in practice: the name is short.
pub(crate) fn unused_name() -> Result<SockAddr, EndError> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    abstract_name(&format!("bytegauge-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)))
}

/// An abstract name starts with a zero byte (unix(7)).
pub(super) fn abstract_name(name: &str) -> Result<SockAddr, EndError> {
    SockAddr::unix(format!("\0{name}")).map_err(EndError::io("naming a Unix socket"))
}

/// A bound address as sent to the other end.
///
/// # Errors
/// [`EndError::Impossible`] for a Unix socket without an abstract name.
pub(crate) fn announced(address: &SockAddr) -> Result<Address, EndError> {
    if let Some(ip) = address.as_socket() {
        return Ok(Address::Ip(ip));
    }
    if let Some((cid, port)) = address.as_vsock_address() {
        return Ok(Address::Vsock { cid, port });
    }
    let name = address.as_abstract_namespace().and_then(|name| std::str::from_utf8(name).ok());
    name.map(|name| Address::Abstract(name.into()))
        .ok_or_else(|| EndError::Impossible("a socket without a name".into()))
}

/// `VMADDR_CID_LOCAL` and `VMADDR_PORT_ANY` (linux/vm_sockets.h).
const VSOCK_LOCAL: u32 = 1;
const VSOCK_ANY_PORT: u32 = u32::MAX;

/// The kernel keeps this much of a send buffer for itself (`unix_dgram_sendmsg`, net/unix/af_unix.c), bytes.
const RESERVED: u64 = 32;

/// Whether a read takes a whole message of the other end: a shorter one loses the rest of it (recv(2), `MSG_TRUNC`).
///
/// # Errors
/// [`EndError::Missing`] with the lengths: such a cell is skipped, and others can be measured.
pub(crate) fn fit_read(setup: &Setup, what: &str, most: usize) -> Result<(), EndError> {
    let read = setup.read_size();
    if !setup.transport().keeps_bounds() || read >= most {
        return Ok(());
    }
    Err(EndError::Missing(format!(
        "over {} a read of {read} B loses the rest of a {what} of {most} B: use a --read-size of at least {most} B",
        setup.transport()
    )))
}

/// Whether a message fits the send buffer of a socket, whose options are set.
///
/// # Errors
/// As for [`fit_read`]; the kernel would refuse each send with `EMSGSIZE`.
pub(crate) fn fit_socket(socket: impl AsFd, setup: &Setup, message: usize) -> Result<(), EndError> {
    if !setup.transport().keeps_bounds() {
        return Ok(());
    }
    let Ok(Value::Number(buffer)) = option::read(socket.as_fd(), option::SEND_BUFFER) else { return Ok(()) };
    let most = buffer.saturating_sub(RESERVED);
    if message as u64 <= most {
        return Ok(());
    }
    Err(EndError::Missing(format!(
        "over {} a message of {message} B exceeds the {most} B that a socket with SO_SNDBUF of {buffer} B takes: use a smaller \
         one, or a larger --sndbuf",
        setup.transport()
    )))
}
