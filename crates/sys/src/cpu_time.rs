//! CPU time, context switches and page faults of a thread or the process.
//!
//! Two sources are combined. `CLOCK_THREAD_CPUTIME_ID` is exact to the nanosecond but has only the sum. getrusage(2)
//! splits user from system time, but unless the kernel was built with `CONFIG_VIRT_CPU_ACCOUNTING_*` the split is a
//! ratio of timer ticks scaled to the exact sum (kernel/sched/cputime.c, `cputime_adjust`). So `total_ns` is exact over
//! any span, and the split only over many ticks (4 ms each at `CONFIG_HZ=250`).
//!
//! Softirq time is billed to the interrupted thread unless the kernel accounts it separately (`CONFIG_IRQ_TIME_ACCOUNTING`).
//! Threads of io_uring (io-wq, SQPOLL) belong to the process, not to the
//! submitting thread.
//!
//! Never divides: the caller has the elapsed time and the amount of work.

use std::fs::File;
use std::io;
use std::ops::AddAssign;
use std::os::unix::fs::FileExt;

use rustix::thread::gettid;

use crate::clock;

/// Resources used since the thread or process began, or between two readings ([`since`]).
///
/// [`since`]: Usage::since
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time in user mode, ns; a tick-sampled share of the sum (see the module's header).
    pub user_ns: u64,
    /// Time in the kernel, ns; a tick-sampled share of the sum (see the module's header).
    pub system_ns: u64,
    /// User and system time together, ns, exact: `CLOCK_THREAD_CPUTIME_ID` or
    /// `CLOCK_PROCESS_CPUTIME_ID`. Differs slightly from `user_ns + system_ns`, read a moment
    /// apart.
    pub total_ns: u64,
    /// Switches because the thread waited for something (`ru_nvcsw`).
    pub voluntary_switches: u64,
    /// Switches because the scheduler preferred another thread (`ru_nivcsw`).
    pub involuntary_switches: u64,
    /// Page faults served without disk access (`ru_minflt`).
    pub minor_faults: u64,
}

// `cputime_adjust` keeps each part monotonic, but this is not guaranteed.
counts!(Usage { user_ns, system_ns, total_ns, voluntary_switches, involuntary_switches, minor_faults });

impl Usage {
    /// The usage of a child that was waited for, with that of its own children. Exact to the
    /// microsecond.
    pub(crate) fn of_ended(raw: &libc::rusage) -> Usage {
        Usage::of(raw, timeval_ns(raw.ru_utime) + timeval_ns(raw.ru_stime))
    }

    fn of(raw: &libc::rusage, total_ns: u64) -> Usage {
        Usage {
            user_ns: timeval_ns(raw.ru_utime),
            system_ns: timeval_ns(raw.ru_stime),
            total_ns,
            voluntary_switches: raw.ru_nvcsw as u64,
            involuntary_switches: raw.ru_nivcsw as u64,
            minor_faults: raw.ru_minflt as u64,
        }
    }

    /// Every value times `share`.
    pub fn times(&self, share: f64) -> Self {
        self.with(self, |whole, _| (whole as f64 * share).round() as u64)
    }
}

impl AddAssign for Usage {
    /// Adds the usage of another thread.
    fn add_assign(&mut self, other: Self) {
        *self = self.with(&other, u64::saturating_add);
    }
}

/// The usage of the calling thread since it began (`RUSAGE_THREAD`, Linux 2.6.26).
pub fn thread_usage() -> Usage {
    usage(libc::RUSAGE_THREAD, libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The CPU clock of a thread, which any thread of its process may read, also while it sleeps.
#[derive(Clone, Copy, Debug)]
pub struct ThreadClock(libc::clockid_t);

impl ThreadClock {
    /// The clock of the calling thread.
    pub fn of_this_thread() -> ThreadClock {
        ThreadClock(clock::cpu_clock(gettid().as_raw_pid(), true))
    }

    /// CPU time that the thread has used, ns; `None` after it has ended.
    pub fn read_ns(self) -> Option<u64> {
        clock::try_clock_ns(self.0).ok()
    }
}

/// The usage of the calling process since it began, ended threads included (`RUSAGE_SELF`).
pub fn process_usage() -> Usage {
    usage(libc::RUSAGE_SELF, libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time of this process's children that have ended and were waited for, theirs included, ns (`RUSAGE_CHILDREN`).
/// Their user and system times add up to the exact sum (kernel/sched/cputime.c, `cputime_adjust`), in microseconds.
pub fn ended_children_ns() -> u64 {
    Usage::of_ended(&rusage(libc::RUSAGE_CHILDREN)).total_ns
}

fn usage(who: libc::c_int, clock: libc::clockid_t) -> Usage {
    Usage::of(&rusage(who), clock::clock_ns(clock))
}

fn rusage(who: libc::c_int) -> libc::rusage {
    // SAFETY: rusage is plain integers, for which all-zero bytes are a valid value.
    let mut raw: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `raw` is a valid place for one rusage, and lives through the call.
    let returned = unsafe { libc::getrusage(who, &mut raw) };
    // Fails only for an unknown `who` or a bad pointer (getrusage(2)).
    assert_eq!(returned, 0, "getrusage({who})");
    raw
}

fn timeval_ns(time: libc::timeval) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000
}

// Time that a runnable thread has waited for a CPU.
//
// `/proc/thread-self/schedstat` has three numbers: time on the CPU, time on a run queue, and the number of time slices
// (Documentation/scheduler/sched-stats.rst). The second distinguishes a thread that was preempted from one without
// work; no other source does.
//
// The file is opened once and read in place, about 2 µs per read.

/// The run-queue clock of the thread that opened it.
#[derive(Debug)]
pub struct RunDelay {
    file: File,
}

impl RunDelay {
    /// Opens the calling thread's file. It refers to this thread even when another thread reads it.
    ///
    /// # Errors
    ///
    /// `NotFound` on a kernel without `CONFIG_SCHED_INFO` or without procfs.
    pub fn open() -> io::Result<Self> {
        Ok(Self { file: File::open("/proc/thread-self/schedstat")? })
    }

    /// Time waited so far, nanoseconds. `None` if the format is not as documented.
    pub fn ns(&self) -> Option<u64> {
        let mut text = [0; 96];
        let len = self.file.read_at(&mut text, 0).ok()?;
        parse(std::str::from_utf8(&text[..len]).ok()?)
    }
}

fn parse(text: &str) -> Option<u64> {
    text.split_whitespace().nth(1)?.parse().ok()
}

// Counts of the kernel, read twice: what was gained between the two, field by field, from one list of the fields.

/// Gives a struct of counts its `since`. Fields after `keeps` keep their later value.
macro_rules! counts {
    ($of:ident { $($count:ident),* $(,)? } $(keeps { $($kept:ident),* })?) => {
        impl $of {
            /// The counts gained since an earlier reading; none is below zero.
            pub fn since(&self, earlier: &$of) -> $of {
                self.with(earlier, u64::saturating_sub)
            }

            /// Each count from those of two readings.
            fn with(&self, other: &$of, of: impl Fn(u64, u64) -> u64) -> $of {
                $of {
                    $($count: of(self.$count, other.$count),)*
                    $($($kept: self.$kept,)*)?
                }
            }
        }
    };
}

pub(crate) use counts;

#[cfg(test)]
mod tests {
    use super::*;

    /// Burns CPU until the thread's own clock has advanced: no wall-clock threshold.
    fn burn(at_least_ns: u64) {
        let start_ns = thread_usage().total_ns;
        while thread_usage().total_ns - start_ns < at_least_ns {
            std::hint::black_box((0..1000u64).sum::<u64>());
        }
    }

    #[test]
    fn work_counts_for_its_thread_and_the_process() {
        let (thread, process) = (thread_usage(), process_usage());
        burn(3_000_000);
        let thread = thread_usage().since(&thread);
        let process = process_usage().since(&process);
        assert!(thread.total_ns >= 3_000_000);
        assert!(process.total_ns >= 3_000_000);
    }

    #[test]
    fn a_threads_clock_is_readable_until_it_ends() {
        let (send, receive) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            burn(2_000_000);
            send.send((ThreadClock::of_this_thread(), thread_usage().total_ns)).unwrap();
            let _ = ended.recv();
        });
        let (clock, own_ns) = receive.recv().unwrap();
        let read_ns = clock.read_ns().unwrap();
        assert!(read_ns >= own_ns && own_ns >= 2_000_000, "{read_ns} {own_ns}");
        drop(end);
        thread.join().unwrap();
        // The kernel wakes the joining thread first and removes the ended one afterwards (kernel/exit.c, `do_exit`).
        let is_gone = |_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            clock.read_ns().is_none()
        };
        assert!((0..10_000).any(is_gone));
    }

    #[test]
    fn waiting_is_a_voluntary_switch() {
        // A thread that is preempted until the deadline need not wait.
        let waits = |ns: u64| {
            let before = thread_usage();
            std::thread::sleep(std::time::Duration::from_nanos(ns));
            thread_usage().since(&before).voluntary_switches >= 1
        };
        assert!([1_000_000, 100_000_000, 10_000_000_000].into_iter().any(waits));
    }

    #[test]
    fn touching_fresh_memory_is_minor_faults() {
        let before = thread_usage();
        let mut memory = vec![0u8; 8 << 20];
        for byte in memory.iter_mut().step_by(4096) {
            *byte = 1;
        }
        std::hint::black_box(&memory);
        // At least one, since a huge page may cover all of it.
        assert!(thread_usage().since(&before).minor_faults >= 1);
    }

    #[test]
    fn costs_add_up() {
        let one = Usage {
            user_ns: 1,
            system_ns: 2,
            total_ns: 3,
            voluntary_switches: 4,
            involuntary_switches: 5,
            minor_faults: 6,
        };
        let mut two = one;
        two += one;
        assert_eq!(two.since(&one), one);
    }

    #[test]
    fn a_difference_never_wraps() {
        let later = Usage::default();
        let earlier = Usage { user_ns: 1, ..Usage::default() };
        assert_eq!(later.since(&earlier), Usage::default());
    }
}

#[cfg(test)]
mod run_delay_tests {
    use super::*;

    #[test]
    fn the_second_number_is_the_delay() {
        assert_eq!(parse("123456 789 42\n"), Some(789));
        assert_eq!(parse("123456\n"), None);
        assert_eq!(parse("1 x 3"), None);
    }

    #[test]
    fn two_threads_share_one_cpu() {
        let cpu = crate::affinity::allowed_cpus().unwrap()[0];
        let burn = move || {
            crate::affinity::pin_thread(&[cpu]).unwrap();
            let delay = RunDelay::open().ok()?;
            let end_ns = clock::monotonic_ns() + 60_000_000;
            while clock::monotonic_ns() < end_ns {
                std::hint::spin_loop();
            }
            delay.ns()
        };
        let other = std::thread::spawn(burn);
        let (mine, others) = (burn(), other.join().unwrap());
        if let (Some(mine), Some(others)) = (mine, others) {
            assert!(mine + others > 0, "one of them had to wait");
        }
    }
}
