//! Wakes a thread that carries many connections: by epoll(7), or by multishot polls of an io_uring.
//!
//! System calls move the bytes all the same: the engine whose operations are those of a ring is `uring`.

use std::io;
use std::os::fd::BorrowedFd;

use bytegauge_sys::epoll::{Epoll, Events, NO_TIMEOUT, Ready};
use bytegauge_sys::uring::{self, OpId, OpResult, RingSetup, Wait};

use crate::end_error::EndError;

/// Events taken at one wake-up.
const EVENTS_MAX: usize = 256;

/// A ready descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollEvent {
    /// The token it was added with.
    pub(super) token: u64,
    /// The events for which it is ready.
    pub(super) ready: Ready,
    /// Whether it must be added again to be reported again.
    pub(super) is_last: bool,
}

/// Reports descriptors that are ready.
pub(crate) trait Poller: Sized {
    /// The handle that removes a descriptor again.
    type Registration: Send;

    /// Whether adding a descriptor is a system call of its own.
    const ADDING_IS_A_CALL: bool;

    /// A poller without descriptors, whose waits poll the devices for a time (`EPIOCSPARAMS`), nanoseconds.
    ///
    /// # Errors
    /// [`EndError::Missing`] or [`EndError::Io`] if there can be none.
    fn new(busy_poll_ns: Option<u64>) -> Result<Self, EndError>;

    /// That time as the kernel keeps it.
    fn busy_poll_ns(&self) -> Option<u64> {
        None
    }

    /// Reports a descriptor from now on.
    ///
    /// # Errors
    /// The kernel's.
    fn add(&mut self, fd: BorrowedFd<'_>, ready: Ready, token: u64) -> io::Result<Self::Registration>;

    /// Reports a descriptor for other events from now on.
    ///
    /// # Errors
    /// The kernel's; a poller of edges only has no such call.
    fn modify(&mut self, fd: BorrowedFd<'_>, ready: Ready, token: u64) -> io::Result<()>;

    /// Stops reporting a descriptor that stays open.
    ///
    /// # Errors
    /// The kernel's.
    fn remove(&mut self, fd: BorrowedFd<'_>, registration: &Self::Registration) -> io::Result<()>;

    /// A descriptor is about to be closed.
    fn forget(&mut self, registration: &Self::Registration);

    /// Waits at most `timeout_ns`, at [`NO_TIMEOUT`] without limit: the number of events found.
    ///
    /// # Errors
    /// The kernel's, interruptions included.
    fn wait(&mut self, timeout_ns: u64) -> io::Result<usize>;

    /// One of the events that the last wait found.
    fn at(&self, index: usize) -> PollEvent;
}

/// epoll(7).
pub(crate) struct EpollPoller {
    epoll: Epoll,
    events: Events,
    busy_poll_ns: Option<u64>,
}

impl Poller for EpollPoller {
    type Registration = ();

    const ADDING_IS_A_CALL: bool = true;

    fn new(busy_poll_ns: Option<u64>) -> Result<EpollPoller, EndError> {
        let epoll = Epoll::new().map_err(EndError::io("opening an epoll descriptor"))?;
        let busy_poll_ns = busy_poll_ns.map(|ns| poll_devices(&epoll, ns)).transpose()?;
        Ok(EpollPoller { epoll, events: Events::with_room(EVENTS_MAX), busy_poll_ns })
    }

    fn busy_poll_ns(&self) -> Option<u64> {
        self.busy_poll_ns
    }

    fn add(&mut self, fd: BorrowedFd<'_>, ready: Ready, token: u64) -> io::Result<()> {
        self.epoll.add(fd, ready, token)
    }

    fn modify(&mut self, fd: BorrowedFd<'_>, ready: Ready, token: u64) -> io::Result<()> {
        self.epoll.modify(fd, ready, token)
    }

    fn remove(&mut self, fd: BorrowedFd<'_>, (): &()) -> io::Result<()> {
        self.epoll.remove(fd)
    }

    fn forget(&mut self, (): &()) {
        // A closed descriptor leaves the set by itself.
    }

    fn wait(&mut self, timeout_ns: u64) -> io::Result<usize> {
        self.epoll.wait(&mut self.events, timeout_ns)
    }

    #[inline]
    fn at(&self, index: usize) -> PollEvent {
        let (token, ready) = self.events.at(index);
        PollEvent { token, ready, is_last: false }
    }
}

/// Has waits poll the devices for a time, and returns the time that the kernel keeps.
fn poll_devices(epoll: &Epoll, ns: u64) -> Result<u64, EndError> {
    let micros = u32::try_from(ns.div_ceil(1000)).unwrap_or(u32::MAX);
    let in_force = epoll.set_busy_poll(micros).and_then(|()| epoll.busy_poll());
    in_force.map(|micros| u64::from(micros) * 1000).map_err(|error| {
        EndError::Missing(format!(
            "EPIOCSPARAMS={micros}us: {error}: it needs Linux 6.9 or later and CONFIG_NET_RX_BUSY_POLL: leave out \
             --epoll-busy-poll"
        ))
    })
}

/// Polls of an io_uring: an added descriptor is submitted with the next wait, so that only waiting is a system call.
pub(crate) struct UringPoller {
    ring: uring::Ring,
    found: Vec<PollEvent>,
}

impl Poller for UringPoller {
    type Registration = OpId;

    const ADDING_IS_A_CALL: bool = false;

    fn new(_busy_poll_ns: Option<u64>) -> Result<UringPoller, EndError> {
        let setup = RingSetup { entries: 1024, completions: 8192, poll_idle_ms: None };
        let ring = uring::Ring::open(&setup)?;
        Ok(UringPoller { ring, found: Vec::new() })
    }

    fn add(&mut self, fd: BorrowedFd<'_>, ready: Ready, token: u64) -> io::Result<OpId> {
        Ok(self.ring.poll(token, fd, ready))
    }

    fn modify(&mut self, _fd: BorrowedFd<'_>, _ready: Ready, _token: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn remove(&mut self, _fd: BorrowedFd<'_>, registration: &OpId) -> io::Result<()> {
        self.ring.cancel(*registration);
        Ok(())
    }

    fn forget(&mut self, registration: &OpId) {
        // A poll keeps the socket open.
        self.ring.cancel(*registration);
    }

    fn wait(&mut self, timeout_ns: u64) -> io::Result<usize> {
        self.found.clear();
        let limit_ns = (timeout_ns > 0 && timeout_ns != NO_TIMEOUT).then_some(timeout_ns);
        let waited = self.ring.wait(u32::from(timeout_ns > 0), limit_ns)?;
        while let Some(completion) = self.ring.reap() {
            let OpResult::Polled(ready) = completion.event else { continue };
            let is_last = !completion.more;
            match ready {
                Ok(ready) => self.found.push(PollEvent { token: completion.token, ready, is_last }),
                Err(errno) if errno == uring::Errno::CANCELLED => {}
                // The caller handles the reason.
                Err(_) => self.found.push(PollEvent { token: completion.token, ready: Ready::ERROR, is_last }),
            }
        }
        match waited {
            Wait::Interrupted if self.found.is_empty() => Err(io::ErrorKind::Interrupted.into()),
            _ => Ok(self.found.len()),
        }
    }

    #[inline]
    fn at(&self, index: usize) -> PollEvent {
        self.found[index]
    }
}
