//! One sample: a program is traced for a moment, by a thread that does nothing else, and let go.
//!
//! The thread ends with the sample: should anything go wrong on the way, its end lets the program go.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use bytegauge_sys::interrupt::{self, ThreadHandle};
use bytegauge_sys::trace::{Called, Did, LETTING_GO, Seen, TraceCost, Tracer};
use bytegauge_sys::{children, descendants};

use crate::counted::Counted;
use crate::refusal::{ObserveError, refused};

/// Calls after which a sample is long enough: a program that makes many is held up for less time.
const CALLS_MAX: u64 = 5_000;

/// How often a sample's end is looked for: shorter than any sample that says something.
const TICK: Duration = Duration::from_millis(5);

/// A thread that makes calls stops by itself within this time, and none of them is cut short.
const BY_ITSELF: Duration = Duration::from_millis(15);

/// What a sample came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sampled {
    /// How long the program was traced.
    pub(super) length: Duration,
    /// Calls that were seen.
    pub(super) calls: u64,
    /// The process has ended.
    pub(super) ended: bool,
    pub(super) cost: TraceCost,
}

/// Traces a process and its descendants for so long, or until enough is seen, and counts what they do; meanwhile `pace` is
/// called again and again.
pub(super) fn sample(
    pid: u32,
    length: Duration,
    stands_still: bool,
    stop: &AtomicBool,
    counted: &mut Counted,
    pace: &mut dyn FnMut(),
) -> Result<Sampled, ObserveError> {
    interrupt::install().map_err(|source| ObserveError::System { pid, source })?;
    thread::scope(|scope| {
        let tracing = thread::Builder::new().name("observe".into());
        let traced = tracing.spawn_scoped(scope, || trace(pid, length, stands_still, stop, counted));
        match traced {
            Ok(thread) => {
                while !thread.is_finished() {
                    pace();
                    thread::sleep(TICK);
                }
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            }
            Err(source) => Err(ObserveError::System { pid, source }),
        }
    })
}

fn trace(
    pid: u32,
    length: Duration,
    stands_still: bool,
    stop: &AtomicBool,
    counted: &mut Counted,
) -> Result<Sampled, ObserveError> {
    let system = |source: io::Error| ObserveError::System { pid, source };
    let handle = ThreadHandle::current().map_err(system)?;
    counted.check_open();
    let mut tracer = Tracer::new();
    let began = Instant::now();
    tracer.seize(pid).map_err(|error| refused(pid, error))?;
    for child in descendants::tree(pid).unwrap_or_default().into_iter().filter(|child| *child != pid) {
        // A child that ends meanwhile, or is not ours to trace, is left out.
        let _ = tracer.seize(child);
    }
    if stands_still {
        children::signal_group(pid, children::CONT);
    }
    let over = AtomicBool::new(false);
    let (done, watched) = mpsc::channel::<()>();
    thread::scope(|scope| {
        // Wakes the tracing thread when it is to look up: again and again, since one signal may come too early.
        scope.spawn(|| {
            let watched = watched;
            while watched.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                if began.elapsed() >= length || stop.load(Ordering::Relaxed) || over.load(Ordering::Relaxed) {
                    over.store(true, Ordering::Relaxed);
                    let _ = interrupt::interrupt(&handle);
                }
            }
        });
        let sampled = follow(&mut tracer, pid, &over, counted);
        drop(done);
        let (calls, ended, foreign) = sampled.map_err(system)?;
        match foreign {
            Some(pid) => Err(ObserveError::Foreign(pid)),
            None => Ok(Sampled { length: began.elapsed(), calls, ended, cost: tracer.cost() }),
        }
    })
}

/// Counts until it is over, and lets all go: calls seen, whether the process has ended, and who is a 32-bit program.
fn follow(
    tracer: &mut Tracer,
    pid: u32,
    over: &AtomicBool,
    counted: &mut Counted,
) -> io::Result<(u64, bool, Option<u32>)> {
    let (mut calls, mut ended, mut foreign) = (0, false, None);
    let mut letting_go: Option<Instant> = None;
    while !tracer.has_no_threads() {
        let enough = calls >= CALLS_MAX || foreign.is_some() || over.load(Ordering::Relaxed);
        match letting_go {
            None if enough => {
                over.store(true, Ordering::Relaxed);
                tracer.let_go();
                letting_go = Some(Instant::now());
            }
            // Those that are blocked do not stop by themselves.
            Some(since) if since.elapsed() > BY_ITSELF && since.elapsed() <= LETTING_GO => tracer.insist(),
            // A thread that sleeps where no signal reaches it is let go by our own end.
            Some(since) if since.elapsed() > LETTING_GO => break,
            _ => {}
        }
        tracer.next(&mut |seen| match seen {
            Seen::Called(called) => {
                calls += 1;
                count(counted, called);
            }
            Seen::Ended(who, status) => {
                ended |= *who == pid;
                counted.gone(*who, status.is_some());
            }
            Seen::Executed(who) => counted.executed(*who),
            Seen::OtherArchitecture(who) => foreign = Some(*who),
        })?;
    }
    Ok((calls, ended, foreign))
}

fn count(counted: &mut Counted, called: &Called) {
    counted.met(called.pid);
    match &called.did {
        Did::Moved(transfers) => {
            transfers.iter().for_each(|transfer| counted.moved(called.pid, called.tid, called.name, transfer));
        }
        Did::Waited => counted.waits += 1,
        Did::Ended(fd) => counted.ended(called.pid, *fd),
        Did::Submitted(operations) => {
            counted.uring.0 += operations;
            counted.uring.1 += 1;
        }
    }
}
