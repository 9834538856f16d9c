//! The gate at which an end's threads wait for `Go`: all start together, or all go home.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use bytegauge_sys::clock::monotonic_ns;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Shut,
    Open { at_ns: u64 },
    GoneHome,
}

/// A gate for any number of threads.
#[derive(Debug)]
pub(super) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
    opened_ns: Arc<AtomicU64>,
}

impl Gate {
    pub(super) fn new() -> Gate {
        Gate { state: Mutex::new(State::Shut), changed: Condvar::new(), opened_ns: Arc::default() }
    }

    /// Waits. When the gate was opened, nanoseconds of the monotonic clock; `None` if the trial was called off.
    pub(super) fn wait(&self) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while *state == State::Shut {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        match *state {
            State::Open { at_ns } => Some(at_ns),
            _ => None,
        }
    }

    /// When the gate was opened, for those who do not wait at it; 0 until then.
    pub(super) fn opened_ns(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.opened_ns)
    }

    pub(super) fn open(&self) {
        let at_ns = monotonic_ns();
        self.opened_ns.store(at_ns, Ordering::Release);
        self.set(State::Open { at_ns });
    }

    pub(super) fn call_off(&self) {
        self.set(State::GoneHome);
    }

    fn set(&self, to: State) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if *state == State::Shut {
            *state = to;
        }
        self.changed.notify_all();
    }
}
