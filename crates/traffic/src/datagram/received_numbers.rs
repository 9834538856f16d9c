//! Records one flow's numbers: which arrived, which never did, which arrived late or twice.
//!
//! While all arrive in order nothing is stored. A missing number is stored as a gap until it arrives late; a
//! number that is in no gap and below the highest arrived before. Memory is allocated once: if more gaps are open
//! than fit, the oldest one is closed for good and counts as lost.

use std::collections::VecDeque;
use std::ops::Range;

/// Most stored gaps.
const GAPS_MAX: usize = 4096;

/// The numbers of one flow.
#[derive(Debug)]
pub struct Ledger {
    next: u64,
    gaps: VecDeque<Range<u64>>,
    /// Numbers below this are forgotten.
    forgotten: u64,
    arrived: u64,
    missing: u64,
    reordered: u64,
    duplicated: u64,
}

impl Default for Ledger {
    fn default() -> Ledger {
        Ledger {
            next: 0,
            gaps: VecDeque::with_capacity(GAPS_MAX + 1),
            forgotten: 0,
            arrived: 0,
            missing: 0,
            reordered: 0,
            duplicated: 0,
        }
    }
}

impl Ledger {
    /// The next expected number.
    #[inline]
    pub fn expected(&self) -> u64 {
        self.next
    }

    /// Datagrams that arrived, including duplicates.
    pub fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Numbers below the highest that have not arrived.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// Datagrams that arrived after one with a higher number.
    pub fn reordered(&self) -> u64 {
        self.reordered
    }

    /// Datagrams whose number had arrived before.
    pub fn duplicated(&self) -> u64 {
        self.duplicated
    }

    /// Enters `count` datagrams in a row, beginning with `first`.
    #[inline]
    pub fn enter(&mut self, first: u64, count: u64) {
        if first == self.next {
            self.next = self.next.saturating_add(count);
            self.arrived += count;
        } else {
            (first..first.saturating_add(count)).for_each(|number| self.enter_out_of_turn(number));
        }
    }

    #[cold]
    fn enter_out_of_turn(&mut self, number: u64) {
        self.arrived += 1;
        if number >= self.next {
            if number > self.next {
                self.leave_out(self.next..number);
            }
            // Bytes that the path has changed may form any number.
            self.next = number.saturating_add(1);
        } else if number < self.forgotten {
            // Whether it arrived before is forgotten too; a late one is more likely.
            self.reordered += 1;
            self.missing = self.missing.saturating_sub(1);
        } else {
            self.enter_late(number);
        }
    }

    fn leave_out(&mut self, gap: Range<u64>) {
        self.missing = self.missing.saturating_add(gap.end - gap.start);
        self.gaps.push_back(gap);
        self.bound();
    }

    fn enter_late(&mut self, number: u64) {
        let at = self.gaps.partition_point(|gap| gap.end <= number);
        let Some(gap) = self.gaps.get_mut(at).filter(|gap| gap.contains(&number)) else {
            self.duplicated += 1;
            return;
        };
        self.reordered += 1;
        self.missing = self.missing.saturating_sub(1);
        let behind = number + 1..gap.end;
        gap.end = number;
        if gap.is_empty() {
            if behind.is_empty() {
                self.gaps.remove(at);
            } else {
                *gap = behind;
            }
        } else if !behind.is_empty() {
            self.gaps.insert(at + 1, behind);
            self.bound();
        }
    }

    fn bound(&mut self) {
        if self.gaps.len() > GAPS_MAX
            && let Some(oldest) = self.gaps.pop_front()
        {
            self.forgotten = oldest.end;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Missing, reordered, duplicated.
    fn check(numbers: &[u64], expected: (u64, u64, u64)) {
        let mut ledger = Ledger::default();
        numbers.iter().for_each(|number| ledger.enter(*number, 1));
        assert_eq!((ledger.missing(), ledger.reordered(), ledger.duplicated()), expected, "{numbers:?}");
    }

    #[test]
    fn each_kind_of_error_is_counted_separately() {
        check(&[0, 1, 2, 3], (0, 0, 0));
        check(&[0, 2, 3], (1, 0, 0));
        check(&[3, 4], (3, 0, 0));
        check(&[0, 2, 1, 3], (0, 1, 0));
        check(&[0, 1, 1, 2], (0, 0, 1));
        check(&[0, 4, 2, 2, 1, 3, 1], (0, 3, 2));
        check(&[5, 0, 4, 2], (2, 3, 0));
    }

    #[test]
    fn a_row_is_entered_at_once() {
        let mut ledger = Ledger::default();
        ledger.enter(0, 64);
        ledger.enter(128, 64);
        ledger.enter(64, 64);
        assert_eq!((ledger.arrived(), ledger.missing(), ledger.reordered()), (192, 0, 64));
    }

    #[test]
    fn more_gaps_than_fit_stay_lost() {
        let mut ledger = Ledger::default();
        (0..3 * GAPS_MAX as u64).for_each(|number| ledger.enter(2 * number + 1, 1));
        assert_eq!(ledger.missing(), 3 * GAPS_MAX as u64);
        assert!(ledger.gaps.len() <= GAPS_MAX && ledger.gaps.capacity() <= 2 * GAPS_MAX);
    }

    proptest! {
        /// For any input: arrived and missing numbers together are all numbers below the highest.
        #[test]
        fn nothing_is_invented(numbers in prop::collection::vec(0u64..60, 0..200)) {
            let mut ledger = Ledger::default();
            let mut seen = std::collections::BTreeSet::new();
            let mut duplicated = 0;
            for number in numbers {
                ledger.enter(number, 1);
                duplicated += u64::from(!seen.insert(number));
            }
            prop_assert_eq!(ledger.duplicated(), duplicated);
            prop_assert_eq!(ledger.arrived() - ledger.duplicated() + ledger.missing(), ledger.expected());
        }
    }
}
