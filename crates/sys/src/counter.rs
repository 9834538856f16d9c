//! Counters that are read by name before and after a run: the kernel's of a network namespace (`/proc/net/snmp`,
//! `/proc/net/netstat`, `/proc/net/snmp6`), and the perf events of a thread and the programs that it starts (perf_event_open(2)).
//!
//! Both are spelt as their usual tools spell them, nstat(8) with a point between protocol and name
//! (`TcpExt.TCPBacklogDrop`), perf-list(1) as it is (`page-faults`, `instructions:u`).
//!
//! Never samples: an event is only counted, so that nothing interrupts who is measured.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use thiserror::Error;

use crate::outcome;
use crate::snmp::two_lines;

/// Why a counter cannot be read.
#[derive(Debug, Error)]
pub enum CounterError {
    /// Neither a count of this kernel nor an event that is known.
    #[error(
        "`{name}` is counted nowhere: use a count of the kernel as nstat names it, with a point (TcpExt.TCPBacklogDrop, \
         Tcp.RetransSegs, Udp.RcvbufErrors, Udp6.RcvbufErrors), or an event of the program ({known})",
        known = names()
    )]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// The machine has no such event.
    #[error(
        "this machine does not count {0}: virtual machines often hide what their CPUs count; page-faults, \
         context-switches and cpu-migrations are counted everywhere"
    )]
    Absent(String),
    /// Who runs this may not count.
    #[error(
        "{0} may not be counted by this user: run as root, set kernel.perf_event_paranoid to 1 (sysctl -w), or count what \
         happens in user mode alone ({0}:u)"
    )]
    Denied(String),
    /// Anything else.
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

/// `struct perf_event_attr` as it was first, 64 bytes (`PERF_ATTR_SIZE_VER0`): every kernel since takes it, and nothing
/// newer is asked for.
#[repr(C)]
#[derive(Default)]
struct Attributes {
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

/// `PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING`: a CPU with more events than registers takes turns.
const TIMES: u64 = 1 | 2;
// Bits of `flags`, in the order of the header.
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;

/// A counter that is open.
#[derive(Debug)]
pub struct Counter {
    name: String,
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// Of the network namespace.
    Kernel { protocol: String, count: String },
    /// Of what this thread starts.
    Event(File),
}

impl Counter {
    /// Opens a counter. An event counts what the calling thread does from now on, and the programs that it starts with all
    /// that they start: of a thread that waits for them meanwhile, hardly more than its fork(2). (To begin with their
    /// execve(2), `enable_on_exec`, loses them: a thread and its child of which one runs after the other on one CPU exchange
    /// their counters, and what the thread started after that was not counted in 13 of 60 runs, Linux 6.18.) A count of
    /// the kernel is of everybody in this network namespace.
    ///
    /// # Errors
    ///
    /// An unknown name, an event that the machine has not or that the user may not count.
    pub fn open(name: &str) -> Result<Counter, CounterError> {
        let source = match name.split_once('.') {
            Some((protocol, count)) => Source::Kernel { protocol: protocol.into(), count: count.into() },
            None => Source::Event(event(name)?),
        };
        let counter = Counter { name: name.into(), source };
        counter.read()?;
        Ok(counter)
    }

    /// What has been counted so far.
    ///
    /// # Errors
    ///
    /// A file that is hidden, or does not know the name.
    pub fn read(&self) -> Result<u64, CounterError> {
        let failed = |source| CounterError::Io { name: self.name.clone(), source };
        match &self.source {
            Source::Kernel { protocol, count } => {
                let found = of_kernel(protocol, count).map_err(failed)?;
                found.ok_or_else(|| CounterError::Unknown { name: self.name.clone() })
            }
            Source::Event(file) => of_event(file).map_err(failed),
        }
    }
}

fn event(name: &str) -> Result<File, CounterError> {
    let (plain, user_only) = name.strip_suffix(":u").map_or((name, false), |plain| (plain, true));
    let Some((_, kind, config)) = EVENTS.iter().find(|(known, ..)| *known == plain) else {
        return Err(CounterError::Unknown { name: name.into() });
    };
    let hidden = if user_only { EXCLUDE_KERNEL } else { 0 };
    let attributes = Attributes {
        kind: *kind,
        size: size_of::<Attributes>() as u32,
        config: *config,
        read_format: TIMES,
        flags: INHERIT | EXCLUDE_HYPERVISOR | hidden,
        ..Attributes::default()
    };
    let (this_thread, any_cpu, no_group): (libc::pid_t, libc::c_int, libc::c_int) = (0, -1, -1);
    // SAFETY: the kernel reads `size` bytes of the attributes, which live through the call; the rest are integers.
    let returned = unsafe {
        libc::syscall(libc::SYS_perf_event_open, &raw const attributes, this_thread, any_cpu, no_group, CLOSE_ON_EXEC)
    };
    let fd = outcome::of(returned as libc::c_int).map_err(|source| match source.raw_os_error() {
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => CounterError::Absent(plain.into()),
        Some(libc::EACCES | libc::EPERM) => CounterError::Denied(plain.into()),
        _ => CounterError::Io { name: name.into(), source },
    })?;
    // SAFETY: the kernel just made the descriptor for us alone.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    debug_assert!(fd.as_raw_fd() >= 0);
    Ok(File::from(fd))
}

/// The count with those of children, living and gone; where it had its register for a part of the time only, so much
/// more.
fn of_event(mut file: &File) -> io::Result<u64> {
    let mut words = [0u8; 24];
    file.read_exact(&mut words)?;
    let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| words[at * 8 + byte]));
    Ok(whole(word(0), word(1), word(2)))
}

fn whole(count: u64, enabled_ns: u64, running_ns: u64) -> u64 {
    if running_ns == 0 || running_ns >= enabled_ns {
        return count;
    }
    (u128::from(count) * u128::from(enabled_ns) / u128::from(running_ns)) as u64
}

fn of_kernel(protocol: &str, count: &str) -> io::Result<Option<u64>> {
    let lines = format!("{protocol}: ");
    for file in ["/proc/net/snmp", "/proc/net/netstat"] {
        if let Some(found) = two_lines(&fs::read_to_string(file)?, &lines, count) {
            return Ok(Some(found));
        }
    }
    // Missing on a machine without IPv6. One line a count.
    let v6 = fs::read_to_string("/proc/net/snmp6").unwrap_or_default();
    let mut pairs = v6.lines().filter_map(|line| line.split_once(char::is_whitespace));
    let found = pairs.find(|(name, _)| name.strip_prefix(protocol) == Some(count));
    Ok(found.and_then(|(_, value)| value.trim().parse().ok()))
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::process::Command;

    use super::*;

    #[test]
    fn the_kernels_counts_are_known_by_protocol_and_name() {
        let counter = Counter::open("Udp.OutDatagrams").unwrap();
        let before = counter.read().unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..5 {
            socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        }
        assert!(counter.read().unwrap() - before >= 5);
        Counter::open("TcpExt.TCPBacklogDrop").unwrap();
    }

    #[test]
    fn an_unknown_name_names_those_that_there_are() {
        for name in ["cylces", "TcpExt.TCPBacklogDorp", "", ".", "Udp."] {
            let said = Counter::open(name).unwrap_err().to_string();
            assert!(said.contains("is counted nowhere") && said.contains("page-faults"), "{said}");
        }
    }

    #[test]
    fn an_event_counts_what_is_started_and_all_that_it_starts() {
        let counter = match Counter::open("page-faults") {
            // Where counting is forbidden, it is said what to do.
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
    fn an_event_that_took_turns_is_made_whole() {
        assert_eq!((whole(10, 100, 100), whole(10, 100, 50), whole(0, 0, 0)), (10, 20, 0));
    }
}
