//! The earliest of many deadlines, one per slot: a binary heap that knows the position of each slot.
//!
//! Deadlines mostly move later (every reply delays the time-out of its call). A later deadline leaves the heap unchanged: the
//! entry is corrected when it comes to the top. Allocates only if there are more slots than ever before.

/// No deadline.
const NEVER: u64 = u64::MAX;

/// A slot that is not in the heap.
const NOWHERE: u32 = u32::MAX;

/// Deadlines by slot index, nanoseconds of the monotonic clock.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    /// Time and slot; a time is never later than the slot's actual deadline.
    heap: Vec<(u64, u32)>,
    /// By slot: the position in the heap, and the actual deadline.
    slots: Vec<(u32, u64)>,
}

impl Timers {
    /// Makes room for slots below `count`.
    pub(crate) fn grow(&mut self, count: usize) {
        if self.slots.len() < count {
            self.slots.resize(count, (NOWHERE, NEVER));
            self.heap.reserve(count - self.heap.len());
        }
    }

    /// Sets or moves the deadline of a slot.
    #[inline]
    pub(crate) fn set(&mut self, slot: u32, at_ns: u64) {
        let (place, deadline_ns) = &mut self.slots[slot as usize];
        *deadline_ns = at_ns;
        let place = *place as usize;
        if place == NOWHERE as usize {
            self.heap.push((at_ns, slot));
            self.rise(self.heap.len() - 1);
        } else if at_ns < self.heap[place].0 {
            self.heap[place].0 = at_ns;
            self.rise(place);
        }
    }

    /// Removes the deadline of a slot.
    #[inline]
    pub(crate) fn clear(&mut self, slot: u32) {
        self.slots[slot as usize].1 = NEVER;
    }

    /// Whether no slot has a deadline, or an entry of a removed one.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// The earliest deadline; `u64::MAX` if there is none.
    pub(crate) fn earliest_ns(&mut self) -> u64 {
        while let Some(&(at_ns, slot)) = self.heap.first() {
            let deadline_ns = self.slots[slot as usize].1;
            if at_ns == deadline_ns {
                return at_ns;
            }
            if deadline_ns == NEVER {
                self.remove_first();
            } else {
                self.heap[0].0 = deadline_ns;
                self.sink(0);
            }
        }
        NEVER
    }

    /// Takes one slot whose deadline has passed.
    pub(crate) fn take_due(&mut self, now_ns: u64) -> Option<u32> {
        let at_ns = self.earliest_ns();
        (at_ns <= now_ns && at_ns != NEVER).then(|| {
            let slot = self.heap[0].1;
            self.clear(slot);
            self.remove_first();
            slot
        })
    }

    fn remove_first(&mut self) {
        let (_, slot) = self.heap.swap_remove(0);
        self.slots[slot as usize].0 = NOWHERE;
        if !self.heap.is_empty() {
            self.sink(0);
        }
    }

    fn rise(&mut self, mut place: usize) {
        while place > 0 && self.heap[place] < self.heap[(place - 1) / 2] {
            self.heap.swap(place, (place - 1) / 2);
            self.settle(place);
            place = (place - 1) / 2;
        }
        self.settle(place);
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let children = 2 * place + 1..(2 * place + 3).min(self.heap.len());
            let Some(child) = children.min_by_key(|child| self.heap[*child]) else { break };
            if self.heap[place] <= self.heap[child] {
                break;
            }
            self.heap.swap(place, child);
            self.settle(place);
            place = child;
        }
        self.settle(place);
    }

    fn settle(&mut self, place: usize) {
        self.slots[self.heap[place].1 as usize].0 = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Set(u32, u64),
        Clear(u32),
        Take(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0u32..9, 0u64..50).prop_map(|(slot, at)| Step::Set(slot, at)),
            1 => (0u32..9).prop_map(Step::Clear),
            2 => (0u64..50).prop_map(Step::Take),
        ]
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_plain_list(steps in prop::collection::vec(step(), 1..200)) {
            let mut timers = Timers::default();
            timers.grow(9);
            let mut plain = [NEVER; 9];
            for step in steps {
                match step {
                    Step::Set(slot, at) => {
                        timers.set(slot, at);
                        plain[slot as usize] = at;
                    }
                    Step::Clear(slot) => {
                        timers.clear(slot);
                        plain[slot as usize] = NEVER;
                    }
                    Step::Take(now) => match timers.take_due(now) {
                        Some(slot) => {
                            prop_assert_eq!(plain.iter().min(), Some(&plain[slot as usize]));
                            prop_assert!(plain[slot as usize] <= now);
                            plain[slot as usize] = NEVER;
                        }
                        None => prop_assert!(plain.iter().all(|at| *at > now)),
                    },
                }
                prop_assert_eq!(timers.earliest_ns(), *plain.iter().min().unwrap());
            }
        }
    }
}
