//! The null engine: the blocking loop with calls that do nothing. What remains is the harness's own cost.

use std::hint::black_box;

use crate::engine::blocking::run_on;
use crate::engine::{Slot, Stop};
use crate::fault::Fault;
use crate::flow::Flow;
use crate::meter::Meter;

pub(super) fn run<F: Flow>(flow: &mut F, slot: Slot<'_>, meter: &mut Meter) -> Result<Stop, Fault> {
    run_on(|buffer| Ok(black_box(buffer.len())), |bytes| Ok(black_box(bytes.len())), flow, slot, meter)
}
