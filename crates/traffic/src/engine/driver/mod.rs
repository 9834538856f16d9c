//! One thread that carries many connections: what the epoll and io_uring engines have in common.
//!
//! The driver keeps the connections, their deadlines and the time, asks flows what they want, and passes on what
//! happened to whom. How a wish becomes a system call is a [`Port`]'s: one for readiness (`epoll`) and one for
//! completions (`uring`). Which port it is, is decided by the compiler: nothing here is called through a table.
//!
//! Nothing is allocated once as many connections have been open as ever will be.

mod connection;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

use bytegauge_model::EngineReport;
use bytegauge_sys::alarm::Alarm;
use bytegauge_sys::clock::monotonic_ns;
use bytegauge_sys::epoll::NO_TIMEOUT;
use bytegauge_sys::{socket, timer};

pub(super) use connection::{EngineLink, Slot, WaitingFor};

use crate::engine::timers::Timers;
use crate::engine::{ACCEPT_PAUSE_NS, Station, Stop, WAIT_MAX_NS};
use crate::fault::Fault;
use crate::flow::Flow;
use crate::meter::Meter;
use crate::party::Party;

/// The listener's token; connections carry index and generation, of which neither reaches this.
pub(super) const LISTENER: u64 = u64::MAX;

/// The alarm's token.
pub(super) const ALARM: u64 = u64::MAX - 1;

/// What follows from a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// The flow is asked again.
    Ask,
    /// An event or a moment is waited for, or the flow has left.
    Rest,
}

/// Whether connections are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accepting {
    /// This end does not listen, or not any more.
    Never,
    /// Whoever connects is accepted.
    Now,
    /// Descriptors ran out: accepted again at this moment, or when a connection closes.
    From(u64),
}

/// How wishes become system calls.
///
/// Everything is told of a driver and the index of a slot. A port tells the driver what it learns by
/// [`advance`](Driver::advance), [`on_connected`](Driver::on_connected) and [`welcome`](Driver::welcome).
pub(super) trait Port: Sized {
    /// What it keeps of a connection.
    type Link: EngineLink;

    /// Whether it puts off what a flow wants: while bytes that count as sent are on their way out of the program
    /// ([`is_flushing`](Port::is_flushing)), or when it asked the flow itself.
    const HOLDS: bool = false;

    /// Makes a connection fit for the port.
    fn adopt<P: Party>(driver: &mut Driver<'_, P, Self>, fd: &OwnedFd) -> Result<(), Fault>;

    /// Begins to accept.
    fn listen<P: Party>(driver: &mut Driver<'_, P, Self>) -> Result<(), Fault>;

    /// Reports the driver's alarm from now on: sets [`Driver::alarm_rang`] when it rings.
    fn watch_alarm<P: Party>(driver: &mut Driver<'_, P, Self>) -> Result<(), Fault>;

    /// WaitingFor for at most `timeout_ns` and works off what it finds. At 0 it only looks, and at [`NO_TIMEOUT`] it waits
    /// without limit. `false`: the time is up.
    fn wait<P: Party>(driver: &mut Driver<'_, P, Self>, timeout_ns: u64) -> Result<bool, Fault>;

    /// Does what can be done at once for a flow that wants to send, or sees to it that the rest is.
    fn send<P: Party>(driver: &mut Driver<'_, P, Self>, index: u32, now_ns: &mut u64) -> Result<Then, Fault>;

    /// As [`send`](Port::send), of a flow that wants to receive.
    fn receive<P: Party>(driver: &mut Driver<'_, P, Self>, index: u32, now_ns: &mut u64) -> Result<Then, Fault>;

    /// As [`send`](Port::send), of a flow that wants to do both and whose peer may still send.
    fn send_or_receive<P: Party>(driver: &mut Driver<'_, P, Self>, index: u32, now_ns: &mut u64)
    -> Result<Then, Fault>;

    /// Sees to it that the driver is told of the outcome of a connection attempt.
    fn watch_attempt<P: Party>(driver: &mut Driver<'_, P, Self>, index: u32) -> Result<(), Fault>;

    /// Closes a connection of a slot, of which nothing is wanted any more.
    fn close<P: Party>(driver: &mut Driver<'_, P, Self>, index: u32, fd: OwnedFd);

    /// Lets go of a flow that leaves: now or later it is [given up](Driver::give_up).
    fn depart<P: Party>(driver: &mut Driver<'_, P, Self>, index: u32);

    /// A flow waits: what may have to be asked for, so that the driver is told.
    fn on_rest<P: Party>(_driver: &mut Driver<'_, P, Self>, _index: u32) -> Result<(), Fault> {
        Ok(())
    }

    /// A flow's patience with what it sends is over.
    fn on_impatience<P: Party>(_driver: &mut Driver<'_, P, Self>, _index: u32) {}

    /// Whether bytes that count as sent are still on their way, and the flow has the patience to wait for them.
    fn is_flushing<P: Party>(_driver: &Driver<'_, P, Self>, _index: u32) -> bool {
        false
    }

    /// The engine leaves: calls everything off and lets every flow go.
    fn see_off<P: Party>(driver: &mut Driver<'_, P, Self>) -> Result<(), Fault>;
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
    /// Slots that could go on but had their turn, or wait for something that is there after this batch.
    again: VecDeque<u32>,
    pub(super) accepting: Accepting,
    /// Ends waits at the meter's marks. So waits need no time limit of their own, and loops no look at the clock.
    pub(super) alarm: Alarm,
    /// When the alarm rings.
    alarm_ns: u64,
    /// The alarm rang and was not set again.
    pub(super) alarm_rang: bool,
    /// When the clock was read last, for flows that ask for the time; 0 for others.
    pub(super) now_ns: u64,
    pub(super) report: EngineReport,
}

impl<'a, P: Party, I: Port> Driver<'a, P, I> {
    /// A driver without connections.
    ///
    /// # Errors
    /// [`Fault::Io`] if no timer can be made.
    pub(super) fn new(
        port: I,
        party: &'a mut P,
        station: Station<'a>,
        meter: &'a mut Meter,
    ) -> Result<Driver<'a, P, I>, Fault> {
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
            alarm: Alarm::new().map_err(Fault::io("making a timer"))?,
            alarm_ns: 0,
            alarm_rang: true,
            now_ns: 0,
            report: EngineReport::default(),
        })
    }

    /// Carries the party, and gives every flow back.
    pub(super) fn drive(&mut self) -> Result<Stop, Fault> {
        let stopped = self.begin().and_then(|()| self.run());
        self.accepting = Accepting::Never;
        let seen_off = I::see_off(self);
        for index in 0..self.slots.len() {
            self.give_up(index as u32);
        }
        seen_off.and(stopped)
    }

    fn begin(&mut self) -> Result<(), Fault> {
        I::watch_alarm(self)?;
        while let Some((flow, fd)) = self.party.first() {
            if let Some(fd) = &fd {
                I::adopt(self, fd)?;
            }
            let index = self.take_in(flow, fd)?;
            self.go_on_later(index);
        }
        if self.station.listener.is_some() {
            I::listen(self)?;
        }
        Ok(())
    }

    /// The loop (`cargo xtask hot-loops`).
    #[inline(never)]
    fn run(&mut self) -> Result<Stop, Fault> {
        let mut now_ns = monotonic_ns();
        loop {
            if self.station.abort.load(Ordering::Relaxed) {
                return Ok(Stop::Aborted);
            }
            if self.needs_the_time() {
                now_ns = monotonic_ns();
                if !self.meter.goes_on(now_ns, self.station.told) {
                    return Ok(Stop::Time);
                }
            }
            self.go_on(now_ns)?;
            if self.live == 0 && self.accepting == Accepting::Never {
                return Ok(Stop::Done);
            }
            let timeout_ns = if self.again.is_empty() { self.timeout_ns()? } else { 0 };
            if !I::wait(self, timeout_ns)? {
                return Ok(Stop::Time);
            }
        }
    }

    /// Whether the next round depends on the clock: a mark, a deadline or the end of a lap may have come.
    #[inline]
    fn needs_the_time(&self) -> bool {
        self.alarm_rang
            || P::Flow::TIMED
            || !self.timers.is_empty()
            || matches!(self.accepting, Accepting::From(_))
            || self.meter.is_lap_used_up()
            || self.station.told.load(Ordering::Relaxed)
    }

    /// Whether the time is not yet up, asked after every event of a round.
    #[inline]
    pub(super) fn looks_at_the_clock(&mut self) -> bool {
        self.meter.goes_on_within_a_round(self.station.told)
    }

    /// Everything that is due without an event.
    fn go_on(&mut self, now_ns: u64) -> Result<(), Fault> {
        // As many as there are flows: one that names a past moment again must not hold up the others.
        for _ in 0..self.live {
            let Some(index) = self.timers.take_due(now_ns) else { break };
            // Flows that are due together begin one after another, each at a time of its own.
            let now_ns = if P::Flow::TIMED { self.tick() } else { now_ns };
            self.on_deadline(index, now_ns)?;
        }
        for _ in 0..self.again.len() {
            let Some(index) = self.again.pop_front() else { break };
            self.slots[index as usize].queued = false;
            let now_ns = self.tick();
            self.advance(index, now_ns)?;
            // The first laps are of few calls: to wait for events after each would let the flows that have begun call
            // again and again before the others begin at all.
            if !self.looks_at_the_clock() {
                break;
            }
        }
        if matches!(self.accepting, Accepting::From(at_ns) if at_ns <= now_ns) {
            I::listen(self)?;
        }
        Ok(())
    }

    /// How long the next wait may last, nanoseconds, at least 1: without limit where the alarm ends it in time.
    #[inline]
    fn timeout_ns(&mut self) -> Result<u64, Fault> {
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
        // A flow that is due is to be woken exactly.
        Ok(timer::first_wait_ns(due_ns.saturating_sub(monotonic_ns())).max(1))
    }

    /// Sets the alarm to the meter's next mark.
    #[cold]
    fn set_alarm(&mut self) -> Result<(), Fault> {
        let now_ns = monotonic_ns();
        self.alarm_ns = self.meter.next_mark_ns().clamp(now_ns, now_ns + WAIT_MAX_NS);
        self.alarm_rang = false;
        self.report.system_calls += 1;
        self.alarm.set(self.alarm_ns).map_err(Fault::io("setting a timer"))
    }

    /// The time of an event, for flows that ask for it.
    #[inline]
    pub(super) fn tick(&mut self) -> u64 {
        self.now_ns = if P::Flow::TIMED { monotonic_ns() } else { 0 };
        self.now_ns
    }

    /// A connection was accepted.
    #[inline(never)]
    pub(super) fn welcome(&mut self, fd: OwnedFd) -> Result<(), Fault> {
        let now_ns = self.tick();
        let Some(flow) = self.party.accepted(fd.as_fd(), now_ns) else { return Ok(()) };
        let index = self.take_in(flow, Some(fd))?;
        self.advance(index, now_ns)
    }

    /// An accept failed because descriptors ran out: leaves the listener alone for a while.
    pub(super) fn pause_accepting(&mut self) {
        self.accepting = Accepting::From(monotonic_ns() + ACCEPT_PAUSE_NS);
    }

    /// A descriptor is free again.
    pub(super) fn on_closed(&mut self) {
        if let Accepting::From(at_ns) = &mut self.accepting {
            *at_ns = 0;
        }
    }

    /// What became of a connection attempt (`SO_ERROR`).
    fn attempt_error(&mut self, index: u32) -> Option<i32> {
        self.report.system_calls += 1;
        match self.slots[index as usize].fd.as_ref().map(|fd| socket::take_error(fd.as_fd())) {
            Some(Ok(errno)) => errno,
            Some(Err(error)) => error.raw_os_error(),
            None => None,
        }
    }
}

/// The error number of a failed call.
pub(super) fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(0)
}
