//! Data connections to an iperf3 server: over TCP each begins with the cookie, a UDP socket greets the server first.

use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::Duration;

use bytegauge_model::Side;

use super::client::is_udp_answer;
use super::message::{Cookie, UDP_GREETING};
use crate::end_error::EndError;
use crate::setup::Setup;
use crate::transport::datagram::turn;
use crate::transport::{connected, uninterrupted};

/// How long a server may take to answer the greeting of a UDP socket before it is sent again.
const ANSWER: Duration = Duration::from_secs(1);

/// Greetings at most: one may be lost.
const GREETINGS: u32 = 3;

/// Opens the next data connection of a test. The server expects them one after another.
///
/// # Errors
/// [`EndError::Missing`] if the server does not answer a UDP socket, [`EndError::Io`] if the connection fails.
pub(super) fn connection(server: &SocketAddr, cookie: &Cookie, setup: &Setup, side: Side) -> Result<OwnedFd, EndError> {
    if setup.transport().is_udp() {
        return udp(server, setup, side);
    }
    let mut socket = connected(server, setup, side)?;
    socket.write_all(cookie.bytes()).map_err(EndError::io(format!("beginning a data connection to {server}")))?;
    Ok(socket.into())
}

fn udp(server: &SocketAddr, setup: &Setup, side: Side) -> Result<OwnedFd, EndError> {
    let doing = |what: &str| EndError::io(format!("{what} a UDP socket for {server}"));
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).map_err(doing("binding"))?;
    turn(&socket, side, setup)?;
    socket.connect(server).map_err(doing("connecting"))?;
    socket.set_read_timeout(Some(ANSWER)).map_err(doing("preparing"))?;
    for _ in 0..GREETINGS {
        socket.send(&UDP_GREETING).map_err(doing("greeting with"))?;
        let mut answer = [0; 16];
        if let Ok(length) = uninterrupted(|| socket.recv(&mut answer))
            && is_udp_answer(&answer[..length])
        {
            socket.set_read_timeout(None).map_err(doing("preparing"))?;
            return Ok(socket.into());
        }
    }
    let port = server.port();
    Err(EndError::Missing(format!(
        "the iperf3 server at {server} does not answer over UDP: check that a firewall lets UDP port {port} through"
    )))
}
