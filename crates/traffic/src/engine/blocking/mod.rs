//! The blocking engine: one thread per flow, `recv(2)` and `send(2)`, short counts accepted. Pipes and files use `read(2)` and
//! `write(2)` in the same places.
//!
//! This file has the loop of a flow that already has a thread: of a stream, of datagrams, or of a server of datagrams. A [`FlowIo`]
//! makes its calls. `thread_per_flow` starts threads for a party's flows.

mod thread_per_flow;

pub(super) use thread_per_flow::drive;

use std::cell::RefCell;
use std::hint::black_box;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use bytegauge_model::EngineReport;
use bytegauge_sys::socket::{self, Until};
use bytegauge_sys::{file, io as sys_io, pipe, socket_memory};
use socket2::SockRef;

use crate::EndError;
use crate::engine::flow_state::UnsentMessage;
use crate::engine::system_calls::ZeroCopySends;
use crate::engine::{FlowMode, FlowStation, Stop, WAIT_MAX_NS, unconnected};
use crate::flow::{ConnectionEnd, Flow, Want};
use crate::meter::Meter;
use crate::stream::SourceFile;
use crate::tls::session::Session;

/// The calls of a flow that has a thread. Each function makes one call, counts its bytes and reports them to the flow. A
/// returned [`Stop`] ends the loop. A mode that only sends, or only receives, leaves the other one out.
pub(crate) trait FlowIo {
    /// Receives once.
    fn receive<F: Flow>(&mut self, _flow: &mut F, _buffer: &mut [u8], _meter: &mut Meter) -> io::Result<Option<Stop>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Sends once.
    fn send<F: Flow>(&mut self, _flow: &mut F, _meter: &mut Meter) -> io::Result<Option<Stop>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The counts of its calls, once they are over, if it has any.
    fn report(&mut self) -> Option<EngineReport> {
        None
    }
}

/// A flow without content: its calls know what they move.
pub(crate) struct Always(pub(crate) Want);

impl Flow for Always {
    #[inline]
    fn want(&mut self, _now_ns: u64) -> Want {
        self.0
    }

    fn received(&mut self, _bytes: &mut [u8], _now_ns: u64) -> bool {
        true
    }
}

/// Runs one flow until its time is up. Returns the counts of the mode's calls, if it has any.
///
/// # Errors
/// [`EndError::Io`] when a call failed for another reason than the connection's end, [`EndError::Impossible`] without a connection.
pub fn run<F: Flow>(
    mode: FlowMode<'_>,
    flow: &mut F,
    slot: FlowStation<'_>,
    meter: &mut Meter,
) -> Result<(Stop, Option<EngineReport>), EndError> {
    match (mode, slot.fd) {
        (FlowMode::Nothing, _) => Ok((run_nothing(flow, slot, meter)?, None)),
        (_, None) => Err(unconnected()),
        (FlowMode::Usual, Some(fd)) if is_socket(fd) => {
            let (read, write) =
                (|buffer: &mut [u8]| socket::receive(fd, buffer), |bytes: &[u8]| socket::send(fd, bytes));
            carry(PlainIo::new(read, write, Meter::count), flow, slot, meter)
        }
        (FlowMode::Usual, Some(fd)) => {
            let (read, write) = (|buffer: &mut [u8]| sys_io::read(fd, buffer), |bytes: &[u8]| sys_io::write(fd, bytes));
            carry(PlainIo::new(read, write, Meter::count), flow, slot, meter)
        }
        (FlowMode::Endless, Some(fd)) => {
            let (read, write) =
                (|buffer: &mut [u8]| read_endlessly(fd, buffer), |bytes: &[u8]| sys_io::write(fd, bytes));
            carry(PlainIo::new(read, write, Meter::count), flow, slot, meter)
        }
        (FlowMode::QueuedCounts, Some(fd)) => {
            carry(QueuedCountsIo { fd, report: EngineReport::default() }, flow, slot, meter)
        }
        (FlowMode::ZeroCopy, Some(fd)) => carry(ZeroCopyIo { fd, sends: ZeroCopySends::default() }, flow, slot, meter),
        (FlowMode::SendFile(file), Some(fd)) => {
            carry(SendFileIo { fd, file, offset: 0, left: 0, calls: 0 }, flow, slot, meter)
        }
        (FlowMode::Encrypted(session), Some(fd)) => run_tls(flow, fd, slot, session, meter),
    }
}

/// Runs one flow by these calls until its time is up.
fn carry<F: Flow>(
    mut io: impl FlowIo,
    flow: &mut F,
    slot: FlowStation<'_>,
    meter: &mut Meter,
) -> Result<(Stop, Option<EngineReport>), EndError> {
    let stop = run_on(&mut io, flow, slot, meter)?;
    Ok((stop, io.report()))
}

/// Whether send(2) and recv(2) work on a descriptor: read(2) and write(2) take a longer way to the same socket.
fn is_socket(fd: BorrowedFd<'_>) -> bool {
    SockRef::from(&fd).r#type().is_ok()
}

/// Reads or writes encrypted records of a session.
fn run_tls<F: Flow>(
    flow: &mut F,
    fd: BorrowedFd<'_>,
    slot: FlowStation<'_>,
    session: &mut Session,
    meter: &mut Meter,
) -> Result<(Stop, Option<EngineReport>), EndError> {
    let shared = RefCell::new(&mut *session);
    let abort = slot.abort;
    let read = |buffer: &mut [u8]| shared.borrow_mut().receive(fd, buffer);
    // The peer counts each record that has left: an interrupted send goes on until all bytes that it took have left.
    let write = |bytes: &[u8]| loop {
        match shared.borrow_mut().send(fd, bytes, false) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted && !abort.load(Ordering::Relaxed) => {}
            sent => return sent,
        }
    };
    let stop = run_on(&mut PlainIo::new(read, write, Meter::count), flow, slot, meter)?;
    let report = EngineReport { system_calls: session.calls, ..EngineReport::default() };
    Ok((stop, Some(report)))
}

/// Reads a file again and again. A device never ends, so it never seeks.
#[inline]
fn read_endlessly(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    match sys_io::read(fd, buffer)? {
        0 => {
            file::rewind(fd)?;
            sys_io::read(fd, buffer)
        }
        n => Ok(n),
    }
}

/// The loop. The pace is checked once per call, only if there is one.
///
/// Not inlined, as all measured loops: `cargo xtask hot-loops` reads them.
#[inline(never)]
pub(crate) fn run_on<F: Flow>(
    io: &mut impl FlowIo,
    flow: &mut F,
    slot: FlowStation<'_>,
    meter: &mut Meter,
) -> Result<Stop, EndError> {
    let FlowStation { buffer, pace, abort, stop_requested, .. } = slot;
    let paced = !pace.is_free();
    loop {
        for call in 0..meter.lap_calls() {
            let stop = match flow.want(0) {
                Want::Receive => io.receive(flow, buffer, meter),
                Want::Send => io.send(flow, meter).or_else(closed_by_peer),
                other => return Err(EndError::Impossible(format!("a stream never wants {other:?}"))),
            };
            match stop {
                Ok(None) => {}
                Ok(Some(stop)) => return Ok(stop),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    if abort.load(Ordering::Relaxed) {
                        return Ok(Stop::Aborted);
                    }
                    // A silent peer ends no lap: the clock is read all the same.
                    meter.cut_lap(call + 1);
                    break;
                }
                Err(source) => return Err(EndError::Io { doing: "moving bytes".into(), source }),
            }
            if paced {
                pace.wait(meter.start_ns(), meter.total_bytes(), stop_requested);
                // A paced call takes as long as its pause: read the clock at once.
                break;
            }
        }
        if !meter.lap(stop_requested) {
            return Ok(Stop::Time);
        }
    }
}

/// The end of a connection that takes no more bytes, if that is why a send failed.
#[cold]
fn closed_by_peer(error: io::Error) -> io::Result<Option<Stop>> {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Ok(Some(Stop::Ended(ConnectionEnd::Closed))),
        _ => Err(error),
    }
}

/// A call that receives, one that sends from memory of its own, and the place where bytes are counted: moved, and asked for.
pub(super) struct PlainIo<R, W, C> {
    read: R,
    write: W,
    count: C,
    unsent: UnsentMessage,
}

impl<R, W, C> PlainIo<R, W, C> {
    /// Two calls: system calls, or nothing in the null engine.
    pub(super) fn new(read: R, write: W, count: C) -> PlainIo<R, W, C> {
        PlainIo { read, write, count, unsent: UnsentMessage::default() }
    }
}

impl<R, W, C> FlowIo for PlainIo<R, W, C>
where
    R: FnMut(&mut [u8]) -> io::Result<usize>,
    W: FnMut(&[u8]) -> io::Result<usize>,
    C: FnMut(&mut Meter, usize, usize),
{
    #[inline]
    fn receive<F: Flow>(&mut self, flow: &mut F, buffer: &mut [u8], meter: &mut Meter) -> io::Result<Option<Stop>> {
        let n = (self.read)(buffer)?;
        if n > 0 {
            (self.count)(meter, n, buffer.len());
        }
        Ok(deliver(flow, &mut buffer[..n]))
    }

    #[inline]
    fn send<F: Flow>(&mut self, flow: &mut F, meter: &mut Meter) -> io::Result<Option<Stop>> {
        let bytes = self.unsent.next(flow);
        let asked = bytes.len();
        let n = (self.write)(bytes)?;
        (self.count)(meter, n, asked);
        self.unsent.sent(n);
        flow.sent(n, 0);
        Ok(None)
    }
}

/// Gives received bytes to their flow: none at the end of the stream.
#[inline]
fn deliver<F: Flow>(flow: &mut F, bytes: &mut [u8]) -> Option<Stop> {
    match bytes.len() {
        0 => Some(Stop::Ended(ConnectionEnd::Eof)),
        _ => (!flow.received(bytes, 0)).then_some(Stop::Refused),
    }
}

/// recvmsg(2) of a socket with `TCP_INQ` or `SO_INQ`: counts the receives that brought the number of queued bytes.
struct QueuedCountsIo<'a> {
    fd: BorrowedFd<'a>,
    report: EngineReport,
}

impl FlowIo for QueuedCountsIo<'_> {
    fn receive<F: Flow>(&mut self, flow: &mut F, buffer: &mut [u8], meter: &mut Meter) -> io::Result<Option<Stop>> {
        self.report.system_calls += 1;
        let (n, queued) = socket_memory::receive(self.fd, buffer)?;
        self.report.queued_counts += u64::from(queued.is_some());
        if n > 0 {
            meter.count(n, buffer.len());
        }
        Ok(deliver(flow, &mut buffer[..n]))
    }

    fn report(&mut self) -> Option<EngineReport> {
        Some(self.report)
    }
}

// The blocking engine in its special modes: a writer sends from the page cache (sendfile(2)), or with `MSG_ZEROCOPY` from two memories
// by turns.

/// The message that is sent, and the place in the stream.
struct SendFileIo<'a> {
    fd: BorrowedFd<'a>,
    file: &'a SourceFile,
    offset: u64,
    /// Bytes of the message that have not left.
    left: usize,
    calls: u64,
}

impl FlowIo for SendFileIo<'_> {
    fn send<F: Flow>(&mut self, flow: &mut F, meter: &mut Meter) -> io::Result<Option<Stop>> {
        if self.left == 0 {
            flow.begin_in_place();
            self.left = flow.room();
        }
        let (at, to_end) = self.file.position(self.offset);
        let asked = self.left.min(to_end);
        self.calls += 1;
        let moved = pipe::send_file(self.file.fd(), at, self.fd, asked)?;
        self.left -= moved;
        self.offset += moved as u64;
        meter.count(moved, asked);
        flow.sent(moved, 0);
        Ok(None)
    }

    fn report(&mut self) -> Option<EngineReport> {
        Some(EngineReport { system_calls: self.calls, ..EngineReport::default() })
    }
}

struct ZeroCopyIo<'a> {
    fd: BorrowedFd<'a>,
    sends: ZeroCopySends,
}

impl FlowIo for ZeroCopyIo<'_> {
    /// Sends, and waits for the kernel where it has to.
    fn send<F: Flow>(&mut self, flow: &mut F, meter: &mut Meter) -> io::Result<Option<Stop>> {
        if let Some((moved, asked)) = self.sends.send(self.fd, flow)? {
            meter.count(moved, asked);
            flow.sent(moved, 0);
        } else {
            self.sends.calls += 1;
            // The time is over: a flag is to be checked.
            socket::wait(self.fd, Until::Notified, WAIT_MAX_NS)?.ok_or(io::ErrorKind::Interrupted)?;
        }
        Ok(None)
    }

    fn report(&mut self) -> Option<EngineReport> {
        let mut report = EngineReport::default();
        self.sends.finish(self.fd, &mut report);
        Some(report)
    }
}

// The null engine: the blocking loop with calls that do nothing, which measures the harness's own cost.
//
// Engines count in one of two ways, both of plain loads, additions and stores: in a [`Meter`], or in a
// [`Share`](crate::tally::Share) of its tally if threads of the engine's own count. A share does what a meter does, after
// checking the phase of the window. The null loop counts in a share, so the floor is that of the slower way, and holds for
// every engine in the same table.

fn run_nothing<F: Flow>(flow: &mut F, slot: FlowStation<'_>, meter: &mut Meter) -> Result<Stop, EndError> {
    let mut share = meter.tally().share_of_meter();
    let (read, write) = (|buffer: &mut [u8]| Ok(black_box(buffer.len())), |bytes: &[u8]| Ok(black_box(bytes.len())));
    let count = |_: &mut Meter, moved, asked| share.count(moved, asked);
    run_on(&mut PlainIo::new(read, write, count), flow, slot, meter)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::flow::Want;
    use crate::meter::Schedule;
    use crate::pace::Pace;

    struct Reader(u64);

    impl Flow for Reader {
        fn want(&mut self, _now_ns: u64) -> Want {
            Want::Receive
        }

        fn received(&mut self, _bytes: &mut [u8], _now_ns: u64) -> bool {
            self.0 += 1;
            true
        }
    }

    #[test]
    fn the_floor_counts_by_a_share() {
        let schedule = Schedule { warmup_ns: 0, window_ns: 1_000_000, until_stopped: false };
        let mut meter = Meter::start(&schedule, 0);
        let (mut flow, flag) = (Reader(0), AtomicBool::new(false));
        let slot =
            FlowStation { fd: None, buffer: &mut [0; 16], pace: Pace::Free, abort: &flag, stop_requested: &flag };
        assert_eq!(run_nothing(&mut flow, slot, &mut meter).unwrap(), Stop::Time);
        let (sums, window) = (meter.tally().sums(), meter.window());
        assert_eq!(sums[..2], [16 * flow.0, flow.0]);
        assert!(window.calls > 0 && window.calls <= flow.0, "{window:?}");
        // The meter charges its own thread once, and has its time on a run queue if the kernel reports it.
        assert!(!meter.tally().has_threads());
    }
}
