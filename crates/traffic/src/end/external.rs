//! Writing to an external server: counts the bytes that have left, as far as this side's kernel knows.
//!
//! Bytes that write(2) accepted may still wait in the send buffer. Only bytes acknowledged by the other kernel count: for TCP
//! that is known exactly (SIOCOUTQ, tcp(7)); a Unix socket has no buffer between its two ends, so accepted bytes are at the
//! other end. This side cannot know whether they were read.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytegauge_sys::socket_memory::queued_out;

use crate::setup::Setup;

/// Longest wait after the window for bytes in flight.
const PATIENCE: Duration = Duration::from_secs(1);

/// Interval between checks.
const LOOK: Duration = Duration::from_micros(200);

/// Connections of which a meter counts only acknowledged bytes: those of TCP to an external server.
pub(super) fn watched<'a>(setup: &Setup, fds: impl Iterator<Item = BorrowedFd<'a>>) -> Vec<OwnedFd> {
    if !setup.is_external() || !setup.transport().is_tcp() {
        return Vec::new();
    }
    // A connection that cannot be duplicated counts written bytes: descriptors were counted before.
    fds.filter_map(|fd| fd.try_clone_to_owned().ok()).collect()
}

/// Waits until all written bytes are acknowledged, so that the next trial has the path to itself and the kernel's count is
/// complete. The wait for a server that no longer reads is short, and shorter than the watchdog's.
pub(super) fn await_acknowledged(setup: &Setup, fd: Option<BorrowedFd<'_>>, abort: &AtomicBool) {
    let Some(fd) = fd.filter(|_| setup.is_external() && setup.transport().is_tcp()) else { return };
    let deadline = Instant::now() + PATIENCE.min(Duration::from_nanos(setup.grace_ns / 2));
    while queued_out(fd).is_ok_and(|bytes| bytes > 0) && Instant::now() < deadline && !abort.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK);
    }
}
