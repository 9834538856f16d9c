//! epoll(7): reports which of several descriptors are ready.
//!
//! A descriptor is registered with a 64-bit token, which its events carry. An event of a batch may be stale when it is
//! processed: the descriptor may have been closed and its number or slot reused. So a token should contain a generation
//! in addition to an index.
//!
//! Never allocates after [`Events::with_room`] and never retries: the caller decides about `EINTR`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, Event, EventData};

use crate::clock::timespec;
use crate::errno;

/// Readiness, requested or reported. Errors and hang-ups are reported in any case (epoll_ctl(2)).
pub use rustix::event::epoll::EventFlags as Ready;

/// A timeout of [`Epoll::wait`] that never passes.
pub const NO_TIMEOUT: u64 = u64::MAX;

/// Room for the events of one wait.
pub struct Events(Vec<Event>);

impl Events {
    /// Room for `most` events, at least one.
    pub fn with_room(most: usize) -> Events {
        Events(vec![Event { flags: Ready::empty(), data: EventData::new_u64(0) }; most.max(1)])
    }

    /// The token and the readiness of an event of the last wait, which returned a larger number.
    ///
    /// # Panics
    ///
    /// If there is no room for as many events.
    #[inline]
    pub fn at(&self, index: usize) -> (u64, Ready) {
        let event = self.0[index];
        (event.data.u64(), event.flags)
    }
}

/// A set of registered descriptors.
#[derive(Debug)]
pub struct Epoll {
    fd: OwnedFd,
}

impl Epoll {
    /// An empty set.
    ///
    /// # Errors
    ///
    /// `EMFILE`, `ENFILE` or `ENOMEM` (epoll_create1(2)).
    pub fn new() -> io::Result<Epoll> {
        Ok(Epoll { fd: epoll::create(CreateFlags::CLOEXEC)? })
    }

    /// Registers a descriptor. It leaves the set when its last duplicate is closed.
    ///
    /// # Errors
    ///
    /// `EPERM` for a file or device that is always ready, `EEXIST`, `ENOSPC` at the limit
    /// `fs.epoll.max_user_watches`, `ENOMEM` (epoll_ctl(2)).
    pub fn add(&self, fd: BorrowedFd<'_>, ready: Ready, token: u64) -> io::Result<()> {
        Ok(epoll::add(&self.fd, fd, EventData::new_u64(token), ready)?)
    }

    /// Changes the requested readiness of a registered descriptor.
    ///
    /// # Errors
    ///
    /// `ENOENT` if it is not registered, `EINVAL` if it is registered with [`Ready::EXCLUSIVE`].
    pub fn modify(&self, fd: BorrowedFd<'_>, ready: Ready, token: u64) -> io::Result<()> {
        Ok(epoll::modify(&self.fd, fd, EventData::new_u64(token), ready)?)
    }

    /// Removes a descriptor without closing it.
    ///
    /// # Errors
    ///
    /// `ENOENT` if it is not registered.
    pub fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::delete(&self.fd, fd)?)
    }

    /// Waits until something is ready, for at most `timeout_ns` nanoseconds, and returns the number of events. A
    /// timeout of 0 returns at once, and [`NO_TIMEOUT`] waits without limit.
    ///
    /// # Errors
    ///
    /// `EINTR` if a signal arrived.
    #[inline]
    pub fn wait(&self, events: &mut Events, timeout_ns: u64) -> io::Result<usize> {
        if timeout_ns == 0 || timeout_ns == NO_TIMEOUT {
            let at_once = (timeout_ns == 0).then(|| timespec(0));
            return Ok(epoll::wait(&self.fd, &mut events.0[..], at_once.as_ref())?);
        }
        // epoll_pwait2(2), Linux 5.11, called directly since some C libraries do not have it: the other call counts milliseconds.
        let room = libc::c_int::try_from(events.0.len()).unwrap_or(libc::c_int::MAX);
        let timeout = timespec(timeout_ns);
        // SAFETY: the kernel writes at most `room` events, for which the vector has room; the timeout lives
        // through the call; a null mask leaves the signal mask alone.
        let returned = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.fd.as_raw_fd(),
                events.0.as_mut_ptr(),
                room,
                &raw const timeout,
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        errno::of_count(returned as libc::ssize_t)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::{clock, io as calls};

    fn check(wait: impl Fn(&Epoll, &mut Events, u64) -> usize) {
        let (left, right) = UnixStream::pair().unwrap();
        let epoll = Epoll::new().unwrap();
        let mut events = Events::with_room(4);
        epoll.add(right.as_fd(), Ready::IN, 7).unwrap();
        let began_ns = clock::monotonic_ns();
        assert_eq!(wait(&epoll, &mut events, 2_000_000), 0);
        assert!(clock::monotonic_ns() - began_ns >= 2_000_000);
        calls::write(left.as_fd(), b"x").unwrap();
        assert_eq!(wait(&epoll, &mut events, u64::MAX / 2), 1);
        assert_eq!(events.at(0).0, 7);
        assert!(events.at(0).1.intersects(Ready::IN) && !events.at(0).1.intersects(Ready::HUP));
    }

    #[test]
    fn waits_end_by_their_time_or_an_event() {
        check(|epoll, events, ns| epoll.wait(events, ns).unwrap());
    }

    #[test]
    fn levels_are_reported_again_edges_are_not() {
        for (ready, again) in [(Ready::IN, 1), (Ready::IN | Ready::ET, 0)] {
            let (left, right) = UnixStream::pair().unwrap();
            let epoll = Epoll::new().unwrap();
            let mut events = Events::with_room(4);
            epoll.add(right.as_fd(), ready, 0).unwrap();
            calls::write(left.as_fd(), b"x").unwrap();
            assert_eq!(epoll.wait(&mut events, 1_000_000).unwrap(), 1);
            assert_eq!(epoll.wait(&mut events, 0).unwrap(), again);
        }
    }

    #[test]
    fn removed_descriptors_are_not_reported() {
        let (left, right) = UnixStream::pair().unwrap();
        let epoll = Epoll::new().unwrap();
        let mut events = Events::with_room(4);
        calls::write(left.as_fd(), b"x").unwrap();
        epoll.add(right.as_fd(), Ready::empty(), 0).unwrap();
        assert_eq!(epoll.wait(&mut events, 0).unwrap(), 0);
        epoll.modify(right.as_fd(), Ready::IN, 0).unwrap();
        assert_eq!(epoll.wait(&mut events, 0).unwrap(), 1);
        epoll.remove(right.as_fd()).unwrap();
        assert_eq!(epoll.wait(&mut events, 0).unwrap(), 0);
    }
}
