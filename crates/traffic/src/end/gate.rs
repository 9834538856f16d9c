//! The gate at which flow threads wait for `Go`: all start together, or all go home.

use std::sync::{Condvar, Mutex, PoisonError};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Shut,
    Open,
    GoneHome,
}

/// A gate for any number of threads.
#[derive(Debug)]
pub(super) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

impl Gate {
    pub(super) fn new() -> Gate {
        Gate { state: Mutex::new(State::Shut), changed: Condvar::new() }
    }

    /// Waits. `false` if the trial was called off.
    pub(super) fn wait(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while *state == State::Shut {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        *state == State::Open
    }

    pub(super) fn open(&self) {
        self.set(State::Open);
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
