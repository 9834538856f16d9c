//! A snapshot of the facts about a machine that may explain a result.
//!
//! Stored with each session, so that results can be compared: a number without its kernel, its CPU's mitigations and
//! its sysctls cannot be reproduced.
//!
//! Every field is optional: a container hides some files, an older kernel lacks others, and an unknown fact is never
//! replaced by a guess. Never evaluates or changes anything, and never records identifying facts of a machine or its
//! owner (host name, addresses, command line).

mod cgroup;
mod cpu;
mod network;

pub use cgroup::CgroupCpu;
pub use cpu::{Cache, Cpu};
pub use network::{NetworkCard, NetworkSettings};

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::affinity;

/// The snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineEnvironment {
    /// Release of the kernel, as `uname -r` prints it.
    pub kernel_release: Option<String>,
    /// Name and version of the distribution (`PRETTY_NAME`, os-release(5)).
    pub os_pretty_name: Option<String>,
    /// Random id of this boot: two sessions with the same one ran on the same machine without a
    /// restart in between.
    pub boot_id: Option<String>,
    /// Memory that the kernel manages, bytes.
    pub memory_total_bytes: Option<u64>,
    /// Use of huge pages for ordinary memory: `always`, `madvise` or `never`.
    pub transparent_huge_pages: Option<String>,
    /// Permission to use io_uring: 0 all users, 1 a group, 2 none. Linux 6.6.
    pub io_uring_disabled: Option<u32>,
    /// Whether the CPU reports a hypervisor. Known on x86 only.
    pub hypervisor: Option<bool>,
    /// Product name of the machine; virtual machines have the name of their hypervisor.
    pub product_name: Option<String>,
    /// The processor.
    pub cpu: Cpu,
    /// The CPU limit of this process's control group.
    pub cgroup_cpu: Option<CgroupCpu>,
    /// Settings of the network stack.
    pub network: NetworkSettings,
}

impl MachineEnvironment {
    /// Reads this machine. Read it before pinning: the allowed CPUs are those of the caller.
    pub fn read() -> Self {
        let mut read = Self::read_from(Path::new("/"), affinity::allowed_cpus().ok());
        read.network.card = NetworkCard::read();
        read
    }

    /// Reads a machine from copies of `proc`, `sys` and `etc` below `root`, as in a test's fixture.
    pub fn read_from(root: &Path, cpus_allowed: Option<Vec<usize>>) -> Self {
        let root = RootFolder::new(root);
        Self {
            kernel_release: root.line("proc/sys/kernel/osrelease"),
            os_pretty_name: pretty_name(&root),
            boot_id: root.line("proc/sys/kernel/random/boot_id"),
            memory_total_bytes: root.text("proc/meminfo").and_then(|text| memory(&text)),
            transparent_huge_pages: root
                .line("sys/kernel/mm/transparent_hugepage/enabled")
                .and_then(|line| chosen(&line)),
            io_uring_disabled: root.number("proc/sys/kernel/io_uring_disabled"),
            hypervisor: root.text("proc/cpuinfo").and_then(|text| hypervisor(&text)),
            product_name: root.line("sys/class/dmi/id/product_name"),
            cpu: Cpu::read(&root, cpus_allowed),
            cgroup_cpu: CgroupCpu::read_of(&root, "self"),
            network: NetworkSettings::read(&root),
        }
    }
}

fn pretty_name(root: &RootFolder<'_>) -> Option<String> {
    // The second path is the fallback that os-release(5) defines.
    let text = root.text("etc/os-release").or_else(|| root.text("usr/lib/os-release"))?;
    let value = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim().trim_matches(['"', '\'']).to_owned())
}

fn memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    // The unit is always kB, and means 1024 bytes (proc_meminfo(5)).
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// sysfs marks the active option among all: `always [madvise] never`.
fn chosen(line: &str) -> Option<String> {
    let (_, rest) = line.split_once('[')?;
    let (choice, _) = rest.split_once(']')?;
    Some(choice.to_owned())
}

/// Only x86 lists CPU features under `flags`, among them `hypervisor` in a virtual machine.
fn hypervisor(cpuinfo: &str) -> Option<bool> {
    let flags = cpu::cpuinfo_field(cpuinfo, "flags")?;
    Some(flags.split_ascii_whitespace().any(|flag| flag == "hypervisor"))
}

// Reads small files below a root directory; missing or invalid ones are `None`.

/// The directory that replaces `/`.
#[derive(Clone, Copy)]
pub(super) struct RootFolder<'a>(&'a Path);

impl<'a> RootFolder<'a> {
    pub(super) fn new(path: &'a Path) -> Self {
        Self(path)
    }

    /// A path below the root. A leading slash, as in mount tables, is dropped.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    pub(super) fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.path(path)).ok()
    }

    /// A file's text without its final newline; `None` for an empty file.
    pub(super) fn line(&self, path: &str) -> Option<String> {
        let text = self.text(path)?;
        let line = text.trim();
        (!line.is_empty()).then(|| line.to_owned())
    }

    pub(super) fn number<T: FromStr>(&self, path: &str) -> Option<T> {
        self.line(path)?.parse().ok()
    }

    /// Names in a directory, sorted; none if it cannot be read.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        names
    }
}

/// How long tasks have waited for a CPU since boot, microseconds: the difference of two readings shows whether other processes
/// interfered (Documentation/accounting/psi.rst). `None` where the kernel lacks or hides the file (`psi=0`).
pub fn cpu_stalled_us() -> Option<u64> {
    stalled_us(&fs::read_to_string("/proc/pressure/cpu").ok()?)
}

fn stalled_us(pressure: &str) -> Option<u64> {
    let some = pressure.lines().find_map(|line| line.strip_prefix("some "))?;
    some.split_ascii_whitespace().find_map(|field| field.strip_prefix("total=")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Scratch;

    #[test]
    fn files_become_facts() {
        let scratch = Scratch::new();
        scratch
            .file("proc/sys/kernel/osrelease", "6.18.1\n")
            .file("usr/lib/os-release", "ID=x\nPRETTY_NAME=\"Example Linux 1\"\n")
            .file("proc/sys/kernel/random/boot_id", "0f-1e\n")
            .file("proc/meminfo", "MemTotal:        2048 kB\nMemFree: 1 kB\n")
            .file("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
            .file("proc/sys/kernel/io_uring_disabled", "2\n")
            .file("proc/cpuinfo", "flags\t\t: fpu hypervisor lm\n")
            .file("sys/class/dmi/id/product_name", "KVM\n");
        let read = MachineEnvironment::read_from(scratch.path(), Some(vec![1]));
        assert_eq!(read.kernel_release.as_deref(), Some("6.18.1"));
        assert_eq!(read.os_pretty_name.as_deref(), Some("Example Linux 1"));
        assert_eq!(read.boot_id.as_deref(), Some("0f-1e"));
        assert_eq!(read.memory_total_bytes, Some(2 << 20));
        assert_eq!(read.transparent_huge_pages.as_deref(), Some("madvise"));
        assert_eq!(read.io_uring_disabled, Some(2));
        assert_eq!(read.hypervisor, Some(true));
        assert_eq!(read.product_name.as_deref(), Some("KVM"));
        assert_eq!(read.cpu.allowed, Some(vec![1]));
    }

    #[test]
    fn missing_files_are_not_an_error() {
        let scratch = Scratch::new();
        let read = MachineEnvironment::read_from(scratch.path(), None);
        assert_eq!(read, MachineEnvironment::default());
    }

    #[test]
    fn the_hosts_name_is_left_out() {
        let scratch = Scratch::new();
        scratch
            .file("proc/sys/kernel/hostname", "my-host\n")
            .file("etc/hostname", "my-host\n")
            .file("proc/cmdline", "root=/dev/my-host\n");
        let read = MachineEnvironment::read_from(scratch.path(), None);
        assert_eq!(read, MachineEnvironment::default());
    }

    #[test]
    fn this_machine_is_readable() {
        let read = MachineEnvironment::read();
        assert!(read.kernel_release.is_some());
        assert!(read.cpu.allowed.is_some());
    }
}

#[cfg(test)]
mod pressure_tests {
    use super::*;

    #[test]
    fn the_total_of_some_tasks_counts() {
        let some = "some avg10=0.50 avg60=0.19 avg300=0.17 total=3303435\n";
        let full = "full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(stalled_us(&format!("{some}{full}")), Some(3_303_435));
        // Before Linux 5.13 the file has one line.
        assert_eq!((stalled_us(some), stalled_us(full), stalled_us("nonsense")), (Some(3_303_435), None, None));
    }
}
