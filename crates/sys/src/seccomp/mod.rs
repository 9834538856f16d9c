//! A filter that reports some system calls of a program to the process that started it (seccomp_unotify(2)).
//!
//! The child installs the filter between fork and exec, so it covers every program that the child starts, static or
//! dynamic, without root. Calls that open a path (connect, bind, listen) wait for the caller's answer; the program's own
//! setsockopt(2) of chosen options succeeds without being carried out; everything else runs as before. The kernel
//! remembers which calls a filter always allows, without running the filter again (Linux 5.11).
//!
//! The filter needs `no_new_privs`, so set-user-id programs run without their privileges. Never decides which
//! options to set.

use std::fs::File;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::{io, thread};

use rustix::event::{self, PollFd, PollFlags};
use rustix::io::retry_on_intr;
use rustix::process::PidfdFlags;
use rustix::thread::set_no_new_privs;

use crate::clock::monotonic_ns;
use crate::kernel::OWN_ARCH;
use crate::option::KernelOption;
use crate::{errno, process_descriptor, process_tree, shared_port};

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
        let instructions = instructions(self)?;
        let (ours, childs) = UnixStream::pair()?;
        // SAFETY: between fork and exec only async-signal-safe calls are allowed. The closure makes bare system calls on
        // memory that was prepared before or is on its stack, and builds an io::Error from a number: no allocation, no lock.
        unsafe {
            command.pre_exec(move || {
                let listener = install(&instructions)?;
                shared_port::pass_on(childs.as_fd(), &[0], listener.as_fd())
            });
        }
        Ok(PendingListener(ours))
    }
}

/// Installs the filter in the calling thread; returns its listener, which closes on exec.
fn install(instructions: &[libc::sock_filter]) -> io::Result<OwnedFd> {
    set_no_new_privs(true)?;
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
    // SAFETY: the call makes the descriptor for its caller alone.
    unsafe { errno::descriptor(returned as libc::c_int) }
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
        listener.map(FilterListener).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
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
    let instructions = instructions(&SocketFilter::default())?;
    // A filter applies to the thread that installs it, and ends with it.
    let timed = move |filter: Option<Vec<libc::sock_filter>>| -> io::Result<u64> {
        let _listener = filter.map(|filter| install(&filter)).transpose()?;
        let round = || {
            let began = monotonic_ns();
            for _ in 0..CALLS {
                let _ = rustix::process::getppid();
            }
            (monotonic_ns() - began) / u64::from(CALLS)
        };
        Ok((0..ROUNDS).map(|_| round()).min().unwrap_or(0))
    };
    let of_thread = |filter| {
        let thread = thread::Builder::new().name("filter-cost".into()).spawn(move || timed(filter))?;
        thread.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
    };
    let (without, with) = (of_thread(None)?, of_thread(Some(instructions))?);
    Ok(with.saturating_sub(without))
}

// The instructions of a filter, for the virtual machine of seccomp(2).
//
// Loads read the low halves of arguments only, as the kernel does for arguments that are ints. The first part depends on
// the architecture and the call's number alone, so the kernel can remember its result (`seccomp_is_const_allow`,
// kernel/seccomp.c).

/// Answers 0 without carrying the call out.
const SUCCEED: u32 = libc::SECCOMP_RET_ERRNO;

const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

/// The numbers of bind, connect, listen and socketcall of the 32-bit programs that the same kernel runs
/// (arch/x86/entry/syscalls/syscall_32.tbl, arch/arm64/include/asm/unistd32.h).
const COMPAT: &[u32] = if cfg!(target_arch = "x86_64") {
    &[102, 361, 362, 363]
} else if cfg!(target_arch = "aarch64") {
    &[282, 283, 284]
} else {
    &[]
};

/// The calls that open a path, and the one that opens another way to make them.
const REPORTED: [libc::c_long; 4] = [libc::SYS_connect, libc::SYS_bind, libc::SYS_listen, libc::SYS_io_uring_setup];

fn step(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

fn load(offset: usize) -> libc::sock_filter {
    step(LOAD, offset as u32, 0, 0)
}

fn load_argument(at: usize) -> libc::sock_filter {
    let low = if cfg!(target_endian = "big") { 4 } else { 0 };
    load(offset_of!(libc::seccomp_data, args) + 8 * at + low)
}

/// Skips the next instructions unless the loaded word is this one.
fn unless(value: u32, skipped: u8) -> libc::sock_filter {
    step(EQUAL, value, 0, skipped)
}

fn answer(with: u32) -> libc::sock_filter {
    step(RETURN, with, 0, 0)
}

/// The instructions of a filter.
fn instructions(filter: &SocketFilter) -> io::Result<Vec<libc::sock_filter>> {
    let native = OWN_ARCH.ok_or(io::ErrorKind::Unsupported)?;
    let report = |number: u32| [unless(number, 1), answer(libc::SECCOMP_RET_USER_NOTIF)];
    let number = load(offset_of!(libc::seccomp_data, nr));
    let mut all = vec![load(offset_of!(libc::seccomp_data, arch))];
    // Calls of another architecture have other numbers: they are reported, so that the caller can name the reason.
    let other: Vec<_> = [number].into_iter().chain(COMPAT.iter().flat_map(|nr| report(*nr))).collect();
    all.push(step(EQUAL, native, other.len() as u8 + 1, 0));
    all.extend(other);
    all.push(answer(libc::SECCOMP_RET_ALLOW));
    all.push(number);
    all.extend(REPORTED.iter().flat_map(|nr| report(*nr as u32)));
    all.extend([step(EQUAL, libc::SYS_setsockopt as u32, 1, 0), answer(libc::SECCOMP_RET_ALLOW)]);
    for option in &filter.ignored {
        let (level, number) = option.place;
        all.extend([load_argument(1), unless(level as u32, 3), load_argument(2)]);
        all.extend([unless(number as u32, 1), answer(SUCCEED)]);
    }
    all.push(answer(if filter.reports_options { libc::SECCOMP_RET_USER_NOTIF } else { libc::SECCOMP_RET_ALLOW }));
    Ok(all)
}

// Receives the calls that a filter reports, and answers them.

/// Flag of pidfd_open(2) for a thread that leads no process: `PIDFD_THREAD` (Linux 6.9).
const OF_THREAD: PidfdFlags = PidfdFlags::from_bits_retain(libc::O_EXCL as u32);

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

impl FilterListener {
    /// Waits for the next call; `None` when no program is left under the filter.
    ///
    /// # Errors
    ///
    /// Those of ppoll(2) and ioctl(2); none is expected.
    pub fn next(&self) -> io::Result<Option<ReportedCall>> {
        loop {
            let mut polled = [PollFd::new(&self.0, PollFlags::IN)];
            retry_on_intr(|| event::poll(&mut polled, None))?;
            if !polled[0].revents().contains(PollFlags::IN) {
                return Ok(None);
            }
            let call = self.receive()?;
            if call.is_some() {
                return Ok(call);
            }
        }
    }

    /// The call that waits; `None` if its thread was killed meanwhile.
    fn receive(&self) -> io::Result<Option<ReportedCall>> {
        // SAFETY: a value of zeros is valid: numbers alone, and the kernel requires zeros.
        let mut found: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: the request writes one such value into `found`, which lives through the call.
        let returned = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut found) };
        match errno::of(returned) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => return Ok(None),
            other => other?,
        };
        let (number, args) = (libc::c_long::from(found.data.nr), found.data.args);
        let call = match number {
            _ if Some(found.data.arch) != OWN_ARCH => SocketCall::OtherArchitecture,
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
                let process = process_tree::process_of(call.thread).ok_or(io::ErrorKind::NotFound)?;
                process_descriptor::open(process, PidfdFlags::empty())
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

#[cfg(test)]
mod tests;
