//! Addresses of ends.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::{fs, io};

use bytegauge_model::{Place, Transport};
use serde::{Deserialize, Serialize};
use socket2::{Domain, SockAddr, SockRef, Socket, Type};

use crate::transport::connect_in_time;
use crate::{EndError, iperf3};

/// The address of a sink.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Address {
    /// An abstract Unix socket name.
    Abstract(String),
    /// An IP address and port.
    Ip(SocketAddr),
    /// The path of a Unix socket.
    Path(PathBuf),
    /// The address of a machine and the port of a vsock(7) socket.
    Vsock {
        /// The context identifier of the machine.
        cid: u32,
        /// The port.
        port: u32,
    },
    /// IP addresses and ports of datagram sockets, one per flow.
    Ports(Vec<SocketAddr>),
    /// Named pipes, one per flow.
    Fifos(Vec<PathBuf>),
    /// An iperf3 server: a test begins with a control connection to it.
    Iperf3(SocketAddr),
    /// There is no writer: the sink reads a device, a file, or nothing at all.
    Alone,
}

impl Address {
    /// The address of a place, for a client.
    ///
    /// # Errors
    /// [`EndError::Impossible`] for a name that was never looked up: past planning, that is a bug.
    pub fn of(place: &Place) -> Result<Address, EndError> {
        match place {
            Place::Ip(address) => Ok(Address::Ip(*address)),
            Place::Path(path) => Ok(Address::Path(path.clone())),
            Place::Iperf3(at) => match **at {
                Place::Ip(address) => Ok(Address::Iperf3(address)),
                _ => Err(EndError::Impossible(format!("{place} was never looked up"))),
            },
            Place::Named { .. } => Err(EndError::Impossible(format!("{place} was never looked up"))),
        }
    }
}

/// Addresses of the host that an end is on, by which others reach it: loopback, as long as all ends are on one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Over IPv4.
    pub v4: Ipv4Addr,
    /// Over IPv6.
    pub v6: Ipv6Addr,
    /// The port where ends of this host listen; 0: any that is free.
    #[serde(default)]
    pub port: u16,
}

impl Default for Host {
    fn default() -> Host {
        Host { v4: Ipv4Addr::LOCALHOST, v6: Ipv6Addr::LOCALHOST, port: 0 }
    }
}

impl Host {
    /// A host that is reached by one address.
    pub fn at(address: IpAddr) -> Host {
        match address {
            IpAddr::V4(v4) => Host { v4, ..Host::default() },
            IpAddr::V6(v6) => Host { v6, ..Host::default() },
        }
    }

    /// Where an end listens that others reach at exactly this address.
    pub fn listening_at(address: SocketAddr) -> Host {
        Host { port: address.port(), ..Host::at(address.ip()) }
    }

    /// The port where its ends listen, or any, in the address family of a transport.
    pub fn any_port(&self, transport: &Transport) -> SocketAddr {
        match transport {
            Transport::Tcp6 | Transport::Udp6 => (self.v6, self.port).into(),
            _ => (self.v4, self.port).into(),
        }
    }
}

/// The IP address of a connection's other side.
pub(crate) fn peer_of(connection: impl AsFd) -> Option<IpAddr> {
    Some(SockRef::from(&connection).peer_addr().ok()?.as_socket()?.ip().to_canonical())
}

// Addresses of separate servers: looking them up, listening there, and checking that there is a listener.

/// Connections that may wait to be accepted; the system clamps it at `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Looks up where a server is, as [`resolved`]; a server that listens may leave its port to the system, but no client connects
/// to port 0.
///
/// # Errors
/// [`EndError::Missing`] if the name does not exist, or the port is 0.
pub fn resolved_server(place: &Place) -> Result<Place, EndError> {
    match resolved(place)? {
        Place::Ip(at) if at.port() == 0 => {
            Err(EndError::Missing(format!("{place} is no server's address: give a port from 1 to 65535")))
        }
        found => Ok(found),
    }
}

/// Looks a name up: the first of its addresses. A place without a name stays as it is.
///
/// # Errors
/// [`EndError::Missing`] if the name does not exist.
pub fn resolved(place: &Place) -> Result<Place, EndError> {
    if let Place::Iperf3(at) = place {
        return Ok(Place::Iperf3(Box::new(resolved(at)?)));
    }
    let Place::Named { host, port } = place else { return Ok(place.clone()) };
    let found = (host.as_str(), *port).to_socket_addrs().map(|mut found| found.next());
    let unknown = |why: String| EndError::Missing(format!("{host} cannot be resolved ({why}): give its IP address"));
    match found {
        Ok(Some(address)) => Ok(Place::Ip(address)),
        Ok(None) => Err(unknown("it has no address".into())),
        Err(error) => Err(unknown(error.to_string())),
    }
}

/// Connects once, and closes, to check that there is a listener. A UDP server cannot be checked before it
/// answers.
///
/// # Errors
/// [`EndError::Missing`] with the place if there is no listener, or no answer within a few seconds.
pub fn reach(place: &Place, transport: &Transport) -> Result<(), EndError> {
    if let Address::Iperf3(server) = Address::of(place)? {
        return iperf3::reach(server);
    }
    if transport.is_udp() {
        return Ok(());
    }
    let connect = || {
        let address = sock_addr(place)?;
        let kind = if transport.is_datagram() { Type::DGRAM } else { Type::STREAM };
        let socket = Socket::new(address.domain(), kind, None)?;
        connect_in_time(&socket, &address, true)
    };
    connect().map_err(|error| {
        EndError::Missing(format!("cannot connect to {place} ({error}): start the server, or check its address"))
    })
}

/// Listens at a place that was looked up; with port 0, the place that it became.
pub fn listen(place: &Place) -> Result<(OwnedFd, Place), EndError> {
    listen_when(place, |_| {})
}

/// The same, with a function that gets the socket once it is bound.
pub fn listen_when(place: &Place, bound: impl FnOnce(&Socket)) -> Result<(OwnedFd, Place), EndError> {
    let fault = |source| EndError::Io { doing: format!("listening on {place}"), source };
    let address = sock_addr(place).map_err(fault)?;
    let socket = Socket::new(address.domain(), Type::STREAM, None).map_err(fault)?;
    if address.domain() != Domain::UNIX {
        // Connections of an earlier server may linger in TIME_WAIT; they are no reason to refuse the port.
        socket.set_reuse_address(true).map_err(fault)?;
    }
    socket.bind(&address).map_err(|error| unbindable(place, error))?;
    bound(&socket);
    // Two may bind a port with that option as long as neither listens.
    socket.listen(BACKLOG).map_err(|error| unbindable(place, error))?;
    socket.set_nonblocking(true).map_err(fault)?;
    let bound = socket.local_addr().map_err(fault)?;
    Ok((socket.into(), bound.as_socket().map_or_else(|| place.clone(), Place::Ip)))
}

/// Removes the file of a listener.
pub fn clear(place: &Place) {
    if let Place::Path(path) = place {
        // If the file is already removed, nothing is left to do.
        let _ = fs::remove_file(path);
    }
}

/// The address of a place, for a socket.
///
/// # Errors
/// If the place has no address, as a name that was never looked up.
pub fn sock_addr(place: &Place) -> io::Result<SockAddr> {
    match place {
        Place::Ip(address) => Ok(SockAddr::from(*address)),
        Place::Path(path) => SockAddr::unix(path),
        Place::Named { .. } | Place::Iperf3(_) => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// The error of a place at which a server cannot listen, with the next step.
pub fn unbindable(place: &Place, error: io::Error) -> EndError {
    let next = match (place, error.kind()) {
        (Place::Ip(ip), io::ErrorKind::AddrInUse) => {
            format!("port {} is taken: use another one, or 0 for any that is free", ip.port())
        }
        (Place::Path(path), io::ErrorKind::AddrInUse) => {
            format!("{} exists: remove it if no server uses it, or use another path", path.display())
        }
        (Place::Ip(ip), io::ErrorKind::AddrNotAvailable) => {
            format!("{} is no address of this machine: use one of `ip address`, or 127.0.0.1", ip.ip())
        }
        (Place::Ip(ip), io::ErrorKind::PermissionDenied) => {
            format!("port {} is for privileged users: use one of 1024 to 65535", ip.port())
        }
        (Place::Path(path), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
            format!("{} cannot be made: use a path in a folder that you may write to", path.display())
        }
        _ => return EndError::Io { doing: format!("listening on {place}"), source: error },
    };
    EndError::Missing(format!("cannot listen on {place} ({error}): {next}"))
}
