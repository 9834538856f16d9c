//! A party with a thread per flow: this thread accepts, keeps the time and ends the others.
//!
//! The party is locked for a flow's first connection and when a flow leaves, never in between. The threads count in the
//! meter's tally. To stop the engine, set a flag and interrupt this thread; it passes both on until the last thread has
//! ended.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::Scope;

use bytegauge_model::EngineReport;
use bytegauge_sys::buffer::PageOffset;
use bytegauge_sys::clock::{monotonic_ns, sleep_until_ns};
use bytegauge_sys::interrupt::{ThreadHandle, interrupt};
use bytegauge_sys::socket::{self, Until};
use bytegauge_sys::{io as sys_io, pipe};

use crate::engine::blocking::flow_thread::Worker;
use crate::engine::flow_state::time_for;
use crate::engine::{ACCEPT_PAUSE_NS, Station, Stop, WAIT_MAX_NS, WorkerTotals, is_out_of_descriptors};
use crate::flow::{Opener, Party};
use crate::meter::Meter;
use crate::tally::Tally;
use crate::tls::TlsRole;
use crate::{EndError, lock};

/// Stack of a flow's thread; its buffer is elsewhere.
const STACK_BYTES: usize = 128 << 10;

/// The same with TLS: a handshake calls more deeply.
const TLS_STACK_BYTES: usize = 1 << 20;

/// Interval between interrupts of threads that have to stop.
const INTERRUPT_NS: u64 = 2_000_000;

/// Longest time for threads to stop. Their scope waits for them even then; the end's watchdog, which waits less long, then
/// abandons the whole engine (`end::thread_group`).
const STOP_NS: u64 = 10_000_000_000;

/// State shared by the threads of a party.
pub(super) struct WorkerShared<'a, P: Party> {
    party: Mutex<&'a mut P>,
    /// Opens connections without the party.
    pub(super) opener: Option<Opener>,
    pub(super) tally: Arc<Tally>,
    pub(super) buffer_size: usize,
    /// How connections are encrypted, if they are.
    pub(super) tls: Option<TlsRole>,
    /// Set when every thread has to return its flow.
    pub(super) stop: AtomicBool,
    pub(super) totals: WorkerTotals,
    /// Threads that have not returned their flows.
    live: AtomicUsize,
    /// Those of them that may wait in a system call.
    roster: Mutex<Vec<ThreadHandle>>,
    /// The end of a pipe that is written to wake the thread that waits at the other one.
    waker: OwnedFd,
}

pub(in crate::engine) fn drive<P: Party>(
    party: &mut P,
    station: Station<'_>,
    meter: &mut Meter,
) -> Result<(Stop, EngineReport), EndError> {
    let (woken, waker) = pipe::anonymous().map_err(EndError::io("opening a pipe"))?;
    sys_io::set_nonblocking(woken.as_fd(), true).map_err(EndError::io("preparing a pipe"))?;
    sys_io::set_nonblocking(waker.as_fd(), true).map_err(EndError::io("preparing a pipe"))?;
    let shared = WorkerShared::new(party, meter.tally(), &station, waker);
    let mut report = EngineReport::default();
    let stopped = std::thread::scope(|scope| {
        let mut host = FlowThreads { shared: &shared, scope, station, meter, woken: &woken, report: &mut report };
        let stopped = host.begin().and_then(|()| host.run());
        shared.stop_all(STOP_NS);
        stopped
    });
    shared.totals.finish(stopped, report)
}

struct FlowThreads<'h, 's, 'e, 'a, P: Party> {
    shared: &'h WorkerShared<'a, P>,
    scope: &'s Scope<'s, 'e>,
    station: Station<'h>,
    meter: &'h mut Meter,
    woken: &'h OwnedFd,
    report: &'h mut EngineReport,
}

impl<'h: 's, 's, 'e, 'a, P: Party> FlowThreads<'h, 's, 'e, 'a, P> {
    fn begin(&mut self) -> Result<(), EndError> {
        loop {
            let first = self.shared.party().first();
            let Some((flow, fd)) = first else { return Ok(()) };
            if let Some(fd) = &fd {
                sys_io::set_nonblocking(fd.as_fd(), false).map_err(EndError::io("preparing a connection"))?;
            }
            self.start(flow, fd)?;
        }
    }

    fn run(&mut self) -> Result<Stop, EndError> {
        let mut accept_from_ns = 0;
        loop {
            if self.station.abort.load(Ordering::Relaxed) {
                return Ok(Stop::Aborted);
            }
            let now_ns = monotonic_ns();
            if !self.meter.continues(now_ns, self.station.stop_requested) {
                return Ok(Stop::Time);
            }
            if self.shared.live.load(Ordering::Acquire) == 0 && self.station.listener.is_none() {
                return Ok(Stop::Done);
            }
            let until_ns = self.meter.next_mark_ns().clamp(now_ns, now_ns + WAIT_MAX_NS);
            let accepts = accept_from_ns <= now_ns;
            let (fd, until_ns) = match self.station.listener {
                Some(listener) if accepts => (listener, until_ns),
                Some(_) => (self.woken.as_fd(), until_ns.min(accept_from_ns)),
                None => (self.woken.as_fd(), until_ns),
            };
            self.report.system_calls += 1;
            match socket::wait(fd, Until::Readable, until_ns - now_ns) {
                Ok(Some(_)) if accepts && self.station.listener.is_some() => {
                    if !self.accept()? {
                        accept_from_ns = monotonic_ns() + ACCEPT_PAUSE_NS;
                    }
                }
                Ok(Some(_)) => self.take_wakeups(),
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(EndError::Io { doing: "waiting for connections".into(), source }),
            }
        }
    }

    /// Accepts one connection. `false` if there is no descriptor for it.
    fn accept(&mut self) -> Result<bool, EndError> {
        let Some(listener) = self.station.listener else { return Ok(true) };
        self.report.system_calls += 1;
        match socket::accept(listener, false) {
            Ok(fd) => {
                self.report.accepted += 1;
                self.report.accepted_at_once = 1;
                let flow = self.shared.party().accepted(fd.as_fd(), time_for::<P::Flow>());
                flow.map_or(Ok(()), |flow| self.start(flow, Some(fd)))?;
            }
            Err(error) => return is_out_of_descriptors(error).map(|is_out| !is_out),
        }
        Ok(true)
    }

    fn start(&self, flow: P::Flow, fd: Option<OwnedFd>) -> Result<(), EndError> {
        let shared = self.shared;
        let live = shared.live.fetch_add(1, Ordering::Relaxed) + 1;
        shared.totals.most_flows.fetch_max(live as u64, Ordering::Relaxed);
        let stack = if shared.tls.is_some() { TLS_STACK_BYTES } else { STACK_BYTES };
        let page_offset = PageOffset::of_thread();
        let spawned =
            std::thread::Builder::new().name("flow".into()).stack_size(stack).spawn_scoped(self.scope, move || {
                page_offset.set_for_thread();
                // After a panic, the others must not wait for this thread.
                if catch_unwind(AssertUnwindSafe(|| Worker::begin(shared, flow, fd))).is_err() {
                    shared.lose();
                }
            });
        if let Err(source) = spawned {
            shared.live.fetch_sub(1, Ordering::Relaxed);
            return Err(EndError::Io { doing: "starting a thread for a flow: use fewer --flows".into(), source });
        }
        Ok(())
    }

    fn take_wakeups(&self) {
        while matches!(sys_io::read(self.woken.as_fd(), &mut [0; 64]), Ok(64)) {}
    }
}

impl<'a, P: Party> WorkerShared<'a, P> {
    fn new(party: &'a mut P, tally: Arc<Tally>, station: &Station<'_>, waker: OwnedFd) -> WorkerShared<'a, P> {
        WorkerShared {
            opener: party.opener(),
            party: Mutex::new(party),
            tally,
            buffer_size: station.buffer_size.max(1),
            tls: station.tls,
            stop: AtomicBool::new(false),
            totals: WorkerTotals::default(),
            live: AtomicUsize::new(0),
            roster: Mutex::new(Vec::new()),
            waker,
        }
    }

    /// The party, for as long as the guard is held.
    pub(super) fn party(&self) -> MutexGuard<'_, &'a mut P> {
        lock(&self.party)
    }

    /// Registers the calling thread as interruptible.
    pub(super) fn enter(&self) -> io::Result<ThreadHandle> {
        let handle = ThreadHandle::current()?;
        lock(&self.roster).push(handle);
        Ok(handle)
    }

    /// A thread's flow has ended. The thread must have reported its counts.
    pub(super) fn leave(
        &self,
        handle: Option<ThreadHandle>,
        flow: P::Flow,
        fd: Option<OwnedFd>,
        fault: Option<EndError>,
    ) {
        self.party().left(flow, fd);
        if let Some(handle) = handle {
            let mut roster = lock(&self.roster);
            if let Some(place) = roster.iter().position(|other| *other == handle) {
                roster.swap_remove(place);
            }
        }
        if let Some(fault) = fault {
            self.totals.fail(fault);
        }
        if self.live.fetch_sub(1, Ordering::Release) == 1 {
            self.wake();
        }
    }

    /// A thread died, and its flow with it.
    fn lose(&self) {
        let died = EndError::Impossible("a flow's thread of the blocking engine died".into());
        self.totals.fail(died);
        self.live.fetch_sub(1, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        // A full pipe wakes the reader too.
        let _ = sys_io::write(self.waker.as_fd(), &[1]);
    }

    /// Makes every thread return its flow. If threads do not within `limit_ns`, that is a fault, and they are abandoned.
    fn stop_all(&self, limit_ns: u64) {
        self.stop.store(true, Ordering::SeqCst);
        let until_ns = monotonic_ns() + limit_ns;
        while self.live.load(Ordering::Acquire) > 0 {
            if monotonic_ns() >= until_ns {
                let what = "threads of the blocking engine that had to stop".into();
                self.totals.fail(EndError::Stalled { what, after_ms: limit_ns / 1_000_000 });
                return;
            }
            for handle in &*lock(&self.roster) {
                // A full queue of signals is tried again.
                let _ = interrupt(handle);
            }
            let _ = sleep_until_ns(monotonic_ns() + INTERRUPT_NS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{Flow, Want};

    /// A flow that never runs.
    struct Unasked;

    impl Flow for Unasked {
        fn want(&mut self, _now_ns: u64) -> Want {
            Want::Done
        }

        fn sent(&mut self, _n: usize, _now_ns: u64) {}

        fn received(&mut self, _bytes: &mut [u8], _now_ns: u64) -> bool {
            false
        }
    }

    struct EmptyParty;

    impl Party for EmptyParty {
        type Flow = Unasked;

        fn left(&mut self, _flow: Unasked, _connection: Option<OwnedFd>) {}
    }

    #[test]
    fn thread_that_never_leaves_is_a_fault() {
        let (_woken, waker) = pipe::anonymous().unwrap();
        let mut party = EmptyParty;
        let (abort, stop_requested) = (AtomicBool::new(false), AtomicBool::new(false));
        let station = Station::new(1, &abort, &stop_requested);
        let shared = WorkerShared::new(&mut party, Arc::default(), &station, waker);
        // A thread that never returns its flow.
        shared.live.store(1, Ordering::Relaxed);
        // The test hangs if there is no limit.
        shared.stop_all(1_000_000);
        assert!(shared.stop.load(Ordering::SeqCst));
        assert!(matches!(shared.totals.take_fault(), Some(EndError::Stalled { .. })));
    }
}
