//! What threads or tasks that work for one meter count, so that its window holds their share.
//!
//! The counters are spread over cache lines and added up at the meter's marks. So is CPU time: the clock of every thread
//! is read there, whether it runs or sleeps, and one that ends before leaves what it has used. So calls and CPU time are of one
//! interval. What the kernel does for a thread after that (taking it down) is not in the number.
//!
//! How that time is split between user and system, and switches, only a thread itself can read, so each notes them at
//! the first event that it sees after a mark: with the wake-up of one that slept over it they lack a part of a call.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytegauge_sys::cpu_time::{ThreadClock, ThreadUsage, thread_usage};

/// Cache lines that threads are spread over.
const SHARDS: usize = 16;

/// Where a meter's window stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Not open yet.
    Before = 0,
    /// Open.
    Within = 1,
    /// Closed.
    After = 2,
}

/// Sums of what moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub bytes: u64,
    pub calls: u64,
    pub short_calls: u64,
}

/// Counters of their own cache lines, with room for the neighbour that a prefetcher brings along.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Shard {
    bytes: AtomicU64,
    calls: AtomicU64,
    short_calls: AtomicU64,
}

/// What the threads of one meter have counted.
#[derive(Debug, Default)]
pub struct Tally {
    shards: [Shard; SHARDS],
    phase: AtomicU8,
    shares: AtomicUsize,
    spent: Mutex<Spent>,
}

/// What the threads have used.
#[derive(Debug, Default)]
struct Spent {
    /// Within the window, by their own notes.
    noted: ThreadUsage,
    /// The clocks of those that live, by their shares.
    live: HashMap<usize, ThreadClock>,
    /// CPU time of those that have ended, ns.
    ended_ns: u64,
    /// CPU time of all when the window opened, and when it closed, ns.
    opened_ns: Option<u64>,
    closed_ns: Option<u64>,
}

impl Spent {
    /// CPU time of all threads so far, ns.
    fn total_ns(&self) -> u64 {
        // A thread takes its clock away before it ends, under the same lock.
        self.ended_ns + self.live.values().filter_map(|clock| clock.read_ns()).sum::<u64>()
    }
}

impl Tally {
    /// The calling thread's share. To be made by the thread itself, as it begins.
    pub fn share(self: &Arc<Self>) -> Share {
        let number = self.shares.fetch_add(1, Ordering::Relaxed);
        let mut share =
            Share { tally: Arc::clone(self), number, phase: Phase::Before as u8, opened: ThreadUsage::default() };
        self.spent().live.insert(number, ThreadClock::of_this_thread());
        // A thread that begins within the window was started for what it does there: all it uses counts.
        share.phase = self.phase.load(Ordering::Relaxed);
        share
    }

    /// Counts one call of a task that shares its thread with all others of this tally, and with the meter.
    #[inline]
    pub fn count_alone(&self, moved: usize, asked: usize) {
        // One writer: a load and a store are enough, and cost less than an addition under lock.
        let add = |counter: &AtomicU64, n: u64| counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
        add(&self.shards[0].bytes, moved as u64);
        add(&self.shards[0].calls, 1);
        if moved < asked {
            add(&self.shards[0].short_calls, 1);
        }
    }

    /// The window opens or closes.
    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
        let mut spent = self.spent();
        let now_ns = spent.total_ns();
        match phase {
            Phase::Before => {}
            Phase::Within => _ = spent.opened_ns.get_or_insert(now_ns),
            Phase::After => _ = spent.closed_ns.get_or_insert(now_ns),
        }
    }

    pub(crate) fn sums(&self) -> Sums {
        let total = |of: fn(&Shard) -> &AtomicU64| self.shards.iter().map(|s| of(s).load(Ordering::Relaxed)).sum();
        Sums { bytes: total(|s| &s.bytes), calls: total(|s| &s.calls), short_calls: total(|s| &s.short_calls) }
    }

    /// What the threads used within the window, or since it opened.
    pub(crate) fn usage(&self) -> ThreadUsage {
        let spent = self.spent();
        let until_ns = spent.closed_ns.unwrap_or_else(|| spent.total_ns());
        let total_ns = spent.opened_ns.map_or(0, |opened_ns| until_ns.saturating_sub(opened_ns));
        ThreadUsage { total_ns, ..spent.noted }
    }

    fn spent(&self) -> MutexGuard<'_, Spent> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether other threads than the meter's own ever counted.
    pub(crate) fn has_threads(&self) -> bool {
        self.shares.load(Ordering::Relaxed) > 0
    }
}

/// One thread's part of a [`Tally`]. What it has used is settled when it is dropped.
#[derive(Debug)]
pub struct Share {
    tally: Arc<Tally>,
    number: usize,
    phase: u8,
    opened: ThreadUsage,
}

impl Share {
    /// One call moved `moved` of the `asked` bytes.
    #[inline]
    pub fn count(&mut self, moved: usize, asked: usize) {
        self.look();
        let shard = &self.tally.shards[self.number % SHARDS];
        shard.bytes.fetch_add(moved as u64, Ordering::Relaxed);
        shard.calls.fetch_add(1, Ordering::Relaxed);
        if moved < asked {
            shard.short_calls.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes what the thread has used if the window has opened or closed since the last look.
    #[inline]
    fn look(&mut self) {
        let phase = self.tally.phase.load(Ordering::Relaxed);
        if phase != self.phase {
            self.note(phase);
        }
    }

    #[cold]
    fn note(&mut self, phase: u8) {
        let now = thread_usage();
        if self.phase == Phase::Within as u8 {
            self.settle(&now);
        }
        self.opened = now;
        self.phase = phase;
    }

    fn settle(&self, now: &ThreadUsage) {
        self.tally.spent().noted += now.since(&self.opened);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.look();
        let now = thread_usage();
        if self.phase == Phase::Within as u8 {
            self.settle(&now);
        }
        let mut spent = self.tally.spent();
        spent.live.remove(&self.number);
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

    /// What a thread that burns some time in each phase leaves, if it lives from one phase to another.
    fn check(phases: &[Phase]) {
        const NS: u64 = 2_000_000;
        let tally = Arc::new(Tally::default());
        tally.enter(phases[0]);
        let (worker, lives) = (Arc::clone(&tally), phases.to_vec());
        // What it had used before and after it first counted in each phase, and before and after it left.
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
        assert_eq!(tally.sums().calls, tally.sums().bytes);
        assert_eq!(tally.sums().calls, tally.sums().short_calls);
    }

    #[test]
    fn a_thread_pays_for_what_it_does_within_the_window() {
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
    fn a_call_counts_with_all_that_it_took_of_a_thread_that_slept_as_the_window_opened() {
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
            // Asleep until it is closed; what it does then is nothing of it.
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
        assert_eq!(tally.sums().calls, 1);
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
        assert_eq!(tally.sums(), Sums { bytes: 6000, calls: 2000, short_calls: 0 });
        assert!(tally.has_threads());
    }
}
