//! Where a server listens, or is found: an address and port, a name and port, the path of a Unix socket, or an iperf3 server.
//!
//! Never resolves a name: that uses the network, and is done once, before a session begins.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use crate::end::Side;
use crate::name_tables::{Transport, names};
use crate::unit::TextError;

/// Prefix of a path.
const UNIX: &str = "unix:";

/// The start of an iperf3 server's place.
const IPERF3: &str = "iperf3://";

/// The port at which an iperf3 server listens unless its user chose another (iperf3(1)).
const IPERF3_PORT: u16 = 5201;

/// The expected form of a place.
const EXPECTED: &str =
    "a place: use HOST:PORT such as 127.0.0.1:7000, unix:/path, or iperf3://HOST for an iperf3 server";

/// A place where a server listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// TCP, or UDP.
    Ip(SocketAddr),
    /// TCP or UDP, at an address that is still to be looked up.
    Named {
        /// The host's name.
        host: String,
        /// The port.
        port: u16,
    },
    /// A Unix socket.
    Path(PathBuf),
    /// An iperf3 server at one of the first two: a test with it begins with iperf3's control protocol.
    Iperf3(Box<Place>),
}

impl Place {
    /// The transport that reaches it by connections; that of a name is known when it is looked up.
    pub fn transport(&self) -> Option<Transport> {
        match self {
            Place::Ip(address) if address.is_ipv6() => Some(Transport::Tcp6),
            Place::Ip(_) => Some(Transport::Tcp),
            Place::Named { .. } => None,
            Place::Path(_) => Some(Transport::Unix),
            Place::Iperf3(at) => at.transport(),
        }
    }

    /// The transport that reaches it by datagrams; that of a name is known when it is looked up.
    pub fn datagram_transport(&self) -> Option<Transport> {
        Some(match self.transport()? {
            Transport::Tcp => Transport::Udp,
            Transport::Tcp6 => Transport::Udp6,
            _ => Transport::UnixDatagram,
        })
    }

    /// Whether an iperf3 server listens there.
    pub fn is_iperf3(&self) -> bool {
        matches!(self, Place::Iperf3(_))
    }

    /// The place of an iperf3 server: HOST or HOST:PORT.
    fn of_iperf3(text: &str) -> Option<Place> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Some(Place::Ip(SocketAddr::new(address, IPERF3_PORT)));
        }
        let place = text.parse().or_else(|_| format!("{text}:{IPERF3_PORT}").parse()).ok()?;
        let is_host = match &place {
            Place::Ip(_) => !text.is_empty() && !text.starts_with(':'),
            Place::Named { host, .. } => !host.is_empty(),
            Place::Path(_) | Place::Iperf3(_) => false,
        };
        is_host.then_some(place)
    }
}

/// Without a host it is this one, over loopback.
impl FromStr for Place {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Place, TextError> {
        let malformed = || TextError::malformed(text, EXPECTED);
        if let Some(host) = text.strip_prefix(IPERF3) {
            return Place::of_iperf3(host).map(|at| Place::Iperf3(Box::new(at))).ok_or_else(malformed);
        }
        if let Some(path) = text.strip_prefix(UNIX) {
            return if path.is_empty() { Err(malformed()) } else { Ok(Place::Path(path.into())) };
        }
        if let Ok(address) = text.parse() {
            return Ok(Place::Ip(address));
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(malformed)?;
        let port = port.parse().map_err(|_| malformed())?;
        match host {
            "" => Ok(Place::Ip(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port))),
            // Where would the address end, and the port begin?
            host if host.contains(|c: char| c == ':' || c == '/' || c.is_whitespace()) => Err(malformed()),
            host => Ok(Place::Named { host: host.into(), port }),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Ip(address) => write!(f, "{address}"),
            Place::Named { host, port } => write!(f, "{host}:{port}"),
            Place::Path(path) => write!(f, "{UNIX}{}", path.display()),
            Place::Iperf3(at) => write!(f, "{IPERF3}{at}"),
        }
    }
}

// The far host: which of the ends of a path is there.
//
// Bytes of a stream go, and calls are made, in a direction; the end at its far end, or at its beginning, is the agent's.

names! {
    /// Which way a stream goes, or calls are made, between this host and the far one.
    #[derive(Default)]
    Direction, "direction", DIRECTIONS {
        #[default]
        To = "to": "this host writes, or calls, and the far one reads, or serves",
        From = "from": "the far host writes, or calls, and this one reads, or serves: it must be reachable from there",
        Both = "both": "of a stream: both hosts write and read at once, over TCP over the same connections, and the rate is the sum (also on one host, without --host)",
    }
}

impl Direction {
    /// The side of the path that is at the far host: both ways are over connections that are made from here.
    pub fn far_side(self) -> Side {
        match self {
            Direction::To | Direction::Both => Side::Sink,
            Direction::From => Side::Source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_parsed() {
        let check = |text: &str, expected: &str, transport: Option<Transport>| {
            let place: Place = text.parse().unwrap();
            assert_eq!((place.to_string().as_str(), place.transport()), (expected, transport));
        };
        check("127.0.0.1:7000", "127.0.0.1:7000", Some(Transport::Tcp));
        check(":0", "127.0.0.1:0", Some(Transport::Tcp));
        check("[::1]:80", "[::1]:80", Some(Transport::Tcp6));
        check("localhost:80", "localhost:80", None);
        check("unix:/tmp/x", "unix:/tmp/x", Some(Transport::Unix));
        check("iperf3://10.0.0.1", "iperf3://10.0.0.1:5201", Some(Transport::Tcp));
        check("iperf3://10.0.0.1:80", "iperf3://10.0.0.1:80", Some(Transport::Tcp));
        check("iperf3://::1", "iperf3://[::1]:5201", Some(Transport::Tcp6));
        check("iperf3://[::1]", "iperf3://[::1]:5201", Some(Transport::Tcp6));
        check("iperf3://far.example", "iperf3://far.example:5201", None);
        check("iperf3://far.example:80", "iperf3://far.example:80", None);
        let by_datagrams = |text: &str| text.parse::<Place>().unwrap().datagram_transport();
        let found = ["127.0.0.1:7", "[::1]:7", "localhost:7", "unix:/x"].map(by_datagrams);
        assert_eq!(found, [Some(Transport::Udp), Some(Transport::Udp6), None, Some(Transport::UnixDatagram)]);
    }

    #[test]
    fn what_names_no_place_is_refused() {
        let bad = ["", "7000", "localhost", "127.0.0.1:", "127.0.0.1:70000", "::1:80", "unix:", "a:b:c", "1.2.3.4:-1"];
        let bad_iperf3 = ["iperf3://", "iperf3://:5201", "iperf3://a:b:c", "iperf3://unix:/x", "iperf3://iperf3://a"];
        for bad in bad.into_iter().chain(bad_iperf3) {
            let error = bad.parse::<Place>().unwrap_err().to_string();
            assert!(error.contains("is not a place: use HOST:PORT"), "{bad}: {error}");
        }
    }
}

#[cfg(test)]
mod far_tests {
    use super::*;

    #[test]
    fn directions_have_names_that_lead_back() {
        for row in DIRECTIONS {
            assert_eq!(row.name.parse::<Direction>().unwrap(), row.value);
            assert_eq!(row.value.to_string(), row.name);
        }
        assert!("back".parse::<Direction>().is_err());
        assert_eq!((Direction::To.far_side(), Direction::From.far_side()), (Side::Sink, Side::Source));
    }
}
