//! Parses the counters of procfs files. Never touches a file.

use super::{CpuTicks, MachineSample};

/// Adds the counters of `/proc/stat` (proc_stat(5)). `None` if the format is not as documented.
pub(super) fn parse_stat(text: &str, sample: &mut MachineSample) -> Option<()> {
    for line in text.lines() {
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        match name {
            // The line without a number is the sum of the others.
            "cpu" => {}
            "ctxt" => sample.context_switches = rest.trim().parse().ok()?,
            "procs_running" => sample.procs_running = rest.trim().parse().ok()?,
            _ => {
                if let Some(cpu) = name.strip_prefix("cpu") {
                    sample.per_cpu.push(parse_cpu(cpu.parse().ok()?, rest)?);
                }
            }
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
pub(super) fn parse_softirqs(text: &str, sample: &mut MachineSample) -> Option<()> {
    let mut lines = text.lines();
    // The header lists the possible CPUs; their numbers may have gaps.
    let header = lines.next()?.split_ascii_whitespace();
    let cpus: Vec<usize> = header.map(|name| name.strip_prefix("CPU")?.parse().ok()).collect::<Option<_>>()?;
    for line in lines {
        let (name, counts) = line.split_once(':')?;
        match name.trim() {
            "NET_RX" => sample.net_rx_softirqs = by_cpu(&cpus, counts)?,
            "NET_TX" => sample.net_tx_softirqs = by_cpu(&cpus, counts)?,
            _ => {}
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
        assert_eq!(sample.context_switches, 233_112);
        assert_eq!(sample.procs_running, 3);
        assert_eq!(sample.net_rx_softirqs, [685, 0, 4_294_967_295]);
        assert_eq!(sample.net_tx_softirqs, [4, 0, 5]);
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
