//! Features of io_uring in this kernel, as far as it reports them.

use std::{fmt, fs, io};

use io_uring::{Probe, opcode};
use thiserror::Error;

use super::{Ring, RingSetup};
use crate::clock;
use crate::process_tree::numbers;

/// A part of io_uring that younger kernels have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// One accept that goes on.
    MultishotAccept,
    /// One receive that goes on.
    MultishotReceive,
    /// Receives of several buffers at once.
    Bundles,
    /// Sends that leave the bytes where they are.
    ZeroCopySend,
    /// A kernel thread that takes submissions.
    PollThread,
}

/// Every feature, its name and the release that brought it (io_uring_enter(2), io_uring_register(2)).
const FEATURES: &[(Feature, &str, &str)] = &[
    (Feature::MultishotAccept, "multishot accept", "5.19"),
    (Feature::MultishotReceive, "multishot receive", "6.0"),
    (Feature::Bundles, "a bundle of buffers (IORING_RECVSEND_BUNDLE)", "6.10"),
    (Feature::ZeroCopySend, "a zero-copy send that reports its copies", "6.2"),
    (Feature::PollThread, "a submission thread without privilege (SQPOLL)", "5.13"),
];

impl Feature {
    fn row(self) -> (&'static str, &'static str) {
        // Every variant has its row: a test walks them.
        FEATURES.iter().find(|(feature, ..)| *feature == self).map_or(("?", "?"), |(_, name, since)| (name, since))
    }

    /// The release that brought it.
    pub fn since(self) -> &'static str {
        self.row().1
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.row().0)
    }
}

/// Whether this machine has io_uring with these features; the first that is absent is the reason.
///
/// # Errors
///
/// The reason.
pub fn probe(features: &[Feature]) -> Result<(), Missing> {
    let poll_idle_ms = features.contains(&Feature::PollThread).then_some(1);
    let ring = Ring::open(&RingSetup { entries: 8, completions: 16, poll_idle_ms })?;
    features.iter().try_for_each(|feature| ring.require(*feature))
}

impl Ring {
    /// Makes sure that the kernel has a feature.
    ///
    /// # Errors
    ///
    /// Its absence, what kept us from finding out, or that it is not to be used in a ring like this.
    pub fn require(&self, feature: Feature) -> Result<(), Missing> {
        let params = self.io.params();
        let present = match feature {
            Feature::ZeroCopySend if params.is_setup_sqpoll() => return Err(Missing::UnsafeWithPollThread),
            // The kernel does not report these; an operation that came in the same release shows them.
            Feature::MultishotAccept => self.knows(opcode::Socket::CODE)?,
            Feature::MultishotReceive | Feature::ZeroCopySend => self.knows(opcode::SendZc::CODE)?,
            Feature::Bundles => params.is_feature_recvsend_bundle(),
            Feature::PollThread => params.is_setup_sqpoll(),
        };
        if present { Ok(()) } else { Err(Missing::Feature(feature)) }
    }

    fn knows(&self, code: u8) -> Result<bool, Missing> {
        let mut probe = Probe::new();
        let asked = self.io.submitter().register_probe(&mut probe);
        asked.map_err(|error| Missing::of("asking for the operations of io_uring", &error))?;
        Ok(probe.is_supported(code))
    }
}

// Why io_uring, or a part of it, cannot be used here, and the next step.
//
// Every reason becomes a skip of the measurement: the machine lacks a feature, the program is not at fault.
// Never guesses beyond the kernel's error number and its sysctl.

/// A feature that this machine lacks. The message has the next step at the kernel; the caller knows what else can be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Missing {
    /// The kernel was built without it (`ENOSYS`, and no sysctl of its own).
    #[error("this kernel has no io_uring (CONFIG_IO_URING is off)")]
    NotBuilt,
    /// The administrator switched it off (Documentation/admin-guide/sysctl/kernel.rst).
    #[error(
        "io_uring is switched off by kernel.io_uring_disabled={0}: run `sysctl kernel.io_uring_disabled=0` as root"
    )]
    SwitchedOff(
        /// The sysctl's value: 1 forbids it to ordinary users, 2 to all users.
        u8,
    ),
    /// A seccomp filter or a security module refuses it (`EPERM`, `EACCES`). Filters of containers return `ENOSYS` although
    /// the sysctl shows that the kernel has io_uring.
    #[error(
        "io_uring is refused here although kernel.io_uring_disabled permits it: a container or sandbox filters it; \
         allow io_uring_setup, io_uring_enter and io_uring_register there"
    )]
    Filtered,
    /// The limit of locked memory is too small (`ENOMEM`).
    #[error(
        "{doing}: the kernel has no memory for it; if `ulimit -l` ({limit_kib} KiB here) is the limit, raise it with \
         `ulimit -l unlimited`"
    )]
    LockedMemory {
        /// The step that failed.
        doing: &'static str,
        /// The soft limit in force, KiB.
        limit_kib: u64,
    },
    /// No descriptor is free for the ring (`EMFILE`, `ENFILE`).
    #[error("no descriptor is free for an io_uring: raise `ulimit -n`")]
    NoDescriptor,
    /// The kernel is too old for one feature.
    #[error("{_0} needs Linux {since}: use a newer kernel, or leave out the mode that asks for it", since = _0.since())]
    Feature(Feature),
    /// Zero-copy sends by a submission thread are never made (for the reason see [`super::Ring::set_zero_copy`]).
    #[error(
        "zero-copy sends by a submission thread are not made: a process that is killed could leave a kernel thread \
         behind that takes a whole CPU and cannot be killed; use uring:zc or uring:multishot:sqpoll"
    )]
    UnsafeWithPollThread,
    /// Any other refusal.
    #[error("{doing}: {}", io::Error::from_raw_os_error(*errno))]
    Refused {
        /// The step that failed.
        doing: &'static str,
        /// The kernel's error number.
        errno: i32,
    },
}

impl Missing {
    /// The reason behind a failed set-up call.
    pub(crate) fn of(doing: &'static str, error: &io::Error) -> Missing {
        let limit_kib = crate::resource_limit::locked_memory_bytes().soft >> 10;
        classify(doing, error.raw_os_error().unwrap_or(libc::EIO), switched_off(), limit_kib)
    }
}

/// `kernel.io_uring_disabled` (Linux 6.6); absent where the sysctl is.
fn switched_off() -> Option<u8> {
    fs::read_to_string("/proc/sys/kernel/io_uring_disabled").ok()?.trim().parse().ok()
}

fn classify(doing: &'static str, errno: i32, switched_off: Option<u8>, limit_kib: u64) -> Missing {
    match (errno, switched_off) {
        (libc::ENOSYS, None) => Missing::NotBuilt,
        (libc::EPERM | libc::EACCES, Some(value @ 1..)) => Missing::SwitchedOff(value),
        (libc::EPERM | libc::EACCES | libc::ENOSYS, _) => Missing::Filtered,
        (libc::ENOMEM, _) => Missing::LockedMemory { doing, limit_kib },
        (libc::EMFILE | libc::ENFILE, _) => Missing::NoDescriptor,
        (errno, _) => Missing::Refused { doing, errno },
    }
}

// CPU time of the kernel's own threads that work for a ring: the submission thread and workers.
//
// They are threads of the process, named after the thread that made the ring (`iou-sqp-TID`,
// `iou-wrk-TID`), so no thread's own usage contains them. The time of workers that have ended is lost.

/// CPU time of the helper threads that run now for rings made by the thread `thread_id`, nanoseconds; absent without procfs,
/// and in a container: the names have the numbers of the machine's own process namespace.
pub(super) fn cpu_ns(thread_id: i32) -> Option<u64> {
    let threads: Vec<i32> = numbers("/proc/self/task").ok()?.map(|id| id as i32).collect();
    let (mut total_ns, mut is_foreign) = (0, false);
    for id in &threads {
        let Some(named) = named_after(*id) else { continue };
        is_foreign |= !threads.contains(&named);
        // A submission thread has workers of its own, named after it.
        if named == thread_id || named_after(named) == Some(thread_id) {
            total_ns += clock::try_clock_ns(clock::cpu_clock(*id, true)).unwrap_or(0);
        }
    }
    (total_ns > 0 || !is_foreign).then_some(total_ns)
}

/// The thread that a helper thread is named after; `None` for other threads, and for one that has ended.
fn named_after(id: i32) -> Option<i32> {
    let name = fs::read_to_string(format!("/proc/self/task/{id}/comm")).ok()?;
    let name = name.trim_end();
    name.strip_prefix("iou-sqp-").or_else(|| name.strip_prefix("iou-wrk-"))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel;

    #[test]
    fn every_feature_has_a_name_and_a_release() {
        for (feature, name, since) in FEATURES {
            assert_eq!(feature.to_string(), *name);
            assert_eq!(feature.since(), *since);
        }
    }

    #[test]
    fn zero_copy_with_submission_thread_is_refused() {
        // Twice: a feature found without a submission thread must not count.
        for _ in 0..2 {
            let _ = probe(&[Feature::ZeroCopySend]);
            let Err(refused) = probe(&[Feature::PollThread, Feature::ZeroCopySend]) else { panic!("it was permitted") };
            if probe(&[Feature::PollThread]).is_ok() {
                assert_eq!(refused, Missing::UnsafeWithPollThread);
                assert!(refused.to_string().contains("use uring:zc or uring:multishot:sqpoll"));
            }
        }
    }

    #[test]
    fn features_match_the_release_of_the_kernel() {
        let here = kernel::running_version().unwrap();
        for (feature, _, since) in FEATURES {
            match probe(&[*feature]) {
                Ok(()) => {}
                Err(Missing::Feature(_)) => assert!(here < kernel::version(since).unwrap(), "{feature}"),
                Err(other) => assert!(other.to_string().contains("io_uring"), "{other}"),
            }
        }
    }
}

#[cfg(test)]
mod missing_tests {
    use super::*;

    fn check(errno: i32, switched_off: Option<u8>, expected: &str) {
        let message = classify("making a ring", errno, switched_off, 64).to_string();
        assert!(message.contains(expected), "{message}");
    }

    #[test]
    fn every_refusal_names_the_next_step() {
        check(libc::ENOSYS, None, "CONFIG_IO_URING is off");
        check(libc::ENOSYS, Some(0), "a container or sandbox filters it");
        check(libc::EPERM, Some(2), "run `sysctl kernel.io_uring_disabled=0`");
        check(libc::EPERM, Some(1), "kernel.io_uring_disabled=1");
        check(libc::EPERM, Some(0), "a container or sandbox filters it");
        check(libc::EACCES, None, "a container or sandbox filters it");
        check(libc::ENOMEM, Some(0), "`ulimit -l` (64 KiB here)");
        check(libc::EMFILE, Some(0), "raise `ulimit -n`");
        check(libc::EINVAL, Some(0), "making a ring: Invalid argument");
    }

    #[test]
    fn an_absent_feature_names_its_release() {
        let message = Missing::Feature(Feature::Bundles).to_string();
        assert!(message.starts_with("a bundle of buffers (IORING_RECVSEND_BUNDLE) needs Linux 6.10"), "{message}");
    }
}

#[cfg(test)]
mod helpers_tests {
    use super::*;
    use crate::cpu_time::thread_usage;
    use crate::interrupt::ThreadHandle;

    #[test]
    fn the_clock_is_that_of_the_thread() {
        let id = ThreadHandle::current().unwrap().thread_id();
        let before_ns = thread_usage().total_ns;
        let by_id_ns = clock::try_clock_ns(clock::cpu_clock(id, true)).unwrap();
        assert!((before_ns..=thread_usage().total_ns).contains(&by_id_ns));
    }

    #[test]
    fn a_thread_without_rings_has_no_helpers() {
        assert_eq!(
            std::thread::spawn(|| cpu_ns(ThreadHandle::current().unwrap().thread_id())).join().unwrap(),
            Some(0)
        );
    }
}
