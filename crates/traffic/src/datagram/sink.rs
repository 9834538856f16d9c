//! The receiving end: records the number of every datagram, does the plan's work with it, and counts truncated ones.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use bytegauge_model::EngineReport;
use bytegauge_sys::buffer::AlignedBuffer;
use bytegauge_sys::datagram::{Arrived, Inbox};
use bytegauge_sys::socket;

use crate::EndError;
use crate::datagram::numbers::{self, Layout, Ledger, NUMBER_LEN};
use crate::datagram::source::{BatchResult, SourceLoop};
use crate::engine::{Always, FlowIo, FlowStation, Stop, run_on};
use crate::flow::{ConnectionEnd, Flow, Want};
use crate::meter::Meter;
use crate::pace::Pace;
use crate::path::{SHOWN, Shown};
use crate::pattern::{Mismatch, Pattern};
use crate::setup::Setup;
use crate::stream::SinkFlow;

/// The sender announced its end.
pub(super) const ENDED: Stop = Stop::Ended(ConnectionEnd::Eof);

/// A way to take datagrams from the kernel. Its loop is compiled for each.
pub(crate) trait MessageReceiver {
    /// Takes the datagrams that are there, waiting for the first. Also returns why the reader stops, if it does: the sender announced
    /// its end, or the reader refuses the bytes.
    fn receive(&mut self, fd: BorrowedFd<'_>, sink: &mut SinkReader) -> io::Result<(BatchResult, Option<Stop>)>;

    /// Counts of the engine, if it keeps any.
    fn engine(&self) -> Option<EngineReport> {
        None
    }

    /// Receives until the time is up.
    fn run(&mut self, sink: &mut SinkReader, run: SourceLoop<'_>, meter: &mut Meter) -> Result<Stop, EndError> {
        let SourceLoop { fd, abort, stop_requested, .. } = run;
        let slot = FlowStation { fd: Some(fd), buffer: &mut [], pace: Pace::Free, abort, stop_requested };
        run_on(&mut ReceiverIo { receiver: self, sink, fd }, &mut Always(Want::Receive), slot, meter)
    }

    /// Receives datagrams that are still under way, until the sender announces its end.
    fn drain(&mut self, sink: &mut SinkReader, run: SourceLoop<'_>) -> Result<(), EndError> {
        sink.is_late = true;
        loop {
            match self.receive(run.fd, sink) {
                Ok((moved, None)) => {
                    let within_limit = run.limit.is_none_or(|limit| limit.allows(moved.bytes as u64, 0));
                    // A source that never ends is never interrupted otherwise.
                    if !within_limit || run.abort.load(Ordering::Relaxed) {
                        return Ok(());
                    }
                }
                Ok((_, Some(_))) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    if run.abort.load(Ordering::Relaxed) {
                        return Ok(());
                    }
                }
                Err(source) => return Err(EndError::Io { doing: "receiving the remaining datagrams".into(), source }),
            }
        }
    }
}

/// The calls of a receiver.
struct ReceiverIo<'a, R: ?Sized> {
    receiver: &'a mut R,
    sink: &'a mut SinkReader,
    fd: BorrowedFd<'a>,
}

impl<R: MessageReceiver + ?Sized> FlowIo for ReceiverIo<'_, R> {
    #[inline]
    fn receive<F: Flow>(&mut self, _flow: &mut F, _buffer: &mut [u8], meter: &mut Meter) -> io::Result<Option<Stop>> {
        let (moved, stop) = self.receiver.receive(self.fd, self.sink)?;
        meter.count(moved.bytes, moved.bytes + usize::from(!moved.full));
        meter.note(moved.datagrams, moved.packets);
        Ok(stop)
    }
}

/// One flow's reader.
#[derive(Debug)]
pub(crate) struct SinkReader {
    flow: usize,
    /// The ticket that the source on another host sends until it has received the report that the reader runs.
    pub(crate) shown: Option<Shown>,
    size: u64,
    pub(crate) reader: SinkFlow,
    verify: Option<Pattern>,
    mismatch: Option<Mismatch>,
    pub(crate) ledger: Ledger,
    /// Bytes kept, in the flow's whole life.
    pub(crate) bytes: u64,
    /// Bytes compared with the pattern.
    pub(crate) verified_bytes: u64,
    layout: Layout,
    /// The window is over: further datagrams are counted and checked but cause no work.
    is_late: bool,
}

impl SinkReader {
    pub(crate) fn new(setup: &Setup, flow: usize) -> SinkReader {
        // Bytes that may be lost have no offset in a stream: they are compared by their datagram's number.
        let plant = setup.planted().filter(|plant| !plant.is_of_source());
        let unverified = Setup { verify: false, plant, ..setup.clone() };
        SinkReader {
            flow,
            shown: setup.shown_by(flow).filter(|_| !setup.goes_back(flow)),
            size: setup.datagram_size() as u64,
            reader: SinkFlow::new(&unverified, flow),
            verify: setup.verify.then(|| Pattern::new(setup.seed, flow)),
            mismatch: None,
            ledger: Ledger::new(setup.spec.burst()),
            bytes: 0,
            verified_bytes: 0,
            layout: setup.layout(),
            is_late: false,
        }
    }

    /// The error in the bytes, if any.
    pub(crate) fn fault(&self) -> Option<EndError> {
        Some(EndError::Corrupt(self.flow, self.mismatch?))
    }

    /// Takes one message: a datagram, or several that were joined. Returns why it stops, if it does.
    #[inline]
    pub(super) fn take(&mut self, bytes: &mut [u8], arrived: Arrived, moved: &mut BatchResult) -> Option<Stop> {
        if arrived.len == 0 {
            return Some(ENDED);
        }
        let segment = arrived.segment.unwrap_or(arrived.len).max(1);
        // A path may swap the last ticket with later data, and the kernel may join it to data of the same length, or longer.
        if self.shown.is_some() && (segment == SHOWN || bytes.len() % segment == SHOWN) {
            return self.take_without_tickets(bytes, arrived, moved);
        }
        self.enter(bytes, arrived, moved)
    }

    /// Takes the data between tickets, and after the last one.
    #[cold]
    fn take_without_tickets(&mut self, bytes: &mut [u8], arrived: Arrived, moved: &mut BatchResult) -> Option<Stop> {
        let segment = arrived.segment.unwrap_or(arrived.len).max(1);
        let (mut rest, mut left, mut stop) = (bytes, arrived.len, None);
        while stop.is_none() {
            let is_ticket = |part: &[u8]| self.shown.as_ref().is_some_and(|shown| part == shown);
            let Some(shown) = rest.chunks(segment).position(is_ticket) else { break };
            let (before, others) = rest.split_at_mut(shown * segment);
            if !before.is_empty() {
                stop = self.enter(before, Arrived { len: before.len(), truncated: false, ..arrived }, moved);
            }
            left -= before.len() + SHOWN;
            rest = &mut others[SHOWN..];
        }
        if left == 0 || stop.is_some() { stop } else { self.enter(rest, Arrived { len: left, ..arrived }, moved) }
    }

    /// Records the datagrams of a message.
    #[inline]
    fn enter(&mut self, bytes: &mut [u8], arrived: Arrived, moved: &mut BatchResult) -> Option<Stop> {
        let datagrams = arrived.datagrams() as u64;
        let segment = arrived.segment.unwrap_or(arrived.len);
        moved.bytes += bytes.len();
        moved.datagrams += datagrams;
        moved.packets += 1;
        self.ledger.counts.total += datagrams;
        self.ledger.counts.total_packets += 1;
        self.bytes += bytes.len() as u64;
        let (mut first, mut count) = (self.ledger.next, 0);
        let mut stop = None;
        for datagram in bytes.chunks_mut(segment) {
            let expected = first.wrapping_add(count);
            let number = match self.layout {
                Layout::Plain => numbers::read(datagram, expected),
                Layout::Iperf3 => numbers::read_iperf3(datagram),
            };
            let number = number.unwrap_or(expected);
            if number != expected {
                self.ledger.enter(first, count);
                (first, count) = (number, 0);
            }
            count += 1;
            if !self.read(datagram, number) {
                stop = Some(Stop::Refused);
            }
        }
        if arrived.truncated {
            count += self.cut_off(bytes.len(), segment, &arrived);
        }
        self.ledger.enter(first, count);
        stop
    }

    #[inline]
    fn read(&mut self, datagram: &mut [u8], number: u64) -> bool {
        if let Some(pattern) = &self.verify {
            // The number itself is not part of the pattern.
            let skip = NUMBER_LEN.min(datagram.len());
            let offset = number.wrapping_mul(self.size).wrapping_add(skip as u64);
            self.mismatch = self.mismatch.or(pattern.check(offset, &datagram[skip..]).err());
            self.verified_bytes += datagram.len() as u64;
        }
        (self.is_late || self.reader.received(datagram, 0)) && self.mismatch.is_none()
    }

    /// Counts the loss by a short buffer. Returns the number of datagrams of which no byte was kept: they follow the
    /// others.
    #[cold]
    fn cut_off(&mut self, kept: usize, segment: usize, arrived: &Arrived) -> u64 {
        let (whole, begun) = (kept / segment, kept.div_ceil(segment));
        self.ledger.counts.truncated += arrived.datagrams().saturating_sub(whole) as u64;
        self.ledger.counts.cut_bytes += arrived.len.saturating_sub(kept) as u64;
        arrived.datagrams().saturating_sub(begun) as u64
    }
}

/// `recv(2)`: one datagram per call.
pub(super) struct Single(pub(super) AlignedBuffer);

impl MessageReceiver for Single {
    #[inline]
    fn receive(&mut self, fd: BorrowedFd<'_>, sink: &mut SinkReader) -> io::Result<(BatchResult, Option<Stop>)> {
        let len = socket::receive_datagram(fd, &mut self.0)?;
        let kept = len.min(self.0.len());
        let arrived = Arrived { len, truncated: len > kept, ..Arrived::default() };
        let mut moved = BatchResult { full: true, ..BatchResult::default() };
        let stop = sink.take(&mut self.0[..kept], arrived, &mut moved);
        Ok((moved, stop))
    }
}

/// `recvmsg(2)`: one message per call, which may be several datagrams that the kernel joined; or `recvmmsg(2)`: many.
impl MessageReceiver for Inbox {
    #[inline]
    fn receive(&mut self, fd: BorrowedFd<'_>, sink: &mut SinkReader) -> io::Result<(BatchResult, Option<Stop>)> {
        let filled = Inbox::receive(self, fd)?;
        let mut moved = BatchResult { full: filled == self.slots(), ..BatchResult::default() };
        for slot in 0..filled {
            let arrived = self.arrived(slot);
            let stop = sink.take(self.bytes(slot), arrived, &mut moved);
            if stop.is_some() {
                return Ok((moved, stop));
            }
        }
        Ok((moved, None))
    }
}

#[cfg(test)]
mod tests {
    use bytegauge_model::{Side, Spec};

    use super::*;
    use crate::path::{FarPath, Ticket};

    #[test]
    fn a_reordered_ticket_is_no_data() {
        let (setup, ticket) = setup(36);
        let mut sink = SinkReader::new(&setup, 2);
        let mut moved = BatchResult::default();
        for message in [datagram(0), ticket.shown_by(2), datagram(1), ticket.shown_by(1), datagram(2)] {
            let arrived = Arrived { len: message.len(), ..Arrived::default() };
            assert_eq!(sink.take(&mut message.clone(), arrived, &mut moved), None);
        }
        // The ticket of another flow should not have arrived.
        assert_eq!((sink.ledger.counts.total, moved.datagrams, moved.bytes), (4, 4, 4 * 36));
        assert!(sink.ledger.counts.missing > 1 << 32);
    }

    #[test]
    fn a_joined_ticket_is_no_data() {
        let (setup, ticket) = setup(36);
        let shown = ticket.shown_by(2);
        let check = |segment: usize, joined: &[&[u8]], cut: usize, expected: (u64, u64, u64)| {
            let mut sink = SinkReader::new(&setup, 2);
            let (mut bytes, mut moved) = (joined.concat(), BatchResult::default());
            let (len, kept) = (bytes.len(), bytes.len() - cut);
            let arrived = Arrived { len, segment: Some(segment), truncated: cut > 0 };
            assert_eq!(sink.take(&mut bytes[..kept], arrived, &mut moved), None);
            assert_eq!((sink.ledger.counts.total, sink.bytes, sink.ledger.counts.cut_bytes), expected);
            assert_eq!((moved.datagrams, moved.bytes as u64, sink.ledger.counts.missing), (expected.0, expected.1, 0));
        };
        let data = [datagram(0), datagram(1), datagram(2)];
        check(36, &[&shown, &data[0], &data[1]], 0, (2, 72, 0));
        check(36, &[&data[0], &shown, &shown, &data[1], &data[2], &shown], 0, (3, 108, 0));
        check(36, &[&shown, &shown], 0, (0, 0, 0));
        // The last one may be shorter than the others.
        check(36, &[&shown, &data[0], &data[1][..20]], 0, (2, 56, 0));
        let long = [&data[0][..], &[7; 64]].concat();
        check(100, &[&long, &shown], 0, (1, 100, 0));
        check(36, &[&data[0], &shown, &data[1], &data[2]], 40, (3, 68, 40));
        check(36, &[&data[0], &shown], 0, (1, 36, 0));
    }

    fn setup(write_size: u64) -> (Setup, Ticket) {
        let sizes = [("read_size", 64.into()), ("write_size", write_size.into())];
        let levels: Spec = [("transport", "udp".into())].into_iter().chain(sizes).collect();
        let mut setup = Setup::of(&levels).unwrap();
        let ticket = Ticket::fresh().unwrap();
        setup.far = Some(FarPath::to(([127, 0, 0, 1], 1).into(), Side::Sink, ticket));
        (setup, ticket)
    }

    fn datagram(number: u64) -> [u8; 36] {
        let mut datagram = [7; 36];
        numbers::write(&mut datagram, number);
        datagram
    }
}
