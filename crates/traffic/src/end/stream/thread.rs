//! A thread of an end of a stream: its flows, driven by an engine from the gate to the end of the window, and what it reports.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytegauge_model::{DatagramReport, EndCounts, Engine, EngineReport, FlowReport, SendFrom, Side, Tls, Transport};
use bytegauge_sys::buffer::AlignedBuffer;
use bytegauge_sys::socket_memory::drops;
use bytegauge_sys::{file, io as sys_io};

use crate::EndError;
use crate::call::ClientCounts;
use crate::datagram::{self, Packer, SinkReader, SourceLoop, handshake};
use crate::end::runner::{ThreadReport, meter};
use crate::end::stream::{self, DRAIN_SIZE, drain};
use crate::end::thread_group::{Flags, ThreadStart};
use crate::engine::{self, FlowMode, FlowStation, Station, Stop};
use crate::flow::{ConnectionEnd, Flow};
use crate::message::Body;
use crate::meter::Meter;
use crate::pace::Pace;
use crate::path::Shown;
use crate::planted_fault::PlantedFault;
use crate::setup::Setup;
use crate::stream::{Carried, SinkFlow, SourceFile, SourceFlow, Streams};
use crate::tls::session::Session;
use crate::tls::{self, TlsRole};
use crate::transport::options;

/// One thread's flows: one of them, or all.
pub(super) struct StreamThread {
    pub(super) setup: Arc<Setup>,
    pub(super) side: Side,
    pub(super) body: Body,
    pub(super) alone: bool,
    /// Whether its bytes go to the end that connected, in the second direction.
    pub(super) back: bool,
    pub(super) file: Option<Arc<SourceFile>>,
    pub(super) flows: Vec<(usize, Option<OwnedFd>)>,
}

/// Flows after a run.
struct MovedFlows<F, const PACED: bool> {
    meter: Meter,
    /// Whether the engine stopped because its time was up.
    in_time: bool,
    engine: Option<EngineReport>,
    fault: Option<EndError>,
    left: Vec<(Carried<F, PACED>, Option<OwnedFd>)>,
    /// The kernel's facts about each of them at the end of its loop, in the same order.
    rows: Vec<(usize, FlowReport)>,
    /// The session of the only flow, if a library encrypts it.
    session: Option<Session>,
}

impl StreamThread {
    pub(super) fn carry(self, start: ThreadStart<ThreadReport>) -> ThreadReport {
        let setup = Arc::clone(&self.setup);
        let back = self.back;
        let failed = |fault| ThreadReport { fault: Some(fault), ..ThreadReport::default() };
        let moves_datagrams = setup.transport().is_datagram() && setup.engine() != Engine::Null;
        let mut report = match self.side {
            Side::Source if moves_datagrams => write_datagrams(self, start).unwrap_or_else(failed),
            Side::Sink if moves_datagrams => read_datagrams(self, start).unwrap_or_else(failed),
            Side::Source if self.alone || setup.pace().is_free() => self.write::<false>(start),
            Side::Source => self.write::<true>(start),
            Side::Sink => self.read(start),
        };
        for (number, row) in report.rows.iter_mut().filter(|_| back) {
            // After the flows of the first direction.
            *number += setup.flows();
            row.back = true;
        }
        report
    }

    fn write<const PACED: bool>(self, mut start: ThreadStart<ThreadReport>) -> ThreadReport {
        let setup = Arc::clone(&self.setup);
        let (pace, size) = (self.setup.pace(), setup.write_size().unwrap_or(setup.read_size()));
        let until_stopped = !setup.is_external();
        let read_file = self.file.clone().filter(|_| setup.send_from() == SendFrom::File);
        let flow = |index| SourceFlow::new(&setup, index, size).reading(read_file.clone());
        let Some(moved) = self.drive::<_, PACED>(&mut start, flow, pace, until_stopped) else {
            return ThreadReport::default();
        };
        let MovedFlows { meter, engine, mut fault, left, mut rows, .. } = moved;
        for ((carried, _), (_, row)) in left.iter().zip(&mut rows) {
            row.total_bytes = carried.bytes;
            if carried.ended.is_some() {
                fault.get_or_insert_with(|| EndError::PeerGone("the sink takes no more data".into()));
            }
        }
        ThreadReport { fault, ..ThreadReport::of(meter, rows, engine) }
    }

    fn read(self, mut start: ThreadStart<ThreadReport>) -> ThreadReport {
        let (setup, body, back) = (Arc::clone(&self.setup), self.body, self.back);
        let flags = start.flags.clone();
        let page_cache_share = self.page_cache_share();
        let flow = |index| SinkFlow::new(&setup, index);
        let Some(moved) = self.drive::<_, false>(&mut start, flow, Pace::Free, false) else {
            return ThreadReport::default();
        };
        let MovedFlows { meter, in_time, engine, mut fault, mut left, mut rows, session } = moved;
        if in_time && setup.has_two_ends() {
            start.closed();
            let drained = drain(&mut left, session, DRAIN_SIZE.max(setup.read_size()), &flags);
            fault = fault.or(drained.err());
        }
        let (edges_ns, mut calls) = (meter.edges_ns(), None);
        for ((carried, fd), (_, row)) in left.into_iter().zip(&mut rows) {
            let fd = fd.as_ref().map(AsFd::as_fd);
            let found = end_of(&carried, &setup, body, &flags.abort).or_else(|| carried.flow.fault());
            if found.is_none() && fault.is_none() && setup.has_two_ends() {
                fault = fd.and_then(|fd| miscounted(&setup, back, fd, (carried.index, carried.bytes)));
            }
            fault = fault.or(found);
            row.total_bytes = carried.bytes;
            row.verified_bytes = carried.flow.verified_bytes();
            if page_cache_share.is_some() {
                Arc::make_mut(&mut row.options).page_cache_share = page_cache_share;
            }
            if let Some((urgent, edges_ns)) = carried.flow.urgent.zip(edges_ns) {
                urgent.add_to(edges_ns, calls.get_or_insert_with(|| ClientCounts::new(false, false)));
            }
        }
        ThreadReport { fault, calls, ..ThreadReport::of(meter, rows, engine) }
    }

    /// Waits at the gate and runs the engine; `None` if the trial was called off.
    fn drive<F: Flow + Send + 'static, const PACED: bool>(
        self,
        start: &mut ThreadStart<ThreadReport>,
        flow: impl Fn(usize) -> F,
        pace: Pace,
        until_stopped: bool,
    ) -> Option<MovedFlows<F, PACED>> {
        let unacknowledged =
            stream::watched(&self.setup, self.flows.iter().filter_map(|(_, fd)| fd.as_ref().map(AsFd::as_fd)));
        let StreamThread { setup, side, alone, flows, file, .. } = self;
        let flags = start.flags.clone();
        let Flags { abort, stop_requested, .. } = &flags;
        let mut rows = Vec::with_capacity(flows.len());
        let mut on_left = |carried: &Carried<F, PACED>, fd: Option<&OwnedFd>| {
            rows.push((carried.index, left(&setup, side, carried.ended.is_none(), fd.map(AsFd::as_fd), abort)));
        };
        let begin = |start: &mut ThreadStart<ThreadReport>| {
            // Both directions share one window.
            let flows = setup.flows_of_all_ways();
            let mut meter = meter(&setup, flows, until_stopped, (start.begin()?, &flags));
            meter.subtract_unacknowledged(unacknowledged);
            Some(meter)
        };
        let carried = |index| Carried::<F, PACED>::new(flow(index), index, pace);
        let mut session = None;
        let (meter, driven, left) = if alone {
            let (index, fd) = flows.into_iter().next()?;
            let mut carried = carried(index);
            // As long as one read. Engines that carry many flows in a thread have memory of their own.
            let mut buffer = AlignedBuffer::new(if side == Side::Sink { setup.read_size() } else { 0 });
            let encrypted = encrypted(&setup, side, fd.as_ref()).map(|begun| session = begun);
            let mut meter = begin(start)?;
            let fd_of_slot = fd.as_ref().map(AsFd::as_fd);
            let slot = FlowStation { fd: fd_of_slot, buffer: &mut buffer, pace, abort, stop_requested };
            let stopped = encrypted.and_then(|()| {
                let mode = session
                    .as_mut()
                    .map_or_else(|| mode(&setup, side, file.as_deref()), |session| Ok(FlowMode::Encrypted(session)));
                engine::run(mode?, &mut carried.flow, slot, &mut meter)
            });
            meter.close_early();
            carried.bytes = meter.total_bytes();
            match stopped {
                Ok((Stop::Ended(end), _)) => carried.ended = Some(end),
                Ok((Stop::Refused, _)) => carried.refused = true,
                _ => {}
            }
            on_left(&carried, fd.as_ref());
            (meter, stopped, vec![(carried, fd)])
        } else {
            let joined = flows.into_iter().filter_map(|(index, fd)| Some((carried(index), fd?))).collect();
            let mut party = Streams::new(joined, on_left);
            let mut meter = begin(start)?;
            let station = station(&setup, side, &flags);
            let driven = engine::drive(setup.engine(), &mut party, station, &mut meter);
            meter.close_early();
            (meter, driven.map(|(stop, engine)| (stop, Some(engine))), party.into_left())
        };
        let (in_time, engine, fault) = match driven {
            Ok((stop, engine)) => (stop == Stop::Time, engine, None),
            Err(fault) => (false, None, Some(fault)),
        };
        Some(MovedFlows { meter, in_time, engine, fault, left, rows, session })
    }

    /// The fraction of a regular file in the page cache: reading it measures memory, or a disk.
    fn page_cache_share(&self) -> Option<f64> {
        let Transport::Source(path) = self.setup.transport() else { return None };
        let metadata = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
        let (_, fd) = self.flows.first()?;
        file::cached_fraction(fd.as_ref()?.as_fd(), metadata.len()).ok()
    }
}

/// How the thread of a single flow moves its bytes, without a library that encrypts them.
fn mode<'s>(setup: &Setup, side: Side, file: Option<&'s SourceFile>) -> Result<FlowMode<'s>, EndError> {
    let is_on = |option: Option<bool>| option == Some(true);
    let sent = file.filter(|_| side == Side::Source && setup.send_from() == SendFrom::Sendfile);
    if let (Engine::Blocking, Some(file)) = (setup.engine(), sent) {
        return Ok(FlowMode::SendFile(file));
    }
    match (setup.engine(), side) {
        (Engine::Null, _) => Ok(FlowMode::Nothing),
        (Engine::Blocking, Side::Source) if is_on(setup.spec.zerocopy()) => Ok(FlowMode::ZeroCopy),
        (Engine::Blocking, Side::Sink) if is_on(setup.spec.inq()) => Ok(FlowMode::QueuedCounts),
        (Engine::Blocking, _) if matches!(setup.transport(), Transport::Source(_)) => Ok(FlowMode::Endless),
        (Engine::Blocking, _) => Ok(FlowMode::Usual),
        (engine, _) => Err(EndError::Impossible(format!("engine {engine} does not carry one flow alone"))),
    }
}

/// The settings of a thread that carries many flows.
fn station<'a>(setup: &Setup, side: Side, flags: &'a Flags) -> Station<'a> {
    Station {
        zero_copy: setup.spec.zerocopy() == Some(true) && side == Side::Source,
        ..Station::new(setup.read_size(), &flags.abort, &flags.stop_requested)
    }
}

/// The session of a flow whose bytes a library encrypts. Both ends make the handshake at the same time, before the window begins.
fn encrypted(setup: &Setup, side: Side, fd: Option<&OwnedFd>) -> Result<Option<Session>, EndError> {
    let role = if side == Side::Source { TlsRole::Client } else { TlsRole::Server };
    let role = tls::by_library(setup, role);
    role.zip(fd).map(|(role, fd)| Session::begin(fd.as_fd(), role)).transpose()
}

/// A flow leaves the engine, while others may still run: the kernel's facts about it. `is_whole`: its connection has not ended.
fn left(setup: &Setup, side: Side, is_whole: bool, fd: Option<BorrowedFd<'_>>, abort: &AtomicBool) -> FlowReport {
    if side == Side::Source && is_whole {
        stream::await_acknowledged(setup, fd, abort);
    }
    let report = fd.map(|fd| options::report(fd, setup)).unwrap_or_default();
    let ends_by_itself = setup.transport().is_socket() && !setup.is_with_iperf3();
    if let (Side::Source, Some(fd), true) = (side, fd, ends_by_itself) {
        // The sink drains each flow until its end of stream: it must arrive while other flows still send their
        // remaining bytes, and while this end still holds the socket.
        let _ = sys_io::shutdown(fd, std::net::Shutdown::Write);
    }
    report
}

/// Why a reader ended early, if it did.
fn end_of(carried: &Carried<SinkFlow, false>, setup: &Setup, body: Body, abort: &AtomicBool) -> Option<EndError> {
    match carried.ended {
        Some(ConnectionEnd::Eof) => {
            Some(EndError::PeerGone(format!("{} ended before the window did", setup.transport())))
        }
        Some(ConnectionEnd::Failed { errno, .. }) => {
            Some(EndError::io("moving bytes")(io::Error::from_raw_os_error(errno)))
        }
        Some(ConnectionEnd::Closed) | None if carried.refused => refused(carried.flow.planted_end, body, abort),
        Some(ConnectionEnd::Closed) | None => None,
    }
}

/// A flow ended itself: its data was wrong, or a fault was planted.
fn refused(planted_end: Option<PlantedFault>, body: Body, abort: &AtomicBool) -> Option<EndError> {
    match planted_end {
        Some(PlantedFault::Die(_)) if body == Body::Process => std::process::abort(),
        // Without the panic hook: the death is planned, and standard error belongs to the user.
        Some(PlantedFault::Die(_)) => std::panic::resume_unwind(Box::new("planted death")),
        Some(PlantedFault::Stall(_)) => {
            while !abort.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            None
        }
        _ => None,
    }
}

/// The kernel's count of bytes received by a TCP connection must equal ours (a FIN counts as one byte).
fn miscounted(setup: &Setup, back: bool, fd: BorrowedFd<'_>, (flow, ours): (usize, u64)) -> Option<EndError> {
    if !setup.transport().is_tcp() {
        return None;
    }
    let received = options::bytes_received(fd, setup.transport())?;
    // The end that connects sends a ticket.
    let received = received.saturating_sub(if back { 0 } else { setup.shown_len() });
    // Encrypted bytes are more, by what each record adds.
    let agrees = if setup.tls() == Tls::None { received == ours || received == ours + 1 } else { received > ours };
    (!agrees)
        .then(|| EndError::Miscounted(format!("flow {flow}: {ours} bytes were counted, the kernel reports {received}")))
}

// A flow of datagrams: prepared, started at the gate, ended, reported.

/// Prepares memory, waits at the gate, and writes the thread's flow.
fn write_datagrams(mut stream: StreamThread, mut start: ThreadStart<ThreadReport>) -> Result<ThreadReport, EndError> {
    let (index, number, fd) = flow(&mut stream)?;
    let (setup, fd) = (&*stream.setup, fd.as_fd());
    let (prepared, mut packer) = (datagram::sender(setup), Packer::new(setup, number));
    let flags = start.flags.clone();
    let run = run(fd, &flags);
    // The end that connected shows the ticket for another host.
    let shown = setup.shown_by(number).filter(|_| !setup.goes_back(number));
    let Some(began_ns) = begin(&mut start, fd, shown, prepared.is_ok()) else { return Ok(ThreadReport::default()) };
    let mut sender = prepared?;
    // The control connection has the begin and the end of a test with an iperf3 server.
    let (agrees, is_far) = (!setup.is_with_iperf3(), setup.far.is_some());
    let has_reader = !agrees || handshake::await_reader(run, shown.as_ref(), is_far);
    let mut meter = meter(setup, setup.flows_of_all_ways(), agrees, (began_ns, &flags));
    let mut sent = DatagramReport::default();
    let stopped = match has_reader {
        true => sender.run(&mut packer, run, setup.pace(), &mut meter, &mut sent),
        // Without a known reader nothing is sent, least of all to another host.
        false => Ok(Stop::Aborted),
    };
    sender.finish(run.abort);
    meter.close_early();
    if agrees && !matches!(stopped, Ok(Stop::Ended(_) | Stop::Aborted)) {
        // The sink must not wait for datagrams that cannot be sent.
        handshake::announce(fd, is_far, run.abort);
    }
    let sent = DatagramReport { total: packer.sent, ..sent };
    let row = row(fd, setup, (meter.total_bytes(), 0), sent, &meter);
    let fault = match stopped {
        Ok(Stop::Time | Stop::Aborted | Stop::Refused | Stop::Done) => None,
        Ok(Stop::Ended(_)) => Some(EndError::PeerGone("the sink's socket is closed".into())),
        Err(fault) => Some(fault),
    };
    Ok(ThreadReport { fault, ..ThreadReport::of(meter, vec![(index, row)], sender.engine()) })
}

/// The same for a flow that is read.
fn read_datagrams(mut stream: StreamThread, mut start: ThreadStart<ThreadReport>) -> Result<ThreadReport, EndError> {
    let (index, number, fd) = flow(&mut stream)?;
    let (setup, fd) = (&*stream.setup, fd.as_fd());
    let (prepared, mut reader) = (datagram::receiver(setup), SinkReader::new(setup, number));
    let flags = start.flags.clone();
    let run = run(fd, &flags);
    // If this end connected, it shows the ticket.
    let shown = setup.shown_by(number).filter(|_| setup.goes_back(number));
    let Some(began_ns) = begin(&mut start, fd, shown, prepared.is_ok()) else { return Ok(ThreadReport::default()) };
    let mut receiver = prepared?;
    let agrees = !setup.is_with_iperf3();
    match shown {
        _ if !agrees => {}
        Some(_) => handshake::begin_until_data(fd, run.abort),
        None => handshake::begin(fd, reader.shown.as_ref(), run.abort),
    }
    let mut meter = meter(setup, setup.flows_of_all_ways(), false, (began_ns, &flags));
    let stopped = receiver.run(&mut reader, run, &mut meter);
    meter.close_early();
    let fault = match stopped {
        Ok(Stop::Time) => {
            start.closed();
            if agrees {
                let drained = receiver.drain(&mut reader, run);
                handshake::answer(fd);
                drained.err()
            } else {
                None
            }
        }
        Ok(Stop::Aborted | Stop::Done | Stop::Ended(ConnectionEnd::Closed)) => None,
        Ok(Stop::Ended(ConnectionEnd::Eof)) => {
            handshake::answer(fd);
            Some(EndError::PeerGone(format!("{} ended before the window did", setup.transport())))
        }
        Ok(Stop::Ended(ConnectionEnd::Failed { errno, .. })) => {
            Some(EndError::io("receiving datagrams")(io::Error::from_raw_os_error(errno)))
        }
        Ok(Stop::Refused) => refused(reader.reader.planted_end, stream.body, &flags.abort),
        Err(fault) => Some(fault),
    };
    let fault = fault.or_else(|| reader.fault());
    let received = DatagramReport { socket_drops: drops(fd).ok(), ..reader.ledger.counts };
    let row = row(fd, setup, (reader.bytes, reader.verified_bytes), received, &meter);
    Ok(ThreadReport { fault, ..ThreadReport::of(meter, vec![(index, row)], receiver.engine()) })
}

/// The thread's flow by its number among those of its direction, and among all, with its socket.
fn flow(stream: &mut StreamThread) -> Result<(usize, usize, OwnedFd), EndError> {
    let Some((index, Some(fd))) = stream.flows.pop() else {
        return Err(EndError::Impossible("datagrams need a socket".into()));
    };
    Ok((index, if stream.back { stream.setup.flows() + index } else { index }, fd))
}

/// Waits at the gate. An end that connected to another host sends its ticket meanwhile, until it is admitted, which it learns only
/// when the stream begins.
fn begin(
    start: &mut ThreadStart<ThreadReport>,
    fd: BorrowedFd<'_>,
    shown: Option<Shown>,
    is_prepared: bool,
) -> Option<u64> {
    match shown.filter(|_| is_prepared) {
        Some(shown) => start.begin_doing(handshake::TICKET_INTERVAL, || handshake::send_ticket(fd, &shown)),
        None => start.begin(),
    }
}

fn run<'a>(fd: BorrowedFd<'a>, flags: &'a Flags) -> SourceLoop<'a> {
    SourceLoop { fd, abort: &flags.abort, stop_requested: &flags.stop_requested, limit: flags.limit.as_deref() }
}

/// The row of a flow: bytes of its whole life, and those that were compared; the counts of its window, and the kernel's facts about the
/// socket.
fn row(
    fd: BorrowedFd<'_>,
    setup: &Setup,
    (total_bytes, verified_bytes): (u64, u64),
    all: DatagramReport,
    meter: &Meter,
) -> FlowReport {
    let window = meter.window();
    let counts = EndCounts { total_bytes, verified_bytes, ..EndCounts::default() };
    let datagrams = DatagramReport { datagrams: window.datagrams, packets: window.packets, ..all };
    FlowReport { tcp: None, counts, datagrams: Some(Box::new(datagrams)), ..options::report(fd, setup) }
}
