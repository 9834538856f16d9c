//! How a stream of datagrams ends: the source says so by an empty datagram, again and again until the sink has answered
//! with another. Either may be lost to a full buffer, and what the kernel delivers in order arrives before it.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use bytegauge_sys::socket::{self, Until};

/// How long the source waits for an answer before it says again that there is no more.
const AGAIN_NS: u64 = 2_000_000;

/// Says that there is no more, until the sink has heard it, is gone, or the watchdog ends this.
pub(super) fn say(fd: BorrowedFd<'_>, abort: &AtomicBool) {
    while !abort.load(Ordering::Relaxed) {
        // A full queue will have room; a sink that is gone shows below.
        let _ = socket::send_now(fd, &[]);
        // An answer, or the error that tells of a sink that is gone.
        if let Ok(Some(_)) = socket::wait(fd, Until::Readable, AGAIN_NS) {
            return;
        }
    }
}

/// Answers that it was heard.
pub(super) fn answer(fd: BorrowedFd<'_>) {
    // Whoever does not hear it says again that there is no more, to a socket that is closed by then, and learns it so.
    let _ = socket::send_now(fd, &[]);
}
