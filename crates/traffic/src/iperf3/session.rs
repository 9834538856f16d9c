//! One test with an iperf3 server: its control connection and its data connections.
//!
//! A trial is one test. The data connections are made like all others and are handed to the engine. This file keeps
//! duplicates: a server that writes stops only after its last write returned, so they are read until then.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use bytegauge_model::{EndReport, Iperf3Report, Side};
use bytegauge_sys::children;
use bytegauge_sys::socket::{self, During, Until};
use bytegauge_wire::random;
use socket2::{Domain, Socket, Type};

use super::STREAMS_MAX;
use super::client::{self, ClientEvent, ControlClient};
use super::message::{Cookie, NOT_COUNTED, ProtocolError, StreamResult, TestParameters, TestResults, stream_id};
use crate::EndError;
use crate::setup::Setup;
use crate::transport::connect_in_time;

/// How long a server may take for one step of the protocol.
const PATIENCE: Duration = Duration::from_secs(4);

/// How long a busy server is asked again: it may still be ending the test before.
const BUSY: Duration = Duration::from_secs(3);

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// How long data that the server wrote may take to arrive after its results.
const LAST_DATA: Duration = Duration::from_secs(1);

/// Bytes of a read that is not measured.
const DRAIN_SIZE: usize = 64 << 10;

/// The block of an iperf3 server that reads (iperf3(1), -l). It is the same for all options, so that they are compared.
const BLOCK: u64 = 128 << 10;

/// A test that is going on.
#[derive(Debug)]
pub(crate) struct Iperf3Session {
    control: ControlConnection,
    /// Duplicates of the data connections, in their order: the engine closes its own before the test ends.
    data: Vec<Option<OwnedFd>>,
    server_writes: bool,
    is_udp: bool,
    began: Instant,
}

/// The control connection.
#[derive(Debug)]
struct ControlConnection {
    socket: Socket,
    client: ControlClient,
    server: SocketAddr,
    cookie: Cookie,
}

/// Checks that an iperf3 server at an address accepts a test, without starting one.
///
/// # Errors
/// [`EndError::Missing`] with the next step if it does not.
pub fn reach(server: SocketAddr) -> Result<(), EndError> {
    ControlConnection::open(server, &TestParameters::default(), false).map(|_greeted| ())
}

impl Iperf3Session {
    /// Begins a test: the connections of all flows, over which data flows from now on.
    ///
    /// # Errors
    /// [`EndError::Missing`] if the server refuses, [`EndError::Io`] if a connection fails.
    pub(crate) fn open(server: SocketAddr, setup: &Setup) -> Result<(Iperf3Session, Vec<OwnedFd>), EndError> {
        let flows = setup.flows();
        if flows > STREAMS_MAX {
            return Err(EndError::Missing(format!("{flows} connections: iperf3 has up to {STREAMS_MAX}")));
        }
        let mut control = ControlConnection::open(server, &parameters(setup), true)?;
        control.until(&ClientEvent::OpenStreams)?;
        let side = if setup.iperf3_writes() { Side::Sink } else { Side::Source };
        let fds = (0..flows).map(|_| client::connection(&server, &control.cookie, setup, side));
        let fds = fds.collect::<Result<Vec<OwnedFd>, EndError>>()?;
        let duplicates = fds.iter().map(|fd| fd.try_clone().map(Some));
        let data = duplicates.collect::<io::Result<_>>().map_err(EndError::io("duplicating a connection"))?;
        control.until(&ClientEvent::Running)?;
        let (server_writes, is_udp) = (side == Side::Sink, setup.transport().is_udp());
        Ok((Iperf3Session { control, data, server_writes, is_udp, began: Instant::now() }, fds))
    }

    /// Ends the test: reads the data that is still on its way, adds it to the report, and exchanges results.
    ///
    /// # Errors
    /// [`EndError::Missing`] or [`EndError::PeerGone`] if the server does not report; [`EndError::Miscounted`] if data is missing.
    pub(crate) fn finish(mut self, report: &mut EndReport) -> Result<(), EndError> {
        let seconds = self.began.elapsed().as_secs_f64();
        self.control.client.end();
        let server = self.results(report, seconds)?;
        if !self.is_udp {
            // What the server wrote before it stopped, until the connections end or all that it counts is here.
            let (deadline, written) = (Instant::now() + LAST_DATA, total_bytes(&server));
            while self.server_writes && report.total_bytes < written && Instant::now() < deadline {
                self.read_data(report, false, deadline)?;
            }
            compared(report, &server, self.server_writes)?;
        }
        report.iperf3 = Some(Box::new(summary(&server, self.server_writes, self.is_udp)));
        Ok(())
    }

    /// Exchanges results. Data that the server still writes is read meanwhile: it stops after its last write.
    fn results(&mut self, report: &mut EndReport, seconds: f64) -> Result<TestResults, EndError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.control.step()? {
                Some(ClientEvent::ResultsWanted) => {
                    let ours = ours(report, seconds, self.is_udp, self.server_writes);
                    self.control.client.results(&ours).map_err(|error| self.control.fault(&error))?;
                }
                Some(ClientEvent::Results(server)) => {
                    // It has no more to send; the state that ends the test is for the next one's sake.
                    self.control.flush()?;
                    // When the server has closed its side, it accepts the next test at once.
                    let _ = socket::wait(self.control.socket.as_fd(), Until::PeerShut, LAST_DATA.as_nanos() as u64);
                    return Ok(server);
                }
                Some(_) => {}
                None if Instant::now() >= deadline => return Err(self.control.late()),
                None if self.read_data(report, true, deadline)? => self.control.read()?,
                None => {}
            }
        }
    }

    /// Waits for data that is not measured, reads once from each connection that has some, and counts the bytes. With `control`, waits
    /// for the control connection too, and returns whether that can be read. A connection that has ended is not asked again.
    fn read_data(&mut self, report: &mut EndReport, control: bool, deadline: Instant) -> Result<bool, EndError> {
        let mut scratch = [0; DRAIN_SIZE];
        let reads = self.server_writes;
        let data = self.data.iter().flatten().filter(|_| reads).map(AsFd::as_fd);
        let fds: Vec<BorrowedFd<'_>> = control.then(|| self.control.socket.as_fd()).into_iter().chain(data).collect();
        let left = deadline.saturating_duration_since(Instant::now());
        let ready = children::wait_any(&fds, left).map_err(EndError::io("waiting for the iperf3 server"))?;
        let mut ready = ready.into_iter();
        let can_read_control = control && ready.next() == Some(true);
        let open = self.data.iter_mut().enumerate().filter(|(_, fd)| reads && fd.is_some());
        for (flow, place) in open.zip(ready).filter(|(_, ready)| *ready).map(|(open, _)| open) {
            let Some(fd) = place.as_ref() else { continue };
            match socket::receive(fd.as_fd(), &mut scratch) {
                // Datagrams count by their numbers; these are after the last one that does.
                Ok(_) if self.is_udp => {}
                Ok(n @ 1..) => {
                    report.total_bytes += n as u64;
                    report.flows.get_mut(flow).into_iter().for_each(|row| row.total_bytes += n as u64);
                }
                Err(error) if socket::is_transient(&error, During::Transfer) => {}
                Ok(0) | Err(_) => *place = None,
            }
        }
        Ok(can_read_control)
    }
}

impl Drop for Iperf3Session {
    fn drop(&mut self) {
        self.control.client.terminate();
        // The server notices the end of the connection as well.
        let _ = self.control.flush();
    }
}

impl ControlConnection {
    /// Connects, and waits until the server asks for the parameters. A server that is still ending the test before is asked
    /// again, also where it refuses connections for a moment if `has_served`.
    fn open(server: SocketAddr, parameters: &TestParameters, has_served: bool) -> Result<ControlConnection, EndError> {
        let deadline = Instant::now() + BUSY;
        loop {
            match ControlConnection::attempt(server, parameters.clone(), has_served) {
                Ok(control) => return Ok(control),
                Err((_, true)) if Instant::now() < deadline => std::thread::sleep(PAUSE),
                Err((fault, _)) => return Err(fault),
            }
        }
    }

    /// The error, and whether another attempt may succeed in a moment.
    fn attempt(
        server: SocketAddr,
        parameters: TestParameters,
        has_served: bool,
    ) -> Result<ControlConnection, (EndError, bool)> {
        let never = |why: String| (EndError::Missing(why), false);
        let cookie = Cookie::of_random(random().map_err(|error| never(error.to_string()))?);
        let system = |error: io::Error| never(format!("a control connection to {server}: {error}"));
        let socket = Socket::new(Domain::for_address(server), Type::STREAM, None).map_err(system)?;
        connect_in_time(&socket, &server.into(), true).map_err(|error| {
            let is_refused = error.kind() == io::ErrorKind::ConnectionRefused;
            (EndError::Missing(unreachable(server, &error, has_served)), has_served && is_refused)
        })?;
        socket.set_tcp_nodelay(true).map_err(system)?;
        socket.set_nonblocking(true).map_err(system)?;
        let mut control = ControlConnection { socket, client: ControlClient::new(&cookie, parameters), server, cookie };
        let deadline = Instant::now() + PATIENCE;
        // The connection is reset if it waited for a server that ended the test before and listens again.
        let broken = |fault: EndError| (fault, true);
        control.flush().map_err(broken)?;
        loop {
            match control.client.next_event() {
                Err(error) => return Err((control.fault(&error), error == ProtocolError::Busy)),
                Ok(_) if control.client.is_greeted() => return Ok(control),
                Ok(_) if Instant::now() >= deadline => return Err((control.late(), false)),
                Ok(_) => control.wait(deadline).and_then(|()| control.read()).map_err(broken)?,
            }
        }
    }

    /// Sends the answers, and takes the next event.
    fn step(&mut self) -> Result<Option<ClientEvent>, EndError> {
        self.flush()?;
        self.client.next_event().map_err(|error| self.fault(&error))
    }

    /// Waits for an event. Others are skipped.
    fn until(&mut self, wanted: &ClientEvent) -> Result<(), EndError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.step()? {
                Some(event) if event == *wanted => return Ok(()),
                Some(_) => {}
                None if Instant::now() >= deadline => return Err(self.late()),
                None => self.wait(deadline).and_then(|()| self.read())?,
            }
        }
    }

    /// Waits until there is something to read, or the time is over.
    fn wait(&self, deadline: Instant) -> Result<(), EndError> {
        let left = deadline.saturating_duration_since(Instant::now());
        match socket::wait(self.socket.as_fd(), Until::Readable, left.as_nanos() as u64) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                Err(EndError::io(format!("waiting for the iperf3 server at {}", self.server))(error))
            }
            _ => Ok(()),
        }
    }

    /// Reads what is there.
    fn read(&mut self) -> Result<(), EndError> {
        let mut buffer = [0; 4096];
        let room = self.client.room().min(buffer.len());
        match socket::receive(self.socket.as_fd(), &mut buffer[..room]) {
            Ok(0) => Err(EndError::PeerGone(format!(
                "the iperf3 server at {} closed its control connection while {}: its own output has the reason",
                self.server,
                self.client.doing()
            ))),
            Ok(n) => {
                self.client.received(&buffer[..n]);
                Ok(())
            }
            Err(error) if socket::is_transient(&error, During::Transfer) => Ok(()),
            Err(error) => Err(EndError::io(format!("reading from the iperf3 server at {}", self.server))(error)),
        }
    }

    /// Sends the answers. They are short, and the server reads: they always have room.
    fn flush(&mut self) -> Result<(), EndError> {
        let output = self.client.take_output();
        let (mut rest, deadline) = (&output[..], Instant::now() + PATIENCE);
        while !rest.is_empty() {
            match socket::send(self.socket.as_fd(), rest) {
                Ok(n) => rest = &rest[n..],
                Err(error) if socket::is_transient(&error, During::Transfer) && Instant::now() < deadline => {
                    let _ = socket::wait(self.socket.as_fd(), Until::Writable, PAUSE.as_nanos() as u64);
                }
                Err(error) => {
                    return Err(EndError::io(format!("writing to the iperf3 server at {}", self.server))(error));
                }
            }
        }
        Ok(())
    }

    fn fault(&self, error: &ProtocolError) -> EndError {
        let text = format!("{}: {error}", self.server);
        match error {
            ProtocolError::Busy | ProtocolError::UnexpectedState(..) => EndError::Missing(text),
            _ => EndError::PeerGone(text),
        }
    }

    fn late(&self) -> EndError {
        let (server, doing, seconds) = (self.server, self.client.doing(), PATIENCE.as_secs());
        EndError::Missing(format!(
            "{server} does not answer for {seconds} s ({doing}): check that an iperf3 server listens there, with: iperf3 -s"
        ))
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

/// The test that a trial is for the server.
fn parameters(setup: &Setup) -> TestParameters {
    let (is_udp, writes) = (setup.transport().is_udp(), setup.iperf3_writes());
    let len = setup.write_size().filter(|_| is_udp || writes).map_or(BLOCK, |size| size as u64);
    // Per connection, in bits; the writer here keeps the load itself.
    let share = |rate: u64| rate.saturating_mul(8) / setup.flows().max(1) as u64;
    TestParameters {
        tcp: !is_udp,
        udp: is_udp,
        // The server ends the test a few seconds after this time if the client does not.
        time: (setup.warmup_ns + setup.window_ns).div_ceil(1_000_000_000) + 1,
        parallel: setup.flows() as u64,
        reverse: writes,
        len,
        bandwidth: setup.rate().filter(|_| writes).map_or(0, share),
        pacing_timer: 1000,
        udp_counters_64bit: is_udp.then_some(1),
        client_version: Some(concat!("bytegauge ", env!("CARGO_PKG_VERSION")).into()),
        ..TestParameters::default()
    }
}

/// The results of the end here, as the server shows them.
fn ours(report: &EndReport, seconds: f64, is_udp: bool, server_writes: bool) -> TestResults {
    let window = report.window_ns.max(1) as f64;
    let percent = |ns: u64| ns as f64 * 100.0 / window;
    let counts = !server_writes && !is_udp && report.flows.iter().any(|flow| flow.tcp.is_some());
    let streams = report.flows.iter().enumerate().map(|(index, flow)| {
        let datagrams = flow.datagrams.as_deref().copied().unwrap_or_default();
        let retransmits = flow.tcp.as_ref().and_then(|tcp| tcp.retransmits.get()).filter(|_| counts);
        StreamResult {
            id: stream_id(index),
            bytes: flow.total_bytes,
            retransmits: retransmits.unwrap_or(NOT_COUNTED),
            packets: datagrams.total.saturating_add(datagrams.missing),
            errors: datagrams.missing,
            end_time: seconds,
            ..StreamResult::default()
        }
    });
    TestResults {
        cpu_util_total: percent(report.cpu_time_ns()),
        cpu_util_user: percent(report.user_ns),
        cpu_util_system: percent(report.system_ns),
        sender_has_retransmits: if server_writes { NOT_COUNTED } else { counts.into() },
        streams: streams.collect(),
        ..TestResults::default()
    }
}

/// The server's results in the terms of a report.
fn summary(server: &TestResults, server_writes: bool, is_udp: bool) -> Iperf3Report {
    let total = |field: fn(&StreamResult) -> u64| server.streams.iter().map(field).fold(0, u64::saturating_add);
    let longest = server.streams.iter().map(|stream| stream.end_time - stream.start_time).fold(0.0, f64::max);
    let jitter = server.streams.iter().map(|stream| stream.jitter).fold(0.0, f64::max);
    let counts = server_writes && !is_udp && server.streams.iter().all(|stream| stream.retransmits != NOT_COUNTED);
    Iperf3Report {
        bytes: total(|stream| stream.bytes),
        duration_ns: (longest * 1e9) as u64,
        cpu_percent: server.cpu_util_total,
        retransmits: counts.then(|| total(|stream| stream.retransmits)),
        congestion: server.congestion_used.clone(),
        datagrams: is_udp.then(|| total(|stream| stream.packets)),
        lost: (is_udp && !server_writes).then(|| total(|stream| stream.errors)),
        jitter_ns: (is_udp && !server_writes).then_some((jitter * 1e9) as u64),
    }
}

/// Bytes of all connections by the server's count, which may be any number.
fn total_bytes(server: &TestResults) -> u64 {
    server.streams.iter().map(|stream| stream.bytes).fold(0, u64::saturating_add)
}

/// Compares the bytes of both ends. The reader may stop before the last bytes are read; it never has more than was written.
fn compared(report: &EndReport, server: &TestResults, server_writes: bool) -> Result<(), EndError> {
    let (ours, theirs) = (report.total_bytes, total_bytes(server));
    match server_writes {
        true if ours < theirs => {
            Err(EndError::Miscounted(format!("the iperf3 server wrote {theirs} bytes and {ours} arrived")))
        }
        false if theirs > ours => {
            Err(EndError::Miscounted(format!("{ours} bytes were written and the iperf3 server read {theirs}")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_any_size_are_summed() {
        let stream = StreamResult { bytes: u64::MAX, packets: u64::MAX, errors: u64::MAX, ..StreamResult::default() };
        let server = TestResults { streams: vec![stream.clone(), stream], ..TestResults::default() };
        let report = EndReport::default();
        for writes in [false, true] {
            assert!(matches!(compared(&report, &server, writes), Err(EndError::Miscounted(_))));
        }
        let summary = summary(&server, false, true);
        assert_eq!((summary.bytes, summary.datagrams, summary.lost), (u64::MAX, Some(u64::MAX), Some(u64::MAX)));
    }
}
