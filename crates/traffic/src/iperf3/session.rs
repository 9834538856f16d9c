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
use serde_json::{Value, json};

use super::STREAMS_MAX;
use super::client::{self, ControlConnection};
use super::message::{NOT_COUNTED, StreamResult, TestResults, stream_id};
use crate::EndError;
use crate::setup::Setup;

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

/// Checks that an iperf3 server at an address accepts a test, without starting one.
///
/// # Errors
/// [`EndError::Missing`] with the next step if it does not.
pub fn reach(server: SocketAddr) -> Result<(), EndError> {
    ControlConnection::open(server, false).map(drop)
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
        let mut control = ControlConnection::open(server, true)?;
        control.await_streams(&parameters(setup))?;
        let side = if setup.iperf3_writes() { Side::Sink } else { Side::Source };
        let fds = (0..flows).map(|_| client::connection(&server, &control.cookie, setup, side));
        let fds = fds.collect::<Result<Vec<OwnedFd>, EndError>>()?;
        let duplicates = fds.iter().map(|fd| fd.try_clone().map(Some));
        let data = duplicates.collect::<io::Result<_>>().map_err(EndError::io("duplicating a connection"))?;
        control.await_data()?;
        let (server_writes, is_udp) = (side == Side::Sink, setup.transport().is_udp());
        Ok((Iperf3Session { control, data, server_writes, is_udp, began: Instant::now() }, fds))
    }

    /// Ends the test: reads the data that is still on its way, adds it to the report, and exchanges results.
    ///
    /// # Errors
    /// [`EndError::Missing`] or [`EndError::PeerGone`] if the server does not report; [`EndError::Miscounted`] if data is missing.
    pub(crate) fn finish(mut self, report: &mut EndReport) -> Result<(), EndError> {
        let seconds = self.began.elapsed().as_secs_f64();
        self.control.end()?;
        let deadline = self.control.deadline;
        while !self.read_data(report, true, deadline)? {
            if Instant::now() >= deadline {
                return Err(self.control.late());
            }
        }
        let ours = ours(report, seconds, self.is_udp, self.server_writes);
        let server = self.control.exchange(&ours)?;
        // When the server has closed its side, it accepts the next test at once.
        let _ = socket::wait(self.control.as_fd(), Until::PeerShut, LAST_DATA.as_nanos() as u64);
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

    /// Waits for data that is not measured, reads once from each connection that has some, and counts the bytes. With `control`, waits
    /// for the control connection too, and returns whether that can be read. A connection that has ended is not asked again.
    fn read_data(&mut self, report: &mut EndReport, control: bool, deadline: Instant) -> Result<bool, EndError> {
        let mut scratch = [0; DRAIN_SIZE];
        let reads = self.server_writes;
        let data = self.data.iter().flatten().filter(|_| reads).map(AsFd::as_fd);
        let fds: Vec<BorrowedFd<'_>> = control.then(|| self.control.as_fd()).into_iter().chain(data).collect();
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

/// The test that a trial is for the server.
fn parameters(setup: &Setup) -> Value {
    let (is_udp, writes) = (setup.transport().is_udp(), setup.iperf3_writes());
    let len = setup.write_size().filter(|_| is_udp || writes).map_or(BLOCK, |size| size as u64);
    // Per connection, in bits; the writer here keeps the load itself.
    let share = |rate: u64| rate.saturating_mul(8) / setup.flows().max(1) as u64;
    let mut parameters = json!({
        (if is_udp { "udp" } else { "tcp" }): true,
        "omit": 0,
        // The server ends the test a few seconds after this time if the client does not.
        "time": (setup.warmup_ns + setup.window_ns).div_ceil(1_000_000_000) + 1,
        // Not limited by bytes or blocks.
        "num": 0,
        "blockcount": 0,
        "parallel": setup.flows(),
        // The server's reads and writes, or datagrams, bytes.
        "len": len,
        "bandwidth": setup.rate().filter(|_| writes).map_or(0, share),
        // How often a paced writer looks at the clock, microseconds.
        "pacing_timer": 1000,
        "client_version": concat!("bytegauge ", env!("CARGO_PKG_VERSION")),
    });
    if writes {
        parameters["reverse"] = true.into();
    }
    if is_udp {
        // Counters of eight bytes instead of four.
        parameters["udp_counters_64bit"] = 1.into();
    }
    parameters
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
    use std::collections::BTreeMap;

    use super::*;

    /// The parameters of `iperf3 -c HOST -t 1 -b 64K -l 2K -P 2`, version 3.12.
    const SEEN: &str = r#"{"tcp":true,"omit":0,"time":1,"num":0,"blockcount":0,"parallel":2,"len":2048,"bandwidth":64000,"pacing_timer":1000,"client_version":"3.12"}"#;

    #[test]
    fn parameters_have_the_form_that_was_observed() {
        let of = |transport: &str, more: &[(&'static str, bytegauge_model::Level)]| {
            let levels = [("transport", transport.into()), ("read_size", 64.into()), ("write_size", 64.into())];
            let spec: bytegauge_model::Spec = levels.into_iter().chain(more.iter().cloned()).collect();
            parameters(&Setup::of(&spec).unwrap())
        };
        let (ours, seen) = (of("tcp", &[]), serde_json::from_str::<Value>(SEEN).unwrap());
        let kinds = |of: &Value| -> BTreeMap<String, [bool; 3]> {
            let fields = of.as_object().unwrap().iter();
            fields
                .map(|(name, value)| (name.clone(), [value.is_boolean(), value.is_u64(), value.is_string()]))
                .collect()
        };
        assert_eq!(kinds(&ours), kinds(&seen));
        assert_eq!((&ours["parallel"], &ours["len"]), (&1.into(), &BLOCK.into()));
        let datagrams = of("udp", &[]);
        assert_eq!((&datagrams["udp"], &datagrams["udp_counters_64bit"]), (&true.into(), &1.into()), "{datagrams}");
        assert_eq!((datagrams.get("tcp"), ours.get("udp"), ours.get("reverse")), (None, None, None));
        let connect = ("connect", bytegauge_model::Level::from("iperf3://127.0.0.1"));
        assert_eq!(of("tcp", &[connect, ("role", "reader".into())])["reverse"], true);
    }

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
