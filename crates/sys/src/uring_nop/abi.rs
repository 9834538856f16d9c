//! The system calls of a ring, with the kernel's own structures (io_uring_setup(2), io_uring_enter(2), io_uring_register(2)).
//!
//! The raw ring does not depend on a library with which it is compared: only the declarations of the kernel's headers come from
//! elsewhere.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use linux_raw_sys::io_uring::{io_uring_op, io_uring_params, io_uring_register_op, io_uring_rsrc_update, io_uring_sqe};

use crate::syscall_result;

pub(super) const OP_NOP: u8 = io_uring_op::IORING_OP_NOP as u8;

/// Parameters of a ring.
pub(super) fn parameters(flags: u32, sq_thread_idle_ms: u32) -> io_uring_params {
    // SAFETY: integers alone, of which zero is a value.
    let empty = unsafe { std::mem::zeroed() };
    io_uring_params { flags, sq_thread_idle: sq_thread_idle_ms, ..empty }
}

/// The whole entry of a NOP.
#[inline]
pub(super) fn nop(user_data: u64) -> io_uring_sqe {
    // SAFETY: integers and unions of integers, of which zero is a value.
    let empty = unsafe { std::mem::zeroed() };
    io_uring_sqe { opcode: OP_NOP, user_data, ..empty }
}

/// io_uring_setup(2).
pub(super) fn setup(entries: u32, params: &mut io_uring_params) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads and writes one `io_uring_params` during the call, and makes a descriptor.
    unsafe {
        let made = libc::syscall(libc::SYS_io_uring_setup, entries, std::ptr::from_mut(params));
        syscall_result::descriptor(made as libc::c_int)
    }
}

/// Registers a ring's descriptor for the calling thread (Linux 5.18) and returns its index.
pub(super) fn register_ring_fd(fd: BorrowedFd<'_>) -> io::Result<i32> {
    let mut update = io_uring_rsrc_update { offset: u32::MAX, resv: 0, data: fd.as_raw_fd() as u64 };
    let (fd, update_at) = (fd.as_raw_fd(), std::ptr::from_mut(&mut update));
    let operation = io_uring_register_op::IORING_REGISTER_RING_FDS as u32;
    // SAFETY: the kernel reads and writes one `io_uring_rsrc_update` during the call.
    let done = unsafe { libc::syscall(libc::SYS_io_uring_register, fd, operation, update_at, 1) };
    syscall_result::of(done as libc::c_int).map(|_| update.offset as i32)
}

/// io_uring_enter(2) without a signal mask: returns the number of submissions taken, or a negative error number.
///
/// Uses the instruction directly where possible: with one NOP per call, a variadic function and `errno` would be
/// measurable.
///
/// # Safety
///
/// `fd` must belong to a ring, or be the index of a registered one, whose queued entries reference no memory.
#[inline]
pub(super) unsafe fn enter(fd: i32, to_submit: u32, min_complete: u32, flags: u32) -> i32 {
    #[cfg(target_arch = "x86_64")]
    {
        let result: i64;
        // SAFETY: a system call with six arguments in its registers. The kernel preserves all others except rcx and r11
        // (syscall(2)), and touches only the ring's memory, which the compiler does not assume unchanged (no `nomem`).
        unsafe {
            std::arch::asm!(
                "syscall",
                inlateout("rax") libc::SYS_io_uring_enter => result,
                in("rdi") i64::from(fd),
                in("rsi") u64::from(to_submit),
                in("rdx") u64::from(min_complete),
                in("r10") u64::from(flags),
                in("r8") 0_u64,
                in("r9") 0_u64,
                lateout("rcx") _,
                lateout("r11") _,
                options(nostack),
            );
        }
        result as i32
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let none = std::ptr::null::<libc::sigset_t>();
        // SAFETY: the call passes no pointer that the kernel would follow.
        let result =
            unsafe { libc::syscall(libc::SYS_io_uring_enter, fd, to_submit, min_complete, flags, none, 0_usize) };
        if result < 0 { -io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO) } else { result as i32 }
    }
}
