//! The memory of one connection in engines without a ring, and where the rest of a partial write is kept: in the buffer in which
//! its flow composed the message ([`UnsentMessage`]), or where bytes that go back were received ([`KeptBytes`]).

use std::ops::Range;

use bytegauge_model::{MessageParts, MessageWrites};
use bytegauge_sys::buffer::AlignedBuffer;

use crate::engine::system_calls::MessagePart;
use crate::flow::Flow;

/// The buffer in which a flow composes its messages, and the part of the current one that is not sent yet. Allocated for the
/// first one.
pub(crate) struct UnsentMessage {
    bytes: AlignedBuffer,
    is_new: bool,
    /// The unsent part of the current message.
    message: Range<usize>,
}

impl Default for UnsentMessage {
    fn default() -> UnsentMessage {
        UnsentMessage { bytes: AlignedBuffer::default(), is_new: true, message: 0..0 }
    }
}

impl UnsentMessage {
    /// Bytes of memory.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Gives up memory from which the kernel may still send.
    #[cold]
    #[inline(never)]
    pub(super) fn abandon(&mut self) {
        std::mem::take(&mut self.bytes).abandon();
    }

    /// Whether a message is partly sent.
    #[inline]
    pub(super) fn holds(&self) -> bool {
        !self.message.is_empty()
    }

    /// The next bytes to send: of the current message, or of the next one. Empty if the flow composes none.
    #[inline]
    pub(crate) fn next<F: Flow>(&mut self, flow: &mut F) -> &[u8] {
        self.next_part(flow).0
    }

    /// The same, and how they are sent, where that differs from one send.
    #[inline]
    pub(super) fn next_part<'f, F: Flow>(&mut self, flow: &'f mut F) -> (&[u8], Option<MessagePart<'f>>) {
        if self.message.is_empty() {
            self.compose(flow);
        }
        let parts = flow.parts();
        let part = first_part(&self.message, parts);
        let writes = flow.writes();
        if writes == MessageWrites::Separate || self.message.end <= parts.first {
            return (&self.bytes[part], None);
        }
        let (at, is_last) = (part.start, part.end == self.message.end);
        let file = flow.file().filter(|_| at >= parts.first);
        let bytes = if writes == MessageWrites::Writev || file.is_some() { self.message.clone() } else { part };
        (&self.bytes[bytes], Some(MessagePart { writes, parts, at, is_last, file }))
    }

    #[inline]
    fn compose<F: Flow>(&mut self, flow: &mut F) {
        let len = flow.room();
        if self.bytes.len() < len {
            (self.bytes, self.is_new) = (AlignedBuffer::new(len), true);
        }
        let is_new = std::mem::take(&mut self.is_new);
        self.message = 0..flow.compose(&mut self.bytes[..len], is_new);
    }

    /// `n` bytes were sent.
    #[inline]
    pub(crate) fn sent(&mut self, n: usize) {
        self.message.start += n;
    }

    /// The connection was replaced.
    pub(super) fn forget(&mut self) {
        self.message = 0..0;
    }

    /// The flow was replaced.
    pub(super) fn renew_flow(&mut self) {
        self.forget();
        self.is_new = true;
    }
}

/// The rest of the part at which a message begins, which one send takes.
#[inline]
pub(super) fn first_part(message: &Range<usize>, parts: MessageParts) -> Range<usize> {
    let end = if message.end <= parts.first { message.end } else { message.end.min(parts.end_of(message.start)) };
    message.start..end
}

/// Received bytes, in order, until their flow has sent them back.
#[derive(Default)]
pub(super) struct KeptBytes {
    bytes: AlignedBuffer,
    range: Range<usize>,
    /// Bytes that had to be moved to make room.
    pub(super) copied: u64,
}

impl KeptBytes {
    /// Bytes of memory.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are any bytes.
    #[inline]
    pub(super) fn holds(&self) -> bool {
        !self.range.is_empty()
    }

    /// Where the next receive of `most` bytes goes: after the kept bytes.
    #[inline]
    pub(super) fn room(&mut self, most: usize) -> &mut [u8] {
        if self.range.is_empty() {
            self.range = 0..0;
        }
        if self.bytes.len() < self.range.end + most {
            self.make_room(most);
        }
        &mut self.bytes[self.range.end..][..most]
    }

    #[cold]
    fn make_room(&mut self, most: usize) {
        if self.range.is_empty() {
            // Touched page by page, as data arrives.
            self.bytes = AlignedBuffer::untouched(most);
            return;
        }
        self.copied += self.range.len() as u64;
        self.bytes.copy_within(self.range.clone(), 0);
        self.range = 0..self.range.len();
        if self.bytes.len() < self.range.end + most {
            let mut longer = AlignedBuffer::untouched(self.range.end + most);
            longer[..self.range.end].copy_from_slice(&self.bytes[..self.range.end]);
            self.bytes = longer;
        }
    }

    /// `n` bytes were received there for the flow; with `stay`, they are kept for an echo.
    #[inline]
    pub(super) fn received(&mut self, n: usize, stay: bool) -> &mut [u8] {
        let begin = self.range.end;
        if stay {
            self.range.end += n;
        }
        &mut self.bytes[begin..][..n]
    }

    /// Copies bytes that were received elsewhere.
    #[cold]
    pub(super) fn keep(&mut self, bytes: &[u8]) {
        self.copied += bytes.len() as u64;
        self.room(bytes.len()).copy_from_slice(bytes);
        self.range.end += bytes.len();
    }

    /// The bytes that a flow sends back, counted from the first kept one.
    #[inline]
    pub(super) fn part(&self, part: &Range<usize>) -> &[u8] {
        &self.bytes[self.range.clone()][part.clone()]
    }

    /// The first `n` bytes are no longer needed.
    #[inline]
    pub(super) fn drop_first(&mut self, n: usize) {
        self.range.start += n;
    }

    /// The connection was replaced.
    pub(super) fn forget(&mut self) {
        self.range = 0..0;
    }
}
