//! Rooms in which something else was written where a flow's message is, so that the next message there is written whole.
//!
//! An engine may give a flow several rooms, in any order: a zero-copy engine takes another one while the kernel still reads the
//! last one. Each room is known by its address, which is compared and never followed.

/// Rooms whose message is not the flow's any more.
#[derive(Debug, Default)]
pub(super) struct Overwritten(Vec<usize>);

impl Overwritten {
    /// Something else was written to this room.
    #[cold]
    pub(super) fn add(&mut self, room: &[u8]) {
        let address = room.as_ptr().addr();
        if !self.0.contains(&address) {
            self.0.push(address);
        }
    }

    /// Whether the message in this room has to be written whole, which the flow does now.
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
