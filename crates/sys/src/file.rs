//! Files as a source of bytes: how much of one is in the page cache.
//!
//! Reading a cached file measures memory, reading an uncached one measures a disk. A report must
//! say which of the two it was.
//!
//! Never reads or writes a file's content.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;

use crate::outcome;

/// The part of a file's first `len_bytes` that is in the page cache, 0 to 1; 1 for no bytes.
///
/// Uses cachestat(2) (Linux 6.5), or mincore(2) on a mapping before that. Counts whole pages.
///
/// # Errors
///
/// `PermissionDenied` unless the caller owns the file or may write it: since that knowledge leaks
/// what others do, the kernel refuses it (cachestat), or claims that all is cached (mincore, since
/// Linux 5.2: mm/mincore.c, `can_do_mincore`). `InvalidInput` for what is neither a regular file
/// nor a block device: cachestat itself answers 0 for a pipe, which would read as "not cached".
pub fn cached_fraction(fd: BorrowedFd<'_>, len_bytes: u64) -> io::Result<f64> {
    if !has_page_cache(fd)? {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "only regular files and block devices have a page cache: ask about one of those",
        ));
    }
    if len_bytes == 0 {
        return Ok(1.0);
    }
    let cached = match cached_pages_by_cachestat(fd, len_bytes) {
        Err(error) if cachestat_is_missing(&error) => cached_pages_by_mincore(fd, len_bytes)?,
        other => other.map_err(explained)?,
    };
    let pages = len_bytes.div_ceil(page_bytes());
    Ok((cached as f64 / pages as f64).min(1.0))
}

fn has_page_cache(fd: BorrowedFd<'_>) -> io::Result<bool> {
    let kind = File::from(fd.try_clone_to_owned()?).metadata()?.file_type();
    Ok(kind.is_file() || kind.is_block_device())
}

/// `EOPNOTSUPP` comes from file systems that cachestat leaves out, such as hugetlbfs.
fn cachestat_is_missing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EOPNOTSUPP))
}

fn explained(error: io::Error) -> io::Error {
    if error.raw_os_error() == Some(libc::EPERM) { not_permitted() } else { error }
}

fn not_permitted() -> io::Error {
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        "the kernel tells only owners and writers what is cached: \
         measure a file of your own, or run as root",
    )
}

fn cached_pages_by_cachestat(fd: BorrowedFd<'_>, len_bytes: u64) -> io::Result<u64> {
    /// The same number on every architecture, as for all calls added since Linux 5.1.
    const SYS_CACHESTAT: libc::c_long = 451;

    /// struct cachestat_range (include/uapi/linux/mman.h).
    #[repr(C)]
    struct Range {
        offset: u64,
        len: u64,
    }

    /// struct cachestat (include/uapi/linux/mman.h), in pages.
    #[repr(C)]
    #[derive(Default)]
    struct Pages {
        cached: u64,
        dirty: u64,
        writeback: u64,
        evicted: u64,
        recently_evicted: u64,
    }

    let range = Range { offset: 0, len: len_bytes };
    let mut pages = Pages::default();
    // SAFETY: both structures have the kernel's layout and live through the call; the kernel
    // reads the first and writes the second. The last argument, flags, must be 0.
    let returned = unsafe { libc::syscall(SYS_CACHESTAT, fd.as_raw_fd(), &range, &mut pages, 0 as libc::c_uint) };
    outcome::of(returned as libc::c_int)?;
    Ok(pages.cached)
}

fn cached_pages_by_mincore(fd: BorrowedFd<'_>, len_bytes: u64) -> io::Result<u64> {
    /// Pages asked about at once: 1 GiB of file for a vector of 256 KiB.
    const WINDOW_PAGES: usize = 1 << 18;

    if !may_write(fd) {
        return Err(not_permitted());
    }
    let mapping = Mapping::new(fd, len_bytes as usize)?;
    let page_bytes = page_bytes() as usize;
    let mut resident = vec![0u8; WINDOW_PAGES];
    let mut cached = 0;
    for start in (0..mapping.len_bytes).step_by(WINDOW_PAGES * page_bytes) {
        let len = (mapping.len_bytes - start).min(WINDOW_PAGES * page_bytes);
        // SAFETY: the window lies inside the mapping and begins on a page; the kernel writes one
        // byte per page of it, at most WINDOW_PAGES, and touches no mapped byte.
        outcome::of(unsafe { libc::mincore(mapping.start.byte_add(start), len, resident.as_mut_ptr().cast()) })?;
        // Only the lowest bit is defined.
        let window = &resident[..len.div_ceil(page_bytes)];
        cached += window.iter().filter(|page| **page & 1 == 1).count() as u64;
    }
    Ok(cached)
}

/// Whether mincore would tell the truth: it checks for writing or for ownership, and an owner may
/// grant himself writing, so this errs on the side of refusing.
fn may_write(fd: BorrowedFd<'_>) -> bool {
    let path = format!("/proc/self/fd/{}\0", fd.as_raw_fd());
    // SAFETY: `path` is NUL-terminated and lives through the call.
    unsafe { libc::access(path.as_ptr().cast(), libc::W_OK) == 0 }
}

/// A mapping that is never read: only asked about.
struct Mapping {
    start: *mut libc::c_void,
    len_bytes: usize,
}

impl Mapping {
    fn new(fd: BorrowedFd<'_>, len_bytes: usize) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice disturbs no other memory.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), len_bytes, libc::PROT_READ, libc::MAP_SHARED, fd.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Self { start, len_bytes }) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is our own, is unmapped once, and nothing refers into it.
        unsafe { libc::munmap(self.start, self.len_bytes) };
    }
}

fn page_bytes() -> u64 {
    // SAFETY: takes an int and touches no memory of ours.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).expect("a page has a size")
}

/// Makes the next read begin at the front again (lseek(2)).
///
/// The position belongs to the open file description: flows that share one by duplicating a
/// descriptor move each other's. Open the file once per flow.
///
/// # Errors
///
/// `ESPIPE` for a pipe or a socket.
pub fn rewind(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: passes integers only.
    let position = unsafe { libc::lseek(fd.as_raw_fd(), 0, libc::SEEK_SET) };
    if position == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::{AsFd, FromRawFd};

    use super::*;

    /// A file that lives in the page cache alone, so that residence is certain.
    fn in_memory() -> File {
        // SAFETY: the name is NUL-terminated and static; flags are valid.
        let fd = outcome::of(unsafe { libc::memfd_create(c"cached".as_ptr(), libc::MFD_CLOEXEC) });
        // SAFETY: the descriptor is fresh and owned by nobody else.
        unsafe { File::from_raw_fd(fd.unwrap()) }
    }

    #[test]
    fn what_was_written_is_cached_and_holes_are_not() {
        let page = page_bytes();
        let mut file = in_memory();
        file.write_all(&vec![1; 3 * page as usize]).unwrap();
        file.set_len(4 * page).unwrap();
        assert_eq!(cached_fraction(file.as_fd(), 3 * page).unwrap(), 1.0);
        assert_eq!(cached_fraction(file.as_fd(), 4 * page).unwrap(), 0.75);
        assert_eq!(cached_fraction(file.as_fd(), 1).unwrap(), 1.0);
        assert_eq!(cached_fraction(file.as_fd(), 0).unwrap(), 1.0);
    }

    #[test]
    fn the_fallback_finds_the_same() {
        let page = page_bytes();
        let mut file = in_memory();
        file.write_all(&vec![1; 3 * page as usize]).unwrap();
        file.set_len(4 * page).unwrap();
        assert_eq!(cached_pages_by_mincore(file.as_fd(), 4 * page).unwrap(), 3);
        assert_eq!(cached_pages_by_mincore(file.as_fd(), 2 * page).unwrap(), 2);
    }

    #[test]
    fn what_has_no_page_cache_is_refused() {
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
