//! Memory that the kernel reads and writes behind the program's back.
//!
//! It is reached through raw pointers only, never through a reference that outlives a call: while
//! the kernel has a buffer, the program holds no reference to it. So every buffer counts the
//! operations that use it, and lends its bytes only at zero.

use std::io;
use std::ptr::NonNull;
use std::slice;

/// Anonymous pages, unmapped when dropped. Not backed by memory until they are touched: a thousand
/// connections cost what they use, not what they might.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

impl Mapping {
    /// `len` zero bytes on a page boundary.
    pub(super) fn new(len: usize) -> io::Result<Mapping> {
        let len = len.max(1);
        // SAFETY: a new private anonymous mapping at an address of the kernel's choice touches no
        // memory of ours.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Mapping { start, len })
    }

    /// The first byte.
    pub(super) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The byte at `offset`.
    pub(super) fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset <= self.len, "an offset within the mapping");
        // SAFETY: within the mapping or one past its end, as was just checked.
        unsafe { self.start().add(offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this very length, unmapped once, and nobody borrows from it
        // any more since borrows do not outlive `self`. The kernel uses none of it: the ring is
        // settled before its memory goes, or the mapping is leaked.
        unsafe { libc::munmap(self.start().cast(), self.len) };
    }
}

/// One of a ring's own buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferId(u32);

/// Buffers of whole operations (not provided ones), each used by at most one operation at a time.
#[derive(Debug, Default)]
pub(super) struct Buffers(Vec<Buffer>);

#[derive(Debug)]
struct Buffer {
    memory: Mapping,
    offset: usize,
    len: usize,
    in_use: bool,
}

/// Buffers that all begin on a page fall into the same few sets of the caches when small messages
/// touch only their fronts. Seventeen lines from one to the next spread them.
pub(super) const STAGGER: usize = 17 * 64;

const PAGE: usize = 4096;

impl Buffers {
    pub(super) fn add(&mut self, len: usize) -> io::Result<BufferId> {
        let id = self.0.len();
        let buffer = Buffer::new(id, len)?;
        self.0.push(buffer);
        Ok(BufferId(id as u32))
    }

    /// Replaces a buffer that the kernel does not use by a longer one. Its content is lost.
    pub(super) fn lengthen(&mut self, id: BufferId, len: usize) -> io::Result<()> {
        assert!(!self.of(id).in_use, "a buffer in use keeps its memory");
        self.0[id.0 as usize] = Buffer::new(id.0 as usize, len)?;
        Ok(())
    }

    pub(super) fn in_use(&self, id: BufferId) -> bool {
        self.of(id).in_use
    }

    pub(super) fn len(&self, id: BufferId) -> usize {
        self.of(id).len
    }

    /// The bytes, unless the kernel has them.
    pub(super) fn bytes(&mut self, id: BufferId) -> Option<&mut [u8]> {
        let buffer = &self.0[id.0 as usize];
        if buffer.in_use {
            return None;
        }
        // SAFETY: `len` bytes at `offset` are inside the mapping, which is initialised to zero by
        // the kernel. No operation uses them, and the exclusive borrow of `self` keeps any from
        // starting and other slices from existing for as long as the slice lives.
        Some(unsafe { slice::from_raw_parts_mut(buffer.start(), buffer.len) })
    }

    /// Hands the buffer to an operation: from here on only the kernel touches it.
    pub(super) fn hand_over(&mut self, id: BufferId) -> *mut u8 {
        let buffer = &mut self.0[id.0 as usize];
        assert!(!buffer.in_use, "one operation a buffer");
        buffer.in_use = true;
        buffer.start()
    }

    /// The operation is over.
    pub(super) fn take_back(&mut self, id: BufferId) {
        self.0[id.0 as usize].in_use = false;
    }

    fn of(&self, id: BufferId) -> &Buffer {
        &self.0[id.0 as usize]
    }
}

impl Buffer {
    fn new(id: usize, len: usize) -> io::Result<Buffer> {
        let offset = (id * STAGGER) % PAGE;
        Ok(Buffer { memory: Mapping::new(offset + len)?, offset, len, in_use: false })
    }

    fn start(&self) -> *mut u8 {
        self.memory.at(self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_lent_only_while_the_kernel_does_not_have_it() {
        let mut buffers = Buffers::default();
        let ids: Vec<_> = (0..100).map(|len| buffers.add(len).unwrap()).collect();
        for (len, id) in ids.iter().enumerate() {
            let bytes = buffers.bytes(*id).unwrap();
            assert_eq!(bytes.len(), len);
            bytes.fill(1);
        }
        buffers.hand_over(ids[5]);
        assert!(buffers.bytes(ids[5]).is_none() && buffers.in_use(ids[5]));
        buffers.take_back(ids[5]);
        assert_eq!(buffers.bytes(ids[5]).unwrap(), [1; 5]);
        buffers.lengthen(ids[5], 9000).unwrap();
        assert_eq!(buffers.len(ids[5]), 9000);
        assert!(buffers.bytes(ids[5]).unwrap().iter().all(|byte| *byte == 0));
    }

    #[test]
    fn buffers_begin_in_different_places_of_a_page() {
        let mut buffers = Buffers::default();
        let mut starts: Vec<_> = (0..8)
            .map(|_| {
                let id = buffers.add(64).unwrap();
                buffers.bytes(id).unwrap().as_ptr() as usize % PAGE
            })
            .collect();
        starts.dedup();
        assert_eq!(starts.len(), 8);
    }
}
