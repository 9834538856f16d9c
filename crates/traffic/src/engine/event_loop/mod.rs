//! One thread for many connections: the common part of the epoll and io_uring engines.
//!
//! The driver has the connections, their deadlines and the time, calls flows for what they want, and passes events on to them.
//! A [`Port`] turns wants into system calls: one for readiness (`epoll`) and one for completions (`uring`). The port is chosen
//! at compile time: nothing here is called through a table.
//!
//! Allocates nothing after the largest number of open connections is reached.

mod connection;

pub(super) use connection::{EngineLink, Slot, WaitingFor};

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

use bytegauge_model::EngineReport;
use bytegauge_sys::clock::{self, monotonic_ns};
use bytegauge_sys::epoll::NO_TIMEOUT;

use crate::EndError;
use crate::engine::flow_state::time_for;
use crate::engine::timers::Timers;
use crate::engine::{ACCEPT_PAUSE_NS, Station, Stop, WAIT_MAX_NS};
use crate::flow::{Flow, Party, Want};
use crate::meter::Meter;

/// The listener's token; those of connections, an index and a generation, never reach this value.
pub(super) const LISTENER: u64 = u64::MAX;

/// The alarm's token.
pub(super) const ALARM: u64 = u64::MAX - 1;

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// The flow is called again.
    Ask,
    /// The flow waits for an event or a time, or has left.
    Rest,
}

/// Whether connections are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accepting {
    /// This end does not listen, or no longer.
    Never,
    /// Connections are accepted.
    Now,
    /// Descriptors ran out: accepted again at this time.
    From(u64),
}

/// Turns wants into system calls.
///
/// Its functions get a driver and the index of a slot. A port reports events to the driver by
/// [`advance`](Driver::advance), [`on_connected`](Driver::on_connected) and [`add_accepted`](Driver::add_accepted).
pub(super) trait Port: Sized {
    /// Its state of a connection.
    type Link: EngineLink;

    /// Prepares a connection for the port.
    fn adopt<P: Party>(driver: &mut Driver<'_, P, Self>, fd: &OwnedFd) -> Result<(), EndError>;

    /// A slot has a connection, which may not be established yet.
    fn on_attached<P: Party>(_driver: &mut Driver<'_, P, Self>, _index: u32) -> Result<(), EndError> {
        Ok(())
    }

    /// Begins to accept.
    fn listen<P: Party>(driver: &mut Driver<'_, P, Self>) -> Result<(), EndError>;

    /// Watches the driver's alarm: sets [`Driver::alarm_rang`] when it expires.
    fn watch_alarm<P: Party>(driver: &mut Driver<'_, P, Self>) -> Result<(), EndError>;

    /// Waits for at most `timeout_ns` and handles events. At 0 it only checks, and at [`NO_TIMEOUT`] it waits without limit.
    /// `false`: the time is up.
    fn wait<P: Party>(driver: &mut Driver<'_, P, Self>, timeout_ns: u64) -> Result<bool, EndError>;

    /// Moves what can be moved at once for a flow that wants to send, to receive, or both, and arranges for the rest.
    fn transfer<P: Party>(
        driver: &mut Driver<'_, P, Self>,
        index: u32,
        want: Want,
        now_ns: &mut u64,
    ) -> Result<Then, EndError>;

    /// Arranges for the driver to get the outcome of a connection attempt.
    fn watch_attempt<P: Party>(driver: &mut Driver<'_, P, Self>, index: u32) -> Result<(), EndError>;

    /// Closes a connection of a slot that is no longer needed.
    fn close<P: Party>(driver: &mut Driver<'_, P, Self>, index: u32, fd: OwnedFd);

    /// Releases a flow that leaves: now or later it is [given up](Driver::give_up).
    fn depart<P: Party>(driver: &mut Driver<'_, P, Self>, index: u32);

    /// A flow waits: arranges for the event to be reported.
    fn on_rest<P: Party>(_driver: &mut Driver<'_, P, Self>, _index: u32) -> Result<(), EndError> {
        Ok(())
    }

    /// The engine leaves: cancels everything and releases every flow.
    fn finish<P: Party>(driver: &mut Driver<'_, P, Self>) -> Result<(), EndError>;
}

/// The connections of one thread.
pub(super) struct Driver<'a, P: Party, I: Port> {
    pub(super) port: I,
    pub(super) party: &'a mut P,
    pub(super) station: Station<'a>,
    pub(super) meter: &'a mut Meter,
    pub(super) slots: Vec<Slot<P::Flow, I::Link>>,
    free: Vec<u32>,
    /// Flows in slots.
    pub(super) live: usize,
    pub(super) timers: Timers,
    /// Slots that are ready but had their turn, or wait for the end of this batch.
    again: VecDeque<u32>,
    pub(super) accepting: Accepting,
    /// Ends waits at the meter's marks, so that waits need no timeout of their own and loops need not read the clock.
    pub(super) alarm: OwnedFd,
    /// When the alarm expires.
    alarm_ns: u64,
    /// The alarm has expired and was not set again.
    pub(super) alarm_rang: bool,
    /// When the clock was last read, for flows that need the time; 0 for others.
    pub(super) now_ns: u64,
    pub(super) report: EngineReport,
}

impl<'a, P: Party, I: Port> Driver<'a, P, I> {
    /// A driver without connections.
    ///
    /// # Errors
    /// [`EndError::Io`] if no timer can be made.
    pub(super) fn new(
        port: I,
        party: &'a mut P,
        station: Station<'a>,
        meter: &'a mut Meter,
    ) -> Result<Driver<'a, P, I>, EndError> {
        Ok(Driver {
            port,
            party,
            station,
            meter,
            slots: Vec::new(),
            free: Vec::new(),
            live: 0,
            timers: Timers::default(),
            again: VecDeque::new(),
            accepting: Accepting::Never,
            alarm: clock::alarm().map_err(EndError::io("making a timer"))?,
            alarm_ns: 0,
            alarm_rang: true,
            now_ns: 0,
            report: EngineReport::default(),
        })
    }

    /// Drives the party, and returns every flow.
    pub(super) fn drive(&mut self) -> Result<Stop, EndError> {
        let stopped = self.begin().and_then(|()| self.run());
        self.accepting = Accepting::Never;
        let finished = I::finish(self);
        for index in 0..self.slots.len() {
            self.give_up(index as u32);
        }
        finished.and(stopped)
    }

    fn begin(&mut self) -> Result<(), EndError> {
        I::watch_alarm(self)?;
        while let Some((flow, fd)) = self.party.first() {
            if let Some(fd) = &fd {
                I::adopt(self, fd)?;
            }
            let index = self.take_in(flow, fd)?;
            self.queue_later(index);
        }
        if self.station.listener.is_some() {
            I::listen(self)?;
        }
        Ok(())
    }

    /// The loop (`cargo xtask hot-loops`).
    #[inline(never)]
    fn run(&mut self) -> Result<Stop, EndError> {
        let mut now_ns = monotonic_ns();
        loop {
            if self.station.abort.load(Ordering::Relaxed) {
                return Ok(Stop::Aborted);
            }
            if self.needs_the_time() {
                now_ns = monotonic_ns();
                if !self.meter.continues(now_ns, self.station.stop_requested) {
                    return Ok(Stop::Time);
                }
            }
            if !self.run_due(now_ns)? {
                return Ok(Stop::Time);
            }
            if self.live == 0 && self.accepting == Accepting::Never {
                return Ok(Stop::Done);
            }
            let timeout_ns = if self.again.is_empty() { self.timeout_ns()? } else { 0 };
            if !I::wait(self, timeout_ns)? {
                return Ok(Stop::Time);
            }
        }
    }

    /// Whether the next round depends on the clock: a mark, a deadline or the end of a lap may be due.
    #[inline]
    fn needs_the_time(&self) -> bool {
        self.alarm_rang
            || P::Flow::TIMED
            || !self.timers.is_empty()
            || matches!(self.accepting, Accepting::From(_))
            || self.meter.is_lap_used_up()
            || self.station.stop_requested.load(Ordering::Relaxed)
    }

    /// Whether there is time left; checked after every event of a round.
    #[inline]
    pub(super) fn has_time_left(&mut self) -> bool {
        self.meter.continues_within_round(self.station.stop_requested)
    }

    /// Does everything that is due without an event. Returns whether there is time left: a limit that is reached is seen at the
    /// end of a lap alone, which may be here each time where no write ever waits.
    fn run_due(&mut self, now_ns: u64) -> Result<bool, EndError> {
        // As many as there are flows: a flow that names a past time again must not delay the others.
        for _ in 0..self.live {
            let Some(index) = self.timers.take_due(now_ns) else { break };
            // Flows that are due together begin one after another, each at its own time.
            let now_ns = if P::Flow::TIMED { self.tick() } else { now_ns };
            self.on_deadline(index, now_ns)?;
        }
        for _ in 0..self.again.len() {
            let Some(index) = self.again.pop_front() else { break };
            self.slots[index as usize].queued = false;
            let now_ns = self.tick();
            self.advance(index, now_ns)?;
            // The first laps have few calls: waiting for events after each would let the flows that have begun call
            // again and again before the others begin at all.
            if !self.has_time_left() {
                return Ok(false);
            }
        }
        if matches!(self.accepting, Accepting::From(at_ns) if at_ns <= now_ns) {
            I::listen(self)?;
        }
        Ok(true)
    }

    /// The longest next wait, nanoseconds, at least 1: without limit if the alarm ends it in time.
    #[inline]
    fn timeout_ns(&mut self) -> Result<u64, EndError> {
        if self.alarm_rang || self.meter.next_mark_ns() < self.alarm_ns {
            self.set_alarm()?;
        }
        let accept_ns = match self.accepting {
            Accepting::From(at_ns) => at_ns,
            Accepting::Now | Accepting::Never => u64::MAX,
        };
        let due_ns = self.timers.earliest_ns().min(accept_ns);
        if due_ns >= self.alarm_ns {
            return Ok(NO_TIMEOUT);
        }
        // A due flow must be woken exactly.
        Ok(clock::first_wait_ns(due_ns.saturating_sub(monotonic_ns())).max(1))
    }

    /// Sets the alarm to the meter's next mark.
    #[cold]
    fn set_alarm(&mut self) -> Result<(), EndError> {
        let now_ns = monotonic_ns();
        self.alarm_ns = self.meter.next_mark_ns().clamp(now_ns, now_ns + WAIT_MAX_NS);
        self.alarm_rang = false;
        self.report.system_calls += 1;
        clock::set_alarm(self.alarm.as_fd(), self.alarm_ns).map_err(EndError::io("setting a timer"))
    }

    /// The time of an event, for flows that need it.
    #[inline]
    pub(super) fn tick(&mut self) -> u64 {
        self.now_ns = time_for::<P::Flow>();
        self.now_ns
    }

    /// A connection was accepted.
    #[inline(never)]
    pub(super) fn add_accepted(&mut self, fd: OwnedFd) -> Result<(), EndError> {
        let now_ns = self.tick();
        let Some(flow) = self.party.accepted(fd.as_fd(), now_ns) else { return Ok(()) };
        let index = self.take_in(flow, Some(fd))?;
        self.advance(index, now_ns)
    }

    /// An accept failed because descriptors ran out: ignores the listener for a while.
    pub(super) fn pause_accepting(&mut self) {
        self.accepting = Accepting::From(monotonic_ns() + ACCEPT_PAUSE_NS);
    }
}
