//! Interfaces to Linux: clocks, accounting, CPU placement, sockets, processes and machine facts.
//!
//! The only crate of the workspace that may contain `unsafe`; all others forbid it. So a review of memory safety needs
//! only this crate. Each module wraps one part of the kernel, returns the kernel's results, and gives the source of
//! every fact that it relies on.
//!
//! Never decides what to measure, and never prints. A module that retries a call, or rates what it found (`copy_probe`),
//! documents it.

// Tests make files of their own.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

#[cfg(not(target_os = "linux"))]
compile_error!(
    "bytegauge-sys measures through Linux interfaces (procfs, sysfs, TCP_INFO, splice): \
     build it for a *-linux-gnu or *-linux-musl target"
);

#[cfg(not(target_pointer_width = "64"))]
compile_error!("bytegauge counts bytes in 64-bit machine words: build it for a 64-bit target");

pub mod affinity;
pub mod buffer;
pub mod children;
pub mod clock;
pub mod copy_probe;
pub mod cpu_time;
pub mod datagram;
pub mod environment;
pub mod epoll;
pub mod errno;
pub mod file;
pub mod input;
pub mod interrupt;
pub mod io;
pub mod kernel;
pub mod kernel_tls;
pub mod listening;
pub mod network;
pub mod new_file;
pub mod option;
pub mod owner;
pub mod pipe;
pub mod proc_stat;
pub mod process;
pub mod process_descriptor;
pub mod process_tree;
pub mod program_file;
pub mod resource_limit;
pub mod seccomp;
pub mod shared_port;
pub mod snmp;
pub mod socket;
pub mod socket_memory;
pub mod supervisor;
pub mod tcp_info;
pub mod topology;
pub mod trace;
pub mod uring;
pub mod uring_nop;
pub mod zero_copy;

#[cfg(test)]
mod tests;
