//! The server's side of a control connection, as a state machine: bytes in, bytes out, events.
//!
//! Never opens a socket or reads a clock. It begins after the cookie, by which the caller tells a control connection from
//! a data connection.

use std::mem;

use super::STREAMS_MAX;
use super::message::{
    BLOCK_SIZE, ControlInput, ControlState, PARAMETERS_MAX, ProtocolError, RESULTS_MAX, TOO_MANY_STREAMS,
    TestParameters, TestResults, UNSUPPORTED, framed,
};

/// The largest block that iperf3 reads or writes over TCP, bytes.
const BLOCK_MAX: u64 = 1 << 20;

/// The longest datagram of UDP over IPv4, bytes.
const DATAGRAM_MAX: u64 = 65_507;

/// Bytes at the start of a datagram: seconds, microseconds and a counter.
const DATAGRAM_MIN: u64 = 16;

/// A moment at which the caller has something to do.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerEvent {
    /// The test that the client wants. Answer with [`ControlServer::accept`] or [`ControlServer::fail`].
    Parameters(Box<TestParameters>),
    /// The client needs no more data: stop, then call [`ControlServer::exchange`].
    Ended,
    /// The client's results. Answer with [`ControlServer::results`].
    Results(TestResults),
    /// The test is complete.
    Done,
}

/// A server during one test.
#[derive(Clone, Debug)]
pub struct ControlServer {
    step: ServerStep,
    inbox: ControlInput,
    outbox: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerStep {
    Parameters,
    /// The caller decides.
    Deciding,
    Streams,
    Running,
    Stopping,
    Results,
    OwnResults,
    Closing,
    Done,
}

impl Default for ControlServer {
    fn default() -> ControlServer {
        ControlServer::new()
    }
}

impl ControlServer {
    /// A server that asks for the parameters.
    pub fn new() -> ControlServer {
        ControlServer {
            step: ServerStep::Parameters,
            inbox: ControlInput::default(),
            outbox: vec![ControlState::ParamExchange.byte()],
        }
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

    /// The next event of the bytes that arrived. `None`: more bytes are needed, or a call of the caller.
    ///
    /// # Errors
    /// [`ProtocolError`] if the client stops, or sends anything outside of the protocol.
    pub fn next_event(&mut self) -> Result<Option<ServerEvent>, ProtocolError> {
        let (next, event) = match self.step {
            ServerStep::Parameters => {
                let Some(text) = self.inbox.text("parameters", PARAMETERS_MAX)? else { return Ok(None) };
                (ServerStep::Deciding, ServerEvent::Parameters(text))
            }
            ServerStep::Results => {
                let Some(text) = self.inbox.text("results", RESULTS_MAX)? else { return Ok(None) };
                (ServerStep::OwnResults, ServerEvent::Results(text))
            }
            ServerStep::Streams => return self.state(None),
            ServerStep::Running => {
                return self.state(Some((ControlState::TestEnd, ServerStep::Stopping, ServerEvent::Ended)));
            }
            ServerStep::Closing => {
                return self.state(Some((ControlState::IperfDone, ServerStep::Done, ServerEvent::Done)));
            }
            ServerStep::Deciding | ServerStep::Stopping | ServerStep::OwnResults | ServerStep::Done => return Ok(None),
        };
        self.step = next;
        Ok(Some(event))
    }

    /// Takes one state: the expected one, or an early end.
    fn state(
        &mut self,
        expected: Option<(ControlState, ServerStep, ServerEvent)>,
    ) -> Result<Option<ServerEvent>, ProtocolError> {
        let Some([byte]) = self.inbox.take() else { return Ok(None) };
        match (ControlState::of(byte), expected) {
            (Some(found), Some((state, next, event))) if found == state => {
                self.step = next;
                Ok(Some(event))
            }
            (Some(ControlState::ClientTerminate), _) => Err(ProtocolError::ClientStopped),
            _ => Err(ProtocolError::UnexpectedState { found: byte.cast_signed(), doing: "a client was served" }),
        }
    }

    /// Accepts the parameters: the client opens its data connections next.
    pub fn accept(&mut self) {
        self.to(ServerStep::Deciding, ServerStep::Streams, &[ControlState::CreateStreams]);
    }

    /// Begins, once all data connections are open.
    pub fn start(&mut self) {
        self.to(ServerStep::Streams, ServerStep::Running, &[ControlState::TestStart, ControlState::TestRunning]);
    }

    /// Asks for the client's results, after [`ServerEvent::Ended`].
    pub fn exchange(&mut self) {
        self.to(ServerStep::Stopping, ServerStep::Results, &[ControlState::ExchangeResults]);
    }

    /// Gives the results of this side, after [`ServerEvent::Results`].
    ///
    /// # Errors
    /// [`ProtocolError::Unreadable`] if they have no JSON text.
    pub fn results(&mut self, results: &TestResults) -> Result<(), ProtocolError> {
        if self.step == ServerStep::OwnResults {
            self.outbox.extend(framed(results)?);
            self.to(ServerStep::OwnResults, ServerStep::Closing, &[ControlState::DisplayResults]);
        }
        Ok(())
    }

    /// Ends the test with iperf3's number of an error.
    pub fn fail(&mut self, code: i32) {
        self.outbox.push(ControlState::ServerError.byte());
        self.outbox.extend(code.to_be_bytes());
        self.outbox.extend(0i32.to_be_bytes());
        self.step = ServerStep::Done;
    }

    /// Ends the test because this server stops.
    pub fn terminate(&mut self) {
        self.outbox.push(ControlState::ServerTerminate.byte());
        self.step = ServerStep::Done;
    }

    fn to(&mut self, from: ServerStep, to: ServerStep, states: &[ControlState]) {
        if self.step == from {
            self.outbox.extend(states.iter().map(|state| state.byte()));
            self.step = to;
        }
    }
}

/// Why a server refuses a client's parameters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// Neither TCP nor UDP.
    #[error("only TCP and UDP are supported: leave out --sctp")]
    Protocol,
    /// Too many data connections, or none.
    #[error("{0} data connections: use 1 to {max} with -P", max = STREAMS_MAX)]
    Streams(u64),
    /// A block that is empty or too large.
    #[error("blocks of {0} bytes: use up to 1M over TCP, 16 to 65507 bytes over UDP with -l")]
    Block(u64),
    /// Both directions at once.
    #[error("--bidir is not supported: use two clients, one of them with -R")]
    BothWays,
}

impl ParameterError {
    /// iperf3's number of the error.
    pub fn code(&self) -> i32 {
        match self {
            ParameterError::Protocol | ParameterError::BothWays => UNSUPPORTED,
            ParameterError::Streams(_) => TOO_MANY_STREAMS,
            ParameterError::Block(_) => BLOCK_SIZE,
        }
    }
}

impl TestParameters {
    /// Checks parameters that a client sent.
    ///
    /// # Errors
    /// [`ParameterError`] with the value and the option of iperf3 to change.
    pub fn check(&self) -> Result<(), ParameterError> {
        if self.sctp || self.tcp == self.udp {
            return Err(ParameterError::Protocol);
        }
        if self.bidirectional {
            return Err(ParameterError::BothWays);
        }
        if !(1..=STREAMS_MAX as u64).contains(&self.parallel) {
            return Err(ParameterError::Streams(self.parallel));
        }
        let blocks = if self.udp { DATAGRAM_MIN..=DATAGRAM_MAX } else { 1..=BLOCK_MAX };
        if !blocks.contains(&self.len) {
            return Err(ParameterError::Block(self.len));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::iperf3::client::{ClientEvent, ControlClient};
    use crate::iperf3::message::{COOKIE_LEN, Cookie};

    fn parameters() -> TestParameters {
        TestParameters { tcp: true, parallel: 1, len: 4096, ..TestParameters::default() }
    }

    /// Moves bytes from one side to the other in pieces of `piece`.
    fn pass(from: &[u8], piece: usize, mut to: impl FnMut(&[u8])) {
        from.chunks(piece).for_each(&mut to);
    }

    proptest! {
        #[test]
        fn both_sides_complete_a_test(piece in 1usize..50, streams in 1u64..128, bytes: u64) {
            let wanted = TestParameters { parallel: streams, ..parameters() };
            let mut client = ControlClient::new(&Cookie::of_random([3; 36]), wanted.clone());
            let cookie = client.take_output();
            prop_assert_eq!(cookie.len(), COOKIE_LEN);
            let mut server = ControlServer::new();
            let ours = TestResults { cpu_util_total: 1.5, ..TestResults::default() };
            let (mut seen, mut got) = (None, None);
            for _ in 0..20 {
                pass(&server.take_output(), piece, |bytes| client.received(bytes));
                match client.next_event().unwrap() {
                    Some(ClientEvent::Running) => client.end(),
                    Some(ClientEvent::ResultsWanted) => {
                        let streams = vec![super::super::message::StreamResult { id: 1, bytes, ..Default::default() }];
                        client.results(&TestResults { streams, ..TestResults::default() }).unwrap();
                    }
                    Some(ClientEvent::Results(results)) => got = Some(results),
                    Some(ClientEvent::OpenStreams) | None => {}
                }
                pass(&client.take_output(), piece, |bytes| server.received(bytes));
                match server.next_event().unwrap() {
                    Some(ServerEvent::Parameters(parameters)) => {
                        prop_assert_eq!(*parameters, wanted.clone());
                        server.accept();
                    }
                    Some(ServerEvent::Ended) => server.exchange(),
                    Some(ServerEvent::Results(results)) => {
                        seen = Some(results.streams[0].bytes);
                        server.results(&ours).unwrap();
                    }
                    Some(ServerEvent::Done) => break,
                    None => server.start(),
                }
            }
            prop_assert!(client.is_done());
            prop_assert_eq!((seen, got), (Some(bytes), Some(ours)));
        }

        #[test]
        fn any_bytes_end_in_an_error_or_wait(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut server = ControlServer::new();
            server.received(&bytes);
            while let Ok(Some(_)) = server.next_event() {
                server.accept();
                server.start();
            }
            prop_assert!(server.take_output().len() < 10);
        }
    }

    #[test]
    fn early_end_of_a_client_is_an_error() {
        let mut server = ControlServer::new();
        server.received(&framed(&parameters()).unwrap());
        assert!(matches!(server.next_event(), Ok(Some(ServerEvent::Parameters(_)))));
        server.accept();
        server.start();
        server.received(&[ControlState::ClientTerminate.byte()]);
        assert_eq!(server.next_event(), Err(ProtocolError::ClientStopped));
    }

    #[test]
    fn impossible_parameters_are_refused() {
        let check = |parameters: TestParameters, part: &str| {
            let refusal = parameters.check().unwrap_err().to_string();
            assert!(refusal.contains(part), "{refusal}");
        };
        assert_eq!(parameters().check(), Ok(()));
        check(TestParameters { tcp: false, ..parameters() }, "TCP and UDP");
        check(TestParameters { udp: true, ..parameters() }, "TCP and UDP");
        check(TestParameters { parallel: 129, ..parameters() }, "129 data connections");
        check(TestParameters { parallel: 0, ..parameters() }, "use 1 to 128");
        check(TestParameters { len: 0, ..parameters() }, "blocks of 0 bytes");
        check(TestParameters { len: 1 << 30, ..parameters() }, "blocks of 1073741824");
        check(TestParameters { tcp: false, udp: true, len: 65_508, ..parameters() }, "65507");
        check(TestParameters { bidirectional: true, ..parameters() }, "--bidir");
    }
}
