//! What the ends of a session count, at its agent: trials, bytes and CPU time.
//!
//! Bytes are what ends say in their reports. Of one that says nothing any more (it died, or was let go) they are what it may
//! have moved at most. A caller that lets ends die moves no more than others, and loses no more than such an end can move.

use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::leash::Bound;

/// What an end is taken to have moved in a second that never said how much it did, bytes: more than a machine can.
const MOST_PER_SECOND: u64 = 32 << 30;

/// What the words of a session count.
#[derive(Default)]
pub(super) struct Counted {
    pub(super) trials: AtomicU64,
    /// CPU time of ends that have left, nanoseconds.
    pub(super) cpu_ns: AtomicU64,
    moved: Mutex<(Spent, Option<Moves>)>,
}

/// Bytes that count against what a session may move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spent {
    pub(super) bytes: u64,
    /// Of them, what ends are taken to have moved that never said how much it was.
    pub(super) charged: u64,
}

/// An end that was opened, of which nothing was said yet.
#[derive(Clone, Copy, Debug)]
struct Moves {
    /// Since when bytes may move.
    since: Option<Instant>,
    bound: Bound,
    /// When the end is over whatever happens, as soon as that is known.
    until: Option<Instant>,
}

impl Moves {
    /// What may have moved by now, bytes.
    fn most(&self, now: Instant) -> u64 {
        let until = self.until.map_or(now, |until| until.min(now));
        let micros = self.since.map_or(0, |since| until.saturating_duration_since(since).as_micros());
        let bytes = u128::from(MOST_PER_SECOND) * micros / 1_000_000;
        bytes.min(u128::from(self.bound.bytes)) as u64
    }
}

impl Counted {
    /// What the session has moved so far.
    pub(super) fn spent(&self) -> Spent {
        self.moved().0
    }

    /// An end is opened. A server `serves` from now on, the others begin when they are told to go.
    pub(super) fn opens(&self, bound: Bound, serves: bool) {
        let moves = &mut self.moved().1;
        // Who is opened once more has not moved less.
        let since = moves.and_then(|moves| moves.since).or_else(|| serves.then(Instant::now));
        *moves = Some(Moves { since, bound, until: None });
    }

    /// Whether an end was opened and has not reported.
    pub(super) fn is_open(&self) -> bool {
        self.moved().1.is_some()
    }

    /// The end was told to go: from now on its time runs.
    pub(super) fn goes(&self) {
        if let Some(moves) = &mut self.moved().1 {
            let now = Instant::now();
            moves.since = moves.since.or(Some(now));
            moves.until = moves.until.or_else(|| now.checked_add(Duration::from_nanos(moves.bound.lasts_ns)));
        }
    }

    /// An end said how many bytes it moved; or it cannot say so any more, or leaves it unsaid.
    pub(super) fn settles(&self, said: Option<u64>) {
        let (spent, moves) = &mut *self.moved();
        let unsaid = || moves.map_or(0, |moves| moves.most(Instant::now()));
        let add = said.unwrap_or_else(unsaid);
        spent.bytes = spent.bytes.saturating_add(add);
        spent.charged = spent.charged.saturating_add(if said.is_none() { add } else { 0 });
        *moves = None;
    }

    fn moved(&self) -> MutexGuard<'_, (Spent, Option<Moves>)> {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn silent_end_is_charged_what_it_could_move() {
        let since = Instant::now();
        let check = |bytes: u64, goes_on: Option<Duration>, after: Duration, expected: u64| {
            let bound = Bound { bytes, lasts_ns: 0 };
            let moves = Moves { since: Some(since), bound, until: goes_on.map(|lasts| since + lasts) };
            assert_eq!(moves.most(since + after), expected);
        };
        check(u64::MAX, None, 3 * SECOND, 3 * MOST_PER_SECOND);
        check(u64::MAX, Some(5 * SECOND), 3 * SECOND, 3 * MOST_PER_SECOND);
        // However late it is noticed: it ends by itself.
        check(u64::MAX, Some(5 * SECOND), 3600 * SECOND, 5 * MOST_PER_SECOND);
        check(1000, Some(5 * SECOND), 3 * SECOND, 1000);
        check(u64::MAX, None, Duration::ZERO, 0);
    }

    #[test]
    fn unreported_bytes_are_charged() {
        let (counted, bound) = (Counted::default(), Bound { bytes: 1000, lasts_ns: u64::MAX });
        counted.opens(bound, false);
        counted.settles(None);
        assert_eq!(counted.spent(), Spent::default(), "it was not told to go");
        counted.opens(bound, false);
        counted.goes();
        counted.settles(Some(70));
        counted.settles(None);
        assert_eq!(counted.spent(), Spent { bytes: 70, charged: 0 });
        for serves in [true, false] {
            counted.opens(bound, serves);
            if !serves {
                counted.goes();
            }
            // Long enough for more than it is bound to.
            std::thread::sleep(Duration::from_millis(1));
            counted.opens(bound, false);
            counted.settles(None);
        }
        assert_eq!(counted.spent(), Spent { bytes: 2070, charged: 2000 });
    }
}
