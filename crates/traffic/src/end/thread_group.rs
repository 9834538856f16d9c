//! The threads of one end: pinned, started together, watched, woken, joined.
//!
//! The watchdog is the thread that waits for them. It sleeps without a timer tick: a thread that has to leave, or is late, is
//! woken out of its wait by signals, repeatedly until it has reported, since one signal may come a moment too early.

mod starting;

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytegauge_sys::interrupt::{ThreadHandle, interrupt};
use bytegauge_sys::socket::{self, Until};
use bytegauge_sys::{descriptor_table, shared_port};

use crate::end::gate::Gate;
use crate::end::plan::EndPlan;
use crate::end::thread_group::starting::{ReadyReport, Starting};
use crate::end_error::EndError;
use crate::transfer_limit::TransferLimit;

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

/// One thread's share of an end.
pub struct EndThread<T> {
    /// The descriptors that it owns, and those that it shares with other threads. It uses no others that were opened before.
    pub(crate) descriptors: Vec<RawFd>,
    /// Prepares memory, waits at the gate unless it works before, runs, and drains.
    pub(crate) work: Box<dyn FnOnce(ThreadStart<T>) -> T + Send>,
}

impl<T> EndThread<T> {
    /// A thread with this work.
    pub fn new(descriptors: Vec<RawFd>, work: impl FnOnce(ThreadStart<T>) -> T + Send + 'static) -> EndThread<T> {
        EndThread { descriptors, work: Box::new(work) }
    }
}

/// Running threads, each with a result of type `T`.
#[derive(Debug)]
pub struct ThreadGroup<T> {
    flags: Flags,
    gate: Arc<Gate>,
    what: String,
    threads: Vec<JoinHandle<()>>,
    handles: Vec<ThreadHandle>,
    /// For threads that leave the shared descriptor table: opens when all have been started.
    tables: Arc<Gate>,
    /// Opens when all have left it.
    all_left: Arc<Gate>,
    /// The channel over which threads with tables of their own hand over descriptors.
    given: Option<UnixStream>,
    /// Descriptors handed over so far.
    taken: Vec<OwnedFd>,
    news: mpsc::Receiver<ThreadEvent<T>>,
}

/// A thread's message to the watchdog.
enum ThreadEvent<T> {
    /// It hands over more descriptors than fit into the channel.
    Gives,
    /// Its window has closed; it drains.
    Closed { thread: usize },
    /// It is done.
    Finished { thread: usize, part: T },
}

/// A step of a thread's preparation.
enum Preparing {
    /// It was started, and waits to leave the shared descriptor table.
    Started,
    /// It has left the shared descriptor table, and waits until all have.
    LeftTable,
    /// It is prepared.
    Ready(ThreadHandle),
    /// It cannot begin.
    Failed(EndError),
}

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
    gate: Arc<Gate>,
    thread: usize,
    ready: Option<ReadyReport>,
    /// The channel for descriptors that outlive the thread, if its table does not.
    give: Option<Arc<UnixStream>>,
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
    /// Descriptors that threads with tables of their own handed over.
    pub given: Vec<OwnedFd>,
    /// Whether the limits of the end were used up: other faults follow from it.
    pub is_used_up: bool,
}

impl<T> ThreadResults<T> {
    /// The same with a part of each thread's result, and the other parts.
    pub(crate) fn split<A, B>(self, split: impl Fn(T) -> (A, B)) -> (ThreadResults<A>, Vec<B>) {
        let ThreadResults { parts, in_time, fault, given, is_used_up } = self;
        let (parts, others) = parts.into_iter().map(split).unzip();
        (ThreadResults { parts, in_time, fault, given, is_used_up }, others)
    }
}

impl<T> ThreadStart<T> {
    /// Reports that everything is prepared, for a thread that works before the gate is open.
    pub fn ready(&mut self) {
        if let Some((tell, handle)) = self.ready.take() {
            // The channel is closed if another thread could not begin.
            let _ = tell.send(Preparing::Ready(handle));
        }
    }

    /// Reports that everything is prepared, and waits at the gate: the time of its opening, nanoseconds of the monotonic
    /// clock. `None` if the trial was called off.
    pub(crate) fn begin(&mut self) -> Option<u64> {
        self.ready();
        self.gate.wait()
    }

    /// The same, calling `what` at once and repeatedly until the gate opens.
    pub(crate) fn begin_doing(&mut self, every: Duration, what: impl FnMut()) -> Option<u64> {
        self.ready();
        self.gate.wait_doing(every, what)
    }

    /// The time at which the gate opened; 0 before.
    pub(crate) fn opened_ns(&self) -> Arc<AtomicU64> {
        self.gate.opened_ns()
    }

    /// Hands descriptors over to the thread that waits for this one. Returned descriptors need not be handed over: both
    /// threads use one table.
    pub(crate) fn pass_descriptors(&self, kept: Vec<OwnedFd>) -> Vec<OwnedFd> {
        let Some(give) = &self.give else { return kept };
        let deadline = Instant::now() + ABORT;
        for fd in kept {
            while let Err(error) = shared_port::pass_on(give.as_fd(), &[0], fd.as_fd()) {
                // The queue is full after some hundreds, until the watchdog empties it, which it no longer does after giving up.
                let is_full = error.kind() == io::ErrorKind::WouldBlock && Instant::now() < deadline;
                if !is_full || self.tell.send(ThreadEvent::Gives).is_err() {
                    return Vec::new();
                }
                let _ = socket::wait(give.as_fd(), Until::Writable, ABORT.as_nanos() as u64);
            }
        }
        Vec::new()
    }

    /// Reports that the window has closed, and that the rest is not measured.
    pub(crate) fn closed(&self) {
        // The channel is closed if the watchdog has given up already.
        let _ = self.tell.send(ThreadEvent::Closed { thread: self.thread });
    }
}

impl<T: Send + 'static> ThreadGroup<T> {
    /// Starts the threads and waits until all of them are prepared.
    ///
    /// With private tables, a thread keeps only its own descriptors, and they are closed here, so that a connection ends when
    /// its thread closes it. Threads leave the shared table once all of them have been started, and begin their work once all
    /// have left. The work of a thread that cannot begin is dropped here, so that its descriptors are closed in the shared table;
    /// copies in another table are closed when its thread ends.
    pub fn start(
        plan: &EndPlan,
        flags: Flags,
        mut thread_of: impl FnMut(usize) -> EndThread<T>,
    ) -> Result<ThreadGroup<T>, EndError> {
        let EndPlan { name, fewer, stack, own_tables, page_offset, waits, .. } = *plan;
        let (what, count) = (plan.what.clone(), plan.cpus.len());
        let (tell, news) = mpsc::channel();
        let (report, reports) = mpsc::channel();
        // Dropped last.
        let (give_back, not_begun) = mpsc::channel();
        let (given, give) = match own_tables {
            true => UnixStream::pair().map(|(given, give)| (Some(given), Some(Arc::new(give)))),
            false => Ok((None, None)),
        }
        .map_err(EndError::io("preparing descriptor tables"))?;
        let mut group = ThreadGroup::of(count, what, flags, given, news);
        let mut owned: Vec<RawFd> = give.iter().map(|give| descriptor_table::number(give.as_fd())).collect();
        for (thread, cpu) in plan.cpus.iter().copied().enumerate() {
            let EndThread { descriptors: mut kept, work } = thread_of(thread);
            owned.extend(&kept);
            kept.extend(give.iter().map(|give| descriptor_table::number(give.as_fd())));
            let preparation = Starting {
                kept,
                waits,
                cpu,
                tables: Arc::clone(&group.tables),
                all_left: Arc::clone(&group.all_left),
                report: report.clone(),
            };
            let (flags, gate) = (group.flags.clone(), Arc::clone(&group.gate));
            let (give, tell, give_back) = (give.clone(), tell.clone(), give_back.clone());
            let run = move || {
                let _dies = DeathReport { tell: tell.clone(), thread };
                page_offset.set_for_thread();
                match preparation.prepare(give.is_some()) {
                    Some(ready) => {
                        let start = ThreadStart { flags, gate, thread, ready: Some(ready), give, tell: tell.clone() };
                        let part = work(start);
                        let _ = tell.send(ThreadEvent::Finished { thread, part });
                    }
                    // The channel is closed if the group has given up waiting for this thread.
                    None => drop(give_back.send((work, give))),
                }
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
        drop((tell, report, give_back));
        let begun = group.all_begin(count, &reports, || {
            // Every thread has its copies now. Threads may share one, such as a listener.
            owned.sort_unstable();
            owned.dedup();
            descriptor_table::close_copies(&owned);
            // The last thread to drop it would close it in one table only; it was closed in the shared one above.
            give.into_iter().for_each(std::mem::forget);
        });
        match begun {
            Ok(()) => Ok(group),
            Err(fault) => {
                let fault = group.abandon(fault);
                drop(not_begun);
                Err(fault)
            }
        }
    }

    fn of(
        count: usize,
        what: String,
        flags: Flags,
        given: Option<UnixStream>,
        news: mpsc::Receiver<ThreadEvent<T>>,
    ) -> ThreadGroup<T> {
        let gate = || Arc::new(Gate::new());
        ThreadGroup {
            flags,
            gate: gate(),
            what,
            threads: Vec::with_capacity(count),
            handles: Vec::with_capacity(count),
            tables: gate(),
            all_left: gate(),
            given,
            taken: Vec::new(),
            news,
        }
    }

    /// Waits until all threads are prepared; calls `left` once all have left the shared descriptor table, if they do.
    fn all_begin(
        &mut self,
        count: usize,
        reports: &mpsc::Receiver<Preparing>,
        left: impl FnOnce(),
    ) -> Result<(), EndError> {
        let (mut started, mut have_left, mut left) = (0, 0, Some(left));
        while self.handles.len() < count {
            match reports.recv() {
                Ok(Preparing::Started) => {
                    started += 1;
                    if started == count {
                        self.tables.open();
                    }
                }
                Ok(Preparing::LeftTable) => {
                    have_left += 1;
                    if have_left == count {
                        left.take().into_iter().for_each(|left| left());
                        self.all_left.open();
                    }
                }
                Ok(Preparing::Ready(handle)) => self.handles.push(handle),
                Ok(Preparing::Failed(fault)) => return Err(fault),
                Err(_) => return Err(dead(&self.what)),
            }
        }
        Ok(())
    }

    /// Opens the gate.
    pub(crate) fn begin(&self) {
        self.gate.open();
    }

    /// Releases the threads that wait at the gate, without a trial.
    pub(crate) fn call_off(&self) {
        self.gate.call_off();
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
        self.take_given();
        ThreadResults { parts, in_time, fault, given: self.taken, is_used_up: false }
    }

    /// Whether a thread has ended.
    pub fn any_left(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Ends all threads before all have begun.
    fn abandon(mut self, fault: EndError) -> EndError {
        self.gate.call_off();
        self.tables.call_off();
        self.all_left.call_off();
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

    /// Takes descriptors that were handed over.
    fn take_given(&mut self) {
        let Some(given) = self.given.as_ref().filter(|given| given.set_nonblocking(true).is_ok()) else { return };
        let next = || shared_port::take_on(given.as_fd(), &mut [0]).ok().and_then(|(_, fd)| fd);
        self.taken.extend(std::iter::from_fn(next));
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
                Ok(ThreadEvent::Gives) => self.take_given(),
                Ok(ThreadEvent::Closed { thread }) => close(thread),
                Ok(ThreadEvent::Finished { thread, part }) => {
                    parts.push(part);
                    *missing -= 1;
                    close(thread);
                }
                Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => self.nudge(),
                Err(RecvTimeoutError::Timeout) => {
                    let after_ms = began.elapsed().as_millis() as u64;
                    return Some(EndError::Stalled { what: self.what.clone(), after_ms });
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

fn dead(what: &str) -> EndError {
    EndError::Impossible(format!("a thread died in the middle of {what}"))
}

#[cfg(test)]
mod tests;
