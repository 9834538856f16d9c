//! The buffer of a connection's own: bytes are moved there if they have to stay, or to be joined.

use std::ops::Range;

use bytegauge_sys::uring::BufferId;

use super::{Input, Present};
use crate::EndError;
use crate::engine::uring::connection::Loop;
use crate::flow::Party;

impl Input {
    /// The range of the needed bytes in the own buffer.
    pub(super) fn needed(&self) -> Range<usize> {
        match (self.kept.is_empty(), self.unseen.is_empty()) {
            (true, true) => 0..0,
            (true, false) => self.unseen.clone(),
            (false, true) => self.kept.clone(),
            (false, false) => self.kept.start..self.unseen.end,
        }
    }

    /// The needed bytes of the own buffer are at `to` now.
    fn settle(&mut self, needed: &Range<usize>, to: usize) {
        let moved = |range: &Range<usize>| match range.is_empty() {
            true => 0..0,
            false => range.start - needed.start + to..range.end - needed.start + to,
        };
        (self.kept, self.unseen) = (moved(&self.kept), moved(&self.unseen));
    }
}

impl<P: Party> Loop<'_, P> {
    /// Moves the kept bytes of the current receive to the own buffer, before the bytes there.
    #[inline]
    pub(super) fn gather(&mut self, index: u32) -> Result<(), EndError> {
        let input = &self.slots[index as usize].link.input;
        let is_seen = |present: &Present| present.taken.left() == 0 && !present.kept.is_empty();
        match input.present.as_ref().filter(|present| is_seen(present)).map(|present| present.kept.len()) {
            Some(len) => self.gather_kept(index, len),
            None => Ok(()),
        }
    }

    #[cold]
    fn gather_kept(&mut self, index: u32, len: usize) -> Result<(), EndError> {
        let own = self.own_buffer(index, len)?;
        let input = &mut self.slots[index as usize].link.input;
        let needed = input.needed();
        if !needed.is_empty() {
            // No bytes are kept there: those in it are unseen.
            if let Some(bytes) = self.port.ring.buffer(own) {
                bytes.copy_within(needed.clone(), needed.start + len);
            }
            input.unseen = needed.start + len..needed.end + len;
        }
        if let Some(Present { taken, kept }) = input.present.take() {
            self.port.ring.copy_taken(&taken, &kept, own, needed.start);
            self.port.ring.give_back(taken);
            input.kept = needed.start..needed.start + len;
        }
        self.report.copied_bytes += (needed.len() + len) as u64;
        Ok(())
    }

    /// Moves the bytes of the first `receives` held receives to the own buffer, after the bytes there.
    pub(super) fn move_held(&mut self, index: u32, receives: usize) -> Result<(), EndError> {
        for _ in 0..receives {
            let Some((taken, len)) = self.slots[index as usize].link.input.held.pop_front() else { break };
            let own = self.own_buffer(index, len)?;
            let input = &mut self.slots[index as usize].link.input;
            let end = input.needed().end;
            self.port.ring.copy_taken(&taken, &(0..len), own, end);
            self.port.ring.give_back(taken);
            input.unseen = if input.unseen.is_empty() { end..end + len } else { input.unseen.start..end + len };
            self.report.copied_bytes += len as u64;
        }
        Ok(())
    }

    /// The connection's own buffer, which no operation uses, with room for `more` bytes after the needed ones.
    #[inline]
    pub(super) fn own_buffer(&mut self, index: u32, more: usize) -> Result<BufferId, EndError> {
        let input = &self.slots[index as usize].link.input;
        match input.own {
            Some(own)
                if !self.port.ring.is_in_use(own) && input.needed().end + more <= self.port.ring.buffer_len(own) =>
            {
                Ok(own)
            }
            _ => self.another_own_buffer(index, more),
        }
    }

    #[inline(never)]
    fn another_own_buffer(&mut self, index: u32, more: usize) -> Result<BufferId, EndError> {
        let input = &self.slots[index as usize].link.input;
        let (held, needed) = (input.own, input.needed());
        if let Some(own) = held
            && needed.len() + more <= self.port.ring.buffer_len(own)
            && let Some(bytes) = self.port.ring.buffer(own)
        {
            bytes.copy_within(needed.clone(), 0);
            self.report.copied_bytes += needed.len() as u64;
            self.slots[index as usize].link.input.settle(&needed, 0);
            return Ok(own);
        }
        let len = needed.len() + more;
        let own = self.port.another_buffer(if needed.is_empty() { len } else { len.next_power_of_two() })?;
        if let Some(held) = held {
            if !needed.is_empty() {
                self.port.ring.copy_buffer(held, &needed, own);
                self.report.copied_bytes += needed.len() as u64;
            }
            self.port.spare_buffers.push(held);
        }
        let input = &mut self.slots[index as usize].link.input;
        input.own = Some(own);
        input.settle(&needed, 0);
        Ok(own)
    }
}
