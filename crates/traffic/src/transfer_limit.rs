//! Limits of an end, regardless of the measuring host's commands: how many bytes it moves, and until when.
//!
//! An agent limits the ends that it runs ([`Bound`], in their setup). Each thread's meter checks once per lap, and so does the
//! draining after the window: the limit is exceeded by at most the bytes of a lap, about a millisecond.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// The limits of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// Bytes of all its threads, both ways, from the first on.
    pub bytes: u64,
    /// Time after `Go`, nanoseconds.
    pub lasts_ns: u64,
}

/// The use of a limit, shared by the threads of an end.
#[derive(Debug)]
pub(crate) struct TransferLimit {
    bound: Bound,
    moved: AtomicU64,
    /// A moment of the monotonic clock, once it is known.
    until_ns: AtomicU64,
}

impl TransferLimit {
    pub(crate) fn new(bound: Bound) -> TransferLimit {
        TransferLimit { bound, moved: AtomicU64::new(0), until_ns: AtomicU64::new(u64::MAX) }
    }

    /// Its time begins.
    pub(crate) fn begin(&self, now_ns: u64) {
        self.until_ns.store(now_ns.saturating_add(self.bound.lasts_ns), Ordering::Relaxed);
    }

    /// Counts further bytes. Returns whether the end may continue.
    pub(crate) fn allows(&self, more: u64, now_ns: u64) -> bool {
        let moved = self.moved.fetch_add(more, Ordering::Relaxed).saturating_add(more);
        moved < self.bound.bytes && now_ns < self.until_ns.load(Ordering::Relaxed)
    }

    /// Whether the limit of bytes is reached.
    pub(crate) fn is_used_up(&self) -> bool {
        self.moved.load(Ordering::Relaxed) >= self.bound.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_with_the_bytes_or_the_time() {
        let limit = TransferLimit::new(Bound { bytes: 100, lasts_ns: 50 });
        // Before it begins no time is too late.
        assert!(limit.allows(60, u64::MAX - 1) && !limit.is_used_up());
        limit.begin(1000);
        assert!(limit.allows(39, 1049) && !limit.allows(0, 1050) && !limit.is_used_up());
        assert!(!limit.allows(1, 1001) && limit.is_used_up());
        let nothing = TransferLimit::new(Bound { bytes: 0, lasts_ns: u64::MAX });
        nothing.begin(u64::MAX - 1);
        assert!(!nothing.allows(0, 0) && nothing.is_used_up());
    }
}
