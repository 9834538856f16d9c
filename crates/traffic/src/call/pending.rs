//! The outstanding calls of a client's flow.

use std::collections::VecDeque;

/// A call that was begun and not answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingCall {
    pub(super) number: u64,
    /// Its intended time.
    pub(super) began_ns: u64,
    /// The time at which it began.
    pub(super) write_began_ns: u64,
    pub(super) write_ns: u64,
    pub(super) first_byte_ns: u64,
    pub(super) late_ns: u64,
}

/// Outstanding calls, oldest first. The oldest one is in the flow itself: with hundreds of flows, a list elsewhere would be one
/// more access to memory outside of the cache for each call.
#[derive(Debug)]
pub(super) struct PendingCalls {
    oldest: Option<PendingCall>,
    /// Empty if there is no oldest call.
    later: VecDeque<PendingCall>,
}

impl PendingCalls {
    /// No call, with memory for `depth` of them.
    pub(super) fn with_depth(depth: usize) -> PendingCalls {
        PendingCalls { oldest: None, later: VecDeque::with_capacity(depth.saturating_sub(1)) }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        usize::from(self.oldest.is_some()) + self.later.len()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.oldest.is_none()
    }

    #[inline]
    pub(super) fn oldest(&self) -> Option<&PendingCall> {
        self.oldest.as_ref()
    }

    #[inline]
    pub(super) fn oldest_mut(&mut self) -> Option<&mut PendingCall> {
        self.oldest.as_mut()
    }

    #[inline]
    pub(super) fn newest(&self) -> Option<&PendingCall> {
        if self.later.is_empty() { self.oldest.as_ref() } else { self.later.back() }
    }

    #[inline]
    pub(super) fn newest_mut(&mut self) -> Option<&mut PendingCall> {
        if self.later.is_empty() { self.oldest.as_mut() } else { self.later.back_mut() }
    }

    #[inline]
    pub(super) fn begin(&mut self, call: PendingCall) {
        match self.oldest {
            None => self.oldest = Some(call),
            Some(_) => self.later.push_back(call),
        }
    }

    /// Removes the oldest call.
    #[inline]
    pub(super) fn finish(&mut self) -> Option<PendingCall> {
        let next = if self.later.is_empty() { None } else { self.later.pop_front() };
        std::mem::replace(&mut self.oldest, next)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &PendingCall> {
        self.oldest.iter().chain(&self.later)
    }

    pub(super) fn clear(&mut self) {
        self.oldest = None;
        self.later.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(number: u64) -> PendingCall {
        PendingCall { number, began_ns: 0, write_began_ns: 0, write_ns: 0, first_byte_ns: 0, late_ns: 0 }
    }

    #[test]
    fn calls_finish_in_the_order_of_their_beginning() {
        let mut calls = PendingCalls::with_depth(3);
        let mut expected = VecDeque::new();
        for step in [3, 2, 1, 2, 3, 0] {
            while expected.len() < step {
                let number = expected.back().map_or(7, |last| last + 1);
                calls.begin(call(number));
                expected.push_back(number);
                check(&mut calls, &expected);
            }
            while expected.len() > step {
                assert_eq!(calls.finish().map(|call| call.number), expected.pop_front());
                check(&mut calls, &expected);
            }
        }
        assert!(calls.finish().is_none());
    }

    fn check(calls: &mut PendingCalls, expected: &VecDeque<u64>) {
        let number = |call: &PendingCall| call.number;
        assert!(calls.iter().map(number).eq(expected.iter().copied()));
        assert_eq!((calls.len(), calls.is_empty()), (expected.len(), expected.is_empty()));
        assert_eq!(calls.oldest().map(number), expected.front().copied());
        assert_eq!(calls.newest().map(number), expected.back().copied());
        assert_eq!(calls.oldest_mut().map(|call| call.number), expected.front().copied());
        assert_eq!(calls.newest_mut().map(|call| call.number), expected.back().copied());
    }
}
