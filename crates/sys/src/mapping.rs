//! Mapped memory (mmap(2)), unmapped when it is dropped.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

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
        of: Option<(BorrowedFd<'_>, u32)>,
    ) -> io::Result<Mapping> {
        let (fd, offset) = of.map_or((-1, 0), |(fd, offset)| (fd.as_raw_fd(), offset));
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, fd, offset.into()) };
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
