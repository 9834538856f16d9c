//! Whether the address of a buffer matters for copies out of the kernel on this CPU.
//!
//! On AMD Zen 3, `rep movsb` compares bits 11:0 of the two addresses only and takes a small distance for an overlap: a copy is
//! slow where its destination begins 1 to 31 bytes after its source modulo 4096, on Zen 4 1 to 15 bytes. Kernel data mostly begin at
//! a page, and malloc of glibc returns page + 16 from 128 KiB on. CPUs and kernels differ, so it is measured: reads of a file in
//! the page cache, to a page and to an address after it, by turns.

use std::io::{self, Write as _};
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt as _;

use crate::buffer::{AlignedBuffer, PageOffset};
use crate::cpu_time::thread_usage;
use crate::file;

/// Bytes of a read: in the caches, so that the copy is most of its cost.
const READ_BYTES: usize = 64 << 10;

/// Reads of a turn. A turn takes about half a millisecond.
const READS: usize = 64;

/// Turns of each address. Medians are compared, since other programs share the caches.
const TURNS: usize = 21;

/// Offsets to which such a CPU copies slowly from a page.
pub const SLOW_OFFSETS: RangeInclusive<u64> = 1..=31;

/// The address matters from this ratio of CPU times on: far above the noise of a shared machine, and far below that of CPUs
/// which have the effect (6 on Zen 3).
pub const SLOW_RATIO: f64 = 1.5;

/// Measures how many times the CPU time of a read to a page one to `offset` bytes after a page takes, within about 50 ms.
///
/// # Errors
///
/// The kernel's error untouched: no descriptor, or no memory.
pub fn ratio_at(offset: usize) -> io::Result<f64> {
    let before = PageOffset::of_thread();
    let [mut aligned, mut shifted] = [0, offset].map(|offset| {
        PageOffset::At(offset).set_for_thread();
        AlignedBuffer::new(READ_BYTES)
    });
    before.set_for_thread();
    let mut file = file::in_memory(c"bytegauge-copy-probe")?;
    file.write_all(&aligned)?;
    let turn = |buffer: &mut [u8]| -> io::Result<f64> {
        let begin = thread_usage();
        for _ in 0..READS {
            file.read_exact_at(buffer, 0)?;
        }
        Ok(thread_usage().since(&begin).total_ns as f64 / (READS * READ_BYTES) as f64)
    };
    // The first turn of each warms the caches.
    turn(&mut aligned)?;
    turn(&mut shifted)?;
    let mut costs = [Vec::new(), Vec::new()];
    for _ in 0..TURNS {
        costs[0].push(turn(&mut aligned)?);
        costs[1].push(turn(&mut shifted)?);
    }
    let [aligned_ns, shifted_ns] = costs.map(median);
    Ok(shifted_ns / aligned_ns)
}

fn median(mut costs: Vec<f64>) -> f64 {
    costs.sort_by(f64::total_cmp);
    costs[TURNS / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_of_a_page_to_itself_is_about_one() {
        PageOffset::At(8).set_for_thread();
        assert!((0.2..5.0).contains(&ratio_at(0).unwrap()));
        assert!(ratio_at(16).unwrap() > 0.0);
        assert_eq!(PageOffset::of_thread(), PageOffset::At(8));
    }
}
