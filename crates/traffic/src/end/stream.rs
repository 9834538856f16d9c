//! An end of a stream: a thread per flow, or one thread for all of them, depending on the engine.
//!
//! If flows share a thread, the first one has its counters; every flow has its own bytes, its end, and the kernel's facts about
//! it.

mod drain;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytegauge_model::catalog::EngineEnd;
use bytegauge_model::{EndRole, Engine, EngineReport, FdTable, FlowReport, SendFrom, Side, Tls, Transport, Work};
use bytegauge_sys::buffer::AlignedBuffer;
use bytegauge_sys::{descriptor_table, file, io as sys_io};

use crate::address::Address;
use crate::datagram::cut_size;
use crate::end::peer::{Body, Peer};
use crate::end::plan::{EndPlan, LARGE_STACK, SMALL_STACK};
use crate::end::runner::{self, EndResult, ThreadReport, meter, overcount, summed};
use crate::end::server::own_table_without_sqpoll;
use crate::end::stream::drain::{DRAIN_SIZE, drain, drain_session};
use crate::end::thread_group::{EndThread, Flags, ThreadResults, ThreadStart};
use crate::end::{datagram, external};
use crate::end_error::EndError;
use crate::engine::{self, FlowMode, FlowStation, Station, Stop};
use crate::flow::{ConnectionEnd, Flow};
use crate::iperf3;
use crate::message::Reply;
use crate::meter::Meter;
use crate::pace::Pace;
use crate::planted_fault::PlantedFault;
use crate::setup::Setup;
use crate::stream::{
    Carried, CopyOut, Discard, ReaderWork, SinkFlow, SourceFile, SourceFlow, SpinPerByte, SpinPerRead, Streams, Sum,
};
use crate::tls::session::Session;
use crate::tls::{self, TlsRole};
use crate::transport::datagram::{cut_sends, join_segments, turn};
use crate::transport::source::Alone;
use crate::transport::{Joint, Listening, joint, kernel};

/// One end of a stream, connected to the other.
struct StreamEnd {
    setup: Arc<Setup>,
    role: EndRole,
    body: Body,
    /// By flow, and with bytes in both directions by flow once more, for the other direction; absent in the null engine, or if
    /// a thread has it.
    fds: Vec<Option<OwnedFd>>,
    /// The test that this is for an iperf3 server.
    iperf3: Option<iperf3::Iperf3Session>,
    /// The file of its writers, if they have one.
    file: Option<Arc<SourceFile>>,
    /// Held until `Go`: a pipe keeps its name until the source has opened it too.
    _listening: Option<Box<dyn Listening>>,
}

impl StreamEnd {
    /// Connects the ends. `Ok(None)` if the channel was closed before its first reply.
    fn open(
        peer: &mut impl Peer,
        role: EndRole,
        setup: &Arc<Setup>,
        address: Option<&Address>,
        body: Body,
    ) -> Result<Option<StreamEnd>, EndError> {
        let (transport, engine) = (setup.transport(), setup.engine());
        if !engine.carries(EngineEnd::Stream, transport) {
            return Err(EndError::Missing(format!("engine {engine} does not carry {transport}: use another --engine")));
        }
        own_table_without_sqpoll(setup.fd_table(), engine)?;
        tls::fit(setup)?;
        let file = SourceFile::of(setup)?;
        if setup.spec.zerocopy_receive() == Some(true) && setup.spec.inq() == Some(true) {
            let why =
                "a reader that maps its bytes gets no count of queued ones: leave out --inq or --zerocopy-receive";
            return Err(EndError::Missing(why.into()));
        }
        let joins = setup.has_two_ends() || setup.is_external();
        let joint: &dyn Joint = if joins { joint(transport) } else { lone(setup) };
        let mut listening = None;
        let mut iperf3 = None;
        let fds = match (role.side(), address) {
            (_, Some(Address::Iperf3(server))) => {
                let (session, fds) = iperf3::Iperf3Session::open(*server, setup)?;
                iperf3 = Some(session);
                fds
            }
            (Side::Sink, _) => {
                let listener = listening.insert(joint.listen(setup)?);
                if !peer.reply(Reply::Listening(listener.address())) {
                    return Ok(None);
                }
                let accepted = listener.accept(setup)?;
                if setup.shares_port() {
                    // All expected connections are here: the agent gets its port back.
                    listening = None;
                }
                accepted
            }
            (Side::Source, Some(address)) => joint.connect(address, setup)?,
            (Side::Source, None) => return Err(EndError::Impossible("a source was opened without an address".into())),
        };
        for (flow, fd) in fds.iter().enumerate().filter(|_| transport.is_datagram()) {
            let back = setup.goes_back(flow);
            let side = if back { role.side().other() } else { role.side() };
            if back {
                turn(fd, side, setup)?;
            }
            match side {
                Side::Sink if engine == Engine::Gso => join_segments(fd.as_fd())?,
                Side::Sink => {}
                Side::Source => cut_size(setup).map_or(Ok(()), |size| cut_sends(fd.as_fd(), size))?,
            }
        }
        let mut fds: Vec<Option<OwnedFd>> = fds.into_iter().map(Some).collect();
        fds.resize_with(setup.joined(), || None);
        if setup.goes_both_ways() && !setup.has_sockets_each_way() {
            let twice = fds.iter().map(|fd| fd.as_ref().map(OwnedFd::try_clone).transpose());
            let twice = twice.collect::<io::Result<Vec<_>>>().map_err(EndError::io("duplicating a connection"))?;
            fds.extend(twice);
        }
        Ok(Some(StreamEnd { setup: Arc::clone(setup), role, body, fds, iperf3, file, _listening: listening }))
    }

    /// Threads with the same task.
    fn threads(&self) -> usize {
        if carries_many(&self.setup) { 1 } else { self.setup.flows() }
    }
}

/// Without a source the sink is alone: it reads a device or a file, or moves nothing at all.
fn lone(setup: &Setup) -> &'static dyn Joint {
    if setup.transport().two_ended() { &Alone } else { joint(setup.transport()) }
}

/// Whether one thread drives all flows.
fn carries_many(setup: &Setup) -> bool {
    setup.engine() != Engine::Null && !setup.engine().has_thread_a_flow() && !setup.transport().is_datagram()
}

/// Runs a trial of a source or a sink. `Ok(None)` if it was called off.
pub(super) fn run(
    peer: &mut impl Peer,
    role: EndRole,
    setup: &Arc<Setup>,
    address: Option<&Address>,
    body: Body,
) -> Result<Option<EndResult>, EndError> {
    let Some(mut end) = StreamEnd::open(peer, role, setup, address, body)? else { return Ok(None) };
    let results = runner::run(peer, &end.plan(), |thread, _| end.thread(thread))?;
    Ok(results.map(|results| end.report(results)))
}

impl StreamEnd {
    fn plan(&self) -> EndPlan {
        let Setup { warmup_ns, window_ns, grace_ns, .. } = *self.setup;
        let (threads, both, writes) = (self.threads(), self.setup.goes_both_ways(), self.role.side() == Side::Source);
        // An external server sends no report, so the writer measures.
        let until_stopped = writes && !both && !self.setup.is_external();
        let readers = if writes { threads..2 * threads } else { 0..threads };
        let all = threads * if both { 2 } else { 1 };
        let what = doing(&self.setup, self.role.side());
        let cpus = (0..all).map(|thread| self.setup.cpu(self.role, thread % threads)).collect();
        EndPlan {
            stack: if carries_many(&self.setup) || self.setup.tls() == Tls::Rustls { LARGE_STACK } else { SMALL_STACK },
            own_tables: self.setup.fd_table() == FdTable::Private,
            waits: !self.setup.pace().is_free(),
            until_stopped,
            patience_ns: if until_stopped { 0 } else { warmup_ns + window_ns } + grace_ns,
            windowed: both.then_some(readers),
            bound: self.setup.bound,
            ..EndPlan::of(what, self.role.name(), cpus, "--flows")
        }
    }

    fn thread(&mut self, thread: usize) -> EndThread<ThreadReport> {
        let (alone, flows) = (!carries_many(&self.setup), self.setup.flows());
        let (back, number) = (thread >= self.threads(), thread % self.threads());
        let numbers = if alone { number..number + 1 } else { 0..flows };
        let first = if back { flows } else { 0 };
        let flows: Vec<_> = numbers.map(|flow| (flow, self.fds[first + flow].take())).collect();
        let numbers = flows.iter().filter_map(|(_, fd)| Some(descriptor_table::number(fd.as_ref()?.as_fd())));
        let descriptors = numbers.collect();
        let side = if back { self.role.side().other() } else { self.role.side() };
        let (setup, file) = (Arc::clone(&self.setup), self.file.clone());
        let stream = StreamThread { setup, side, body: self.body, alone, back, file, flows };
        EndThread::new(descriptors, move |start| stream.carry(start))
    }

    fn report(self, results: ThreadResults<ThreadReport>) -> EndResult {
        let (mut report, mut fault) = summed(results);
        overcount(&mut report, self.setup.planted(), self.role.side());
        if let (Some(session), None) = (self.iperf3, &fault) {
            fault = session.finish(&mut report).err();
        }
        EndResult { report, fault, ..EndResult::default() }
    }
}

/// One thread's flows: one of them, or all.
pub(super) struct StreamThread {
    pub(super) setup: Arc<Setup>,
    pub(super) side: Side,
    pub(super) body: Body,
    alone: bool,
    /// Whether its bytes go to the end that connected, in the second direction.
    pub(super) back: bool,
    file: Option<Arc<SourceFile>>,
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
    fn carry(self, start: ThreadStart<ThreadReport>) -> ThreadReport {
        let setup = Arc::clone(&self.setup);
        let back = self.back;
        // The loop is compiled for each kind of work.
        let mut report = match (self.side, setup.work(), setup.slowdown_ns) {
            (Side::Source, ..) if self.moves_datagrams() => {
                datagram::write(self, start).unwrap_or_else(ThreadReport::failed)
            }
            (Side::Source, ..) if self.alone || self.setup.pace().is_free() => self.write::<false>(start),
            (Side::Source, ..) => self.write::<true>(start),
            (Side::Sink, _, Some(ns)) => self.read(start, || SpinPerRead(ns)),
            (Side::Sink, Work::None, None) => self.read(start, || Discard),
            (Side::Sink, Work::Sum, None) => self.read(start, Sum::default),
            (Side::Sink, Work::Copy, None) => self.read(start, || CopyOut::new(setup.read_size())),
            (Side::Sink, Work::NsPerByte(ns), None) => self.read(start, || SpinPerByte(ns)),
        };
        for (number, row) in report.rows.iter_mut().filter(|_| back) {
            // After the flows of the first direction.
            *number += setup.flows();
            row.back = true;
        }
        report
    }

    fn moves_datagrams(&self) -> bool {
        self.setup.transport().is_datagram() && self.setup.engine() != Engine::Null
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

    fn read<E: ReaderWork + 'static>(
        self,
        mut start: ThreadStart<ThreadReport>,
        effort: impl Fn() -> E,
    ) -> ThreadReport {
        if self.moves_datagrams() {
            return datagram::read(self, start, effort()).unwrap_or_else(ThreadReport::failed);
        }
        let (setup, body, back) = (Arc::clone(&self.setup), self.body, self.back);
        let flags = start.flags.clone();
        let page_cache_share = self.page_cache_share();
        let flow = |index| SinkFlow::new(&setup, index, effort());
        let Some(moved) = self.drive::<_, false>(&mut start, flow, Pace::Free, false) else {
            return ThreadReport::default();
        };
        let MovedFlows { meter, in_time, engine, mut fault, mut left, mut rows, session } = moved;
        if in_time && setup.has_two_ends() {
            start.closed();
            let drained = match (session, left.first_mut()) {
                (Some(session), Some(flow)) => drain_session(flow, session, &flags),
                _ => drain(&mut left, DRAIN_SIZE.max(setup.read_size()), &flags),
            };
            fault = fault.or(drained.err());
        }
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
        }
        ThreadReport { fault, ..ThreadReport::of(meter, rows, engine) }
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
            external::watched(&self.setup, self.flows.iter().filter_map(|(_, fd)| fd.as_ref().map(AsFd::as_fd)));
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
        (Engine::Blocking, Side::Sink) if is_on(setup.spec.zerocopy_receive()) => Ok(FlowMode::Mapped),
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
        epoll_busy_poll_ns: setup.spec.epoll_busy_poll().filter(|_| side == Side::Sink),
        min_wait_ns: setup.spec.min_wait().filter(|_| side == Side::Sink),
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
        external::await_acknowledged(setup, fd, abort);
    }
    let report = fd.map(|fd| kernel::report(fd, setup)).unwrap_or_default();
    let ends_by_itself = setup.transport().is_socket() && !setup.is_with_iperf3();
    if let (Side::Source, Some(fd), true) = (side, fd, ends_by_itself) {
        // The sink drains each flow until its end of stream: it must arrive while other flows still send their
        // remaining bytes, and while this end still holds the socket.
        let _ = sys_io::shutdown(fd, std::net::Shutdown::Write);
    }
    report
}

/// Why a reader ended early, if it did.
fn end_of<E: ReaderWork>(
    carried: &Carried<SinkFlow<E>, false>,
    setup: &Setup,
    body: Body,
    abort: &AtomicBool,
) -> Option<EndError> {
    match carried.ended {
        Some(ConnectionEnd::Eof) => {
            Some(EndError::PeerGone(format!("{} ended before the window did", setup.transport())))
        }
        Some(ConnectionEnd::Failed { errno, .. }) => {
            Some(EndError::io("moving bytes")(io::Error::from_raw_os_error(errno)))
        }
        Some(ConnectionEnd::Closed) | None if carried.refused => refused(carried.flow.planted_end(), body, abort),
        Some(ConnectionEnd::Closed) | None => None,
    }
}

/// A flow ended itself: its data was wrong, or a fault was planted.
pub(super) fn refused(planted_end: Option<PlantedFault>, body: Body, abort: &AtomicBool) -> Option<EndError> {
    match planted_end {
        Some(PlantedFault::Die { .. }) if body == Body::Process => std::process::abort(),
        // Without the panic hook: the death is planned, and standard error belongs to the user.
        Some(PlantedFault::Die { .. }) => std::panic::resume_unwind(Box::new("planted death")),
        Some(PlantedFault::Stall { .. }) => {
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
    let received = kernel::bytes_received(fd, setup.transport())?;
    // The end that connects sends a ticket.
    let received = received.saturating_sub(if back { 0 } else { setup.shown_len() });
    // Encrypted bytes are more, by what each record adds.
    let agrees = if setup.tls() == Tls::None { received == ours || received == ours + 1 } else { received > ours };
    (!agrees)
        .then(|| EndError::Miscounted(format!("flow {flow}: {ours} bytes were counted, the kernel reports {received}")))
}

/// A description of an end's work, for the watchdog.
fn doing(setup: &Setup, side: Side) -> String {
    match (side, setup.is_external()) {
        (Side::Source, true) => format!(
            "writing to a server over {} that takes nothing more (does it read? or does it wait for a reader of the bytes that \
             it sends?)",
            setup.transport()
        ),
        (Side::Source, false) => format!("writing to {}", setup.transport()),
        (Side::Sink, _) => format!("reading from {}", setup.transport()),
    }
}
