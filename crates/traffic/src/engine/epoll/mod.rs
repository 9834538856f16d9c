//! The epoll engine: one thread, many connections, system calls when the kernel reports that they will not block.
//!
//! A [`Poller`] reports it: epoll(7), or for a relay that asks for it an io_uring. The calls are the engine's, or those of a party
//! that has calls of its own ([`Party::CALLS`]).
//!
//! The listener is level-triggered in every mode and shared with other threads by `EPOLLEXCLUSIVE`; a wake-up accepts one
//! connection, or all that wait. Connections are level-triggered or edge-triggered ([`connection`]).

mod connection;

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};

use bytegauge_model::{EngineReport, EpollMode};
use bytegauge_sys::buffer::AlignedBuffer;
use bytegauge_sys::epoll::Ready;
use bytegauge_sys::io as sys_io;
use bytegauge_sys::socket::{self, During};

use crate::end_error::EndError;
use crate::engine::epoll::connection::Registration;
use crate::engine::event_loop::{ALARM, Accepting, Driver, LISTENER, Port, Then};
use crate::engine::poller::{PollEvent, Poller};
use crate::engine::system_calls::Calls;
use crate::engine::{ACCEPTS_MAX, Station, Stop};
use crate::flow::Party;
use crate::meter::Meter;

/// The mode of a party with calls of its own: those call until a socket is not ready, so one registration lasts.
pub(crate) const OWN_CALLS: EpollMode = EpollMode { edge: true, batch: true };

/// A set of descriptors, and memory for what is received.
struct Readiness<B: Poller> {
    mode: EpollMode,
    poller: B,
    /// That of the listener.
    listening: Option<B::Registration>,
    /// The receive buffer of all connections.
    buffer: AlignedBuffer,
    /// The part of it that a flow sends back, and the token of its connection.
    fresh: Range<usize>,
    fresh_of: u64,
}

type EpollLoop<'a, P, B> = Driver<'a, P, Readiness<B>>;

/// Drives a party, woken by this poller.
///
/// # Errors
/// As [`engine::drive`](crate::engine::drive).
pub(crate) fn drive<P: Party, B: Poller>(
    mode: EpollMode,
    party: &mut P,
    station: Station<'_>,
    meter: &mut Meter,
) -> Result<(Stop, EngineReport), EndError> {
    let port = Readiness {
        mode,
        poller: B::new(station.epoll_busy_poll_ns)?,
        listening: None,
        buffer: AlignedBuffer::new(if P::CALLS { 1 } else { station.buffer_size.max(1) }),
        fresh: 0..0,
        fresh_of: LISTENER,
    };
    let mut driver = Driver::new(port, party, station, meter)?;
    driver.report.epoll_busy_poll_ns = driver.port.poller.busy_poll_ns();
    let stopped = driver.drive();
    driver.report.copied_bytes = driver.slots.iter().map(|slot| slot.link.kept.copied).sum();
    let apart: usize = driver.slots.iter().map(|slot| slot.link.kept.len() + slot.link.room.len()).sum();
    driver.report.buffer_bytes += (driver.port.buffer.len() + apart) as u64;
    stopped.map(|stop| (stop, driver.report))
}

impl<B: Poller> Port for Readiness<B> {
    type Link = Registration<B::Registration>;

    fn adopt<P: Party>(_driver: &mut EpollLoop<'_, P, B>, fd: &OwnedFd) -> Result<(), EndError> {
        sys_io::set_nonblocking(fd.as_fd(), true).map_err(EndError::io("preparing a connection"))
    }

    fn on_attached<P: Party>(driver: &mut EpollLoop<'_, P, B>, index: u32) -> Result<(), EndError> {
        driver.slots[index as usize].link.calls = Calls::begin(driver.station.tls)?;
        Ok(())
    }

    fn listen<P: Party>(driver: &mut EpollLoop<'_, P, B>) -> Result<(), EndError> {
        let Some(listener) = driver.station.listener else { return Ok(()) };
        driver.report.system_calls += u64::from(B::ADDING_IS_A_CALL);
        let added = driver.port.poller.add(listener, Ready::READ | Ready::EXCLUSIVE, LISTENER);
        driver.port.listening = Some(added.map_err(EndError::io("waiting for connections"))?);
        driver.accepting = Accepting::Now;
        Ok(())
    }

    fn watch_alarm<P: Party>(driver: &mut EpollLoop<'_, P, B>) -> Result<(), EndError> {
        driver.report.system_calls += u64::from(B::ADDING_IS_A_CALL);
        let added = driver.port.poller.add(driver.alarm.as_fd(), Ready::READ | Ready::EDGE, ALARM);
        added.map(drop).map_err(EndError::io("waiting for a timer"))
    }

    fn wait<P: Party>(driver: &mut EpollLoop<'_, P, B>, timeout_ns: u64) -> Result<bool, EndError> {
        driver.report.system_calls += 1;
        match driver.port.poller.wait(timeout_ns) {
            Ok(0) => {}
            Ok(count) => {
                driver.tick();
                for index in 0..count {
                    match driver.port.poller.at(index) {
                        PollEvent { token: LISTENER, is_last, .. } => accept(driver, is_last)?,
                        PollEvent { token: ALARM, is_last, .. } => {
                            driver.alarm_rang = true;
                            if is_last {
                                Readiness::watch_alarm(driver)?;
                            }
                        }
                        event => driver.on_event(event)?,
                    }
                    if !driver.has_time_left() {
                        return Ok(false);
                    }
                }
            }
            // A flag is to be checked.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => return Err(EndError::Io { doing: "waiting for sockets".into(), source }),
        }
        Ok(true)
    }

    fn send<P: Party>(driver: &mut EpollLoop<'_, P, B>, index: u32, now_ns: &mut u64) -> Result<Then, EndError> {
        driver.try_to_send(index, now_ns)
    }

    fn receive<P: Party>(driver: &mut EpollLoop<'_, P, B>, index: u32, now_ns: &mut u64) -> Result<Then, EndError> {
        driver.try_to_receive(index, now_ns)
    }

    fn send_or_receive<P: Party>(
        driver: &mut EpollLoop<'_, P, B>,
        index: u32,
        now_ns: &mut u64,
    ) -> Result<Then, EndError> {
        driver.try_both(index, now_ns)
    }

    fn watch_attempt<P: Party>(driver: &mut EpollLoop<'_, P, B>, index: u32) -> Result<(), EndError> {
        driver.slots[index as usize].link.writable = false;
        Ok(())
    }

    fn on_rest<P: Party>(driver: &mut EpollLoop<'_, P, B>, index: u32) -> Result<(), EndError> {
        driver.request_awaited_events(index)
    }

    fn close<P: Party>(driver: &mut EpollLoop<'_, P, B>, index: u32, fd: OwnedFd) {
        driver.report.system_calls += 1;
        driver.slots[index as usize].link.add_up(&fd, &mut driver.report);
        if let Some(registration) = &driver.slots[index as usize].link.registration {
            driver.port.poller.forget(registration);
        }
        drop(fd);
    }

    fn depart<P: Party>(driver: &mut EpollLoop<'_, P, B>, index: u32) {
        let slot = &mut driver.slots[index as usize];
        if let Some(fd) = &slot.fd {
            slot.link.add_up(fd, &mut driver.report);
        }
        if let (Some(fd), Some(registration)) = (&slot.fd, slot.link.registration.take()) {
            driver.report.system_calls += 1;
            slot.link.asked = None;
            // A socket that leaves the engine stays open, so it must be removed from the set explicitly.
            let _ = driver.port.poller.remove(fd.as_fd(), &registration);
        }
        driver.give_up(index);
    }

    fn finish<P: Party>(driver: &mut EpollLoop<'_, P, B>) -> Result<(), EndError> {
        for index in 0..driver.slots.len() {
            driver.leave(index as u32);
        }
        Ok(())
    }
}

/// Accepts connections; if the listener's registration `is_over`, makes another one.
fn accept<P: Party, B: Poller>(driver: &mut EpollLoop<'_, P, B>, is_over: bool) -> Result<(), EndError> {
    let Some(listener) = driver.station.listener else { return Ok(()) };
    if is_over {
        driver.port.listening = None;
    }
    let most = if driver.port.mode.batch { ACCEPTS_MAX } else { 1 };
    let mut accepted = 0;
    while accepted < most {
        driver.report.system_calls += 1;
        match socket::accept(listener, true) {
            Ok(fd) => {
                accepted += 1;
                driver.add_accepted(fd)?;
            }
            Err(error) if socket::is_exhausted(&error) => {
                // A registered listener would be reported again at once, for ever.
                if let Some(registration) = driver.port.listening.take() {
                    driver.report.system_calls += 1;
                    driver.port.poller.remove(listener, &registration).map_err(EndError::io("pausing to accept"))?;
                }
                driver.pause_accepting();
                break;
            }
            // Another thread was faster, or the peer has closed already.
            Err(error) if socket::is_transient(&error, During::Accept) => break,
            Err(source) => return Err(EndError::Io { doing: "accepting a connection".into(), source }),
        }
    }
    driver.report.accepted += accepted;
    driver.report.accepted_at_once = driver.report.accepted_at_once.max(accepted);
    if is_over && driver.accepting == Accepting::Now { Readiness::listen(driver) } else { Ok(()) }
}
