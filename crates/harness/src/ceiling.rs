//! Upper limits of everything that moves bytes here: the rate at which one CPU copies, within its caches and beyond them,
//! and the time of an empty system call.
//!
//! Shown with results for reference; never compared with a cell. A ceiling is the best possible value, so it is the best of
//! several rounds: disturbances make a round slower, and nothing makes it faster.

use std::hint::black_box;

use bytegauge_sys::clock::monotonic_ns;
use bytegauge_sys::process::system_call;

/// Both buffers of a copy fit in the second-level cache of any server's CPU since 2013 (256 KiB).
const CACHED_BYTES: usize = 64 << 10;

/// Beyond the last-level cache that one CPU has to itself on most machines.
const MEMORY_BYTES: usize = 64 << 20;

/// Bytes of a round, whatever the buffers.
const ROUND_BYTES: usize = 64 << 20;

const ROUNDS: usize = 8;

/// Calls of a round.
const CALLS: u64 = 50_000;

/// The best values of a CPU of this machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceilings {
    /// Bytes copied per second between buffers in the caches.
    pub copy_cached: f64,
    /// The same between buffers in memory; each byte is read and written.
    pub copy_memory: f64,
    /// Nanoseconds of a system call that does nothing.
    pub system_call_ns: f64,
}

/// Measures all three, in about half a second and 128 MiB.
pub fn measure() -> Ceilings {
    let calls = || (0..CALLS).for_each(|_| system_call());
    Ceilings {
        copy_cached: copied_a_second(CACHED_BYTES),
        copy_memory: copied_a_second(MEMORY_BYTES),
        system_call_ns: best_ns(calls) as f64 / CALLS as f64,
    }
}

fn copied_a_second(bytes: usize) -> f64 {
    // Written once, so that pages are there; for zeroes the kernel might map one page for all.
    let (from, mut to) = (vec![1u8; bytes], vec![2u8; bytes]);
    let ns = best_ns(|| {
        for _ in 0..ROUND_BYTES / bytes {
            black_box(&mut to).copy_from_slice(black_box(&from));
        }
    });
    ROUND_BYTES as f64 * 1e9 / ns as f64
}

/// The shortest of the rounds, at least a nanosecond.
fn best_ns(mut round: impl FnMut()) -> u64 {
    let once = |_| {
        let began_ns = monotonic_ns();
        round();
        monotonic_ns().saturating_sub(began_ns).max(1)
    };
    (0..ROUNDS).map(once).min().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_of_all_rounds_is_taken() {
        let mut rounds = 0;
        assert!(best_ns(|| rounds += 1) >= 1);
        assert_eq!(rounds, ROUNDS);
        assert_eq!((ROUND_BYTES % CACHED_BYTES, ROUND_BYTES % MEMORY_BYTES), (0, 0));
    }
}
