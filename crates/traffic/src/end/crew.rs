//! The threads of one end that carry many connections each: pinned, started, watched, waited for.
//!
//! As for flows, the watchdog is the thread that waits. A thread that was told to leave, or is late, is woken
//! out of its wait by a signal, again and again until it has answered: one signal may come a moment too early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytegauge_sys::affinity;
use bytegauge_sys::interrupt::{ThreadHandle, interrupt};

use crate::fault::Fault;

/// How long a thread that was told to stop may take before it is left behind.
const ABORT: Duration = Duration::from_secs(1);

/// How often a thread that should leave is woken.
const NUDGE: Duration = Duration::from_millis(5);

/// Flags that the threads of a crew look at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flags {
    /// Set by the watchdog: leave at once.
    pub(crate) abort: Arc<AtomicBool>,
    /// Set when threads that go on until told are told.
    pub(crate) told: Arc<AtomicBool>,
}

/// Running threads, each of which ends in a `T`.
#[derive(Debug)]
pub(crate) struct Crew<T> {
    pub(crate) flags: Flags,
    what: String,
    threads: Vec<JoinHandle<()>>,
    handles: Vec<ThreadHandle>,
    news: mpsc::Receiver<(usize, T)>,
}

/// What came of a crew.
pub(crate) struct Left<T> {
    /// Of the threads that answered.
    pub(crate) parts: Vec<T>,
    /// A thread that did not answer in time, or died.
    pub(crate) fault: Option<Fault>,
}

impl<T: Send + 'static> Crew<T> {
    /// Starts `count` threads, each pinned to the CPU that `cpu` names for it, and waits until all of them are
    /// about to begin. `what` says what they do, for the watchdog.
    pub(crate) fn start<J>(
        what: String,
        count: usize,
        flags: Flags,
        cpu: impl Fn(usize) -> Option<usize>,
        mut job: impl FnMut(usize) -> J,
    ) -> Result<Crew<T>, Fault>
    where
        J: FnOnce() -> T + Send + 'static,
    {
        let (tell, news) = mpsc::channel();
        let (report_ready, ready) = mpsc::channel();
        let mut crew = Crew { flags, what, threads: Vec::with_capacity(count), handles: Vec::new(), news };
        for thread in 0..count {
            let (job, cpu, tell, report_ready) = (job(thread), cpu(thread), tell.clone(), report_ready.clone());
            let run = move || {
                let prepared =
                    pin(cpu).and_then(|()| ThreadHandle::current().map_err(Fault::io("preparing the watchdog")));
                let begins = prepared.is_ok();
                // Nobody listens any more if another thread could not begin.
                if report_ready.send(prepared).is_err() || !begins {
                    return;
                }
                drop(report_ready);
                let _ = tell.send((thread, job()));
            };
            let started = std::thread::Builder::new().name(format!("call-{thread}")).spawn(run);
            match started {
                Ok(thread) => crew.threads.push(thread),
                Err(source) => {
                    crew.abandon();
                    return Err(Fault::Io { doing: format!("starting thread {thread} of {count}"), source });
                }
            }
        }
        drop((tell, report_ready));
        for _ in 0..count {
            match ready.recv() {
                Ok(Ok(handle)) => crew.handles.push(handle),
                Ok(Err(fault)) => {
                    crew.abandon();
                    return Err(fault);
                }
                Err(_) => {
                    crew.abandon();
                    return Err(crew.dead());
                }
            }
        }
        Ok(crew)
    }

    /// Tells threads that go on until told.
    pub(crate) fn tell(&self) {
        self.flags.told.store(true, Ordering::Relaxed);
        self.nudge();
    }

    /// Waits for every thread, for at most `patience`; then ends those that are left.
    pub(crate) fn finish(mut self, patience: Duration) -> Left<T> {
        let mut parts: Vec<Option<T>> = self.threads.iter().map(|_| None).collect();
        let mut fault = self.collect(&mut parts, Instant::now() + patience);
        if parts.iter().any(Option::is_none) {
            self.flags.abort.store(true, Ordering::Relaxed);
            let _ = self.collect(&mut parts, Instant::now() + ABORT);
        }
        if parts.iter().all(Option::is_some) {
            for thread in self.threads.drain(..) {
                if thread.join().is_err() {
                    fault.get_or_insert(dead(&self.what));
                }
            }
        }
        Left { parts: parts.into_iter().flatten().collect(), fault }
    }

    /// Whether a thread has ended.
    pub(crate) fn any_left(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Sends everybody home.
    pub(crate) fn abandon(&self) {
        self.flags.abort.store(true, Ordering::Relaxed);
        self.tell();
    }

    fn collect(&self, parts: &mut [Option<T>], deadline: Instant) -> Option<Fault> {
        let began = Instant::now();
        while parts.iter().any(Option::is_none) {
            let left = deadline.saturating_duration_since(Instant::now());
            let leaves = [&self.flags.abort, &self.flags.told].iter().any(|flag| flag.load(Ordering::Relaxed));
            match self.news.recv_timeout(if leaves { left.min(NUDGE) } else { left }) {
                Ok((thread, part)) => parts[thread] = Some(part),
                Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => self.nudge(),
                Err(RecvTimeoutError::Timeout) => {
                    let after_ms = began.elapsed().as_millis() as u64;
                    return Some(Fault::Stalled { what: self.what.clone(), after_ms });
                }
                Err(RecvTimeoutError::Disconnected) => return Some(self.dead()),
            }
        }
        None
    }

    /// Wakes threads that wait, so that they look around.
    pub(crate) fn nudge(&self) {
        for handle in &self.handles {
            // A thread that has ended, or a queue of signals that is full, is no reason to stop.
            let _ = interrupt(handle);
        }
    }

    fn dead(&self) -> Fault {
        dead(&self.what)
    }
}

fn dead(what: &str) -> Fault {
    Fault::Impossible(format!("a thread died in the middle of {what}"))
}

fn pin(cpu: Option<usize>) -> Result<(), Fault> {
    let Some(cpu) = cpu else { return Ok(()) };
    affinity::pin_thread(&[cpu]).map_err(|error| {
        Fault::Missing(format!("pinning to CPU {cpu} is not permitted ({error}): use --placement unpinned"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytegauge_sys::clock;

    fn start(job: impl Fn(&Flags, usize) -> usize + Clone + Send + 'static) -> Crew<usize> {
        let flags = Flags::default();
        Crew::start(
            "a test".into(),
            3,
            flags.clone(),
            |_| None,
            |thread| {
                let (job, flags) = (job.clone(), flags.clone());
                move || job(&flags, thread)
            },
        )
        .unwrap()
    }

    /// Sleeps until a flag is set, as an engine that waits does: only a signal ends the wait early.
    fn until_flagged(flags: &Flags) {
        while ![&flags.abort, &flags.told].iter().any(|flag| flag.load(Ordering::Relaxed)) {
            let hour_ns = 3_600_000_000_000;
            let _woken = clock::sleep_until_ns(clock::monotonic_ns() + hour_ns);
        }
    }

    #[test]
    fn threads_that_are_told_leave() {
        let crew = start(|flags, thread| {
            until_flagged(flags);
            thread
        });
        crew.tell();
        let left = crew.finish(Duration::from_secs(60));
        assert!(left.fault.is_none());
        assert_eq!(left.parts, [0, 1, 2]);
    }

    #[test]
    fn threads_that_are_late_are_ended_and_named() {
        let left = start(|flags, thread| {
            until_flagged(flags);
            thread
        })
        .finish(Duration::from_millis(10));
        assert_eq!(left.parts.len(), 3);
        assert!(left.fault.unwrap().to_string().starts_with("stalled: a test"));
    }

    #[test]
    fn a_thread_that_dies_is_noticed_and_the_others_are_kept() {
        let crew = start(|_, thread| if thread == 1 { std::panic::resume_unwind(Box::new("planned")) } else { thread });
        let left = crew.finish(Duration::from_secs(60));
        assert!(left.fault.unwrap().to_string().contains("died"));
        assert_eq!(left.parts, [0, 2]);
    }
}
