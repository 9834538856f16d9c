//! Tests of the threads of an end.

use bytegauge_sys::clock;

use super::*;

fn test_plan() -> EndPlan {
    EndPlan::of("a test".into(), "test", Vec::new(), "tests")
}

#[test]
fn only_waiting_threads_have_no_slack() {
    let slack_ns = |waits| {
        let plan = EndPlan { cpus: vec![None; 2], waits, ..test_plan() };
        let job = |_| {
            EndThread::new(Vec::new(), |mut start: ThreadStart<u64>| {
                start.ready();
                clock::slack_ns().unwrap()
            })
        };
        let group = ThreadGroup::start(&plan, Flags::default(), job).unwrap();
        group.finish(Duration::from_secs(60), None, || {}).parts
    };
    assert_eq!(slack_ns(true), [1, 1]);
    assert!(slack_ns(false).into_iter().all(|ns| ns > 1));
}

#[test]
fn more_descriptors_than_fit_are_handed_over() {
    const COUNT: usize = 700;
    let plan = EndPlan { cpus: vec![None], own_tables: true, ..test_plan() };
    let job = |_| {
        EndThread::new(Vec::new(), |mut start: ThreadStart<usize>| {
            start.ready();
            let (one, _) = UnixStream::pair().unwrap();
            let kept: Vec<OwnedFd> = (0..COUNT).map(|_| one.try_clone().unwrap().into()).collect();
            start.pass_descriptors(kept).len()
        })
    };
    bytegauge_sys::process::raise_open_files().unwrap();
    let group = ThreadGroup::start(&plan, Flags::default(), job).unwrap();
    let left = group.finish(Duration::from_secs(60), None, || {});
    assert_eq!((left.parts, left.given.len()), (vec![0], COUNT));
}

/// Starts three threads with tables of their own, one of which cannot begin. Returns the job's other sides.
fn fails_to_start(cpus: Vec<Option<usize>>, extra: impl Fn(usize) -> Vec<RawFd>) -> Vec<UnixStream> {
    let plan = EndPlan { cpus, own_tables: true, ..test_plan() };
    let mut peers = Vec::new();
    let job = |thread| {
        let (ours, theirs) = UnixStream::pair().unwrap();
        peers.push(theirs);
        let kept = [vec![descriptor_table::number(ours.as_fd())], extra(thread)].concat();
        EndThread::new(kept, move |_start: ThreadStart<usize>| {
            drop(ours);
            0
        })
    };
    ThreadGroup::start(&plan, Flags::default(), job).unwrap_err();
    peers
}

#[test]
fn crew_that_cannot_start_keeps_no_descriptor() {
    use io::Read;
    let check = |peers: Vec<UnixStream>| {
        for mut peer in peers {
            peer.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            // The end of stream: no copy of the other side is open in any table.
            assert_eq!(peer.read(&mut [0]).unwrap(), 0);
        }
    };
    // No machine has this CPU.
    check(fails_to_start(vec![None, None, Some(1 << 20)], |_| Vec::new()));
    // One thread fails while the others leave the shared table: it keeps a descriptor that is not open.
    for fails in 0..3 {
        check(fails_to_start(vec![None; 3], |thread| if thread == fails { vec![RawFd::MAX] } else { Vec::new() }));
    }
}

fn start(job: impl Fn(&Flags, usize) -> usize + Clone + Send + 'static) -> ThreadGroup<usize> {
    let plan = EndPlan { cpus: vec![None; 3], ..test_plan() };
    ThreadGroup::start(&plan, Flags::default(), |thread| {
        let job = job.clone();
        let run = move |mut start: ThreadStart<usize>| {
            start.ready();
            job(&start.flags, thread)
        };
        EndThread::new(Vec::new(), run)
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
        let _woken = clock::sleep_until_ns(clock::monotonic_ns() + hour_ns);
    }
}

#[test]
fn threads_have_the_tables_they_are_asked_for() {
    let shares = |own_tables| {
        let starter = descriptor_table::thread_id();
        let plan = EndPlan { cpus: vec![None; 2], own_tables, ..test_plan() };
        let job = |_| {
            EndThread::new(Vec::new(), move |mut start: ThreadStart<bool>| {
                start.ready();
                descriptor_table::is_shared_with(starter).unwrap()
            })
        };
        ThreadGroup::start(&plan, Flags::default(), job).unwrap().finish(Duration::from_secs(60), None, || {}).parts
    };
    assert_eq!((shares(true), shares(false)), (vec![false; 2], vec![true; 2]));
}

#[test]
fn descriptors_outlive_a_table_that_hands_them_over() {
    let (mut peer, ours) = UnixStream::pair().unwrap();
    let plan = EndPlan { cpus: vec![None], own_tables: true, ..test_plan() };
    let mut ours = Some(OwnedFd::from(ours));
    let group = ThreadGroup::start(&plan, Flags::default(), |_| {
        let ours = ours.take().unwrap();
        let number = descriptor_table::number(ours.as_fd());
        let run = move |mut start: ThreadStart<usize>| {
            start.ready();
            start.pass_descriptors(vec![ours]).len()
        };
        EndThread::new(vec![number], run)
    });
    let left = group.unwrap().finish(Duration::from_secs(60), None, || {});
    assert_eq!((left.parts, left.given.len()), (vec![0], 1));
    let mut given = UnixStream::from(left.given.into_iter().next().unwrap());
    io::Write::write_all(&mut given, b"x").unwrap();
    drop(given);
    // The last copy was closed: the peer reads the end of the stream.
    let mut text = String::new();
    io::Read::read_to_string(&mut peer, &mut text).unwrap();
    assert_eq!(text, "x");
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
    let held = Arc::new(std::sync::Mutex::new(held));
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
        EndThread::new(Vec::new(), run)
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
        EndThread::new(Vec::new(), |mut start: ThreadStart<bool>| start.begin().is_some())
    });
    assert!(group.unwrap_err().to_string().contains("--placement unpinned"));
}
