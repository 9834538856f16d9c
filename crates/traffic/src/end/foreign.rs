//! Writing to a server that is not ours: what of it has left, as far as this side's kernel knows.
//!
//! Bytes that write(2) took may still wait in the send buffer. What counts is what the other kernel acknowledged: of
//! TCP that is told exactly (SIOCOUTQ, tcp(7)); a Unix socket has no buffer of its own between two ends, so what was
//! taken is at the other one. Whether anybody has read it, nothing on this side knows.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytegauge_sys::socket_memory::queued_out;

use crate::setup::Setup;

/// How long is waited after the window for what is still on its way.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often is looked.
const LOOK: Duration = Duration::from_micros(200);

/// Connections of which a meter counts only what was acknowledged: those of TCP to a server that is not ours.
pub(super) fn watched<'a>(setup: &Setup, fds: impl Iterator<Item = BorrowedFd<'a>>) -> Vec<OwnedFd> {
    if !setup.is_external() || !setup.transport().is_tcp() {
        return Vec::new();
    }
    // One that cannot be had twice counts as written: descriptors were counted before.
    fds.filter_map(|fd| fd.try_clone_to_owned().ok()).collect()
}

/// Waits until everything that was written is acknowledged, so that the next trial has the path to itself and the
/// kernel's count is complete. A server that no longer reads is not waited for long, and less than the watchdog waits.
pub(super) fn await_acknowledged(setup: &Setup, fd: Option<BorrowedFd<'_>>, abort: &AtomicBool) {
    let Some(fd) = fd.filter(|_| setup.is_external() && setup.transport().is_tcp()) else { return };
    let deadline = Instant::now() + PATIENCE.min(Duration::from_nanos(setup.grace_ns / 2));
    while queued_out(fd).is_ok_and(|bytes| bytes > 0) && Instant::now() < deadline && !abort.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK);
    }
}
