//! The loop without a ring, which measures the harness's own cost.

use std::hint::black_box;

use bytegauge_sys::uring_nop::{Lap, NopRing, Shape, Trouble};

/// Treats every operation as completed, and does the bookkeeping of the loops with a ring for each: if a batch were added in one
/// step, the compiler would reduce a whole lap to one addition.
pub(super) struct Idle {
    pub(super) batch: u32,
    /// Whether every completion is compared with its submission.
    pub(super) checked: bool,
}

impl NopRing for Idle {
    fn run(&mut self, rounds: u64) -> Result<Lap, Trouble> {
        let mut lap = Lap::default();
        for _ in 0..rounds {
            let batch = black_box(self.batch);
            lap.submitted += u64::from(batch);
            for slot in 0..batch {
                let user_data = black_box(u64::from(slot));
                let agrees = !self.checked || user_data == u64::from(slot);
                lap.completed = black_box(lap.completed + u64::from(agrees));
            }
            lap.enters += 1;
        }
        lap.checked = if self.checked { lap.completed } else { 0 };
        Ok(lap)
    }

    fn only_submit(&mut self, rounds: u64) -> Result<Lap, Trouble> {
        self.run(rounds)
    }

    fn overflowed(&self) -> bool {
        false
    }

    fn take_rest(&mut self, _most: u64) -> Result<u64, Trouble> {
        Ok(0)
    }

    fn plant_fault(&mut self) {}

    fn shape(&self) -> Shape {
        Shape { submissions: 0, completions: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_counted_and_compared_as_with_rings() {
        let lap = |checked| Idle { batch: 8, checked }.run(100).expect("nothing can fail");
        let expected = |checked| Lap { submitted: 800, completed: 800, enters: 100, checked };
        assert_eq!(lap(false), expected(0));
        assert_eq!(lap(true), expected(800));
    }
}
