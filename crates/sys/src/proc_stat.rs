//! Counters of the whole machine, read before and after a trial.
//!
//! A trial uses more CPU time than its threads. The kernel receives packets in soft interrupts, which are billed to the
//! interrupted thread, and in kernel threads. The difference between the machine's busy time and the threads' time is
//! unattributed; it also contains work of other programs. Time stolen by the hypervisor is reported separately.
//!
//! Times are in ticks (proc_stat(5)), 10 ms each on all common machines, and most kernels obtain them by sampling: over
//! one second expect an error of a few percent.
//!
//! A sample takes tens of microseconds on two CPUs, and more with many CPUs or interrupt lines, since the kernel writes a
//! line for each. Never use it inside a measured loop.

use std::{fs, io};

use rustix::param::clock_ticks_per_second;

use crate::clock;
use crate::cpu_time::counts;

/// Time of one CPU by use, in ticks of [`tick_ns`], since boot or between two samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTicks {
    /// The CPU's number.
    pub cpu: usize,
    /// Programs, including virtual machines.
    pub user: u64,
    /// Programs of lowered priority.
    pub nice: u64,
    /// The kernel on behalf of programs, and its own threads.
    pub system: u64,
    /// Idle.
    pub idle: u64,
    /// Idle while a task waits for a disk; unreliable (proc_stat(5)).
    pub iowait: u64,
    /// Hard interrupts.
    pub irq: u64,
    /// Soft interrupts, if the kernel accounts them separately (`CONFIG_IRQ_TIME_ACCOUNTING`).
    pub softirq: u64,
    /// Ready to run while the hypervisor ran another virtual machine.
    pub steal: u64,
}

impl CpuTicks {
    /// Ticks in which this machine worked: neither idle nor stolen.
    pub fn busy(&self) -> u64 {
        self.user + self.nice + self.system + self.irq + self.softirq
    }

    /// Ticks of every kind.
    pub fn total(&self) -> u64 {
        self.busy() + self.idle + self.iowait + self.steal
    }
}

// `idle` and `iowait` may run backwards (proc_stat(5)).
counts!(CpuTicks { user, nice, system, idle, iowait, irq, softirq, steal } keeps { cpu });

/// The machine's counters at one moment, or what was counted between two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineSample {
    /// The time by [`clock::monotonic_ns`], or between the two.
    pub at_ns: u64,
    /// One entry for each CPU that is online.
    pub per_cpu: Vec<CpuTicks>,
    /// Soft interrupts that received packets; the index is the CPU's number.
    pub net_rx_softirqs: Vec<u64>,
}

impl MachineSample {
    /// Reads `/proc/stat` and `/proc/softirqs` now.
    ///
    /// # Errors
    ///
    /// The files' errors, which are missing where procfs is hidden, or `InvalidData` if a line is not as documented.
    pub fn read() -> io::Result<MachineSample> {
        let mut sample = MachineSample { at_ns: clock::monotonic_ns(), ..MachineSample::default() };
        parse_stat(&fs::read_to_string("/proc/stat")?, &mut sample).ok_or_else(|| malformed("stat"))?;
        parse_softirqs(&fs::read_to_string("/proc/softirqs")?, &mut sample).ok_or_else(|| malformed("softirqs"))?;
        Ok(sample)
    }

    /// What was counted since an earlier sample, on the CPUs that were online at both moments; `at_ns` is the time between them.
    pub fn since(&self, earlier: &MachineSample) -> MachineSample {
        let before = |cpu: usize| earlier.per_cpu.iter().find(|ticks| ticks.cpu == cpu);
        let per_cpu = self.per_cpu.iter().filter_map(|after| Some(after.since(before(after.cpu)?)));
        MachineSample {
            at_ns: self.at_ns.saturating_sub(earlier.at_ns),
            per_cpu: per_cpu.collect(),
            net_rx_softirqs: counts_since(&self.net_rx_softirqs, &earlier.net_rx_softirqs),
        }
    }

    /// CPU time in which the machine worked, all CPUs together, ns.
    pub fn busy_ns(&self) -> u64 {
        self.sum_ns(CpuTicks::busy)
    }

    /// Time that the hypervisor took, all CPUs together, ns.
    pub fn steal_ns(&self) -> u64 {
        self.sum_ns(|ticks| ticks.steal)
    }

    /// Time in soft interrupts, all CPUs together, ns.
    pub fn softirq_ns(&self) -> u64 {
        self.sum_ns(|ticks| ticks.softirq)
    }

    fn sum_ns(&self, part: impl Fn(&CpuTicks) -> u64) -> u64 {
        self.per_cpu.iter().map(part).sum::<u64>() * tick_ns()
    }
}

/// Wraps at 32 bits: the kernel counts soft interrupts of one CPU in an `unsigned int`
/// (include/linux/kernel_stat.h).
fn counts_since(later: &[u64], earlier: &[u64]) -> Vec<u64> {
    let pairs = later.iter().zip(earlier);
    pairs.map(|(later, earlier)| u64::from((*later as u32).wrapping_sub(*earlier as u32))).collect()
}

fn malformed(name: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("/proc/{name} is not as proc(5) describes it: report this with its content"),
    )
}

/// The length of a tick of [`CpuTicks`], ns (`_SC_CLK_TCK`, sysconf(3)). Independent of the rate of the kernel's timer.
pub fn tick_ns() -> u64 {
    1_000_000_000 / clock_ticks_per_second()
}

// Parses the counters of procfs files. Never touches a file.

/// Adds the counters of `/proc/stat` (proc_stat(5)). `None` if the format is not as documented.
fn parse_stat(text: &str, sample: &mut MachineSample) -> Option<()> {
    for line in text.lines() {
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        // The line without a number is the sum of the others.
        if let Some(cpu) = name.strip_prefix("cpu").filter(|cpu| !cpu.is_empty()) {
            sample.per_cpu.push(parse_cpu(cpu.parse().ok()?, rest)?);
        }
    }
    Some(())
}

fn parse_cpu(cpu: usize, rest: &str) -> Option<CpuTicks> {
    let mut ticks = rest.split_ascii_whitespace().map(str::parse);
    let mut next = || ticks.next()?.ok();
    Some(CpuTicks {
        cpu,
        user: next()?,
        nice: next()?,
        system: next()?,
        idle: next()?,
        iowait: next()?,
        irq: next()?,
        softirq: next()?,
        steal: next()?,
    })
}

/// Adds the counters of `/proc/softirqs` (proc(5)). `None` if the format is not as documented.
fn parse_softirqs(text: &str, sample: &mut MachineSample) -> Option<()> {
    let mut lines = text.lines();
    // The header lists the possible CPUs; their numbers may have gaps.
    let header = lines.next()?.split_ascii_whitespace();
    let cpus: Vec<usize> = header.map(|name| name.strip_prefix("CPU")?.parse().ok()).collect::<Option<_>>()?;
    for line in lines {
        let (name, counts) = line.split_once(':')?;
        if name.trim() == "NET_RX" {
            sample.net_rx_softirqs = by_cpu(&cpus, counts)?;
        }
    }
    Some(())
}

fn by_cpu(cpus: &[usize], counts: &str) -> Option<Vec<u64>> {
    let mut by_cpu = vec![0; cpus.iter().max().map_or(0, |highest| highest + 1)];
    for (cpu, count) in cpus.iter().zip(counts.split_ascii_whitespace()) {
        by_cpu[*cpu] = count.parse().ok()?;
    }
    Some(by_cpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(cpu: usize) -> CpuTicks {
        CpuTicks { cpu, user: 1, nice: 2, system: 3, idle: 4, iowait: 5, irq: 6, softirq: 7, steal: 8 }
    }

    #[test]
    fn busy_is_neither_idle_nor_stolen() {
        assert_eq!(ticks(0).busy(), 1 + 2 + 3 + 6 + 7);
        assert_eq!(ticks(0).total(), 36);
    }

    #[test]
    fn a_difference_saturates_wraps_and_forgets_new_cpus() {
        let earlier = MachineSample {
            per_cpu: [0, 2].map(ticks).to_vec(),
            net_rx_softirqs: vec![685, 0, u64::from(u32::MAX)],
            ..MachineSample::default()
        };
        let mut later = earlier.clone();
        later.at_ns += 500;
        later.per_cpu[0].user += 9;
        later.per_cpu[0].iowait -= 1;
        later.per_cpu[0].steal += 2;
        later.per_cpu[1].cpu = 3;
        later.net_rx_softirqs[0] += 15;
        later.net_rx_softirqs[2] = 1;
        let delta = later.since(&earlier);
        let expected = CpuTicks { user: 9, steal: 2, ..CpuTicks::default() };
        assert_eq!(delta.per_cpu, [expected]);
        assert_eq!(delta.busy_ns(), 9 * tick_ns());
        assert_eq!(delta.steal_ns(), 2 * tick_ns());
        assert_eq!(delta.at_ns, 500);
        assert_eq!(delta.net_rx_softirqs, [15, 0, 2]);
    }

    #[test]
    fn this_machine_can_be_sampled_again_and_again() {
        let earlier = MachineSample::read().unwrap();
        let later = MachineSample::read().unwrap();
        assert!(!earlier.per_cpu.is_empty());
        assert_eq!(earlier.per_cpu.len(), later.per_cpu.len());
        assert!(!later.net_rx_softirqs.is_empty());
    }

    #[test]
    fn a_tick_divides_a_second() {
        assert_eq!(1_000_000_000 % tick_ns(), 0);
    }
}

#[cfg(test)]
mod counters_tests {
    use super::*;

    const STAT: &str = "\
cpu  11 22 33 44 55 66 77 88 0 0
cpu0 1 2 3 4 5 6 7 8 0 0
cpu2 10 20 30 40 50 60 70 80 0 0
intr 5 0 0
ctxt 233112
btime 1700000000
processes 7000
procs_running 3
procs_blocked 0
softirq 9 1 2
";

    const SOFTIRQS: &str = "                    CPU0       CPU2
          HI:          0          0
      NET_TX:          4          5
      NET_RX:        685 4294967295
";

    fn parsed() -> MachineSample {
        let mut sample = MachineSample::default();
        parse_stat(STAT, &mut sample).unwrap();
        parse_softirqs(SOFTIRQS, &mut sample).unwrap();
        sample
    }

    #[test]
    fn files_become_counters() {
        let sample = parsed();
        assert_eq!(sample.per_cpu.len(), 2);
        assert_eq!(sample.per_cpu[1].cpu, 2);
        assert_eq!(sample.per_cpu[1].user, 10);
        assert_eq!(sample.per_cpu[1].steal, 80);
        assert_eq!(sample.net_rx_softirqs, [685, 0, 4_294_967_295]);
    }

    #[test]
    fn garbled_files_are_refused() {
        let mut sample = MachineSample::default();
        assert_eq!(parse_stat("cpu0 1 2 x", &mut sample), None);
        assert_eq!(parse_stat("cpu0 1 2 3", &mut sample), None);
        assert_eq!(parse_softirqs("", &mut sample), None);
        assert_eq!(parse_softirqs("CPU0\nNET_RX: x", &mut sample), None);
    }
}
