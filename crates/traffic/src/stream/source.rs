//! The writing end of a stream: one buffer, sent again and again, filled anew where that is asked for.

use bytegauge_model::Fill;
use bytegauge_sys::buffer::AlignedBuffer;

use crate::flow::{Flow, Want};
use crate::pattern::Pattern;
use crate::plant::Plant;
use crate::setup::Setup;
use crate::spin::spin_ns;
use crate::stream::setup::StreamSetup;

/// One flow's writer.
#[derive(Debug)]
pub struct SourceFlow {
    buffer: AlignedBuffer,
    fill: Fill,
    verify: Option<Pattern>,
    corrupt_at: Option<u64>,
    offset: u64,
    turn: u8,
}

impl SourceFlow {
    /// The writer of flow number `flow`, with a buffer of `size` bytes.
    pub fn new(setup: &Setup<StreamSetup>, flow: usize, size: usize) -> SourceFlow {
        let corrupt_at = match setup.plant {
            Some(Plant::Corrupt { offset }) if flow == 0 => Some(offset),
            _ => None,
        };
        SourceFlow {
            buffer: AlignedBuffer::new(size),
            fill: setup.task.fill,
            verify: setup.verify.then(|| Pattern::new(setup.seed, flow)),
            corrupt_at,
            offset: 0,
            turn: 0,
        }
    }

    fn fill(&mut self) {
        match self.fill {
            Fill::None => {}
            Fill::Touch => {
                self.turn = self.turn.wrapping_add(1);
                self.buffer.fill(self.turn);
                std::hint::black_box(&mut self.buffer[..]);
            }
            Fill::NsPerByte(ns) => spin_ns(ns * self.buffer.len() as f64),
        }
        if let Some(pattern) = &self.verify {
            pattern.fill(self.offset, &mut self.buffer);
        }
        if let Some(at) = self.corrupt_at.and_then(|at| at.checked_sub(self.offset))
            && let Some(byte) = self.buffer.get_mut(at as usize)
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

    #[inline]
    fn outgoing(&mut self) -> &[u8] {
        self.fill();
        &self.buffer
    }

    #[inline]
    fn sent(&mut self, n: usize, _now_ns: u64) {
        self.offset += n as u64;
    }

    fn received(&mut self, _bytes: &mut [u8], _now_ns: u64) -> bool {
        true
    }
}
