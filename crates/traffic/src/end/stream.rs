//! An end of a stream: a thread per flow, or one thread for all of them, depending on the engine.
//!
//! If flows share a thread, the first one has its counters; every flow has its own bytes, its end, and the kernel's facts about
//! it.

pub(super) mod thread;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytegauge_model::name_tables::EngineEnd;
use bytegauge_model::{EndRole, Engine, Side, Tls};
use bytegauge_sys::socket::{self, During};
use bytegauge_sys::socket_memory::queued_out;
use bytegauge_sys::{children, io as sys_io, option};

use crate::address::Address;
use crate::datagram::cut_size;
use crate::end::runner::{self, EndResult, summed};
use crate::end::stream::thread::StreamThread;
use crate::end::thread_group::{EndPlan, Flags, LARGE_STACK, SMALL_STACK};
use crate::message::{Body, Peer, Reply};
use crate::planted_fault::PlantedFault;
use crate::setup::Setup;
use crate::stream::{Carried, SinkFlow, SourceFile, urgent};
use crate::tls::session::Session;
use crate::transport::datagram::prepare;
use crate::transport::{self, Listening};
use crate::{EndError, iperf3, tls};

/// Runs a trial of a source or a sink. `Ok(None)` if it was called off, or the channel was closed before its first reply.
pub(super) fn run(
    peer: &mut impl Peer,
    role: EndRole,
    setup: &Arc<Setup>,
    address: Option<&Address>,
    body: Body,
) -> Result<Option<EndResult>, EndError> {
    fit(setup)?;
    let file = SourceFile::of(setup)?;
    let side = role.side();
    // What listened is held until `Go`: a pipe keeps its name until the source has opened it too.
    let Some((mut fds, iperf3, _listening)) = connected(peer, side, setup, address)? else { return Ok(None) };
    let (many, flows, both) = (carries_many(setup), setup.flows(), setup.goes_both_ways());
    // Threads with the same task.
    let threads = if many { 1 } else { flows };
    let writes = side == Side::Source;
    // An external server sends no report, so the writer measures.
    let until_stopped = writes && !both && !setup.is_external();
    let readers = if writes { threads..2 * threads } else { 0..threads };
    let all = threads * if both { 2 } else { 1 };
    let cpus = (0..all).map(|thread| setup.cpu(role, thread % threads)).collect();
    let plan = EndPlan {
        stack: if many || setup.tls() == Tls::Rustls { LARGE_STACK } else { SMALL_STACK },
        waits: !setup.pace().is_free(),
        until_stopped,
        patience_ns: if until_stopped { 0 } else { setup.warmup_ns + setup.window_ns } + setup.grace_ns,
        windowed: both.then_some(readers),
        ..EndPlan::of(doing(setup, side), role.name(), cpus, "--flows").within(setup)
    };
    let results = runner::run(peer, &plan, |thread, _| {
        let (back, number) = (thread >= threads, thread % threads);
        let numbers = if many { 0..flows } else { number..number + 1 };
        let first = if back { flows } else { 0 };
        let flows = numbers.map(|flow| (flow, fds[first + flow].take())).collect();
        let side = if back { side.other() } else { side };
        let (setup, file) = (Arc::clone(setup), file.clone());
        let stream = StreamThread { setup, side, body, alone: !many, back, file, flows };
        Box::new(move |start| stream.carry(start))
    })?;
    let Some(results) = results else { return Ok(None) };
    let EndResult { mut report, mut fault, kept } = summed(results);
    let window_ns = report.window_ns;
    if let Some(urgent) = &mut report.call {
        (urgent.window_ns, urgent.write, urgent.first_byte) = (window_ns, None, None);
    }
    if let (Some(PlantedFault::Overcount(bytes)), Side::Sink) = (setup.planted(), side) {
        report.total_bytes += bytes;
        report.datagrams.iter_mut().for_each(|datagrams| datagrams.total += bytes);
    }
    if let (Some(session), None) = (iperf3, &fault) {
        fault = session.finish(&mut report).err();
    }
    Ok(Some(EndResult { report, fault, kept }))
}

/// Refuses settings that do not work together.
fn fit(setup: &Setup) -> Result<(), EndError> {
    let (transport, engine) = (setup.transport(), setup.engine());
    if !engine.carries(EngineEnd::Stream, transport) {
        return Err(EndError::Missing(format!("engine {engine} does not carry {transport}: use another --engine")));
    }
    tls::fit(setup)?;
    urgent::fit(setup)
}

/// Connections by flow, and with bytes in both directions by flow once more, for the other direction: absent in the null engine, or if a
/// thread has it; the test that they are for an iperf3 server; and what listened.
type Connected = (Vec<Option<OwnedFd>>, Option<iperf3::Iperf3Session>, Option<Listening>);

/// Connects the ends. `Ok(None)` if the channel was closed before its first reply.
fn connected(
    peer: &mut impl Peer,
    side: Side,
    setup: &Setup,
    address: Option<&Address>,
) -> Result<Option<Connected>, EndError> {
    let (mut listening, mut iperf3) = (None, None);
    let fds = match (side, address) {
        (_, Some(Address::Iperf3(server))) => {
            let (session, fds) = iperf3::Iperf3Session::open(*server, setup)?;
            iperf3 = Some(session);
            fds
        }
        (Side::Sink, _) => {
            let listener = listening.insert(transport::listen(setup)?);
            if !peer.reply(Reply::Listening(listener.address.clone())) {
                return Ok(None);
            }
            let accepted = (listener.accept)(setup)?;
            if setup.shares_port() {
                // All expected connections are here: the agent gets its port back.
                listening = None;
            }
            accepted
        }
        (Side::Source, Some(address)) => transport::connect(address, setup)?,
        (Side::Source, None) => return Err(EndError::Impossible("a source was opened without an address".into())),
    };
    for (flow, fd) in fds.iter().enumerate().filter(|_| setup.transport().is_datagram()) {
        let back = setup.goes_back(flow);
        let side = if back { side.other() } else { side };
        if back {
            prepare(fd, side, setup)?;
        }
        match side {
            // The kernel joins several datagrams for one receive, and segments each send (udp(7)).
            Side::Sink if setup.joins_datagrams() => option::set(fd.as_fd(), &option::UDP_COALESCE.to(true))?,
            Side::Sink => {}
            Side::Source => cut_size(setup).map_or(Ok(()), |n| option::set(fd.as_fd(), &option::UDP_SEGMENT.to(n)))?,
        }
    }
    let mut fds: Vec<Option<OwnedFd>> = fds.into_iter().map(Some).collect();
    fds.resize_with(setup.joined(), || None);
    if setup.goes_both_ways() && !setup.has_sockets_each_way() {
        let twice = fds.iter().map(|fd| fd.as_ref().map(OwnedFd::try_clone).transpose());
        let twice = twice.collect::<io::Result<Vec<_>>>().map_err(EndError::io("duplicating a connection"))?;
        fds.extend(twice);
    }
    Ok(Some((fds, iperf3, listening)))
}

/// Whether one thread drives all flows.
fn carries_many(setup: &Setup) -> bool {
    setup.engine() != Engine::Null && !setup.engine().has_thread_a_flow() && !setup.transport().is_datagram()
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

// Writing to an external server: counts the bytes that have left, as far as this side's kernel knows.
//
// Bytes that write(2) accepted may still wait in the send buffer. Only bytes acknowledged by the other kernel count: for TCP
// that is known exactly (SIOCOUTQ, tcp(7)); a Unix socket has no buffer between its two ends, so accepted bytes are at the
// other end. This side cannot know whether they were read.

/// Longest wait after the window for bytes in flight.
const PATIENCE: Duration = Duration::from_secs(1);

/// Interval between checks.
const CHECK_INTERVAL: Duration = Duration::from_micros(200);

/// Connections of which a meter counts only acknowledged bytes: those of TCP to an external server.
pub(super) fn watched<'a>(setup: &Setup, fds: impl Iterator<Item = BorrowedFd<'a>>) -> Vec<OwnedFd> {
    if !setup.is_external() || !setup.transport().is_tcp() {
        return Vec::new();
    }
    // A connection that cannot be duplicated counts written bytes: descriptors were counted before.
    fds.filter_map(|fd| fd.try_clone_to_owned().ok()).collect()
}

/// Waits until all written bytes are acknowledged, so that the next trial has the path to itself and the kernel's count is
/// complete. The wait for a server that no longer reads is short, and shorter than the watchdog's.
pub(super) fn await_acknowledged(setup: &Setup, fd: Option<BorrowedFd<'_>>, abort: &AtomicBool) {
    let Some(fd) = fd.filter(|_| setup.is_external() && setup.transport().is_tcp()) else { return };
    let deadline = Instant::now() + PATIENCE.min(Duration::from_nanos(setup.grace_ns / 2));
    while queued_out(fd).is_ok_and(|bytes| bytes > 0) && Instant::now() < deadline && !abort.load(Ordering::Relaxed) {
        std::thread::sleep(CHECK_INTERVAL);
    }
}

// The bytes in flight when a reader's window is over.

/// Buffer for draining after the window: large, since draining is not measured.
pub(super) const DRAIN_SIZE: usize = 256 << 10;

/// How long a drain waits before it checks whether to continue.
const WAIT: Duration = Duration::from_millis(50);

/// A flow returned by an engine, and its connection.
pub(super) type Read = (Carried<SinkFlow, false>, Option<OwnedFd>);

/// Reads all remaining bytes, so that sent and received bytes can be compared: of all flows of a thread together, since their
/// writer may have to send the rest of one flow before it ends another. A flow that a library encrypts has a thread of its own.
pub(super) fn drain(
    left: &mut [Read],
    mut session: Option<Session>,
    size: usize,
    flags: &Flags,
) -> Result<(), EndError> {
    let failed = |source| EndError::Io { doing: "draining bytes in flight".into(), source };
    let mut open: Vec<(&mut Carried<SinkFlow, false>, BorrowedFd<'_>)> = left
        .iter_mut()
        .filter(|(carried, _)| carried.ended.is_none() && !carried.refused)
        .filter_map(|(carried, fd)| Some((carried, fd.as_ref()?.as_fd())))
        .collect();
    let mut scratch = vec![0; size];
    while !open.is_empty() && !flags.abort.load(Ordering::Relaxed) {
        // Decrypted bytes are no event.
        let holds_bytes = session.as_mut().is_some_and(Session::holds_bytes);
        let fds: Vec<BorrowedFd<'_>> = open.iter().map(|(_, fd)| *fd).collect();
        let ready = if holds_bytes { vec![true] } else { children::wait_any(&fds, WAIT).map_err(failed)? };
        let (mut ready, mut outcome) = (ready.into_iter(), Ok(true));
        open.retain_mut(|(carried, fd)| {
            if ready.next() != Some(true) || !matches!(outcome, Ok(true)) {
                return true;
            }
            let read = match &mut session {
                Some(session) => session.receive(*fd, &mut scratch),
                None => sys_io::read(*fd, &mut scratch),
            };
            match read {
                Ok(n) => {
                    carried.bytes += n as u64;
                    outcome = Ok(flags.limit.as_ref().is_none_or(|limit| limit.allows(n as u64, 0)));
                    n > 0 && carried.flow.received_late(&scratch[..n])
                }
                Err(error) if socket::is_transient(&error, During::Transfer) => true,
                Err(error) => {
                    outcome = Err(failed(error));
                    true
                }
            }
        });
        if !outcome? {
            return Ok(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::time::Duration;

    use bytegauge_model::Spec;

    use super::*;
    use crate::pace::Pace;
    use crate::setup::{Bound, Setup, TransferLimit};

    /// More than the kernel buffers for a reader that does not read.
    const MORE: usize = 4 << 20;

    fn flows(ours: impl IntoIterator<Item = UnixStream>) -> Vec<Read> {
        let levels = Spec::from([("transport", "unix".into()), ("read_size", 64.into()), ("write_size", 64.into())]);
        let setup = Setup::of(&levels).unwrap();
        let carried = |index| Carried::new(SinkFlow::new(&setup, index), index, Pace::Free);
        ours.into_iter().enumerate().map(|(index, ours)| (carried(index), Some(ours.into()))).collect()
    }

    #[test]
    fn flows_of_a_thread_are_drained_together() {
        let (ours, theirs): (Vec<_>, Vec<_>) = (0..3).map(|_| UnixStream::pair().unwrap()).unzip();
        // Most of the last one is still to be written, and the others end only after that.
        let writes = std::thread::spawn(move || {
            (&theirs[2]).write_all(&vec![0; MORE]).unwrap();
            (&theirs[0]).write_all(&[0; 10]).unwrap();
        });
        let (mut left, flags) = (flows(ours), Flags::default());
        let abort = Arc::clone(&flags.abort);
        let (done, waits) = std::sync::mpsc::channel::<()>();
        // Draining one flow after another would wait for ever.
        let watches = std::thread::spawn(move || {
            let is_over = waits.recv_timeout(Duration::from_secs(60)).is_ok();
            abort.store(!is_over, Ordering::Relaxed);
        });
        drain(&mut left, None, DRAIN_SIZE, &flags).unwrap();
        let _ = done.send(());
        watches.join().unwrap();
        assert_eq!(left.iter().map(|(carried, _)| carried.bytes).collect::<Vec<_>>(), [10, 0, MORE as u64]);
        drop(left);
        writes.join().unwrap();
    }

    #[test]
    fn drained_bytes_count_against_the_limit() {
        for count in [1, 2] {
            let (ours, theirs): (Vec<_>, Vec<_>) = (0..count).map(|_| UnixStream::pair().unwrap()).unzip();
            (&theirs[0]).write_all(&[0; 1000]).unwrap();
            let limit = Arc::new(TransferLimit::new(Bound { bytes: 1000, lasts_ns: u64::MAX }));
            let (mut left, flags) = (flows(ours), Flags { limit: Some(limit), ..Flags::default() });
            // The peers stay open, and it ends.
            drain(&mut left, None, DRAIN_SIZE, &flags).unwrap();
            assert!(flags.limit.unwrap().is_used_up());
            drop(theirs);
        }
    }
}
