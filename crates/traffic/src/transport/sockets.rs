//! Connections of streams and calls: TCP and MPTCP, Unix sockets (with message boundaries too), and vsock.
//!
//! `SO_RCVBUF` is set on the listener, before the handshake: the window scale is chosen there and stays for life (tcp(7)); set later, a
//! small value does not bind. Unix sockets have abstract names, so that no file is left behind and two processes can meet. vsock(7) goes
//! over the loopback of this machine, which needs the module `vsock_loopback`. With message boundaries (`SOCK_SEQPACKET`, unix(7)) each
//! message has to fit the sender's buffer and the reader's memory.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytegauge_model::{Side, Transport};
use bytegauge_sys::option::{self, Value};
use bytegauge_sys::socket::{self, During};
use socket2::{SockAddr, Socket};

use crate::EndError;
use crate::address::{Address, Host};
use crate::agent_callers::{self, pass_on_rest, pass_on_unread};
use crate::path::{Admission, FarPath, SHOWN};
use crate::setup::Setup;
use crate::tls::{self, TlsRole};
use crate::transport::options::Moment;
use crate::transport::{
    JOIN_TIMEOUT, Listening, connect_in_time, kind_of, lacking, protocol, set_options, uninterrupted,
};

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

// Accepts the connections of a sink whose source is on another host. A connection becomes a flow when it comes from that host and
// shows the trial's ticket, in any order. Others wait, few of them, and are closed or passed on at the end.
//
// Never blocks on one connection, so that a silent one delays no other. Never waits longer than its time limit, however many
// connections arrive meanwhile.

/// Connections beyond the flows that may wait; the one that has waited longest goes first.
const UNADMITTED_MAX: usize = 64;

/// How often waiting connections are read: nothing is measured yet.
const CHECK_INTERVAL: Duration = Duration::from_micros(500);

/// Accepts one connection per flow, each with the ticket of the path and from the other host.
fn admit_within(patience: Duration, listener: &Socket, setup: &Setup, far: &FarPath) -> Result<Vec<OwnedFd>, EndError> {
    // Behind a relay on a third host the first flow shows the address from which that host connects.
    let admission = Admission::new(far.ticket, far.comes_from());
    listener.set_nonblocking(true).map_err(EndError::io("making a listener not block"))?;
    let deadline = Instant::now() + patience;
    let mut waiting: VecDeque<(Socket, Option<IpAddr>)> = VecDeque::new();
    let mut flows: Vec<Option<Socket>> = (0..setup.joined()).map(|_| None).collect();
    // The last address from which a connection showed the ticket that is not the other host's.
    let mut elsewhere = None;
    while flows.iter().any(Option::is_none) {
        let mut news = false;
        match listener.accept() {
            Ok((socket, peer)) => {
                news = true;
                waiting.push_back((socket, peer.as_socket().map(|peer| peer.ip().to_canonical())));
                if waiting.len() > setup.joined() + UNADMITTED_MAX {
                    waiting.pop_front().into_iter().for_each(|(oldest, _)| go_elsewhere(&oldest, setup));
                }
            }
            Err(error) if socket::is_transient(&error, During::Accept) => {}
            Err(error) => return Err(EndError::io("waiting for the source to connect")(error)),
        }
        for (socket, peer) in std::mem::take(&mut waiting) {
            let mut shown = [0; SHOWN];
            match socket::peek(socket.as_fd(), &mut shown) {
                Ok(0) => {}
                Ok(SHOWN) if far.ticket.admits(&shown).is_none() => go_elsewhere(&socket, setup),
                Ok(SHOWN) => {
                    let Some(flow) = admission.admits(peer, &shown) else {
                        elsewhere = peer;
                        continue;
                    };
                    news = true;
                    // The first connection with a flow's number is the flow. Its ticket is taken, which does not block.
                    if let Some(place) = flows.get_mut(flow).filter(|place| place.is_none()) {
                        (&socket).read_exact(&mut shown).map_err(EndError::io("reading a ticket"))?;
                        *place = Some(socket);
                    }
                }
                Err(error) if !socket::is_transient(&error, During::Accept) => {}
                Ok(_) | Err(_) => waiting.push_back((socket, peer)),
            }
        }
        // Connections without a ticket do not delay the trial.
        if Instant::now() >= deadline {
            return Err(late(admission.host().zip(elsewhere)));
        }
        if !news {
            std::thread::sleep(CHECK_INTERVAL);
        }
    }
    if setup.shares_port() {
        waiting.iter().for_each(|(other, _)| go_elsewhere(other, setup));
        pass_on_rest(listener.as_fd());
    }
    let ready = |socket: Socket| {
        set_options(&socket, Moment::Accepted, Side::Sink, setup)?;
        Ok(socket.into())
    };
    flows.into_iter().flatten().map(ready).collect()
}

fn late(elsewhere: Option<(IpAddr, IpAddr)>) -> EndError {
    let from = elsewhere.map_or_else(String::new, |(other, from)| {
        format!("; one came from {from} instead of {other}: use the address from which that host connects")
    });
    let why = format!("its data connections did not arrive in time{from}");
    EndError::late("waiting for the other host to connect", why)
}

/// A connection without a ticket may be a caller of the agent. All its bytes are unread.
fn go_elsewhere(socket: &Socket, setup: &Setup) {
    if setup.shares_port() {
        let mut unread = [0; SHOWN];
        let have = socket::peek(socket.as_fd(), &mut unread).unwrap_or(0);
        pass_on_unread(socket, &unread[..have]);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::sync::atomic::AtomicBool;

    use bytegauge_model::Spec;
    use socket2::{Domain, Type};

    use super::*;
    use crate::path::Ticket;

    fn path(flows: u64) -> Setup {
        let levels = Spec::from([("transport", "tcp".into()), ("flows", flows.into())]);
        Setup::unchecked(levels)
    }

    fn far(ticket: Ticket) -> FarPath {
        FarPath::to(([127, 0, 0, 1], 1).into(), Side::Sink, ticket)
    }

    fn connected_from(host: [u8; 4], at: SocketAddr) -> TcpStream {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((host, 0)).into()).unwrap();
        socket.connect(&at.into()).unwrap();
        socket.into()
    }

    #[test]
    fn overheard_ticket_takes_no_place_from_another_address() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let ticket = Ticket::fresh().unwrap();
        // They are accepted first.
        let mut thieves: Vec<_> = (0..2).map(|_| connected_from([127, 0, 0, 2], at)).collect();
        for (flow, thief) in thieves.iter_mut().enumerate() {
            thief.write_all(&ticket.shown_by(flow)).unwrap();
        }
        let mut flows: Vec<_> = (0..2).map(|_| connected_from([127, 0, 0, 1], at)).collect();
        for (flow, socket) in flows.iter_mut().enumerate() {
            socket.write_all(&ticket.shown_by(flow)).unwrap();
        }
        let admitted = admit_within(JOIN_TIMEOUT, &listener.into(), &path(2), &far(ticket)).unwrap();
        for (admitted, flow) in admitted.iter().zip(&flows) {
            let peer = socket2::SockRef::from(admitted).peer_addr().unwrap().as_socket();
            assert_eq!(peer, Some(flow.local_addr().unwrap()));
        }
    }

    #[test]
    fn connections_without_ticket_do_not_delay() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let ticket = Ticket::fresh().unwrap();
        let mut thief = connected_from([127, 0, 0, 2], at);
        thief.write_all(&ticket.shown_by(0)).unwrap();
        let is_over = AtomicBool::new(false);
        let fault = std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        let _ = TcpStream::connect(at);
                    }
                });
            }
            let admitted = admit_within(Duration::from_millis(300), &listener.into(), &path(1), &far(ticket));
            is_over.store(true, Ordering::Relaxed);
            admitted.unwrap_err()
        });
        let reason = fault.to_string();
        assert!(reason.contains("127.0.0.2 instead of 127.0.0.1"), "{reason}");
    }

    #[test]
    fn flows_arrive_in_any_order() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let ticket = Ticket::fresh().unwrap();
        let door =
            std::thread::spawn(move || admit_within(JOIN_TIMEOUT, &listener.into(), &path(3), &far(ticket)).unwrap());
        // Silent ones, more than may wait; one with half a ticket; one with another ticket; one that closes.
        let silent: Vec<_> = (0..UNADMITTED_MAX + 20).map(|_| TcpStream::connect(at).unwrap()).collect();
        let mut half = TcpStream::connect(at).unwrap();
        half.write_all(&ticket.shown_by(0)[..SHOWN - 1]).unwrap();
        let mut other = TcpStream::connect(at).unwrap();
        other.write_all(&Ticket::fresh().unwrap().shown_by(0)).unwrap();
        TcpStream::connect(at).unwrap().shutdown(Shutdown::Both).unwrap();
        let show = |flow: usize, then: &[u8]| {
            let mut socket = TcpStream::connect(at).unwrap();
            // In one write: a refused connection may be closed before it sends more.
            socket.write_all(&[&ticket.shown_by(flow)[..], then].concat()).unwrap();
            socket
        };
        let _flows = [show(2, b"c"), show(0, b"a"), show(0, b"x"), show(9, b"x"), show(1, b"b")];
        let admitted = door.join().unwrap();
        let first = |fd: &OwnedFd| {
            let mut byte = [0];
            assert_eq!(bytegauge_sys::io::read(fd.as_fd(), &mut byte).unwrap(), 1);
            byte[0]
        };
        assert_eq!(admitted.iter().map(first).collect::<Vec<_>>(), b"abc");
        // A refused connection has only received the end.
        drop(silent);
        let mut answer = Vec::new();
        let _reset = other.read_to_end(&mut answer);
        assert!(answer.is_empty());
    }
}
