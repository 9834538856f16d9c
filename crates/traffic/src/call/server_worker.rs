//! Serving requests, independent of their transport: the state shared by all connections of a server, that of each one, and the work
//! on its requests (`--work` on every byte, `--working-set` once per request).
//!
//! The measured loop only reads [`ServerShared`]; it is written for faults, planted ones included, and when a worker ends.
//! Everything that a request changes is in a [`ServerWorker`], which one connection owns, or with datagrams one thread. So no engine
//! waits for the work of another connection, and all engines touch the same memory.

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bytegauge_model::{CallDatagrams, MessageParts, MessageWrites};

use crate::call::admission::Unadmitted;
use crate::call::message_bytes::Terms;
use crate::counter::{ThreadCounter, Total};
use crate::message::Body;
use crate::pace::spin_by_clock_ns;
use crate::planted_fault::PlantedFault;
use crate::setup::Setup;
use crate::stream::ReaderWork;
use crate::{EndError, lock};

/// State shared by all connections of one server thread, or of the threads that an engine with a thread per connection starts.
#[derive(Debug)]
pub struct ServerShared {
    terms: Terms,
    pub(super) connect_per_call: bool,
    /// Whether its first read is the whole request, after which it replies and closes.
    pub(super) read_once: bool,
    /// The parts of a reply, the pause after each, and how they are written.
    pub(super) parts: MessageParts,
    pub(super) gap_ns: u64,
    pub(super) writes: MessageWrites,
    /// A reply, where its parts after the first one are sent from a file.
    pub(super) file: Option<Arc<File>>,
    pub(super) quickack_again: Option<bool>,
    setup: Arc<Setup>,
    /// Requests served, as the meter's marks see them.
    served: Arc<Total<1>>,
    /// Of workers that ended.
    ended: Mutex<WorkerCounts>,
    plant: Option<PlantedFault>,
    body: Body,
    /// Set with a planted death: if threads share a server, all of them leave.
    abort: Arc<AtomicBool>,
    fault: Mutex<Option<EndError>>,
    /// Connections that must send a ticket before they are answered, if clients are on another host.
    pub(super) unadmitted: Option<Unadmitted>,
}

/// Counts of a worker, or of several, and of their sockets.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkerCounts {
    /// Requests of which a byte arrived.
    pub begun: u64,
    /// Bytes of requests that were compared.
    pub verified_bytes: u64,
    worked_bytes: u64,
    worked_requests: u64,
    /// Of datagrams.
    pub datagrams: Option<CallDatagrams>,
    /// Over TCP, connections for which the listener had no room.
    pub listen_drops: Option<u64>,
}

impl ServerShared {
    /// A server that has served nothing.
    pub fn new(setup: &Arc<Setup>, body: Body, abort: Arc<AtomicBool>, file: Option<Arc<File>>) -> ServerShared {
        ServerShared {
            terms: Terms::of(setup),
            connect_per_call: setup.connect_per_call(),
            read_once: setup.spec.read_once() == Some(true),
            parts: setup.spec.response_parts().unwrap_or(MessageParts::WHOLE),
            gap_ns: setup.spec.response_gap().unwrap_or(0),
            writes: setup.message_writes(),
            file,
            quickack_again: setup.quickack_again(),
            setup: Arc::clone(setup),
            served: Arc::default(),
            ended: Mutex::default(),
            plant: setup.planted(),
            body,
            abort,
            fault: Mutex::new(None),
            unadmitted: Unadmitted::of(setup),
        }
    }

    /// Requests served, for a meter to watch.
    pub fn watched(&self) -> Arc<Total<1>> {
        Arc::clone(&self.served)
    }

    /// Requests served.
    pub fn served(&self) -> u64 {
        self.served.sums()[0]
    }

    /// The counts of all workers that have ended.
    pub fn ended(&self) -> WorkerCounts {
        *lock(&self.ended)
    }

    /// The counts of a thread's socket at its end.
    pub fn has_seen(&self, datagrams: Option<CallDatagrams>, listen_drops: Option<u64>) {
        let mut ended = lock(&self.ended);
        (ended.datagrams, ended.listen_drops) = (datagrams, listen_drops);
    }

    /// The fault of a planted death that the engine survived, since tasks die alone; in the requests; or in the work on them.
    pub fn take_fault(&self) -> Option<EndError> {
        if self.abort.load(Ordering::Relaxed) {
            return Some(EndError::Impossible("a thread died in the middle of serving calls".into()));
        }
        let found = lock(&self.fault).take();
        found.or_else(|| self.misworked())
    }

    /// The fault of work that did not run exactly once per request, once all workers have ended.
    fn misworked(&self) -> Option<EndError> {
        if !ReaderWork::is_asked_for(&self.setup) {
            return None;
        }
        let WorkerCounts { worked_bytes: bytes, worked_requests: requests, .. } = self.ended();
        let served = self.served();
        // With --read-once a request may be shorter, and a part of an incomplete one was worked on.
        let least =
            if self.read_once || self.setup.transport().is_datagram() { 0 } else { served * self.terms.request as u64 };
        (requests != served || bytes < least).then(|| {
            EndError::Miscounted(format!(
                "the server worked on {requests} requests ({bytes} bytes) and served {served}"
            ))
        })
    }

    /// The bytes of messages.
    pub(super) fn terms(&self) -> &Terms {
        &self.terms
    }

    /// What the trial asks of its ends.
    pub fn setup(&self) -> &Arc<Setup> {
        &self.setup
    }

    /// Performs a planted fault that is due, after `served` requests. Whether to serve no more, but keep connections open.
    #[inline]
    pub(super) fn stalls(&self, served: impl FnOnce() -> u64) -> bool {
        PlantedFault::enabled(self.plant).is_some_and(|plant| !self.planted(plant, served()))
    }

    #[cold]
    fn planted(&self, plant: PlantedFault, served: u64) -> bool {
        let received = served * self.terms.request as u64;
        match plant {
            PlantedFault::Die(after_bytes) if received >= after_bytes => match self.body {
                Body::Process => std::process::abort(),
                // Without the panic hook: the death is planned, and standard error belongs to the user.
                Body::Thread => {
                    self.abort.store(true, Ordering::Relaxed);
                    std::panic::resume_unwind(Box::new("planted death"))
                }
            },
            PlantedFault::Stall(after_bytes) => received < after_bytes,
            PlantedFault::Spin(ns) => {
                spin_by_clock_ns(ns);
                true
            }
            _ => true,
        }
    }
}

/// The counts and the work of one connection, or with datagrams of one thread. Dropping it adds its counts to
/// [`ServerShared`].
#[derive(Debug)]
pub(super) struct ServerWorker {
    pub(super) shared: Arc<ServerShared>,
    /// Shared only by connections of one thread.
    served: Arc<ThreadCounter<1>>,
    counts: WorkerCounts,
    /// Its work. Another connection gets it once this one serves no more.
    pub(super) work: Option<ReaderWork>,
    /// Whether it counts as a connection that has sent its ticket.
    is_open: bool,
}

impl ServerWorker {
    /// A worker that counts in `served`, which only its thread may do.
    pub(super) fn new(
        shared: &Arc<ServerShared>,
        served: Arc<ThreadCounter<1>>,
        work: Option<ReaderWork>,
    ) -> ServerWorker {
        ServerWorker { shared: Arc::clone(shared), served, counts: WorkerCounts::default(), work, is_open: false }
    }

    /// The only worker of the thread that calls.
    pub(super) fn of_thread(shared: &Arc<ServerShared>) -> ServerWorker {
        ServerWorker::new(shared, Arc::new(shared.served.counter()), ReaderWork::of(&shared.setup))
    }

    /// Its connection has sent the ticket: from now on it has work. `false`: too many connections are open.
    #[cold]
    #[inline(never)]
    pub(super) fn opens(&mut self) -> bool {
        let Some(idle) = self.shared.unadmitted.as_ref().and_then(Unadmitted::opens) else { return false };
        self.is_open = true;
        self.work = idle.or_else(|| ReaderWork::of(&self.shared.setup));
        true
    }

    /// The first byte of a request arrived.
    #[inline]
    pub(super) fn begins(&mut self) {
        self.counts.begun += 1;
    }

    /// Bytes of requests arrived.
    #[inline]
    pub(super) fn works_on(&mut self, bytes: &[u8]) {
        if let Some(work) = &mut self.work {
            self.counts.worked_bytes += bytes.len() as u64;
            work.on_bytes(bytes);
        }
    }

    /// A request is complete.
    #[inline]
    pub(super) fn serves(&mut self) {
        if let Some(work) = &mut self.work {
            self.counts.worked_requests += 1;
            work.on_whole();
        }
        self.served.add([1]);
    }

    /// Compares bytes of a request, from `at` on.
    #[cold]
    pub(super) fn check(&mut self, head: u64, at: usize, bytes: &[u8]) {
        match self.shared.terms.check_request(head, at, bytes) {
            Ok(()) => self.counts.verified_bytes += bytes.len() as u64,
            Err(mismatch) => {
                lock(&self.shared.fault).get_or_insert(EndError::Corrupt((head >> 40) as usize, mismatch));
            }
        }
    }

    /// Whether it has memory to work on requests.
    #[cfg(test)]
    pub(super) fn has_work(&self) -> bool {
        self.work.is_some()
    }
}

impl Drop for ServerWorker {
    fn drop(&mut self) {
        let work = self.work.take();
        if let (true, Some(unadmitted)) = (self.is_open, &self.shared.unadmitted) {
            unadmitted.closes(work);
        }
        let mut ended = lock(&self.shared.ended);
        ended.begun += self.counts.begun;
        ended.verified_bytes += self.counts.verified_bytes;
        ended.worked_bytes += self.counts.worked_bytes;
        ended.worked_requests += self.counts.worked_requests;
    }
}
