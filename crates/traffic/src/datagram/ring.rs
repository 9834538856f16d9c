//! Datagrams by io_uring: receives, as many in flight as the plan keeps outstanding or one multishot receive into a pool, with
//! replies to them if a server has any; and sends, many per system call.
//!
//! A message that was received is sent back in place, and offered again when that is over. With a pool an echo is sent from the
//! buffer that it arrived in.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use bytegauge_model::EngineReport;
use bytegauge_sys::datagram::{Arrived, PeerAddress, SlotTarget};
use bytegauge_sys::socket::{self, During};
use bytegauge_sys::uring::{
    self, Completion, Errno, Feature, MESSAGE_ROOM, MessageId, Missing, OpResult, PoolId, Ring, RingCounts, RingSetup,
    Taken, Wait,
};

use crate::EndError;
use crate::datagram::sink::{ENDED, MessageReceiver, SinkReader};
use crate::datagram::source::{BatchResult, MessageSender, Packer, at_once};
use crate::engine::{Stop, WAIT_MAX_NS};
use crate::setup::Setup;

/// A ring and its counts.
struct DatagramRing {
    ring: Ring,
    before: RingCounts,
    report: EngineReport,
}

impl DatagramRing {
    /// A ring for this number of operations at once.
    fn open(operations: usize) -> Result<DatagramRing, EndError> {
        let entries = operations.next_power_of_two().clamp(8, 8192) as u32;
        let ring = Ring::open(&RingSetup { entries, completions: 4 * entries, poll_idle_ms: None })?;
        Ok(DatagramRing { before: ring.counts(), ring, report: EngineReport::default() })
    }

    fn messages(&mut self, count: usize, len: usize) -> Result<Vec<MessageId>, Missing> {
        (0..count).map(|_| self.ring.new_message(len)).collect()
    }

    /// Submits, and waits for a completion. A limit that is reached counts as an interruption: flags are to be checked.
    fn wait(&mut self, limit_ns: u64) -> io::Result<()> {
        match self.ring.wait(1, Some(limit_ns))? {
            Wait::Ready => Ok(()),
            Wait::TimedOut | Wait::Interrupted => Err(io::ErrorKind::Interrupted.into()),
        }
    }

    fn report(&self) -> EngineReport {
        let counts = self.ring.counts();
        EngineReport {
            system_calls: counts.system_calls - self.before.system_calls,
            completions: counts.completions - self.before.completions,
            ..self.report
        }
    }
}

/// Whether an operation was cancelled or interrupted.
fn is_cancelled(errno: Errno) -> bool {
    errno == Errno::CANCELED || errno == Errno::INTR
}

/// Sends of messages, as many in flight as the plan keeps outstanding.
pub(super) struct SenderRing {
    engine: DatagramRing,
    messages: Vec<MessageId>,
    /// Messages without content.
    idle: Vec<usize>,
    /// Messages with datagrams that the kernel refused.
    refused: Vec<usize>,
}

impl SenderRing {
    pub(super) fn new(setup: &Setup) -> Result<SenderRing, EndError> {
        let mut engine = DatagramRing::open(setup.outstanding())?;
        let count = at_once(setup);
        let messages = engine.messages(count, setup.datagram_size())?;
        Ok(SenderRing { engine, messages, idle: (0..count).rev().collect(), refused: Vec::with_capacity(count) })
    }

    fn queue(&mut self, fd: BorrowedFd<'_>, index: usize, len: usize) {
        let to = SlotTarget { len, ..SlotTarget::default() };
        self.engine.ring.send_message(index as u64, fd, self.messages[index], to);
    }
}

impl MessageSender for SenderRing {
    /// They leave before anything that is sent otherwise.
    fn finish(&mut self, abort: &AtomicBool) {
        while self.engine.ring.in_flight() > 0 && !abort.load(Ordering::Relaxed) {
            // Interrupted or late: the flag decides.
            let _ = self.engine.wait(WAIT_MAX_NS);
            while self.engine.ring.reap().is_some() {}
        }
    }

    fn engine(&self) -> Option<EngineReport> {
        Some(self.engine.report())
    }

    fn send(&mut self, fd: BorrowedFd<'_>, packer: &mut Packer) -> io::Result<BatchResult> {
        let size = packer.size;
        while let Some(index) = self.refused.pop() {
            self.queue(fd, index, size);
        }
        while let Some(index) = self.idle.pop() {
            if let Some(bytes) = self.engine.ring.message(self.messages[index]) {
                let end = packer.pack(bytes);
                // Sends in flight will be completed, or tried again: the ring keeps nothing back.
                packer.settle(end);
            }
            self.queue(fd, index, size);
        }
        self.engine.wait(WAIT_MAX_NS)?;
        let mut moved = BatchResult { full: true, ..BatchResult::default() };
        let mut refused = None;
        while let Some(Completion { token, event, .. }) = self.engine.ring.reap() {
            let OpResult::Sent(sent) = event else { continue };
            match sent {
                Ok(bytes) => {
                    moved.bytes += bytes;
                    moved.datagrams += 1;
                    moved.packets += 1;
                    self.idle.push(token as usize);
                }
                Err(errno) => {
                    self.refused.push(token as usize);
                    refused = Some(errno).filter(|errno| !is_cancelled(*errno)).or(refused);
                }
            }
        }
        match refused {
            Some(errno) if moved.datagrams == 0 => Err(errno.into()),
            _ => Ok(moved),
        }
    }
}

/// The reply to a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The received bytes.
    Echo,
    /// A reply that begins with this number.
    Made(u64),
    /// No reply now.
    Nothing,
}

/// The receiver of a ring's datagrams.
pub(crate) trait DatagramHandler {
    /// A datagram arrived, or several that were joined; `bytes` is as much of it as its buffer held.
    fn on_datagram(&mut self, bytes: &mut [u8], arrived: Arrived, from: &PeerAddress) -> Answer;

    /// Writes the number with which a made reply begins.
    fn write_head(&mut self, _reply: &mut [u8], _head: u64) {}

    /// A reply was sent, or refused.
    fn on_sent(&mut self, _sent: Result<usize, Errno>) {}
}

/// Receives of datagrams, and replies to them.
pub(crate) struct ReceiverRing {
    engine: DatagramRing,
    /// The kind of socket, which decides which errors of a receive are transient.
    during: During,
    /// Messages that receives fill, and from which echoes are sent. With a pool they only hold the address of a reply.
    messages: Vec<MessageId>,
    /// Messages of made replies, one for each of the others.
    made: Vec<MessageId>,
    /// The pool of the multishot receive.
    pool: Option<PoolId>,
    is_armed: bool,
    /// With a pool, messages that no reply uses, and datagrams that wait for one.
    free: Vec<usize>,
    waiting: VecDeque<Taken>,
}

impl ReceiverRing {
    /// The receiver of a stream's flow, or of a server, which `replies`.
    pub(crate) fn open(setup: &Setup, is_multishot: bool, replies: bool) -> Result<ReceiverRing, EndError> {
        let (outstanding, read_size) = (setup.outstanding(), setup.read_size());
        let mut engine = DatagramRing::open(if replies { (2 * outstanding).max(64) } else { outstanding })?;
        let (mut pool, mut count, mut len) = (None, outstanding, read_size);
        if is_multishot {
            engine.ring.require(Feature::MultishotReceive)?;
            // As many again for replies in flight.
            let offered = outstanding.min(if replies { 1 << 14 } else { 1 << 15 }) as u16;
            let buffers = if replies { 2 * offered } else { offered };
            let id = engine.ring.new_pool(buffers, read_size + MESSAGE_ROOM)?;
            engine.ring.keep_offered(id, offered);
            // One message for no reply.
            (pool, count, len) = (Some(id), if replies { outstanding } else { 1 }, 0);
        }
        engine.before = engine.ring.counts();
        Ok(ReceiverRing {
            during: if replies { During::Unconnected } else { During::Transfer },
            messages: engine.messages(count, len)?,
            made: Vec::new(),
            pool,
            is_armed: false,
            free: (0..count).collect(),
            waiting: VecDeque::new(),
            engine,
        })
    }

    /// Prepares made replies of `len` bytes; `make` writes what all of them have in common.
    pub(crate) fn make_replies(&mut self, len: usize, make: impl Fn(&mut [u8])) -> Result<(), Missing> {
        self.made = self.engine.messages(self.messages.len(), len)?;
        for id in &self.made {
            self.engine.ring.message(*id).into_iter().for_each(&make);
        }
        Ok(())
    }

    /// Its counts, with the memory and the helper threads of the ring.
    pub(crate) fn full_report(&self) -> EngineReport {
        EngineReport {
            buffer_bytes: self.engine.ring.buffer_bytes() as u64,
            kernel_threads_ns: uring::helper_cpu_ns(),
            ..self.engine.report()
        }
    }

    /// Makes sure that receives are in flight, and waits for a completion.
    ///
    /// # Errors
    /// The kernel's; `Interrupted` when the limit is reached.
    pub(crate) fn wait(&mut self, fd: BorrowedFd<'_>, limit_ns: u64) -> io::Result<()> {
        if !std::mem::replace(&mut self.is_armed, true) {
            match self.pool {
                Some(pool) => drop(self.engine.ring.receive_messages(0, fd, pool)),
                None => (0..self.messages.len()).for_each(|index| self.receive_into(fd, index)),
            }
        }
        self.engine.wait(limit_ns)
    }

    /// Handles all completions that are there.
    ///
    /// # Errors
    /// That of a receive, unless it is transient.
    pub(crate) fn handle_completions(
        &mut self,
        fd: BorrowedFd<'_>,
        handler: &mut impl DatagramHandler,
    ) -> io::Result<()> {
        while let Some(Completion { token, more, event }) = self.engine.ring.reap() {
            match event {
                OpResult::Received { moved, taken } if self.pool.is_some() => {
                    self.is_armed &= more;
                    self.engine.report.multishot += u64::from(more);
                    match (moved, taken) {
                        (Ok(_), Some(taken)) => self.handle_taken(fd, taken, handler),
                        (Err(_), Some(taken)) => self.engine.ring.give_back(taken),
                        (Err(Errno::NOBUFS), None) => self.engine.report.out_of_buffers += 1,
                        (Err(errno), None) => self.check(errno)?,
                        (Ok(_), None) => {}
                    }
                }
                OpResult::Received { moved: Ok(moved), .. } => self.handle_message(fd, token as usize, moved, handler),
                OpResult::Received { moved: Err(errno), .. } => {
                    self.check(errno)?;
                    self.receive_into(fd, token as usize);
                }
                OpResult::Sent(moved) => {
                    handler.on_sent(moved);
                    self.reuse(fd, token as usize, handler);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The error of a receive, unless only nothing was received this time.
    fn check(&self, errno: Errno) -> io::Result<()> {
        let error = io::Error::from(errno);
        if is_cancelled(errno) || socket::is_transient(&error, self.during) { Ok(()) } else { Err(error) }
    }

    fn receive_into(&mut self, fd: BorrowedFd<'_>, index: usize) {
        self.engine.ring.receive_message(index as u64, fd, self.messages[index]);
    }

    /// Handles a datagram in one of the messages.
    fn handle_message(&mut self, fd: BorrowedFd<'_>, index: usize, moved: usize, handler: &mut impl DatagramHandler) {
        let (ring, id) = (&mut self.engine.ring, self.messages[index]);
        let (arrived, from) = ring.arrived(id, moved);
        let Some(bytes) = ring.message(id) else { return };
        let len = arrived.len.min(bytes.len());
        let answer = handler.on_datagram(&mut bytes[..len], arrived, &from);
        if !self.reply(fd, index, (answer, len), &from, handler) {
            self.receive_into(fd, index);
        }
    }

    /// Handles a datagram of the multishot receive, as soon as a message for the reply is free.
    fn handle_taken(&mut self, fd: BorrowedFd<'_>, mut taken: Taken, handler: &mut impl DatagramHandler) {
        let Some(index) = self.free.pop() else { return self.waiting.push_back(taken) };
        let mut is_sent = false;
        if let Some(parcel) = self.engine.ring.parcel(&mut taken) {
            let (len, from) = (parcel.bytes.len(), parcel.source);
            let answer = handler.on_datagram(parcel.bytes, parcel.arrived, &from);
            is_sent = if answer == Answer::Echo {
                self.engine.ring.send_parcel(index as u64, fd, self.messages[index], (&taken, len), &from);
                true
            } else {
                self.reply(fd, index, (answer, len), &from, handler)
            };
        }
        if !is_sent {
            self.free.push(index);
        }
        self.engine.ring.give_back(taken);
    }

    /// Sends a reply from message `index`, which has an echo of `len` bytes. `false` if nothing is to be sent.
    fn reply(
        &mut self,
        fd: BorrowedFd<'_>,
        index: usize,
        (answer, len): (Answer, usize),
        to: &PeerAddress,
        handler: &mut impl DatagramHandler,
    ) -> bool {
        let (id, len) = match answer {
            Answer::Nothing => return false,
            Answer::Echo => (self.messages[index], len),
            Answer::Made(head) => {
                let id = self.made[index];
                let Some(reply) = self.engine.ring.message(id) else { return false };
                handler.write_head(reply, head);
                (id, reply.len())
            }
        };
        self.engine.ring.send_message(index as u64, fd, id, SlotTarget { len, peer: Some(to) });
        true
    }

    /// A message whose reply was sent is free for another datagram.
    fn reuse(&mut self, fd: BorrowedFd<'_>, index: usize, handler: &mut impl DatagramHandler) {
        if self.pool.is_none() {
            return self.receive_into(fd, index);
        }
        self.free.push(index);
        if let Some(taken) = self.waiting.pop_front() {
            self.handle_taken(fd, taken, handler);
        }
    }
}

/// A stream's reader.
struct SinkHandler<'a> {
    sink: &'a mut SinkReader,
    moved: BatchResult,
    stop: Option<Stop>,
}

impl DatagramHandler for SinkHandler<'_> {
    fn on_datagram(&mut self, bytes: &mut [u8], arrived: Arrived, _from: &PeerAddress) -> Answer {
        if self.stop != Some(Stop::Refused) {
            self.stop = self.sink.take(bytes, arrived, &mut self.moved).or(self.stop);
        }
        Answer::Nothing
    }
}

impl MessageReceiver for ReceiverRing {
    fn engine(&self) -> Option<EngineReport> {
        Some(self.engine.report())
    }

    fn receive(&mut self, fd: BorrowedFd<'_>, sink: &mut SinkReader) -> io::Result<(BatchResult, Option<Stop>)> {
        self.wait(fd, WAIT_MAX_NS)?;
        let moved = BatchResult { full: true, ..BatchResult::default() };
        let mut handler = SinkHandler { sink, moved, stop: None };
        self.handle_completions(fd, &mut handler)?;
        if handler.stop == Some(ENDED) {
            // Completions may arrive in another order than the datagrams: earlier datagrams may follow the announced end.
            self.engine.ring.wait(0, None)?;
            self.handle_completions(fd, &mut handler)?;
        }
        Ok((handler.moved, handler.stop))
    }
}
