//! How exactly the kernel ends a wait that has a time limit.
//!
//! Every timed wait of a thread may end late by its timer slack, 50 µs unless it is set (prctl(2), `PR_SET_TIMERSLACK`).
//! `poll` and `epoll` add to this a thousandth of the wait, or five thousandths at a positive nice value
//! (`select_estimate_accuracy`, fs/select.c). Threads that are started later inherit the slack, and so do programs.

use std::io;

use crate::syscall_result;

/// Waits shorter than this are late by at most a few microseconds, nanoseconds.
const SHORT_NS: u64 = 1_000_000;

/// More than the share of a wait by which `poll` and `epoll` may end it late, as a divisor.
const EARLY: u64 = 128;

/// Sets the timer slack of the calling thread, and of threads that it starts, to 1 ns.
///
/// # Errors
/// When a seccomp filter refuses the call.
pub fn wake_precisely() -> io::Result<()> {
    // SAFETY: passes two integers and no memory.
    syscall_result::of(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) }).map(drop)
}

/// The timer slack of the calling thread, nanoseconds.
///
/// # Errors
/// When a seccomp filter refuses the call.
pub fn slack_ns() -> io::Result<u64> {
    // SAFETY: passes an integer and no memory.
    syscall_result::of(unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) }).map(|ns| ns as u64)
}

/// How long to wait first in `poll` or `epoll` for a moment that is `left_ns` away, nanoseconds: a little less than the
/// whole, so that the rest is a short wait, which ends on time.
#[inline]
#[must_use]
pub fn first_wait_ns(left_ns: u64) -> u64 {
    if left_ns < SHORT_NS { left_ns } else { left_ns - left_ns / EARLY }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn started_threads_inherit_the_slack() {
        std::thread::spawn(|| {
            assert!(slack_ns().unwrap() > 1);
            wake_precisely().unwrap();
            assert_eq!(slack_ns().unwrap(), 1);
            let inherited = std::thread::spawn(|| slack_ns().unwrap()).join().unwrap();
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
