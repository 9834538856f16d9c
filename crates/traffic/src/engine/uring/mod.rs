//! The io_uring engine: one thread, one ring, many connections; one system call submits and waits for a batch.
//!
//! `plain` asks for one receive and one send at a time, each with a buffer of the connection's own. The others
//! let accepts and receives go on and take buffers from a pool that all connections share; they differ in how
//! they send: `multishot` as `plain` does, `bundle` several chunks at once, `zc` without a copy if the kernel
//! can ([`sending`]). What arrives before its flow wants it is kept beside the connection ([`arrival`]).
//!
//! Never two sends of one socket in flight: they could change places. Connections and the listener are made
//! blocking and stay so, since the kernel fails an operation on others instead of waiting with it.

mod arrival;
mod connection;
mod sending;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

use bytegauge_model::{EngineReport, UringKind, UringMode};
use bytegauge_sys::clock::monotonic_ns;
use bytegauge_sys::uring::{BufferId, Completion, Errno, Event, Feature, Missing, OpId, PoolId, Ring, Setup, Wait};
use bytegauge_sys::{io as sys_io, socket};

use crate::engine::timers::Timers;
use crate::engine::uring::connection::Slot;
use crate::engine::{ACCEPT_PAUSE_NS, Station, Stop, WAIT_MAX_NS};
use crate::fault::Fault;
use crate::meter::Meter;
use crate::party::Party;

/// Submissions that fit at once: a batch of this many is a system call in any case.
const ENTRIES: u32 = 1024;

/// Completions that fit at once: more than the pool has buffers, with room for the sends of thousands of
/// connections.
const COMPLETIONS: u32 = 8192;

/// How long an idle submission thread goes on looking, milliseconds: long enough for a busy ring, and short
/// enough not to take the CPU from a peer on a small machine.
const POLL_IDLE_MS: u32 = 1;

/// Bytes of the pool that receives take from; each buffer is as long as one receive may be.
const POOL_SIZE: usize = 16 << 20;

/// The buffers of a bundle are smaller, or nothing would need more than one.
const BUNDLE_BUFFER_SIZE: usize = 4096;

/// How long an engine that leaves waits for what it still sends, and then for what it called off.
const LEAVE_NS: u64 = 1_000_000_000;

/// The listener's token; connections carry index and generation, of which neither reaches this.
const LISTENER: u64 = u64::MAX;

/// Whether connections are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Accepting {
    /// This end does not listen, or not any more.
    Never,
    /// An accept is in flight.
    By(OpId),
    /// Descriptors ran out: accepted again at this moment, or when a connection closes.
    From(u64),
}

struct Loop<'a, P: Party> {
    kind: UringKind,
    party: &'a mut P,
    station: Station<'a>,
    meter: &'a mut Meter,
    ring: Ring,
    /// What receives take from; absent in `plain`.
    pool: Option<PoolId>,
    /// Length of one buffer that is received into.
    receive_size: usize,
    slots: Vec<Slot<P::Flow>>,
    free: Vec<u32>,
    /// Flows in slots.
    live: usize,
    timers: Timers,
    /// Slots that could go on but had their turn, or wait for buffers of the pool.
    again: VecDeque<u32>,
    /// Buffers that an operation of a closed connection still used.
    spare_buffers: Vec<BufferId>,
    spare_outboxes: Vec<PoolId>,
    accepting: Accepting,
    /// Connections accepted since the last wait.
    accepted_now: u64,
    report: EngineReport,
}

pub(super) fn drive<P: Party>(
    mode: UringMode,
    party: &mut P,
    station: Station<'_>,
    meter: &mut Meter,
) -> Result<(Stop, EngineReport), Fault> {
    let poll_idle_ms = mode.sqpoll.then_some(POLL_IDLE_MS);
    let setup = Setup { entries: ENTRIES, completions: COMPLETIONS, poll_idle_ms };
    let mut ring = Ring::open(&setup).map_err(missing)?;
    for feature in features(mode.kind) {
        ring.require(*feature).map_err(missing)?;
    }
    let before = ring.counts();
    let mut engine = Loop {
        kind: mode.kind,
        party,
        station,
        meter,
        ring,
        pool: None,
        receive_size: station.buffer_size.max(1),
        slots: Vec::new(),
        free: Vec::new(),
        live: 0,
        timers: Timers::default(),
        again: VecDeque::new(),
        spare_buffers: Vec::new(),
        spare_outboxes: Vec::new(),
        accepting: Accepting::Never,
        accepted_now: 0,
        report: EngineReport::default(),
    };
    let stopped = engine.begin().and_then(|()| engine.run());
    let left = engine.give_back();
    let counts = engine.ring.counts();
    engine.report.system_calls += counts.system_calls - before.system_calls;
    engine.report.completions = counts.completions - before.completions;
    engine.report.kernel_threads_ns = engine.ring.helper_cpu_ns();
    let report = engine.report;
    left.and(stopped).map(|stop| (stop, report))
}

/// What this machine lacks for a mode, if anything: asked before a plan is made.
pub(super) fn lacks(mode: UringMode) -> Option<String> {
    let mut needed = features(mode.kind).to_vec();
    needed.extend(mode.sqpoll.then_some(Feature::PollThread));
    bytegauge_sys::uring::probe(&needed)
        .err()
        .map(|reason| format!("engine {}: {reason}", bytegauge_model::Engine::Uring(mode)))
}

/// What the report of a run in this mode fails to prove, if anything: the mode was asked for but did not run.
pub(super) fn unproven(mode: UringMode, report: &EngineReport) -> Option<String> {
    let absent = match mode.kind {
        UringKind::Plain => (report.completions == 0).then_some("no operation completed on a ring"),
        UringKind::Multishot => (report.multishot == 0).then_some("no receive completed more than once"),
        UringKind::Bundle => (report.bundled == 0)
            .then_some("nothing took more than one buffer: give it messages or depths that fill several"),
        UringKind::ZeroCopy => (report.zero_copy == 0).then_some("nothing was sent with zero copy"),
    };
    let unpolled = mode.sqpoll && report.kernel_threads_ns == Some(0);
    absent.or(unpolled.then_some("no submission thread used any CPU time")).map(Into::into)
}

fn features(kind: UringKind) -> &'static [Feature] {
    match kind {
        UringKind::Plain => &[],
        UringKind::Multishot => &[Feature::MultishotAccept, Feature::MultishotReceive],
        UringKind::Bundle => &[Feature::MultishotAccept, Feature::MultishotReceive, Feature::Bundles],
        UringKind::ZeroCopy => &[Feature::MultishotAccept, Feature::MultishotReceive, Feature::ZeroCopySend],
    }
}

#[expect(clippy::needless_pass_by_value, reason = "a conversion for map_err")]
fn missing(reason: Missing) -> Fault {
    Fault::Missing(reason.to_string())
}

impl<P: Party> Loop<'_, P> {
    fn begin(&mut self) -> Result<(), Fault> {
        if self.kind != UringKind::Plain {
            if self.kind == UringKind::Bundle {
                self.receive_size = self.receive_size.min(BUNDLE_BUFFER_SIZE);
            }
            let buffers = (POOL_SIZE / self.receive_size).clamp(16, 4096) as u16;
            let pool = self.ring.new_pool(buffers, self.receive_size).map_err(missing)?;
            self.ring.offer_all(pool);
            self.pool = Some(pool);
        }
        while let Some((flow, fd)) = self.party.first() {
            if let Some(fd) = &fd {
                self.adopt(fd)?;
            }
            let index = self.take_in(flow, fd);
            self.go_on_later(index);
        }
        if let Some(listener) = self.station.listener {
            sys_io::set_nonblocking(listener, false).map_err(Fault::io("preparing the listener"))?;
            self.listen();
        }
        Ok(())
    }

    /// Makes a connection fit for the ring.
    fn adopt(&mut self, fd: &OwnedFd) -> Result<(), Fault> {
        self.report.system_calls += 1;
        sys_io::set_nonblocking(fd.as_fd(), false).map_err(Fault::io("preparing a connection"))
    }

    fn run(&mut self) -> Result<Stop, Fault> {
        loop {
            if self.station.abort.load(Ordering::Relaxed) {
                return Ok(Stop::Aborted);
            }
            let mut now_ns = monotonic_ns();
            if (now_ns >= self.meter.next_mark_ns() || self.station.told.load(Ordering::Relaxed))
                && !self.meter.lap(self.station.told)
                || !self.looks_at_the_clock()
            {
                return Ok(Stop::Time);
            }
            if self.go_on(now_ns)? {
                now_ns = monotonic_ns();
            }
            if self.live == 0 && self.accepting == Accepting::Never {
                return Ok(Stop::Done);
            }
            let timeout_ns = if self.again.is_empty() { self.until_ns(now_ns) - now_ns } else { 0 };
            if !self.wait(timeout_ns)? {
                return Ok(Stop::Time);
            }
        }
    }

    /// Ends a lap whose calls were made: a round over many busy connections takes longer than a window's marks may
    /// wait. `false` when the time is up.
    #[inline]
    fn looks_at_the_clock(&mut self) -> bool {
        !self.meter.is_lap_used_up() || self.meter.lap(self.station.told)
    }

    /// Submits what is queued, waits for completions and works them off; the rest of them stays in the ring when the
    /// time is up, which `false` says.
    fn wait(&mut self, timeout_ns: u64) -> Result<bool, Fault> {
        let want = u32::from(timeout_ns > 0);
        let waited =
            self.ring.wait(want, (want > 0).then_some(timeout_ns)).map_err(Fault::io("waiting in io_uring"))?;
        self.accepted_now = 0;
        let mut any = false;
        while let Some(completion) = self.ring.reap() {
            any = true;
            self.on_completion(completion)?;
            if !self.looks_at_the_clock() {
                return Ok(false);
            }
        }
        self.report.wakeups += u64::from(any && waited == Wait::Ready);
        Ok(true)
    }

    /// Everything that is due without a completion. Whether there was anything.
    fn go_on(&mut self, now_ns: u64) -> Result<bool, Fault> {
        let mut any = false;
        // As many as there are flows: one that names a past moment again must not hold up the others.
        for _ in 0..self.live {
            let Some(index) = self.timers.take_due(now_ns) else { break };
            any = true;
            self.on_deadline(index, now_ns)?;
        }
        for _ in 0..self.again.len() {
            any = true;
            let Some(index) = self.again.pop_front() else { break };
            self.slots[index as usize].queued = false;
            let now_ns = self.tick();
            self.advance(index, now_ns)?;
            if self.meter.is_lap_used_up() {
                // The others keep their places in the queue.
                break;
            }
        }
        if matches!(self.accepting, Accepting::From(at_ns) if at_ns <= now_ns) {
            self.listen();
        }
        Ok(any)
    }

    /// How long a wait that begins now may last.
    fn until_ns(&mut self, now_ns: u64) -> u64 {
        let accept_ns = match self.accepting {
            Accepting::From(at_ns) => at_ns,
            Accepting::By(_) | Accepting::Never => u64::MAX,
        };
        let until_ns = self.meter.next_mark_ns().min(self.timers.earliest_ns()).min(accept_ns);
        // Something is waited for: a wait of 0 ns would not even look.
        until_ns.clamp(now_ns + 1, now_ns + WAIT_MAX_NS)
    }

    fn on_completion(&mut self, completion: Completion) -> Result<(), Fault> {
        let Completion { token, more, event } = completion;
        let index = token as u32;
        match event {
            Event::Accepted(accepted) => self.on_accepted(more, accepted),
            Event::Received { moved, taken } => {
                self.report.multishot += u64::from(more);
                self.report.bundled += u64::from(taken.as_ref().is_some_and(|taken| taken.buffers() > 1));
                if self.is_current(token) {
                    self.on_received(index, more, moved, taken)
                } else {
                    taken.into_iter().for_each(|taken| self.ring.give_back(taken));
                    Ok(())
                }
            }
            Event::Sent { moved, buffers, lost } => {
                self.report.bundled += u64::from(buffers > 1);
                if !self.is_current(token) {
                    return Ok(());
                }
                if self.goes_on_sending(index, more, moved, lost)? { Ok(()) } else { self.on_sent(index, moved) }
            }
            Event::Released { copied } => {
                self.report.zero_copy_copied += u64::from(copied);
                // The buffer stays with the slot whatever becomes of the connection.
                self.on_released(index)
            }
            Event::Writable(_) if self.is_current(token) => self.on_connected(index),
            Event::Writable(_) | Event::Nop(_) | Event::Cancelled(_) | Event::Closed(_) => Ok(()),
        }
    }

    fn listen(&mut self) {
        let Some(listener) = self.station.listener else { return };
        self.accepting = Accepting::By(match self.kind {
            UringKind::Plain => self.ring.accept(LISTENER, listener),
            _ => self.ring.accept_multishot(LISTENER, listener),
        });
    }

    fn on_accepted(&mut self, more: bool, accepted: Result<OwnedFd, Errno>) -> Result<(), Fault> {
        let refused = match accepted {
            // It comes too late, and goes again.
            Ok(_) if self.accepting == Accepting::Never => None,
            Ok(fd) => {
                self.report.accepted += 1;
                self.accepted_now += 1;
                self.report.accepted_at_once = self.report.accepted_at_once.max(self.accepted_now);
                self.welcome(fd)?;
                None
            }
            Err(errno) => Some(errno),
        };
        // Called off, or going on.
        if more || self.accepting == Accepting::Never {
            return Ok(());
        }
        match refused.map(io::Error::from) {
            None => self.listen(),
            Some(error) if error.kind() == io::ErrorKind::ConnectionAborted => self.listen(),
            // Trying again at once would only spin.
            Some(error) if socket::is_exhausted(&error) || error.kind() == io::ErrorKind::WouldBlock => {
                self.accepting = Accepting::From(monotonic_ns() + ACCEPT_PAUSE_NS);
            }
            Some(error) if error.kind() == io::ErrorKind::Interrupted => self.listen(),
            Some(source) => return Err(Fault::Io { doing: "accepting a connection".into(), source }),
        }
        Ok(())
    }

    fn welcome(&mut self, fd: OwnedFd) -> Result<(), Fault> {
        let now_ns = self.tick();
        let Some(flow) = self.party.accepted(fd.as_fd(), now_ns) else { return Ok(()) };
        let index = self.take_in(flow, Some(fd));
        self.advance(index, now_ns)
    }

    /// A descriptor is free again.
    fn on_closed(&mut self) {
        if let Accepting::From(at_ns) = &mut self.accepting {
            *at_ns = 0;
        }
    }

    /// Calls everything off and gives every flow back once the kernel has let go of its connection: what it
    /// still received or sent must not be lost to the counts.
    fn give_back(&mut self) -> Result<(), Fault> {
        if let Accepting::By(op) = std::mem::replace(&mut self.accepting, Accepting::Never) {
            self.ring.cancel(op);
        }
        for index in 0..self.slots.len() {
            self.leave_with_what_comes(index as u32);
        }
        let called_off = self.see_them_off();
        for index in 0..self.slots.len() {
            self.give_up(index as u32);
        }
        called_off
    }

    fn see_them_off(&mut self) -> Result<(), Fault> {
        let abort = self.station.abort;
        self.wait_for_leaving(|| abort.load(Ordering::Relaxed))?;
        // A peer takes no more, or nobody has time for it.
        for index in 0..self.slots.len() {
            self.stop_flushing(index as u32);
        }
        self.wait_for_leaving(|| false)
    }

    fn wait_for_leaving(&mut self, hurry: impl Fn() -> bool) -> Result<(), Fault> {
        let deadline_ns = monotonic_ns() + LEAVE_NS;
        while self.live > 0 && !hurry() {
            let left_ns = deadline_ns.saturating_sub(monotonic_ns());
            if left_ns == 0 {
                break;
            }
            // Time is up already: what the marks say of it does not matter any more.
            let _ = self.wait(left_ns.min(WAIT_MAX_NS))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: UringKind, sqpoll: bool, report: EngineReport, expected: Option<&str>) {
        let said = unproven(UringMode { kind, sqpoll }, &report);
        assert_eq!(said.as_deref().map(|said| said.split(':').next().unwrap_or("")), expected);
    }

    #[test]
    fn a_mode_that_did_not_run_is_named() {
        let idle = EngineReport::default();
        let ran = EngineReport { completions: 9, multishot: 5, kernel_threads_ns: Some(0), ..idle };
        check(UringKind::Plain, false, idle, Some("no operation completed on a ring"));
        check(UringKind::Plain, false, ran, None);
        check(UringKind::Plain, true, ran, Some("no submission thread used any CPU time"));
        check(UringKind::Plain, true, EngineReport { kernel_threads_ns: None, ..ran }, None);
        check(
            UringKind::Multishot,
            false,
            EngineReport { multishot: 0, ..ran },
            Some("no receive completed more than once"),
        );
        check(UringKind::Multishot, false, ran, None);
        check(UringKind::Bundle, false, ran, Some("nothing took more than one buffer"));
        check(UringKind::Bundle, false, EngineReport { bundled: 1, ..ran }, None);
        check(UringKind::ZeroCopy, false, ran, Some("nothing was sent with zero copy"));
        check(UringKind::ZeroCopy, true, EngineReport { zero_copy: 1, kernel_threads_ns: Some(1), ..ran }, None);
    }

    #[test]
    fn every_mode_runs_here_or_says_why_not() {
        for kind in [UringKind::Plain, UringKind::Multishot, UringKind::Bundle, UringKind::ZeroCopy] {
            for sqpoll in [false, true] {
                let lacks = lacks(UringMode { kind, sqpoll });
                assert!(lacks.as_deref().is_none_or(|lacks| lacks.starts_with("engine uring:")), "{lacks:?}");
            }
        }
    }
}
