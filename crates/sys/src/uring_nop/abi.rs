//! The kernel's interface of a ring: structures, constants and three system calls (include/uapi/linux/io_uring.h,
//! io_uring_setup(2), io_uring_enter(2), io_uring_register(2)).
//!
//! Defined here because the raw ring must not depend on a library with which it is compared.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

pub(super) const SETUP_SQPOLL: u32 = 1 << 1;
pub(super) const SETUP_COOP_TASKRUN: u32 = 1 << 8;
pub(super) const SETUP_SINGLE_ISSUER: u32 = 1 << 12;
pub(super) const SETUP_DEFER_TASKRUN: u32 = 1 << 13;
pub(super) const SETUP_NO_SQARRAY: u32 = 1 << 16;

/// Both queues are in one mapping (Linux 5.4).
pub(super) const FEAT_SINGLE_MMAP: u32 = 1 << 0;
/// Completions without room are kept, not dropped (Linux 5.5).
pub(super) const FEAT_NODROP: u32 = 1 << 1;

pub(super) const ENTER_GETEVENTS: u32 = 1 << 0;
pub(super) const ENTER_SQ_WAKEUP: u32 = 1 << 1;
pub(super) const ENTER_SQ_WAIT: u32 = 1 << 2;
pub(super) const ENTER_REGISTERED_RING: u32 = 1 << 4;

pub(super) const SQ_NEED_WAKEUP: u32 = 1 << 0;
pub(super) const SQ_CQ_OVERFLOW: u32 = 1 << 1;

pub(super) const OFF_RINGS: i64 = 0;
pub(super) const OFF_SQES: i64 = 0x1000_0000;

pub(super) const OP_NOP: u8 = 0;

const REGISTER_RING_FDS: u32 = 20;

/// `struct io_sqring_offsets`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct SqOffsets {
    pub head: u32,
    pub tail: u32,
    pub ring_mask: u32,
    pub ring_entries: u32,
    pub flags: u32,
    pub dropped: u32,
    pub array: u32,
    resv1: u32,
    user_addr: u64,
}

/// `struct io_cqring_offsets`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct CqOffsets {
    pub head: u32,
    pub tail: u32,
    pub ring_mask: u32,
    pub ring_entries: u32,
    pub overflow: u32,
    pub cqes: u32,
    pub flags: u32,
    resv1: u32,
    user_addr: u64,
}

/// `struct io_uring_params`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Params {
    pub sq_entries: u32,
    pub cq_entries: u32,
    flags: u32,
    sq_thread_cpu: u32,
    sq_thread_idle: u32,
    pub features: u32,
    wq_fd: u32,
    resv: [u32; 3],
    pub sq_off: SqOffsets,
    pub cq_off: CqOffsets,
}

/// `struct io_uring_sqe`, as a NOP uses it.
#[repr(C, align(64))]
#[derive(Clone, Copy, Default)]
pub(super) struct Sqe {
    pub opcode: u8,
    flags: u8,
    ioprio: u16,
    fd: i32,
    off: u64,
    addr: u64,
    len: u32,
    op_flags: u32,
    pub user_data: u64,
    rest: [u64; 3],
}

/// `struct io_uring_cqe`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Cqe {
    pub user_data: u64,
    pub result: i32,
    _flags: u32,
}

/// `struct io_uring_rsrc_update`.
#[repr(C)]
struct RingFdUpdate {
    offset: u32,
    resv: u32,
    data: u64,
}

const _: () = assert!(size_of::<Params>() == 120 && size_of::<Sqe>() == 64 && size_of::<Cqe>() == 16);

impl Params {
    pub(super) fn of(flags: u32, sq_thread_idle_ms: u32) -> Params {
        Params { flags, sq_thread_idle: sq_thread_idle_ms, ..Params::default() }
    }
}

impl Sqe {
    /// The whole entry of a NOP.
    #[inline]
    pub(super) fn nop(user_data: u64) -> Sqe {
        Sqe { opcode: OP_NOP, user_data, ..Sqe::default() }
    }
}

/// io_uring_setup(2).
pub(super) fn setup(entries: u32, params: &mut Params) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads and writes one `io_uring_params`, which `Params` is, during the call.
    let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, entries, std::ptr::from_mut(params)) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and no other code has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Registers a ring's descriptor for the calling thread (Linux 5.18) and returns its index.
pub(super) fn register_ring_fd(fd: BorrowedFd<'_>) -> io::Result<i32> {
    let mut update = RingFdUpdate { offset: u32::MAX, resv: 0, data: fd.as_raw_fd() as u64 };
    let (fd, update_at) = (fd.as_raw_fd(), std::ptr::from_mut(&mut update));
    // SAFETY: the kernel reads and writes one `io_uring_rsrc_update` during the call.
    let done = unsafe { libc::syscall(libc::SYS_io_uring_register, fd, REGISTER_RING_FDS, update_at, 1) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(update.offset as i32) }
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
