//! Tests of a relay's flows.

use super::*;
use proptest::prelude::*;

/// An event at a side.
#[derive(Clone, Copy, Debug)]
enum Step {
    Receives(usize),
    Sends(usize),
}

const MAX: usize = 100;

fn step() -> impl Strategy<Value = (usize, Step)> {
    (0usize..2, prop_oneof![(1usize..80).prop_map(Step::Receives), (1usize..200).prop_map(Step::Sends)])
}

/// Both sides, the bytes that each has received and sent, and whether its engine waits for a request.
struct FlowPair {
    halves: [Half<ReadWrite, false>; 2],
    received: [Vec<u8>; 2],
    sent: [Vec<u8>; 2],
    /// The received bytes that the engine keeps of each.
    kept: [Vec<u8>; 2],
    rests: [bool; 2],
}

impl FlowPair {
    fn new() -> FlowPair {
        let mut halves = [0, 1].map(|side| Half::new(1, side, MAX, None));
        halves[1].connected(0);
        FlowPair {
            halves,
            received: Default::default(),
            sent: Default::default(),
            kept: Default::default(),
            rests: [false; 2],
        }
    }

    /// As the driver does after every event: a flow that wakes its partner hands over first.
    fn wake(&mut self, side: usize) {
        for from in [side, 1 - side] {
            if self.halves[from].wakes() {
                let [front, back] = &mut self.halves;
                if from == 0 {
                    front.give_to_partner(back);
                } else {
                    back.give_to_partner(front);
                }
                self.rests[1 - from] = false;
            }
        }
    }

    fn step(&mut self, side: usize, step: Step) {
        if self.rests[side] {
            return;
        }
        let want = self.halves[side].want(0);
        match (step, want) {
            (Step::Receives(n), Want::Receive | Want::Both) => {
                let at = self.received[side].len();
                let mut bytes: Vec<u8> = (at..at + n).map(|byte| byte as u8).collect();
                self.received[side].extend_from_slice(&bytes);
                self.kept[side].extend_from_slice(&bytes);
                assert!(self.halves[side].received(&mut bytes, 0));
            }
            (Step::Sends(most), Want::Send | Want::Both) => {
                let n = self.halves[side].returns().len().min(most);
                assert!(n > 0);
                self.sent[side].extend(self.kept[1 - side].drain(..n));
                self.halves[side].sent(n, 0);
            }
            (_, Want::Pause(_)) => self.rests[side] = true,
            _ => {}
        }
        self.wake(side);
        assert!(self.halves[side].held < MAX + 80);
    }
}

proptest! {
    #[test]
    fn all_bytes_cross_in_order_and_nothing_hangs(
        steps in prop::collection::vec(step(), 1..300),
    ) {
        let mut pair = FlowPair::new();
        for (side, step) in steps {
            pair.step(side, step);
        }
        // Both sides are asked to send until neither has anything: a side left waiting would keep bytes.
        for _ in 0..400 {
            pair.step(0, Step::Sends(50));
            pair.step(1, Step::Sends(50));
        }
        prop_assert_eq!(&pair.sent[1], &pair.received[0]);
        prop_assert_eq!(&pair.sent[0], &pair.received[1]);
        let wants = [0, 1].map(|side| pair.halves[side].want(0));
        prop_assert_eq!((pair.rests, wants), ([false; 2], [Want::Receive; 2]));
        for side in 0..2 {
            pair.halves[side].ended(ConnectionEnd::Eof, 0);
            pair.wake(side);
        }
        for side in [0, 1] {
            prop_assert_eq!(pair.halves[side].want(0), Want::Finish);
            pair.wake(side);
        }
        prop_assert_eq!([0, 1].map(|side| pair.halves[side].want(0)), [Want::Done, Want::Done]);
    }
}

#[test]
fn a_failure_of_one_side_breaks_both() {
    let mut pair = FlowPair::new();
    pair.halves[0].ended(ConnectionEnd::Closed, 0);
    pair.wake(0);
    assert_eq!([0, 1].map(|side| pair.halves[side].want(0)), [Want::Reset, Want::Reset]);
}
