//! The process's resource limits that matter for measurements: open files, locked memory and file size.
//!
//! Raising the soft limit to the hard one needs no privilege (getrlimit(2)). Do it once at the start: a child inherits
//! it, and a child that uses select(2) fails above 1024 descriptors.
//!
//! Never lowers a limit and never touches a hard one.

use std::io;

use serde::{Deserialize, Serialize};

use crate::errno;

/// One resource limit. [`Limit::UNLIMITED`] in either field means none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// The limit in force.
    pub soft: u64,
    /// The value to which `soft` may be raised without privilege.
    pub hard: u64,
}

impl Limit {
    /// `RLIM_INFINITY`.
    pub const UNLIMITED: u64 = u64::MAX;
}

/// The number of descriptors this process may hold (`RLIMIT_NOFILE`).
///
/// # Errors
///
/// Any error of getrlimit(2); none is expected.
pub fn open_files() -> io::Result<Limit> {
    limit(libc::RLIMIT_NOFILE)
}

/// Raises the soft limit of descriptors to the hard one and returns the resulting limit.
///
/// # Errors
///
/// Any error of getrlimit(2) or setrlimit(2); in practice only that of a seccomp filter.
pub fn raise_open_files() -> io::Result<Limit> {
    let before = open_files()?;
    if before.soft < before.hard {
        let wanted = libc::rlimit { rlim_cur: before.hard, rlim_max: before.hard };
        // SAFETY: `wanted` is a valid rlimit that lives through the call.
        errno::of(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &wanted) })?;
    }
    open_files()
}

/// The bytes this process may lock into memory (`RLIMIT_MEMLOCK`).
///
/// Registered buffers of io_uring count against it (io_uring_register(2)), and so do pages in
/// flight with `MSG_ZEROCOPY` (`mm_account_pinned_pages`); the rings themselves only did before
/// Linux 5.12.
///
/// # Errors
///
/// Any error of getrlimit(2); none is expected.
pub fn locked_memory_bytes() -> io::Result<Limit> {
    limit(libc::RLIMIT_MEMLOCK)
}

/// The largest size of a file that this process writes (`RLIMIT_FSIZE`).
///
/// # Errors
///
/// Any error of getrlimit(2); none is expected.
pub fn file_size_bytes() -> io::Result<Limit> {
    limit(libc::RLIMIT_FSIZE)
}

#[cfg(target_env = "musl")]
type Resource = libc::c_int;
#[cfg(not(target_env = "musl"))]
type Resource = libc::__rlimit_resource_t;

fn limit(resource: Resource) -> io::Result<Limit> {
    let mut raw = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `raw` is a valid place for one rlimit, and lives through the call.
    errno::of(unsafe { libc::getrlimit(resource, &mut raw) })?;
    Ok(Limit { soft: unlimited_or(raw.rlim_cur), hard: unlimited_or(raw.rlim_max) })
}

fn unlimited_or(value: libc::rlim_t) -> u64 {
    if value == libc::RLIM_INFINITY { Limit::UNLIMITED } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_reaches_the_hard_one() {
        let before = open_files().unwrap();
        let raised = raise_open_files().unwrap();
        assert_eq!(raised.soft, raised.hard);
        assert_eq!(raised.hard, before.hard);
        assert_eq!(open_files().unwrap(), raised);
    }

    #[test]
    fn locked_memory_has_a_limit_or_none() {
        let limit = locked_memory_bytes().unwrap();
        assert!(limit.soft <= limit.hard);
    }
}
