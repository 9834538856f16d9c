//! The bare requests of ptrace(2), and what they return.
//!
//! Never decides when: [`super::Tracer`] does.

use std::io;

use crate::errno;

/// The state of a stopped thread in a system call (`PTRACE_GET_SYSCALL_INFO`, Linux 5.3; struct ptrace_syscall_info of
/// linux/ptrace.h). One layout for all architectures.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CallInfo {
    pub(super) op: u8,
    pad: [u8; 3],
    /// The architecture of the caller (linux/audit.h): another one for a 32-bit program.
    pub(super) arch: u32,
    instruction_pointer: u64,
    stack_pointer: u64,
    /// At the entry: the number and six arguments; at the exit: the result, and whether it is an error.
    pub(super) words: [u64; 8],
}

/// `PTRACE_GET_SYSCALL_INFO` of linux/ptrace.h, which not every libc has.
const GET_SYSCALL_INFO: libc::c_long = 0x420e;

/// `op` of a thread that is about to enter a call.
pub(super) const ENTRY: u8 = 1;
/// `op` of a thread that has come out of one.
pub(super) const EXIT: u8 = 2;

fn request(request: libc::c_long, tid: i32, address: usize, data: usize) -> io::Result<libc::c_long> {
    // SAFETY: the requests of this file read or write another process, or the one place that `data` points to, which
    // each caller keeps valid, of the size that it states, through the call.
    let returned = unsafe { libc::syscall(libc::SYS_ptrace, request, libc::c_long::from(tid), address, data) };
    if returned == -1 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}

/// Begins to trace a running thread, which keeps running. Threads and processes that it starts are traced as well.
pub(super) fn seize(tid: i32) -> io::Result<()> {
    // No PTRACE_O_EXITKILL: if the tracer dies, the kernel lets the program continue (ptrace(2)).
    let options = libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACEEXEC;
    request(libc::PTRACE_SEIZE as libc::c_long, tid, 0, options as usize).map(drop)
}

/// Asks a traced thread to stop.
pub(super) fn interrupt(tid: i32) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT as libc::c_long, tid, 0, 0).map(drop)
}

/// Lets a stopped thread go on to the next entry or exit of a system call, with a signal or none (0).
pub(super) fn go_on(tid: i32, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_SYSCALL as libc::c_long, tid, 0, signal as usize).map(drop)
}

/// Leaves a thread of a program that was stopped by SIGSTOP or the like stopped, and hears of its going on.
pub(super) fn listen(tid: i32) -> io::Result<()> {
    request(libc::PTRACE_LISTEN as libc::c_long, tid, 0, 0).map(drop)
}

/// Lets a stopped thread go for good, with a signal or none (0).
pub(super) fn detach(tid: i32, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_DETACH as libc::c_long, tid, 0, signal as usize).map(drop)
}

/// The state of a stopped thread.
pub(super) fn call_info(tid: i32) -> io::Result<CallInfo> {
    let mut info = CallInfo::default();
    let place = &raw mut info;
    request(GET_SYSCALL_INFO, tid, size_of::<CallInfo>(), place as usize)?;
    Ok(info)
}

/// Makes the kernel restart a call that ended with `EINTR` only because of our stop. The kernel restarts some calls itself: a
/// thread that is stopped before its signals are handled and returns `ERESTARTNOHAND` runs its call again, unless a handler
/// is to run, which then receives `EINTR` (arch/x86/kernel/signal.c, `arch_do_signal_or_restart`).
#[cfg(target_arch = "x86_64")]
pub(super) fn restart(tid: i32) -> io::Result<()> {
    const ERESTARTNOHAND: i64 = 514;
    // SAFETY: registers are numbers, for which zeros are valid.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    let place = &raw mut registers;
    request(libc::PTRACE_GETREGS as libc::c_long, tid, 0, place as usize)?;
    let ended_by_us =
        registers.rax as i64 == -i64::from(libc::EINTR) && super::calls::is_restartable(registers.orig_rax);
    if ended_by_us {
        registers.rax = (-ERESTARTNOHAND) as u64;
        let place = &raw mut registers;
        request(libc::PTRACE_SETREGS as libc::c_long, tid, 0, place as usize)?;
    }
    Ok(())
}

/// Elsewhere the registers are past that point when the thread can be looked at: such a call returns `EINTR`, as it does
/// for every program that is stopped and goes on (signal(7)).
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn restart(_tid: i32) -> io::Result<()> {
    Ok(())
}

/// Waits until a thread that the calling thread traces, or one of its children, stops or ends: its number, and the status of
/// waitpid(2). Fails with `EINTR` by a signal, and with `ECHILD` if the calling thread traces no thread.
pub(super) fn wait() -> io::Result<(i32, libc::c_int)> {
    let mut status = 0;
    // SAFETY: `status` is a valid place for an int and lives through the call.
    let tid = errno::of(unsafe { libc::waitpid(-1, &mut status, libc::__WALL | libc::__WNOTHREAD) })?;
    Ok((tid, status))
}

/// Reads another process's memory (process_vm_readv(2)): how many bytes could be had.
pub(super) fn memory(pid: i32, address: u64, into: &mut [u8]) -> io::Result<usize> {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: into.len() };
    // SAFETY: the kernel writes at most `into.len()` bytes at `into`, which is borrowed exclusively; the other address is
    // looked up in the other process alone.
    errno::of_count(unsafe { libc::process_vm_readv(pid, &local, 1, &remote, 1, 0) })
}
