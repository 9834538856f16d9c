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
use bytegauge_sys::clock::{self, monotonic_ns, sleep_until_ns};
use bytegauge_sys::interrupt::{ThreadHandle, interrupt};
use bytegauge_sys::socket::{self, Until};
use bytegauge_sys::{io as sys_io, pipe};

use crate::engine::flow_state::{FlowState, Outgoing, time_for};
use crate::engine::system_calls::{self, Calls, MessagePart};
use crate::engine::{ACCEPT_PAUSE_NS, Station, Stop, WAIT_MAX_NS, WorkerTotals, is_out_of_descriptors};
use crate::flow::{Doing, Flow, Opener, Party, Want};
use crate::meter::Meter;
use crate::tally::{Share, Tally};
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
                self.totals.fail(EndError::Stalled(what, limit_ns / 1_000_000));
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

// A flow's thread: it does what the flow wants, and sleeps in the call for which the flow waits.
//
// A distant deadline costs nothing: the socket's own timeout (`SO_RCVTIMEO`, `SO_SNDTIMEO`) returns control now and then. Only
// a near deadline is waited for exactly, with one more call.

/// How long a call waits before a flow that has a deadline is asked again; nearer deadlines are met exactly.
const PATIENCE_NS: u64 = 100_000_000;

struct Worker<'h, 'a, P: Party> {
    shared: &'h WorkerShared<'a, P>,
    state: FlowState<P::Flow, OwnedFd>,
    share: Share,
    calls: Calls,
    receive_timeout: bool,
    send_timeout: bool,
}

impl<'h, 'a, P: Party> Worker<'h, 'a, P> {
    /// Carries the flow to its end, in the thread that calls.
    fn begin(shared: &'h WorkerShared<'a, P>, flow: P::Flow, fd: Option<OwnedFd>) {
        let (state, share) = (FlowState::new(flow, fd), shared.tally.share());
        let calls = Calls::default();
        let mut worker = Worker { shared, state, share, calls, receive_timeout: false, send_timeout: false };
        let (handle, fault) = match shared.enter() {
            Ok(handle) => (Some(handle), worker.run().err()),
            Err(source) => (None, Some(EndError::Io { doing: "preparing a thread".into(), source })),
        };
        let Worker { state, share, .. } = worker;
        state.add_up(&shared.totals);
        drop(share);
        shared.leave(handle, state.flow, state.connection, fault);
    }

    /// The loop (`cargo xtask hot-loops`).
    #[inline(never)]
    fn run(&mut self) -> Result<(), EndError> {
        self.state.tick();
        if self.state.connection.is_some() {
            self.calls = Calls::begin(self.shared.tls)?;
        }
        while !self.shared.stop.load(Ordering::Relaxed) {
            let stays = match self.state.next() {
                Want::Receive => self.receive(None)?,
                Want::ReceiveUntil(until_ns) => self.receive(Some(until_ns))?,
                Want::Both => self.send_or_receive()?,
                Want::Done => false,
                Want::Send => self.send(false).map(|()| true)?,
                want => self.act(want).map(|()| true)?,
            };
            if !stays {
                break;
            }
        }
        Ok(())
    }

    /// Does what moves no bytes.
    fn act(&mut self, want: Want) -> Result<(), EndError> {
        match want {
            Want::Pause(until_ns) => {
                self.state.system_calls += 1;
                // Interrupted or not, the flow is called again, and knows its deadline.
                let _ = sleep_until_ns(until_ns);
                self.state.tick();
            }
            Want::Connect => self.connect()?,
            want => self.state.act(want),
        }
        Ok(())
    }

    /// Receives once. `false`: the flow leaves.
    fn receive(&mut self, until_ns: Option<u64>) -> Result<bool, EndError> {
        // The socket need not be readable for bytes that were decrypted already.
        if let Some(until_ns) = until_ns.filter(|_| !self.calls.holds_bytes()) {
            let left_ns = until_ns.saturating_sub(monotonic_ns());
            if left_ns < PATIENCE_NS {
                self.state.system_calls += 1;
                let first_ns = clock::first_wait_ns(left_ns);
                if !matches!(socket::wait(self.state.fd()?, Until::Readable, first_ns), Ok(Some(_))) {
                    self.state.tick();
                    return Ok(true);
                }
            } else if !self.receive_timeout {
                self.state.system_calls += 1;
                let set = socket::set_receive_timeout(self.state.fd()?, PATIENCE_NS);
                set.map_err(EndError::io("setting SO_RCVTIMEO"))?;
                self.receive_timeout = true;
            }
        }
        let asked = self.shared.buffer_size;
        let (fd, buffer) = self.state.incoming(asked)?;
        let received = self.calls.receive(fd.as_fd(), buffer);
        let acknowledged = system_calls::ack_quickly(self.state.fd()?, self.state.flow.quickack_again());
        self.state.system_calls += 1 + self.calls.more_calls() + acknowledged;
        Ok(self.state.received(received, |n| self.share.count(n, asked)))
    }

    /// Sends once; `at_once` where room was seen, and nothing is waited for.
    fn send(&mut self, at_once: bool) -> Result<(), EndError> {
        if !at_once && !self.send_timeout && self.state.flow.patience_ns() < u64::MAX {
            self.state.system_calls += 1;
            let set = socket::set_send_timeout(self.state.fd()?, PATIENCE_NS);
            set.map_err(EndError::io("setting SO_SNDTIMEO"))?;
            self.send_timeout = true;
        }
        let Outgoing { connection: fd, bytes, dropped, part } = self.state.outgoing()?;
        let (asked, more_calls) = (bytes.len(), part.map_or(0, MessagePart::more_calls));
        let sent = match part {
            Some(part) => part.send(fd.as_fd(), bytes, at_once),
            None if at_once => self.calls.send_now(fd.as_fd(), bytes),
            None => self.calls.send(fd.as_fd(), bytes),
        };
        self.state.system_calls += 1 + more_calls + self.calls.more_calls();
        self.state.sent(sent, dropped, |n| self.share.count(n, asked));
        Ok(())
    }

    fn send_or_receive(&mut self) -> Result<bool, EndError> {
        if self.calls.holds_bytes() {
            return self.receive(None);
        }
        let left_ns = self.state.flow.patience_ns().saturating_sub(monotonic_ns()).min(PATIENCE_NS);
        self.state.system_calls += 1;
        match socket::wait(self.state.fd()?, Until::Either, left_ns) {
            Ok(Some(true)) => return self.receive(None),
            Ok(Some(false)) => self.send(true)?,
            Ok(None) | Err(_) => self.state.tick(),
        }
        Ok(true)
    }

    #[inline(never)]
    fn connect(&mut self) -> Result<(), EndError> {
        self.state.system_calls += 2;
        let connecting = match &self.shared.opener {
            Some(open) if self.state.has_connected => open(),
            _ => self.shared.party().connect(&mut self.state.flow),
        };
        self.state.has_connected = true;
        let connected = connecting.and_then(|fd| self.await_connection(fd));
        self.state.tick();
        match connected {
            Ok(Some(fd)) => {
                self.state.connection = Some(fd);
                self.calls = Calls::begin(self.shared.tls)?;
                (self.receive_timeout, self.send_timeout) = (false, false);
                self.state.connected();
            }
            Ok(None) => {}
            Err(error) => self.state.fail(Doing::Connecting, &error),
        }
        Ok(())
    }

    /// Waits for a connection attempt to end. `None`: the engine has to stop.
    fn await_connection(&mut self, fd: OwnedFd) -> io::Result<Option<OwnedFd>> {
        let until_ns = self.state.flow.patience_ns();
        while !self.shared.stop.load(Ordering::Relaxed) {
            let left_ns = until_ns.saturating_sub(monotonic_ns());
            self.state.system_calls += 1;
            match socket::wait(fd.as_fd(), Until::Writable, left_ns.min(WAIT_MAX_NS)) {
                Ok(Some(_)) => {
                    // SO_ERROR, and O_NONBLOCK read and cleared.
                    self.state.system_calls += 3;
                    socket::take_error(fd.as_fd())?;
                    sys_io::set_nonblocking(fd.as_fd(), false)?;
                    return Ok(Some(fd));
                }
                Ok(None) if left_ns == 0 => return Err(io::Error::from_raw_os_error(socket::TIMED_OUT)),
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
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
        assert!(matches!(shared.totals.take_fault(), Some(EndError::Stalled(..))));
    }
}
