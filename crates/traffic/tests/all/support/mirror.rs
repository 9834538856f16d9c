//! A server's flow that sends whole messages back from where they were received, each with its length (four bytes) before it. The
//! first bytes of a connection may be for the flow alone.

use std::ops::Range;

use bytegauge_traffic::flow::{ConnectionEnd, Flow, Want};

#[derive(Debug, Default)]
pub struct Mirror {
    /// First bytes that are not sent back: those still missing, and those kept by the engine.
    to_skip: usize,
    skipped: usize,
    /// The received part of the current message: its length, and the number of its bytes.
    head: [u8; 4],
    have: usize,
    /// Bytes of whole messages that were not sent back.
    ready: usize,
    ended: bool,
    closed: bool,
    /// Messages sent back.
    pub served: u64,
}

impl Mirror {
    /// One that keeps this number of bytes for itself.
    pub fn skipping(to_skip: usize) -> Mirror {
        Mirror { to_skip, ..Mirror::default() }
    }

    fn need(&self) -> usize {
        if self.have < 4 { 4 } else { 4 + u32::from_le_bytes(self.head) as usize }
    }
}

impl Flow for Mirror {
    fn want(&mut self, _now_ns: u64) -> Want {
        match (self.ready > 0, self.ended, self.closed) {
            (true, ..) => Want::Send,
            (false, false, _) => Want::Receive,
            (false, true, false) => {
                self.closed = true;
                Want::Close
            }
            (false, true, true) => Want::Done,
        }
    }

    fn echoes(&self) -> bool {
        true
    }

    fn returns(&self) -> Range<usize> {
        self.skipped..self.skipped + self.ready
    }

    fn sent(&mut self, n: usize, _now_ns: u64) {
        self.skipped = 0;
        self.ready -= n;
    }

    fn received(&mut self, bytes: &mut [u8], _now_ns: u64) -> bool {
        let (skip, mut rest) = bytes.split_at(bytes.len().min(self.to_skip));
        self.to_skip -= skip.len();
        self.skipped += skip.len();
        while !rest.is_empty() {
            let (part, later) = rest.split_at(rest.len().min(self.need() - self.have));
            if self.have < 4 {
                self.head[self.have..self.have + part.len()].copy_from_slice(part);
            }
            self.have += part.len();
            if self.have >= 4 && self.have == self.need() {
                self.ready += self.have;
                self.have = 0;
                self.served += 1;
            }
            rest = later;
        }
        true
    }

    fn ended(&mut self, end: ConnectionEnd, _now_ns: u64) {
        if end != ConnectionEnd::Eof {
            self.ready = 0;
        }
        self.ended = true;
    }
}
