//! A filter that reports some system calls of a program to the process that started it (seccomp_unotify(2)).
//!
//! The child installs the filter between fork and exec, so it covers every program that the child starts, static or
//! dynamic, without root. Calls that open a path (connect, bind, listen) wait for the caller's answer; the program's own
//! setsockopt(2) of chosen options succeeds without being carried out; everything else runs as before. The kernel
//! remembers which calls a filter always allows, without running the filter again (Linux 5.11).
//!
//! The filter needs `no_new_privs`, so set-user-id programs run without their privileges. Never decides which
//! options to set.

mod listener;
mod program;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;

use crate::clock::monotonic_ns;
use crate::option::KernelOption;
use crate::{shared_port, syscall_result};

pub use listener::{FilterListener, ListenerEvent, ReportedCall, SocketCall};

/// The calls to report, and the options to keep from the kernel.
#[derive(Clone, Debug, Default)]
pub struct SocketFilter {
    /// Options whose setsockopt(2) by the program succeeds and does nothing.
    pub ignored: Vec<KernelOption>,
    /// Whether every other setsockopt(2) is reported too.
    pub reports_options: bool,
}

/// The caller's end of the channel on which the child sends its listener.
#[derive(Debug)]
pub struct PendingListener(UnixStream);

impl SocketFilter {
    /// Lets the child that `command` will start install the filter, as the last step before its program begins.
    ///
    /// # Errors
    ///
    /// `Unsupported` on an architecture without a filter here, or without descriptors. The child's own errors are
    /// those of the start: `EBUSY` if another process supervises this one in the same way, `EINVAL` or `ENOSYS` on a kernel
    /// before 5.5.
    pub fn install_in(&self, command: &mut Command) -> io::Result<PendingListener> {
        let instructions = program::instructions(self)?;
        let (ours, childs) = UnixStream::pair()?;
        // SAFETY: between fork and exec only async-signal-safe calls are allowed. The closure makes bare system calls on
        // memory that was prepared before or is on its stack, and builds an io::Error from a number: no allocation, no lock.
        unsafe {
            command.pre_exec(move || {
                let listener = install(&instructions)?;
                shared_port::pass_on(childs.as_fd(), &[0], BorrowedFd::borrow_raw(listener))
            });
        }
        Ok(PendingListener(ours))
    }
}

/// Installs the filter in the calling thread; returns the number of its listener, which closes on exec.
fn install(instructions: &[libc::sock_filter]) -> io::Result<RawFd> {
    // SAFETY: passes integers and no memory.
    syscall_result::of(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
    let program =
        libc::sock_fprog { len: instructions.len() as libc::c_ushort, filter: instructions.as_ptr().cast_mut() };
    let set = |flags: libc::c_ulong| {
        // SAFETY: `program` names `len` valid instructions, which the kernel copies during the call.
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) }
    };
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    // Go interrupts its threads by signals. Without the flag (Linux 5.19) a signal makes a reported call start again.
    let returned = match set(flags | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV) {
        -1 if io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL) => set(flags),
        returned => returned,
    };
    syscall_result::of(returned as libc::c_int)
}

impl PendingListener {
    /// Takes over the listener of a child that has been started. Call it after the start has succeeded: without a child it
    /// waits until the command is dropped.
    ///
    /// # Errors
    ///
    /// `UnexpectedEof` if the child sent none.
    pub fn receive(self) -> io::Result<FilterListener> {
        let (_, listener) = shared_port::take_on(self.0.as_fd(), &mut [0])?;
        listener.map(FilterListener::new).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

/// Rounds of [`cost_ns`], of which the fastest counts: other programs only add time.
const ROUNDS: usize = 5;

/// Calls of a round.
const CALLS: u32 = 20_000;

/// The time that a filter adds to a system call that it lets pass, nanoseconds, measured now.
///
/// # Errors
///
/// When a thread cannot be started, or may not install a filter.
pub fn cost_ns() -> io::Result<u64> {
    let instructions = program::instructions(&SocketFilter::default())?;
    // A filter applies to the thread that installs it, and ends with it.
    let timed = move |filter: Option<Vec<libc::sock_filter>>| -> io::Result<u64> {
        let listener = filter.map(|filter| install(&filter)).transpose()?;
        let round = || {
            let began = monotonic_ns();
            for _ in 0..CALLS {
                // SAFETY: takes no argument and cannot fail. libc's own function may remember the result.
                unsafe { libc::syscall(libc::SYS_getppid) };
            }
            (monotonic_ns() - began) / u64::from(CALLS)
        };
        let least = (0..ROUNDS).map(|_| round()).min().unwrap_or(0);
        if let Some(listener) = listener {
            // SAFETY: `install` made the descriptor, and nothing else owns it.
            drop(unsafe { OwnedFd::from_raw_fd(listener) });
        }
        Ok(least)
    };
    let of_thread = |filter| {
        let thread = thread::Builder::new().name("filter-cost".into()).spawn(move || timed(filter))?;
        thread.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
    };
    let (without, with) = (of_thread(None)?, of_thread(Some(instructions))?);
    Ok(with.saturating_sub(without))
}

#[cfg(test)]
mod tests;
