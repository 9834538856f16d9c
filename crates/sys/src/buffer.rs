//! Page-aligned byte buffers that are already in memory.
//!
//! A measured loop must not include page faults, and splice, O_DIRECT and registered buffers need page-aligned memory.
//! Every page is written once when the buffer is created, so that its first use causes no fault.
//!
//! The alignment is 4096, and no madvise(2) asks for huge pages. So the use of huge pages depends on the machine's setting
//! (`/sys/kernel/mm/transparent_hugepage/enabled`), as in other programs. The pages are not locked: they may be swapped
//! out, and after a fork they fault again on the next write.
//!
//! Never grows and never moves.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;

/// The page size of most machines; larger pages still get cache line alignment.
const ALIGN_BYTES: usize = 4096;

/// A fixed-length, page-aligned, zeroed and prefaulted byte buffer.
pub struct AlignedBuffer {
    start: NonNull<u8>,
    len_bytes: usize,
}

// SAFETY: the buffer owns its memory exclusively, and u8 may be sent to another thread.
unsafe impl Send for AlignedBuffer {}
// SAFETY: shared access only reads bytes; writing needs `&mut`.
unsafe impl Sync for AlignedBuffer {}

impl AlignedBuffer {
    /// `len_bytes` zero bytes on a page boundary. A length of 0 still owns one page.
    ///
    /// # Panics
    ///
    /// If the length exceeds `isize::MAX` less a page. As with `Vec`, running out of memory
    /// aborts the process.
    #[must_use]
    pub fn new(len_bytes: usize) -> Self {
        let layout = layout_of(len_bytes);
        // SAFETY: the layout's size is at least one page, never zero.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else {
            handle_alloc_error(layout);
        };
        for offset in (0..layout.size()).step_by(ALIGN_BYTES) {
            // SAFETY: `offset` is inside the allocation. The write is volatile because the compiler may drop an
            // ordinary write of zero to zeroed memory, and the kernel may not yet back the pages.
            unsafe { start.add(offset).write_volatile(0) };
        }
        Self { start, len_bytes }
    }

    /// Frees memory from which the kernel may still send (`MSG_ZEROCOPY`). The kernel keeps the pages, but the allocator gives
    /// their addresses to the next owner, who would change what is sent; so the addresses get new pages first
    /// (`MADV_DONTNEED`, madvise(2)). Memory of which that is not possible is never freed.
    pub fn abandon(self) {
        let size = layout_of(self.len_bytes).size();
        // SAFETY: the whole pages belong to this buffer, and no borrow of it is left: they may become zero.
        if unsafe { libc::madvise(self.start.as_ptr().cast(), size, libc::MADV_DONTNEED) } != 0 {
            std::mem::forget(self);
        }
    }
}

fn layout_of(len_bytes: usize) -> Layout {
    Layout::from_size_align(len_bytes.max(1), ALIGN_BYTES).expect("a buffer length below isize::MAX").pad_to_align()
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `start` points to at least `len_bytes` initialised bytes that this owns, and
        // the borrow of `self` keeps writers away.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len_bytes) }
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and the borrow of `self` is exclusive.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len_bytes) }
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with the very same layout, and freed once.
        unsafe { dealloc(self.start.as_ptr(), layout_of(self.len_bytes)) }
    }
}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("AlignedBuffer").field("len_bytes", &self.len_bytes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu_time::thread_usage;

    fn check(len_bytes: usize) {
        let mut buffer = AlignedBuffer::new(len_bytes);
        assert_eq!(buffer.len(), len_bytes);
        assert_eq!(buffer.as_ptr() as usize % ALIGN_BYTES, 0);
        assert!(buffer.iter().all(|byte| *byte == 0));
        buffer.fill(0xA5);
        assert!(buffer.iter().all(|byte| *byte == 0xA5));
    }

    #[test]
    fn any_length_is_aligned_zeroed_and_writable() {
        for len_bytes in [0, 1, 4095, 4096, 4097, 1 << 20] {
            check(len_bytes);
        }
    }

    #[test]
    fn writing_a_new_buffer_does_not_fault() {
        const PAGES: usize = 1024;
        let faults = || {
            let mut buffer = AlignedBuffer::new(PAGES * ALIGN_BYTES);
            let before = thread_usage();
            buffer.fill(1);
            let faults = thread_usage().since(&before).minor_faults;
            std::hint::black_box(&buffer);
            faults
        };
        // A single fault of the test's own stack is possible, but not one per page. An exception is a fork in another
        // test: then every page is copied at its next write.
        let seen: Vec<u64> = (0..10).map(|_| faults()).collect();
        assert!(seen.iter().any(|faults| *faults < PAGES as u64 / 8), "{seen:?} faults");
    }

    #[test]
    fn a_buffer_may_move_to_another_thread() {
        let buffer = AlignedBuffer::new(10);
        let len = std::thread::spawn(move || buffer.len()).join().unwrap();
        assert_eq!(len, 10);
    }
}
