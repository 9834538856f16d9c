//! What an end may do whatever whoever measures says, or leaves unsaid: how much it moves, and until when.
//!
//! An agent bounds the ends that it runs ([`Bound`], in their setup). Each thread's meter asks once a lap, and what is drained after
//! the window asks as well: beyond the bound goes what is moved in a lap, about a millisecond.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// How far an end may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// Bytes of all its threads, both ways, from the first on.
    pub bytes: u64,
    /// How long it goes on after `Go`, nanoseconds.
    pub lasts_ns: u64,
}

/// What the threads of an end share of a bound.
#[derive(Debug)]
pub(crate) struct Leash {
    bound: Bound,
    moved: AtomicU64,
    /// A moment of the monotonic clock, once it is known.
    until_ns: AtomicU64,
}

impl Leash {
    pub(crate) fn new(bound: Bound) -> Leash {
        Leash { bound, moved: AtomicU64::new(0), until_ns: AtomicU64::new(u64::MAX) }
    }

    /// Its time begins.
    pub(crate) fn begin(&self, now_ns: u64) {
        self.until_ns.store(now_ns.saturating_add(self.bound.lasts_ns), Ordering::Relaxed);
    }

    /// So much more has moved. Whether it may go on.
    pub(crate) fn lets(&self, more: u64, now_ns: u64) -> bool {
        let moved = self.moved.fetch_add(more, Ordering::Relaxed).saturating_add(more);
        moved < self.bound.bytes && now_ns < self.until_ns.load(Ordering::Relaxed)
    }

    /// Whether as much has moved as may.
    pub(crate) fn is_used_up(&self) -> bool {
        self.moved.load(Ordering::Relaxed) >= self.bound.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_with_the_bytes_or_with_the_time_whichever_is_over_first() {
        let leash = Leash::new(Bound { bytes: 100, lasts_ns: 50 });
        // Before it begins no time is too late.
        assert!(leash.lets(60, u64::MAX - 1) && !leash.is_used_up());
        leash.begin(1000);
        assert!(leash.lets(39, 1049) && !leash.lets(0, 1050) && !leash.is_used_up());
        assert!(!leash.lets(1, 1001) && leash.is_used_up());
        let nothing = Leash::new(Bound { bytes: 0, lasts_ns: u64::MAX });
        nothing.begin(u64::MAX - 1);
        assert!(!nothing.lets(0, 0) && nothing.is_used_up());
    }
}
