//! The work of a reader on the bytes of each read.
//!
//! A reader that discards bytes measures only the kernel; these types represent readers with work. Each is a type of its own, so
//! that the loop around it is compiled for it.

use std::hint::black_box;

use crate::spin::{spin_by_clock_ns, spin_ns};

/// Work done with the bytes of one read.
pub trait ReaderWork: Send {
    /// Does the work.
    fn spend(&mut self, bytes: &[u8]);
}

/// Discards the bytes.
#[derive(Debug)]
pub struct Discard;

impl ReaderWork for Discard {
    #[inline]
    fn spend(&mut self, _bytes: &[u8]) {}
}

/// Sums every byte.
#[derive(Debug, Default)]
pub struct Sum(u64);

impl ReaderWork for Sum {
    #[inline]
    fn spend(&mut self, bytes: &[u8]) {
        let sum: u64 = bytes.iter().map(|byte| u64::from(*byte)).sum();
        self.0 = black_box(self.0.wrapping_add(sum));
    }
}

/// Copies every byte to memory of its own.
#[derive(Debug)]
pub struct CopyOut(Vec<u8>);

impl CopyOut {
    /// Room for reads of up to `size` bytes, already touched.
    pub fn new(size: usize) -> CopyOut {
        CopyOut(vec![1; size])
    }
}

impl ReaderWork for CopyOut {
    #[inline]
    fn spend(&mut self, bytes: &[u8]) {
        self.0[..bytes.len()].copy_from_slice(bytes);
        black_box(&mut self.0);
    }
}

/// Spins for this number of nanoseconds per byte.
#[derive(Debug)]
pub struct SpinPerByte(pub f64);

impl ReaderWork for SpinPerByte {
    #[inline]
    fn spend(&mut self, bytes: &[u8]) {
        spin_ns(self.0 * bytes.len() as f64);
    }
}

/// Spins for this number of nanoseconds after each read, by the clock.
#[derive(Debug)]
pub struct SpinPerRead(pub f64);

impl ReaderWork for SpinPerRead {
    #[inline]
    fn spend(&mut self, _bytes: &[u8]) {
        spin_by_clock_ns(self.0);
    }
}

/// Private state that is walked once per read: one byte of every cache line is read and written.
#[derive(Debug)]
pub struct Walk(Vec<u8>);

/// Bytes of a cache line on the machines this runs on.
const LINE: usize = 64;

impl Walk {
    /// State of `size` bytes, already touched.
    pub fn new(size: usize) -> Walk {
        Walk(vec![1; size])
    }

    /// Touches all of it.
    #[inline]
    pub fn walk(&mut self) {
        for byte in self.0.iter_mut().step_by(LINE) {
            *byte = byte.wrapping_add(1);
        }
        black_box(&mut self.0);
    }
}
