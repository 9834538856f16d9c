//! Memory that is shared with the kernel: the two queues and the submission entries of a ring.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// A shared mapping of a part of a ring. Unmapped when dropped.
pub(super) struct Mapping {
    start: NonNull<u8>,
    len_bytes: usize,
}

impl Mapping {
    /// Maps `len_bytes` of the ring at `offset`, its pages already there.
    pub(super) fn new(ring: BorrowedFd<'_>, len_bytes: usize, offset: i64) -> io::Result<Mapping> {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE);
        // SAFETY: a new mapping at an address of the kernel's choice; no memory of ours is touched.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len_bytes, access, flags, ring.as_raw_fd(), offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(start.cast()).map(|start| Mapping { start, len_bytes }).ok_or(io::ErrorKind::OutOfMemory.into())
    }

    /// A place in the mapping.
    ///
    /// # Panics
    ///
    /// If `len` values of `T` do not fit there: then the kernel's offsets are not what this file knows.
    pub(super) fn at<T>(&self, offset_bytes: u32, len: u32) -> NonNull<T> {
        let end = offset_bytes as usize + len as usize * size_of::<T>();
        assert!(end <= self.len_bytes, "an offset beyond the ring's mapping");
        assert!((offset_bytes as usize).is_multiple_of(align_of::<T>()), "a crooked offset in the ring's mapping");
        // SAFETY: within the mapping, by the assertion above.
        unsafe { self.start.add(offset_bytes as usize) }.cast()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length and unmapped once; the ring that points into it owns it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len_bytes) };
    }
}
