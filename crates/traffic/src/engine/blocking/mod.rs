//! The blocking engine: one thread a flow, `recv(2)` and `send(2)`, a short count taken as it comes. Pipes and files
//! take `read(2)` and `write(2)`, at the same places.
//!
//! Here is the loop of a stream, whose flows have threads already; [`party`] starts threads for a party's.

mod party;
mod worker;

pub(super) use party::drive;

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use bytegauge_sys::{file, io as sys_io, socket};

use crate::engine::plain::Calls;
use crate::engine::{Slot, Stop};
use crate::fault::Fault;
use crate::flow::{End, Flow, Want};
use crate::meter::Meter;

/// The two calls of the loop: system calls here, nothing at all in the null engine.
pub(super) trait Port {
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize>;
    fn write(&self, bytes: &[u8]) -> io::Result<usize>;
}

impl Port for BorrowedFd<'_> {
    #[inline]
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        sys_io::read(*self, buffer)
    }

    #[inline]
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        sys_io::write(*self, bytes)
    }
}

/// A socket, by its own calls.
struct Socket<'a>(BorrowedFd<'a>);

impl Port for Socket<'_> {
    #[inline]
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        socket::receive(self.0, buffer)
    }

    #[inline]
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        socket::send(self.0, bytes)
    }
}

/// A file read again and again. A device never ends, so it never pays for the rewinding.
struct Endless<'a>(BorrowedFd<'a>);

impl Port for Endless<'_> {
    #[inline]
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match sys_io::read(self.0, buffer)? {
            0 => {
                file::rewind(self.0)?;
                sys_io::read(self.0, buffer)
            }
            n => Ok(n),
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        sys_io::write(self.0, bytes)
    }
}

pub(super) fn run<F: Flow>(flow: &mut F, fd: BorrowedFd<'_>, slot: Slot<'_>, meter: &mut Meter) -> Result<Stop, Fault> {
    match Calls::of(fd) {
        Calls::OfSockets => run_on(&Socket(fd), flow, slot, meter),
        Calls::OfFiles if slot.rewind => run_on(&Endless(fd), flow, slot, meter),
        Calls::OfFiles => run_on(&fd, flow, slot, meter),
    }
}

/// The loop itself. The pace is looked at once a call only where there is one.
pub(super) fn run_on<F: Flow, P: Port>(
    port: &P,
    flow: &mut F,
    slot: Slot<'_>,
    meter: &mut Meter,
) -> Result<Stop, Fault> {
    let Slot { buffer, pace, abort, told, .. } = slot;
    let paced = !pace.is_free();
    loop {
        for _ in 0..meter.lap_calls() {
            let stop = match flow.want(0) {
                Want::Receive => receive(port, flow, buffer, meter),
                Want::Send => send(port, flow, meter),
                other => return Err(Fault::Impossible(format!("a stream never wants {other:?}"))),
            };
            match stop {
                Ok(None) => {}
                Ok(Some(stop)) => return Ok(stop),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    if abort.load(Ordering::Relaxed) {
                        return Ok(Stop::Aborted);
                    }
                }
                Err(source) => return Err(Fault::Io { doing: "moving bytes".into(), source }),
            }
            if paced {
                pace.wait(meter.start_ns(), meter.total_bytes(), told);
                // A paced call takes as long as its pause: look at the clock at once.
                break;
            }
        }
        if !meter.lap(told) {
            return Ok(Stop::Time);
        }
    }
}

#[inline]
fn receive<F: Flow, P: Port>(port: &P, flow: &mut F, buffer: &mut [u8], meter: &mut Meter) -> io::Result<Option<Stop>> {
    match port.read(buffer) {
        Ok(0) => Ok(Some(Stop::Ended(End::Eof))),
        Ok(n) => {
            meter.count(n, buffer.len());
            Ok((!flow.received(&mut buffer[..n], 0)).then_some(Stop::Refused))
        }
        Err(error) => Err(error),
    }
}

#[inline]
fn send<F: Flow, P: Port>(port: &P, flow: &mut F, meter: &mut Meter) -> io::Result<Option<Stop>> {
    let bytes = flow.outgoing();
    let asked = bytes.len();
    match port.write(bytes) {
        Ok(n) => {
            meter.count(n, asked);
            flow.sent(n, 0);
            Ok(None)
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
            Ok(Some(Stop::Ended(End::Closed)))
        }
        Err(error) => Err(error),
    }
}
