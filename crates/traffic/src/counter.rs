//! Counters that threads keep while others read them.
//!
//! A [`Total`] is the sum of its [`ThreadCounter`]s. Each counter has one writer, a thread, and a cache line of its own, so
//! that adding is a load and a store: a locked instruction takes several nanoseconds of every call and waits for the
//! stores before it. The total is read only at the marks of a window. Never orders other memory.

#[cfg(debug_assertions)]
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
#[cfg(debug_assertions)]
use std::thread::ThreadId;

use crate::lock;

/// `N` numbers of one writer. 128 bytes: the prefetcher of x86-64 fetches cache lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct CounterLine<const N: usize> {
    numbers: [AtomicU64; N],
    #[cfg(debug_assertions)]
    writer: OnceLock<ThreadId>,
}

impl<const N: usize> CounterLine<N> {
    fn new() -> CounterLine<N> {
        CounterLine {
            numbers: [const { AtomicU64::new(0) }; N],
            #[cfg(debug_assertions)]
            writer: OnceLock::new(),
        }
    }

    fn read(&self) -> [u64; N] {
        self.numbers.each_ref().map(|number| number.load(Ordering::Relaxed))
    }
}

/// The sum of the counters of any number of threads.
#[derive(Debug)]
pub struct Total<const N: usize>(Mutex<Lines<N>>);

#[derive(Debug)]
struct Lines<const N: usize> {
    live: Vec<Arc<CounterLine<N>>>,
    /// The sum of the counters that were dropped.
    ended: [u64; N],
}

impl<const N: usize> Default for Total<N> {
    fn default() -> Total<N> {
        Total(Mutex::new(Lines { live: Vec::new(), ended: [0; N] }))
    }
}

impl<const N: usize> Total<N> {
    /// Another counter, which starts at 0.
    pub fn counter(self: &Arc<Self>) -> ThreadCounter<N> {
        let line = Arc::new(CounterLine::new());
        self.lines().live.push(Arc::clone(&line));
        ThreadCounter { line, total: Arc::clone(self) }
    }

    /// The counts of all counters so far, dropped ones included. Takes a lock: for the marks of a
    /// window, never for its loop.
    pub fn sums(&self) -> [u64; N] {
        let lines = self.lines();
        lines.live.iter().fold(lines.ended, |sums, line| plus(sums, line.read()))
    }

    fn lines(&self) -> MutexGuard<'_, Lines<N>> {
        lock(&self.0)
    }
}

/// One thread's part of a [`Total`]. A build with debug assertions panics if a second thread adds to it.
#[derive(Debug)]
pub struct ThreadCounter<const N: usize> {
    line: Arc<CounterLine<N>>,
    total: Arc<Total<N>>,
}

impl<const N: usize> ThreadCounter<N> {
    /// Adds to each number.
    #[inline]
    pub fn add(&self, more: [u64; N]) {
        #[cfg(debug_assertions)]
        self.assert_one_writer();
        for (number, more) in self.line.numbers.iter().zip(more) {
            number.store(number.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        }
    }

    #[cfg(debug_assertions)]
    fn assert_one_writer(&self) {
        let this = std::thread::current().id();
        assert_eq!(*self.line.writer.get_or_init(|| this), this, "a counter has one writer");
    }
}

impl<const N: usize> Drop for ThreadCounter<N> {
    fn drop(&mut self) {
        let mut lines = self.total.lines();
        lines.ended = plus(lines.ended, self.line.read());
        lines.live.retain(|line| !Arc::ptr_eq(line, &self.line));
    }
}

fn plus<const N: usize>(one: [u64; N], other: [u64; N]) -> [u64; N] {
    std::array::from_fn(|place| one[place].wrapping_add(other[place]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_total_keeps_what_ended_threads_counted() {
        let total = Arc::<Total<2>>::default();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let counter = total.counter();
                    (0..10_000).for_each(|_| counter.add([1, 3]));
                    assert!(total.sums()[0] >= 10_000);
                });
            }
        });
        let alive = total.counter();
        alive.add([5, 0]);
        assert_eq!(total.sums(), [80_005, 240_000]);
        drop(alive);
        assert_eq!(total.sums(), [80_005, 240_000]);
        assert!(total.lines().live.is_empty());
    }

    /// Debug builds, which tests are, watch the rule by which counting needs no locked instruction.
    #[test]
    #[cfg(debug_assertions)]
    fn a_second_writer_is_caught() {
        let total = Arc::<Total<1>>::default();
        let counter = total.counter();
        counter.add([1]);
        let second = std::thread::scope(|scope| scope.spawn(|| counter.add([1])).join());
        assert!(second.is_err());
        assert_eq!(total.sums(), [1]);
    }
}
