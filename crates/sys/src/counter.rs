//! Counters by name: the kernel's counters of a network namespace (`/proc/net/snmp`, `/proc/net/netstat`,
//! `/proc/net/snmp6`), and perf events of a thread and of the programs it starts (perf_event_open(2)).
//!
//! The names are those of the usual tools: nstat(8), with a dot between protocol and name (`TcpExt.TCPBacklogDrop`),
//! and perf-list(1) (`page-faults`, `instructions:u`).
//!
//! Never samples: events are only counted, so the measured program is not interrupted.

use std::fs::File;
use std::io::{self, Read};

use thiserror::Error;

use crate::errno;
use crate::network::NetworkTables;
use crate::snmp::KernelCounts;

/// Why a counter cannot be read.
#[derive(Debug, Error)]
pub enum CounterError {
    /// The name is neither a kernel counter nor a known event.
    #[error(
        "`{name}` is counted nowhere: use a count of the kernel as nstat names it, with a point (TcpExt.TCPBacklogDrop, \
         Tcp.RetransSegs, Udp.RcvbufErrors, Udp6.RcvbufErrors), or an event of the program ({known})",
        known = names()
    )]
    Unknown {
        /// The requested name.
        name: String,
    },
    /// The machine does not have the event.
    #[error(
        "this machine does not count {0}: virtual machines often hide what their CPUs count; page-faults, \
         context-switches and cpu-migrations are counted everywhere"
    )]
    Absent(String),
    /// The user has no permission to count.
    #[error(
        "{0} may not be counted by this user: run as root, set kernel.perf_event_paranoid to 1 (sysctl -w), or count what \
         happens in user mode alone ({0}:u)"
    )]
    Denied(String),
    /// Any other error.
    #[error("reading the counter {name}: {source}")]
    Io {
        /// The counter.
        name: String,
        /// The kernel's error.
        source: io::Error,
    },
}

/// perf(1)'s names of events, with type and number of `linux/perf_event.h`.
const EVENTS: &[(&str, u32, u64)] = &[
    ("cycles", HARDWARE, 0),
    ("instructions", HARDWARE, 1),
    ("cache-references", HARDWARE, 2),
    ("cache-misses", HARDWARE, 3),
    ("branches", HARDWARE, 4),
    ("branch-misses", HARDWARE, 5),
    ("page-faults", SOFTWARE, 2),
    ("context-switches", SOFTWARE, 3),
    ("cpu-migrations", SOFTWARE, 4),
    ("minor-faults", SOFTWARE, 5),
    ("major-faults", SOFTWARE, 6),
];

const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;

fn names() -> String {
    EVENTS.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(", ")
}

/// The first version of `struct perf_event_attr`, 64 bytes (`PERF_ATTR_SIZE_VER0`). Every kernel accepts it, and newer
/// fields are not needed.
#[repr(C)]
#[derive(Default)]
struct PerfEventAttr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

/// `PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING`: with more events than registers, a CPU
/// multiplexes them.
const TIMES: u64 = 1 | 2;
// Bits of `flags`, in the order of the header.
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;

/// An open counter.
#[derive(Debug)]
pub struct Counter {
    name: String,
    source: CounterSource,
}

#[derive(Debug)]
enum CounterSource {
    /// A counter of a network namespace.
    Kernel { tables: NetworkTables, protocol: String, count: String },
    /// A perf event.
    Event(File),
}

impl Counter {
    /// Opens a counter. An event counts what the calling thread does from now on, and the programs that it starts with
    /// their descendants. For a thread that waits for them, its own part is little more than fork(2).
    ///
    /// Starting at execve(2) (`enable_on_exec`) loses events: when a thread and its child alternate on one CPU, they
    /// exchange their counters, and programs started later were not counted in 13 of 60 runs (Linux 6.18).
    ///
    /// A kernel counter covers all processes in the network namespace of the tables.
    ///
    /// # Errors
    ///
    /// An unknown name, an event that the machine does not have, or missing permission.
    pub fn open(tables: NetworkTables, name: &str) -> Result<Counter, CounterError> {
        let source = match name.split_once('.') {
            Some((protocol, count)) => CounterSource::Kernel { tables, protocol: protocol.into(), count: count.into() },
            None => CounterSource::Event(event(name)?),
        };
        let counter = Counter { name: name.into(), source };
        counter.read()?;
        Ok(counter)
    }

    /// The present count.
    ///
    /// # Errors
    ///
    /// A hidden file, or a name that it does not contain.
    pub fn read(&self) -> Result<u64, CounterError> {
        let failed = |source| CounterError::Io { name: self.name.clone(), source };
        match &self.source {
            CounterSource::Kernel { tables, protocol, count } => {
                let found = KernelCounts::read(*tables).map_err(failed)?.count(protocol, count);
                found.ok_or_else(|| CounterError::Unknown { name: self.name.clone() })
            }
            CounterSource::Event(file) => of_event(file).map_err(failed),
        }
    }
}

fn event(name: &str) -> Result<File, CounterError> {
    let (plain, user_only) = name.strip_suffix(":u").map_or((name, false), |plain| (plain, true));
    let Some((_, kind, config)) = EVENTS.iter().find(|(known, ..)| *known == plain) else {
        return Err(CounterError::Unknown { name: name.into() });
    };
    let hidden = if user_only { EXCLUDE_KERNEL } else { 0 };
    let attributes = PerfEventAttr {
        kind: *kind,
        size: size_of::<PerfEventAttr>() as u32,
        config: *config,
        read_format: TIMES,
        flags: INHERIT | EXCLUDE_HYPERVISOR | hidden,
        ..PerfEventAttr::default()
    };
    let (this_thread, any_cpu, no_group): (libc::pid_t, libc::c_int, libc::c_int) = (0, -1, -1);
    let (call, attributes) = (libc::SYS_perf_event_open, &raw const attributes);
    // SAFETY: the kernel reads `size` bytes of the attributes, which live through the call; the rest are integers. It makes a
    // descriptor.
    let made = unsafe {
        let made = libc::syscall(call, attributes, this_thread, any_cpu, no_group, CLOSE_ON_EXEC);
        errno::descriptor(made as libc::c_int)
    };
    made.map(File::from).map_err(|source| match source.raw_os_error() {
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => CounterError::Absent(plain.into()),
        Some(libc::EACCES | libc::EPERM) => CounterError::Denied(plain.into()),
        _ => CounterError::Io { name: name.into(), source },
    })
}

/// The count, including living and ended children. If the event had a register for only a part of the time, the count
/// is scaled up.
fn of_event(mut file: &File) -> io::Result<u64> {
    let mut words = [0u8; 24];
    file.read_exact(&mut words)?;
    let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| words[at * 8 + byte]));
    Ok(scaled(word(0), word(1), word(2)))
}

fn scaled(count: u64, enabled_ns: u64, running_ns: u64) -> u64 {
    if running_ns == 0 || running_ns >= enabled_ns {
        return count;
    }
    (u128::from(count) * u128::from(enabled_ns) / u128::from(running_ns)) as u64
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::process::Command;

    use super::*;

    #[test]
    fn kernel_counters_are_found_by_name() {
        let counter = Counter::open(NetworkTables::own(), "Udp.OutDatagrams").unwrap();
        let before = counter.read().unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..5 {
            socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        }
        assert!(counter.read().unwrap() - before >= 5);
        Counter::open(NetworkTables::own(), "TcpExt.TCPBacklogDrop").unwrap();
    }

    #[test]
    fn an_unknown_name_lists_valid_names() {
        for name in ["cylces", "TcpExt.TCPBacklogDorp", "", ".", "Udp."] {
            let message = Counter::open(NetworkTables::own(), name).unwrap_err().to_string();
            assert!(message.contains("is counted nowhere") && message.contains("page-faults"), "{message}");
        }
    }

    #[test]
    fn an_event_counts_all_descendants() {
        let counter = match Counter::open(NetworkTables::own(), "page-faults") {
            // Without permission the error names a fix.
            Err(CounterError::Denied(name)) => return assert_eq!(name, "page-faults"),
            opened => opened.unwrap(),
        };
        let run = |script: &str| {
            let before = counter.read().unwrap();
            assert!(Command::new("sh").args(["-c", script]).status().unwrap().success());
            counter.read().unwrap() - before
        };
        let (one, four) = (run(":"), run("sh -c :; sh -c :; (sh -c :) & wait"));
        assert!(one > 0 && four > one, "{one} {four}");
    }

    #[test]
    fn a_multiplexed_event_is_scaled() {
        assert_eq!((scaled(10, 100, 100), scaled(10, 100, 50), scaled(0, 0, 0)), (10, 20, 0));
    }
}
