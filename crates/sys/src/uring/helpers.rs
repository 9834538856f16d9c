//! CPU time of the kernel's own threads that work for a ring: the submission thread and workers.
//!
//! They are threads of the process, named after the thread that made the ring (`iou-sqp-TID`,
//! `iou-wrk-TID`), so no thread's own usage contains them. The time of workers that have ended is lost.

use std::fs;

use crate::clock;

/// CPU time of the helper threads that run now for rings made by the thread `thread_id`,
/// nanoseconds; absent without procfs.
pub(super) fn cpu_ns(thread_id: i32) -> Option<u64> {
    let mut total_ns = 0;
    let mut owners = vec![thread_id];
    // A submission thread has workers of its own, named after it.
    while let Some(owner) = owners.pop() {
        for task in fs::read_dir("/proc/self/task").ok()? {
            let Some(id) = task.ok().and_then(|task| task.file_name().to_str()?.parse::<i32>().ok()) else { continue };
            // Gone since the directory was read.
            let Ok(name) = fs::read_to_string(format!("/proc/self/task/{id}/comm")) else { continue };
            let name = name.trim_end();
            let polls = name == format!("iou-sqp-{owner}");
            if polls || name == format!("iou-wrk-{owner}") {
                total_ns += clock::try_clock_ns(cpu_clock_of(id)).unwrap_or(0);
            }
            if polls {
                owners.push(id);
            }
        }
    }
    Some(total_ns)
}

/// The clock that counts one thread's CPU time: the id's complement, three bits up, `CPUCLOCK_PERTHREAD`
/// and `CPUCLOCK_SCHED` (include/linux/posix-timers_types.h).
fn cpu_clock_of(thread_id: i32) -> libc::clockid_t {
    !thread_id << 3 | 4 | 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu_time::thread_usage;
    use crate::interrupt::ThreadHandle;

    #[test]
    fn the_clock_is_that_of_the_thread() {
        let id = ThreadHandle::current().unwrap().thread_id();
        let before_ns = thread_usage().total_ns;
        let by_id_ns = clock::try_clock_ns(cpu_clock_of(id)).unwrap();
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
