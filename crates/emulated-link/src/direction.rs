//! One direction of an emulated link: a bounded queue, a rate, a loss and a delay, in the order in which a packet meets them.
//!
//! Time is an argument: no function reads the clock. No packet is sent before it is due; late packets are counted.

use std::collections::VecDeque;
use std::ops::Range;

use bytegauge_model::{EmulatedLink, MIX_STEP, WayUse, mix};

/// Packets that are due within this time are given together, nanoseconds: a process cannot be woken more often in time. The
/// last packet is never early.
const TOGETHER_NS: u64 = 100_000;

/// Packets that come at once, in order.
pub(super) trait Train {
    /// Some of them that arrive at once.
    type Piece;

    /// Number of packets.
    fn packets(&self) -> usize;

    /// Bytes of one of them, with its headers.
    fn bytes(&self, packet: usize) -> u64;

    /// A part of them.
    fn cut(&self, packets: Range<usize>) -> Self::Piece;
}

/// One direction, for any type of packet.
#[derive(Debug)]
pub(super) struct LinkWay<P> {
    link: EmulatedLink,
    random: LossRandom,
    /// The moment when the link will have sent all waiting packets: the next packet follows then.
    free_ns: u64,
    on_its_way: VecDeque<DuePackets<P>>,
    used: WayUse,
}

/// Packets that are given together.
#[derive(Debug)]
struct DuePackets<P> {
    /// The moment when the last of its packets is due.
    due_ns: u64,
    packets: u64,
    bytes: u64,
    /// Sum of the times that the other packets wait for the last.
    waits_ns: u64,
    piece: P,
}

impl<P> LinkWay<P> {
    /// An empty direction. The seed determines the lost packets.
    pub(super) fn new(link: EmulatedLink, seed: u64) -> LinkWay<P> {
        LinkWay { link, random: LossRandom(seed), free_ns: 0, on_its_way: VecDeque::new(), used: WayUse::default() }
    }

    /// Adds packets that came, and were taken at most this much later, nanoseconds. A packet is dropped if the queue is full, or
    /// lost by chance; the others are split where one is missing.
    pub(super) fn offer<T: Train<Piece = P>>(&mut self, now_ns: u64, late_ns: u64, train: &T) {
        let mut from = 0;
        let mut dues: Vec<u64> = Vec::new();
        for packet in 0..train.packets() {
            let due_ns = self.due_ns(now_ns, train.bytes(packet));
            let goes_along = |due_ns: &u64| dues.first().is_none_or(|first_ns| due_ns - first_ns <= TOGETHER_NS);
            if !due_ns.as_ref().is_some_and(goes_along) {
                self.send(train, from, &dues);
                dues.clear();
            }
            if dues.is_empty() {
                from = packet;
            }
            dues.extend(due_ns);
        }
        self.send(train, from, &dues);
        self.used.late_ns += late_ns * train.packets() as u64;
    }

    /// The moment when a packet of this many bytes arrives that came now; `None` if it never arrives.
    fn due_ns(&mut self, now_ns: u64, bytes: u64) -> Option<u64> {
        let begins_ns = self.free_ns.max(now_ns);
        let waits_ns = begins_ns - now_ns;
        if waits_ns > self.link.passing_ns(self.link.queue_bytes()) {
            self.used.queue_drops += 1;
            return None;
        }
        self.free_ns = begins_ns + self.link.passing_ns(bytes);
        // A lost packet has used the link.
        if self.random.next_millionth() < self.link.loss.0 {
            self.used.lost += 1;
            return None;
        }
        Some(self.free_ns + self.link.delay_ns / 2)
    }

    /// Schedules packets from this position for this moment.
    fn send<T: Train<Piece = P>>(&mut self, train: &T, from: usize, dues: &[u64]) {
        let Some(&due_ns) = dues.last() else { return };
        let packets = from..from + dues.len();
        let waits_ns = dues.iter().map(|ns| due_ns - ns).sum();
        let bytes = packets.clone().map(|packet| train.bytes(packet)).sum();
        let piece = train.cut(packets);
        self.on_its_way.push_back(DuePackets { due_ns, packets: dues.len() as u64, bytes, waits_ns, piece });
    }

    /// The moment when the next packets arrive.
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.on_its_way.front().map(|next| next.due_ns)
    }

    /// The next packets that are due by now.
    pub(super) fn arrived(&mut self, now_ns: u64) -> Option<P> {
        self.next_ns().filter(|due_ns| *due_ns <= now_ns)?;
        let DuePackets { due_ns, packets, bytes, waits_ns, piece } = self.on_its_way.pop_front()?;
        let late_ns = now_ns - due_ns;
        self.used.passed += packets;
        self.used.passed_bytes += bytes;
        self.used.late_ns += late_ns * packets + waits_ns;
        self.used.late_max_ns = self.used.late_max_ns.max(late_ns);
        Some(piece)
    }

    /// The counts so far.
    pub(super) fn used(&self) -> WayUse {
        self.used
    }
}

/// Good enough for packet loss, and the same for one seed on every machine.
#[derive(Debug)]
struct LossRandom(u64);

impl LossRandom {
    /// A number below a million.
    fn next_millionth(&mut self) -> u32 {
        let mixed = mix(self.0);
        self.0 = self.0.wrapping_add(MIX_STEP);
        // The upper half, scaled: the probabilities differ by at most one in four thousand.
        ((u128::from(mixed) * 1_000_000) >> 64) as u32
    }
}

#[cfg(test)]
mod tests {
    use bytegauge_model::{LinkRate, LossShare};
    use proptest::prelude::*;

    use super::*;

    fn link(delay_ns: u64, loss: u32, bits: u64) -> EmulatedLink {
        EmulatedLink { delay_ns, loss: LossShare(loss), rate: LinkRate(bits) }
    }

    /// Packets by number and size that come at once.
    struct Numbered(Vec<(u64, u64)>);

    impl Train for Numbered {
        type Piece = Vec<u64>;

        fn packets(&self) -> usize {
            self.0.len()
        }

        fn bytes(&self, packet: usize) -> u64 {
            self.0[packet].1
        }

        fn cut(&self, packets: Range<usize>) -> Vec<u64> {
            self.0[packets].iter().map(|(number, _)| *number).collect()
        }
    }

    fn train(numbers: Range<u64>) -> Numbered {
        Numbered(numbers.map(|number| (number, 1500)).collect())
    }

    /// All packets that arrive, with the moments at which they were due.
    fn arrivals(way: &mut LinkWay<Vec<u64>>) -> Vec<(u64, Vec<u64>)> {
        std::iter::from_fn(|| {
            let due_ns = way.next_ns()?;
            Some((due_ns, way.arrived(due_ns)?))
        })
        .collect()
    }

    #[test]
    fn packets_keep_order_distance_and_delay() {
        // A packet needs 12 µs at 1 Gbit/s, and half of 20 ms to arrive.
        let mut way = LinkWay::new(link(20_000_000, 0, 1_000_000_000), 1);
        for number in 0..3 {
            way.offer(1000, 0, &train(number..number + 1));
        }
        way.offer(5_000_000, 0, &train(3..4));
        let due = [10_013_000, 10_025_000, 10_037_000, 15_012_000];
        assert_eq!(way.arrived(due[0] - 1), None);
        let expected: Vec<_> = due.into_iter().zip([vec![0], vec![1], vec![2], vec![3]]).collect();
        assert_eq!(arrivals(&mut way), expected);
        let WayUse { passed, passed_bytes, lost, queue_drops, late_ns, .. } = way.used();
        assert_eq!((passed, passed_bytes, lost, queue_drops, late_ns), (4, 6000, 0, 0, 0));
    }

    #[test]
    fn a_train_arrives_in_parts_at_the_rate() {
        let mut way = LinkWay::new(link(0, 0, 1_000_000_000), 1);
        way.offer(0, 0, &train(0..20));
        let pieces = [(108_000, (0..9).collect()), (216_000, (9..18).collect()), (240_000, vec![18, 19])];
        assert_eq!(arrivals(&mut way), pieces);
        // The first packet waits 96 µs for the last of its part, and so on.
        let of_nine_ns: u64 = (0..9).map(|number| number * 12_000).sum();
        assert_eq!((way.used().passed, way.used().late_ns), (20, 2 * of_nine_ns + 12_000));
        // If a packet takes longer, each arrives alone.
        let mut slow = LinkWay::new(link(0, 0, 100_000_000), 1);
        slow.offer(0, 0, &train(0..3));
        assert_eq!(arrivals(&mut slow), [(120_000, vec![0]), (240_000, vec![1]), (360_000, vec![2])]);
    }

    #[test]
    fn packets_taken_late_count_as_late() {
        let mut way = LinkWay::new(link(0, 0, 1_000_000_000), 1);
        way.offer(0, 7, &train(0..1));
        way.offer(0, 7, &train(1..2));
        assert_eq!(
            (way.arrived(112_000), way.arrived(112_000), way.arrived(112_000)),
            (Some(vec![0]), Some(vec![1]), None)
        );
        let used = way.used();
        assert_eq!((used.late_ns, used.late_max_ns), (7 + 100_000 + 7 + 88_000, 100_000));
    }

    #[test]
    fn a_full_queue_drops_and_recovers() {
        let short = link(0, 0, 1_000_000_000);
        let mut way = LinkWay::new(short, 1);
        let fits = short.queue_bytes() / 1500;
        way.offer(0, 0, &train(0..2 * fits));
        // One packet more than those that wait is on the link itself.
        assert_eq!(way.used().queue_drops, fits - 1);
        let all_passed_ns = short.passing_ns(short.queue_bytes());
        way.offer(all_passed_ns, 0, &train(1 << 20..(1 << 20) + 1));
        assert_eq!(way.used().queue_drops, fits - 1);
        assert_eq!(arrivals(&mut way).last().unwrap().1, [1 << 20]);
    }

    #[test]
    fn losses_follow_the_share_and_the_seed() {
        let survivors = |loss, seed| {
            let mut way = LinkWay::new(link(1_000_000, loss, 10_000_000_000), seed);
            for first in (0..100_000).step_by(10) {
                way.offer(first * 2000, 0, &train(first..first + 10));
            }
            let left: Vec<u64> = arrivals(&mut way).into_iter().flat_map(|(_, numbers)| numbers).collect();
            assert_eq!(way.used().lost + left.len() as u64, 100_000);
            left
        };
        assert_eq!(survivors(0, 7).len(), 100_000);
        let lost = 100_000 - survivors(10_000, 7).len();
        // A thousand, within five standard deviations.
        assert!((843..=1157).contains(&lost), "{lost}");
        assert_eq!(survivors(10_000, 7), survivors(10_000, 7));
        assert_ne!(survivors(10_000, 7), survivors(10_000, 8));
    }

    proptest! {
        /// No packet is invented, overtaken, or sent before its delay or faster than the rate.
        #[test]
        fn nothing_is_invented_overtaken_early_or_too_fast(
            seed in any::<u64>(),
            delay_us in 0_u64..100_000,
            loss in 0_u32..500_000,
            bits in 1_000_000_u64..10_000_000_000,
            comes in proptest::collection::vec(
                (0_u64..1_000_000, proptest::collection::vec(1_u64..=1500, 1..50)),
                1..40,
            ),
        ) {
            let asked = link(delay_us * 1000, loss, bits);
            let mut way = LinkWay::new(asked, seed);
            let (mut now_ns, mut came) = (0, Vec::new());
            for (later_ns, sizes) in &comes {
                now_ns += later_ns;
                let first = came.len() as u64;
                way.offer(now_ns, 0, &Numbered((first..).zip(sizes.iter().copied()).collect()));
                came.extend(sizes.iter().map(|bytes| (now_ns, *bytes)));
            }
            let arrived = arrivals(&mut way);
            let used = way.used();
            let numbers: Vec<u64> = arrived.iter().flat_map(|(_, numbers)| numbers.iter().copied()).collect();
            prop_assert_eq!(used.passed + used.lost + used.queue_drops, came.len() as u64);
            prop_assert_eq!(used.passed, numbers.len() as u64);
            prop_assert_eq!(used.passed_bytes, numbers.iter().map(|number| came[*number as usize].1).sum::<u64>());
            prop_assert!(numbers.is_sorted_by(|before, after| before < after));
            let mut before_ns = 0;
            for (due_ns, numbers) in &arrived {
                let passing_ns: u64 = numbers.iter().map(|number| asked.passing_ns(came[*number as usize].1)).sum();
                prop_assert!(*due_ns >= came[numbers[0] as usize].0 + passing_ns + asked.delay_ns / 2);
                prop_assert!(*due_ns >= before_ns + passing_ns);
                // The first packet waits at most this long for the last.
                let first_ns = passing_ns - asked.passing_ns(came[numbers[0] as usize].1);
                prop_assert!(first_ns <= TOGETHER_NS);
                before_ns = *due_ns;
            }
        }
    }
}
