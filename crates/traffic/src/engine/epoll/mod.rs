//! The epoll engine: one thread, many connections, calls made when the kernel says that they will not wait.
//!
//! The listener is level-triggered in every mode and shared with other threads by `EPOLLEXCLUSIVE`; a wake-up
//! accepts one connection, or as many as wait. Connections are level-triggered or edge-triggered
//! ([`connection`]). Nothing is allocated once as many connections have been open as ever will be.

mod connection;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

use bytegauge_model::{EngineReport, EpollMode};
use bytegauge_sys::buffer::AlignedBuffer;
use bytegauge_sys::clock::monotonic_ns;
use bytegauge_sys::epoll::{Epoll, Events, Ready};
use bytegauge_sys::{io as sys_io, socket};

use crate::engine::epoll::connection::Slot;
use crate::engine::timers::Timers;
use crate::engine::{ACCEPT_PAUSE_NS, ACCEPTS_MAX, Station, Stop, WAIT_MAX_NS, is_passing};
use crate::fault::Fault;
use crate::meter::Meter;
use crate::party::Party;

/// Events taken at one wake-up.
const EVENTS_MAX: usize = 256;

/// The listener's token; connections carry index and generation, of which neither reaches this.
const LISTENER: u64 = u64::MAX;

/// Whether connections are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Accepting {
    /// This end does not listen.
    Never,
    /// The listener is registered.
    Now,
    /// Descriptors ran out: the listener is registered again at this moment, or when a connection closes.
    From(u64),
}

struct Loop<'a, P: Party> {
    mode: EpollMode,
    party: &'a mut P,
    station: Station<'a>,
    meter: &'a mut Meter,
    epoll: Epoll,
    slots: Vec<Slot<P::Flow>>,
    free: Vec<u32>,
    /// Flows in slots.
    live: usize,
    timers: Timers,
    /// Slots that could go on but had their turn.
    again: VecDeque<u32>,
    buffer: AlignedBuffer,
    accepting: Accepting,
    /// When the clock was read last, for flows that ask for the time; 0 for others.
    now_ns: u64,
    report: EngineReport,
}

pub(super) fn drive<P: Party>(
    mode: EpollMode,
    party: &mut P,
    station: Station<'_>,
    meter: &mut Meter,
) -> Result<(Stop, EngineReport), Fault> {
    let mut engine = Loop {
        mode,
        party,
        station,
        meter,
        epoll: Epoll::new().map_err(Fault::io("opening an epoll descriptor"))?,
        slots: Vec::new(),
        free: Vec::new(),
        live: 0,
        timers: Timers::default(),
        again: VecDeque::new(),
        buffer: AlignedBuffer::new(station.buffer_size.max(1)),
        accepting: Accepting::Never,
        now_ns: 0,
        report: EngineReport::default(),
    };
    let stopped = engine.begin().and_then(|()| engine.run());
    engine.give_back();
    stopped.map(|stop| (stop, engine.report))
}

impl<P: Party> Loop<'_, P> {
    fn begin(&mut self) -> Result<(), Fault> {
        while let Some((flow, fd)) = self.party.first() {
            if let Some(fd) = &fd {
                sys_io::set_nonblocking(fd.as_fd(), true).map_err(Fault::io("preparing a connection"))?;
            }
            let index = self.take_in(flow, fd);
            self.go_on_later(index);
        }
        if self.station.listener.is_some() {
            self.listen()?;
        }
        Ok(())
    }

    fn run(&mut self) -> Result<Stop, Fault> {
        let mut events = Events::with_room(EVENTS_MAX);
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
            self.report.system_calls += 1;
            match self.epoll.wait(&mut events, timeout_ns) {
                Ok(0) => {}
                Ok(count) => {
                    self.report.wakeups += 1;
                    self.tick();
                    for index in 0..count {
                        match events.at(index) {
                            (LISTENER, _) => self.accept()?,
                            (token, ready) => self.on_event(token, ready)?,
                        }
                        if !self.looks_at_the_clock() {
                            return Ok(Stop::Time);
                        }
                    }
                }
                // Somebody wants a flag looked at.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(Fault::Io { doing: "waiting in epoll".into(), source }),
            }
        }
    }

    /// Ends a lap whose calls were made: a round over many busy connections takes longer than a window's marks may
    /// wait. `false` when the time is up.
    #[inline]
    fn looks_at_the_clock(&mut self) -> bool {
        !self.meter.is_lap_used_up() || self.meter.lap(self.station.told)
    }

    /// Everything that is due without an event. Whether there was anything.
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
            self.listen()?;
        }
        Ok(any)
    }

    /// How long a wait that begins now may last.
    fn until_ns(&mut self, now_ns: u64) -> u64 {
        let accept_ns = match self.accepting {
            Accepting::From(at_ns) => at_ns,
            Accepting::Now | Accepting::Never => u64::MAX,
        };
        let until_ns = self.meter.next_mark_ns().min(self.timers.earliest_ns()).min(accept_ns);
        until_ns.clamp(now_ns, now_ns + WAIT_MAX_NS)
    }

    fn listen(&mut self) -> Result<(), Fault> {
        let Some(listener) = self.station.listener else { return Ok(()) };
        self.report.system_calls += 1;
        self.epoll
            .add(listener, Ready::READ | Ready::EXCLUSIVE, LISTENER)
            .map_err(Fault::io("waiting for connections"))?;
        self.accepting = Accepting::Now;
        Ok(())
    }

    fn accept(&mut self) -> Result<(), Fault> {
        let Some(listener) = self.station.listener else { return Ok(()) };
        let most = if self.mode.batch { ACCEPTS_MAX } else { 1 };
        let mut accepted = 0;
        while accepted < most {
            self.report.system_calls += 1;
            match socket::accept(listener, true) {
                Ok(fd) => {
                    accepted += 1;
                    self.welcome(fd)?;
                }
                Err(error) if socket::is_exhausted(&error) => {
                    // A registered listener would be reported again at once, and for ever.
                    self.report.system_calls += 1;
                    self.epoll.remove(listener).map_err(Fault::io("pausing to accept"))?;
                    self.accepting = Accepting::From(monotonic_ns() + ACCEPT_PAUSE_NS);
                    break;
                }
                // Another thread was faster, or the peer has gone again.
                Err(error) if is_passing(&error) => break,
                Err(source) => return Err(Fault::Io { doing: "accepting a connection".into(), source }),
            }
        }
        self.report.accepted += accepted;
        self.report.accepted_at_once = self.report.accepted_at_once.max(accepted);
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

    fn give_back(&mut self) {
        for index in 0..self.slots.len() {
            self.leave(index as u32);
        }
    }
}
