//! Where a server listens, or is found: an IP address and port, or the path of a Unix socket.

use std::fmt;
use std::fs;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::str::FromStr;

use socket2::{Domain, SockAddr, Socket, Type};
use thiserror::Error;

use crate::fault::Fault;

/// Connections that may wait to be accepted; the system clamps it at `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// What a path begins with.
const UNIX: &str = "unix:";

/// A place where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// TCP.
    Ip(SocketAddr),
    /// A Unix stream socket.
    Path(PathBuf),
}

/// Why a text names no place.
#[derive(Debug, Error)]
pub enum PlaceError {
    /// It has no port, or an impossible one, or no path.
    #[error("`{0}` is no place: use HOST:PORT such as 127.0.0.1:7000, or unix:/path")]
    Malformed(String),
    /// The name could not be resolved.
    #[error("`{name}` cannot be resolved ({source}): check the name, or give its IP address")]
    Unknown {
        /// What was to be resolved.
        name: String,
        /// What the resolver said.
        source: io::Error,
    },
}

/// A name is resolved here, once: its first address is taken. Without a host it is this one, over loopback.
impl FromStr for Place {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Place, PlaceError> {
        let malformed = || PlaceError::Malformed(text.into());
        if let Some(path) = text.strip_prefix(UNIX) {
            return if path.is_empty() { Err(malformed()) } else { Ok(Place::Path(path.into())) };
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(malformed)?;
        let port: u16 = port.parse().map_err(|_| malformed())?;
        let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        if literal.is_none() && host.contains(':') {
            // Where does the address end, and the port begin?
            return Err(malformed());
        }
        let host = if host.is_empty() { "127.0.0.1" } else { literal.unwrap_or(host) };
        let unknown = |source| PlaceError::Unknown { name: host.into(), source };
        let mut found = (host, port).to_socket_addrs().map_err(unknown)?;
        found.next().map(Place::Ip).ok_or_else(|| unknown(io::ErrorKind::NotFound.into()))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Ip(address) => write!(f, "{address}"),
            Place::Path(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

impl Place {
    /// Listens there; with port 0, the place that it became.
    pub(super) fn listen(&self) -> Result<(OwnedFd, Place), Fault> {
        let fault = |source| Fault::Io { doing: format!("listening on {self}"), source };
        let address = match self {
            Place::Ip(ip) => SockAddr::from(*ip),
            Place::Path(path) => SockAddr::unix(path).map_err(fault)?,
        };
        let socket = Socket::new(address.domain(), Type::STREAM, None).map_err(fault)?;
        if address.domain() != Domain::UNIX {
            // Connections of an earlier server may linger in TIME_WAIT; they are no reason to refuse the port.
            socket.set_reuse_address(true).map_err(fault)?;
        }
        socket.bind(&address).map_err(|error| self.unbindable(error))?;
        // Two may bind a port with that option as long as neither listens.
        socket.listen(BACKLOG).map_err(|error| self.unbindable(error))?;
        socket.set_nonblocking(true).map_err(fault)?;
        let bound = socket.local_addr().map_err(fault)?;
        Ok((socket.into(), bound.as_socket().map_or_else(|| self.clone(), Place::Ip)))
    }

    fn unbindable(&self, error: io::Error) -> Fault {
        let next = match (self, error.kind()) {
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
            _ => return Fault::Io { doing: format!("listening on {self}"), source: error },
        };
        Fault::Missing(format!("cannot listen on {self} ({error}): {next}"))
    }

    /// Removes what listening left behind.
    pub(super) fn clear(&self) {
        if let Place::Path(path) = self {
            // Whoever removed it before did what we were about to do.
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_parsed() {
        let check = |text: &str, expected: &str| {
            let got = text.parse::<Place>().map_or_else(|error| error.to_string(), |place| place.to_string());
            assert!(got.contains(expected), "{text}: {got}");
        };
        check("127.0.0.1:7000", "127.0.0.1:7000");
        check(":0", "127.0.0.1:0");
        check("[::1]:80", "[::1]:80");
        check("unix:/tmp/x", "unix:/tmp/x");
        for bad in ["", "7000", "localhost", "127.0.0.1:", "127.0.0.1:70000", "::1:80", "unix:", "a:b:c", "1.2.3.4:-1"]
        {
            check(bad, "is no place");
        }
        check("no-such-name.invalid:80", "cannot be resolved");
    }
}
