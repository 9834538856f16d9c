//! Spinning for a given time without reading a clock: the stand-in for work that a program does.
//!
//! One step is a dependent multiplication, whose length was measured once in the process. Reading the
//! clock instead would cost some 25 ns a time, more than the work that is to be imitated.

use std::hint::black_box;
use std::sync::OnceLock;

use bytegauge_sys::clock::monotonic_ns;

/// Steps timed at once: about 100 µs.
const SAMPLE_STEPS: u64 = 100_000;

/// How often.
const SAMPLES: usize = 31;

/// Spins for so many nanoseconds.
#[inline]
pub fn spin_ns(ns: f64) {
    steps((ns * steps_per_ns()) as u64);
}

fn steps(count: u64) {
    let mut value = 1u64;
    for _ in 0..count {
        value = black_box(value.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
    black_box(value);
}

/// How many steps one nanosecond holds: the median of several samples, because calls that the spin is compared
/// with are slowed as often by the same neighbours.
fn steps_per_ns() -> f64 {
    static STEPS: OnceLock<f64> = OnceLock::new();
    *STEPS.get_or_init(|| {
        let sample_ns = || {
            let begin_ns = monotonic_ns();
            steps(SAMPLE_STEPS);
            monotonic_ns() - begin_ns
        };
        let mut samples_ns: Vec<u64> = (0..SAMPLES).map(|_| sample_ns()).collect();
        samples_ns.sort_unstable();
        SAMPLE_STEPS as f64 / samples_ns[SAMPLES / 2].max(1) as f64
    })
}

/// Measures the step now, so that the first trial does not pay for it.
pub fn calibrate() {
    steps_per_ns();
}
