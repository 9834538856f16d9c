//! Decides which tests run now: up to a number at the same time, or one after another in the order of arrival.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Clients that wait for their turn, at most.
const QUEUE_MAX: usize = 64;

/// How often a waiting client is checked.
const CHECK: Duration = Duration::from_millis(100);

/// The answer to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admitted {
    /// It runs until [`Admission::leave`].
    Now,
    /// There is no room.
    Full,
    /// It left while it waited, or the server stops.
    Gone,
}

/// The tests that run and wait.
#[derive(Debug)]
pub(super) struct Admission {
    places: usize,
    queues: bool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    running: usize,
    next: u64,
    queue: VecDeque<u64>,
}

impl Admission {
    /// Room for `places` tests; whether further ones wait.
    pub(super) fn new(places: usize, queues: bool) -> Admission {
        Admission { places: places.max(1), queues, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Admits a test, perhaps after a wait. `is_gone` is asked again and again meanwhile.
    pub(super) fn enter(&self, mut is_gone: impl FnMut() -> bool) -> Admitted {
        let mut state = self.state();
        if !self.queues {
            let has_room = state.running < self.places;
            state.running += usize::from(has_room);
            return if has_room { Admitted::Now } else { Admitted::Full };
        }
        if state.queue.len() >= QUEUE_MAX {
            return Admitted::Full;
        }
        let number = state.next;
        state.next += 1;
        state.queue.push_back(number);
        loop {
            if is_gone() {
                state.queue.retain(|waiting| *waiting != number);
                self.changed.notify_all();
                return Admitted::Gone;
            }
            if state.running < self.places && state.queue.front() == Some(&number) {
                state.queue.pop_front();
                state.running += 1;
                self.changed.notify_all();
                return Admitted::Now;
            }
            let waited = self.changed.wait_timeout(state, CHECK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A test that was admitted is over.
    pub(super) fn leave(&self) {
        self.state().running -= 1;
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn places_are_limited_without_a_queue() {
        let admission = Admission::new(2, false);
        let enter = || admission.enter(|| false);
        assert_eq!([enter(), enter(), enter()], [Admitted::Now, Admitted::Now, Admitted::Full]);
        admission.leave();
        assert_eq!(enter(), Admitted::Now);
    }

    #[test]
    fn client_that_leaves_the_queue_blocks_no_other() {
        let admission = Arc::new(Admission::new(1, true));
        assert_eq!(admission.enter(|| false), Admitted::Now);
        let left = Arc::new(AtomicBool::new(false));
        let waiters = [Some(Arc::clone(&left)), None].map(|left| {
            let admission = Arc::clone(&admission);
            let before = admission.state().next;
            let is_gone = move || left.as_ref().is_some_and(|left| left.load(Ordering::Relaxed));
            let waiter = std::thread::spawn({
                let admission = Arc::clone(&admission);
                move || admission.enter(is_gone)
            });
            while admission.state().next == before {
                std::thread::yield_now();
            }
            waiter
        });
        left.store(true, Ordering::Relaxed);
        let [gone, waits] = waiters;
        assert_eq!(gone.join().unwrap(), Admitted::Gone);
        admission.leave();
        assert_eq!(waits.join().unwrap(), Admitted::Now);
    }
}
