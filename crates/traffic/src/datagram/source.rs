//! The sending end: numbers its datagrams and hands them to the kernel: one, many, or many in one piece to be segmented.
//!
//! Datagrams that the kernel refuses for lack of room are sent again with their numbers: the sender loses none.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use bytegauge_model::{DatagramReport, Engine, EngineReport, Fill};
use bytegauge_sys::buffer::AlignedBuffer;
use bytegauge_sys::clock::monotonic_ns;
use bytegauge_sys::datagram::{self, Outbox, SEGMENTS_MAX};
use bytegauge_sys::socket;

use crate::EndError;
use crate::datagram::handshake::is_gone;
use crate::datagram::numbers::{self, Layout};
use crate::engine::{Always, FlowIo, FlowStation, Stop, run_on};
use crate::flow::{ConnectionEnd, Flow, Want};
use crate::meter::Meter;
use crate::pace::{Pace, spin_ns};
use crate::pattern::Pattern;
use crate::planted_fault::PlantedFault;
use crate::setup::{Setup, TransferLimit};

/// The result of one call, or of one turn of a ring.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BatchResult {
    pub(super) bytes: usize,
    pub(super) datagrams: u64,
    pub(super) packets: u64,
    /// Whether it moved the whole request.
    pub(super) full: bool,
}

/// A way to hand datagrams to the kernel. Its loop is compiled for each.
pub(crate) trait MessageSender {
    /// Packs datagrams unless some wait already, and sends.
    fn send(&mut self, fd: BorrowedFd<'_>, packer: &mut Packer) -> io::Result<BatchResult>;

    /// Waits for sends in flight.
    fn finish(&mut self, _abort: &AtomicBool) {}

    /// Counts of the engine, if it keeps any.
    fn engine(&self) -> Option<EngineReport> {
        None
    }

    /// Sends until stopped.
    fn run(
        &mut self,
        packer: &mut Packer,
        run: SourceLoop<'_>,
        pace: Pace,
        meter: &mut Meter,
        sent: &mut DatagramReport,
    ) -> Result<Stop, EndError> {
        let SourceLoop { fd, abort, stop_requested, .. } = run;
        let size = packer.size;
        let slot = FlowStation { fd: Some(fd), buffer: &mut [], pace, abort, stop_requested };
        let stopped = run_on(&mut SenderIo { sender: self, packer, run, sent }, &mut Always(Want::Send), slot, meter);
        stopped.map_err(|fault| match fault {
            EndError::Io { source, .. } if is_too_long(&source) => EndError::Missing(format!(
                "a datagram of {size} B is too large for this socket ({source}): use a smaller --write-size, with --engine gso \
                 one that fits the MTU with its headers, or over Unix sockets a larger --sndbuf"
            )),
            other => other,
        })
    }
}

/// The calls of a sender.
struct SenderIo<'a, S: ?Sized> {
    sender: &'a mut S,
    packer: &'a mut Packer,
    run: SourceLoop<'a>,
    sent: &'a mut DatagramReport,
}

impl<S: MessageSender + ?Sized> FlowIo for SenderIo<'_, S> {
    #[inline]
    fn send<F: Flow>(&mut self, _flow: &mut F, meter: &mut Meter) -> io::Result<Option<Stop>> {
        match self.sender.send(self.run.fd, self.packer) {
            Ok(moved) => {
                meter.count(moved.bytes, moved.bytes + usize::from(!moved.full));
                meter.note(moved.datagrams, moved.packets);
                self.sent.total_packets += moved.packets;
                Ok(None)
            }
            Err(error) if lacks_room(&error) => {
                self.sent.refused += 1;
                Ok(self.run.abort.load(Ordering::Relaxed).then_some(Stop::Aborted))
            }
            Err(error) if is_gone(&error) => Ok(Some(Stop::Ended(ConnectionEnd::Closed))),
            Err(error) => Err(error),
        }
    }
}

/// Writes the content of datagrams: their numbers, and the plan's bytes.
#[derive(Debug)]
pub(crate) struct Packer {
    /// Bytes of a datagram.
    pub(super) size: usize,
    next: u64,
    /// Numbers below this were sent.
    pub(crate) sent: u64,
    fill: Fill,
    turn: u8,
    verify: Option<Pattern>,
    plant: Option<PlantedFault>,
    /// A number that was delayed, by a planted fault.
    put_off: Option<u64>,
    /// Whether only numbers are written.
    writes_numbers_alone: bool,
    layout: Layout,
    /// The time of the last packing, where the layout has one.
    now_ns: u64,
}

impl Packer {
    pub(crate) fn new(setup: &Setup, flow: usize) -> Packer {
        let planted = |plant: &PlantedFault| flow == 0 && plant.is_of_source();
        let (fill, plant) = (setup.writer_work(), setup.planted().filter(planted));
        let layout = setup.layout();
        Packer {
            writes_numbers_alone: fill == Fill::None && !setup.verify && plant.is_none() && layout == Layout::Plain,
            layout,
            now_ns: 0,
            size: setup.datagram_size(),
            next: 0,
            sent: 0,
            fill,
            turn: 0,
            verify: setup.verify.then(|| Pattern::new(setup.seed, flow)),
            plant,
            put_off: None,
        }
    }

    /// Makes datagrams of the bytes. Returns the number up to which all are sent when these are.
    #[inline]
    pub(super) fn pack(&mut self, bytes: &mut [u8]) -> u64 {
        if self.writes_numbers_alone {
            // The general case below would take 5 % of the time of a send of 64 datagrams in one piece.
            for datagram in bytes.chunks_mut(self.size) {
                numbers::write(datagram, self.next);
                self.next += 1;
            }
            return self.next;
        }
        if self.layout == Layout::Iperf3 {
            self.now_ns = monotonic_ns();
        }
        for datagram in bytes.chunks_mut(self.size) {
            let number = match PlantedFault::enabled(self.plant) {
                None => self.take(),
                Some(plant) => self.planted(plant),
            };
            self.write(datagram, number);
        }
        self.next
    }

    /// Everything below this number was sent.
    #[inline]
    pub(super) fn settle(&mut self, number: u64) {
        self.sent = number;
    }

    #[inline]
    fn take(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }

    #[inline]
    fn write(&mut self, datagram: &mut [u8], number: u64) {
        match self.fill {
            Fill::None => {}
            Fill::Touch => {
                self.turn = self.turn.wrapping_add(1);
                datagram.fill(self.turn);
            }
            Fill::NsPerByte(ns) => spin_ns(ns * datagram.len() as f64),
        }
        if let Some(pattern) = &self.verify {
            pattern.fill(number * self.size as u64, datagram);
        }
        match self.layout {
            Layout::Plain => numbers::write(datagram, number),
            Layout::Iperf3 => numbers::write_iperf3(datagram, number, self.now_ns),
        }
        if let Some(PlantedFault::Corrupt(offset)) = PlantedFault::enabled(self.plant)
            && let Some(byte) =
                offset.checked_sub(number * self.size as u64).and_then(|at| datagram.get_mut(at as usize))
        {
            *byte ^= 1;
        }
    }

    /// The next number on a path that loses, swaps or repeats every n-th one.
    #[cold]
    fn planted(&mut self, plant: PlantedFault) -> u64 {
        if let Some(number) = self.put_off.take() {
            return number;
        }
        let number = self.take();
        let is_turn = |every: u64| number > 0 && number.is_multiple_of(every.max(2));
        match plant {
            PlantedFault::Lose(every) if is_turn(every) => self.take(),
            PlantedFault::Swap(every) if is_turn(every) => {
                self.put_off = Some(number);
                self.take()
            }
            PlantedFault::Repeat(every) if is_turn(every) => {
                self.put_off = Some(number);
                number
            }
            _ => number,
        }
    }
}

/// `send(2)`: a datagram per call, or a piece that the kernel segments into datagrams ([`cut_size`]).
pub(super) struct OneSender {
    bytes: AlignedBuffer,
    segments: u64,
    /// Whether the buffer's content was not taken yet.
    waits: bool,
    end: u64,
}

impl OneSender {
    pub(super) fn new(setup: &Setup) -> OneSender {
        let segments = segments(setup);
        let bytes = AlignedBuffer::new(setup.datagram_size() * segments);
        OneSender { bytes, segments: segments as u64, waits: false, end: 0 }
    }
}

/// Datagrams in one send: the plan's number, or as many as fit, for the segmenting engine; else one.
fn segments(setup: &Setup) -> usize {
    if setup.engine() != Engine::Gso {
        return 1;
    }
    let most = setup.transport().datagram_max().unwrap_or(0) as usize;
    setup.batch().unwrap_or((most / setup.datagram_size()).clamp(1, SEGMENTS_MAX))
}

/// The `UDP_SEGMENT` of a sender's socket, bytes; absent without segmentation: one datagram is no piece.
pub(crate) fn cut_size(setup: &Setup) -> Option<u64> {
    (segments(setup) > 1).then(|| setup.datagram_size() as u64)
}

impl MessageSender for OneSender {
    #[inline]
    fn send(&mut self, fd: BorrowedFd<'_>, packer: &mut Packer) -> io::Result<BatchResult> {
        if !self.waits {
            self.end = packer.pack(&mut self.bytes);
            self.waits = true;
        }
        let bytes = socket::send(fd, &self.bytes)?;
        self.waits = false;
        packer.settle(self.end);
        Ok(BatchResult { bytes, datagrams: self.segments, packets: 1, full: true })
    }
}

/// `sendmmsg(2)`: many datagrams per call.
pub(super) struct ManySender {
    outbox: Outbox,
    /// By slot, the result of [`Packer::pack`].
    ends: Vec<u64>,
    /// The first slot that was not taken yet.
    first: usize,
}

impl ManySender {
    pub(super) fn new(setup: &Setup) -> ManySender {
        let slots = setup.call_batch();
        ManySender { outbox: Outbox::new(slots, setup.datagram_size()), ends: vec![0; slots], first: slots }
    }
}

impl MessageSender for ManySender {
    #[inline]
    fn send(&mut self, fd: BorrowedFd<'_>, packer: &mut Packer) -> io::Result<BatchResult> {
        let slots = self.ends.len();
        if self.first == slots {
            for slot in 0..slots {
                self.ends[slot] = packer.pack(self.outbox.bytes(slot));
            }
            self.first = 0;
        }
        let asked = slots - self.first;
        let taken = self.outbox.send(fd, self.first, slots)?;
        if taken > 0 {
            self.first += taken;
            packer.settle(self.ends[self.first - 1]);
        }
        Ok(BatchResult {
            bytes: taken * packer.size,
            datagrams: taken as u64,
            packets: taken as u64,
            full: taken == asked,
        })
    }
}

/// Most datagrams that an end has room for.
pub fn at_most(setup: &Setup) -> usize {
    setup.call_batch().max(setup.outstanding())
}

/// Messages that a ring sends at once. Sends to a Unix socket may have to wait for room, and could then be reordered.
pub(super) fn at_once(setup: &Setup) -> usize {
    if setup.transport().is_udp() { setup.outstanding() } else { 1 }
}

/// The environment of a loop.
#[derive(Clone, Copy)]
pub(crate) struct SourceLoop<'a> {
    pub(crate) fd: BorrowedFd<'a>,
    pub(crate) abort: &'a AtomicBool,
    pub(crate) stop_requested: &'a AtomicBool,
    pub(crate) limit: Option<&'a TransferLimit>,
}

/// The queue of a device, the memory of a socket or of the machine is full: it may be empty in a moment.
fn lacks_room(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || socket::is_exhausted(error)
}

/// Whether a datagram is too long. The second error is that of a piece whose datagrams exceed the MTU, which is unknown in advance
/// between two hosts (udp_send_skb, net/ipv4/udp.c).
fn is_too_long(error: &io::Error) -> bool {
    datagram::is_too_long(error) || error.kind() == io::ErrorKind::InvalidInput
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datagram::numbers::Ledger;

    fn packer(plant: Option<PlantedFault>) -> Packer {
        let (fill, writes_numbers_alone) = (Fill::None, plant.is_none());
        let (layout, now_ns, put_off) = (Layout::Plain, 0, None);
        Packer {
            size: 8,
            next: 0,
            sent: 0,
            fill,
            turn: 0,
            verify: None,
            plant,
            put_off,
            writes_numbers_alone,
            layout,
            now_ns,
        }
    }

    fn check(plant: Option<PlantedFault>, expected: (u64, u64, u64)) {
        let mut packer = packer(plant);
        let mut ledger = Ledger::default();
        let mut bytes = [0; 80];
        for _ in 0..10 {
            packer.pack(&mut bytes);
            for datagram in bytes.chunks(8) {
                ledger.enter(numbers::read(datagram, ledger.next).unwrap(), 1);
            }
        }
        let DatagramReport { missing, reordered, duplicated, .. } = ledger.counts;
        assert_eq!((missing, reordered, duplicated), expected);
    }

    #[test]
    fn planted_faults_are_counted() {
        check(None, (0, 0, 0));
        check(Some(PlantedFault::Lose(10)), (10, 0, 0));
        check(Some(PlantedFault::Swap(10)), (0, 9, 0));
        check(Some(PlantedFault::Repeat(10)), (0, 0, 9));
    }

    /// Sends at once for a while, then waits until a time-out, and is stopped meanwhile.
    struct Slow<'a> {
        sends: u64,
        waits: u64,
        stop_requested: &'a AtomicBool,
    }

    impl MessageSender for Slow<'_> {
        fn send(&mut self, _fd: BorrowedFd<'_>, _packer: &mut Packer) -> io::Result<BatchResult> {
            self.sends += 1;
            if self.sends < 5000 {
                return Ok(BatchResult { bytes: 8, datagrams: 1, packets: 1, full: true });
            }
            self.waits += 1;
            self.stop_requested.store(true, Ordering::Relaxed);
            Err(io::ErrorKind::Interrupted.into())
        }
    }

    #[test]
    fn a_waiting_sender_stops_at_once() {
        let (stop_requested, abort) = (AtomicBool::new(false), AtomicBool::new(false));
        let mut sender = Slow { sends: 0, waits: 0, stop_requested: &stop_requested };
        let plant = None;
        let mut packer = packer(plant);
        let schedule = crate::meter::Schedule { warmup_ns: 0, window_ns: 3_600_000_000_000, until_stopped: true };
        let mut meter = Meter::start(&schedule, 0);
        let input = io::stdin();
        let run = SourceLoop {
            fd: std::os::fd::AsFd::as_fd(&input),
            abort: &abort,
            stop_requested: &stop_requested,
            limit: None,
        };
        let (pace, mut sent) = (Pace::of(None, 1, 0), DatagramReport::default());
        let stopped = sender.run(&mut packer, run, pace, &mut meter, &mut sent);
        assert!(matches!(stopped, Ok(Stop::Time)));
        // By now a lap is thousands of calls, each of which may wait for 50 ms.
        assert_eq!((sender.sends, sender.waits), (5000, 1));
    }
}
