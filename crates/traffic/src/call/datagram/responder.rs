//! Handles one datagram at a server: counts it, does the work, determines the reply.
//!
//! A datagram of any length is a request: one that a short buffer cut off is answered from its first part, as by every echo, and
//! counted. Moves no bytes, except answers to tickets.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytegauge_model::CallDatagrams;
use bytegauge_sys::datagram::{Outbox, PeerAddress, SlotTarget};

use crate::call::datagram::socket::{Admissions, AdmittedSenders, SenderStatus};
use crate::call::server_worker::{ServerShared, ServerWorker};
use crate::datagram::Answer;
use crate::engine::Stop;
use crate::meter::Meter;

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

    /// Bytes of a reply that is no echo.
    pub(super) fn made_len(&self) -> Option<usize> {
        let terms = self.worker.shared.terms();
        (!terms.echo).then_some(terms.response)
    }

    /// Writes the common part of all replies that are no echo.
    pub(super) fn make(&self, reply: &mut [u8]) {
        self.worker.shared.terms().write_reply(0, reply);
    }

    /// Writes the number of the request that a reply is for.
    #[inline]
    pub(super) fn write_head(&self, reply: &mut [u8], head: u64) {
        self.worker.shared.terms().write_head(head, reply);
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
        let terms = *self.worker.shared.terms();
        let head = terms.head_of(request).unwrap_or_default();
        if terms.verify && !terms.echo {
            self.worker.check(head, 0, request);
        }
        self.worker.begins();
        self.worker.works_on(request);
        self.worker.serves();
        let shared = &self.worker.shared;
        if shared.plant().is_some_and(|plant| !shared.planted(plant, self.seen.received)) {
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
