//! Memory shared with the kernel: the two queues and the submission entries of a ring.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// A shared mapping of a part of a ring. Unmapped when dropped.
pub(super) struct RingMapping {
    start: NonNull<u8>,
    len_bytes: usize,
}

impl RingMapping {
    /// Maps `len_bytes` of the ring at `offset`, with its pages populated.
    pub(super) fn new(ring: BorrowedFd<'_>, len_bytes: usize, offset: i64) -> io::Result<RingMapping> {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE);
        // SAFETY: a new mapping at an address of the kernel's choice; no other memory is touched.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len_bytes, access, flags, ring.as_raw_fd(), offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(start.cast())
            .map(|start| RingMapping { start, len_bytes })
            .ok_or(io::ErrorKind::OutOfMemory.into())
    }

    /// A pointer into the mapping.
    ///
    /// # Panics
    ///
    /// If `len` values of `T` do not fit: then the kernel's offsets are invalid.
    pub(super) fn at<T>(&self, offset_bytes: u32, len: u32) -> NonNull<T> {
        let end = offset_bytes as usize + len as usize * size_of::<T>();
        assert!(end <= self.len_bytes, "an offset beyond the ring's mapping");
        assert!((offset_bytes as usize).is_multiple_of(align_of::<T>()), "a misaligned offset in the ring's mapping");
        // SAFETY: within the mapping, by the assertion above.
        unsafe { self.start.add(offset_bytes as usize) }.cast()
    }
}

impl Drop for RingMapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length and unmapped once; the ring that points into it owns it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len_bytes) };
    }
}
