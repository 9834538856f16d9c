//! The server's end over datagrams: by system calls, of one datagram each or as many as are available, or by io_uring(7).
//!
//! With system calls the thread waits in its receive, and sends every reply before it receives again. An echo is sent in place,
//! without a copy. Several threads may share one socket: the kernel gives each datagram to one of them.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytegauge_model::{CallDatagrams, EngineReport};
use bytegauge_sys::clock::monotonic_ns;
use bytegauge_sys::datagram::{Arrived, Inbox, Outbox, PeerAddress, SlotTarget};
use bytegauge_sys::socket::{self, During};
use bytegauge_sys::uring::Errno;

use crate::EndError;
use crate::call::datagram::socket::{Admissions, AdmittedSenders, SenderStatus};
use crate::call::message_bytes::Terms;
use crate::call::server_worker::{ServerShared, ServerWorker};
use crate::datagram::{Answer, DatagramHandler, ReceiverRing};
use crate::end::thread_group::Flags;
use crate::engine::{Always, FlowIo, FlowStation, Stop, WAIT_MAX_NS, run_on};
use crate::flow::{Flow, Want};
use crate::meter::Meter;
use crate::pace::Pace;
use crate::setup::Setup;

/// The calls of a server's thread.
struct ServerIo<'a> {
    responder: &'a mut DatagramResponder,
    fd: BorrowedFd<'a>,
    inbox: Inbox,
    /// Replies that are no echo.
    outbox: Option<Outbox>,
    /// The replies to the datagrams of the last receive.
    answers: Vec<Answer>,
    stop_requested: &'a AtomicBool,
    abort: &'a AtomicBool,
    report: EngineReport,
}

/// Serves by system calls until it is stopped. A call moves `batch` datagrams of at most `read_size` bytes.
pub(super) fn serve(
    responder: &mut DatagramResponder,
    fd: BorrowedFd<'_>,
    read_size: usize,
    batch: usize,
    Flags { stop_requested, abort, .. }: &Flags,
    meter: &mut Meter,
) -> Result<(Stop, EngineReport), EndError> {
    // A signal between the check of the flags and the wait is lost.
    socket::set_receive_timeout(fd, WAIT_MAX_NS).map_err(EndError::io("bounding a receive"))?;
    let outbox = responder.made_len().map(|len| {
        let mut outbox = Outbox::new(batch, len);
        (0..batch).for_each(|slot| responder.terms().write_reply(0, outbox.bytes(slot)));
        outbox
    });
    let mut io = ServerIo {
        inbox: Inbox::new(batch, read_size, true),
        outbox,
        answers: Vec::with_capacity(batch),
        responder,
        fd,
        stop_requested,
        abort,
        report: EngineReport::default(),
    };
    let slot = FlowStation { fd: Some(fd), buffer: &mut [], pace: Pace::Free, abort, stop_requested };
    let stop = run_on(&mut io, &mut Always(Want::Receive), slot, meter)?;
    Ok((stop, io.report))
}

impl FlowIo for ServerIo<'_> {
    /// Receives requests, and sends their replies.
    fn receive<F: Flow>(&mut self, _flow: &mut F, _buffer: &mut [u8], meter: &mut Meter) -> io::Result<Option<Stop>> {
        if self.responder.is_stuck {
            return Ok(Some(DatagramResponder::rest(self.stop_requested, self.abort)));
        }
        self.report.system_calls += 1;
        match self.inbox.receive(self.fd) {
            Ok(received) => {
                self.report.received_at_once = self.report.received_at_once.max(received as u64);
                self.answer(meter);
                Ok(None)
            }
            // No request came in time, or the network reports an error of an earlier reply.
            Err(error) if socket::is_transient(&error, During::Unconnected) => Err(io::ErrorKind::Interrupted.into()),
            Err(error) => Err(error),
        }
    }
}

impl ServerIo<'_> {
    /// Answers all datagrams of the last receive.
    fn answer(&mut self, meter: &mut Meter) {
        self.answers.clear();
        for slot in 0..self.inbox.filled() {
            let (arrived, from) = (self.inbox.arrived(slot), self.inbox.source(slot));
            let request = &*self.inbox.bytes(slot);
            let answer = self.responder.answers(request, arrived.truncated, &from, self.fd, meter);
            if let (Answer::Made(head), Some(outbox)) = (answer, &mut self.outbox) {
                self.responder.terms().write_head(head, outbox.bytes(slot));
                let len = outbox.bytes(slot).len();
                outbox.set(slot, SlotTarget { len, peer: Some(&from) });
            }
            self.answers.push(answer);
        }
        // Adjacent replies are sent together.
        let mut first = 0;
        while first < self.answers.len() {
            let run = self.answers[first..].iter().take_while(|answer| **answer != Answer::Nothing).count();
            if run > 0 {
                self.send_replies(first, first + run, meter);
            }
            first += run.max(1);
        }
    }

    fn send_replies(&mut self, mut first: usize, end: usize, meter: &mut Meter) {
        while first < end {
            self.report.system_calls += 1;
            let sent = match &mut self.outbox {
                Some(outbox) => outbox.send(self.fd, first, end),
                None => self.inbox.send_back(self.fd, first, end),
            };
            match sent {
                Ok(sent) => {
                    for slot in first..first + sent {
                        let len = self.reply_len(slot);
                        meter.count(len, len);
                    }
                    self.responder.seen.sent += sent as u64;
                    self.report.sent_at_once = self.report.sent_at_once.max(sent as u64);
                    first += sent;
                }
                // A client that does not receive must not keep the server from leaving.
                Err(error) if error.kind() == io::ErrorKind::Interrupted && !self.must_leave() => {}
                // The client is gone, or the queue is full: its reply is lost, the others are not.
                Err(_) => {
                    self.responder.seen.unsent += 1;
                    first += 1;
                }
            }
        }
    }

    fn reply_len(&mut self, slot: usize) -> usize {
        match &mut self.outbox {
            Some(outbox) => outbox.bytes(slot).len(),
            None => self.inbox.bytes(slot).len(),
        }
    }

    fn must_leave(&self) -> bool {
        self.stop_requested.load(Ordering::Relaxed) || self.abort.load(Ordering::Relaxed)
    }
}

/// Serves by a ring until it is stopped.
pub(super) fn serve_by_ring(
    responder: &mut DatagramResponder,
    fd: BorrowedFd<'_>,
    setup: &Setup,
    is_multishot: bool,
    Flags { stop_requested, abort, .. }: &Flags,
    meter: &mut Meter,
) -> Result<(Stop, EngineReport), EndError> {
    let mut ring = ReceiverRing::open(setup, is_multishot, true)?;
    if let Some(len) = responder.made_len() {
        ring.make_replies(len, |reply| responder.terms().write_reply(0, reply))?;
    }
    let mut server = RingServer { responder, fd, meter };
    loop {
        if abort.load(Ordering::Relaxed) {
            return Ok((Stop::Aborted, ring.full_report()));
        }
        let now_ns = monotonic_ns();
        if !server.meter.continues(now_ns, stop_requested) {
            return Ok((Stop::Time, ring.full_report()));
        }
        if server.responder.is_stuck {
            return Ok((DatagramResponder::rest(stop_requested, abort), ring.full_report()));
        }
        // A wait of 0 ns would not even check.
        let until_ns = server.meter.next_mark_ns().clamp(now_ns + 1, now_ns + WAIT_MAX_NS);
        match ring.wait(fd, until_ns - now_ns) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                return Err(EndError::io("waiting in io_uring")(error));
            }
            _ => ring.handle_completions(fd, &mut server).map_err(EndError::io("receiving requests on a ring"))?,
        }
    }
}

/// A server's thread with a ring.
struct RingServer<'a> {
    responder: &'a mut DatagramResponder,
    fd: BorrowedFd<'a>,
    meter: &'a mut Meter,
}

impl DatagramHandler for RingServer<'_> {
    fn on_datagram(&mut self, bytes: &mut [u8], arrived: Arrived, from: &PeerAddress) -> Answer {
        self.responder.answers(bytes, arrived.truncated, from, self.fd, self.meter)
    }

    fn write_head(&mut self, reply: &mut [u8], head: u64) {
        self.responder.terms().write_head(head, reply);
    }

    fn on_sent(&mut self, sent: Result<usize, Errno>) {
        match sent {
            Ok(len) => {
                self.meter.count(len, len);
                self.responder.seen.sent += 1;
            }
            // The client is gone, or the queue is full.
            Err(_) => self.responder.seen.unsent += 1,
        }
    }
}

// One datagram: it is counted, worked on, and answered.
//
// A datagram of any length is a request: one that a short buffer cut off is answered from its first part, as by every echo, and
// counted.

/// Interval at which a server with a planted stall checks whether it may leave.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// One thread's view of the requests.
#[derive(Debug)]
pub(super) struct DatagramResponder {
    worker: ServerWorker,
    /// The admitted senders, if only these are answered.
    admitted: Option<AdmittedSenders>,
    pub(super) seen: CallDatagrams,
    /// Whether a planted fault stops the server.
    pub(super) is_stuck: bool,
}

impl DatagramResponder {
    pub(super) fn new(shared: &Arc<ServerShared>, admitted: Option<&Arc<Admissions>>) -> DatagramResponder {
        let admitted = admitted.map(|list| AdmittedSenders::new(Arc::clone(list)));
        DatagramResponder {
            worker: ServerWorker::of_thread(shared),
            admitted,
            seen: CallDatagrams::default(),
            is_stuck: false,
        }
    }

    fn terms(&self) -> &Terms {
        self.worker.shared.terms()
    }

    /// Bytes of a reply that is no echo.
    fn made_len(&self) -> Option<usize> {
        (!self.terms().echo).then_some(self.terms().response)
    }

    /// A datagram arrived; `request` is as much of it as the buffer held. It counts if it is a request.
    #[inline]
    pub(super) fn answers(
        &mut self,
        request: &[u8],
        truncated: bool,
        from: &PeerAddress,
        fd: BorrowedFd<'_>,
        meter: &mut Meter,
    ) -> Answer {
        if let Some(admitted) = &mut self.admitted {
            match admitted.status_of(request, from) {
                SenderStatus::Admitted => {}
                SenderStatus::ShowsTicket => {
                    // A client that does not get the answer asks again.
                    let _ = sent(fd, from, &admitted.answer());
                    return Answer::Nothing;
                }
                SenderStatus::Unknown => return Answer::Nothing,
            }
        }
        meter.count(request.len(), request.len());
        self.seen.received += 1;
        self.seen.truncated += u64::from(truncated);
        let terms = *self.terms();
        let head = terms.head_of(request).unwrap_or_default();
        if terms.verify && !terms.echo {
            self.worker.check(head, 0, request);
        }
        self.worker.begins();
        self.worker.works_on(request);
        self.worker.serves();
        if self.worker.shared.stalls(|| self.seen.received) {
            self.is_stuck = true;
            return Answer::Nothing;
        }
        if from.is_none() {
            // A Unix socket without a name cannot get a reply.
            self.seen.unsent += 1;
            return Answer::Nothing;
        }
        if terms.echo { Answer::Echo } else { Answer::Made(head) }
    }

    /// Stalls until it is stopped.
    pub(super) fn rest(stop_requested: &AtomicBool, abort: &AtomicBool) -> Stop {
        loop {
            if abort.load(Ordering::Relaxed) {
                return Stop::Aborted;
            }
            if stop_requested.load(Ordering::Relaxed) {
                return Stop::Time;
            }
            std::thread::sleep(CHECK_INTERVAL);
        }
    }
}

/// Sends one datagram there.
fn sent(fd: BorrowedFd<'_>, peer: &PeerAddress, bytes: &[u8]) -> io::Result<usize> {
    let mut outbox = Outbox::new(1, bytes.len());
    outbox.bytes(0).copy_from_slice(bytes);
    outbox.set(0, SlotTarget { len: bytes.len(), peer: Some(peer) });
    outbox.send(fd, 0, 1)
}
