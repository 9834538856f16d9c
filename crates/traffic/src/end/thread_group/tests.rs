//! Tests of the threads of an end.

use std::sync::Mutex;

use bytegauge_sys::clock::{self, monotonic_ns};

use super::*;

fn test_plan() -> EndPlan {
    EndPlan::of("a test".into(), "test", Vec::new(), "tests")
}

/// The slack of the calling thread's waits, nanoseconds.
fn slack_ns() -> u64 {
    let thread = std::fs::read_link("/proc/thread-self").unwrap();
    let path = std::path::Path::new("/proc").join(thread.file_name().unwrap()).join("timerslack_ns");
    std::fs::read_to_string(path).unwrap().trim().parse().unwrap()
}

#[test]
fn only_waiting_threads_have_no_slack() {
    let slacks_ns = |waits| {
        let plan = EndPlan { cpus: vec![None; 2], waits, ..test_plan() };
        let group = ThreadGroup::start(&plan, Flags::default(), |_| {
            Box::new(|mut start: ThreadStart<u64>| {
                start.ready();
                slack_ns()
            })
        })
        .unwrap();
        group.finish(Duration::from_secs(60), None, || {}).parts
    };
    assert_eq!(slacks_ns(true), [1, 1]);
    assert!(slacks_ns(false).into_iter().all(|ns| ns > 1));
}

fn start(job: impl Fn(&Flags, usize) -> usize + Clone + Send + 'static) -> ThreadGroup<usize> {
    let plan = EndPlan { cpus: vec![None; 3], ..test_plan() };
    ThreadGroup::start(&plan, Flags::default(), |thread| {
        let job = job.clone();
        let run = move |mut start: ThreadStart<usize>| {
            start.ready();
            job(&start.flags, thread)
        };
        Box::new(run)
    })
    .unwrap()
}

fn sorted(mut parts: Vec<usize>) -> Vec<usize> {
    parts.sort_unstable();
    parts
}

/// Sleeps until a flag is set, as a waiting engine does: only a signal ends the wait early.
fn until_flagged(flags: &Flags) {
    while ![&flags.abort, &flags.stop_requested].iter().any(|flag| flag.load(Ordering::Relaxed)) {
        let hour_ns = 3_600_000_000_000;
        let _woken = clock::sleep_until_ns(monotonic_ns() + hour_ns);
    }
}

#[test]
fn stopped_threads_leave() {
    let group = start(|flags, thread| {
        until_flagged(flags);
        thread
    });
    group.stop();
    let mut closed = 0;
    let left = group.finish(Duration::from_secs(60), None, || closed += 1);
    assert!(left.fault.is_none());
    assert_eq!((sorted(left.parts), left.in_time, closed), (vec![0, 1, 2], 3, 1));
}

#[test]
fn threads_without_a_window_are_stopped_last() {
    let group = start(|flags, thread| {
        if thread != 1 {
            until_flagged(flags);
        }
        thread
    });
    let (mut closed, stop_requested) = (0, Arc::clone(&group.flags.stop_requested));
    let left = group.finish(Duration::from_secs(60), Some(1..2), || {
        closed += 1;
        stop_requested.store(true, Ordering::Relaxed);
    });
    assert!(left.fault.is_none());
    assert_eq!((left.parts[0], sorted(left.parts), closed), (1, vec![0, 1, 2], 1));
}

#[test]
fn threads_that_are_late_are_ended_and_named() {
    let left = start(|flags, thread| {
        until_flagged(flags);
        thread
    })
    .finish(Duration::from_millis(10), None, || panic!("nothing has closed"));
    assert_eq!((left.parts.len(), left.in_time), (3, 0));
    assert!(left.fault.unwrap().to_string().starts_with("stalled: a test"));
}

#[test]
fn thread_that_never_leaves_is_left_behind() {
    let (keep, held) = mpsc::channel::<()>();
    let held = Arc::new(Mutex::new(held));
    let group = start(move |flags, thread| {
        if thread == 1 {
            // No flag and no signal ends this wait.
            let _ = held.lock().unwrap().recv();
        } else {
            until_flagged(flags);
        }
        thread
    });
    let left = group.finish(Duration::from_millis(10), None, || panic!("nothing has closed"));
    assert_eq!(sorted(left.parts), [0, 2]);
    assert!(left.fault.unwrap().to_string().starts_with("stalled: a test"));
    drop(keep);
}

#[test]
fn death_of_a_thread_keeps_other_results() {
    let group = start(|_, thread| if thread == 1 { std::panic::resume_unwind(Box::new("planned")) } else { thread });
    let mut closed = 0;
    let left = group.finish(Duration::from_secs(60), None, || closed += 1);
    assert!(left.fault.unwrap().to_string().contains("died"));
    assert_eq!((sorted(left.parts), closed), (vec![0, 2], 1));
}

#[test]
fn death_of_a_thread_leaves_no_reader_waiting() {
    let plan = EndPlan { cpus: vec![None; 2], ..test_plan() };
    let group = ThreadGroup::start(&plan, Flags::default(), |thread| {
        let run = move |mut start: ThreadStart<usize>| {
            start.ready();
            if thread == 0 {
                std::panic::resume_unwind(Box::new("planned"));
            }
            start.closed();
            // It drains until the other end, which is stopped when all have closed, ends the stream.
            until_flagged(&start.flags);
            thread
        };
        Box::new(run)
    })
    .unwrap();
    let stop_requested = Arc::clone(&group.flags.stop_requested);
    let left = group.finish(Duration::from_secs(60), None, || stop_requested.store(true, Ordering::Relaxed));
    assert!(left.fault.unwrap().to_string().contains("died"));
    assert_eq!((left.parts, left.in_time), (vec![1], 1));
}

#[test]
fn crew_ends_if_a_thread_cannot_begin() {
    // No machine has the first thread's CPU: the others wait at the gate, and are released.
    let cpus = vec![Some(usize::MAX >> 1), None, None];
    let plan = EndPlan { cpus, ..test_plan() };
    let group = ThreadGroup::start(&plan, Flags::default(), |_| {
        Box::new(|mut start: ThreadStart<bool>| start.begin().is_some())
    });
    assert!(group.unwrap_err().to_string().contains("--placement unpinned"));
}
