//! The control connection to an iperf3 server, and the data connections that it asks for.
//!
//! Each step of the protocol waits for the server within a time limit. The caller moves the data meanwhile, and decides when the test
//! ends.

use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use bytegauge_model::Side;
use bytegauge_sys::socket::{self, During, Until};
use bytegauge_wire::random;
use serde_json::Value;
use socket2::{Domain, Socket, Type};

use super::message::{
    Cookie, ProtocolError, RESULTS_MAX, TestResults, UDP_ANSWER, UDP_GREETING, framed, results, state,
};
use crate::EndError;
use crate::setup::Setup;
use crate::transport::datagram::prepare;
use crate::transport::sockets::connected;
use crate::transport::{connect_in_time, uninterrupted};

/// How long a server may take for one step of the protocol.
const PATIENCE: Duration = Duration::from_secs(4);

/// How long a busy server is asked again: it may still be ending the test before.
const BUSY: Duration = Duration::from_secs(3);

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// The control connection of one test.
#[derive(Debug)]
pub struct ControlConnection {
    socket: Socket,
    server: SocketAddr,
    /// The name of the test.
    pub(super) cookie: Cookie,
    /// The step, for messages about a server that does not answer.
    doing: &'static str,
    /// When the server must have answered.
    pub(super) deadline: Instant,
    /// Whether the server knows the parameters, and the test has not ended.
    is_begun: bool,
}

impl ControlConnection {
    /// Connects, and waits until the server asks for the parameters. A server that is still ending the test before is asked
    /// again, also where it refuses connections for a moment if `has_served`.
    pub(super) fn open(server: SocketAddr, has_served: bool) -> Result<ControlConnection, EndError> {
        let deadline = Instant::now() + BUSY;
        loop {
            match ControlConnection::attempt(server, has_served) {
                Ok(control) => return Ok(control),
                Err((_, true)) if Instant::now() < deadline => std::thread::sleep(PAUSE),
                Err((fault, _)) => return Err(fault),
            }
        }
    }

    /// The error, and whether another attempt may succeed in a moment.
    fn attempt(server: SocketAddr, has_served: bool) -> Result<ControlConnection, (EndError, bool)> {
        let never = |why: String| (EndError::Missing(why), false);
        let cookie = Cookie::of_random(random().map_err(|error| never(error.to_string()))?);
        let system = |error: io::Error| never(format!("a control connection to {server}: {error}"));
        let socket = Socket::new(Domain::for_address(server), Type::STREAM, None).map_err(system)?;
        connect_in_time(&socket, &server.into(), true).map_err(|error| {
            let is_refused = error.kind() == io::ErrorKind::ConnectionRefused;
            (EndError::Missing(unreachable(server, &error, has_served)), has_served && is_refused)
        })?;
        socket.set_tcp_nodelay(true).map_err(system)?;
        ControlConnection::greeted(socket, server, cookie)
    }

    /// Begins a test over a connection.
    ///
    /// # Errors
    /// The error, and whether another connection may succeed in a moment: the server is busy; or it ended the test before, and resets
    /// the connections that waited meanwhile.
    pub fn greeted(socket: Socket, server: SocketAddr, cookie: Cookie) -> Result<ControlConnection, (EndError, bool)> {
        let (doing, deadline) = ("waiting for the server to accept the test", Instant::now() + PATIENCE);
        let control = ControlConnection { socket, server, cookie, doing, deadline, is_begun: false };
        let asked = control.send(cookie.bytes()).and_then(|()| control.state(state::PARAM_EXCHANGE));
        match asked.map_err(|broken| (broken, true))? {
            Err(error) => Err((control.fault(&error), error == ProtocolError::Busy)),
            Ok(()) => Ok(control),
        }
    }

    /// Sends the parameters, and waits until the server wants the data connections.
    ///
    /// # Errors
    /// If the server refuses the parameters, fails, or sends anything outside of the protocol.
    pub fn await_streams(&mut self, parameters: &Value) -> Result<(), EndError> {
        self.begin("waiting for the server to accept the parameters");
        self.send_text(parameters)?;
        self.is_begun = true;
        self.expect(state::CREATE_STREAMS)
    }

    /// Waits until all data connections are accepted: data flows.
    ///
    /// # Errors
    /// As [`await_streams`](ControlConnection::await_streams).
    pub fn await_data(&mut self) -> Result<(), EndError> {
        self.begin("waiting for the server to start");
        self.expect(state::TEST_RUNNING)
    }

    /// Ends the test, which all of the exchange has one time limit for. The server answers after its last write, to be read meanwhile.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn end(&mut self) -> Result<(), EndError> {
        self.begin("waiting for the server to stop");
        self.send(&[state::TEST_END])
    }

    /// Exchanges the results of both sides, once the test has ended.
    ///
    /// # Errors
    /// As [`await_streams`](ControlConnection::await_streams).
    pub fn exchange(&mut self, ours: &TestResults) -> Result<TestResults, EndError> {
        self.expect(state::EXCHANGE_RESULTS)?;
        self.doing = "exchanging results";
        self.send_text(ours)?;
        let length = u32::from_be_bytes(self.read()?) as usize;
        if length > RESULTS_MAX {
            return Err(self.fault(&ProtocolError::TooLong { length, limit: RESULTS_MAX }));
        }
        let mut text = vec![0; length];
        self.fill(&mut text)?;
        let theirs = results(&text).map_err(|error| self.fault(&error))?;
        self.doing = "closing";
        self.expect(state::DISPLAY_RESULTS)?;
        self.is_begun = false;
        self.send(&[state::IPERF_DONE])?;
        Ok(theirs)
    }

    /// Begins a step that has a time limit of its own.
    fn begin(&mut self, doing: &'static str) {
        (self.doing, self.deadline) = (doing, Instant::now() + PATIENCE);
    }

    fn expect(&self, wanted: u8) -> Result<(), EndError> {
        self.state(wanted)?.map_err(|error| self.fault(&error))
    }

    /// Waits for a state of the server.
    fn state(&self, wanted: u8) -> Result<Result<(), ProtocolError>, EndError> {
        loop {
            let [byte] = self.read()?;
            return Ok(match byte {
                state::TEST_START if wanted == state::TEST_RUNNING => continue,
                byte if byte == wanted => Ok(()),
                state::ACCESS_DENIED => Err(ProtocolError::Busy),
                state::SERVER_TERMINATE => Err(ProtocolError::ServerStopped),
                state::SERVER_ERROR => {
                    let [a, b, c, d, e, f, g, h] = self.read()?;
                    let (code, errno) = (i32::from_be_bytes([a, b, c, d]), i32::from_be_bytes([e, f, g, h]));
                    Err(ProtocolError::ServerError { code, errno })
                }
                _ => Err(ProtocolError::UnexpectedState(byte.cast_signed(), self.doing)),
            });
        }
    }

    fn read<const N: usize>(&self) -> Result<[u8; N], EndError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads until a buffer is full, or the time is over.
    fn fill(&self, buffer: &mut [u8]) -> Result<(), EndError> {
        let mut filled = 0;
        while filled < buffer.len() {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(self.late());
            }
            let received = match socket::wait(self.as_fd(), Until::Readable, left.as_nanos() as u64) {
                Ok(None) => Err(io::ErrorKind::WouldBlock.into()),
                ready => ready.and_then(|_| socket::receive(self.as_fd(), &mut buffer[filled..])),
            };
            match received {
                Ok(0) => {
                    return Err(EndError::PeerGone(format!(
                        "the iperf3 server at {} closed its control connection while {}: its own output has the reason",
                        self.server, self.doing
                    )));
                }
                Ok(n) => filled += n,
                Err(error) if !socket::is_transient(&error, During::Transfer) => {
                    return Err(EndError::io(format!("reading from the iperf3 server at {}", self.server))(error));
                }
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn send_text(&self, value: &impl serde::Serialize) -> Result<(), EndError> {
        let text = framed(value).map_err(|error| self.fault(&error))?;
        self.send(&text)
    }

    /// Sends. Messages are short, and the server reads: they always have room.
    fn send(&self, bytes: &[u8]) -> Result<(), EndError> {
        let sent = self.socket.set_write_timeout(Some(PATIENCE)).and_then(|()| (&self.socket).write_all(bytes));
        sent.map_err(EndError::io(format!("writing to the iperf3 server at {}", self.server)))
    }

    fn fault(&self, error: &ProtocolError) -> EndError {
        let text = format!("{}: {error}", self.server);
        match error {
            ProtocolError::Busy | ProtocolError::UnexpectedState(..) => EndError::Missing(text),
            _ => EndError::PeerGone(text),
        }
    }

    /// The error of a server that does not answer.
    pub(super) fn late(&self) -> EndError {
        let (server, doing, seconds) = (self.server, self.doing, PATIENCE.as_secs());
        EndError::Missing(format!(
            "{server} does not answer for {seconds} s ({doing}): check that an iperf3 server listens there, with: iperf3 -s"
        ))
    }
}

impl AsFd for ControlConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A test that stops before its end tells the server, so that it serves the next client at once.
impl Drop for ControlConnection {
    fn drop(&mut self) {
        if self.is_begun {
            // The server notices the end of the connection as well.
            let _ = self.send(&[state::CLIENT_TERMINATE]);
        }
    }
}

/// Why no connection was made, and the next step.
fn unreachable(server: SocketAddr, error: &io::Error, has_served: bool) -> String {
    let port = server.port();
    let next = match (error.kind(), has_served) {
        (io::ErrorKind::ConnectionRefused, true) => {
            "the server stopped; each trial is a test of its own, so start it without --one-off (-1)".to_owned()
        }
        (io::ErrorKind::ConnectionRefused, false) => {
            format!("no server listens there. Start one on that host with: iperf3 -s -p {port}")
        }
        _ => format!("check the address, and that a firewall lets TCP port {port} through"),
    };
    format!("cannot connect to the iperf3 server at {server} ({error}): {next}")
}

/// Whether a datagram is a server's answer to the greeting on a UDP socket, of this version or an older one.
///
/// Versions before 3.11 answered with the number 987654321, in either order of bytes.
pub fn is_udp_answer(datagram: &[u8]) -> bool {
    const OLD: u32 = 987_654_321;
    datagram == UDP_ANSWER || datagram == OLD.to_le_bytes() || datagram == OLD.to_be_bytes()
}

// Data connections to an iperf3 server: over TCP each begins with the cookie, a UDP socket greets the server first.

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
    let mut socket = connected(&(*server).into(), setup, side)?;
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
    prepare(&socket, side, setup)?;
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

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use proptest::prelude::*;

    use super::*;

    /// What a client meets whose server sends these bytes and nothing else: the results, or the error; and all that the client sent.
    fn met(bytes: &[u8]) -> (Result<TestResults, String>, Vec<u8>) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        // While a duplicate is open, bytes that the client leaves do not reset the connection.
        let _open = ours.try_clone().unwrap();
        theirs.write_all(bytes).unwrap();
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        let parameters = serde_json::json!({"tcp": true});
        let (server, cookie) = (([127, 0, 0, 1], 9).into(), Cookie::of_random([7; 36]));
        let greeted = ControlConnection::greeted(OwnedFd::from(ours).into(), server, cookie);
        let met = greeted.map_err(|(error, _)| error).and_then(|mut control| {
            control.await_streams(&parameters)?;
            control.await_data()?;
            control.end()?;
            control.exchange(&TestResults::default())
        });
        let mut sent = Vec::new();
        theirs.set_nonblocking(true).unwrap();
        let _no_more = io::Read::read_to_end(&mut theirs, &mut sent);
        (met.map_err(|error| error.to_string()), sent)
    }

    #[test]
    fn test_goes_through_all_states() {
        let theirs = TestResults { cpu_util_total: 1.0, ..TestResults::default() };
        let states = [&[9, 10, 1, 2, 13][..], &framed(&theirs).unwrap(), &[14]].concat();
        let (met, sent) = met(&states);
        assert_eq!(met, Ok(theirs));
        let texts = String::from_utf8_lossy(&sent);
        assert_eq!((sent.len() > 37, texts.matches('{').count()), (true, 2), "{texts}");
        assert!(texts.contains("}\u{4}\0") && sent.ends_with(b"}\x10"), "{texts}");
    }

    #[test]
    fn silent_server_is_late() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let (server, cookie) = (([127, 0, 0, 1], 9).into(), Cookie::of_random([7; 36]));
        let deadline = Instant::now() + Duration::from_millis(5);
        let control = ControlConnection {
            socket: OwnedFd::from(ours).into(),
            server,
            cookie,
            doing: "closing",
            deadline,
            is_begun: false,
        };
        let error = control.read::<1>().unwrap_err();
        assert!(
            matches!(&error, EndError::Missing(why) if why.contains("does not answer for 4 s (closing)")),
            "{error}"
        );
    }

    #[test]
    fn silent_server_is_greeted_three_times_over_udp() {
        let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let levels = [("transport", "udp".into()), ("read_size", 64.into()), ("write_size", 64.into())];
        let spec: bytegauge_model::Spec = levels.into_iter().collect();
        let error = udp(&silent.local_addr().unwrap(), &Setup::of(&spec).unwrap(), Side::Source).unwrap_err();
        assert!(error.to_string().contains("does not answer over UDP"), "{error}");
        silent.set_nonblocking(true).unwrap();
        let mut greeting = [0; 16];
        let greetings = std::iter::from_fn(|| silent.recv(&mut greeting).ok()).count();
        assert_eq!(greetings, 3);
    }

    #[test]
    fn refusals_have_reasons() {
        let check = |bytes: &[u8], part: &str| {
            let (met, sent) = met(bytes);
            let error = met.unwrap_err();
            assert!(error.contains(part), "{error}");
            assert_eq!(sent.ends_with(&[state::CLIENT_TERMINATE]), bytes.starts_with(&[9]), "{error}");
        };
        check(&[0xff], "one client at a time");
        check(&[9, 11], "was stopped");
        check(&[9, 0xfe, 0, 0, 0, 37, 0, 0, 0, 98], "its own output has the reason (error 37, errno 98)");
        check(&[9, 0xfe, 0, 0, 0, 27, 0, 0, 0, 0], "Use a lower --rate");
        check(b"HTTP/1.1 400", "state 72 arrived while waiting for the server to accept the test");
        check(&[9, 2], "waiting for the server to accept the parameters");
        check(&[9], "closed its control connection while waiting for the server to accept the parameters");
        check(&[9, 10, 2, 13, 0xff, 0xff, 0xff, 0xff], "a text of 4294967295 bytes was announced");
        check(&[9, 10, 2, 13, 0, 0, 0, 1, b'x'], "its results cannot be read");
    }

    #[test]
    fn answers_of_all_versions_are_recognised() {
        assert!(is_udp_answer(b"6789") && is_udp_answer(&987_654_321u32.to_be_bytes()));
        assert!(!is_udp_answer(b"9876") && !is_udp_answer(b""));
    }

    proptest! {
        #[test]
        fn any_bytes_end_in_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let (met, sent) = met(&bytes);
            prop_assert!(met.is_err() && sent.len() < 1000);
        }
    }
}
