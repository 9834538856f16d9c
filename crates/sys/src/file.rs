//! Files that are read in trials: the share that is in the page cache, the read position, and files in memory.
//!
//! Reading a cached file measures memory, reading an uncached one measures a disk, so a report must show which of the
//! two it was.
//!
//! Never reads or writes a file's content.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use rustix::fs::{self, Access, MemfdFlags, SeekFrom};
use rustix::param::page_size;

use crate::buffer::Mapping;
use crate::{errno, owner};

/// The part of a file's first `len_bytes` that is in the page cache, 0 to 1; 1 for no bytes.
///
/// Uses mincore(2) on a mapping. Counts whole pages.
///
/// # Errors
///
/// `PermissionDenied` unless the caller owns the file or may write it. The cache state reveals activity of other users,
/// so the kernel reports everything as cached to them (since Linux 5.2: mm/mincore.c, `can_do_mincore`). `InvalidInput` for
/// anything except a regular file or a block device.
pub fn cached_fraction(fd: BorrowedFd<'_>, len_bytes: u64) -> io::Result<f64> {
    let found = File::from(fd.try_clone_to_owned()?).metadata()?;
    if !found.is_file() && !found.file_type().is_block_device() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "only regular files and block devices have a page cache: ask about one of those",
        ));
    }
    if len_bytes == 0 {
        return Ok(1.0);
    }
    if found.uid() != owner::user() && !may_write(fd) {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the kernel tells only owners and writers what is cached: \
             measure a file of your own, or run as root",
        ));
    }
    let pages = len_bytes.div_ceil(page_size() as u64);
    Ok((cached_pages(fd, len_bytes)? as f64 / pages as f64).min(1.0))
}

fn cached_pages(fd: BorrowedFd<'_>, len_bytes: u64) -> io::Result<u64> {
    /// Pages per call: 1 GiB of file for a vector of 256 KiB.
    const WINDOW_PAGES: usize = 1 << 18;

    // It is queried but never read.
    let mapping = Mapping::new(len_bytes as usize, libc::PROT_READ, libc::MAP_SHARED, Some((fd, 0)))?;
    let page_bytes = page_size();
    let mut resident = vec![0u8; WINDOW_PAGES];
    let mut cached = 0;
    for start in (0..mapping.len()).step_by(WINDOW_PAGES * page_bytes) {
        let len = (mapping.len() - start).min(WINDOW_PAGES * page_bytes);
        // SAFETY: the window is inside the mapping and begins on a page; the kernel writes one
        // byte per page of it, at most WINDOW_PAGES, and touches no mapped byte.
        errno::of(unsafe { libc::mincore(mapping.at(start).cast(), len, resident.as_mut_ptr().cast()) })?;
        // Only the lowest bit is defined.
        let window = &resident[..len.div_ceil(page_bytes)];
        cached += window.iter().filter(|page| **page & 1 == 1).count() as u64;
    }
    Ok(cached)
}

/// Whether the caller may write a file.
fn may_write(fd: BorrowedFd<'_>) -> bool {
    fs::access(format!("/proc/self/fd/{}", fd.as_raw_fd()), Access::WRITE_OK).is_ok()
}

/// Sets the read position to the start of the file (lseek(2)).
///
/// The position belongs to the open file description: duplicates of a descriptor share it. Open the file once per flow.
///
/// # Errors
///
/// `ESPIPE` for a pipe or a socket.
pub fn rewind(fd: BorrowedFd<'_>) -> io::Result<()> {
    fs::seek(fd, SeekFrom::Start(0))?;
    Ok(())
}

/// A new file that exists in the page cache alone (memfd_create(2)), with a name for /proc.
///
/// # Errors
///
/// The kernel's error untouched: no descriptor, or no memory.
pub fn in_memory(name: &CStr) -> io::Result<File> {
    Ok(fs::memfd_create(name, MemfdFlags::CLOEXEC)?.into())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    use super::*;

    fn in_memory() -> File {
        super::in_memory(c"cached").unwrap()
    }

    #[test]
    fn written_pages_are_cached_and_holes_are_not() {
        let page = page_size() as u64;
        let mut file = in_memory();
        file.write_all(&vec![1; 3 * page as usize]).unwrap();
        file.set_len(4 * page).unwrap();
        assert_eq!(cached_fraction(file.as_fd(), 3 * page).unwrap(), 1.0);
        assert_eq!(cached_fraction(file.as_fd(), 4 * page).unwrap(), 0.75);
        assert_eq!(cached_fraction(file.as_fd(), 1).unwrap(), 1.0);
        assert_eq!(cached_fraction(file.as_fd(), 0).unwrap(), 1.0);
    }

    #[test]
    fn pipes_and_devices_are_refused() {
        let zero = File::open("/dev/zero").unwrap();
        let (reader, _writer) = crate::pipe::anonymous().unwrap();
        for fd in [zero.as_fd(), reader.as_fd()] {
            let error = cached_fraction(fd, 1).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn a_pipe_has_no_position() {
        let (reader, _writer) = crate::pipe::anonymous().unwrap();
        assert_eq!(rewind(reader.as_fd()).unwrap_err().raw_os_error(), Some(libc::ESPIPE));
    }

    #[test]
    fn a_rewound_file_is_read_again() {
        let mut file = in_memory();
        file.write_all(b"again").unwrap();
        for _ in 0..2 {
            rewind(file.as_fd()).unwrap();
            let mut text = String::new();
            file.read_to_string(&mut text).unwrap();
            assert_eq!(text, "again");
        }
    }
}
