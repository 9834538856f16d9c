//! The CPUs on which a thread may run.
//!
//! The mask belongs to the *thread*, not to the process, and a new thread inherits it from the
//! thread that spawns it (sched_setaffinity(2)). So read [`allowed_cpus`] before the first pin,
//! and pin inside the thread concerned.
//!
//! Never remembers a mask or restores one.

use std::io;

use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The CPUs that the calling thread may run on, ascending.
///
/// # Errors
///
/// Those of sched_getaffinity(2): `EINVAL` on a machine with more than 1024 CPUs, the size of glibc's `cpu_set_t`.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    let mask = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| mask.is_set(*cpu)).collect())
}

/// Binds the calling thread to the given CPUs.
///
/// # Errors
///
/// `InvalidInput` if the list is empty, or contains a CPU that does not exist or is outside the thread's cpuset. The
/// kernel silently ignores such CPUs as long as one is left (sched_setaffinity(2)). A placement that differs from the
/// requested one would invalidate a comparison, so the mask is read back. It stays narrowed after this error.
pub fn pin_thread(cpus: &[usize]) -> io::Result<()> {
    if cpus.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "an empty list of CPUs to pin to: name at least one of the allowed CPUs",
        ));
    }
    match sched_setaffinity(None, &mask(cpus)) {
        Err(Errno::INVAL) => return Err(withheld(cpus, &[])),
        other => other?,
    }
    let effective = allowed_cpus()?;
    if cpus.iter().all(|cpu| effective.contains(cpu)) { Ok(()) } else { Err(withheld(cpus, &effective)) }
}

/// CPUs as sched_setaffinity(2) takes them, without those that it has no room for.
pub(crate) fn mask(cpus: &[usize]) -> CpuSet {
    let mut mask = CpuSet::new();
    cpus.iter().filter(|cpu| **cpu < CpuSet::MAX_CPU).for_each(|cpu| mask.set(*cpu));
    mask
}

fn withheld(requested: &[usize], effective: &[usize]) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!(
            "asked for CPUs {requested:?}, the kernel grants {effective:?} of them: \
             choose CPUs that are online and inside this process's cpuset"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs in a separate thread, so that the mask of the test runner's thread does not change.
    fn in_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(work).join().expect("test thread"))
    }

    #[test]
    fn a_pinned_thread_runs_on_its_cpu() {
        for cpu in allowed_cpus().unwrap() {
            in_thread(|| {
                pin_thread(&[cpu]).unwrap();
                // SAFETY: takes no argument and touches no memory.
                assert_eq!(unsafe { libc::sched_getcpu() }, cpu as libc::c_int);
                assert_eq!(allowed_cpus().unwrap(), [cpu]);
            });
        }
    }

    #[test]
    fn all_allowed_cpus_may_be_named() {
        in_thread(|| pin_thread(&allowed_cpus().unwrap()).unwrap());
    }

    #[test]
    fn a_missing_cpu_is_an_error() {
        in_thread(|| {
            let mut cpus = allowed_cpus().unwrap();
            assert!(pin_thread(&[100_000]).is_err());
            assert!(pin_thread(&[usize::MAX]).is_err());
            cpus.push(100_000);
            let error = pin_thread(&cpus).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
        });
    }

    #[test]
    fn an_empty_list_is_an_error() {
        let error = pin_thread(&[]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
