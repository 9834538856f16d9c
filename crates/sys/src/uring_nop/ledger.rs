//! User data of NOPs: set at submission and checked at completion.
//!
//! A ledger is selected once and compiled into its loop. Constants disable unneeded work, so that the loop without user
//! data writes an opcode and reads no completion.

use super::Trouble;

/// The user data of one ring's NOPs.
pub(super) trait NopLedger {
    /// Whether the entry's user data is written.
    const SETS: bool;
    /// Whether completions are read.
    const READS: bool;
    /// Whether completions are compared with submissions. Then the whole entry is written, not only its opcode (and user
    /// data).
    const CHECKS: bool;

    /// Starts a round of submissions.
    #[inline]
    fn begin(&mut self) {}
    /// The user data of NOP number `slot` of the round.
    #[inline]
    fn next(&mut self, _slot: u32) -> u64 {
        0
    }
    /// Processes a completion.
    fn settle(&mut self, user_data: u64, result: i32) -> Result<(), Trouble>;
    /// Plants a fault: from now on the expected values differ from the submitted ones.
    fn plant_fault(&mut self);
}

/// No user data: nothing is written or compared; or, if checked, the whole entry with user data of zero.
#[derive(Default)]
pub(super) struct Plain<const CHECKED: bool> {
    expected: u64,
}

impl<const CHECKED: bool> NopLedger for Plain<CHECKED> {
    const SETS: bool = CHECKED;
    const READS: bool = CHECKED;
    const CHECKS: bool = CHECKED;

    #[inline]
    fn settle(&mut self, user_data: u64, result: i32) -> Result<(), Trouble> {
        if user_data == self.expected && result == 0 { Ok(()) } else { Err(Trouble::Wrong { user_data, result }) }
    }

    fn plant_fault(&mut self) {
        self.expected = 1;
    }
}

/// A unique number for every NOP.
pub(super) struct Unique<const CHECKED: bool> {
    next: u64,
    /// The first number of the round.
    first: u64,
    skew: u64,
    round: u32,
    /// The last round in which each of its numbers completed.
    seen: Vec<u32>,
}

impl<const CHECKED: bool> Unique<CHECKED> {
    pub(super) fn new(batch: u32) -> Self {
        // Does not start at zero, the value of forgotten user data.
        Unique { next: 1 << 32, first: 0, skew: 0, round: 0, seen: vec![0; batch as usize] }
    }
}

impl<const CHECKED: bool> NopLedger for Unique<CHECKED> {
    const SETS: bool = true;
    const READS: bool = CHECKED;
    const CHECKS: bool = CHECKED;

    #[inline]
    fn begin(&mut self) {
        self.first = self.next + self.skew;
        self.round = self.round.wrapping_add(1);
    }

    #[inline]
    fn next(&mut self, _slot: u32) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }

    /// The order is free, but every number must be of this round and complete once.
    #[inline]
    fn settle(&mut self, user_data: u64, result: i32) -> Result<(), Trouble> {
        match self.seen.get_mut(user_data.wrapping_sub(self.first) as usize) {
            Some(seen) if *seen != self.round && result == 0 => {
                *seen = self.round;
                Ok(())
            }
            _ => Err(Trouble::Wrong { user_data, result }),
        }
    }

    fn plant_fault(&mut self) {
        self.skew = 1;
    }
}

/// An operation as a program stores it, on the heap.
struct Operation {
    number: u64,
    _state: [u64; 3],
}

/// The address of a heap object for every NOP: allocated at submission, freed at completion.
pub(super) struct Boxed<const CHECKED: bool> {
    /// The round's objects, by position. Addresses from the kernel are looked up here and never dereferenced, so a
    /// wrong address is an error and not a crash.
    outstanding: Vec<Option<Box<Operation>>>,
    /// The expected position of the next one: NOPs complete in order.
    cursor: usize,
    next: u64,
    /// The first number of the round.
    first: u64,
    skew: u64,
}

impl<const CHECKED: bool> Boxed<CHECKED> {
    pub(super) fn new(batch: u32) -> Self {
        Boxed { outstanding: (0..batch).map(|_| None).collect(), cursor: 0, next: 1, first: 1, skew: 0 }
    }

    #[cold]
    fn find(&self, user_data: u64) -> Option<usize> {
        self.outstanding.iter().position(|place| place.as_deref().is_some_and(|own| address(own) == user_data))
    }
}

fn address(operation: &Operation) -> u64 {
    std::ptr::from_ref(operation) as u64
}

impl<const CHECKED: bool> NopLedger for Boxed<CHECKED> {
    const SETS: bool = true;
    const READS: bool = true;
    const CHECKS: bool = CHECKED;

    #[inline]
    fn begin(&mut self) {
        self.cursor = 0;
        self.first = self.next;
    }

    #[inline]
    fn next(&mut self, slot: u32) -> u64 {
        let operation = Box::new(Operation { number: self.next, _state: [0; 3] });
        self.next += 1;
        let user_data = address(&operation);
        self.outstanding[slot as usize] = Some(operation);
        user_data
    }

    #[inline]
    fn settle(&mut self, user_data: u64, result: i32) -> Result<(), Trouble> {
        let wrong = Trouble::Wrong { user_data, result };
        let wanted = user_data.wrapping_add(self.skew);
        let own = self.outstanding.get(self.cursor).and_then(Option::as_deref);
        let place = match own.is_some_and(|own| address(own) == wanted) {
            true => self.cursor,
            false => self.find(wanted).ok_or(wrong)?,
        };
        self.cursor = place + 1;
        let operation = self.outstanding[place].take().ok_or(wrong)?;
        if CHECKED && (operation.number < self.first || result != 0) { Err(wrong) } else { Ok(()) }
    }

    fn plant_fault(&mut self) {
        self.skew = 8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Submits a round and completes it in another order.
    fn round(ledger: &mut impl NopLedger, order: &[usize]) -> Result<(), Trouble> {
        ledger.begin();
        let sent: Vec<u64> = (0..order.len()).map(|slot| ledger.next(slot as u32)).collect();
        order.iter().try_for_each(|at| ledger.settle(sent[*at], 0))
    }

    proptest! {
        #[test]
        fn every_order_of_completion_is_valid(order in Just((0..16).collect::<Vec<usize>>()).prop_shuffle()) {
            let (mut unique, mut boxed) = (Unique::<true>::new(16), Boxed::<true>::new(16));
            for _ in 0..3 {
                prop_assert!(round(&mut unique, &order).is_ok());
                prop_assert!(round(&mut boxed, &order).is_ok());
            }
        }
    }

    #[test]
    fn duplicate_and_unknown_completions_are_wrong() {
        assert!(round(&mut Unique::<true>::new(4), &[0, 1, 1, 3]).is_err());
        assert!(round(&mut Boxed::<true>::new(4), &[0, 1, 1, 3]).is_err());
        let check = |ledger: &mut dyn FnMut() -> Result<(), Trouble>| assert!(ledger().is_err());
        check(&mut || Unique::<true>::new(4).settle(17, 0));
        check(&mut || Boxed::<true>::new(4).settle(17, 0));
        check(&mut || Plain::<true>::default().settle(17, 0));
        check(&mut || Plain::<true>::default().settle(0, -libc::EINVAL));
    }

    #[test]
    fn a_planted_fault_is_found() {
        let (mut zero, mut unique, mut boxed) =
            (Plain::<true>::default(), Unique::<true>::new(4), Boxed::<true>::new(4));
        zero.plant_fault();
        unique.plant_fault();
        boxed.plant_fault();
        assert!(round(&mut zero, &[0, 1, 2, 3]).is_err());
        assert!(round(&mut unique, &[0, 1, 2, 3]).is_err());
        assert!(round(&mut boxed, &[0, 1, 2, 3]).is_err());
    }
}
