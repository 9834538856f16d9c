//! The CPUs on which a thread may run.
//!
//! The mask belongs to the *thread*, not to the process, and a new thread inherits it from the
//! thread that spawns it (sched_setaffinity(2)). So read [`allowed_cpus`] before the first pin,
//! and pin inside the thread concerned.
//!
//! Never remembers a mask or restores one.

use std::io;

use crate::errno;

/// Bits in one word of an affinity mask.
const WORD_BITS: usize = u64::BITS as usize;

/// CPUs in a mask of the first attempt: the size of glibc's `cpu_set_t`.
const FIRST_CAPACITY: usize = 1024;

/// The end of the doubling below, far above the largest `CONFIG_NR_CPUS`.
const LAST_CAPACITY: usize = 1 << 20;

/// The CPUs that the calling thread may run on, ascending.
///
/// Works on machines with more than 1024 CPUs. The kernel returns `EINVAL` while the mask is smaller than its own
/// (sched_setaffinity(2), "Handling systems with large CPU affinity masks"), so the mask doubles until it fits.
///
/// # Errors
///
/// Other errors of sched_getaffinity(2); in practice only that of a seccomp filter.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    let mut capacity = FIRST_CAPACITY;
    loop {
        let mut mask = vec![0u64; capacity / WORD_BITS];
        // SAFETY: the kernel writes at most `size_of_val` bytes, all inside `mask`, whose
        // alignment (8) is that of cpu_set_t; any bit pattern is a valid u64.
        let returned = unsafe { libc::sched_getaffinity(0, size_of_val(mask.as_slice()), mask.as_mut_ptr().cast()) };
        match errno::of(returned) {
            Ok(_) => return Ok(cpus_of(&mask)),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && capacity < LAST_CAPACITY => {
                capacity *= 2;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Binds the calling thread to the given CPUs.
///
/// # Errors
///
/// `InvalidInput` if none of them exists and is in the thread's cpuset. The kernel silently ignores others as long as one is left
/// (sched_setaffinity(2)).
pub fn pin_thread(cpus: &[usize]) -> io::Result<()> {
    let withheld = || {
        let why = "the kernel grants none of the CPUs";
        let next = "choose CPUs that are online and inside this process's cpuset";
        io::Error::new(io::ErrorKind::InvalidInput, format!("{why} {cpus:?}: {next}"))
    };
    if cpus.iter().any(|cpu| *cpu >= LAST_CAPACITY) {
        return Err(withheld());
    }
    let mask = mask(cpus);
    // SAFETY: the kernel reads `size_of_val` bytes, all inside `mask`, and keeps no pointer.
    let returned = unsafe { libc::sched_setaffinity(0, size_of_val(mask.as_slice()), mask.as_ptr().cast()) };
    errno::of(returned).map(drop).map_err(|error| match error.raw_os_error() {
        Some(libc::EINVAL) => withheld(),
        _ => error,
    })
}

/// CPUs as sched_setaffinity(2) takes them.
pub(crate) fn mask(cpus: &[usize]) -> Vec<u64> {
    let mut mask = vec![0; cpus.iter().max().map_or(0, |highest| highest / WORD_BITS + 1)];
    for cpu in cpus {
        mask[cpu / WORD_BITS] |= 1 << (cpu % WORD_BITS);
    }
    mask
}

fn cpus_of(mask: &[u64]) -> Vec<usize> {
    let bit = |cpu: &usize| mask[cpu / WORD_BITS] >> (cpu % WORD_BITS) & 1 == 1;
    (0..mask.len() * WORD_BITS).filter(bit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs in a separate thread, so that the mask of the test runner's thread does not change.
    fn in_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(work).join().expect("test thread"))
    }

    #[test]
    fn masks_become_lists() {
        assert_eq!(cpus_of(&[0b101, 0, 1 << 63]), [0, 2, 191]);
        assert_eq!(cpus_of(&[]), [0usize; 0]);
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
            for cpu in [100_000, usize::MAX] {
                let error = pin_thread(&[cpu]).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
            }
        });
    }

    #[test]
    fn an_empty_list_is_an_error() {
        let error = pin_thread(&[]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
