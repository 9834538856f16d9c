//! Waits in tests for effects of other threads or the kernel.
//!
//! A closed descriptor stays open briefly if another test of the process starts a program at that moment: the child has
//! copies of all descriptors until it executes the program. Packets over the loopback may be processed by a kernel
//! thread, which waits for a CPU like any other.

use std::thread;
use std::time::{Duration, Instant};

/// Far longer than any machine is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until a condition holds.
#[track_caller]
pub(crate) fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < PATIENCE, "timed out: {what}");
        thread::yield_now();
    }
}
