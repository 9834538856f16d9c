//! Transports: how two ends are joined. One file per kind, with a line in `listen` and in `connect`.
//!
//! A transport makes descriptors and sets options on them; it never moves a byte of the workload.

pub(crate) mod datagram;
mod files;
pub(crate) mod options;
pub(crate) mod sockets;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use bytegauge_model::{EndRole, Side, Transport};
use bytegauge_sys::socket::is_exhausted;
use bytegauge_sys::{errno, option, option::Value};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::EndError;
use crate::address::{Address, Host};
use crate::setup::Setup;
use crate::transport::options::Moment;

/// How long joining may take before it counts as failed.
pub(crate) const JOIN_TIMEOUT: Duration = Duration::from_secs(5);

/// The descriptor of each flow.
type Joined = Result<Vec<OwnedFd>, EndError>;

/// A sink that waits for its source.
pub(crate) struct Listening {
    /// The address for the source.
    pub(crate) address: Address,
    /// Accepts one connection per flow, in the order in which the source made them; fails if the source does not connect in time, or an
    /// option is refused. Holds what the source still needs afterwards.
    pub(crate) accept: Box<dyn FnMut(&Setup) -> Joined + Send>,
}

/// Prepares the sink's side. Without a source the sink is alone: it reads a device or a file, or moves nothing at all.
///
/// # Errors
/// [`EndError::Missing`] if the machine lacks the transport or an option.
pub(crate) fn listen(setup: &Setup) -> Result<Listening, EndError> {
    match setup.transport() {
        _ if !setup.has_two_ends() && !setup.is_external() => Ok(files::alone()),
        Transport::Pipe => files::listen(setup),
        transport if transport.is_datagram() => datagram::listen(setup),
        _ => sockets::listen(setup),
    }
}

/// Joins the source's side: one descriptor per flow.
///
/// # Errors
/// As for [`listen`], and if there is no listener.
pub(crate) fn connect(address: &Address, setup: &Setup) -> Joined {
    match setup.transport() {
        Transport::Source(_) => Err(EndError::Impossible(format!("there is no writer to {address:?}"))),
        Transport::Pipe => files::connect(address, setup),
        transport if transport.is_datagram() => datagram::connect(address, setup),
        _ => sockets::connect(address, setup),
    }
}

/// The protocol of a transport's sockets, where it is not that of their type.
pub(crate) fn protocol(transport: &Transport) -> Option<Protocol> {
    (*transport == Transport::Mptcp).then_some(Protocol::MPTCP)
}

/// The reason why this machine lacks a transport: its sockets, or its device or file; `None` where it has it.
pub fn missing(transport: &Transport) -> Option<String> {
    if let Transport::Source(path) = transport {
        return files::probe(path).err();
    }
    let address = sockets::unbound(transport, &Host::default()).ok()?;
    let bound = sockets::socket(transport, &address).and_then(|socket| socket.bind(&address));
    lacking(transport, &bound.err()?)
}

/// The reason why this machine has no sockets of a transport, by the error of opening or binding one; `None` for other errors.
pub(crate) fn lacking(transport: &Transport, error: &io::Error) -> Option<String> {
    let errno = error.raw_os_error()?;
    if errno == errno::EADDRINUSE || is_exhausted(error) {
        return None;
    }
    let has_none = matches!(errno, errno::EADDRNOTAVAIL | errno::EAFNOSUPPORT | errno::ESOCKTNOSUPPORT);
    let why = match (transport, errno) {
        // net/mptcp/protocol.c, `mptcp_init_sock`
        (Transport::Mptcp, errno::ENOPROTOOPT) => {
            "it is switched off here: sysctl -w net.mptcp.enabled=1, or".to_owned()
        }
        (Transport::Mptcp, errno) if errno != errno::EADDRNOTAVAIL => format!("this kernel has no MPTCP ({error}):"),
        // net/vmw_vsock/af_vsock.c, `vsock_find_cid`
        (Transport::Vsock, errno::EADDRNOTAVAIL) => {
            "the kernel has no loopback of vsock: modprobe vsock_loopback, or".to_owned()
        }
        (Transport::Vsock, _) => format!("this kernel has no vsock ({error}): modprobe vsock vsock_loopback, or"),
        (Transport::Tcp6 | Transport::Udp6, _) if has_none => format!("this machine has no IPv6 loopback ({error}):"),
        (Transport::Unix | Transport::UnixSeqpacket | Transport::UnixDatagram, _) if has_none => {
            format!("there are no such sockets here ({error}):")
        }
        _ => return None,
    };
    Some(format!("{transport}: {why} leave out --transport {transport}"))
}

/// The type of a transport's sockets.
pub(crate) fn kind_of(transport: &Transport) -> Type {
    match transport {
        Transport::UnixSeqpacket => Type::SEQPACKET,
        other if other.is_datagram() => Type::DGRAM,
        _ => Type::STREAM,
    }
}

/// Begins to connect without waiting; the kernel's error, `EINPROGRESS` excepted.
pub(crate) fn begin_connecting(socket: Socket, address: &SockAddr) -> io::Result<OwnedFd> {
    socket.set_nonblocking(true)?;
    match socket.connect(address) {
        Err(error) if error.raw_os_error() != Some(errno::EINPROGRESS) => Err(error),
        _ => Ok(socket.into()),
    }
}

/// Connects, within a time limit: an external server may never answer, or leave its backlog full.
pub(crate) fn connect_in_time(socket: &Socket, address: &SockAddr, external: bool) -> io::Result<()> {
    let patience = if external { EXTERNAL_TIMEOUT } else { JOIN_TIMEOUT };
    let connected = if address.is_unix() {
        // Such a socket begins nothing before there is room for it: connect(2) waits, at most for SO_SNDTIMEO (socket(7)).
        socket.set_write_timeout(Some(patience))?;
        uninterrupted(|| socket.connect(address)).and_then(|()| socket.set_write_timeout(None))
    } else {
        socket.connect_timeout(address, patience)
    };
    connected.map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            io::Error::new(io::ErrorKind::TimedOut, "there is no answer: the server is stalled, or its backlog is full")
        }
        _ => error,
    })
}

/// How long an external server may take to accept a connection: a lost SYN is sent again after a second
/// (RFC 6298).
const EXTERNAL_TIMEOUT: Duration = Duration::from_secs(2);

/// Repeats a blocking call that was interrupted.
///
/// A call on a socket with a time limit returns `EINTR` where it would continue otherwise (signal(7)). Not only
/// handlers interrupt: a debugger does, a frozen control group, and work that a closed io_uring leaves to its thread.
/// Every repetition starts the limit again, so their number is bounded.
pub(crate) fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    const REPEATS: u32 = 100;
    for _ in 0..REPEATS {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
    call()
}

/// Sets the options of one side of a stream.
fn set_options(fd: impl AsFd, moment: Moment, side: Side, setup: &Setup) -> Result<(), EndError> {
    let role = if side == Side::Source { EndRole::Source } else { EndRole::Sink };
    options::set_all(fd, &options::wanted(&setup.spec, (role, moment), setup.transport()))
}

/// Memory that the kernel may fill with queued data of one end of a flow, if it was requested or exceeds the
/// default of sockets, bytes: as reported by a socket that is made here.
pub fn socket_buffers(setup: &Setup, role: EndRole) -> u64 {
    let is_asked = setup.spec.sndbuf().or(setup.spec.rcvbuf()).is_some();
    if !is_asked && !setup.transport().is_udp() {
        return 0;
    }
    // An end that is refused an option has no flows either.
    let Ok(socket) = prepared(setup, role.side()) else { return 0 };
    let given = |known| match option::read(socket.as_fd(), known) {
        Ok(Value::Number(bytes)) => bytes,
        _ => 0,
    };
    given(option::SEND_BUFFER) + given(option::RECEIVE_BUFFER)
}

/// A network socket with the options of one end of a flow, not connected.
pub fn prepared(setup: &Setup, side: Side) -> Result<Socket, EndError> {
    let address = Host::default().any_port(setup.transport());
    let kind = if setup.transport().is_udp() { Type::DGRAM } else { Type::STREAM };
    let socket = Socket::new(Domain::for_address(address), kind, protocol(setup.transport()))
        .map_err(EndError::io("opening a socket"))?;
    datagram::prepare(&socket, side, setup)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    /// How often a call is made that is interrupted `interruptions` times before it succeeds.
    fn calls(interruptions: u32) -> (u32, bool) {
        let mut made = 0;
        let outcome = uninterrupted(|| {
            made += 1;
            if made <= interruptions { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
        });
        (made, outcome.is_ok())
    }

    #[test]
    fn an_absent_module_is_named() {
        let reason = |errno| lacking(&Transport::Vsock, &io::Error::from_raw_os_error(errno)).unwrap();
        assert!(reason(errno::EADDRNOTAVAIL).contains("modprobe vsock_loopback, or leave out"));
        assert!(reason(errno::EAFNOSUPPORT).contains("this kernel has no vsock"));
        let spec = bytegauge_model::Spec::from([("transport", "vsock".into())]);
        assert_eq!(missing(&Transport::Vsock).is_none(), sockets::listen(&Setup::unchecked(spec)).is_ok());
    }

    #[test]
    fn an_interrupted_call_is_repeated_but_not_forever() {
        assert_eq!(calls(0), (1, true));
        assert_eq!(calls(7), (8, true));
        assert_eq!(calls(u32::MAX), (101, false));
        let refused = uninterrupted(|| Err::<(), _>(io::ErrorKind::ConnectionRefused.into()));
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn a_connection_attempt_has_an_end() {
        let new = || Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let listener = new();
        listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        listener.listen(0).unwrap();
        let at = listener.local_addr().unwrap();
        let first = new();
        connect_in_time(&first, &at, true).unwrap();
        // More than the backlog has room for.
        let others = [new(), new(), new()];
        others.iter().for_each(|other| {
            other.set_nonblocking(true).unwrap();
            let _ = other.connect(&at);
        });
        let late = connect_in_time(&new(), &at, true).unwrap_err();
        assert!(late.kind() == io::ErrorKind::TimedOut && late.to_string().contains("backlog is full"), "{late}");
        drop((listener, first, others));
        assert_eq!(connect_in_time(&new(), &at, true).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }
}
