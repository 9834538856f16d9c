//! Wakes a thread that carries many connections: by epoll(7), or by multishot polls of an io_uring.

use std::io;
use std::os::fd::BorrowedFd;

use bytegauge_sys::epoll::{Epoll, Events, Ready};
use bytegauge_sys::uring::{self, Event, OpId, RingSetup, Wait};

use crate::fault::Fault;

/// Events taken at one wake-up.
const EVENTS_MAX: usize = 256;

/// A ready descriptor.
#[derive(Clone, Copy, Debug)]
pub(super) struct PollEvent {
    /// The token it was added with.
    pub(super) token: u64,
    /// The events for which it is ready.
    pub(super) ready: Ready,
    /// Whether it must be added again to be reported again.
    pub(super) is_last: bool,
}

/// Reports descriptors that are ready.
pub(super) trait Poller: Sized {
    /// The handle that removes a descriptor again.
    type Registration: Send;

    /// Whether adding a descriptor is a system call of its own.
    const ADDING_IS_A_CALL: bool;

    /// A poller without descriptors.
    ///
    /// # Errors
    /// [`Fault::Missing`] or [`Fault::Io`] if there can be none.
    fn new() -> Result<Self, Fault>;

    /// Reports a descriptor from now on.
    ///
    /// # Errors
    /// The kernel's.
    fn add(&mut self, fd: BorrowedFd<'_>, ready: Ready, token: u64) -> io::Result<Self::Registration>;

    /// Stops reporting a descriptor. To be called before it is closed.
    fn remove(&mut self, registration: &Self::Registration);

    /// Waits at most `timeout_ns`: the number of events found.
    ///
    /// # Errors
    /// The kernel's, interruptions included.
    fn wait(&mut self, timeout_ns: u64) -> io::Result<usize>;

    /// One of the events that the last wait found.
    fn at(&self, index: usize) -> PollEvent;
}

/// epoll(7).
pub(super) struct EpollPoller {
    epoll: Epoll,
    events: Events,
}

impl Poller for EpollPoller {
    type Registration = ();

    const ADDING_IS_A_CALL: bool = true;

    fn new() -> Result<EpollPoller, Fault> {
        let epoll = Epoll::new().map_err(Fault::io("opening an epoll descriptor"))?;
        Ok(EpollPoller { epoll, events: Events::with_room(EVENTS_MAX) })
    }

    fn add(&mut self, fd: BorrowedFd<'_>, ready: Ready, token: u64) -> io::Result<()> {
        self.epoll.add(fd, ready, token)
    }

    fn remove(&mut self, (): &()) {
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

/// Polls of an io_uring: an added descriptor is submitted with the next wait, so that only waiting is a system call.
pub(super) struct UringPoller {
    ring: uring::Ring,
    found: Vec<PollEvent>,
}

impl Poller for UringPoller {
    type Registration = OpId;

    const ADDING_IS_A_CALL: bool = false;

    fn new() -> Result<UringPoller, Fault> {
        let setup = RingSetup { entries: 1024, completions: 8192, poll_idle_ms: None };
        let ring = uring::Ring::open(&setup)?;
        Ok(UringPoller { ring, found: Vec::new() })
    }

    fn add(&mut self, fd: BorrowedFd<'_>, ready: Ready, token: u64) -> io::Result<OpId> {
        Ok(self.ring.poll(token, fd, ready))
    }

    fn remove(&mut self, registration: &OpId) {
        // A poll keeps the socket open.
        self.ring.cancel(*registration);
    }

    fn wait(&mut self, timeout_ns: u64) -> io::Result<usize> {
        self.found.clear();
        let waited = self.ring.wait(u32::from(timeout_ns > 0), Some(timeout_ns))?;
        while let Some(completion) = self.ring.reap() {
            let Event::Polled(ready) = completion.event else { continue };
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
