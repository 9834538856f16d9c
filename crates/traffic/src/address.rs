//! Addresses of ends.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::path::PathBuf;

use bytegauge_model::{Place, Transport};
use serde::{Deserialize, Serialize};
use socket2::SockRef;

use crate::end_error::EndError;

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
