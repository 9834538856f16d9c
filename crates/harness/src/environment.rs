//! The environment of a block and of a trial: counters read before and after, converted to shares.

use bytegauge_model::session::Surroundings;
use bytegauge_model::{MachineUse, Transport, UdpUse};
use bytegauge_sys::clock::monotonic_ns;
use bytegauge_sys::cpu_time::{ended_children_ns, process_usage};
use bytegauge_sys::environment::{CgroupCpu, cpu_stalled_us};
use bytegauge_sys::network::NetworkTables;
use bytegauge_sys::proc_stat::MachineSample;
use bytegauge_sys::process_tree;
use bytegauge_sys::snmp::{self, KernelCounts};

/// The counters at the start of a block.
#[derive(Debug)]
pub struct BlockStart {
    at_ns: u64,
    machine: Option<MachineSample>,
    own_ns: Option<u64>,
    throttled_us: Option<u64>,
    cpu_pressure_us: Option<u64>,
}

/// The machine's counts since `earlier`.
pub fn machine_use(earlier: Option<&MachineSample>) -> Option<MachineUse> {
    let change = MachineSample::read().ok()?.since(earlier?);
    Some(MachineUse {
        wall_ns: change.at_ns,
        busy_ns: change.busy_ns(),
        softirq_ns: change.softirq_ns(),
        steal_ns: change.steal_ns(),
        net_rx: change.net_rx_softirqs,
        ..MachineUse::default()
    })
}

/// Reads all counters of a block's start. `elsewhere_ns` is the CPU time of the ends of an agent on this machine and of
/// relays that ran already, nanoseconds; `None` if it is unknown.
pub fn block_start(elsewhere_ns: Option<u64>) -> BlockStart {
    // The cost of reading it belongs before both readings, hence the order.
    let own_ns = sum(own_cpu_ns(), elsewhere_ns);
    BlockStart {
        at_ns: monotonic_ns(),
        machine: MachineSample::read().ok(),
        own_ns,
        throttled_us: throttled_us(),
        cpu_pressure_us: cpu_stalled_us(),
    }
}

/// The environment since a block's start.
pub fn block_end(start: &BlockStart, elsewhere_ns: Option<u64>) -> Surroundings {
    let wall_ns = monotonic_ns() - start.at_ns;
    let grown = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?));
    let own_ns = grown(sum(own_cpu_ns(), elsewhere_ns), start.own_ns);
    let change = start.machine.as_ref().and_then(|earlier| Some(MachineSample::read().ok()?.since(earlier)));
    let share = change.as_ref().map(|change| {
        let capacity_ns = (change.at_ns * change.per_cpu.len().max(1) as u64).max(1) as f64;
        // Without our own CPU time that of other programs is unknown as well.
        let others_ns = own_ns.map(|own_ns| change.busy_ns().saturating_sub(own_ns) as f64);
        let others = others_ns.map(|others_ns| others_ns / change.at_ns.max(1) as f64);
        (change.steal_ns() as f64 / capacity_ns, others)
    });
    Surroundings {
        wall_ns,
        steal_share: share.map(|(steal, _)| steal),
        foreign_cpus: share.and_then(|(_, others)| others),
        throttled_us: grown(throttled_us(), start.throttled_us),
        cpu_pressure_us: grown(cpu_stalled_us(), start.cpu_pressure_us),
        load: load(),
    }
}

/// The kernel's counts of a path's protocol in the network namespace.
#[derive(Debug)]
pub struct ProtocolCounts {
    is_udp: bool,
    /// Absent for other protocols than UDP and TCP.
    counts: Option<KernelCounts>,
    backlog_drops: Option<u64>,
}

impl ProtocolCounts {
    /// The present counts of a path's protocol.
    pub fn read(transport: Option<&Transport>) -> ProtocolCounts {
        let is_udp = transport.is_some_and(Transport::is_udp);
        let is_counted = is_udp || transport.is_some_and(Transport::is_tcp);
        ProtocolCounts {
            is_udp,
            counts: is_counted.then(|| KernelCounts::read(NetworkTables::own()).ok()).flatten(),
            backlog_drops: is_udp.then(|| snmp::backlog_drops().ok()).flatten(),
        }
    }

    /// Writes the differences to an earlier reading to a trial's record.
    pub fn since(&self, earlier: &ProtocolCounts, machine: &mut MachineUse) {
        let Some((later, before)) = self.counts.as_ref().zip(earlier.counts.as_ref()) else { return };
        if self.is_udp {
            let dropped = self.backlog_drops.zip(earlier.backlog_drops);
            let backlog_drops = dropped.map(|(later, earlier)| later.saturating_sub(earlier));
            machine.udp = Some(Box::new(UdpUse { backlog_drops, ..udp_use(before, later) }));
            return;
        }
        let gained = |name: &str| later.gained(before, "TcpExt", name);
        machine.delayed_acks = gained(snmp::DELAYED_ACKS).into();
        machine.listen_overflows = gained(snmp::LISTEN_OVERFLOWS).into();
        machine.timeouts = gained(snmp::TIMEOUTS).into();
        let drops = snmp::TCP_DROPS.iter().filter_map(|name| Some(((*name).to_owned(), gained(name)?)));
        machine.tcp_drops = drops.filter(|(_, count)| *count > 0).collect();
    }
}

/// The difference between two readings, over IPv4 and IPv6 together.
fn udp_use(earlier: &KernelCounts, later: &KernelCounts) -> UdpUse {
    let gained = |name: &str| ["Udp", "Udp6"].iter().filter_map(|it| later.gained(earlier, it, name)).sum();
    UdpUse {
        received: gained("InDatagrams"),
        sent: gained("OutDatagrams"),
        no_port: gained("NoPorts"),
        receive_errors: gained("InErrors"),
        receive_buffer_errors: gained("RcvbufErrors"),
        send_buffer_errors: gained("SndbufErrors"),
        checksum_errors: gained("InCsumErrors"),
        memory_errors: gained("MemErrors"),
        backlog_drops: None,
    }
}

/// CPU time of this process and of everything that it started: living ends with the programs that they run or ran (an
/// external relay ends with its trial, its end does not), and ended ones, also after a failure. None of it may count as load
/// of other programs. `None` if `/proc` does not report it.
fn own_cpu_ns() -> Option<u64> {
    Some(process_usage().total_ns + ended_children_ns() + process_tree::used().ok()?.cpu_ns)
}

fn sum(here_ns: Option<u64>, elsewhere_ns: Option<u64>) -> Option<u64> {
    Some(here_ns? + elsewhere_ns?)
}

fn throttled_us() -> Option<u64> {
    CgroupCpu::read()?.throttled_us
}

fn load() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    use bytegauge_sys::process::{cpu_time_ns, die_with_parent};

    use super::*;

    // One test, since a child of another one that ends between two readings would be counted twice.
    #[test]
    fn ended_ends_and_their_programs_are_own_load() {
        let before_ns = own_cpu_ns().unwrap();
        let mut end = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        // By its own CPU clock, not by the wall clock.
        while cpu_time_ns(end.id()).unwrap() < 60_000_000 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        end.kill().unwrap();
        end.wait().unwrap();
        let gained_ns = own_cpu_ns().unwrap() - before_ns;
        assert!(gained_ns >= 59_000_000, "{gained_ns}");

        let before_ns = own_cpu_ns().unwrap();
        // The program has worked for 100 ms, in ticks, when it ends; the end that waited for it lives on.
        let program = "while [ $(cut -d' ' -f14 /proc/$$/stat) -lt 10 ]; do
            i=0; while [ $i -lt 10000 ]; do i=$((i+1)); done
        done";
        let mut end = Command::new("sh");
        end.args(["-c", "sh -c \"$1\"; echo gone; exec sleep 3600", "end", program]).stdout(Stdio::piped());
        let mut end = die_with_parent(&mut end).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(end.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let gained_ns = own_cpu_ns().unwrap() - before_ns;
        end.kill().unwrap();
        end.wait().unwrap();
        assert_eq!(line, "gone\n");
        assert!(gained_ns >= 59_000_000, "{gained_ns}");
    }

    #[test]
    fn ends_of_an_agent_are_own_load() {
        let start = block_start(Some(7));
        // More than any machine has.
        let block = block_end(&start, Some(u64::MAX >> 1));
        assert!(block.foreign_cpus.is_none_or(|cpus| cpus == 0.0), "{block:?}");
        // An unreadable value is not zero.
        let block = block_end(&start, None);
        assert!(block.foreign_cpus.is_none(), "{block:?}");
    }

    /// Whether a path's record contains drops of UDP, and of the machine's backlogs.
    fn check(transport: &Transport, expected: bool) {
        let counts = || ProtocolCounts::read(Some(transport));
        let mut machine = MachineUse::default();
        counts().since(&counts(), &mut machine);
        assert_eq!(machine.udp.is_some_and(|udp| udp.backlog_drops.is_some()), expected, "{transport}");
    }

    #[test]
    fn backlog_drops_are_recorded_over_udp() {
        check(&Transport::Udp, true);
        check(&Transport::Udp6, true);
        check(&Transport::Tcp, false);
        check(&Transport::UnixDatagram, false);
    }
}
