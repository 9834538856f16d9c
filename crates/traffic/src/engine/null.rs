//! The null engine: the blocking loop with calls that do nothing, which measures the harness's own cost.
//!
//! Engines count in one of two ways, both of plain loads, additions and stores: in a [`Meter`], or in a
//! [`Share`](crate::tally::Share) of its tally if threads of the engine's own count. A share does what a meter does, after
//! checking the phase of the window. The null loop counts in a share, so the floor is that of the slower way, and holds for
//! every engine in the same table.

use std::hint::black_box;

use crate::end_error::EndError;
use crate::engine::blocking::{PlainIo, run_on};
use crate::engine::{FlowStation, Stop};
use crate::flow::Flow;
use crate::meter::Meter;

pub(super) fn run<F: Flow>(flow: &mut F, slot: FlowStation<'_>, meter: &mut Meter) -> Result<Stop, EndError> {
    let mut share = meter.tally().share_of_meter();
    let (read, write) = (|buffer: &mut [u8]| Ok(black_box(buffer.len())), |bytes: &[u8]| Ok(black_box(bytes.len())));
    let count = |_: &mut Meter, moved, asked| share.count(moved, asked);
    run_on(&mut PlainIo::new(read, write, count), flow, slot, meter)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::flow::Want;
    use crate::meter::Schedule;
    use crate::pace::Pace;

    struct Reader(u64);

    impl Flow for Reader {
        fn want(&mut self, _now_ns: u64) -> Want {
            Want::Receive
        }

        fn received(&mut self, _bytes: &mut [u8], _now_ns: u64) -> bool {
            self.0 += 1;
            true
        }
    }

    #[test]
    fn the_floor_counts_by_a_share() {
        let schedule = Schedule { warmup_ns: 0, window_ns: 1_000_000, until_stopped: false };
        let mut meter = Meter::start(&schedule, 0);
        let (mut flow, flag) = (Reader(0), AtomicBool::new(false));
        let slot =
            FlowStation { fd: None, buffer: &mut [0; 16], pace: Pace::Free, abort: &flag, stop_requested: &flag };
        assert_eq!(run(&mut flow, slot, &mut meter).unwrap(), Stop::Time);
        let (sums, window) = (meter.tally().sums(), meter.window());
        assert_eq!((sums.calls, sums.bytes), (flow.0, 16 * flow.0));
        assert!(window.calls > 0 && window.calls <= flow.0, "{window:?}");
        // The meter charges its own thread once, and has its time on a run queue if the kernel reports it.
        assert!(!meter.tally().has_threads());
    }
}
