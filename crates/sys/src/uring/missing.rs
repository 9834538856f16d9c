//! Why io_uring, or a part of it, cannot be used here, and the next step.
//!
//! Every reason becomes a skip of the measurement: the machine lacks a feature, the program is not at fault.
//! Never guesses beyond the kernel's error number and its sysctl.

use std::fs;
use std::io;

use thiserror::Error;

use super::feature::Feature;

/// A feature that this machine lacks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Missing {
    /// The kernel was built without it (`ENOSYS`, and no sysctl of its own).
    #[error("this kernel has no io_uring (CONFIG_IO_URING is off, or Linux is older than 5.11): use --engine epoll")]
    NotBuilt,
    /// The administrator switched it off (Documentation/admin-guide/sysctl/kernel.rst).
    #[error(
        "io_uring is switched off by kernel.io_uring_disabled={0}: run `sysctl kernel.io_uring_disabled=0` as root, \
         or use --engine epoll"
    )]
    SwitchedOff(
        /// The sysctl's value: 1 forbids it to ordinary users, 2 to all users.
        u8,
    ),
    /// A seccomp filter or a security module refuses it (`EPERM`, `EACCES`). Filters of containers return `ENOSYS` although
    /// the sysctl shows that the kernel has io_uring.
    #[error(
        "io_uring is refused here although kernel.io_uring_disabled permits it: a container or sandbox filters it; \
         allow io_uring_setup, io_uring_enter and io_uring_register there, or use --engine epoll"
    )]
    Filtered,
    /// The limit of locked memory is too small (`ENOMEM`).
    #[error(
        "{doing}: the kernel has no memory for it; if `ulimit -l` ({limit_kib} KiB here) is the limit, raise it with \
         `ulimit -l unlimited`, or use fewer flows"
    )]
    LockedMemory {
        /// The step that failed.
        doing: &'static str,
        /// The soft limit in force, KiB.
        limit_kib: u64,
    },
    /// No descriptor is free for the ring (`EMFILE`, `ENFILE`).
    #[error("no descriptor is free for an io_uring: raise `ulimit -n`, or use fewer flows")]
    NoDescriptor,
    /// The kernel is too old for one feature.
    #[error("{feature} needs Linux {since}: use a newer kernel, or leave out the mode that asks for it")]
    Feature {
        /// The absent feature.
        feature: Feature,
        /// The release that brought it.
        since: &'static str,
    },
    /// Zero-copy sends by a submission thread are never made (for the reason see [`super::Ring::send_zero_copy`]).
    #[error(
        "zero-copy sends by a submission thread are not made: a process that is killed could leave a kernel thread \
         behind that takes a whole CPU and cannot be killed; use uring:zc or uring:multishot:sqpoll"
    )]
    UnsafeWithPollThread,
    /// Any other refusal.
    #[error("{doing}: {}: use --engine epoll", io::Error::from_raw_os_error(*errno))]
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
        let limit_kib = crate::limit::locked_memory_bytes().map_or(0, |limit| limit.soft >> 10);
        classify(doing, error.raw_os_error().unwrap_or(libc::EIO), switched_off(), limit_kib)
    }

    /// The absence of one feature.
    pub(super) fn feature(feature: Feature) -> Missing {
        Missing::Feature { feature, since: feature.since() }
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

#[cfg(test)]
mod tests {
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
        let message = Missing::feature(Feature::Bundles).to_string();
        assert!(message.starts_with("a bundle of buffers (IORING_RECVSEND_BUNDLE) needs Linux 6.10"), "{message}");
    }
}
