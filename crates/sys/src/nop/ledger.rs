//! What goes out with each NOP as its user data, and what is made of it when it comes back.
//!
//! A ledger is chosen once and compiled into its loop. What it need not do it says by constants, so that the
//! loop without user data writes an opcode and reads no completion at all.

/// User data that came back wrong, in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    pub user_data: u64,
    pub result: i32,
}

/// The user data of one ring's NOPs.
pub(super) trait Ledger {
    /// The whole entry is written, not its opcode (and user data) alone.
    const WHOLE: bool;
    /// The entry's user data is written.
    const SETS: bool;
    /// Completions are read.
    const READS: bool;
    /// What comes back is compared with what went out.
    const CHECKS: bool;

    /// A round of submissions begins.
    fn begin(&mut self);
    /// The user data of the round's NOP number `slot`.
    fn next(&mut self, slot: u32) -> u64;
    /// Takes what came back.
    fn settle(&mut self, user_data: u64, result: i32) -> Result<(), Wrong>;
    /// Plants a fault: from now on something else is expected than goes out.
    fn misremember(&mut self);
}

/// No user data, nothing compared.
pub(super) struct Bare;

impl Ledger for Bare {
    const WHOLE: bool = false;
    const SETS: bool = false;
    const READS: bool = false;
    const CHECKS: bool = false;

    #[inline]
    fn begin(&mut self) {}

    #[inline]
    fn next(&mut self, _slot: u32) -> u64 {
        0
    }

    #[inline]
    fn settle(&mut self, _user_data: u64, _result: i32) -> Result<(), Wrong> {
        Ok(())
    }

    fn misremember(&mut self) {}
}

/// The whole entry with user data of zero, compared.
#[derive(Default)]
pub(super) struct Zero {
    expected: u64,
}

impl Ledger for Zero {
    const WHOLE: bool = true;
    const SETS: bool = true;
    const READS: bool = true;
    const CHECKS: bool = true;

    #[inline]
    fn begin(&mut self) {}

    #[inline]
    fn next(&mut self, _slot: u32) -> u64 {
        0
    }

    #[inline]
    fn settle(&mut self, user_data: u64, result: i32) -> Result<(), Wrong> {
        if user_data == self.expected && result == 0 { Ok(()) } else { Err(Wrong { user_data, result }) }
    }

    fn misremember(&mut self) {
        self.expected = 1;
    }
}

/// A number of its own for every NOP.
pub(super) struct Unique<const CHECKED: bool> {
    next: u64,
    /// The first number of the round.
    first: u64,
    skew: u64,
    round: u32,
    /// The last round in which each of its numbers came back.
    seen: Vec<u32>,
}

impl<const CHECKED: bool> Unique<CHECKED> {
    pub(super) fn new(batch: u32) -> Self {
        // Not from zero, which is what forgotten user data looks like.
        Unique { next: 1 << 32, first: 0, skew: 0, round: 0, seen: vec![0; batch as usize] }
    }
}

impl<const CHECKED: bool> Ledger for Unique<CHECKED> {
    const WHOLE: bool = CHECKED;
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

    /// Any order will do, but every number must be the round's and come once.
    #[inline]
    fn settle(&mut self, user_data: u64, result: i32) -> Result<(), Wrong> {
        match self.seen.get_mut(user_data.wrapping_sub(self.first) as usize) {
            Some(seen) if *seen != self.round && result == 0 => {
                *seen = self.round;
                Ok(())
            }
            _ => Err(Wrong { user_data, result }),
        }
    }

    fn misremember(&mut self) {
        self.skew = 1;
    }
}

/// What a program keeps of an operation, on the heap.
struct Operation {
    number: u64,
    _state: [u64; 3],
}

/// The address of a heap object for every NOP: made when it is submitted, freed when it completes.
pub(super) struct Boxed<const CHECKED: bool> {
    /// The round's objects, by their place in it. What the kernel hands back is looked for here and never
    /// followed: a wrong address is a finding, not a crash.
    outstanding: Vec<Option<Box<Operation>>>,
    /// Where the next one is expected: NOPs complete in order.
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

impl<const CHECKED: bool> Ledger for Boxed<CHECKED> {
    const WHOLE: bool = CHECKED;
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
    fn settle(&mut self, user_data: u64, result: i32) -> Result<(), Wrong> {
        let wrong = Wrong { user_data, result };
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

    fn misremember(&mut self) {
        self.skew = 8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Sends a round out and takes it back in another order.
    fn round(ledger: &mut impl Ledger, order: &[usize]) -> Result<(), Wrong> {
        ledger.begin();
        let sent: Vec<u64> = (0..order.len()).map(|slot| ledger.next(slot as u32)).collect();
        order.iter().try_for_each(|at| ledger.settle(sent[*at], 0))
    }

    proptest! {
        #[test]
        fn every_order_of_completion_is_fine(order in Just((0..16).collect::<Vec<usize>>()).prop_shuffle()) {
            let (mut unique, mut boxed) = (Unique::<true>::new(16), Boxed::<true>::new(16));
            for _ in 0..3 {
                prop_assert!(round(&mut unique, &order).is_ok());
                prop_assert!(round(&mut boxed, &order).is_ok());
            }
        }
    }

    #[test]
    fn what_comes_twice_or_was_never_sent_is_wrong() {
        assert!(round(&mut Unique::<true>::new(4), &[0, 1, 1, 3]).is_err());
        assert!(round(&mut Boxed::<true>::new(4), &[0, 1, 1, 3]).is_err());
        let check = |ledger: &mut dyn FnMut() -> Result<(), Wrong>| assert!(ledger().is_err());
        check(&mut || Unique::<true>::new(4).settle(17, 0));
        check(&mut || Boxed::<true>::new(4).settle(17, 0));
        check(&mut || Zero::default().settle(17, 0));
        check(&mut || Zero::default().settle(0, -libc::EINVAL));
    }

    #[test]
    fn a_planted_fault_is_found() {
        let (mut zero, mut unique, mut boxed) = (Zero::default(), Unique::<true>::new(4), Boxed::<true>::new(4));
        zero.misremember();
        unique.misremember();
        boxed.misremember();
        assert!(round(&mut zero, &[0, 1, 2, 3]).is_err());
        assert!(round(&mut unique, &[0, 1, 2, 3]).is_err());
        assert!(round(&mut boxed, &[0, 1, 2, 3]).is_err());
    }
}
