//! One sample: a program is traced for a moment, by a thread that does nothing else, and released.
//!
//! The thread ends with the sample: after any error its end releases the program.

use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};

use bytegauge_sys::interrupt::{self, ThreadHandle};
use bytegauge_sys::owner::OwnerProcess;
use bytegauge_sys::trace::{Called, Did, LETTING_GO, TraceCost, TraceEvent, Tracer};
use bytegauge_sys::{children, process_tree};
use bytegauge_traffic::keeper::KeptProgram;

use crate::Signals;
use crate::counted::ProgramCounts;
use crate::refusal::{ObserveError, refused};

/// Calls after which a sample is long enough: a program that makes many calls is slowed for less time.
const CALLS_MAX: u64 = 5_000;

/// How often the end of a sample is checked: shorter than any useful sample.
const TICK: Duration = Duration::from_millis(5);

/// A thread that makes calls stops by itself within this time, and none of its calls is cut short.
const BY_ITSELF: Duration = Duration::from_millis(15);

/// The result of a sample.
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

/// Traces a process and its descendants for `length`, or until enough calls were seen or a signal ends the sample, and counts
/// them; calls `pace` repeatedly meanwhile.
pub(super) fn sample(
    (pid, process): (u32, OwnerProcess),
    length: Duration,
    is_stopped: bool,
    signals: &Signals,
    counted: &mut ProgramCounts,
    pace: &mut dyn FnMut(),
) -> Result<Sampled, ObserveError> {
    let system = |source: io::Error| ObserveError::System { pid, source };
    interrupt::install().map_err(system)?;
    let (began, over) = (OnceLock::new(), AtomicBool::new(false));
    thread::scope(|scope| {
        let tracing = thread::Builder::new().name("observe".into());
        let traced = tracing
            .spawn_scoped(scope, || trace((pid, process), is_stopped, &began, &over, counted))
            .map_err(system)?;
        while !traced.is_finished() {
            pace();
            thread::sleep(TICK);
            // Wakes the tracing thread at the end, repeatedly, since one signal may come too early.
            if let Some((thread, began)) = began.get()
                && (over.load(Ordering::Relaxed) || began.elapsed() >= length || signals.any())
            {
                over.store(true, Ordering::Relaxed);
                let _ = interrupt::interrupt(thread);
            }
        }
        traced.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The tracing thread: states itself and the time in `began`, and ends when `over` is set.
fn trace(
    (pid, process): (u32, OwnerProcess),
    is_stopped: bool,
    began: &OnceLock<(ThreadHandle, Instant)>,
    over: &AtomicBool,
    counted: &mut ProgramCounts,
) -> Result<Sampled, ObserveError> {
    let system = |source: io::Error| ObserveError::System { pid, source };
    let handle = ThreadHandle::current().map_err(system)?;
    counted.check_open();
    let mut tracer = Tracer::new();
    let (_, began) = began.get_or_init(|| (handle, Instant::now()));
    tracer.seize(pid).map_err(|error| refused(pid, error))?;
    // The number of a traced program is not given to another one.
    if !process.is_alive() {
        return Err(ObserveError::NoProcess(pid));
    }
    for child in process_tree::tree(pid).unwrap_or_default().into_iter().filter(|child| *child != pid) {
        // A child that ends meanwhile, or that may not be traced, is left out.
        let _ = tracer.seize(child);
    }
    if is_stopped {
        children::signal_group(pid, children::CONT);
    }
    let (calls, ended, other_arch) = follow(&mut tracer, pid, over, counted).map_err(system)?;
    match other_arch {
        Some(pid) => Err(ObserveError::Is32Bit(pid)),
        None => Ok(Sampled { length: began.elapsed(), calls, ended, cost: tracer.cost() }),
    }
}

/// Counts until the sample is over, and releases all threads: the calls, whether the process has ended, and a 32-bit program.
fn follow(
    tracer: &mut Tracer,
    pid: u32,
    over: &AtomicBool,
    counted: &mut ProgramCounts,
) -> io::Result<(u64, bool, Option<u32>)> {
    let (mut calls, mut ended, mut other_arch) = (0, false, None);
    let mut letting_go: Option<Instant> = None;
    while !tracer.has_no_threads() {
        let enough = calls >= CALLS_MAX || other_arch.is_some() || over.load(Ordering::Relaxed);
        match letting_go {
            None if enough => {
                over.store(true, Ordering::Relaxed);
                tracer.let_go();
                letting_go = Some(Instant::now());
            }
            // Blocked threads do not stop by themselves.
            Some(since) if since.elapsed() > BY_ITSELF && since.elapsed() <= LETTING_GO => tracer.insist(),
            // A thread in an uninterruptible sleep is released when this thread ends.
            Some(since) if since.elapsed() > LETTING_GO => break,
            _ => {}
        }
        tracer.next(&mut |seen| match seen {
            TraceEvent::Called(called) => {
                calls += 1;
                count(counted, called);
            }
            TraceEvent::Ended(who, status) => {
                ended |= *who == pid;
                counted.gone(*who, status.is_some());
            }
            TraceEvent::Executed(who) => counted.executed(*who),
            TraceEvent::OtherArchitecture(who) => other_arch = Some(*who),
        })?;
    }
    Ok((calls, ended, other_arch))
}

fn count(counted: &mut ProgramCounts, called: &Called) {
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

// A program that is started to be observed: it is stopped until it is traced.

/// Stops itself before it executes the program, so that the program is observed from its first call on.
const STOP_FIRST: [&str; 4] = ["/bin/sh", "-c", "kill -STOP $$; exec \"$@\"", "sh"];

/// If a shell does not stop within this time, the start has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Pause between two checks.
const LOOK: Duration = Duration::from_millis(5);

/// The program. Dropping it ends the program and every process that it started.
#[derive(Debug)]
pub struct Started(KeptProgram);

impl Started {
    /// Starts a program in a session of its own, without input, and stops it. It prints to standard error, since the report
    /// uses standard output. `program` is this program's own file.
    ///
    /// # Errors
    /// When no process can be started, or the program does not stop.
    pub fn start(program: &Path, words: &[String]) -> io::Result<Started> {
        let words: Vec<OsString> =
            STOP_FIRST.into_iter().map(OsString::from).chain(words.iter().map(OsString::from)).collect();
        let started =
            Started(KeptProgram::start(program, &words, [Stdio::null(), io::stderr().into(), Stdio::inherit()])?);
        let until = Instant::now() + PATIENCE;
        while process_tree::is_stopped(started.pid()) == Some(false) {
            if Instant::now() > until {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the program did not stop before its start: try again, or observe it with --pid",
                ));
            }
            thread::sleep(LOOK);
        }
        Ok(started)
    }

    /// The program's process.
    pub fn pid(&self) -> u32 {
        self.0.pid
    }
}
