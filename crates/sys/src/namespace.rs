//! Network namespaces without privileges (user_namespaces(7), network_namespaces(7)), and children that enter them
//! before they execute a program.
//!
//! Never changes the namespaces of a process that has other threads: the kernel refuses it.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

use crate::syscall_result;

/// A network namespace, and the user namespace that owns it: access to the second permits entering the first.
#[derive(Debug)]
pub struct HeldNetwork {
    user: File,
    network: File,
}

/// Moves the calling process into a new user namespace with the same user and all capabilities, and there into a new
/// network namespace.
///
/// # Errors
/// The error of unshare(2) or of writing the maps: `EPERM` or `ENOSPC` where the system forbids user namespaces.
pub fn leave_for_own_network() -> io::Result<()> {
    // SAFETY: these take no argument and cannot fail.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    // SAFETY: passes flags and no memory.
    syscall_result::of(unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET) })?;
    // A group may be mapped only after this (user_namespaces(7)).
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

/// Moves the calling process into another new network namespace of its user namespace.
///
/// # Errors
/// The error of unshare(2).
pub fn leave_for_another_network() -> io::Result<()> {
    // SAFETY: passes a flag and no memory.
    syscall_result::of(unsafe { libc::unshare(libc::CLONE_NEWNET) }).map(drop)
}

/// Opens the network namespace of the caller. Processes that may access this process can enter it by the descriptor.
///
/// # Errors
/// Without `/proc`.
pub fn own_network() -> io::Result<File> {
    File::open("/proc/self/ns/net")
}

/// Changes a setting of the caller's network namespace (`/proc/sys/net` shows that of the reader).
///
/// # Errors
/// Where `/proc/sys` is read-only, or the kernel has no such setting.
pub fn set_network_option(name: &str, value: &str) -> io::Result<()> {
    fs::write(format!("/proc/sys/net/{name}"), value)
}

impl HeldNetwork {
    /// The network namespace that a process of the same user holds as a descriptor, and that process's user namespace.
    ///
    /// # Errors
    /// If the process does not exist or belongs to another user.
    pub fn held_by(process: u32, descriptor: i32) -> io::Result<HeldNetwork> {
        let user = File::open(format!("/proc/{process}/ns/user"))?;
        Ok(HeldNetwork { user, network: File::open(format!("/proc/{process}/fd/{descriptor}"))? })
    }
}

/// Makes the child that `command` will start run in a network namespace, as the same user without privileges.
pub fn run_in(command: &mut Command, network: &Arc<HeldNetwork>) {
    let network = Arc::clone(network);
    // SAFETY: between fork and exec only async-signal-safe calls are allowed. The closure makes two bare system calls on
    // descriptors that it keeps open and, on failure, builds an io::Error from a number: no allocation and no lock.
    unsafe {
        command.pre_exec(move || {
            syscall_result::of(libc::setns(network.user.as_raw_fd(), libc::CLONE_NEWUSER))?;
            syscall_result::of(libc::setns(network.network.as_raw_fd(), libc::CLONE_NEWNET)).map(drop)
        });
    }
}
