//! The instructions of a filter, for the virtual machine of seccomp(2).
//!
//! Loads read the low halves of arguments only, as the kernel does for arguments that are ints. The first part depends on
//! the architecture and the call's number alone, so the kernel can remember its result (`seccomp_is_const_allow`,
//! kernel/seccomp.c).

use std::io;
use std::mem::offset_of;

use super::SocketFilter;

/// Answers 0 without carrying the call out.
const SUCCEED: u32 = libc::SECCOMP_RET_ERRNO;

const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

/// `AUDIT_ARCH_…` of this build (linux/audit.h), and the numbers of bind, connect, listen and socketcall of the 32-bit programs
/// that the same kernel runs (arch/x86/entry/syscalls/syscall_32.tbl, arch/arm64/include/asm/unistd32.h).
#[cfg(target_arch = "x86_64")]
const NATIVE: Option<(u32, &[u32])> = Some((0xc000_003e, &[102, 361, 362, 363]));
#[cfg(target_arch = "aarch64")]
const NATIVE: Option<(u32, &[u32])> = Some((0xc000_00b7, &[282, 283, 284]));
#[cfg(target_arch = "riscv64")]
const NATIVE: Option<(u32, &[u32])> = Some((0xc000_00f3, &[]));
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
const NATIVE: Option<(u32, &[u32])> = None;

/// The calls that open a path, and the one that opens another way to make them.
const REPORTED: [libc::c_long; 4] = [libc::SYS_connect, libc::SYS_bind, libc::SYS_listen, libc::SYS_io_uring_setup];

/// Whether an architecture is that of this build.
pub(super) fn is_native(arch: u32) -> bool {
    NATIVE.is_some_and(|(native, _)| native == arch)
}

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
pub(super) fn instructions(filter: &SocketFilter) -> io::Result<Vec<libc::sock_filter>> {
    let (native, compat) = NATIVE.ok_or(io::ErrorKind::Unsupported)?;
    let report = |number: u32| [unless(number, 1), answer(libc::SECCOMP_RET_USER_NOTIF)];
    let number = load(offset_of!(libc::seccomp_data, nr));
    let mut all = vec![load(offset_of!(libc::seccomp_data, arch))];
    // Calls of another architecture have other numbers: they are reported, so that the caller can name the reason.
    let other: Vec<_> = [number].into_iter().chain(compat.iter().flat_map(|nr| report(*nr))).collect();
    all.push(step(EQUAL, native, other.len() as u8 + 1, 0));
    all.extend(other);
    all.push(answer(libc::SECCOMP_RET_ALLOW));
    all.push(number);
    all.extend(REPORTED.iter().flat_map(|nr| report(*nr as u32)));
    all.extend([step(EQUAL, libc::SYS_setsockopt as u32, 1, 0), answer(libc::SECCOMP_RET_ALLOW)]);
    for option in &filter.ignored {
        let (level, number) = option.place();
        all.extend([load_argument(1), unless(level as u32, 3), load_argument(2)]);
        all.extend([unless(number as u32, 1), answer(SUCCEED)]);
    }
    all.push(answer(if filter.reports_options { libc::SECCOMP_RET_USER_NOTIF } else { libc::SECCOMP_RET_ALLOW }));
    Ok(all)
}
