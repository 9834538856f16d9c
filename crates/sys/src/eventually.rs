//! What a test has to wait for, although its own part is done.
//!
//! A descriptor that was closed stays open for a moment where another test of the process starts a program just then: the
//! child has a copy of all of them until it becomes that program. And what crosses the loopback may be left to a kernel's
//! thread, which waits for a CPU as any other.

use std::thread;
use std::time::{Duration, Instant};

/// Far longer than any machine is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until something is the case.
#[track_caller]
pub(crate) fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < PATIENCE, "in vain: {what}");
        thread::yield_now();
    }
}
