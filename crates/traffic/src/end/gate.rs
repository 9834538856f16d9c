//! The gate at which an end's threads wait for `Go`: all start together, or none does.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use bytegauge_sys::clock::monotonic_ns;

use crate::lock;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GateState {
    Shut,
    Open { at_ns: u64 },
    CalledOff,
}

/// A gate for any number of threads.
#[derive(Debug)]
pub(super) struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
    /// The time of opening, for threads that do not wait; 0 until then.
    pub(super) opened_ns: Arc<AtomicU64>,
}

impl Gate {
    pub(super) fn new() -> Gate {
        Gate { state: Mutex::new(GateState::Shut), changed: Condvar::new(), opened_ns: Arc::default() }
    }

    /// Waits. Returns the time of opening, nanoseconds of the monotonic clock; `None` if the trial was called off.
    pub(super) fn wait(&self) -> Option<u64> {
        self.wait_doing(Duration::MAX, || {})
    }

    /// The same, calling `what` at once and repeatedly until then.
    pub(super) fn wait_doing(&self, every: Duration, mut what: impl FnMut()) -> Option<u64> {
        loop {
            what();
            let state = lock(&self.state);
            let waited = self.changed.wait_timeout_while(state, every, |state| *state == GateState::Shut);
            match *waited.unwrap_or_else(PoisonError::into_inner).0 {
                GateState::Shut => {}
                GateState::Open { at_ns } => return Some(at_ns),
                GateState::CalledOff => return None,
            }
        }
    }

    pub(super) fn open(&self) {
        let at_ns = monotonic_ns();
        self.opened_ns.store(at_ns, Ordering::Release);
        self.set(GateState::Open { at_ns });
    }

    pub(super) fn call_off(&self) {
        self.set(GateState::CalledOff);
    }

    fn set(&self, to: GateState) {
        let mut state = lock(&self.state);
        if *state == GateState::Shut {
            *state = to;
        }
        self.changed.notify_all();
    }
}
