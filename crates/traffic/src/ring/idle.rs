//! The loop without a ring: what is left is the harness's own cost.

use std::hint::black_box;

use bytegauge_sys::nop::{Lap, NopRing, Shape, Trouble};

/// Takes every operation for completed.
pub(super) struct Idle {
    pub(super) batch: u32,
}

impl NopRing for Idle {
    fn run(&mut self, rounds: u64) -> Result<Lap, Trouble> {
        let mut lap = Lap::default();
        for _ in 0..rounds {
            let batch = u64::from(black_box(self.batch));
            lap.submitted += batch;
            lap.completed += batch;
            lap.enters += 1;
        }
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

    fn misremember(&mut self) {}

    fn shape(&self) -> Shape {
        Shape { submissions: 0, completions: 0 }
    }
}
