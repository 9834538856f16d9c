//! Counters of the whole machine, read before and after a trial.
//!
//! A trial uses more CPU time than its threads. The kernel receives packets in soft interrupts, which are billed to the
//! interrupted thread, and in kernel threads. The difference between the machine's busy time and the threads' time is
//! unattributed; it also contains work of other programs. Time stolen by the hypervisor is reported separately.
//!
//! Times are in ticks (proc_stat(5)), 10 ms each on all common machines, and most kernels obtain them by sampling: over
//! one second expect an error of a few percent.
//!
//! The files stay open and the text buffer is reused, so that a sample allocates only its result. It takes about 10 µs
//! on two CPUs, and more with many CPUs or interrupt lines, since the kernel writes a line for each. Never use it
//! inside a measured loop.

mod counters;
mod kernel_config;
pub(crate) mod kernel_release;
mod open_text;

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

pub use kernel_config::irq_time_accounting;

use crate::clock;
use open_text::OpenText;

/// Time of one CPU by use, in ticks of [`tick_ns`], since boot or between two samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Soft interrupts, if accounted separately: see [`irq_time_accounting`].
    pub softirq: u64,
    /// Ready to run while the hypervisor ran another virtual machine.
    pub steal: u64,
}

impl CpuTicks {
    /// Ticks in which this machine worked: neither idle nor stolen.
    #[must_use]
    pub fn busy(&self) -> u64 {
        self.user + self.nice + self.system + self.irq + self.softirq
    }

    /// Ticks of every kind.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.busy() + self.idle + self.iowait + self.steal
    }

    /// Saturates at zero: `idle` and `iowait` may run backwards (proc_stat(5)).
    fn since(&self, earlier: &Self) -> Self {
        Self {
            cpu: self.cpu,
            user: self.user.saturating_sub(earlier.user),
            nice: self.nice.saturating_sub(earlier.nice),
            system: self.system.saturating_sub(earlier.system),
            idle: self.idle.saturating_sub(earlier.idle),
            iowait: self.iowait.saturating_sub(earlier.iowait),
            irq: self.irq.saturating_sub(earlier.irq),
            softirq: self.softirq.saturating_sub(earlier.softirq),
            steal: self.steal.saturating_sub(earlier.steal),
        }
    }
}

/// The machine's counters at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineSample {
    /// The time, by [`clock::monotonic_ns`].
    pub at_ns: u64,
    /// One entry for each CPU that is online.
    pub per_cpu: Vec<CpuTicks>,
    /// Soft interrupts that received packets; the index is the CPU's number.
    pub net_rx_softirqs: Vec<u64>,
    /// Soft interrupts that finished sending; the index is the CPU's number.
    pub net_tx_softirqs: Vec<u64>,
    /// Context switches of the whole machine since boot.
    pub context_switches: u64,
    /// Tasks that ran or were ready at this moment, this one included.
    pub procs_running: u64,
}

/// The differences between two samples.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineDelta {
    /// Time between the samples, ns.
    pub elapsed_ns: u64,
    /// Length of a tick, ns.
    pub tick_ns: u64,
    /// One entry for each CPU that was online at both moments.
    pub per_cpu: Vec<CpuTicks>,
    /// Soft interrupts that received packets; the index is the CPU's number.
    pub net_rx_softirqs: Vec<u64>,
    /// Soft interrupts that finished sending; the index is the CPU's number.
    pub net_tx_softirqs: Vec<u64>,
    /// Context switches of the whole machine.
    pub context_switches: u64,
    /// Tasks that ran or were ready at the later moment.
    pub procs_running: u64,
}

impl MachineDelta {
    /// CPU time in which the machine worked, all CPUs together, ns.
    #[must_use]
    pub fn busy_ns(&self) -> u64 {
        self.sum_ns(CpuTicks::busy)
    }

    /// Time that the hypervisor took, all CPUs together, ns.
    #[must_use]
    pub fn steal_ns(&self) -> u64 {
        self.sum_ns(|ticks| ticks.steal)
    }

    fn sum_ns(&self, part: impl Fn(&CpuTicks) -> u64) -> u64 {
        self.per_cpu.iter().map(part).sum::<u64>() * self.tick_ns
    }
}

/// The differences from `earlier` to `later`.
#[must_use]
pub fn delta(earlier: &MachineSample, later: &MachineSample) -> MachineDelta {
    let before = |cpu: usize| earlier.per_cpu.iter().find(|ticks| ticks.cpu == cpu);
    let per_cpu = later.per_cpu.iter().filter_map(|after| Some(after.since(before(after.cpu)?)));
    MachineDelta {
        elapsed_ns: later.at_ns.saturating_sub(earlier.at_ns),
        tick_ns: tick_ns(),
        per_cpu: per_cpu.collect(),
        net_rx_softirqs: counts_since(&later.net_rx_softirqs, &earlier.net_rx_softirqs),
        net_tx_softirqs: counts_since(&later.net_tx_softirqs, &earlier.net_tx_softirqs),
        context_switches: later.context_switches.saturating_sub(earlier.context_switches),
        procs_running: later.procs_running,
    }
}

/// Wraps at 32 bits: the kernel counts soft interrupts of one CPU in an `unsigned int`
/// (include/linux/kernel_stat.h).
fn counts_since(later: &[u64], earlier: &[u64]) -> Vec<u64> {
    let pairs = later.iter().zip(earlier);
    pairs.map(|(later, earlier)| u64::from((*later as u32).wrapping_sub(*earlier as u32))).collect()
}

/// Reads samples from open files.
#[derive(Debug)]
pub struct MachineProbe {
    stat: OpenText,
    softirqs: OpenText,
}

impl MachineProbe {
    /// Opens `/proc/stat` and `/proc/softirqs`.
    ///
    /// # Errors
    ///
    /// The files' errors; they are missing where procfs is hidden.
    pub fn open() -> io::Result<Self> {
        Self::open_from(Path::new("/proc"))
    }

    /// Like [`MachineProbe::open`], from another directory.
    ///
    /// # Errors
    ///
    /// The files' errors.
    pub fn open_from(proc: &Path) -> io::Result<Self> {
        Ok(Self { stat: OpenText::open(&proc.join("stat"))?, softirqs: OpenText::open(&proc.join("softirqs"))? })
    }

    /// Reads all counters now.
    ///
    /// # Errors
    ///
    /// The files' errors, or `InvalidData` if a line is not as documented.
    pub fn sample(&mut self) -> io::Result<MachineSample> {
        let mut sample = MachineSample { at_ns: clock::monotonic_ns(), ..MachineSample::default() };
        counters::parse_stat(self.stat.read()?, &mut sample).ok_or_else(|| malformed("stat"))?;
        counters::parse_softirqs(self.softirqs.read()?, &mut sample).ok_or_else(|| malformed("softirqs"))?;
        Ok(sample)
    }
}

fn malformed(name: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("/proc/{name} is not as proc(5) describes it: report this with its content"),
    )
}

/// The length of a tick of [`CpuTicks`], ns (`_SC_CLK_TCK`, sysconf(3)). Independent of the rate of the kernel's timer.
#[must_use]
pub fn tick_ns() -> u64 {
    // SAFETY: takes an int and touches no memory.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    1_000_000_000 / u64::try_from(per_second).expect("ticks have a rate")
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
            context_switches: 233_112,
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
        later.context_switches += 7;
        let delta = delta(&earlier, &later);
        let expected = CpuTicks { user: 9, steal: 2, ..CpuTicks::default() };
        assert_eq!(delta.per_cpu, [expected]);
        assert_eq!(delta.busy_ns(), 9 * tick_ns());
        assert_eq!(delta.steal_ns(), 2 * tick_ns());
        assert_eq!(delta.elapsed_ns, 500);
        assert_eq!(delta.net_rx_softirqs, [15, 0, 2]);
        assert_eq!(delta.context_switches, 7);
    }

    #[test]
    fn this_machine_can_be_sampled_again_and_again() {
        let mut probe = MachineProbe::open().unwrap();
        let earlier = probe.sample().unwrap();
        let later = probe.sample().unwrap();
        assert!(!earlier.per_cpu.is_empty());
        assert_eq!(earlier.per_cpu.len(), later.per_cpu.len());
        assert!(later.context_switches >= earlier.context_switches);
        assert!(later.procs_running >= 1);
        assert!(!later.net_rx_softirqs.is_empty());
    }

    #[test]
    fn a_tick_divides_a_second() {
        assert_eq!(1_000_000_000 % tick_ns(), 0);
    }
}
