//! The process's resource limits that matter for measurements: open files, locked memory and file size.
//!
//! Raising the soft limit to the hard one needs no privilege (getrlimit(2)). Do it once at the start: a child inherits
//! it, and a child that uses select(2) fails above 1024 descriptors.
//!
//! Never lowers a limit and never touches a hard one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// One resource limit. [`Limit::UNLIMITED`] in either field means none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// The limit in force.
    pub soft: u64,
    /// The value to which `soft` may be raised without privilege.
    pub hard: u64,
}

impl Limit {
    /// `RLIM_INFINITY`.
    pub const UNLIMITED: u64 = u64::MAX;

    fn of(resource: Resource) -> Limit {
        let Rlimit { current, maximum } = getrlimit(resource);
        Limit { soft: current.unwrap_or(Self::UNLIMITED), hard: maximum.unwrap_or(Self::UNLIMITED) }
    }
}

/// The number of descriptors this process may hold (`RLIMIT_NOFILE`).
pub fn open_files() -> Limit {
    Limit::of(Resource::Nofile)
}

/// Raises the soft limit of descriptors to the hard one, unless a seccomp filter refuses it, and returns the resulting limit.
pub fn raise_open_files() -> Limit {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    open_files()
}

/// The bytes this process may lock into memory (`RLIMIT_MEMLOCK`).
///
/// Registered buffers of io_uring count against it (io_uring_register(2)), and so do pages in
/// flight with `MSG_ZEROCOPY` (`mm_account_pinned_pages`); the rings themselves only did before
/// Linux 5.12.
pub fn locked_memory_bytes() -> Limit {
    Limit::of(Resource::Memlock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_reaches_the_hard_one() {
        let before = open_files();
        let raised = raise_open_files();
        assert_eq!(raised.soft, raised.hard);
        assert_eq!(raised.hard, before.hard);
        assert_eq!(open_files(), raised);
    }

    #[test]
    fn locked_memory_has_a_limit_or_none() {
        let limit = locked_memory_bytes();
        assert!(limit.soft <= limit.hard);
    }
}
