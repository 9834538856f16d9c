//! The null engine: the blocking loop with calls that do nothing. What remains is the harness's own cost.

use std::hint::black_box;
use std::io;

use crate::engine::blocking::{Port, run_on};
use crate::engine::{Slot, Stop};
use crate::fault::Fault;
use crate::flow::Flow;
use crate::meter::Meter;

struct Nothing;

impl Port for Nothing {
    #[inline]
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(black_box(buffer.len()))
    }

    #[inline]
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(black_box(bytes.len()))
    }
}

pub(super) fn run<F: Flow>(flow: &mut F, slot: Slot<'_>, meter: &mut Meter) -> Result<Stop, Fault> {
    run_on(&Nothing, flow, slot, meter)
}
