//! The two clocks of a measurement, and sleeping until a moment.
//!
//! Intervals come from `CLOCK_MONOTONIC`: it never jumps, and through the vDSO a read takes some tens of nanoseconds
//! and no system call (vdso(7)). Clock sources without a vDSO path (`hpet`, `acpi_pm`, some `xen`) need a system call
//! per read; the environment snapshot therefore records the clock source. NTP slews `CLOCK_MONOTONIC` by at most 0.05
//! %, and it does not count time in suspend.
//!
//! The calendar clock is used only for dates, never for intervals.

use std::io;

use crate::syscall_result;

/// Nanoseconds in a second.
const NS_PER_S: u64 = 1_000_000_000;

/// Nanoseconds of `CLOCK_MONOTONIC`, counted from an unspecified moment near boot.
#[inline]
#[must_use]
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds since 1970-01-01 00:00 UTC, from `CLOCK_REALTIME`. May jump; only for dates.
#[must_use]
pub fn unix_ns() -> u64 {
    clock_ns(libc::CLOCK_REALTIME)
}

/// How often the kernel's timer ticks, ns: the resolution of its coarse clocks (clock_getres(2)), 1 to 10 ms.
#[must_use]
pub fn kernel_tick_ns() -> u64 {
    let mut resolution = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `resolution` is a valid place for a timespec, and lives through the call.
    let returned = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &mut resolution) };
    // Every kernel has this clock, and the pointer is valid, so the call cannot fail.
    debug_assert!(returned == 0);
    resolution.tv_sec as u64 * NS_PER_S + resolution.tv_nsec as u64
}

/// Sleeps until [`monotonic_ns`] reaches `deadline_ns`; returns at once if it has.
///
/// Returns `true` if a signal ended the sleep early, so that a stop request sent with
/// [`crate::interrupt`] is seen. The deadline is absolute, so calling again with the same one
/// adds no drift (clock_nanosleep(2), `TIMER_ABSTIME`).
#[must_use]
pub fn sleep_until_ns(deadline_ns: u64) -> bool {
    let deadline =
        libc::timespec { tv_sec: (deadline_ns / NS_PER_S) as _, tv_nsec: (deadline_ns % NS_PER_S) as libc::c_long };
    // SAFETY: `deadline` is a valid timespec that outlives the call; a null remainder is allowed
    // and is never written for an absolute sleep.
    let error =
        unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &deadline, std::ptr::null_mut()) };
    // The call returns its error instead of setting errno. EINVAL (a bad clock or a nanosecond
    // field out of range) cannot arise from the values above.
    debug_assert!(error == 0 || error == libc::EINTR, "clock_nanosleep: {error}");
    error == libc::EINTR
}

/// Sleeps until [`monotonic_ns`] reaches `deadline_ns`, ignoring signals.
pub fn sleep_through_until_ns(deadline_ns: u64) {
    while sleep_until_ns(deadline_ns) {}
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
    syscall_result::of(unsafe { libc::clock_gettime(clock, &mut now) })?;
    Ok(now.tv_sec as u64 * NS_PER_S + now.tv_nsec as u64)
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
        sleep_through_until_ns(deadline_ns);
        assert!(monotonic_ns() >= deadline_ns);
    }

    #[test]
    fn a_deadline_in_the_past_returns_at_once() {
        assert!(!sleep_until_ns(0));
    }
}
