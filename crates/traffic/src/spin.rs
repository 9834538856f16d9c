//! Spinning for a given time: simulates the work of a program, without reading a clock, and injected slowdowns,
//! by the clock.
//!
//! One step of work is a dependent multiplication, whose length is measured once in the process. Reading the
//! clock instead would cost about 25 ns each time, more than the simulated work.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use bytegauge_sys::clock::monotonic_ns;

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
