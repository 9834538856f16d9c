//! A timer that makes a descriptor readable at one moment (timerfd_create(2)).
//!
//! An event loop registers the descriptor once. Its waits then need no time limit: a time limit costs a wait that sleeps
//! the setting and cancelling of a kernel timer each time.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use crate::syscall_result;

/// One moment of the monotonic clock, as a descriptor.
#[derive(Debug)]
pub struct Alarm {
    fd: OwnedFd,
}

impl Alarm {
    /// An alarm without a moment.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`, `ENODEV` or `ENOMEM` (timerfd_create(2)).
    pub fn new() -> io::Result<Alarm> {
        let flags = libc::TFD_NONBLOCK | libc::TFD_CLOEXEC;
        // SAFETY: passes two integers and no memory.
        let fd = syscall_result::of(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) })?;
        // SAFETY: the kernel has just made this descriptor, and no other code has it.
        Ok(Alarm { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Replaces the moment by `at_ns`, nanoseconds of the monotonic clock. A past moment is reported at once. The
    /// descriptor is not readable until then, also if an earlier moment was not read.
    ///
    /// # Errors
    /// None that the kernel documents for valid arguments.
    pub fn set(&self, at_ns: u64) -> io::Result<()> {
        // Zero would switch the timer off.
        let at_ns = at_ns.max(1);
        let never = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let at = libc::timespec {
            tv_sec: (at_ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (at_ns % 1_000_000_000) as libc::c_long,
        };
        let setting = libc::itimerspec { it_interval: never, it_value: at };
        // SAFETY: `setting` lives through the call; a null pointer asks for no old setting.
        let returned = unsafe {
            libc::timerfd_settime(self.fd.as_raw_fd(), libc::TFD_TIMER_ABSTIME, &setting, std::ptr::null_mut())
        };
        syscall_result::of(returned).map(drop)
    }
}

impl AsRawFd for Alarm {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::monotonic_ns;
    use crate::epoll::{Epoll, Events, NO_TIMEOUT, Ready};

    #[test]
    fn ends_a_wait_without_time_limit() {
        let (alarm, epoll, mut events) = (Alarm::new().unwrap(), Epoll::new().unwrap(), Events::with_room(1));
        epoll.add(alarm.as_fd(), Ready::READ | Ready::EDGE, 7).unwrap();
        for _ in 0..2 {
            let at_ns = monotonic_ns() + 2_000_000;
            alarm.set(at_ns).unwrap();
            assert_eq!(epoll.wait(&mut events, NO_TIMEOUT).unwrap(), 1);
            assert!(monotonic_ns() >= at_ns);
            assert_eq!(events.at(0).0, 7);
            // An edge is reported once, without a read.
            assert_eq!(epoll.wait(&mut events, 0).unwrap(), 0);
        }
    }

    #[test]
    fn a_later_moment_replaces_an_earlier_one() {
        let (alarm, epoll, mut events) = (Alarm::new().unwrap(), Epoll::new().unwrap(), Events::with_room(1));
        epoll.add(alarm.as_fd(), Ready::READ | Ready::EDGE, 7).unwrap();
        alarm.set(0).unwrap();
        assert_eq!(epoll.wait(&mut events, NO_TIMEOUT).unwrap(), 1);
        alarm.set(monotonic_ns() + 3_600_000_000_000).unwrap();
        assert_eq!(epoll.wait(&mut events, 1_000_000).unwrap(), 0);
    }
}
