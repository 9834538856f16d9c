//! The echo of datagrams: each is returned to its sender, by one receive and one send.

use std::net::UdpSocket;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytegauge_model::Place;
use bytegauge_sys::socket::{self, During};
use bytegauge_traffic::EndError;
use bytegauge_traffic::address::{sock_addr, unbindable};
use bytegauge_traffic::end::thread_group::Flags;
use socket2::{Socket, Type};

use crate::Served;

/// Interval between checks of the flags while no datagram arrives.
const LOOK_AFTER: Duration = Duration::from_millis(50);

/// No datagram over IP is longer.
const LONGEST: usize = 64 << 10;

/// A socket at a place, with the place that it got.
pub(super) fn bind(place: &Place) -> Result<(UdpSocket, Place), EndError> {
    let fault = |source| EndError::Io { doing: format!("listening on {place}"), source };
    let address = sock_addr(place).map_err(fault)?;
    let socket = Socket::new(address.domain(), Type::DGRAM, None).map_err(fault)?;
    socket.bind(&address).map_err(|error| unbindable(place, error))?;
    socket.set_read_timeout(Some(LOOK_AFTER)).map_err(fault)?;
    let socket = UdpSocket::from(socket);
    let place = Place::Ip(socket.local_addr().map_err(fault)?);
    Ok((socket, place))
}

/// Echoes until it is stopped.
pub(super) fn echo(socket: &UdpSocket, flags: &Flags) -> Result<Served, EndError> {
    let mut served = Served::default();
    let mut buffer = vec![0; LONGEST];
    while !flags.stop_requested.load(Ordering::Relaxed) && !flags.abort.load(Ordering::Relaxed) {
        let (length, from) = match socket.recv_from(&mut buffer) {
            Ok(received) => received,
            Err(error) if socket::is_transient(&error, During::Unconnected) => continue,
            Err(source) => return Err(EndError::Io { doing: "receiving a datagram".into(), source }),
        };
        served.datagrams += 1;
        served.received_bytes += length as u64;
        // A client that cannot be reached does not affect the others.
        match socket.send_to(&buffer[..length], from) {
            Ok(sent) => served.sent_bytes += sent as u64,
            Err(_) => served.broken += 1,
        }
    }
    Ok(served)
}
