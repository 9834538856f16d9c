//! The blocking engine: one thread per flow, `recv(2)` and `send(2)`, short counts accepted. Pipes and files use `read(2)` and
//! `write(2)` in the same places.
//!
//! This file has the loop of a stream, whose flows already have threads; [`party`] starts threads for a party's flows.

pub(super) mod mapped;
mod party;
mod worker;
pub(super) mod zero_copy;

pub(super) use party::drive;

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use bytegauge_model::EngineReport;
use bytegauge_sys::{file, io as sys_io, queued, socket};

use crate::end_error::EndError;
use crate::engine::memory::Room;
use crate::engine::plain::Calls;
use crate::engine::{FlowStation, Stop};
use crate::flow::{ConnectionEnd, Flow, Want};
use crate::meter::Meter;
use crate::tls::session::Session;

pub(super) fn run<F: Flow>(
    flow: &mut F,
    fd: BorrowedFd<'_>,
    slot: FlowStation<'_>,
    meter: &mut Meter,
) -> Result<Stop, EndError> {
    match Calls::of(fd) {
        Calls::OfSockets | Calls::Encrypted(_) => run_on(
            (|buffer| socket::receive(fd, buffer), |bytes| socket::send(fd, bytes)),
            flow,
            slot,
            meter,
            Meter::count,
        ),
        Calls::OfFiles if slot.rewind => run_on(
            (|buffer| read_endlessly(fd, buffer), |bytes| sys_io::write(fd, bytes)),
            flow,
            slot,
            meter,
            Meter::count,
        ),
        Calls::OfFiles => run_on(
            (|buffer| sys_io::read(fd, buffer), |bytes| sys_io::write(fd, bytes)),
            flow,
            slot,
            meter,
            Meter::count,
        ),
    }
}

/// Reads a socket with `TCP_INQ` or `SO_INQ` by recvmsg(2), and counts the receives that brought the number of queued bytes.
pub(super) fn run_with_queued_counts<F: Flow>(
    flow: &mut F,
    fd: BorrowedFd<'_>,
    slot: FlowStation<'_>,
    meter: &mut Meter,
) -> Result<(Stop, EngineReport), EndError> {
    let (calls, queued_counts) = (Cell::new(0), Cell::new(0));
    let read = |buffer: &mut [u8]| {
        calls.set(calls.get() + 1);
        let (received, queued) = queued::receive(fd, buffer)?;
        queued_counts.set(queued_counts.get() + u64::from(queued.is_some()));
        Ok(received)
    };
    let stop = run_on((read, |bytes: &[u8]| socket::send(fd, bytes)), flow, slot, meter, Meter::count)?;
    let report =
        EngineReport { system_calls: calls.get(), queued_counts: queued_counts.get(), ..EngineReport::default() };
    Ok((stop, report))
}

/// Reads or writes encrypted records of a session.
pub(super) fn run_tls<F: Flow>(
    flow: &mut F,
    fd: BorrowedFd<'_>,
    slot: FlowStation<'_>,
    session: &mut Session,
    meter: &mut Meter,
) -> Result<Stop, EndError> {
    let session = RefCell::new(session);
    let read = |buffer: &mut [u8]| session.borrow_mut().receive(fd, buffer);
    let write = |bytes: &[u8]| session.borrow_mut().send(fd, bytes, false);
    run_on((read, write), flow, slot, meter, Meter::count)
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

/// The loop, with its two calls (system calls, or nothing in the null engine) and the place where bytes are counted. The pace
/// is checked once per call, only if there is one.
///
/// Not inlined, as all measured loops: `cargo xtask hot-loops` reads them.
#[inline(never)]
pub(super) fn run_on<F: Flow>(
    (read, write): (impl Fn(&mut [u8]) -> io::Result<usize>, impl Fn(&[u8]) -> io::Result<usize>),
    flow: &mut F,
    slot: FlowStation<'_>,
    meter: &mut Meter,
    mut count: impl FnMut(&mut Meter, usize, usize),
) -> Result<Stop, EndError> {
    let FlowStation { buffer, pace, abort, stop_requested, .. } = slot;
    let mut room = Room::default();
    let paced = !pace.is_free();
    loop {
        for _ in 0..meter.lap_calls() {
            let stop = match flow.want(0) {
                Want::Receive => receive(&read, flow, buffer, |moved, asked| count(meter, moved, asked)),
                Want::Send => send(&write, flow, &mut room, |moved, asked| count(meter, moved, asked)),
                other => return Err(EndError::Impossible(format!("a stream never wants {other:?}"))),
            };
            match stop {
                Ok(None) => {}
                Ok(Some(stop)) => return Ok(stop),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    if abort.load(Ordering::Relaxed) {
                        return Ok(Stop::Aborted);
                    }
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

#[inline]
fn receive<F: Flow>(
    read: impl Fn(&mut [u8]) -> io::Result<usize>,
    flow: &mut F,
    buffer: &mut [u8],
    mut count: impl FnMut(usize, usize),
) -> io::Result<Option<Stop>> {
    match read(buffer) {
        Ok(0) => Ok(Some(Stop::Ended(ConnectionEnd::Eof))),
        Ok(n) => {
            count(n, buffer.len());
            Ok((!flow.received(&mut buffer[..n], 0)).then_some(Stop::Refused))
        }
        Err(error) => Err(error),
    }
}

#[inline]
fn send<F: Flow>(
    write: impl Fn(&[u8]) -> io::Result<usize>,
    flow: &mut F,
    room: &mut Room,
    mut count: impl FnMut(usize, usize),
) -> io::Result<Option<Stop>> {
    let bytes = room.next(flow);
    let asked = bytes.len();
    match write(bytes) {
        Ok(n) => {
            count(n, asked);
            room.sent(n);
            flow.sent(n, 0);
            Ok(None)
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
            Ok(Some(Stop::Ended(ConnectionEnd::Closed)))
        }
        Err(error) => Err(error),
    }
}
