//! An end of a stream: a thread a flow, or one thread for all of them, as the engine has it.
//!
//! Where flows share a thread, its counters stand with the first; every flow has its own bytes, its end, and what the
//! kernel says of it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytegauge_model::catalog::EngineEnd;
use bytegauge_model::{EndRole, Engine, EngineReport, FlowReport, Transport};
use bytegauge_sys::buffer::AlignedBuffer;
use bytegauge_sys::{file, io as sys_io, tcp_info};

use crate::address::Address;
use crate::end::crew::{Flags, LARGE_STACK, Left, Post, Roster, SMALL_STACK};
use crate::end::duty::{Duty, Ended, Hand, Lasting, Part, meter, overcount, summed};
use crate::end::peer::{Body, Peer};
use crate::end::{datagram, foreign};
use crate::engine::{self, Slot, Station, Stop};
use crate::fault::Fault;
use crate::flow::{End, Flow};
use crate::message::Reply;
use crate::meter::Meter;
use crate::pace::Pace;
use crate::path::PathSetup;
use crate::plant::Plant;
use crate::setup::Setup;
use crate::stream::{Carried, Effort, SinkFlow, SourceFlow, StreamSetup, Streams, WithEffort, with_effort};
use crate::transport::datagram::join_segments;
use crate::transport::source::Alone;
use crate::transport::{Joint, Listening, joint, kernel};
use bytegauge_model::Side;

/// Buffer of what is drained after the window: large, since it is not measured.
const DRAIN_SIZE: usize = 256 << 10;

/// One end of a stream, joined to the other.
pub(super) struct StreamEnd {
    setup: Arc<Setup<StreamSetup>>,
    role: EndRole,
    body: Body,
    /// By flow; absent where nothing moves, or taken by a thread.
    fds: Vec<Option<OwnedFd>>,
    /// Held until `Go`: a pipe keeps its name until the source, too, has opened it.
    _listening: Option<Box<dyn Listening>>,
}

impl StreamEnd {
    /// Joins the ends. `Ok(None)` when nobody listens to its first word.
    pub(super) fn open(
        peer: &mut impl Peer,
        role: EndRole,
        setup: &Arc<Setup<StreamSetup>>,
        address: Option<&Address>,
        body: Body,
    ) -> Result<Option<StreamEnd>, Fault> {
        let StreamSetup { path, engine, .. } = &setup.task;
        let transport = &path.transport;
        if !engine.carries(EngineEnd::Stream, transport) {
            return Err(Fault::Missing(format!("engine {engine} does not carry {transport}: use another --engine")));
        }
        let joins = setup.task.has_two_ends() || path.foreign.is_some();
        let joint: &dyn Joint = if joins { joint(transport) } else { lone(path) };
        let mut listening = None;
        let fds = match (role.side(), address) {
            (Side::Sink, _) => {
                let listener = listening.insert(joint.listen(path)?);
                if !peer.reply(Reply::Listening(listener.address())) {
                    return Ok(None);
                }
                let accepted = listener.accept(path)?;
                if *engine == Engine::Gso {
                    accepted.iter().try_for_each(|fd| join_segments(fd.as_fd()))?;
                }
                if path.shares_port() {
                    // All who are expected are here: the agent has its port back.
                    listening = None;
                }
                accepted
            }
            (Side::Source, Some(address)) => joint.connect(address, path)?,
            (Side::Source, None) => return Err(Fault::Impossible("a source was opened without an address".into())),
        };
        let mut fds: Vec<Option<OwnedFd>> = fds.into_iter().map(Some).collect();
        fds.resize_with(path.flows, || None);
        Ok(Some(StreamEnd { setup: Arc::clone(setup), role, body, fds, _listening: listening }))
    }
}

/// Without a source the sink is alone: it reads a device or a file, or moves nothing at all.
fn lone(path: &PathSetup) -> &'static dyn Joint {
    if path.transport.two_ended() { &Alone } else { joint(&path.transport) }
}

/// Whether one thread carries all flows.
fn carries_many(stream: &StreamSetup) -> bool {
    stream.engine != Engine::Null && !stream.engine.has_thread_a_flow() && !stream.path.transport.is_datagram()
}

impl Duty for StreamEnd {
    type Hand = StreamHand;

    fn roster(&self) -> Roster {
        let many = carries_many(&self.setup.task);
        let threads = if many { 1 } else { self.setup.task.path.flows };
        Roster {
            what: doing(&self.setup.task.path, self.role.side()),
            name: self.role.name(),
            cpus: (0..threads).map(|thread| self.setup.cpu(self.role, thread)).collect(),
            fewer: "--flows",
            stack: if many { LARGE_STACK } else { SMALL_STACK },
        }
    }

    fn hand(&mut self, thread: usize, _flags: &Flags) -> StreamHand {
        let alone = !carries_many(&self.setup.task);
        let numbers = if alone { thread..thread + 1 } else { 0..self.fds.len() };
        let flows = numbers.map(|flow| (flow, self.fds[flow].take())).collect();
        StreamHand { setup: Arc::clone(&self.setup), side: self.role.side(), body: self.body, alone, flows }
    }

    fn lasting(&self) -> Lasting {
        let Setup { warmup_ns, window_ns, grace_ns, .. } = *self.setup;
        // Of a server that is not ours nobody says when it is enough: the writer measures.
        let until_told = self.role.side() == Side::Source && self.setup.task.path.foreign.is_none();
        Lasting { until_told, patience_ns: if until_told { 0 } else { warmup_ns + window_ns } + grace_ns }
    }

    fn report(self, left: Left<Part>) -> Ended {
        let (mut report, fault) = summed(left);
        overcount(&mut report, self.setup.plant, self.role.side());
        Ended { report, fault, ..Ended::default() }
    }
}

/// One thread's flows: one of them, or all.
pub(super) struct StreamHand {
    pub(super) setup: Arc<Setup<StreamSetup>>,
    pub(super) side: Side,
    pub(super) body: Body,
    alone: bool,
    pub(super) flows: Vec<(usize, Option<OwnedFd>)>,
}

/// Flows that were carried.
struct Moved<F, const PACED: bool> {
    meter: Meter,
    /// Whether the engine stopped because its time was up.
    in_time: bool,
    engine: Option<EngineReport>,
    fault: Option<Fault>,
    left: Vec<(Carried<F, PACED>, Option<OwnedFd>)>,
    /// What the kernel said of each of them when its loop was over, in the same order.
    rows: Vec<(usize, FlowReport)>,
}

impl Hand for StreamHand {
    type Part = Part;

    fn carry(self, post: Post<Part>) -> Part {
        let setup = Arc::clone(&self.setup);
        let StreamSetup { path, engine, .. } = &setup.task;
        if path.transport.is_datagram() && *engine != Engine::Null {
            return datagram::carry(self, post);
        }
        match self.side {
            Side::Source if self.alone || self.pace().is_free() => self.write::<false>(post),
            Side::Source => self.write::<true>(post),
            Side::Sink => with_effort(path.work, path.read_size, Reading { hand: self, post }),
        }
    }
}

/// A sink's thread, to be compiled for each kind of work.
struct Reading {
    hand: StreamHand,
    post: Post<Part>,
}

impl WithEffort for Reading {
    type Out = Part;

    fn with<E: Effort + 'static>(self, effort: impl Fn() -> E) -> Part {
        self.hand.read(self.post, effort)
    }
}

impl StreamHand {
    fn pace(&self) -> Pace {
        let StreamSetup { path, rate, .. } = &self.setup.task;
        Pace::of(*rate, path.flows, path.think_ns)
    }

    fn write<const PACED: bool>(self, mut post: Post<Part>) -> Part {
        let setup = Arc::clone(&self.setup);
        let (pace, size) = (self.pace(), setup.task.write_size.unwrap_or(setup.task.path.read_size));
        let until_told = setup.task.path.foreign.is_none();
        let flow = |index| SourceFlow::new(&setup, index, size);
        let Some(moved) = self.drive::<_, PACED>(&mut post, flow, pace, until_told) else { return Part::default() };
        let Moved { meter, engine, mut fault, left, mut rows, .. } = moved;
        for ((carried, _), (_, row)) in left.iter().zip(&mut rows) {
            row.total_bytes = carried.bytes;
            if carried.ended.is_some() {
                fault.get_or_insert_with(|| Fault::PeerGone("the sink takes no more data".into()));
            }
        }
        Part { fault, ..Part::of(meter, rows, engine) }
    }

    fn read<E: Effort + 'static>(self, mut post: Post<Part>, effort: impl Fn() -> E) -> Part {
        let (setup, body) = (Arc::clone(&self.setup), self.body);
        let abort = Arc::clone(&post.flags.abort);
        let mut scratch = if setup.task.has_two_ends() { vec![0; DRAIN_SIZE] } else { Vec::new() };
        let page_cache_share = self.page_cache_share();
        let flow = |index| SinkFlow::new(&setup, index, effort());
        let Some(moved) = self.drive::<_, false>(&mut post, flow, Pace::Free, false) else { return Part::default() };
        let Moved { meter, in_time, engine, mut fault, left, mut rows } = moved;
        let drains = in_time && setup.task.has_two_ends();
        if drains {
            post.closed();
        }
        for ((mut carried, fd), (_, row)) in left.into_iter().zip(&mut rows) {
            let fd = fd.as_ref().map(AsFd::as_fd);
            let drained = match fd {
                Some(fd) if drains && carried.ended.is_none() && !carried.refused => {
                    drain(fd, &mut carried, &mut scratch, &abort)
                }
                _ => Ok(()),
            };
            let found =
                drained.err().or_else(|| end_of(&carried, &setup, body, &abort)).or_else(|| carried.flow.fault());
            if found.is_none() && fault.is_none() && setup.task.has_two_ends() {
                fault = fd.and_then(|fd| miscounted(&setup.task.path, fd, carried.index, carried.bytes));
            }
            fault = fault.or(found);
            row.total_bytes = carried.bytes;
            row.verified_bytes = carried.flow.verified_bytes();
            row.options.page_cache_share = page_cache_share;
        }
        Part { fault, ..Part::of(meter, rows, engine) }
    }

    /// Waits at the gate and lets the engine carry; `None` if the trial was called off.
    fn drive<F: Flow + Send + 'static, const PACED: bool>(
        self,
        post: &mut Post<Part>,
        flow: impl Fn(usize) -> F,
        pace: Pace,
        until_told: bool,
    ) -> Option<Moved<F, PACED>> {
        let StreamHand { setup, side, alone, flows, .. } = self;
        let StreamSetup { path, engine, .. } = &setup.task;
        let unacknowledged = foreign::watched(path, flows.iter().filter_map(|(_, fd)| fd.as_ref().map(AsFd::as_fd)));
        let Flags { abort, told } = post.flags.clone();
        let mut rows = Vec::with_capacity(flows.len());
        let mut farewell = |carried: &Carried<F, PACED>, fd: Option<&OwnedFd>| {
            let fd = fd.map(AsFd::as_fd);
            if side == Side::Source && carried.ended.is_none() {
                foreign::await_acknowledged(path, setup.grace_ns, fd, &abort);
            }
            rows.push((carried.index, fd.map(|fd| kernel::report(fd, path)).unwrap_or_default()));
            if let (Side::Source, Some(fd), true) = (side, fd, path.transport.is_socket()) {
                // The sink drains one flow after another, each until it hears that nothing more comes: it must hear that
                // while others still send what they hold, and while we still hold the socket.
                let _ = sys_io::shutdown(fd, std::net::Shutdown::Write);
            }
        };
        let begin = |post: &mut Post<Part>| {
            let mut meter = meter(&setup, path.flows, until_told, post.begin()?);
            meter.subtract_unacknowledged(unacknowledged);
            Some(meter)
        };
        let carried = |index| Carried::<F, PACED>::new(flow(index), index, pace);
        let (meter, driven, left) = if alone {
            let (index, fd) = flows.into_iter().next()?;
            let mut carried = carried(index);
            let mut buffer = AlignedBuffer::new(if side == Side::Sink { path.read_size } else { 0 });
            let mut meter = begin(post)?;
            let slot = Slot {
                fd: fd.as_ref().map(AsFd::as_fd),
                buffer: &mut buffer,
                pace,
                abort: &abort,
                told: &told,
                rewind: matches!(path.transport, Transport::Source(_)),
            };
            let stopped = engine::run(*engine, &mut carried.flow, slot, &mut meter);
            meter.close_early();
            carried.bytes = meter.total_bytes();
            match stopped {
                Ok(Stop::Ended(end)) => carried.ended = Some(end),
                Ok(Stop::Refused) => carried.refused = true,
                _ => {}
            }
            farewell(&carried, fd.as_ref());
            (meter, stopped.map(|stop| (stop, None)), vec![(carried, fd)])
        } else {
            let joined = flows.into_iter().filter_map(|(index, fd)| Some((carried(index), fd?))).collect();
            let mut party = Streams::new(joined, farewell);
            let mut meter = begin(post)?;
            let station = Station { listener: None, buffer_size: path.read_size, abort: &abort, told: &told };
            let driven = engine::drive(*engine, &mut party, station, &mut meter);
            meter.close_early();
            (meter, driven.map(|(stop, engine)| (stop, Some(engine))), party.into_left())
        };
        let (in_time, engine, fault) = match driven {
            Ok((stop, engine)) => (stop == Stop::Time, engine, None),
            Err(fault) => (false, None, Some(fault)),
        };
        Some(Moved { meter, in_time, engine, fault, left, rows })
    }

    /// How much of a regular file the page cache holds: reading it measures memory, or a disk.
    fn page_cache_share(&self) -> Option<f64> {
        let Transport::Source(path) = &self.setup.task.path.transport else { return None };
        let metadata = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
        let (_, fd) = self.flows.first()?;
        file::cached_fraction(fd.as_ref()?.as_fd(), metadata.len()).ok()
    }
}

/// Takes what is still on its way, so that bytes out and bytes in can be compared.
fn drain<E: Effort>(
    fd: BorrowedFd<'_>,
    carried: &mut Carried<SinkFlow<E>, false>,
    scratch: &mut [u8],
    abort: &AtomicBool,
) -> Result<(), Fault> {
    sys_io::set_nonblocking(fd, false).map_err(Fault::io("draining what was on its way"))?;
    loop {
        match sys_io::read(fd, scratch) {
            Ok(0) => return Ok(()),
            Ok(n) => {
                carried.bytes += n as u64;
                if !carried.flow.received_late(&scratch[..n]) {
                    return Ok(());
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {
                if abort.load(Ordering::Relaxed) {
                    return Ok(());
                }
            }
            Err(source) => return Err(Fault::Io { doing: "draining what was on its way".into(), source }),
        }
    }
}

/// Why a reader left before its time, if it did.
fn end_of<E: Effort>(
    carried: &Carried<SinkFlow<E>, false>,
    setup: &Setup<StreamSetup>,
    body: Body,
    abort: &AtomicBool,
) -> Option<Fault> {
    match carried.ended {
        Some(End::Eof) => Some(Fault::PeerGone(format!("{} ended before the window did", setup.task.path.transport))),
        Some(End::Failed { errno, .. }) => Some(Fault::io("moving bytes")(std::io::Error::from_raw_os_error(errno))),
        Some(End::Closed) | None if carried.refused => refused(carried.flow.planted_end(), body, abort),
        Some(End::Closed) | None => None,
    }
}

/// A flow ended itself: its data was wrong, or a fault was planted.
pub(super) fn refused(planted_end: Option<Plant>, body: Body, abort: &AtomicBool) -> Option<Fault> {
    match planted_end {
        Some(Plant::Die { .. }) if body == Body::Process => std::process::abort(),
        // Without the panic hook: the death is planned, and standard error belongs to the user.
        Some(Plant::Die { .. }) => std::panic::resume_unwind(Box::new("planted death")),
        Some(Plant::Stall { .. }) => {
            while !abort.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            None
        }
        _ => None,
    }
}

/// The kernel's own count of what a TCP connection received must be ours (a FIN counts as one byte).
fn miscounted(path: &PathSetup, fd: BorrowedFd<'_>, flow: usize, ours: u64) -> Option<Fault> {
    if !path.transport.is_tcp() {
        return None;
    }
    let received = tcp_info::tcp_info(fd).ok()?.bytes_received?;
    let received = received.saturating_sub(path.shown_len());
    (received != ours && received != ours + 1)
        .then(|| Fault::Miscounted(format!("flow {flow}: {ours} bytes were counted, TCP_INFO says {received}")))
}

/// What an end does to its path, for the watchdog.
fn doing(path: &PathSetup, side: Side) -> String {
    match (side, &path.foreign) {
        (Side::Source, Some(_)) => format!(
            "writing to a server over {} that takes nothing more (does it read? or does it wait until somebody reads what \
             it sends?)",
            path.transport
        ),
        (Side::Source, None) => format!("writing to {}", path.transport),
        (Side::Sink, _) => format!("reading from {}", path.transport),
    }
}
