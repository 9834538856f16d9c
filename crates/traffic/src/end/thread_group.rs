//! The threads of one end, whatever its role: what they are ([`EndPlan`]), and how they are pinned, started together at a gate,
//! watched, woken, and joined.
//!
//! The watchdog is the thread that waits for them. It sleeps without a timer tick: a thread that has to leave, or is late, is
//! woken out of its wait by signals, repeatedly until it has reported, since one signal may come a moment too early.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytegauge_sys::affinity;
use bytegauge_sys::buffer::PageOffset;
use bytegauge_sys::clock::{self, monotonic_ns};
use bytegauge_sys::interrupt::{ThreadHandle, interrupt};

use crate::EndError;
use crate::lock;
use crate::setup::{Bound, Setup, TransferLimit};

/// Stack of a thread with one flow: there may be thousands of them.
pub(crate) const SMALL_STACK: usize = 256 << 10;

/// Stack of a thread with an engine of its own.
pub(crate) const LARGE_STACK: usize = 2 << 20;

/// The threads of an end, and when it is over.
#[derive(Clone, Debug, Default)]
pub struct EndPlan {
    /// The task, for the watchdog's message.
    pub(crate) what: String,
    /// The threads' name, followed by a number.
    pub(crate) name: &'static str,
    /// The CPU of each; `None`: not pinned.
    pub(crate) cpus: Vec<Option<usize>>,
    /// The flag that reduces their number.
    pub(crate) fewer: &'static str,
    /// Stack size of each, bytes.
    pub(crate) stack: usize,
    /// Where their buffers begin within a page.
    pub(crate) page_offset: PageOffset,
    /// Whether they, or threads that they start, wait for given times: they are then woken as exactly as the kernel can.
    pub(crate) waits: bool,
    /// Whether they work before `Go`: they are woken by it, and report even if the trial is called off.
    pub(crate) works_before: bool,
    /// Whether the end continues until it is stopped, rather than by its schedule.
    pub(crate) until_stopped: bool,
    /// How long it may take from `Go`, or from the stop, before it counts as stalled, nanoseconds.
    pub(crate) patience_ns: u64,
    /// If only some of its threads follow the schedule, those; the others continue until the end is stopped, after that.
    pub(crate) windowed: Option<Range<usize>>,
    /// Its limits, if its host's owner sets any.
    pub(crate) bound: Option<Bound>,
}

impl EndPlan {
    /// Threads on these CPUs that wait for `Go` and have nothing of their own, without a time limit.
    pub fn of(what: String, name: &'static str, cpus: Vec<Option<usize>>, fewer: &'static str) -> EndPlan {
        EndPlan { what, name, cpus, fewer, stack: LARGE_STACK, patience_ns: u64::MAX, ..EndPlan::default() }
    }

    /// The same with the limits of a setup, and with buffers where it places them.
    pub(crate) fn within(self, setup: &Setup) -> EndPlan {
        EndPlan { page_offset: setup.page_offset(), bound: setup.bound, ..self }
    }
}

/// How long a thread may take to leave before it is abandoned.
const ABORT: Duration = Duration::from_secs(if cfg!(test) { 5 } else { 1 });

/// Interval between signals to a thread that should leave.
const NUDGE: Duration = Duration::from_millis(5);

/// Flags that the threads of a group check.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// Set by the watchdog: leave at once.
    pub abort: Arc<AtomicBool>,
    /// Set to stop threads without a schedule of their own.
    pub stop_requested: Arc<AtomicBool>,
    /// Their common limits, if any.
    pub(crate) limit: Option<Arc<TransferLimit>>,
}

/// One thread's share of an end: prepares memory, waits at the gate unless it works before, runs, and drains.
pub type EndThread<T> = Box<dyn FnOnce(ThreadStart<T>) -> T + Send>;

/// Running threads, each with a result of type `T`.
#[derive(Debug)]
pub struct ThreadGroup<T> {
    flags: Flags,
    pub(super) gate: Arc<Gate>,
    what: String,
    threads: Vec<JoinHandle<()>>,
    handles: Vec<ThreadHandle>,
    news: mpsc::Receiver<ThreadEvent<T>>,
}

/// A thread's message to the watchdog.
enum ThreadEvent<T> {
    /// Its window has closed; it drains.
    Closed { thread: usize },
    /// It is done.
    Finished { thread: usize, part: T },
}

/// The result of a thread's preparation.
type Prepared = Result<ThreadHandle, EndError>;

/// Reports for a thread that dies that its window has closed: otherwise others would wait for it, and the watchdog would report
/// that they stalled.
struct DeathReport<T> {
    tell: mpsc::Sender<ThreadEvent<T>>,
    thread: usize,
}

impl<T> Drop for DeathReport<T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The channel is closed if the watchdog has given up already.
            let _ = self.tell.send(ThreadEvent::Closed { thread: self.thread });
        }
    }
}

/// A thread's connection to the group: the flags that it checks and the channels of its messages.
pub struct ThreadStart<T> {
    /// The flags of its group.
    pub flags: Flags,
    pub(super) gate: Arc<Gate>,
    thread: usize,
    /// The report that it is prepared, until it is sent.
    ready: Option<(mpsc::Sender<Prepared>, ThreadHandle)>,
    tell: mpsc::Sender<ThreadEvent<T>>,
}

/// The results of a group.
pub struct ThreadResults<T> {
    /// Results of the threads that reported, in the order of their reports.
    pub parts: Vec<T>,
    /// The number of those that reported before the watchdog's time-out.
    pub in_time: usize,
    /// The fault of a thread that did not report in time, or died.
    pub fault: Option<EndError>,
    /// Whether the limits of the end were used up: other faults follow from it.
    pub is_used_up: bool,
}

impl<T> ThreadStart<T> {
    /// Reports that everything is prepared, for a thread that works before the gate is open.
    pub fn ready(&mut self) {
        if let Some((tell, handle)) = self.ready.take() {
            // The channel is closed if another thread could not begin.
            let _ = tell.send(Ok(handle));
        }
    }

    /// Reports that everything is prepared, and waits at the gate: the time of its opening, nanoseconds of the monotonic
    /// clock. `None` if the trial was called off.
    pub(crate) fn begin(&mut self) -> Option<u64> {
        self.begin_doing(Duration::MAX, || {})
    }

    /// The same, calling `what` at once and repeatedly until the gate opens.
    pub(crate) fn begin_doing(&mut self, every: Duration, what: impl FnMut()) -> Option<u64> {
        self.ready();
        self.gate.wait_doing(every, what)
    }

    /// Reports that the window has closed, and that the rest is not measured.
    pub(crate) fn closed(&self) {
        // The channel is closed if the watchdog has given up already.
        let _ = self.tell.send(ThreadEvent::Closed { thread: self.thread });
    }
}

impl<T: Send + 'static> ThreadGroup<T> {
    /// Starts the threads and waits until all of them are prepared.
    pub fn start(
        plan: &EndPlan,
        flags: Flags,
        mut thread_of: impl FnMut(usize) -> EndThread<T>,
    ) -> Result<ThreadGroup<T>, EndError> {
        let EndPlan { name, fewer, stack, page_offset, waits, .. } = *plan;
        let count = plan.cpus.len();
        let (tell, news) = mpsc::channel();
        let (report, reports) = mpsc::channel();
        let mut group = ThreadGroup {
            flags,
            gate: Arc::default(),
            what: plan.what.clone(),
            threads: Vec::with_capacity(count),
            handles: Vec::with_capacity(count),
            news,
        };
        for (thread, cpu) in plan.cpus.iter().copied().enumerate() {
            let work = thread_of(thread);
            let (flags, gate) = (group.flags.clone(), Arc::clone(&group.gate));
            let (tell, report) = (tell.clone(), report.clone());
            let run = move || {
                let _dies = DeathReport { tell: tell.clone(), thread };
                page_offset.set_for_thread();
                // Each channel is closed if the group has given up waiting for this thread.
                let _ = match prepare(waits, cpu) {
                    Ok(handle) => {
                        let ready = Some((report, handle));
                        let part = work(ThreadStart { flags, gate, thread, ready, tell: tell.clone() });
                        tell.send(ThreadEvent::Finished { thread, part }).is_ok()
                    }
                    Err(fault) => report.send(Err(fault)).is_ok(),
                };
            };
            let started = std::thread::Builder::new().name(format!("{name}-{thread}")).stack_size(stack).spawn(run);
            match started {
                Ok(thread) => group.threads.push(thread),
                Err(source) => {
                    let doing = format!("starting thread {thread} of {count}: use fewer {fewer}");
                    return Err(group.abandon(EndError::Io { doing, source }));
                }
            }
        }
        // Only the threads have the sending sides now, so a thread that dies silently is noticed.
        drop((tell, report));
        while group.handles.len() < count {
            match reports.recv().unwrap_or_else(|_| Err(dead(&group.what))) {
                Ok(handle) => group.handles.push(handle),
                Err(fault) => return Err(group.abandon(fault)),
            }
        }
        Ok(group)
    }

    /// Stops threads without a schedule of their own.
    pub fn stop(&self) {
        self.flags.stop_requested.store(true, Ordering::Relaxed);
        self.nudge();
    }

    /// Waits for every thread, for at most `patience`; then ends the others. `closed` is called once, when the windows of all
    /// threads have closed, or of those that have one: a thread that ends wants no more data either.
    pub fn finish(
        mut self,
        patience: Duration,
        windowed: Option<Range<usize>>,
        closed: impl FnMut(),
    ) -> ThreadResults<T> {
        let (mut parts, mut missing) = (Vec::with_capacity(self.threads.len()), self.threads.len());
        let windowed = windowed.unwrap_or(0..missing);
        let mut fault = self.collect(&mut parts, &mut missing, patience, (&windowed, closed));
        let in_time = parts.len();
        if missing > 0 {
            self.flags.abort.store(true, Ordering::Relaxed);
            let _ = self.collect(&mut parts, &mut missing, ABORT, (&windowed, || {}));
        }
        if missing == 0 {
            for thread in self.threads.drain(..) {
                if thread.join().is_err() {
                    fault.get_or_insert(dead(&self.what));
                }
            }
        }
        ThreadResults { parts, in_time, fault, is_used_up: false }
    }

    /// Whether a thread has ended.
    pub fn any_left(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Ends all threads before all have begun.
    fn abandon(mut self, fault: EndError) -> EndError {
        self.gate.call_off();
        self.flags.abort.store(true, Ordering::Relaxed);
        self.stop();
        let deadline = Instant::now() + ABORT;
        while !self.threads.iter().all(JoinHandle::is_finished) && Instant::now() < deadline {
            self.nudge();
            std::thread::sleep(Duration::from_micros(200));
        }
        for thread in self.threads.drain(..).filter(JoinHandle::is_finished) {
            let _ = thread.join();
        }
        fault
    }

    fn collect(
        &mut self,
        parts: &mut Vec<T>,
        missing: &mut usize,
        patience: Duration,
        (windowed, mut closed): (&Range<usize>, impl FnMut()),
    ) -> Option<EndError> {
        let began = Instant::now();
        let deadline = began + patience;
        let mut open: Vec<bool> = (0..self.threads.len()).map(|thread| windowed.contains(&thread)).collect();
        let mut close = |thread: usize| {
            if std::mem::take(&mut open[thread]) && !open.contains(&true) {
                closed();
            }
        };
        while *missing > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            let leaves =
                [&self.flags.abort, &self.flags.stop_requested].iter().any(|flag| flag.load(Ordering::Relaxed));
            match self.news.recv_timeout(if leaves { left.min(NUDGE) } else { left }) {
                Ok(ThreadEvent::Closed { thread }) => close(thread),
                Ok(ThreadEvent::Finished { thread, part }) => {
                    parts.push(part);
                    *missing -= 1;
                    close(thread);
                }
                Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => self.nudge(),
                Err(RecvTimeoutError::Timeout) => {
                    let after_ms = began.elapsed().as_millis() as u64;
                    return Some(EndError::Stalled(self.what.clone(), after_ms));
                }
                Err(RecvTimeoutError::Disconnected) => return Some(dead(&self.what)),
            }
        }
        None
    }

    /// Wakes waiting threads, so that they check their flags.
    pub(crate) fn nudge(&self) {
        for handle in &self.handles {
            // A thread that has ended, or a full queue of signals, is ignored.
            let _ = interrupt(handle);
        }
    }
}

/// Prepares the calling thread.
fn prepare(waits: bool, cpu: Option<usize>) -> Prepared {
    if waits {
        // If a filter forbids it, waits are late by the default slack, which is visible in their recorded lateness.
        let _ = clock::wake_precisely();
    }
    if let Some(cpu) = cpu {
        affinity::pin_thread(&[cpu]).map_err(|error| {
            EndError::Missing(format!("pinning to CPU {cpu} is not permitted ({error}): use --placement unpinned"))
        })?;
    }
    ThreadHandle::current().map_err(EndError::io("preparing the watchdog"))
}

fn dead(what: &str) -> EndError {
    EndError::Impossible(format!("a thread died in the middle of {what}"))
}

// The gate at which threads wait for `Go`: all start together, or none does.

/// A gate for any number of threads.
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// `None` while it is shut; then the time of its opening, or nothing if the trial was called off.
    state: Mutex<Option<Option<u64>>>,
    changed: Condvar,
    /// The time of opening, for threads that do not wait; 0 until then.
    pub(super) opened_ns: Arc<AtomicU64>,
}

impl Gate {
    /// Waits, calling `what` at once and repeatedly. Returns the time of opening, nanoseconds of the monotonic clock; `None` if the
    /// trial was called off.
    pub(super) fn wait_doing(&self, every: Duration, mut what: impl FnMut()) -> Option<u64> {
        loop {
            what();
            let waited = self.changed.wait_timeout_while(lock(&self.state), every, |state| state.is_none());
            if let Some(opened_ns) = *waited.unwrap_or_else(PoisonError::into_inner).0 {
                return opened_ns;
            }
        }
    }

    pub(super) fn open(&self) {
        let at_ns = monotonic_ns();
        self.opened_ns.store(at_ns, Ordering::Release);
        self.set(Some(at_ns));
    }

    pub(super) fn call_off(&self) {
        self.set(None);
    }

    fn set(&self, opened_ns: Option<u64>) {
        lock(&self.state).get_or_insert(opened_ns);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests;
