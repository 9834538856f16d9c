//! The server's end over datagrams by io_uring(7): several receives in the kernel, or one multishot receive.
//!
//! `plain` keeps `outstanding` messages in the kernel: each is filled by a receive, sent back in place, and offered again.
//! `multishot` has one receive that uses buffers of a pool; an echo is sent from its buffer.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use bytegauge_model::{EngineReport, UringKind, UringMode};
use bytegauge_sys::clock::monotonic_ns;
use bytegauge_sys::datagram::{PeerAddress, SlotTarget};
use bytegauge_sys::uring::{
    Completion, Errno, Feature, MESSAGE_ROOM, MessageId, Missing, OpResult, PoolId, Ring, RingSetup, Taken, Wait,
};

use crate::call::datagram::responder::{Answer, DatagramResponder};
use crate::end_error::EndError;
use crate::engine::{Stop, WAIT_MAX_NS};
use crate::meter::Meter;

/// The token of the multishot receive; messages have their index.
const RECEIVER: u64 = u64::MAX;

struct RingServer<'a> {
    responder: &'a mut DatagramResponder,
    fd: BorrowedFd<'a>,
    ring: Ring,
    /// Messages that receives fill, and from which echoes are sent.
    messages: Vec<MessageId>,
    /// Messages of other replies, one for each.
    made: Vec<MessageId>,
    /// The pool of the multishot receive.
    pool: Option<PoolId>,
    /// Free messages of a server with a pool.
    free: Vec<usize>,
    /// Requests that wait for one.
    waiting: VecDeque<Taken>,
    meter: &'a mut Meter,
    report: EngineReport,
}

/// Serves until it is stopped, with `outstanding` receives of at most `read_size` bytes.
pub(super) fn serve(
    mode: UringMode,
    responder: &mut DatagramResponder,
    fd: BorrowedFd<'_>,
    (read_size, outstanding): (usize, usize),
    (stop_requested, abort): (&AtomicBool, &AtomicBool),
    meter: &mut Meter,
) -> Result<(Stop, EngineReport), EndError> {
    let entries = (2 * outstanding as u32).next_power_of_two().clamp(64, 8192);
    let setup = RingSetup { entries, completions: 4 * entries, poll_idle_ms: None };
    let mut ring = Ring::open(&setup)?;
    let mut pool = None;
    if mode.kind != UringKind::Plain {
        ring.require(Feature::MultishotReceive)?;
        // As many again for replies in flight.
        let buffers = outstanding.min(1 << 14) as u16;
        let made = ring.new_pool(2 * buffers, read_size + MESSAGE_ROOM)?;
        ring.keep_offered(made, buffers);
        pool = Some(made);
    }
    // With a pool they only hold the address for an echo.
    let messages = messages(&mut ring, outstanding, if pool.is_some() { 0 } else { read_size })?;
    let mut made = Vec::new();
    if let Some(len) = responder.made_len() {
        made = self::messages(&mut ring, outstanding, len)?;
        made.iter().filter_map(|id| ring.message(*id).map(|reply| responder.make(reply))).count();
    }
    let before = ring.counts();
    let free = (0..messages.len()).collect();
    let (waiting, report) = (VecDeque::new(), EngineReport::default());
    let mut server = RingServer { responder, fd, ring, messages, made, pool, free, waiting, meter, report };
    let stopped = server.run(stop_requested, abort);
    let counts = server.ring.counts();
    let report = EngineReport {
        system_calls: counts.system_calls - before.system_calls,
        completions: counts.completions - before.completions,
        buffer_bytes: server.ring.buffer_bytes() as u64,
        kernel_threads_ns: server.ring.helper_cpu_ns(),
        ..server.report
    };
    stopped.map(|stop| (stop, report))
}

fn messages(ring: &mut Ring, count: usize, len: usize) -> Result<Vec<MessageId>, Missing> {
    (0..count).map(|_| ring.new_message(len)).collect()
}

impl RingServer<'_> {
    fn run(&mut self, stop_requested: &AtomicBool, abort: &AtomicBool) -> Result<Stop, EndError> {
        match self.pool {
            Some(_) => self.receive_on_and_on(),
            None => (0..self.messages.len()).for_each(|index| self.receive(index)),
        }
        loop {
            if abort.load(Ordering::Relaxed) {
                return Ok(Stop::Aborted);
            }
            let now_ns = monotonic_ns();
            if !self.meter.goes_on(now_ns, stop_requested) {
                return Ok(Stop::Time);
            }
            if self.responder.is_stuck {
                return Ok(DatagramResponder::rest(stop_requested, abort));
            }
            // A wait of 0 ns would not even check.
            let until_ns = self.meter.next_mark_ns().clamp(now_ns + 1, now_ns + WAIT_MAX_NS);
            let waited = self.ring.wait(1, Some(until_ns - now_ns)).map_err(EndError::io("waiting in io_uring"))?;
            let mut any = false;
            while let Some(completion) = self.ring.reap() {
                any = true;
                self.on_completion(completion)?;
            }
            self.report.wakeups += u64::from(any && waited == Wait::Ready);
        }
    }

    fn on_completion(&mut self, completion: Completion) -> Result<(), EndError> {
        let Completion { token, more, event } = completion;
        match event {
            OpResult::Received { moved, taken: Some(taken) } => {
                self.report.multishot += u64::from(more);
                if moved.is_ok() {
                    self.answer_later(taken);
                } else {
                    self.ring.give_back(taken);
                }
                self.goes_on(more)
            }
            OpResult::Received { moved: Err(errno), taken: None } if token == RECEIVER => {
                self.report.out_of_buffers += u64::from(errno == Errno::NO_BUFFER);
                if errno != Errno::NO_BUFFER {
                    passing(errno)?;
                }
                self.goes_on(more)
            }
            // A datagram of no bytes.
            OpResult::Received { moved: Ok(_), taken: None } if token == RECEIVER => self.goes_on(more),
            OpResult::Received { moved: Ok(moved), .. } => {
                self.answer(token as usize, moved);
                Ok(())
            }
            OpResult::Received { moved: Err(errno), .. } => {
                passing(errno)?;
                self.receive(token as usize);
                Ok(())
            }
            OpResult::Sent { moved, .. } => {
                self.on_sent(token as usize, moved);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn receive(&mut self, index: usize) {
        self.ring.receive_message(index as u64, self.fd, self.messages[index]);
    }

    fn receive_on_and_on(&mut self) {
        if let Some(pool) = self.pool {
            self.ring.receive_messages(RECEIVER, self.fd, pool);
        }
    }

    fn goes_on(&mut self, more: bool) -> Result<(), EndError> {
        if !more {
            self.receive_on_and_on();
        }
        Ok(())
    }

    /// Answers the request of one of the receives.
    fn answer(&mut self, index: usize, moved: usize) {
        let id = self.messages[index];
        let (arrived, from) = (self.ring.arrived(id, moved), self.ring.source(id));
        let Some(bytes) = self.ring.message(id) else { return };
        let len = arrived.len.min(bytes.len());
        let answer = self.responder.answers(&bytes[..len], arrived.truncated, &from, self.fd, self.meter);
        if !self.send(index, answer, len, &from) {
            self.receive(index);
        }
    }

    /// Sends a reply from message `index`, which has an echo of `len` bytes. `false` if nothing is to be sent.
    fn send(&mut self, index: usize, answer: Answer, len: usize, to: &PeerAddress) -> bool {
        let (id, len) = match answer {
            Answer::Nothing => return false,
            Answer::Echo => (self.messages[index], len),
            Answer::Made(head) => {
                let id = self.made[index];
                let Some(reply) = self.ring.message(id) else { return false };
                self.responder.address(reply, head);
                (id, reply.len())
            }
        };
        self.ring.send_message(index as u64, self.fd, id, SlotTarget { len, peer: Some(to), segment: None });
        true
    }

    fn on_sent(&mut self, index: usize, moved: Result<usize, Errno>) {
        match moved {
            Ok(len) => {
                self.meter.count(len, len);
                self.responder.seen.sent += 1;
            }
            // The client is gone, or the queue is full.
            Err(_) => self.responder.seen.unsent += 1,
        }
        if self.pool.is_none() {
            return self.receive(index);
        }
        self.free.push(index);
        if let Some(taken) = self.waiting.pop_front() {
            self.answer_later(taken);
        }
    }

    /// Answers a request of the multishot receive, as soon as a message for the reply is free.
    fn answer_later(&mut self, mut taken: Taken) {
        let Some(index) = self.free.pop() else { return self.waiting.push_back(taken) };
        let Some(parcel) = self.ring.parcel(&mut taken) else {
            self.free.push(index);
            return self.ring.give_back(taken);
        };
        let (len, from) = (parcel.bytes.len(), parcel.source);
        let answer = self.responder.answers(parcel.bytes, parcel.arrived.truncated, &from, self.fd, self.meter);
        if answer == Answer::Echo {
            self.ring.send_parcel(index as u64, self.fd, self.messages[index], (&taken, len), &from);
        } else if !self.send(index, answer, len, &from) {
            self.free.push(index);
        }
        self.ring.give_back(taken);
    }
}

/// Whether an error only means that nothing was received this time.
fn passing(errno: Errno) -> Result<(), EndError> {
    use io::ErrorKind::{ConnectionRefused, Interrupted, WouldBlock};
    let error = io::Error::from(errno);
    match error.kind() {
        Interrupted | WouldBlock | ConnectionRefused => Ok(()),
        _ if errno == Errno::CANCELLED => Ok(()),
        _ => Err(EndError::Io { doing: "receiving requests on a ring".into(), source: error }),
    }
}
