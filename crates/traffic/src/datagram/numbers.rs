//! The number of every datagram: at its front where it is sent, and recorded where it arrives.
//!
//! It is the index in its flow, from 0, in eight bytes, the lowest first, so that a datagram that is shorter holds the low bytes of its
//! number, and one that was truncated shows them. The missing bytes are those of the expected number: right as long as the two differ
//! by less than half of the range of the bytes, 127 datagrams with one byte.
//!
//! While all arrive in order nothing is stored. A missing number is stored as a gap until it arrives late; a number that is in no gap and
//! below the highest arrived before. Memory is allocated once: if more gaps are open than fit, the oldest one is closed for good
//! and counts as lost.

use std::collections::VecDeque;
use std::ops::Range;

use bytegauge_model::DatagramReport;

/// Bytes of a whole number.
pub const NUMBER_LEN: usize = 8;

/// Where the number is in a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// The product's own: the number alone, from 0.
    #[default]
    Plain,
    /// iperf3's with counters of eight bytes: seconds, microseconds and the number from 1, the highest byte first.
    Iperf3,
}

/// Bytes at the front of a datagram of iperf3.
const IPERF3_LEN: usize = 16;

/// Writes the front of a datagram of iperf3, sent at `now_ns`. A datagram that is shorter stays as it is.
#[inline]
pub fn write_iperf3(datagram: &mut [u8], number: u64, now_ns: u64) {
    let Some(front) = datagram.first_chunk_mut::<IPERF3_LEN>() else { return };
    let (seconds, us) = (now_ns / 1_000_000_000, now_ns % 1_000_000_000 / 1000);
    front[..4].copy_from_slice(&(seconds as u32).to_be_bytes());
    front[4..8].copy_from_slice(&(us as u32).to_be_bytes());
    front[8..].copy_from_slice(&(number + 1).to_be_bytes());
}

/// Reads the number of a datagram of iperf3. `None`: the datagram is shorter, or is no data.
#[inline]
pub fn read_iperf3(datagram: &[u8]) -> Option<u64> {
    let front: &[u8; IPERF3_LEN] = datagram.first_chunk()?;
    let [.., a, b, c, d, e, f, g, h] = *front;
    u64::from_be_bytes([a, b, c, d, e, f, g, h]).checked_sub(1)
}

/// Writes a number over the front of a datagram.
#[inline]
pub fn write(datagram: &mut [u8], number: u64) {
    let bytes = number.to_le_bytes();
    match datagram.first_chunk_mut() {
        Some(front) => *front = bytes,
        None => {
            let len = datagram.len();
            datagram.copy_from_slice(&bytes[..len]);
        }
    }
}

/// Reads the number of a datagram where `expected` is the next one. `None` for an empty one.
#[inline]
pub fn read(datagram: &[u8], expected: u64) -> Option<u64> {
    match datagram.first_chunk() {
        Some(front) => Some(u64::from_le_bytes(*front)),
        None => nearest(datagram, expected),
    }
}

fn nearest(low: &[u8], expected: u64) -> Option<u64> {
    if low.is_empty() {
        return None;
    }
    let mut bytes = [0; NUMBER_LEN];
    bytes[..low.len()].copy_from_slice(low);
    let range = 1u64 << (8 * low.len());
    let ahead = u64::from_le_bytes(bytes).wrapping_sub(expected) & (range - 1);
    let behind = range - ahead;
    // Before the first one there is none.
    Some(if ahead < range / 2 || behind > expected { expected.saturating_add(ahead) } else { expected - behind })
}

/// Most stored gaps.
const GAPS_MAX: usize = 4096;

/// The numbers of one flow.
#[derive(Debug, Default)]
pub struct Ledger {
    /// What arrived, in the flow's whole life.
    pub counts: DatagramReport,
    /// The next expected number.
    pub next: u64,
    gaps: VecDeque<Range<u64>>,
    /// Numbers below this are forgotten.
    forgotten: u64,
    /// Datagrams of a burst of the writer; 0: it has no bursts.
    burst: u64,
    /// The last burst that lost any, and how many. A datagram that comes late stays lost here.
    lossy: Option<(u64, u64)>,
}

impl Ledger {
    /// The ledger of a flow whose writer has bursts of this many datagrams, if any.
    pub fn new(burst: Option<u64>) -> Ledger {
        let gaps = VecDeque::with_capacity(GAPS_MAX + 1);
        Ledger { gaps, burst: burst.unwrap_or(0), ..Ledger::default() }
    }

    /// Enters `count` datagrams in a row, beginning with `first`.
    #[inline]
    pub fn enter(&mut self, first: u64, count: u64) {
        if first == self.next {
            self.next = self.next.saturating_add(count);
        } else {
            (first..first.saturating_add(count)).for_each(|number| self.enter_out_of_turn(number));
        }
    }

    #[cold]
    fn enter_out_of_turn(&mut self, number: u64) {
        if number >= self.next {
            if number > self.next {
                self.leave_out(self.next..number);
            }
            // Bytes that the path has changed may form any number.
            self.next = number.saturating_add(1);
        } else if number < self.forgotten {
            // Whether it arrived before is forgotten too; a late one is more likely.
            self.counts.reordered += 1;
            self.counts.missing = self.counts.missing.saturating_sub(1);
        } else {
            self.enter_late(number);
        }
    }

    fn leave_out(&mut self, gap: Range<u64>) {
        self.counts.missing = self.counts.missing.saturating_add(gap.end - gap.start);
        self.leave_out_of_bursts(&gap);
        self.gaps.push_back(gap);
        self.bound();
    }

    fn leave_out_of_bursts(&mut self, gap: &Range<u64>) {
        let Some(first) = gap.start.checked_div(self.burst) else { return };
        let last = (gap.end - 1) / self.burst;
        let before = self.lossy.filter(|(burst, _)| *burst == first).map_or(0, |(_, lost)| lost);
        let lost = before + gap.end.min((first + 1).saturating_mul(self.burst)) - gap.start;
        // All of those between the first and the last one, and the beginning of that.
        let most = if last > first + 1 { self.burst } else { lost };
        let of_last = if last > first { gap.end - last * self.burst } else { lost };
        let bursts = last - first + u64::from(before == 0);
        self.counts.lossy_bursts = self.counts.lossy_bursts.saturating_add(bursts);
        self.counts.worst_burst = self.counts.worst_burst.max(most).max(of_last);
        self.lossy = Some((last, of_last));
    }

    fn enter_late(&mut self, number: u64) {
        let at = self.gaps.partition_point(|gap| gap.end <= number);
        let Some(gap) = self.gaps.get_mut(at).filter(|gap| gap.contains(&number)) else {
            self.counts.duplicated += 1;
            return;
        };
        self.counts.reordered += 1;
        self.counts.missing = self.counts.missing.saturating_sub(1);
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

    proptest! {
        #[test]
        fn numbers_round_trip(len in 1usize..20, number in 1000u64..u64::MAX / 2, apart in -100i64..100) {
            let mut datagram = vec![7; len];
            write(&mut datagram, number);
            prop_assert_eq!(read(&datagram, number.wrapping_add_signed(apart)), Some(number));
        }

        #[test]
        fn iperf3_numbers_survive_the_way(len in 16usize..40, number in 0u64..u64::MAX, now_ns: u64) {
            let mut datagram = vec![7; len];
            write_iperf3(&mut datagram, number, now_ns);
            prop_assert_eq!(read_iperf3(&datagram), Some(number));
            prop_assert_eq!(read_iperf3(&datagram[..15]), None);
        }

        #[test]
        fn truncated_numbers_are_restored(kept in 1usize..8, number in 1000u64..u64::MAX / 2) {
            let mut datagram = vec![7; 100];
            write(&mut datagram, number);
            prop_assert_eq!(read(&datagram[..kept], number), Some(number));
        }
    }

    #[test]
    fn the_first_ones_have_none_before_them() {
        assert_eq!(read(&[0], 0), Some(0));
        assert_eq!(read(&[200], 0), Some(200));
        assert_eq!(read(&[255], 300), Some(255));
        assert_eq!(read(&[], 7), None);
    }
}

#[cfg(test)]
mod received_numbers_tests {
    use proptest::prelude::*;

    use super::*;

    /// Missing, reordered, duplicated.
    fn check(numbers: &[u64], expected: (u64, u64, u64)) {
        let mut ledger = Ledger::new(None);
        numbers.iter().for_each(|number| ledger.enter(*number, 1));
        let DatagramReport { missing, reordered, duplicated, .. } = ledger.counts;
        assert_eq!((missing, reordered, duplicated), expected, "{numbers:?}");
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
    fn losses_are_counted_by_burst() {
        let check = |arrived: &[Range<u64>], expected: (u64, u64)| {
            let mut ledger = Ledger::new(Some(10));
            arrived.iter().for_each(|row| ledger.enter(row.start, row.end - row.start));
            assert_eq!((ledger.counts.lossy_bursts, ledger.counts.worst_burst), expected, "{arrived:?}");
        };
        check(&[0..5, 5..30], (0, 0));
        // Twice in one burst, then the end of the next one.
        check(&[0..2, 3..5, 7..14, 20..30], (2, 6));
        // From within a burst into the one after the next.
        check(&[0..8, 21..40], (3, 10));
        check(&[0..8, 13..40], (2, 3));
        check(&[0..1, u64::MAX..u64::MAX], (0, 0));
        check(&[0..1, u64::MAX - 1..u64::MAX], (u64::MAX / 10 + 1, 10));
    }

    #[test]
    fn a_row_is_entered_at_once() {
        let mut ledger = Ledger::new(None);
        ledger.enter(0, 64);
        ledger.enter(128, 64);
        ledger.enter(64, 64);
        assert_eq!((ledger.next, ledger.counts.missing, ledger.counts.reordered), (192, 0, 64));
    }

    #[test]
    fn more_gaps_than_fit_stay_lost() {
        let mut ledger = Ledger::new(None);
        (0..3 * GAPS_MAX as u64).for_each(|number| ledger.enter(2 * number + 1, 1));
        assert_eq!(ledger.counts.missing, 3 * GAPS_MAX as u64);
        assert!(ledger.gaps.len() <= GAPS_MAX && ledger.gaps.capacity() <= 2 * GAPS_MAX);
    }

    proptest! {
        /// For any input: arrived and missing numbers together are all numbers below the highest.
        #[test]
        fn nothing_is_invented(numbers in prop::collection::vec(0u64..60, 0..200)) {
            let mut ledger = Ledger::new(None);
            let mut seen = std::collections::BTreeSet::new();
            let mut duplicated = 0;
            for number in numbers {
                ledger.enter(number, 1);
                duplicated += u64::from(!seen.insert(number));
            }
            prop_assert_eq!(ledger.counts.duplicated, duplicated);
            prop_assert_eq!(seen.len() as u64 + ledger.counts.missing, ledger.next);
        }
    }
}
