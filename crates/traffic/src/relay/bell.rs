//! What wakes a thread that carries many connections: epoll(7), or polls of an io_uring that go on.

use std::io;
use std::os::fd::BorrowedFd;

use bytegauge_sys::epoll::{Epoll, Events, Ready};
use bytegauge_sys::uring::{self, Event, OpId, Setup, Wait};

use crate::fault::Fault;

/// Events taken at one wake-up.
const EVENTS_MAX: usize = 256;

/// What rang.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ring {
    /// Whose.
    pub(super) token: u64,
    /// For what it is ready.
    pub(super) ready: Ready,
    /// It does not ring again unless it is hung up again.
    pub(super) is_last: bool,
}

/// Rings when a descriptor is ready.
pub(super) trait Bell: Sized {
    /// What takes a descriptor down again.
    type Rope: Send;

    /// Whether hanging up a descriptor is a system call of its own.
    const HANGING_IS_A_CALL: bool;

    /// Nothing hangs yet.
    ///
    /// # Errors
    /// [`Fault::Missing`] or [`Fault::Io`] if there can be none.
    fn new() -> Result<Self, Fault>;

    /// Rings for a descriptor from now on.
    ///
    /// # Errors
    /// The kernel's.
    fn hang(&mut self, fd: BorrowedFd<'_>, ready: Ready, token: u64) -> io::Result<Self::Rope>;

    /// Before the descriptor is closed.
    fn take_down(&mut self, rope: &Self::Rope);

    /// Waits at most so long: how many rang.
    ///
    /// # Errors
    /// The kernel's, interruptions included.
    fn wait(&mut self, timeout_ns: u64) -> io::Result<usize>;

    /// One of those that rang at the last wait.
    fn at(&self, index: usize) -> Ring;
}

/// epoll(7).
pub(super) struct ByEpoll {
    epoll: Epoll,
    events: Events,
}

impl Bell for ByEpoll {
    type Rope = ();

    const HANGING_IS_A_CALL: bool = true;

    fn new() -> Result<ByEpoll, Fault> {
        let epoll = Epoll::new().map_err(Fault::io("opening an epoll descriptor"))?;
        Ok(ByEpoll { epoll, events: Events::with_room(EVENTS_MAX) })
    }

    fn hang(&mut self, fd: BorrowedFd<'_>, ready: Ready, token: u64) -> io::Result<()> {
        self.epoll.add(fd, ready, token)
    }

    fn take_down(&mut self, (): &()) {
        // A descriptor that is closed leaves the set by itself.
    }

    fn wait(&mut self, timeout_ns: u64) -> io::Result<usize> {
        self.epoll.wait(&mut self.events, timeout_ns)
    }

    #[inline]
    fn at(&self, index: usize) -> Ring {
        let (token, ready) = self.events.at(index);
        Ring { token, ready, is_last: false }
    }
}

/// Polls of an io_uring: what hangs goes with the next wait, so that nothing but waiting is a system call.
pub(super) struct ByUring {
    ring: uring::Ring,
    rang: Vec<Ring>,
}

impl Bell for ByUring {
    type Rope = OpId;

    const HANGING_IS_A_CALL: bool = false;

    fn new() -> Result<ByUring, Fault> {
        let setup = Setup { entries: 1024, completions: 8192, poll_idle_ms: None };
        let ring = uring::Ring::open(&setup)?;
        Ok(ByUring { ring, rang: Vec::new() })
    }

    fn hang(&mut self, fd: BorrowedFd<'_>, ready: Ready, token: u64) -> io::Result<OpId> {
        Ok(self.ring.poll(token, fd, ready))
    }

    fn take_down(&mut self, rope: &OpId) {
        // A poll keeps the socket open.
        self.ring.cancel(*rope);
    }

    fn wait(&mut self, timeout_ns: u64) -> io::Result<usize> {
        self.rang.clear();
        let waited = self.ring.wait(u32::from(timeout_ns > 0), Some(timeout_ns))?;
        while let Some(completion) = self.ring.reap() {
            let Event::Polled(found) = completion.event else { continue };
            let is_last = !completion.more;
            match found {
                Ok(ready) => self.rang.push(Ring { token: completion.token, ready, is_last }),
                Err(errno) if errno == uring::Errno::CANCELLED => {}
                // Whoever calls learns why.
                Err(_) => self.rang.push(Ring { token: completion.token, ready: Ready::ERROR, is_last }),
            }
        }
        match waited {
            Wait::Interrupted if self.rang.is_empty() => Err(io::ErrorKind::Interrupted.into()),
            _ => Ok(self.rang.len()),
        }
    }

    #[inline]
    fn at(&self, index: usize) -> Ring {
        self.rang[index]
    }
}
