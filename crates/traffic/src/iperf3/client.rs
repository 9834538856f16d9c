//! The client's side of a control connection, as a state machine: bytes in, bytes out, events.
//!
//! Never opens a socket or reads a clock. The caller moves the bytes, opens the data connections and decides when the
//! test ends.

use std::io::Write;
use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::Duration;

use bytegauge_model::Side;

use super::message::{
    ControlInput, Cookie, ProtocolError, RESULTS_MAX, TestParameters, TestResults, UDP_ANSWER, UDP_GREETING, framed,
    state,
};
use crate::EndError;
use crate::setup::Setup;
use crate::transport::datagram::prepare;
use crate::transport::sockets::connected;
use crate::transport::uninterrupted;

/// A moment at which the caller has something to do.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientEvent {
    /// Open the data connections now.
    OpenStreams,
    /// All data connections are accepted: data flows.
    Running,
    /// Both ends have stopped. Give the results to [`ControlClient::results`].
    ResultsWanted,
    /// The server's results. The test is complete.
    Results(TestResults),
}

/// A client during one test.
#[derive(Clone, Debug)]
pub struct ControlClient {
    parameters: TestParameters,
    step: ClientStep,
    inbox: ControlInput,
    outbox: Vec<u8>,
    server: Option<TestResults>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientStep {
    Greeting,
    Accepting,
    Starting,
    Running,
    Ending,
    OwnResults,
    Results,
    Display,
    Done,
    Error,
}

impl ClientStep {
    fn doing(self) -> &'static str {
        match self {
            ClientStep::Greeting => "waiting for the server to accept the test",
            ClientStep::Accepting => "waiting for the server to accept the parameters",
            ClientStep::Starting => "waiting for the server to start",
            ClientStep::Running => "data flows",
            ClientStep::Ending => "waiting for the server to stop",
            ClientStep::OwnResults | ClientStep::Results => "exchanging results",
            ClientStep::Display | ClientStep::Done => "closing",
            ClientStep::Error => "reading an error",
        }
    }
}

impl ControlClient {
    /// A client that is about to begin a test.
    pub fn new(cookie: &Cookie, parameters: TestParameters) -> ControlClient {
        let outbox = cookie.bytes().to_vec();
        ControlClient { parameters, step: ClientStep::Greeting, inbox: ControlInput::default(), outbox, server: None }
    }

    /// Bytes to send now.
    pub fn take_output(&mut self) -> Vec<u8> {
        mem::take(&mut self.outbox)
    }

    /// Adds bytes that arrived.
    pub fn received(&mut self, bytes: &[u8]) {
        self.inbox.push(bytes);
    }

    /// The number of bytes that may be read from the connection now.
    pub fn room(&self) -> usize {
        self.inbox.room()
    }

    /// Whether the server asked for the parameters.
    pub fn is_greeted(&self) -> bool {
        self.step != ClientStep::Greeting
    }

    /// The step, for messages about a server that does not answer.
    pub fn doing(&self) -> &'static str {
        self.step.doing()
    }

    /// Whether the test is complete.
    pub fn is_done(&self) -> bool {
        self.step == ClientStep::Done
    }

    /// The next event of the bytes that arrived. `None`: more bytes are needed, or a call of the caller.
    ///
    /// # Errors
    /// [`ProtocolError`] if the server refuses, fails, or sends anything outside of the protocol.
    pub fn next_event(&mut self) -> Result<Option<ClientEvent>, ProtocolError> {
        loop {
            match self.step {
                ClientStep::OwnResults | ClientStep::Done => return Ok(None),
                ClientStep::Error => {
                    let Some([a, b, c, d, e, f, g, h]) = self.inbox.take() else { return Ok(None) };
                    let (code, errno) = (i32::from_be_bytes([a, b, c, d]), i32::from_be_bytes([e, f, g, h]));
                    return Err(ProtocolError::ServerError { code, errno });
                }
                ClientStep::Results => {
                    let Some(results) = self.inbox.text("results", RESULTS_MAX)? else { return Ok(None) };
                    self.server = Some(results);
                    self.step = ClientStep::Display;
                }
                step => {
                    let Some([byte]) = self.inbox.take() else { return Ok(None) };
                    if let Some(event) = self.state(step, byte)? {
                        return Ok(Some(event));
                    }
                }
            }
        }
    }

    fn state(&mut self, step: ClientStep, byte: u8) -> Result<Option<ClientEvent>, ProtocolError> {
        let (next, event) = match (step, byte) {
            (_, state::ACCESS_DENIED) => return Err(ProtocolError::Busy),
            (_, state::SERVER_TERMINATE) => return Err(ProtocolError::ServerStopped),
            (_, state::SERVER_ERROR) => (ClientStep::Error, None),
            (ClientStep::Greeting, state::PARAM_EXCHANGE) => {
                self.outbox.extend(framed(&self.parameters)?);
                (ClientStep::Accepting, None)
            }
            (ClientStep::Accepting, state::CREATE_STREAMS) => (ClientStep::Starting, Some(ClientEvent::OpenStreams)),
            (ClientStep::Starting, state::TEST_START) => (ClientStep::Starting, None),
            (ClientStep::Starting, state::TEST_RUNNING) => (ClientStep::Running, Some(ClientEvent::Running)),
            (ClientStep::Ending, state::EXCHANGE_RESULTS) => (ClientStep::OwnResults, Some(ClientEvent::ResultsWanted)),
            (ClientStep::Display, state::DISPLAY_RESULTS) => {
                self.outbox.push(state::IPERF_DONE);
                (ClientStep::Done, self.server.take().map(ClientEvent::Results))
            }
            (step, _) => {
                return Err(ProtocolError::UnexpectedState(byte.cast_signed(), step.doing()));
            }
        };
        self.step = next;
        Ok(event)
    }

    /// Ends the test. Without effect unless data flows.
    pub fn end(&mut self) {
        if self.step == ClientStep::Running {
            self.step = ClientStep::Ending;
            self.outbox.push(state::TEST_END);
        }
    }

    /// Gives the results of this side, after [`ClientEvent::ResultsWanted`]. Without effect at any other time.
    ///
    /// # Errors
    /// [`ProtocolError::Unreadable`] if they have no JSON text.
    pub fn results(&mut self, results: &TestResults) -> Result<(), ProtocolError> {
        if self.step == ClientStep::OwnResults {
            self.outbox.extend(framed(results)?);
            self.step = ClientStep::Results;
        }
        Ok(())
    }

    /// Stops before the end, so that the server serves the next client at once.
    pub fn terminate(&mut self) {
        if !self.is_done() {
            self.outbox.push(state::CLIENT_TERMINATE);
            self.step = ClientStep::Done;
        }
    }
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
    use proptest::prelude::*;

    use super::*;

    fn client() -> ControlClient {
        ControlClient::new(&Cookie::of_random([7; 36]), TestParameters { tcp: true, ..TestParameters::default() })
    }

    /// Feeds states; the events, or the error.
    fn fed(client: &mut ControlClient, bytes: &[u8]) -> Result<Vec<ClientEvent>, ProtocolError> {
        client.received(bytes);
        let mut events = Vec::new();
        while let Some(event) = client.next_event()? {
            events.push(event);
        }
        Ok(events)
    }

    #[test]
    fn test_goes_through_all_states() {
        let mut client = client();
        assert_eq!(client.take_output().len(), 37);
        assert_eq!(fed(&mut client, &[9]).unwrap(), []);
        assert!(client.take_output().ends_with(b"}"));
        assert_eq!(fed(&mut client, &[10]).unwrap(), [ClientEvent::OpenStreams]);
        assert_eq!(fed(&mut client, &[1, 2]).unwrap(), [ClientEvent::Running]);
        client.end();
        assert_eq!(client.take_output(), [4]);
        assert_eq!(fed(&mut client, &[13]).unwrap(), [ClientEvent::ResultsWanted]);
        client.results(&TestResults::default()).unwrap();
        let theirs = TestResults { cpu_util_total: 1.0, ..TestResults::default() };
        let answer = [framed(&theirs).unwrap(), vec![14]].concat();
        assert_eq!(fed(&mut client, &answer).unwrap(), [ClientEvent::Results(theirs)]);
        assert!(client.take_output().ends_with(&[16]) && client.is_done());
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
            let error = fed(&mut client(), bytes).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        check(&[0xff], "one client at a time");
        check(&[9, 11], "was stopped");
        check(&[9, 0xfe, 0, 0, 0, 37, 0, 0, 0, 98], "its own output has the reason (error 37, errno 98)");
        check(&[9, 0xfe, 0, 0, 0, 27, 0, 0, 0, 0], "Use a lower --rate");
        check(b"HTTP/1.1 400", "state 72 arrived while waiting for the server to accept the test");
        check(&[9, 2], "waiting for the server to accept the parameters");
    }

    #[test]
    fn answers_of_all_versions_are_recognised() {
        assert!(is_udp_answer(b"6789") && is_udp_answer(&987_654_321u32.to_be_bytes()));
        assert!(!is_udp_answer(b"9876") && !is_udp_answer(b""));
    }

    proptest! {
        #[test]
        fn any_bytes_end_in_an_error_or_wait(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut client = client();
            let _ = fed(&mut client, &bytes);
            prop_assert!(client.take_output().len() < 1000);
        }
    }
}
