//! Receives the calls that a filter reports, and answers them.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use super::program::is_native;
use crate::{process_descriptor, syscall_result};

/// Flag of pidfd_open(2) for a thread that leads no process: `PIDFD_THREAD` (Linux 6.9).
const OF_THREAD: libc::c_uint = libc::O_EXCL as libc::c_uint;

/// The end of a filter that learns of calls. While it is open, reported calls wait for an answer; once it is closed, they
/// fail with `ENOSYS`. So it must outlive the programs under the filter.
#[derive(Debug)]
pub struct FilterListener(OwnedFd);

/// What a reported call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketCall {
    /// connect(2).
    Connect,
    /// bind(2).
    Bind,
    /// listen(2).
    Listen,
    /// setsockopt(2) of this level and option.
    SetOption(i32, i32),
    /// io_uring_setup(2): the ring's own operations are not reported.
    Ring,
    /// A call of a program of another architecture, such as a 32-bit one.
    OtherArchitecture,
}

/// A call that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub struct ReportedCall {
    /// The kernel's number of this report.
    id: u64,
    /// The thread that makes the call.
    pub thread: u32,
    /// What it does.
    pub call: SocketCall,
    args: [u64; 6],
}

/// The next event of a listener.
#[derive(Debug)]
pub enum ListenerEvent {
    /// A call waits for its answer.
    Call(ReportedCall),
    /// No program is left under the filter.
    Ended,
}

impl FilterListener {
    pub(super) fn new(descriptor: OwnedFd) -> FilterListener {
        FilterListener(descriptor)
    }

    /// Waits for the next call, or the end of all programs under the filter.
    ///
    /// # Errors
    ///
    /// Those of poll(2) and ioctl(2); none is expected.
    pub fn next(&self) -> io::Result<ListenerEvent> {
        loop {
            let mut polled = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: `polled` is one valid pollfd, and lives through the call.
            match syscall_result::of(unsafe { libc::poll(&raw mut polled, 1, -1) }) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if polled.revents & libc::POLLIN == 0 {
                return Ok(ListenerEvent::Ended);
            }
            if let Some(call) = self.receive()? {
                return Ok(ListenerEvent::Call(call));
            }
        }
    }

    /// The call that waits; `None` if its thread was killed meanwhile.
    fn receive(&self) -> io::Result<Option<ReportedCall>> {
        // SAFETY: a value of zeros is valid: numbers alone, and the kernel requires zeros.
        let mut found: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: the request writes one such value into `found`, which lives through the call.
        let returned = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut found) };
        match syscall_result::of(returned) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => return Ok(None),
            other => other?,
        };
        let (number, args) = (libc::c_long::from(found.data.nr), found.data.args);
        let call = match number {
            _ if !is_native(found.data.arch) => SocketCall::OtherArchitecture,
            libc::SYS_connect => SocketCall::Connect,
            libc::SYS_bind => SocketCall::Bind,
            libc::SYS_listen => SocketCall::Listen,
            libc::SYS_setsockopt => SocketCall::SetOption(args[1] as i32, args[2] as i32),
            _ => SocketCall::Ring,
        };
        Ok(Some(ReportedCall { id: found.id, thread: found.pid, call, args }))
    }

    /// Whether the call still waits. The number of a thread that ended meanwhile may belong to another program, so
    /// what was read by that number counts only if the call waits afterwards (seccomp_unotify(2)).
    #[must_use]
    pub fn waits(&self, call: &ReportedCall) -> bool {
        // SAFETY: the request reads one u64, which lives through the call.
        unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const call.id) == 0 }
    }

    /// Lets the call be carried out. A thread that ended meanwhile needs no answer.
    pub fn carry_out(&self, call: &ReportedCall) {
        let mut answer = libc::seccomp_notif_resp {
            id: call.id,
            val: 0,
            error: 0,
            flags: libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
        };
        // SAFETY: the request reads one such value, which lives through the call.
        unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer) };
    }

    /// A duplicate of the socket that a call is about. Close it at once: it keeps the connection open.
    ///
    /// # Errors
    ///
    /// `EBADF` if the program closed it, `EPERM` if the program may not be traced, `ESRCH` if the thread ended.
    pub fn socket(&self, call: &ReportedCall) -> io::Result<OwnedFd> {
        // The low half is the number, as the kernel takes it.
        let number = call.args[0] as i32;
        let found = match process_descriptor::open(call.thread, OF_THREAD) {
            // A kernel without the flag: threads of a process share their descriptors, unless one of them asked for its own.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                process_descriptor::open(process_of(call.thread)?, 0)
            }
            other => other,
        };
        let socket = process_descriptor::get(found?.as_fd(), number)?;
        if self.waits(call) { Ok(socket) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
    }

    /// The first bytes of the value that setsockopt(2) passes.
    ///
    /// # Errors
    ///
    /// When the memory of the program cannot be read.
    pub fn value(&self, call: &ReportedCall) -> io::Result<Vec<u8>> {
        let mut value = [0; 16];
        let length = value.len().min(call.args[4] as u32 as usize);
        let memory = File::open(format!("/proc/{}/mem", call.thread))?;
        memory.read_exact_at(&mut value[..length], call.args[3])?;
        if self.waits(call) { Ok(value[..length].to_vec()) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
    }
}

/// The process of a thread.
fn process_of(thread: u32) -> io::Result<u32> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status"))?;
    let process = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
    process.ok_or_else(|| io::ErrorKind::InvalidData.into())
}
