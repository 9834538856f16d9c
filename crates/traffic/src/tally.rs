//! Counts of threads or tasks that work for one meter, so that its window includes them.
//!
//! Each thread counts in a [`ThreadCounter`] of its own; the meter adds them up at its marks. It also reads the CPU clock of
//! every living thread, whether it runs or sleeps, and keeps the CPU time of ended ones. So calls and
//! CPU time cover one interval. The kernel's work for a thread after its end is not included.
//!
//! Only a thread itself can read how its time is split between user and system, and its switches, so each notes them at
//! the first event after a mark: at the wake-up of a thread that slept over it they lack a part of a call.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use bytegauge_sys::cpu_time::{ThreadClock, Usage, thread_usage};

use crate::counter::{ThreadCounter, Total};
use crate::lock;

/// The state of a meter's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Not open yet.
    Before = 0,
    /// Open.
    Within = 1,
    /// Closed.
    After = 2,
}

/// Bytes, calls and short calls of one thread.
#[derive(Debug)]
pub struct CallCounter(ThreadCounter<3>);

impl CallCounter {
    /// One call moved `moved` of the `asked` bytes.
    #[inline]
    pub fn count(&self, moved: usize, asked: usize) {
        self.0.add([moved as u64, 1, u64::from(moved < asked)]);
    }
}

/// The phase, which every thread reads at every event, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct PhaseLine(AtomicU8);

/// The counts of the threads of one meter.
#[derive(Debug, Default)]
pub struct Tally {
    phase: PhaseLine,
    moved: Arc<Total<3>>,
    spent: Mutex<TallySpent>,
}

/// The usage of the threads.
#[derive(Debug, Default)]
struct TallySpent {
    /// Within the window, by their own notes.
    noted: Usage,
    /// Shares made so far.
    shares: usize,
    /// The clocks of those that live, by their shares.
    live: HashMap<usize, ThreadClock>,
    /// CPU time of those that have ended, ns.
    ended_ns: u64,
    /// CPU time of all when the window opened, and when it closed, ns.
    opened_ns: Option<u64>,
    closed_ns: Option<u64>,
}

impl TallySpent {
    /// CPU time of all threads so far, ns.
    fn total_ns(&self) -> u64 {
        // A thread removes its clock before it ends, under the same lock.
        self.ended_ns + self.live.values().filter_map(|clock| clock.read_ns()).sum::<u64>()
    }
}

impl Tally {
    /// The calling thread's share, to be made as the thread begins.
    pub fn share(self: &Arc<Self>) -> Share {
        let mut spent = self.spent();
        let number = spent.shares;
        spent.shares += 1;
        spent.live.insert(number, ThreadClock::of_this_thread());
        drop(spent);
        self.share_of(Some(number))
    }

    /// A share of the meter's own thread: it counts as any other one, and the meter charges the thread.
    pub fn share_of_meter(self: &Arc<Self>) -> Share {
        self.share_of(None)
    }

    fn share_of(self: &Arc<Self>, charged: Option<usize>) -> Share {
        Share {
            tally: Arc::clone(self),
            calls: self.call_counter(),
            charged,
            // A thread that begins within the window was started for its work there: all its usage counts.
            phase: self.phase.0.load(Ordering::Relaxed),
            opened: Usage::default(),
            of_this_thread: PhantomData,
        }
    }

    /// A counter for tasks that share their thread with each other and with the meter, which charges that thread.
    pub fn call_counter(&self) -> CallCounter {
        CallCounter(self.moved.counter())
    }

    /// The window opens or closes.
    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.0.store(phase as u8, Ordering::Relaxed);
        let mut spent = self.spent();
        let now_ns = spent.total_ns();
        match phase {
            Phase::Before => {}
            Phase::Within => _ = spent.opened_ns.get_or_insert(now_ns),
            Phase::After => _ = spent.closed_ns.get_or_insert(now_ns),
        }
    }

    /// Bytes, calls and short calls of all threads so far. Takes a lock, so it stays a function of its own (`cargo xtask hot-loops`).
    #[inline(never)]
    pub(crate) fn sums(&self) -> [u64; 3] {
        self.moved.sums()
    }

    /// The usage of the threads within the window, or since it opened.
    pub(crate) fn usage(&self) -> Usage {
        let spent = self.spent();
        let until_ns = spent.closed_ns.unwrap_or_else(|| spent.total_ns());
        let total_ns = spent.opened_ns.map_or(0, |opened_ns| until_ns.saturating_sub(opened_ns));
        Usage { total_ns, ..spent.noted }
    }

    fn spent(&self) -> MutexGuard<'_, TallySpent> {
        lock(&self.spent)
    }

    /// Whether threads other than the meter's own ever counted.
    pub(crate) fn has_threads(&self) -> bool {
        self.spent().shares > 0
    }
}

/// One thread's part of a [`Tally`]. Its CPU time is settled when it is dropped.
///
/// It holds the clock of the thread that made it, so it cannot be sent to another one.
#[derive(Debug)]
pub struct Share {
    tally: Arc<Tally>,
    calls: CallCounter,
    /// The number of the thread's clock; absent if the meter charges it.
    charged: Option<usize>,
    phase: u8,
    opened: Usage,
    of_this_thread: PhantomData<*const ()>,
}

impl Share {
    /// One call moved `moved` of the `asked` bytes.
    #[inline]
    pub fn count(&mut self, moved: usize, asked: usize) {
        self.check_window();
        self.calls.count(moved, asked);
    }

    /// Notes what the thread has used if the window has opened or closed since the last check.
    #[inline]
    fn check_window(&mut self) {
        let phase = self.tally.phase.0.load(Ordering::Relaxed);
        if phase != self.phase {
            self.note(phase);
        }
    }

    #[cold]
    fn note(&mut self, phase: u8) {
        if self.charged.is_some() {
            let now = thread_usage();
            if self.phase == Phase::Within as u8 {
                self.settle(&now);
            }
            self.opened = now;
        }
        self.phase = phase;
    }

    fn settle(&self, now: &Usage) {
        self.tally.spent().noted += now.since(&self.opened);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.check_window();
        let Some(number) = self.charged else { return };
        let now = thread_usage();
        if self.phase == Phase::Within as u8 {
            self.settle(&now);
        }
        let mut spent = self.tally.spent();
        spent.live.remove(&number);
        spent.ended_ns += now.total_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Burns CPU until the thread's own clock has advanced.
    fn burn(ns: u64) {
        let start_ns = thread_usage().total_ns;
        while thread_usage().total_ns - start_ns < ns {
            std::hint::black_box((0..1000u64).sum::<u64>());
        }
    }

    /// Checks the usage of a thread that burns some time in each phase, if it lives from one phase to another.
    fn check(phases: &[Phase]) {
        const NS: u64 = 2_000_000;
        let tally = Arc::new(Tally::default());
        tally.enter(phases[0]);
        let (worker, lives) = (Arc::clone(&tally), phases.to_vec());
        // Its usage before and after its first count in each phase, and before and after its end.
        let looks = std::thread::spawn(move || {
            let mut share = worker.share();
            let mut looks = Vec::new();
            for phase in lives {
                let before_ns = thread_usage().total_ns;
                worker.enter(phase);
                share.count(1, 2);
                looks.push((before_ns, thread_usage().total_ns));
                burn(NS);
            }
            let before_ns = thread_usage().total_ns;
            drop(share);
            looks.push((before_ns, thread_usage().total_ns));
            looks
        })
        .join()
        .unwrap();
        let used_ns = tally.usage().total_ns;
        match phases.iter().position(|phase| *phase == Phase::Within) {
            None => assert_eq!(used_ns, 0, "{phases:?}"),
            Some(within) => {
                // A thread that begins within the window pays from its first moment on.
                let began_ns = if within == 0 { 0 } else { looks[within].0 };
                let most_ns = looks[within + 1].1 - began_ns;
                assert!((NS..=most_ns).contains(&used_ns), "{phases:?}: {used_ns} of {looks:?}");
            }
        }
        let [bytes, calls, short_calls] = tally.sums();
        assert_eq!((bytes, short_calls), (calls, calls));
    }

    #[test]
    fn a_thread_is_charged_within_the_window() {
        use Phase::{After, Before, Within};
        check(&[Within]);
        check(&[Before, Within]);
        check(&[Before, Within, After]);
        check(&[Within, After]);
        check(&[Before]);
        check(&[After]);
        check(&[Before, After]);
    }

    #[test]
    fn a_sleeping_thread_is_charged_for_its_call() {
        const NS: u64 = 2_000_000;
        let tally = Arc::new(Tally::default());
        let (begin, begun) = std::sync::mpsc::channel::<()>();
        let (counted, is_counted) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let worker = Arc::clone(&tally);
        let thread = std::thread::spawn(move || {
            let mut share = worker.share();
            // Ready, and asleep until the window is open.
            counted.send(()).unwrap();
            begun.recv().unwrap();
            burn(NS);
            share.count(1, 1);
            counted.send(()).unwrap();
            // Asleep until it is closed; later work does not count.
            ended.recv().unwrap();
            burn(20 * NS);
        });
        is_counted.recv().unwrap();
        tally.enter(Phase::Within);
        begin.send(()).unwrap();
        is_counted.recv().unwrap();
        tally.enter(Phase::After);
        let used_ns = tally.usage().total_ns;
        end.send(()).unwrap();
        thread.join().unwrap();
        assert_eq!(tally.sums()[1], 1);
        assert!(used_ns >= NS, "{used_ns}");
        assert_eq!(tally.usage().total_ns, used_ns);
    }

    #[test]
    fn counts_of_many_threads_add_up() {
        let tally = Arc::new(Tally::default());
        let threads: Vec<_> = (0..20)
            .map(|_| {
                let tally = Arc::clone(&tally);
                std::thread::spawn(move || {
                    let mut share = tally.share();
                    (0..100).for_each(|_| share.count(3, 3));
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(tally.sums(), [6000, 2000, 0]);
        assert!(tally.has_threads());
    }
}
