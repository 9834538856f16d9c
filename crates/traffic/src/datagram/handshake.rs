//! How a stream of datagrams begins and ends, by datagrams that are empty.
//!
//! It begins when the sink says that its reader runs: what a fast sender sent to a reader that had not got its CPU yet
//! would be lost, and would be taken for the path's loss. It ends when the source says that there is no more, again and
//! again until the sink has answered: either may be lost to a full buffer. What was sent before arrives before it.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use bytegauge_sys::io as sys_io;
use bytegauge_sys::socket::{self, Until};

/// How long the source waits for an answer before it says again that there is no more.
const AGAIN_NS: u64 = 2_000_000;

/// How often the source looks whether it is still wanted while it waits for the sink to begin.
const LOOK_NS: u64 = 20_000_000;

/// Says that the reader runs.
pub(super) fn begin(fd: BorrowedFd<'_>) {
    // Nothing has been sent yet, so there is room; a source that is gone shows when nothing comes.
    let _ = socket::send_now(fd, &[]);
}

/// Waits until the reader runs, or nobody wants what would be sent.
pub(super) fn await_reader(fd: BorrowedFd<'_>, flags: [&AtomicBool; 2]) {
    while flags.iter().all(|flag| !flag.load(Ordering::Relaxed)) {
        if let Ok(Some(_)) = socket::wait(fd, Until::Readable, LOOK_NS) {
            // What was said is not the answer to a farewell; an error shows again at the first send.
            let _ = sys_io::read(fd, &mut [0; 1]);
            return;
        }
    }
}

/// Says that there is no more, until the sink has heard it, is gone, or the watchdog ends this.
pub(super) fn say(fd: BorrowedFd<'_>, abort: &AtomicBool) {
    while !abort.load(Ordering::Relaxed) {
        // A full queue will have room. But a sink may have answered and gone since the last look: then a Unix socket
        // throws the answer away with this error (`unix_dgram_disconnected`, net/unix/af_unix.c), and says no more.
        if socket::send_now(fd, &[]).is_err_and(|error| is_gone(&error)) {
            return;
        }
        // An answer, or the error that a datagram to nobody has brought back.
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

/// Whether a failed send says that nobody has the other socket any more.
pub(super) fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset, NotConnected};
    matches!(error.kind(), ConnectionRefused | ConnectionReset | NotConnected)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixDatagram;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// Far longer than any machine stands still: whoever waits so long waits for ever.
    const FOR_EVER: Duration = Duration::from_secs(60);

    #[test]
    fn a_sink_that_answered_and_went_between_two_looks_was_heard() {
        let (source, sink) = UnixDatagram::pair().unwrap();
        answer(sink.as_fd());
        drop(sink);
        let abort = &AtomicBool::new(false);
        let (done, waits) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let returned = waits.recv_timeout(FOR_EVER).is_ok();
                abort.store(!returned, Ordering::Relaxed);
            });
            say(source.as_fd(), abort);
            let _ = done.send(());
        });
        assert!(!abort.load(Ordering::Relaxed), "the farewell went on until the watchdog ended it");
    }
}
