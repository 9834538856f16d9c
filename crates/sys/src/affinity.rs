//! The CPUs on which a thread may run.
//!
//! The mask belongs to the *thread*, not to the process, and a new thread inherits it from the
//! thread that spawns it (sched_setaffinity(2)). So read [`allowed_cpus`] before the first pin,
//! and pin inside the thread concerned.
//!
//! Never remembers a mask or restores one.

use std::{fs, io};

use crate::{errno, topology};

/// Bits in one word of an affinity mask.
const WORD_BITS: usize = u64::BITS as usize;

/// Far above the largest `CONFIG_NR_CPUS`.
const CAPACITY: usize = 1 << 20;

/// The CPUs that the calling thread may run on, ascending (`Cpus_allowed_list`, proc_pid_status(5)).
///
/// # Errors
///
/// The file's error; it is missing where procfs is hidden.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    let status = fs::read_to_string("/proc/thread-self/status")?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.and_then(topology::parse).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Binds the calling thread to the given CPUs.
///
/// # Errors
///
/// `InvalidInput` if the list is empty, or contains a CPU that does not exist or is outside the thread's cpuset. The
/// kernel silently ignores such CPUs as long as one is left (sched_setaffinity(2)). A placement that differs from the
/// requested one would invalidate a comparison, so the mask is read back. It stays narrowed after this error.
pub fn pin_thread(cpus: &[usize]) -> io::Result<()> {
    let Some(&highest) = cpus.iter().max() else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "an empty list of CPUs to pin to: name at least one of the allowed CPUs",
        ));
    };
    if highest >= CAPACITY {
        return Err(withheld(cpus, &[]));
    }
    let mask = mask(cpus);
    // SAFETY: the kernel reads `size_of_val` bytes, all inside `mask`, and keeps no pointer.
    let returned = unsafe { libc::sched_setaffinity(0, size_of_val(mask.as_slice()), mask.as_ptr().cast()) };
    if let Err(error) = errno::of(returned) {
        return Err(if error.raw_os_error() == Some(libc::EINVAL) { withheld(cpus, &[]) } else { error });
    }
    // A mask with a single CPU either takes effect completely or fails, so re-pinning needs no read.
    if cpus.len() > 1 {
        let effective = allowed_cpus()?;
        if cpus.iter().any(|cpu| !effective.contains(cpu)) {
            return Err(withheld(cpus, &effective));
        }
    }
    Ok(())
}

/// CPUs as sched_setaffinity(2) takes them.
pub(crate) fn mask(cpus: &[usize]) -> Vec<u64> {
    let mut mask = vec![0; cpus.iter().max().map_or(0, |highest| highest / WORD_BITS + 1)];
    for cpu in cpus {
        mask[cpu / WORD_BITS] |= 1 << (cpu % WORD_BITS);
    }
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
