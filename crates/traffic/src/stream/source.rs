//! The writing end of a stream: sends buffers of one length, each filled once before it is sent.

use std::sync::Arc;

use bytegauge_model::Fill;

use crate::flow::{Flow, Want};
use crate::pattern::Pattern;
use crate::planted_fault::PlantedFault;
use crate::setup::Setup;
use crate::spin::spin_ns;
use crate::stream::{SourceFile, pattern};

/// One flow's writer.
#[derive(Debug)]
pub struct SourceFlow {
    size: usize,
    fill: Fill,
    call_work_ns: u64,
    /// The bytes of each message, where they are read from a file.
    file: Option<Arc<SourceFile>>,
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
            file: None,
            verify: pattern(setup, flow),
            corrupt_at,
            offset: 0,
            turn: 0,
        }
    }

    /// The same, which reads every message from a file.
    pub(crate) fn reading(self, file: Option<Arc<SourceFile>>) -> SourceFlow {
        SourceFlow { file, ..self }
    }

    fn fill(&mut self, buffer: &mut [u8]) {
        match self.fill {
            Fill::None => {}
            // Its bytes come from the file.
            Fill::Touch if self.file.is_some() => {}
            Fill::Touch => {
                self.turn = self.turn.wrapping_add(1);
                buffer.fill(self.turn);
                std::hint::black_box(&mut *buffer);
            }
            Fill::NsPerByte(ns) => spin_ns(ns * buffer.len() as f64),
        }
        self.begin_in_place();
        if let Some(file) = &self.file {
            file.read(self.offset, buffer);
        } else if let Some(pattern) = &self.verify {
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

    fn begin_in_place(&mut self) {
        if self.call_work_ns > 0 {
            spin_ns(self.call_work_ns as f64);
        }
    }

    #[inline]
    fn sent(&mut self, n: usize, _now_ns: u64) {
        self.offset += n as u64;
    }

    fn received(&mut self, _bytes: &mut [u8], _now_ns: u64) -> bool {
        true
    }
}
