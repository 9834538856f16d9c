//! How fast a program works, by counts that the kernel keeps anyway: its reads and writes (proc_pid_io(5)), its CPU time,
//! and the bytes of its TCP connections (tcp(7), `TCP_INFO`). Read every few milliseconds, in samples and in pauses, so
//! both are measured in the same way. A process or connection that ends loses only its last moment.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use bytegauge_sys::{process, process_tree};
use bytegauge_traffic::wait_sampler::{WaitSampler, each_connection};

/// How often the counts are read.
const STEP: Duration = Duration::from_millis(10);

/// Reading takes at most 1/20 of the time.
const SHARE: u32 = 20;

/// The most connections that are read; more would not change the result.
const CONNECTIONS: usize = 32;

/// Reads and writes, or TCP bytes, needed to compare rates.
const PROGRESS_MIN: u64 = 200;

/// Reads the counts of a program's processes, and adds up the differences from one reading to the next.
#[derive(Debug)]
pub(super) struct ProgramPace {
    root: u32,
    processes: Vec<u32>,
    last: Option<Totals>,
    next: Instant,
    /// What its connections wait for.
    pub(super) waits: WaitSampler,
}

impl ProgramPace {
    pub(super) fn of(root: u32) -> ProgramPace {
        ProgramPace { root, processes: vec![root], last: None, next: Instant::now(), waits: WaitSampler::default() }
    }

    /// Begins to count again, with the processes that exist now.
    pub(super) fn begin(&mut self) {
        self.processes = process_tree::tree(self.root).map(|all| all.into_iter().collect()).unwrap_or_default();
        self.last = None;
        self.read(&mut CountDifferences::default());
    }

    /// Adds the difference since the last reading, if a reading is due.
    pub(super) fn step(&mut self, progress: &mut CountDifferences) {
        if Instant::now() >= self.next {
            self.read(progress);
        }
    }

    /// Adds the difference since the last reading. A program that has ended can no longer be read, so its last moment is
    /// left out of its time as well.
    pub(super) fn read(&mut self, progress: &mut CountDifferences) {
        let now = Totals::read(&self.processes, &mut self.waits);
        self.next = now.at + STEP.max(now.at.elapsed() * SHARE);
        let now = Some(now).filter(|_| process_tree::is_stopped(self.root).is_some());
        if let (Some(last), Some(now)) = (&self.last, &now) {
            progress.add(last, now);
        }
        self.last = now;
    }
}

/// The counts of the processes at one moment.
#[derive(Debug)]
struct Totals {
    at: Instant,
    processes: BTreeMap<u32, Done>,
    /// By the name of a connection in `/proc/PID/fd`: bytes both ways.
    connections: BTreeMap<String, u64>,
}

/// The counts of one process.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    calls: u64,
    bytes: u64,
    user_ns: u64,
    cpu_ns: u64,
}

impl Totals {
    fn read(pids: &[u32], waits: &mut WaitSampler) -> Totals {
        let at = Instant::now();
        let processes = pids.iter().filter_map(|pid| Some((*pid, Done::of(*pid)?))).collect();
        let mut connections = BTreeMap::new();
        for pid in pids {
            let rest = CONNECTIONS.saturating_sub(connections.len());
            each_connection(*pid, rest, &mut |link, socket, info| {
                waits.add(link, socket, info);
                let bytes = info.bytes_received.unwrap_or(0) + info.bytes_acked.unwrap_or(0);
                connections.insert(link.to_owned(), bytes);
            });
        }
        Totals { at, processes, connections }
    }
}

impl Done {
    fn of(pid: u32) -> Option<Done> {
        // rchar and wchar count what read(2), write(2) and similar calls moved, of sockets as well; recv(2) and send(2) are
        // not among them (proc_pid_io(5)).
        let io = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
        let field =
            |name: &str| -> Option<u64> { io.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()) };
        Some(Done {
            calls: field("syscr:")? + field("syscw:")?,
            bytes: field("rchar:")? + field("wchar:")?,
            user_ns: process_tree::user_ns(pid)?,
            cpu_ns: process::cpu_time_ns(pid).ok()?,
        })
    }
}

/// Differences over some time.
#[derive(Clone, Debug, Default)]
pub(super) struct CountDifferences {
    elapsed_ns: u64,
    calls: u64,
    bytes: u64,
    user_ns: u64,
    cpu_ns: u64,
    tcp_bytes: u64,
    /// Time for which connections existed, summed: a rate of bytes over it does not depend on their lifetimes.
    tcp_ns: u64,
}

impl CountDifferences {
    fn add(&mut self, before: &Totals, now: &Totals) {
        let elapsed_ns = now.at.saturating_duration_since(before.at).as_nanos() as u64;
        self.elapsed_ns += elapsed_ns;
        for (pid, done) in &now.processes {
            let Some(was) = before.processes.get(pid) else { continue };
            self.calls += done.calls.saturating_sub(was.calls);
            self.bytes += done.bytes.saturating_sub(was.bytes);
            self.user_ns += done.user_ns.saturating_sub(was.user_ns);
            self.cpu_ns += done.cpu_ns.saturating_sub(was.cpu_ns);
        }
        for (link, bytes) in &now.connections {
            let Some(was) = before.connections.get(link) else { continue };
            self.tcp_bytes += bytes.saturating_sub(*was);
            self.tcp_ns += elapsed_ns;
        }
    }

    pub(super) fn merge(&mut self, other: &CountDifferences) {
        self.elapsed_ns += other.elapsed_ns;
        self.calls += other.calls;
        self.bytes += other.bytes;
        self.user_ns += other.user_ns;
        self.cpu_ns += other.cpu_ns;
        self.tcp_bytes += other.tcp_bytes;
        self.tcp_ns += other.tcp_ns;
    }

    /// CPU time in user mode per byte; none if the bytes went over sockets that only TCP counts and there is no TCP.
    pub(super) fn user_per_byte(&self, by_sockets: bool) -> Option<f64> {
        match by_sockets {
            true if self.tcp_bytes < PROGRESS_MIN => None,
            true => self.user_per(self.bytes + self.tcp_bytes),
            false => self.user_per(self.bytes),
        }
    }

    /// CPU time in user mode per read or write.
    pub(super) fn user_per_call(&self) -> Option<f64> {
        self.user_per(self.calls)
    }

    fn user_per(&self, count: u64) -> Option<f64> {
        (count >= PROGRESS_MIN).then(|| self.user_ns as f64 / count as f64)
    }

    /// CPUs kept busy.
    pub(super) fn cpus(&self) -> Option<f64> {
        (self.elapsed_ns >= 1_000_000).then(|| self.cpu_ns as f64 / self.elapsed_ns as f64)
    }

    /// How many times faster this was than `traced`, or why that is unknown.
    pub(super) fn times_faster_than(&self, traced: &CountDifferences, by_sockets: bool) -> Result<f64, &'static str> {
        if self.elapsed_ns == 0 {
            return Err("it ended before a pause between samples");
        }
        if by_sockets && self.tcp_ns == 0 {
            return Err("it uses recv and send, which the kernel counts only for lasting TCP connections");
        }
        let (alone, in_samples) = match by_sockets {
            true => ((self.tcp_bytes, self.tcp_ns), (traced.tcp_bytes, traced.tcp_ns)),
            false => ((self.calls, self.elapsed_ns), (traced.calls, traced.elapsed_ns)),
        };
        if alone.0 < PROGRESS_MIN || in_samples.0 == 0 || in_samples.1 == 0 {
            return Err("too little to compare");
        }
        let rate = |(count, ns): (u64, u64)| count as f64 / ns as f64;
        Ok(rate(alone) / rate(in_samples))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slowdown_needs_enough_progress() {
        let of = |calls, tcp_bytes| CountDifferences {
            elapsed_ns: 1_000,
            calls,
            tcp_bytes,
            tcp_ns: 1_000,
            ..CountDifferences::default()
        };
        assert_eq!(of(1000, 0).times_faster_than(&of(100, 0), false), Ok(10.0));
        assert_eq!(of(9, 4000).times_faster_than(&of(1, 1000), true), Ok(4.0));
        assert!(of(3, 0).times_faster_than(&of(1, 0), false).is_err());
        assert!(of(1000, 0).times_faster_than(&CountDifferences::default(), false).is_err());
        // A server's other reads show nothing about its sockets.
        let unix = CountDifferences { tcp_ns: 0, ..of(1000, 0) };
        assert!(unix.times_faster_than(&of(100, 0), true).unwrap_err().contains("recv and send"));
        assert!(
            CountDifferences::default().times_faster_than(&of(100, 0), false).unwrap_err().contains("ended before")
        );
        assert_eq!(CountDifferences { user_ns: 500, ..of(1000, 0) }.user_per_call(), Some(0.5));
        assert_eq!(CountDifferences { user_ns: 500, bytes: 250, ..of(0, 250) }.user_per_byte(true), Some(1.0));
        assert_eq!(CountDifferences { user_ns: 500, bytes: 250, ..of(0, 0) }.user_per_byte(true), None);
    }

    #[test]
    fn begun_and_ended_processes_do_not_reduce_progress() {
        let at = Instant::now();
        let totals = |after_ms: u64, calls: &[(u32, u64)], connections: &[(&str, u64)]| Totals {
            at: at + Duration::from_millis(after_ms),
            processes: calls.iter().map(|(pid, calls)| (*pid, Done { calls: *calls, ..Done::default() })).collect(),
            connections: connections.iter().map(|(link, bytes)| ((*link).to_owned(), *bytes)).collect(),
        };
        let readings = [
            totals(0, &[(1, 5), (2, 1000)], &[("a", 900), ("b", 10)]),
            // One has ended, another one has begun.
            totals(10, &[(1, 8), (3, 70)], &[("a", 1900), ("c", 7)]),
            totals(20, &[(1, 9), (3, 90)], &[("c", 507)]),
        ];
        let mut progress = CountDifferences::default();
        readings.windows(2).for_each(|pair| progress.add(&pair[0], &pair[1]));
        assert_eq!((progress.calls, progress.elapsed_ns), (3 + 1 + 20, 20_000_000));
        assert_eq!((progress.tcp_bytes, progress.tcp_ns), (1000 + 500, 20_000_000));
    }
}
