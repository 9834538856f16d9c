//! A server without a trial, for external clients: an echo, a sink or a source.
//!
//! It runs on the measured engines, without commands: it serves from the moment it listens until it is stopped, and counts the
//! bytes that it moved. It has no window: the client measures.

#![forbid(unsafe_code)]

use std::net::UdpSocket;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytegauge_model::{Engine, Place};
use bytegauge_sys::socket::{self, During};
use bytegauge_sys::{cpu_time, option, resource_limit};
use bytegauge_traffic::EndError;
use bytegauge_traffic::address::{self, sock_addr, unbindable};
use bytegauge_traffic::end::thread_group::{EndPlan, Flags, ThreadGroup, ThreadResults, ThreadStart};
use bytegauge_traffic::engine::{self, Station};
use bytegauge_traffic::flow::{ConnectionEnd, Flow, Party, Want};
use bytegauge_traffic::meter::{Meter, Schedule};
use socket2::{Socket, Type};

/// Most bytes of one receive.
const READ_SIZE: usize = 64 << 10;

/// How long the threads may take to leave.
const PATIENCE: Duration = Duration::from_secs(5);

/// The counts of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Accepted connections.
    pub connections: u64,
    /// Received datagrams.
    pub datagrams: u64,
    /// Connections that failed rather than ended, and datagrams that could not be returned.
    pub broken: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// CPU time of the whole process since the server began, nanoseconds.
    pub cpu_ns: u64,
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    group: ThreadGroup<Result<Served, EndError>>,
    place: Place,
    cpu_before_ns: u64,
}

impl Server {
    /// Listens, and serves in `threads` threads that share the listener; an engine with a thread per connection starts its
    /// own.
    ///
    /// # Errors
    /// [`EndError::Missing`] if the engine does not run here; [`EndError::Io`] if the place cannot be listened on.
    pub fn start(role: ServeRole, engine: Engine, threads: usize, place: &Place) -> Result<Server, EndError> {
        if let Some(reason) = engine::missing_requirement(engine) {
            return Err(EndError::Missing(reason));
        }
        // As many connections as this user may have; if the limit cannot be raised, the engine waits for room.
        resource_limit::raise_open_files();
        let (listener, place) = address::listen(&address::resolved(place)?)?;
        let threads = if engine.has_thread_a_flow() { 1 } else { threads };
        Server::run(place, threads, listener, move |listener, flags| serve(engine, role, listener, flags))
    }

    /// Returns every datagram that arrives at a UDP place, in `threads` threads that share the socket.
    ///
    /// # Errors
    /// As for [`Server::start`].
    pub fn echo_datagrams(threads: usize, place: &Place) -> Result<Server, EndError> {
        let (socket, place) = bind(&address::resolved(place)?)?;
        Server::run(place, threads, socket, echo)
    }

    /// Starts threads that share what listens at a place.
    fn run<S: Send + Sync + 'static>(
        place: Place,
        threads: usize,
        shared: S,
        serve: impl Fn(&S, &Flags) -> Result<Served, EndError> + Copy + Send + 'static,
    ) -> Result<Server, EndError> {
        let cpu_before_ns = cpu_time::process_usage().total_ns;
        let plan = EndPlan::of(format!("serving on {place}"), "serve", vec![None; threads.max(1)], "--threads");
        let shared = Arc::new(shared);
        let group = ThreadGroup::start(&plan, Flags::default(), |_| {
            let shared = Arc::clone(&shared);
            Box::new(move |mut start: ThreadStart<_>| {
                start.ready();
                serve(&shared, &start.flags)
            })
        });
        let group = group.inspect_err(|_| address::clear(&place))?;
        Ok(Server { group, place, cpu_before_ns })
    }

    /// The place where it listens, with its port.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Whether a thread has ended without being stopped: [`stop`](Server::stop) returns the reason.
    pub fn is_failing(&self) -> bool {
        self.group.any_left()
    }

    /// Stops it and closes every connection. Returns its counts, and the fault if there was one.
    pub fn stop(self) -> (Served, Option<EndError>) {
        self.group.stop();
        let ThreadResults { parts, mut fault, .. } = self.group.finish(PATIENCE, None, || {});
        address::clear(&self.place);
        let mut served = Served::default();
        for part in parts {
            match part {
                Ok(part) => {
                    served.connections += part.connections;
                    served.datagrams += part.datagrams;
                    served.broken += part.broken;
                    served.received_bytes += part.received_bytes;
                    served.sent_bytes += part.sent_bytes;
                }
                Err(reason) => fault = fault.or(Some(reason)),
            }
        }
        served.cpu_ns = cpu_time::process_usage().total_ns.saturating_sub(self.cpu_before_ns);
        (served, fault)
    }
}

fn serve(engine: Engine, role: ServeRole, listener: &OwnedFd, flags: &Flags) -> Result<Served, EndError> {
    let mut clients = ServedClients { role, served: Served::default() };
    let forever = Schedule { warmup_ns: 0, window_ns: u64::MAX / 4, until_stopped: true };
    let mut meter = Meter::start(&forever, 0);
    let buffer_size = engine::message_buffer(engine, READ_SIZE);
    let station =
        Station { listener: Some(listener.as_fd()), ..Station::new(buffer_size, &flags.abort, &flags.stop_requested) };
    engine::drive(engine, &mut clients, station, &mut meter)?;
    Ok(clients.served)
}

/// One thread's connections.
struct ServedClients {
    role: ServeRole,
    served: Served,
}

impl Party for ServedClients {
    type Flow = ServeFlow;

    fn accepted(&mut self, connection: BorrowedFd<'_>, _now_ns: u64) -> Option<ServeFlow> {
        self.served.connections += 1;
        // A part of a message must not wait for the acknowledgement of the part before it. Unix sockets have no such
        // delay, and refuse the option.
        let _ = option::set(connection, &option::NO_DELAY.to(true));
        Some(ServeFlow::new(self.role))
    }

    fn left(&mut self, flow: ServeFlow, _connection: Option<OwnedFd>) {
        self.served.received_bytes += flow.received;
        self.served.sent_bytes += flow.sent;
        self.served.broken += u64::from(flow.broke);
    }
}

// Serves one connection of an external client.
//
// It has no framing of its own: bytes are returned as they arrive, discarded, or sent unrequested. An
// error ends only its own connection.
//
// Also datagrams, which are answered without a flow.

/// The task of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServeRole {
    /// Returns every byte as soon as it arrives.
    Echo,
    /// Reads and discards.
    Sink,
    /// Writes as fast as it can.
    Source,
}

/// Bytes that a source sends at once.
const FILL_BYTES: usize = 64 << 10;

/// One connection.
#[derive(Debug)]
pub struct ServeFlow {
    role: ServeRole,
    /// Bytes received and not returned yet.
    to_return: usize,
    state: ServeState,
    /// Bytes received.
    received: u64,
    /// Bytes sent.
    sent: u64,
    /// Whether the connection failed rather than ended.
    broke: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServeState {
    /// In both directions.
    Open,
    /// The peer sends no more, but may still be sent to.
    Heard,
    /// Nothing more can be done.
    Gone,
    /// It is to be closed.
    Closed,
}

impl ServeFlow {
    fn new(role: ServeRole) -> ServeFlow {
        ServeFlow { role, to_return: 0, state: ServeState::Open, received: 0, sent: 0, broke: false }
    }

    fn has_more(&self) -> bool {
        match self.role {
            ServeRole::Echo => self.to_return > 0,
            ServeRole::Sink => false,
            ServeRole::Source => true,
        }
    }
}

impl Flow for ServeFlow {
    fn want(&mut self, _now_ns: u64) -> Want {
        match self.state {
            ServeState::Open | ServeState::Heard if self.has_more() => Want::Send,
            ServeState::Open => Want::Receive,
            ServeState::Heard | ServeState::Gone => {
                self.state = ServeState::Closed;
                Want::Close
            }
            ServeState::Closed => Want::Done,
        }
    }

    fn room(&self) -> usize {
        if self.role == ServeRole::Source { FILL_BYTES } else { 0 }
    }

    fn compose(&mut self, room: &mut [u8], is_new: bool) -> usize {
        if is_new {
            room.fill(0x5a);
        }
        room.len()
    }

    fn echoes(&self) -> bool {
        self.role == ServeRole::Echo
    }

    fn returns(&self) -> Range<usize> {
        0..self.to_return
    }

    fn sent(&mut self, n: usize, _now_ns: u64) {
        self.sent += n as u64;
        if self.role == ServeRole::Echo {
            self.to_return -= n;
        }
    }

    fn received(&mut self, bytes: &mut [u8], _now_ns: u64) -> bool {
        self.received += bytes.len() as u64;
        if self.role == ServeRole::Echo {
            self.to_return += bytes.len();
        }
        true
    }

    fn ended(&mut self, end: ConnectionEnd, _now_ns: u64) {
        match (self.state, end) {
            (ServeState::Open, ConnectionEnd::Eof) => self.state = ServeState::Heard,
            (ServeState::Open | ServeState::Heard, end) => {
                // A source learns only from a failed send that its client has left.
                self.broke = end != ConnectionEnd::Eof && self.role != ServeRole::Source;
                self.state = ServeState::Gone;
            }
            (ServeState::Gone | ServeState::Closed, _) => {}
        }
    }
}

// The echo of datagrams: each is returned to its sender, by one receive and one send.

/// Interval between checks of the flags while no datagram arrives.
const LOOK_AFTER: Duration = Duration::from_millis(50);

/// No datagram over IP is longer.
const LONGEST: usize = 64 << 10;

/// A socket at a place, with the place that it got.
fn bind(place: &Place) -> Result<(UdpSocket, Place), EndError> {
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
fn echo(socket: &UdpSocket, flags: &Flags) -> Result<Served, EndError> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Gives a flow these pieces, takes sends of at most `most` bytes, and ends the stream. Returns the bytes sent, and the
    /// wants after that.
    fn carried(role: ServeRole, pieces: &[Vec<u8>], most: usize) -> (Vec<u8>, Vec<Want>) {
        let (mut flow, mut sent) = (ServeFlow::new(role), Vec::new());
        let mut room = vec![0; flow.room()];
        let (mut is_new, mut message, mut kept) = (true, 0..0, Vec::new());
        let mut pieces = pieces.iter();
        let mut last = Vec::new();
        loop {
            match flow.want(0) {
                Want::Send if !flow.returns().is_empty() => {
                    let n = flow.returns().len().min(most);
                    sent.extend(kept.drain(..n));
                    flow.sent(n, 0);
                }
                Want::Send => {
                    if message.is_empty() {
                        message = 0..flow.compose(&mut room, std::mem::take(&mut is_new));
                    }
                    assert!(!message.is_empty());
                    let n = message.len().min(most);
                    sent.extend_from_slice(&room[message.clone()][..n]);
                    message.start += n;
                    flow.sent(n, 0);
                }
                Want::Receive => match pieces.next() {
                    Some(piece) => {
                        assert!(flow.received(&mut piece.clone(), 0));
                        if flow.echoes() {
                            kept.extend_from_slice(piece);
                        }
                    }
                    None => flow.ended(ConnectionEnd::Eof, 0),
                },
                want => {
                    last.push(want);
                    if want == Want::Done {
                        return (sent, last);
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn an_echo_returns_what_came_and_leaves(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..50), 0..9), most in 1usize..60,
        ) {
            let (sent, last) = carried(ServeRole::Echo, &pieces, most);
            prop_assert_eq!(sent, pieces.concat());
            prop_assert_eq!(last, [Want::Close, Want::Done]);
        }
    }

    #[test]
    fn sinks_send_nothing() {
        assert_eq!(carried(ServeRole::Sink, &[vec![1; 9]], 1), (Vec::new(), vec![Want::Close, Want::Done]));
    }

    #[test]
    fn a_connection_that_breaks_is_left_at_once() {
        let mut flow = ServeFlow::new(ServeRole::Echo);
        flow.received(&mut [1, 2], 0);
        flow.ended(ConnectionEnd::Closed, 0);
        assert_eq!((flow.want(0), flow.want(0), flow.broke), (Want::Close, Want::Done, true));
    }
}
