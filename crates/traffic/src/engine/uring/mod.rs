//! The io_uring engine: one thread, one ring, many connections; one system call submits and waits for a batch.
//!
//! `plain` requests one receive and one send at a time. The other modes use multishot accepts and receives with buffers of a
//! pool that all connections share: `bundle` receives into several at once, and `zc` sends without a copy if the kernel can
//! ([`sending`]). Bytes are sent from memory of the ring, in which the flow composed them or in which they were received
//! ([`receiving`]).
//!
//! Never has two sends of one socket in flight: they could be reordered. Connections and the listener are made blocking, since
//! the kernel fails an operation on a non-blocking one instead of waiting.

mod connection;
mod receiving;
mod sending;

use std::os::fd::{AsFd, OwnedFd};

use bytegauge_model::{EngineReport, UringKind, UringMode};
use bytegauge_sys::clock::monotonic_ns;
use bytegauge_sys::epoll::{NO_TIMEOUT, Ready};
use bytegauge_sys::io as sys_io;
use bytegauge_sys::uring::{self, Completion, Errno, Feature, Missing, OpResult, Ring, RingSetup};

use crate::EndError;
use crate::engine::event_loop::{ALARM, Accepting, Driver, LISTENER, Port, Then};
use crate::engine::uring::connection::{Loop, Operations, RingPort};
use crate::engine::{Station, Stop, WAIT_MAX_NS, is_out_of_descriptors, unconnected};
use crate::flow::{Party, Want};
use crate::meter::Meter;

/// Submissions that fit at once: a batch of this size is a system call in any case.
const ENTRIES: u32 = 1024;

/// Completions that fit at once: more than the pool has buffers, with room for the sends of thousands of
/// connections.
const COMPLETIONS: u32 = 8192;

/// How long an idle submission thread keeps polling, milliseconds: long enough for a busy ring, and short enough not to take
/// the CPU from a peer on a small machine.
const POLL_IDLE_MS: u32 = 1;

/// Default length of a bundle's buffers, bytes: a message would hardly ever need two of larger ones.
pub(super) const BUNDLE_BUFFER_SIZE: usize = 4096;

/// How long a leaving engine waits for the operations that it cancelled.
const LEAVE_NS: u64 = 1_000_000_000;

pub(super) fn drive<P: Party>(
    mode: UringMode,
    party: &mut P,
    station: Station<'_>,
    meter: &mut Meter,
) -> Result<(Stop, EngineReport), EndError> {
    let poll_idle_ms = mode.sqpoll.then_some(POLL_IDLE_MS);
    let setup = RingSetup { entries: ENTRIES, completions: COMPLETIONS, poll_idle_ms };
    let ring = Ring::open(&setup)?;
    for feature in features(mode.kind) {
        ring.require(*feature)?;
    }
    let before = ring.counts();
    if let Some(listener) = station.listener {
        sys_io::set_nonblocking(listener, false).map_err(EndError::io("preparing the listener"))?;
    }
    let port = RingPort::new(mode.kind, ring, station.buffer_size.max(1))?;
    let mut driver = Driver::new(port, party, station, meter)?;
    let stopped = driver.drive();
    let counts = driver.port.ring.counts();
    driver.report.system_calls += counts.system_calls - before.system_calls;
    driver.report.completions = counts.completions - before.completions - driver.port.alarms;
    driver.report.buffer_bytes = driver.port.ring.buffer_bytes() as u64;
    driver.report.kernel_threads_ns = uring::helper_cpu_ns();
    stopped.map(|stop| (stop, driver.report))
}

/// The requirement of a mode that this machine lacks, if any; checked before a plan is made.
pub(super) fn missing_requirement(mode: UringMode) -> Option<String> {
    let mut needed = features(mode.kind).to_vec();
    needed.extend(mode.sqpoll.then_some(Feature::PollThread));
    uring::probe(&needed)
        .err()
        .map(|missing| format!("engine {}: {}", bytegauge_model::Engine::Uring(mode), EndError::from(missing)))
}

impl From<Missing> for EndError {
    /// Why io_uring cannot be used, and what else can be.
    fn from(missing: Missing) -> EndError {
        let step = match missing {
            Missing::NotBuilt | Missing::Refused { .. } => ": use --engine epoll",
            Missing::SwitchedOff(_) | Missing::Filtered => ", or use --engine epoll",
            Missing::LockedMemory { .. } | Missing::NoDescriptor => ", or use fewer flows",
            Missing::Feature(_) | Missing::UnsafeWithPollThread => "",
        };
        EndError::Missing(format!("{missing}{step}"))
    }
}

/// The part of the mode that the report of a run does not prove, if any.
pub(super) fn unproven(mode: UringMode, report: &EngineReport) -> Option<String> {
    let absent = match mode.kind {
        UringKind::Plain => (report.completions == 0).then_some("no operation completed on a ring"),
        UringKind::Multishot => (report.multishot == 0).then_some("no receive completed more than once"),
        UringKind::Bundle => (report.bundled == 0)
            .then_some("no receive took more than one buffer: give it messages or depths that fill several"),
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

impl Port for RingPort {
    type Link = Operations;

    fn adopt<P: Party>(driver: &mut Loop<'_, P>, fd: &OwnedFd) -> Result<(), EndError> {
        driver.report.system_calls += 1;
        sys_io::set_nonblocking(fd.as_fd(), false).map_err(EndError::io("preparing a connection"))
    }

    fn listen<P: Party>(driver: &mut Loop<'_, P>) -> Result<(), EndError> {
        let Some(listener) = driver.station.listener else { return Ok(()) };
        driver.accepting = Accepting::Now;
        let multishot = driver.port.kind != UringKind::Plain;
        driver.port.accept = Some(driver.port.ring.accept(LISTENER, listener, multishot));
        Ok(())
    }

    fn watch_alarm<P: Party>(driver: &mut Loop<'_, P>) -> Result<(), EndError> {
        let _ = driver.port.ring.poll(ALARM, driver.alarm.as_fd(), Ready::IN | Ready::ET);
        Ok(())
    }

    /// Submits queued operations, waits for completions and handles them; when the time is up, the rest of them stays in the
    /// ring.
    fn wait<P: Party>(driver: &mut Loop<'_, P>, timeout_ns: u64) -> Result<bool, EndError> {
        let flows = driver.live;
        driver.port.offer_for(flows);
        let limit_ns = (timeout_ns > 0 && timeout_ns != NO_TIMEOUT).then_some(timeout_ns);
        driver.port.ring.wait(u32::from(timeout_ns > 0), limit_ns).map_err(EndError::io("waiting in io_uring"))?;
        driver.port.accepted_now = 0;
        while let Some(completion) = driver.port.ring.reap() {
            driver.on_completion(completion)?;
            if !driver.has_time_left() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    #[inline]
    fn transfer<P: Party>(
        driver: &mut Loop<'_, P>,
        index: u32,
        want: Want,
        now_ns: &mut u64,
    ) -> Result<Then, EndError> {
        match want {
            Want::Send => driver.queue_send(index, now_ns),
            Want::Both => driver.queue_both(index, now_ns),
            _ => driver.deliver_or_wait(index, now_ns),
        }
    }

    fn watch_attempt<P: Party>(driver: &mut Loop<'_, P>, index: u32) -> Result<(), EndError> {
        let token = driver.token(index);
        let slot = &mut driver.slots[index as usize];
        let Some(fd) = &slot.fd else { return Err(unconnected()) };
        slot.link.connecting = Some(driver.port.ring.poll(token, fd.as_fd(), Ready::OUT));
        Ok(())
    }

    /// Operations in flight are cancelled first, or they would keep the socket open.
    fn close<P: Party>(driver: &mut Loop<'_, P>, index: u32, fd: OwnedFd) {
        let link = &mut driver.slots[index as usize].link;
        for op in link.in_flight() {
            driver.port.ring.cancel(op);
        }
        driver.drop_input(index);
        driver.port.ring.close(0, fd);
    }

    /// A flow is returned as soon as nothing is in flight on its connection.
    fn depart<P: Party>(driver: &mut Loop<'_, P>, index: u32) {
        for op in driver.slots[index as usize].link.in_flight() {
            driver.port.ring.cancel(op);
        }
        driver.finish_leaving(index);
    }

    /// Every flow is returned once the kernel has no operation on its connection: the counts must include the bytes that it
    /// still received or sent.
    fn finish<P: Party>(driver: &mut Loop<'_, P>) -> Result<(), EndError> {
        if let Some(op) = driver.port.accept.take() {
            driver.port.ring.cancel(op);
        }
        for index in 0..driver.slots.len() {
            // The flow gets bytes that still arrive, as long as it wants them.
            let slot = &mut driver.slots[index];
            slot.link.takes_what_comes |= slot.flow.is_some() && !slot.leaving;
            driver.leave(index as u32);
        }
        let deadline_ns = monotonic_ns() + LEAVE_NS;
        while driver.live > 0 {
            let left_ns = deadline_ns.saturating_sub(monotonic_ns());
            if left_ns == 0 {
                break;
            }
            // The time is up already, so the marks do not matter any more.
            let _ = RingPort::wait(driver, left_ns.min(WAIT_MAX_NS))?;
        }
        Ok(())
    }
}

impl<P: Party> Loop<'_, P> {
    fn on_completion(&mut self, completion: Completion) -> Result<(), EndError> {
        let Completion { token, more, event } = completion;
        let index = token as u32;
        match event {
            OpResult::Accepted(accepted) => self.on_accepted(more, accepted),
            OpResult::Received { moved, taken } => {
                self.report.multishot += u64::from(more);
                self.report.bundled += u64::from(taken.as_ref().is_some_and(|taken| taken.buffers() > 1));
                if self.is_current(token) {
                    self.on_received(index, more, moved, taken)
                } else {
                    taken.into_iter().for_each(|taken| self.port.ring.give_back(taken));
                    Ok(())
                }
            }
            OpResult::Sent(moved) if self.is_current(token) => self.on_sent(index, moved),
            OpResult::Released { copied } => {
                self.report.zero_copy_copied += u64::from(copied);
                // The buffer stays with the slot even if the connection is closed.
                self.on_released(index)
            }
            OpResult::Polled(_) if token == ALARM => {
                self.port.alarms += 1;
                self.alarm_rang = true;
                if more { Ok(()) } else { RingPort::watch_alarm(self) }
            }
            OpResult::Polled(_) if self.is_current(token) => self.on_attempt_over(index),
            OpResult::Sent(_) | OpResult::Polled(_) | OpResult::Cancelled(_) | OpResult::Closed(_) => Ok(()),
        }
    }

    fn on_accepted(&mut self, more: bool, accepted: Result<OwnedFd, Errno>) -> Result<(), EndError> {
        let refused = match accepted {
            // It comes too late, and is closed.
            Ok(_) if self.accepting == Accepting::Never => None,
            Ok(fd) => {
                self.report.accepted += 1;
                self.port.accepted_now += 1;
                self.report.accepted_at_once = self.report.accepted_at_once.max(self.port.accepted_now);
                self.add_accepted(fd)?;
                None
            }
            Err(errno) => Some(errno),
        };
        // Cancelled, or still active.
        if more || self.accepting == Accepting::Never {
            return Ok(());
        }
        self.port.accept = None;
        let pauses = match refused {
            Some(errno) => errno == Errno::AGAIN || is_out_of_descriptors(errno.into())?,
            None => false,
        };
        if pauses {
            self.pause_accepting();
            return Ok(());
        }
        RingPort::listen(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: UringKind, sqpoll: bool, report: EngineReport, expected: Option<&str>) {
        let missing = unproven(UringMode { kind, sqpoll }, &report);
        assert_eq!(missing.as_deref().map(|missing| missing.split(':').next().unwrap_or("")), expected);
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
        check(UringKind::Bundle, false, ran, Some("no receive took more than one buffer"));
        check(UringKind::Bundle, false, EngineReport { bundled: 1, ..ran }, None);
        check(UringKind::ZeroCopy, false, ran, Some("nothing was sent with zero copy"));
        check(UringKind::ZeroCopy, true, EngineReport { zero_copy: 1, kernel_threads_ns: Some(1), ..ran }, None);
    }

    #[test]
    fn every_mode_runs_or_gives_a_reason() {
        for kind in [UringKind::Plain, UringKind::Multishot, UringKind::Bundle, UringKind::ZeroCopy] {
            for sqpoll in [false, true] {
                let reason = missing_requirement(UringMode { kind, sqpoll });
                assert!(reason.as_deref().is_none_or(|reason| reason.starts_with("engine uring:")), "{reason:?}");
            }
        }
    }

    #[test]
    fn missing_engines_have_a_next_step() {
        let refused = Missing::Refused { doing: "making an io_uring", errno: 22 };
        let locked = Missing::LockedMemory { doing: "making an io_uring", limit_kib: 64 };
        for missing in [Missing::NotBuilt, Missing::SwitchedOff(2), Missing::Filtered, refused] {
            let text = EndError::from(missing).to_string();
            assert!(text.contains("use --engine epoll"), "{text}");
        }
        for missing in [locked, Missing::NoDescriptor] {
            let text = EndError::from(missing).to_string();
            assert!(text.contains("ulimit") && text.contains("use fewer flows"), "{text}");
        }
    }
}
