//! The data connections of a test, before data flows.

use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::PoisonError;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use bytegauge_sys::option::{self, Value};
use socket2::{Domain, Socket, Type};

use super::flow::DataSocket;
use super::{Iperf3Shared, is_passing};
use bytegauge_traffic::iperf3::message::{TestParameters, UDP_ANSWER, UDP_GREETING};

/// How long a client may take to open all its data connections.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often the control connection is checked meanwhile.
const CHECK: Duration = Duration::from_millis(100);

/// Datagrams at most that are thrown away before a test: a flood does not keep it waiting.
const STALE_MAX: usize = 10_000;

/// Greetings and answers of versions before 3.11: two numbers, in the client's order of bytes.
const OLD: [u32; 2] = [123_456_789, 987_654_321];

/// The reason why a client has no data connections.
pub(super) type NotOpened = String;

/// Waits until a client has opened all TCP connections, and sets their options.
pub(super) fn tcp(
    arriving: &Receiver<TcpStream>,
    wanted: &TestParameters,
    mut is_gone: impl FnMut() -> bool,
) -> Result<Vec<DataSocket>, NotOpened> {
    let deadline = Instant::now() + PATIENCE;
    let mut sockets = Vec::new();
    while sockets.len() < wanted.parallel as usize {
        match arriving.recv_timeout(CHECK) {
            Ok(socket) => {
                prepare(&socket, wanted)?;
                sockets.push(DataSocket::Tcp(socket));
            }
            Err(RecvTimeoutError::Disconnected) => return Err("the server stops".into()),
            Err(RecvTimeoutError::Timeout) if is_gone() => return Err("the client left".into()),
            Err(RecvTimeoutError::Timeout) if Instant::now() >= deadline => return Err(late(sockets.len(), wanted)),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
    Ok(sockets)
}

/// The same over UDP. A greeting has no cookie, so tests open their connections one after another.
pub(super) fn udp(
    shared: &Iperf3Shared,
    client: IpAddr,
    wanted: &TestParameters,
    accept: impl FnOnce(),
    mut is_gone: impl FnMut() -> bool,
) -> Result<Vec<DataSocket>, NotOpened> {
    let greeted = shared.udp.lock().unwrap_or_else(PoisonError::into_inner);
    let system = |error: std::io::Error| format!("a UDP socket: {error}");
    let (mut sockets, mut buffer) = (Vec::new(), [0; 64]);
    // Greetings of clients that have left are none of this test's.
    greeted.set_nonblocking(true).map_err(system)?;
    for _ in 0..STALE_MAX {
        if greeted.recv_from(&mut buffer).is_err() {
            break;
        }
    }
    greeted.set_nonblocking(false).map_err(system)?;
    greeted.set_read_timeout(Some(CHECK)).map_err(system)?;
    accept();
    let deadline = Instant::now() + PATIENCE;
    while sockets.len() < wanted.parallel as usize {
        match greeted.recv_from(&mut buffer) {
            Ok((n, from)) if from.ip().to_canonical() == client.to_canonical() => {
                if let Some(answer) = answer(&buffer[..n]) {
                    let socket = connected(shared.place, from).map_err(system)?;
                    socket.send(&answer).map_err(system)?;
                    sockets.push(DataSocket::Udp(socket));
                }
            }
            Ok(_) => {}
            Err(error) if !is_passing(&error) => return Err(system(error)),
            Err(_) if is_gone() => return Err("the client left".into()),
            Err(_) => {}
        }
        if Instant::now() >= deadline && sockets.len() < wanted.parallel as usize {
            return Err(late(sockets.len(), wanted));
        }
    }
    Ok(sockets)
}

fn late(open: usize, wanted: &TestParameters) -> NotOpened {
    format!("the client opened {open} of {} data connections in {} s", wanted.parallel, PATIENCE.as_secs())
}

/// The answer to the first datagram of a UDP connection. `None`: it is no greeting.
fn answer(greeting: &[u8]) -> Option<[u8; 4]> {
    if greeting == UDP_GREETING {
        return Some(UDP_ANSWER);
    }
    let number: [u8; 4] = greeting.try_into().ok()?;
    let [hello, reply] = OLD;
    if number == hello.to_le_bytes() {
        return Some(reply.to_le_bytes());
    }
    (number == hello.to_be_bytes()).then_some(reply.to_be_bytes())
}

/// A socket at the server's port that receives from one client's socket alone (udp(7), connect(2)).
fn connected(place: SocketAddr, from: SocketAddr) -> std::io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(place), Type::DGRAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&place.into())?;
    socket.connect(&from.into())?;
    Ok(socket.into())
}

/// Sets the options that a client wants for the server's side.
fn prepare(socket: &TcpStream, wanted: &TestParameters) -> Result<(), NotOpened> {
    let set = |option: option::SocketOption| option::set(socket.as_fd(), &option).map_err(|error| error.to_string());
    if wanted.nodelay {
        set(option::NO_DELAY.to(true))?;
    }
    if wanted.window > 0 {
        set(option::SEND_BUFFER.to(wanted.window))?;
        set(option::RECEIVE_BUFFER.to(wanted.window))?;
    }
    if let Some(name) = &wanted.congestion {
        set(option::CONGESTION.to(Value::Text(name.clone())))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_of_all_versions_are_answered() {
        assert_eq!(answer(b"9876"), Some(*b"6789"));
        assert_eq!(answer(&123_456_789u32.to_le_bytes()), Some(987_654_321u32.to_le_bytes()));
        assert_eq!(answer(&123_456_789u32.to_be_bytes()), Some(987_654_321u32.to_be_bytes()));
        assert_eq!([answer(b""), answer(b"6789"), answer(b"98765")], [None; 3]);
    }
}
