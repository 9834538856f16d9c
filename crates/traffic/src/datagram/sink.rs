//! The receiving end: enters the number of every datagram, does the plan's work with it, and counts what was cut off.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use bytegauge_sys::datagram::{Arrived, Inbox};

use crate::datagram::ledger::Ledger;
use crate::datagram::number::{self, NUMBER_LEN};
use crate::datagram::source::{Moved, Run, batch};
use crate::engine::Stop;
use crate::fault::Fault;
use crate::flow::{End, Flow};
use crate::meter::Meter;
use crate::pattern::{Mismatch, Pattern};
use crate::plant::Plant;
use crate::setup::Setup;
use crate::stream::{Effort, SinkFlow, StreamSetup};

/// Whether a reader goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goes {
    On,
    /// The sender said that there is no more.
    Ended,
    /// The reader refused what came.
    Refused,
}

/// A way to take datagrams from the kernel.
pub(super) trait Mailbox {
    /// Takes what is there, waiting for the first.
    fn receive<E: Effort>(&mut self, fd: BorrowedFd<'_>, desk: &mut Desk<E>) -> io::Result<(Moved, Goes)>;
}

/// One flow's reader.
#[derive(Debug)]
pub(super) struct Desk<E> {
    flow: usize,
    size: u64,
    reader: SinkFlow<E>,
    verify: Option<Pattern>,
    mismatch: Option<Mismatch>,
    ledger: Ledger,
    pub(super) total: u64,
    pub(super) packets: u64,
    pub(super) truncated: u64,
    pub(super) cut_bytes: u64,
    pub(super) told_drops: Option<u64>,
    pub(super) bytes: u64,
    verified_bytes: u64,
    /// The window is over: what comes is counted and checked but costs no work.
    is_late: bool,
}

impl<E: Effort> Desk<E> {
    pub(super) fn new(setup: &Setup<StreamSetup>, flow: usize, effort: E) -> Desk<E> {
        // Bytes that may be lost have no offset in a stream: here they are compared by their datagram's number.
        let plant = setup.plant.filter(|plant| !plant.is_of_source());
        let unverified = Setup { verify: false, plant, ..setup.clone() };
        Desk {
            flow,
            size: setup.task.write_size.unwrap_or(1).max(1) as u64,
            reader: SinkFlow::new(&unverified, flow, effort),
            verify: setup.verify.then(|| Pattern::new(setup.seed, flow)),
            mismatch: None,
            ledger: Ledger::default(),
            total: 0,
            packets: 0,
            truncated: 0,
            cut_bytes: 0,
            told_drops: None,
            bytes: 0,
            verified_bytes: 0,
            is_late: false,
        }
    }

    pub(super) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub(super) fn verified_bytes(&self) -> u64 {
        self.verified_bytes
    }

    pub(super) fn planted_end(&self) -> Option<Plant> {
        self.reader.planted_end()
    }

    /// What was wrong with the bytes, if anything.
    pub(super) fn fault(&self) -> Option<Fault> {
        let Mismatch { offset, expected, found } = self.mismatch?;
        Some(Fault::Corrupt { flow: self.flow, offset, expected, found })
    }

    /// Takes one message: a datagram, or several that were joined.
    #[inline]
    pub(super) fn take(&mut self, bytes: &mut [u8], arrived: Arrived, moved: &mut Moved) -> Goes {
        if arrived.len == 0 {
            return Goes::Ended;
        }
        if let Some(dropped) = arrived.dropped {
            self.told_drops = Some(dropped.into());
        }
        let datagrams = arrived.datagrams() as u64;
        let segment = arrived.segment.unwrap_or(arrived.len);
        moved.bytes += bytes.len();
        moved.datagrams += datagrams;
        moved.packets += 1;
        self.total += datagrams;
        self.packets += 1;
        self.bytes += bytes.len() as u64;
        let (mut first, mut count) = (self.ledger.expected(), 0);
        let mut goes = Goes::On;
        for datagram in bytes.chunks_mut(segment) {
            let expected = first.wrapping_add(count);
            let number = number::read(datagram, expected).unwrap_or(expected);
            if number != expected {
                self.ledger.enter(first, count);
                (first, count) = (number, 0);
            }
            count += 1;
            if !self.read(datagram, number) {
                goes = Goes::Refused;
            }
        }
        if arrived.truncated {
            count += self.cut_off(bytes.len(), segment, &arrived);
        }
        self.ledger.enter(first, count);
        goes
    }

    #[inline]
    fn read(&mut self, datagram: &mut [u8], number: u64) -> bool {
        if let Some(pattern) = &self.verify {
            // The number itself is not of the pattern.
            let skip = NUMBER_LEN.min(datagram.len());
            let offset = number.wrapping_mul(self.size).wrapping_add(skip as u64);
            self.mismatch = self.mismatch.or(pattern.check(offset, &datagram[skip..]).err());
            self.verified_bytes += datagram.len() as u64;
        }
        (self.is_late || self.reader.received(datagram, 0)) && self.mismatch.is_none()
    }

    /// Counts what a short buffer cost. Returns how many datagrams came of which not a byte was kept: they follow on
    /// the others.
    #[cold]
    fn cut_off(&mut self, kept: usize, segment: usize, arrived: &Arrived) -> u64 {
        let (whole, begun) = (kept / segment, kept.div_ceil(segment));
        self.truncated += arrived.datagrams().saturating_sub(whole) as u64;
        self.cut_bytes += arrived.len.saturating_sub(kept) as u64;
        arrived.datagrams().saturating_sub(begun) as u64
    }
}

/// `recvmsg(2)`: one message a call.
pub(super) struct One(pub(super) Inbox);

impl Mailbox for One {
    #[inline]
    fn receive<E: Effort>(&mut self, fd: BorrowedFd<'_>, desk: &mut Desk<E>) -> io::Result<(Moved, Goes)> {
        self.0.receive_one(fd)?;
        let arrived = self.0.arrived(0);
        let mut moved = Moved { full: true, ..Moved::default() };
        let goes = desk.take(self.0.bytes(0), arrived, &mut moved);
        Ok((moved, goes))
    }
}

/// `recvmmsg(2)`: many messages a call.
pub(super) struct Many(pub(super) Inbox);

impl Many {
    pub(super) fn new(stream: &StreamSetup) -> Many {
        Many(Inbox::new(batch(stream), stream.path.read_size, false))
    }
}

impl Mailbox for Many {
    #[inline]
    fn receive<E: Effort>(&mut self, fd: BorrowedFd<'_>, desk: &mut Desk<E>) -> io::Result<(Moved, Goes)> {
        let filled = self.0.receive(fd)?;
        let mut moved = Moved { full: filled == self.0.slots(), ..Moved::default() };
        for slot in 0..filled {
            let arrived = self.0.arrived(slot);
            let goes = desk.take(self.0.bytes(slot), arrived, &mut moved);
            if goes != Goes::On {
                return Ok((moved, goes));
            }
        }
        Ok((moved, Goes::On))
    }
}

/// Receives until the time is up.
pub(super) fn run<M: Mailbox, E: Effort>(
    mailbox: &mut M,
    desk: &mut Desk<E>,
    run: Run<'_>,
    meter: &mut Meter,
) -> Result<Stop, Fault> {
    loop {
        for _ in 0..meter.lap_calls() {
            match mailbox.receive(run.fd, desk) {
                Ok((moved, goes)) => {
                    meter.count(moved.bytes, moved.bytes + usize::from(!moved.full));
                    meter.note(moved.datagrams, moved.packets);
                    match goes {
                        Goes::On => {}
                        Goes::Ended => return Ok(Stop::Ended(End::Eof)),
                        Goes::Refused => return Ok(Stop::Refused),
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    if run.abort.load(Ordering::Relaxed) {
                        return Ok(Stop::Aborted);
                    }
                    // Whoever was woken looks at the clock.
                    break;
                }
                Err(source) => return Err(Fault::Io { doing: "receiving datagrams".into(), source }),
            }
        }
        if !meter.lap(run.told) {
            return Ok(Stop::Time);
        }
    }
}

/// Takes what is still on its way, until the sender says that there is no more.
pub(super) fn drain<M: Mailbox, E: Effort>(mailbox: &mut M, desk: &mut Desk<E>, run: Run<'_>) -> Result<(), Fault> {
    desk.is_late = true;
    loop {
        match mailbox.receive(run.fd, desk) {
            Ok((_, Goes::On)) => {}
            Ok((_, Goes::Ended | Goes::Refused)) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                if run.abort.load(Ordering::Relaxed) {
                    return Ok(());
                }
            }
            Err(source) => return Err(Fault::Io { doing: "draining what was on its way".into(), source }),
        }
    }
}
