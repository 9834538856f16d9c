//! A thread's own table of open descriptors.
//!
//! Threads of a process share one table (`CLONE_FILES`, clone(2)). A call on a descriptor of a shared table takes and drops a
//! counted reference to the file; where the table has one user, the kernel leaves both out (`__fget_light`, fs/file.c). So a
//! thread that leaves the shared table pays what the only thread of a process pays.

use std::fs;
use std::io;
use std::os::fd::{BorrowedFd, RawFd};

use crate::syscall_result;

/// Standard input, output and error stay open in every table.
const STANDARD: RawFd = 2;

/// Gives the calling thread a descriptor table of its own, with the descriptors `kept` and those of standard input, output and
/// error. Every other descriptor is closed in it, and stays open in the table that the thread leaves, as do copies of `kept`.
///
/// The calling thread must use no other descriptor that was opened before. Threads that it starts later share its table.
///
/// # Errors
/// When a seccomp filter refuses unshare(2), memory is short, or a descriptor of `kept` is not open (`EBADF`). The table may be
/// the thread's own then.
pub fn leave_shared(kept: &[RawFd]) -> io::Result<()> {
    // SAFETY: passes a flag and no memory. The other threads keep their table as it is.
    syscall_result::of(unsafe { libc::unshare(libc::CLONE_FILES) })?;
    let all = open_descriptors()?;
    if !kept.iter().all(|kept| all.contains(kept)) {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    for open in all {
        if open > STANDARD && !kept.contains(&open) {
            close(open);
        }
    }
    Ok(())
}

/// Closes descriptors in the calling thread's table whose owners are in another table, where they stay open.
pub fn close_copies(copies: &[RawFd]) {
    copies.iter().for_each(|copy| close(*copy));
}

/// The descriptors of the calling thread's table.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn open_descriptors() -> io::Result<Vec<RawFd>> {
    let listed = fs::read_dir("/proc/thread-self/fd")?;
    let mut all: Vec<RawFd> = listed.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    // One of them was the listing's own, and is closed now.
    all.retain(|listed| is_open(*listed));
    Ok(all)
}

fn is_open(descriptor: RawFd) -> bool {
    // SAFETY: passes integers and no memory, and changes nothing.
    unsafe { libc::fcntl(descriptor, libc::F_GETFD) != -1 }
}

/// Whether the calling thread shares its table with another thread of this process (kcmp(2), `KCMP_FILES`).
///
/// # Errors
/// `ENOSYS` where the kernel is built without the call.
pub fn is_shared_with(thread: i32) -> io::Result<bool> {
    /// `KCMP_FILES` of linux/kcmp.h.
    const KCMP_FILES: libc::c_int = 2;
    // SAFETY: passes integers and no memory.
    let compared = unsafe { libc::syscall(libc::SYS_kcmp, libc::gettid(), thread, KCMP_FILES, 0, 0) };
    syscall_result::of_syscall(compared).map(|order| order == 0)
}

/// The calling thread's number.
pub fn thread_id() -> i32 {
    // SAFETY: the call has no arguments.
    unsafe { libc::gettid() }
}

fn close(descriptor: RawFd) {
    // SAFETY: the descriptor's owner uses another table, in which this call changes nothing.
    unsafe { libc::close(descriptor) };
}

/// The number of a descriptor, for [`leave_shared`] and [`close_copies`].
pub fn number(descriptor: BorrowedFd<'_>) -> RawFd {
    std::os::fd::AsRawFd::as_raw_fd(&descriptor)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn thread_leaves_with_what_it_keeps() {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        let (other, _peer) = UnixStream::pair().unwrap();
        let (kept, dropped, starter) = (number(theirs.as_fd()), number(other.as_fd()), thread_id());
        let (left, copied) = mpsc::channel();
        let (closed, go) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            assert!(is_shared_with(starter).unwrap());
            leave_shared(&[kept]).unwrap();
            assert!(!is_shared_with(starter).unwrap());
            let open = open_descriptors().unwrap();
            assert!(open.contains(&kept) && !open.contains(&dropped), "{open:?}");
            left.send(()).unwrap();
            go.recv().unwrap();
            theirs.write_all(b"x").unwrap();
            // The last copy: the peer reads the end.
            drop(theirs);
        });
        copied.recv().unwrap();
        assert!(open_descriptors().unwrap().contains(&dropped));
        close_copies(&[kept]);
        closed.send(()).unwrap();
        let mut text = String::new();
        ours.read_to_string(&mut text).unwrap();
        assert_eq!(text, "x");
        thread.join().unwrap();
    }
}
