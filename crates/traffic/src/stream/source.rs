//! The writing end of a stream: sends buffers of one length, each filled once before it is sent.

use bytegauge_model::Fill;

use crate::flow::{Flow, Want};
use crate::pattern::Pattern;
use crate::planted_fault::PlantedFault;
use crate::setup::Setup;
use crate::spin::spin_ns;

/// One flow's writer.
#[derive(Debug)]
pub struct SourceFlow {
    size: usize,
    fill: Fill,
    call_work_ns: u64,
    verify: Option<Pattern>,
    corrupt_at: Option<u64>,
    offset: u64,
    turn: u8,
}

impl SourceFlow {
    /// The writer of flow number `flow`, whose buffers have `size` bytes.
    pub fn new(setup: &Setup, flow: usize, size: usize) -> SourceFlow {
        let corrupt_at = match setup.planted() {
            Some(PlantedFault::Corrupt { offset }) if flow == 0 => Some(offset),
            _ => None,
        };
        SourceFlow {
            size,
            fill: setup.writer_work(),
            call_work_ns: setup.call_work_ns(),
            verify: setup.verify.then(|| Pattern::new(setup.seed, flow)),
            corrupt_at,
            offset: 0,
            turn: 0,
        }
    }

    fn fill(&mut self, buffer: &mut [u8]) {
        match self.fill {
            Fill::None => {}
            Fill::Touch => {
                self.turn = self.turn.wrapping_add(1);
                buffer.fill(self.turn);
                std::hint::black_box(&mut *buffer);
            }
            Fill::NsPerByte(ns) => spin_ns(ns * buffer.len() as f64),
        }
        if self.call_work_ns > 0 {
            spin_ns(self.call_work_ns as f64);
        }
        if let Some(pattern) = &self.verify {
            pattern.fill(self.offset, buffer);
        }
        if let Some(at) = self.corrupt_at.and_then(|at| at.checked_sub(self.offset))
            && let Some(byte) = buffer.get_mut(at as usize)
        {
            *byte ^= 1;
        }
    }
}

impl Flow for SourceFlow {
    #[inline]
    fn want(&mut self, _now_ns: u64) -> Want {
        Want::Send
    }

    fn room(&self) -> usize {
        self.size
    }

    #[inline]
    fn compose(&mut self, room: &mut [u8], is_new: bool) -> usize {
        let buffer = &mut room[..self.size];
        if is_new {
            // A page that was never written is the kernel's one page of zeros, which costs less to read.
            buffer.fill(0);
        }
        self.fill(buffer);
        self.size
    }

    #[inline]
    fn sent(&mut self, n: usize, _now_ns: u64) {
        self.offset += n as u64;
    }

    fn received(&mut self, _bytes: &mut [u8], _now_ns: u64) -> bool {
        true
    }
}
