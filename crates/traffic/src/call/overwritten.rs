//! Tracks buffers in which a flow's message was overwritten, so that the next message there is written whole.
//!
//! An engine may give a flow several buffers, in any order: a zero-copy engine uses another one while the kernel still reads the
//! last one. Each buffer is identified by its address, which is compared and never dereferenced.

/// Buffers that no longer hold the flow's message.
#[derive(Debug, Default)]
pub(super) struct Overwritten(Vec<usize>);

impl Overwritten {
    /// Other bytes were written to this buffer.
    #[cold]
    pub(super) fn add(&mut self, room: &[u8]) {
        let address = room.as_ptr().addr();
        if !self.0.contains(&address) {
            self.0.push(address);
        }
    }

    /// Whether the message in this buffer must be written whole, which the flow does now.
    #[inline]
    pub(super) fn take(&mut self, room: &[u8]) -> bool {
        !self.0.is_empty() && self.take_address(room.as_ptr().addr())
    }

    #[cold]
    fn take_address(&mut self, address: usize) -> bool {
        let place = self.0.iter().position(|other| *other == address);
        place.map(|place| self.0.swap_remove(place)).is_some()
    }
}
