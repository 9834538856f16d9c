//! The epoll engine: one thread, many connections, system calls when the kernel reports that they will not block.
//!
//! The calls are the engine's, or those of a party that has calls of its own ([`Party::CALLS`]).
//!
//! The listener is level-triggered in every mode and shared with other threads by `EPOLLEXCLUSIVE`; a wake-up accepts one
//! connection, or all that wait. Connections are level-triggered or edge-triggered ([`connection`]).

mod connection;

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};

use bytegauge_model::{EngineReport, EpollMode};
use bytegauge_sys::buffer::AlignedBuffer;
use bytegauge_sys::epoll::{Epoll, Events, Ready};
use bytegauge_sys::io as sys_io;
use bytegauge_sys::socket;

use crate::EndError;
use crate::engine::epoll::connection::Registration;
use crate::engine::event_loop::{ALARM, Accepting, Driver, LISTENER, Port, Then};
use crate::engine::system_calls::Calls;
use crate::engine::{ACCEPTS_MAX, Station, Stop, is_out_of_descriptors};
use crate::flow::{Party, Want};
use crate::meter::Meter;

/// Events taken at one wake-up.
const EVENTS_MAX: usize = 256;

/// A set of descriptors, and memory for what is received.
struct Readiness {
    mode: EpollMode,
    epoll: Epoll,
    events: Events,
    /// Whether the listener is registered.
    listening: bool,
    /// The receive buffer of all connections.
    buffer: AlignedBuffer,
    /// The part of it that a flow sends back, and the token of its connection.
    fresh: Range<usize>,
    fresh_of: u64,
}

type EpollLoop<'a, P> = Driver<'a, P, Readiness>;

pub(super) fn drive<P: Party>(
    mode: EpollMode,
    party: &mut P,
    station: Station<'_>,
    meter: &mut Meter,
) -> Result<(Stop, EngineReport), EndError> {
    let epoll = Epoll::new().map_err(EndError::io("opening an epoll descriptor"))?;
    let port = Readiness {
        mode,
        epoll,
        events: Events::with_room(EVENTS_MAX),
        listening: false,
        buffer: AlignedBuffer::new(if P::CALLS { 1 } else { station.buffer_size.max(1) }),
        fresh: 0..0,
        fresh_of: LISTENER,
    };
    let mut driver = Driver::new(port, party, station, meter)?;
    let stopped = driver.drive();
    driver.report.copied_bytes = driver.slots.iter().map(|slot| slot.link.kept.copied).sum();
    let apart: usize = driver.slots.iter().map(|slot| slot.link.kept.len() + slot.link.unsent.len()).sum();
    driver.report.buffer_bytes += (driver.port.buffer.len() + apart) as u64;
    stopped.map(|stop| (stop, driver.report))
}

impl Port for Readiness {
    type Link = Registration;

    fn adopt<P: Party>(_driver: &mut EpollLoop<'_, P>, fd: &OwnedFd) -> Result<(), EndError> {
        sys_io::set_nonblocking(fd.as_fd(), true).map_err(EndError::io("preparing a connection"))
    }

    fn on_attached<P: Party>(driver: &mut EpollLoop<'_, P>, index: u32) -> Result<(), EndError> {
        driver.slots[index as usize].link.calls = Calls::begin(driver.station.tls)?;
        Ok(())
    }

    fn listen<P: Party>(driver: &mut EpollLoop<'_, P>) -> Result<(), EndError> {
        let Some(listener) = driver.station.listener else { return Ok(()) };
        driver.report.system_calls += 1;
        let added = driver.port.epoll.add(listener, Ready::IN | Ready::EXCLUSIVE, LISTENER);
        added.map_err(EndError::io("waiting for connections"))?;
        driver.port.listening = true;
        driver.accepting = Accepting::Now;
        Ok(())
    }

    fn watch_alarm<P: Party>(driver: &mut EpollLoop<'_, P>) -> Result<(), EndError> {
        driver.report.system_calls += 1;
        let added = driver.port.epoll.add(driver.alarm.as_fd(), Ready::IN | Ready::ET, ALARM);
        added.map_err(EndError::io("waiting for a timer"))
    }

    fn wait<P: Party>(driver: &mut EpollLoop<'_, P>, timeout_ns: u64) -> Result<bool, EndError> {
        driver.report.system_calls += 1;
        match driver.port.epoll.wait(&mut driver.port.events, timeout_ns) {
            Ok(0) => {}
            Ok(count) => {
                driver.tick();
                for index in 0..count {
                    match driver.port.events.at(index) {
                        (LISTENER, _) => accept(driver)?,
                        (ALARM, _) => driver.alarm_rang = true,
                        (token, ready) => driver.on_event(token, ready)?,
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

    #[inline]
    fn transfer<P: Party>(
        driver: &mut EpollLoop<'_, P>,
        index: u32,
        want: Want,
        now_ns: &mut u64,
    ) -> Result<Then, EndError> {
        match want {
            Want::Send => driver.try_to_send(index, now_ns),
            Want::Both => driver.try_both(index, now_ns),
            _ => driver.try_to_receive(index, now_ns),
        }
    }

    fn watch_attempt<P: Party>(driver: &mut EpollLoop<'_, P>, index: u32) -> Result<(), EndError> {
        driver.slots[index as usize].link.is_full = true;
        Ok(())
    }

    fn on_rest<P: Party>(driver: &mut EpollLoop<'_, P>, index: u32) -> Result<(), EndError> {
        driver.request_awaited_events(index)
    }

    fn close<P: Party>(driver: &mut EpollLoop<'_, P>, index: u32, fd: OwnedFd) {
        driver.report.system_calls += 1;
        driver.slots[index as usize].link.add_up(&fd, &mut driver.report);
        // A closed descriptor leaves the set by itself.
        drop(fd);
    }

    fn depart<P: Party>(driver: &mut EpollLoop<'_, P>, index: u32) {
        let slot = &mut driver.slots[index as usize];
        if let Some(fd) = &slot.fd {
            slot.link.add_up(fd, &mut driver.report);
        }
        if let (Some(fd), Some(_)) = (&slot.fd, slot.link.asked.take()) {
            driver.report.system_calls += 1;
            // A socket that leaves the engine stays open, so it must be removed from the set explicitly.
            let _ = driver.port.epoll.remove(fd.as_fd());
        }
        driver.give_up(index);
    }

    fn finish<P: Party>(driver: &mut EpollLoop<'_, P>) -> Result<(), EndError> {
        for index in 0..driver.slots.len() {
            driver.leave(index as u32);
        }
        Ok(())
    }
}

/// Accepts connections.
fn accept<P: Party>(driver: &mut EpollLoop<'_, P>) -> Result<(), EndError> {
    let Some(listener) = driver.station.listener else { return Ok(()) };
    let most = if driver.port.mode.batch { ACCEPTS_MAX } else { 1 };
    let mut accepted = 0;
    while accepted < most {
        driver.report.system_calls += 1;
        match socket::accept(listener, true) {
            Ok(fd) => {
                accepted += 1;
                driver.add_accepted(fd)?;
            }
            Err(error) => {
                // Otherwise another thread was faster, or the peer has closed already.
                if is_out_of_descriptors(error)? {
                    // A registered listener would be reported again at once, for ever.
                    if std::mem::take(&mut driver.port.listening) {
                        driver.report.system_calls += 1;
                        driver.port.epoll.remove(listener).map_err(EndError::io("pausing to accept"))?;
                    }
                    driver.pause_accepting();
                }
                break;
            }
        }
    }
    driver.report.accepted += accepted;
    driver.report.accepted_at_once = driver.report.accepted_at_once.max(accepted);
    Ok(())
}
