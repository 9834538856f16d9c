//! Byte buffers whose place within a page is known, and that are already in memory.
//!
//! The CPU time of a copy out of the kernel can depend on the address of its destination within a page, so a buffer begins
//! where its thread's [`PageOffset`] states. A measured loop must not include page faults: every page is written once when the
//! buffer is created, so that its first use causes no fault.
//!
//! No madvise(2) asks for huge pages. So the use of huge pages depends on the machine's setting
//! (`/sys/kernel/mm/transparent_hugepage/enabled`), as in other programs. The pages are not locked: they may be swapped
//! out, and after a fork they fault again on the next write.
//!
//! Never grows and never moves.
//!
//! Also mapped memory (mmap(2)).

use std::cell::Cell;
use std::hint::black_box;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// The page size of most machines.
pub(crate) const PAGE_BYTES: usize = 4096;

/// From this size on, malloc of glibc maps pages for an allocation and returns the address after its header of 16 bytes
/// (`M_MMAP_THRESHOLD`, mallopt(3)).
const MMAP_THRESHOLD_BYTES: usize = 128 << 10;
pub(crate) const MMAP_HEADER: usize = 16;

/// Where the first smaller allocation of a process is: after the header of the heap and the cache of a thread (measured
/// with glibc 2.36). Later ones are at any multiple of 16.
const HEAP_START: usize = 672;

/// Where buffers begin within a page. Like the memory policy of set_mempolicy(2), it is a property of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageOffset {
    /// Where malloc of glibc puts a buffer of its size in a new process.
    #[default]
    Malloc,
    /// This many bytes after the begin of a page.
    At(usize),
}

thread_local! {
    static OF_THREAD: Cell<PageOffset> = const { Cell::new(PageOffset::Malloc) };
}

impl PageOffset {
    /// That of the calling thread. New threads begin with `Malloc`.
    pub fn of_thread() -> PageOffset {
        OF_THREAD.get()
    }

    /// Sets that of the buffers that the calling thread creates from now on.
    pub fn set_for_thread(self) {
        OF_THREAD.set(self);
    }

    /// Whether a buffer of `len_bytes` bytes is among others on a heap.
    pub(crate) fn is_heap(self, len_bytes: usize) -> bool {
        self == PageOffset::Malloc && len_bytes < MMAP_THRESHOLD_BYTES
    }

    /// How many bytes after `address` a buffer of `len_bytes` bytes can begin, less than a page.
    pub(crate) fn after(self, address: usize, len_bytes: usize) -> usize {
        (PAGE_BYTES + self.bytes(len_bytes) - address % PAGE_BYTES) % PAGE_BYTES
    }

    /// The offset of a buffer of `len_bytes` bytes, below the size of a page.
    pub(crate) fn bytes(self, len_bytes: usize) -> usize {
        match self {
            PageOffset::At(offset) => offset % PAGE_BYTES,
            PageOffset::Malloc if self.is_heap(len_bytes) => HEAP_START,
            PageOffset::Malloc => MMAP_HEADER,
        }
    }
}

/// A fixed-length, zeroed byte buffer at its thread's [`PageOffset`].
#[derive(Default)]
pub struct AlignedBuffer {
    bytes: Vec<u8>,
    /// Where the buffer begins in `bytes`, which hold all its pages whole: [`abandon`](AlignedBuffer::abandon) replaces them.
    first: usize,
    len_bytes: usize,
}

impl AlignedBuffer {
    /// `len_bytes` zero bytes, every page of which is in memory.
    pub fn new(len_bytes: usize) -> AlignedBuffer {
        let mut buffer = AlignedBuffer::untouched(len_bytes);
        // The kernel may not back zeroed memory yet. The compiler would drop writes of zero to memory that it knows to be zero.
        black_box(&mut buffer.bytes).iter_mut().step_by(PAGE_BYTES).for_each(|byte| *byte = 0);
        buffer
    }

    /// `len_bytes` zero bytes, whose pages the allocator may leave untouched until data arrives.
    pub fn untouched(len_bytes: usize) -> AlignedBuffer {
        let offset = PageOffset::of_thread().bytes(len_bytes);
        let bytes = vec![0; (offset + len_bytes).next_multiple_of(PAGE_BYTES) + PAGE_BYTES];
        let first = PAGE_BYTES - bytes.as_ptr().addr() % PAGE_BYTES + offset;
        AlignedBuffer { bytes, first, len_bytes }
    }

    /// Frees memory from which the kernel may still send (`MSG_ZEROCOPY`). The kernel keeps the pages, but the allocator gives
    /// their addresses to the next owner, who would change what is sent; so the addresses get new pages first
    /// (`MADV_DONTNEED`, madvise(2)). Memory of which that is not possible is never freed.
    pub fn abandon(mut self) {
        let offset = self.as_ptr().addr() % PAGE_BYTES;
        let pages = (offset + self.len_bytes).next_multiple_of(PAGE_BYTES);
        let whole = &mut self.bytes[self.first - offset..][..pages];
        // SAFETY: the whole pages belong to this buffer, and no other borrow of it is left: they may become zero.
        if unsafe { libc::madvise(whole.as_mut_ptr().cast(), pages, libc::MADV_DONTNEED) } != 0 {
            std::mem::forget(self);
        }
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[self.first..][..self.len_bytes]
    }
}

impl DerefMut for AlignedBuffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.first..][..self.len_bytes]
    }
}

// Mapped memory (mmap(2)), unmapped when it is dropped.

/// A mapping at an address of the kernel's choice.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to this value alone, and no thread has another way to it.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `len` bytes: of a descriptor from an offset on, or anonymous ones.
    ///
    /// # Errors
    ///
    /// The kernel's error untouched.
    pub(crate) fn new(
        len: usize,
        access: libc::c_int,
        flags: libc::c_int,
        of: Option<(BorrowedFd<'_>, libc::off_t)>,
    ) -> io::Result<Mapping> {
        let (fd, offset) = of.map_or((-1, 0), |(fd, offset)| (fd.as_raw_fd(), offset));
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Mapping { start, len })
    }

    /// Its length, bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The first byte.
    #[inline]
    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The byte at `offset`.
    #[inline]
    pub(crate) fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset <= self.len, "an offset within the mapping");
        // SAFETY: within the mapping or one past its end, as was just checked.
        unsafe { self.start().add(offset) }
    }

    /// The place of `count` values from `offset` on.
    ///
    /// # Panics
    ///
    /// If they do not fit: then the kernel's offsets are invalid.
    pub(crate) fn values<T>(&self, offset: u32, count: u32) -> NonNull<T> {
        let end = offset as usize + count as usize * size_of::<T>();
        assert!(end <= self.len, "an offset beyond the mapping");
        assert!((offset as usize).is_multiple_of(align_of::<T>()), "a misaligned offset in the mapping");
        // SAFETY: within the mapping, by the assertion above.
        unsafe { self.start.add(offset as usize) }.cast()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length, and unmapped once; nothing that borrows from it outlives it. The kernel
        // uses none of a ring's memory: the ring is settled before its memory goes, or the mapping is leaked.
        unsafe { libc::munmap(self.start().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu_time::thread_usage;

    fn check(place: PageOffset, len_bytes: usize, offset: usize) {
        place.set_for_thread();
        let mut buffer = AlignedBuffer::new(len_bytes);
        assert_eq!(buffer.len(), len_bytes);
        assert_eq!(buffer.as_ptr() as usize % PAGE_BYTES, offset, "{place:?} {len_bytes}");
        assert!(buffer.iter().all(|byte| *byte == 0));
        buffer.fill(0xA5);
        assert!(buffer.iter().all(|byte| *byte == 0xA5));
        let lazy = AlignedBuffer::untouched(len_bytes);
        assert_eq!((lazy.len(), lazy.as_ptr() as usize % PAGE_BYTES), (len_bytes, offset));
        assert!(lazy.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn any_buffer_has_its_place_and_is_zeroed_and_writable() {
        for len_bytes in [0, 1, 4095, 4096, 4097, 1 << 20] {
            for offset in [0, 8, 64, 4095] {
                check(PageOffset::At(offset), len_bytes, offset);
            }
        }
        check(PageOffset::Malloc, 128 << 10, 16);
        check(PageOffset::Malloc, (128 << 10) - 1, 672);
    }

    #[test]
    fn a_new_thread_has_the_offsets_of_malloc() {
        PageOffset::At(8).set_for_thread();
        assert_eq!(std::thread::spawn(PageOffset::of_thread).join().unwrap(), PageOffset::Malloc);
        assert_eq!(PageOffset::of_thread(), PageOffset::At(8));
    }

    #[test]
    fn writing_a_new_buffer_does_not_fault() {
        const PAGES: usize = 1024;
        let faults = || {
            let mut buffer = AlignedBuffer::new(PAGES * PAGE_BYTES);
            let before = thread_usage();
            buffer.fill(1);
            let faults = thread_usage().since(&before).minor_faults;
            black_box(&buffer);
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
