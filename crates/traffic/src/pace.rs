//! Offered load below the maximum: when the writer may write next.
//!
//! A rate is kept relative to the start of the flow, not to the last write, so that a late write is compensated.
//! A long pause is slept in slices, so that a stopped flow does not oversleep.
//!
//! Also spinning, by which a program's work is simulated.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytegauge_sys::clock::{monotonic_ns, sleep_until_ns};

/// The longest sleep without a check whether to stop, nanoseconds.
const SLICE_NS: u64 = 20_000_000;

/// When the next write may start.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// At once.
    Free,
    /// When the bytes sent so far are due.
    Rate {
        /// Nanoseconds that one byte takes at this flow's share of the offered load.
        ns_per_byte: f64,
    },
    /// This long after the last one, nanoseconds.
    Think(u64),
    /// At once within a burst; then when the next burst is due.
    Burst {
        /// Bytes of a burst.
        bytes: u64,
        /// From one burst to the next, nanoseconds.
        every_ns: u64,
    },
}

impl Pace {
    /// The pace of one of `flows` flows that share `rate` bytes per second, or pause `think_ns`.
    pub fn of(rate: Option<u64>, flows: usize, think_ns: u64) -> Pace {
        match (rate, think_ns) {
            (Some(rate), _) => Pace::Rate { ns_per_byte: 1e9 * flows as f64 / rate as f64 },
            (None, 0) => Pace::Free,
            (None, think_ns) => Pace::Think(think_ns),
        }
    }

    /// Whether a load below the maximum is offered.
    pub fn is_free(self) -> bool {
        matches!(self, Pace::Free)
    }

    /// When the next write is due, after one that ended at `last_ns`.
    pub fn due_ns(self, start_ns: u64, sent_bytes: u64, last_ns: u64) -> u64 {
        match self {
            Pace::Free => 0,
            Pace::Rate { ns_per_byte } => start_ns + (sent_bytes as f64 * ns_per_byte) as u64,
            Pace::Think(ns) => last_ns + ns,
            Pace::Burst { bytes, every_ns } => start_ns + sent_bytes / bytes.max(1) * every_ns,
        }
    }

    /// Waits until the next write is due, or until stopped.
    pub fn wait(self, start_ns: u64, sent_bytes: u64, stop_requested: &AtomicBool) {
        if self.is_free() {
            return;
        }
        let due_ns = self.due_ns(start_ns, sent_bytes, monotonic_ns());
        loop {
            let now_ns = monotonic_ns();
            if now_ns >= due_ns || stop_requested.load(Ordering::Relaxed) {
                return;
            }
            if sleep_until_ns(due_ns.min(now_ns + SLICE_NS)) {
                // The watchdog's signal: the next call is interrupted too and sees why.
                return;
            }
        }
    }
}

// Spinning for a given time: simulates the work of a program, without reading a clock, and injected slowdowns,
// by the clock.
//
// One step of work is a dependent multiplication, whose length is measured once in the process. Reading the
// clock instead would cost about 25 ns each time, more than the simulated work.

/// Steps timed at once: about 100 µs.
const SAMPLE_STEPS: u64 = 100_000;

/// How often.
const SAMPLES: usize = 31;

/// Spins for this number of nanoseconds.
#[inline]
pub fn spin_ns(ns: f64) {
    steps((ns * steps_per_ns()) as u64);
}

/// Spins for this number of nanoseconds by the clock, or up to one reading of it more: for times that must
/// be exact at any speed of the CPU.
pub fn spin_by_clock_ns(ns: f64) {
    let until_ns = monotonic_ns() + ns as u64;
    while monotonic_ns() < until_ns {}
}

/// One piece of machine code for all callers: inlined twice it was compiled in two ways, and the measured step was not
/// the one that was spun.
#[inline(never)]
fn steps(count: u64) {
    let mut value = 1u64;
    for _ in 0..count {
        value = black_box(value.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
    black_box(value);
}

/// Steps in a nanosecond, as the bits of a `f64`; 0 until they were measured.
static STEPS_PER_NS: AtomicU64 = AtomicU64::new(0);

fn steps_per_ns() -> f64 {
    match STEPS_PER_NS.load(Ordering::Relaxed) {
        0 => calibrate(),
        bits => f64::from_bits(bits),
    }
}

/// Measures the step unless that is done, so that the first trial does not pay for it.
pub fn prepare() {
    steps_per_ns();
}

/// Measures how many steps one nanosecond holds. The quickest of several samples
/// is the step itself; the others were disturbed, as the spun work will be.
fn calibrate() -> f64 {
    let sample_ns = || {
        let begin_ns = monotonic_ns();
        steps(SAMPLE_STEPS);
        monotonic_ns() - begin_ns
    };
    let quickest_ns = (0..SAMPLES).map(|_| sample_ns()).min().unwrap_or(0);
    let found = SAMPLE_STEPS as f64 / quickest_ns.max(1) as f64;
    STEPS_PER_NS.store(found.to_bits(), Ordering::Relaxed);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_are_due_at_their_times() {
        let pace = Pace::Burst { bytes: 3000, every_ns: 1_000_000 };
        let due = |sent_bytes| pace.due_ns(7, sent_bytes, 500);
        assert_eq!([due(0), due(2999), due(3000), due(5999), due(6000)], [7, 7, 1_000_007, 1_000_007, 2_000_007]);
        assert!(!pace.is_free());
    }
}
