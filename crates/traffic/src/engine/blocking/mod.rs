//! The blocking engine: one thread per flow, `recv(2)` and `send(2)`, short counts accepted. Pipes and files use `read(2)` and
//! `write(2)` in the same places.
//!
//! This file has the loop of a stream, whose flows already have threads; a [`FlowIo`] makes its calls. [`party`] starts threads
//! for a party's flows.

mod flow_thread;
mod mapped;
mod send_file;
mod thread_per_flow;
mod zero_copy;

pub(super) use thread_per_flow::drive;

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use bytegauge_model::EngineReport;
use bytegauge_sys::{file, io as sys_io, queued, socket};
use socket2::SockRef;

use crate::end_error::EndError;
use crate::engine::memory::Room;
use crate::engine::{FlowMode, FlowStation, Stop, null, unconnected};
use crate::flow::{ConnectionEnd, Flow, Want};
use crate::meter::Meter;
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
}

/// Runs one flow until its time is up. Returns the counts of the mode's calls, if it has any.
///
/// # Errors
/// [`EndError::Io`] when a call failed for another reason than the connection's end, [`EndError::Missing`] if the kernel lacks the
/// mode, [`EndError::Impossible`] without a connection.
pub fn run<F: Flow>(
    mode: FlowMode<'_>,
    flow: &mut F,
    slot: FlowStation<'_>,
    meter: &mut Meter,
) -> Result<(Stop, Option<EngineReport>), EndError> {
    let stop = match (mode, slot.fd) {
        (FlowMode::Nothing, _) => null::run(flow, slot, meter)?,
        (_, None) => return Err(unconnected()),
        (FlowMode::Usual, Some(fd)) if is_socket(fd) => {
            let (read, write) =
                (|buffer: &mut [u8]| socket::receive(fd, buffer), |bytes: &[u8]| socket::send(fd, bytes));
            run_on(&mut PlainIo::new(read, write, Meter::count), flow, slot, meter)?
        }
        (FlowMode::Usual, Some(fd)) => {
            let (read, write) = (|buffer: &mut [u8]| sys_io::read(fd, buffer), |bytes: &[u8]| sys_io::write(fd, bytes));
            run_on(&mut PlainIo::new(read, write, Meter::count), flow, slot, meter)?
        }
        (FlowMode::Endless, Some(fd)) => {
            let (read, write) =
                (|buffer: &mut [u8]| read_endlessly(fd, buffer), |bytes: &[u8]| sys_io::write(fd, bytes));
            run_on(&mut PlainIo::new(read, write, Meter::count), flow, slot, meter)?
        }
        (FlowMode::QueuedCounts, Some(fd)) => return run_with_queued_counts(flow, fd, slot, meter),
        (FlowMode::ZeroCopy, Some(fd)) => return zero_copy::run(flow, fd, slot, meter),
        (FlowMode::SendFile(file), Some(fd)) => return send_file::run(flow, file, fd, slot, meter),
        (FlowMode::Mapped, Some(fd)) => return mapped::run(flow, fd, slot, meter),
        (FlowMode::Encrypted(session), Some(fd)) => return run_tls(flow, fd, slot, session, meter),
    };
    Ok((stop, None))
}

/// Whether send(2) and recv(2) work on a descriptor: read(2) and write(2) take a longer way to the same socket.
fn is_socket(fd: BorrowedFd<'_>) -> bool {
    SockRef::from(&fd).r#type().is_ok()
}

/// Reads a socket with `TCP_INQ` or `SO_INQ` by recvmsg(2), and counts the receives that brought the number of queued bytes.
fn run_with_queued_counts<F: Flow>(
    flow: &mut F,
    fd: BorrowedFd<'_>,
    slot: FlowStation<'_>,
    meter: &mut Meter,
) -> Result<(Stop, Option<EngineReport>), EndError> {
    let (calls, queued_counts) = (Cell::new(0), Cell::new(0));
    let read = |buffer: &mut [u8]| {
        calls.set(calls.get() + 1);
        let (received, queued) = queued::receive(fd, buffer)?;
        queued_counts.set(queued_counts.get() + u64::from(queued.is_some()));
        Ok(received)
    };
    let write = |bytes: &[u8]| socket::send(fd, bytes);
    let stop = run_on(&mut PlainIo::new(read, write, Meter::count), flow, slot, meter)?;
    let report =
        EngineReport { system_calls: calls.get(), queued_counts: queued_counts.get(), ..EngineReport::default() };
    Ok((stop, Some(report)))
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
    let report = EngineReport { system_calls: session.calls(), ..EngineReport::default() };
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
        for _ in 0..meter.lap_calls() {
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
    room: Room,
}

impl<R, W, C> PlainIo<R, W, C>
where
    R: FnMut(&mut [u8]) -> io::Result<usize>,
    W: FnMut(&[u8]) -> io::Result<usize>,
    C: FnMut(&mut Meter, usize, usize),
{
    /// Two calls: system calls, or nothing in the null engine.
    pub(super) fn new(read: R, write: W, count: C) -> PlainIo<R, W, C> {
        PlainIo { read, write, count, room: Room::default() }
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
        match (self.read)(buffer)? {
            0 => Ok(Some(Stop::Ended(ConnectionEnd::Eof))),
            n => {
                (self.count)(meter, n, buffer.len());
                Ok((!flow.received(&mut buffer[..n], 0)).then_some(Stop::Refused))
            }
        }
    }

    #[inline]
    fn send<F: Flow>(&mut self, flow: &mut F, meter: &mut Meter) -> io::Result<Option<Stop>> {
        let bytes = self.room.next(flow);
        let asked = bytes.len();
        let n = (self.write)(bytes)?;
        (self.count)(meter, n, asked);
        self.room.sent(n);
        flow.sent(n, 0);
        Ok(None)
    }
}
