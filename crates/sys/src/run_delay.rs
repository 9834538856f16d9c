//! Time that a runnable thread has waited for a CPU.
//!
//! `/proc/thread-self/schedstat` has three numbers: time on the CPU, time on a run queue, and the number of time slices
//! (Documentation/scheduler/sched-stats.rst). The second distinguishes a thread that was preempted from one without
//! work; no other source does.
//!
//! The file is opened once and read in place, about 2 µs per read.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

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
    #[must_use]
    pub fn ns(&self) -> Option<u64> {
        let mut text = [0; 96];
        let len = self.file.read_at(&mut text, 0).ok()?;
        parse(std::str::from_utf8(&text[..len]).ok()?)
    }
}

fn parse(text: &str) -> Option<u64> {
    text.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
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
            let end_ns = crate::clock::monotonic_ns() + 60_000_000;
            while crate::clock::monotonic_ns() < end_ns {
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
