//! The two clocks of a measurement, and sleeping until a moment.
//!
//! Intervals come from `CLOCK_MONOTONIC`: it never jumps, and through the vDSO a read takes some tens of nanoseconds
//! and no system call (vdso(7)). Clock sources without a vDSO path (`hpet`, `acpi_pm`, some `xen`) need a system call
//! per read; the environment snapshot therefore records the clock source. NTP slews `CLOCK_MONOTONIC` by at most 0.05
//! %, and it does not count time in suspend.
//!
//! The calendar clock is used only for dates, never for intervals.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::thread::{clock_nanosleep_absolute, set_current_timer_slack};
use rustix::time::{self, ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};

use crate::errno;

/// Nanoseconds in a second.
const NS_PER_S: u64 = 1_000_000_000;

/// A time, as system calls take it.
#[inline]
pub(crate) fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / NS_PER_S) as i64, tv_nsec: (ns % NS_PER_S) as _ }
}

/// Nanoseconds of `CLOCK_MONOTONIC`, counted from an unspecified moment near boot.
#[inline]
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds since 1970-01-01 00:00 UTC, from `CLOCK_REALTIME`. May jump; only for dates.
pub fn unix_ns() -> u64 {
    clock_ns(libc::CLOCK_REALTIME)
}

/// Sleeps until [`monotonic_ns`] reaches `deadline_ns`; returns at once if it has.
///
/// Returns `true` if a signal ended the sleep early, so that a stop request sent with
/// [`crate::interrupt`] is seen. The deadline is absolute, so calling again with the same one
/// adds no drift (clock_nanosleep(2), `TIMER_ABSTIME`).
#[must_use]
pub fn sleep_until_ns(deadline_ns: u64) -> bool {
    clock_nanosleep_absolute(ClockId::Monotonic, &timespec(deadline_ns)).is_err()
}

/// Reads a clock that every kernel has, in nanoseconds.
#[inline]
pub(crate) fn clock_ns(clock: libc::clockid_t) -> u64 {
    // Fails only for an unknown clock or a bad pointer (clock_gettime(2)).
    try_clock_ns(clock).unwrap_or_else(|error| panic!("clock_gettime({clock}): {error}"))
}

/// Reads a clock that may have vanished, such as the one of another process, in nanoseconds.
#[inline]
pub(crate) fn try_clock_ns(clock: libc::clockid_t) -> io::Result<u64> {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid place for one timespec, and lives through the call.
    errno::of(unsafe { libc::clock_gettime(clock, &mut now) })?;
    Ok(now.tv_sec as u64 * NS_PER_S + now.tv_nsec as u64)
}

/// The clock of the CPU time of a process or of a thread, by its number: the number's complement, three bits up, `CPUCLOCK_PERTHREAD`
/// for a thread, and `CPUCLOCK_SCHED` (include/linux/posix-timers_types.h).
pub(crate) fn cpu_clock(number: i32, is_thread: bool) -> libc::clockid_t {
    !number << 3 | if is_thread { 4 } else { 0 } | 2
}

// How exactly the kernel ends a wait that has a time limit.
//
// Every timed wait of a thread may end late by its timer slack, 50 µs unless it is set (prctl(2), `PR_SET_TIMERSLACK`).
// `poll` and `epoll` add to this a thousandth of the wait, or five thousandths at a positive nice value
// (`select_estimate_accuracy`, fs/select.c). Threads that are started later inherit the slack, and so do programs.

/// Waits shorter than this are late by at most a few microseconds, nanoseconds.
const SHORT_NS: u64 = 1_000_000;

/// More than the share of a wait by which `poll` and `epoll` may end it late, as a divisor.
const EARLY: u64 = 128;

/// Sets the timer slack of the calling thread, and of threads that it starts, to 1 ns.
///
/// # Errors
/// When a seccomp filter refuses the call.
pub fn wake_precisely() -> io::Result<()> {
    Ok(set_current_timer_slack(NonZeroU64::new(1))?)
}

/// How long to wait first in `poll` or `epoll` for a moment that is `left_ns` away, nanoseconds: a little less than the
/// whole, so that the rest is a short wait, which ends on time.
#[inline]
pub fn first_wait_ns(left_ns: u64) -> u64 {
    if left_ns < SHORT_NS { left_ns } else { left_ns - left_ns / EARLY }
}

// A timer that makes a descriptor readable at one moment (timerfd_create(2)).
//
// An event loop registers the descriptor once. Its waits then need no time limit: a time limit costs a wait that sleeps
// the setting and cancelling of a kernel timer each time.

/// An alarm without a moment.
///
/// # Errors
/// `EMFILE`, `ENFILE`, `ENODEV` or `ENOMEM` (timerfd_create(2)).
pub fn alarm() -> io::Result<OwnedFd> {
    Ok(time::timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?)
}

/// Replaces the moment of an alarm by `at_ns`, nanoseconds of the monotonic clock. A past moment is reported at once. The
/// descriptor is not readable until then, also if an earlier moment was not read.
///
/// # Errors
/// None that the kernel documents for an alarm.
pub fn set_alarm(alarm: BorrowedFd<'_>, at_ns: u64) -> io::Result<()> {
    // Zero would switch the timer off.
    let setting = Itimerspec { it_interval: timespec(0), it_value: timespec(at_ns.max(1)) };
    time::timerfd_settime(alarm, TimerfdTimerFlags::ABSTIME, &setting)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_does_not_run_backwards() {
        let mut last = monotonic_ns();
        for _ in 0..1000 {
            let now = monotonic_ns();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn the_calendar_is_past_the_year_2020() {
        assert!(unix_ns() > 1_577_836_800 * NS_PER_S);
    }

    #[test]
    fn a_sleep_ends_after_its_deadline() {
        let deadline_ns = monotonic_ns() + 2_000_000;
        while sleep_until_ns(deadline_ns) {}
        assert!(monotonic_ns() >= deadline_ns);
    }

    #[test]
    fn a_deadline_in_the_past_returns_at_once() {
        assert!(!sleep_until_ns(0));
    }
}

#[cfg(test)]
mod timer_tests {
    use super::*;

    /// The timer slack of the calling thread, nanoseconds.
    fn slack_ns() -> i32 {
        // SAFETY: passes an integer and no memory.
        unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) }
    }

    #[test]
    fn started_threads_inherit_the_slack() {
        std::thread::spawn(|| {
            assert!(slack_ns() > 1);
            wake_precisely().unwrap();
            assert_eq!(slack_ns(), 1);
            let inherited = std::thread::spawn(slack_ns).join().unwrap();
            assert_eq!(inherited, 1);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn long_wait_leaves_a_short_rest() {
        let check = |left_ns: u64| {
            let first_ns = first_wait_ns(left_ns);
            // Even a wait that ends late by five thousandths ends before the moment.
            assert!(first_ns + first_ns / 200 < left_ns, "{left_ns}");
        };
        [1_000_000, 50_000_000, 3_600_000_000_000].into_iter().for_each(check);
        assert_eq!(first_wait_ns(999_999), 999_999);
    }
}

#[cfg(test)]
mod alarm_tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::clock::monotonic_ns;
    use crate::epoll::{Epoll, Events, NO_TIMEOUT, Ready};

    #[test]
    fn ends_a_wait_without_time_limit() {
        let (alarm, epoll, mut events) = (alarm().unwrap(), Epoll::new().unwrap(), Events::with_room(1));
        epoll.add(alarm.as_fd(), Ready::IN | Ready::ET, 7).unwrap();
        for _ in 0..2 {
            let at_ns = monotonic_ns() + 2_000_000;
            set_alarm(alarm.as_fd(), at_ns).unwrap();
            assert_eq!(epoll.wait(&mut events, NO_TIMEOUT).unwrap(), 1);
            assert!(monotonic_ns() >= at_ns);
            assert_eq!(events.at(0).0, 7);
            // An edge is reported once, without a read.
            assert_eq!(epoll.wait(&mut events, 0).unwrap(), 0);
        }
    }

    #[test]
    fn a_later_moment_replaces_an_earlier_one() {
        let (alarm, epoll, mut events) = (alarm().unwrap(), Epoll::new().unwrap(), Events::with_room(1));
        epoll.add(alarm.as_fd(), Ready::IN | Ready::ET, 7).unwrap();
        set_alarm(alarm.as_fd(), 0).unwrap();
        assert_eq!(epoll.wait(&mut events, NO_TIMEOUT).unwrap(), 1);
        set_alarm(alarm.as_fd(), monotonic_ns() + 3_600_000_000_000).unwrap();
        assert_eq!(epoll.wait(&mut events, 1_000_000).unwrap(), 0);
    }
}
