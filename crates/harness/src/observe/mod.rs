//! Looks at a program of the user's while it works: what it reads and writes, with whom, and what that costs it.
//!
//! The program is traced in short samples and left alone between them ([`bytegauge_sys::trace`]): sizes come from the
//! samples, CPU time from between them, and how much slower it was while it was traced from both. Nothing is stored and
//! nothing of the program is changed; what it sends is never read.

mod ask;
mod counted;
mod end;
mod refusal;
mod sample;
mod seen;
mod started;
mod tally;

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytegauge_sys::descendants;
use bytegauge_sys::environment::CgroupCpu;

pub use ask::{Asked, ProgramKind};
pub use end::{Leads, PeerProcess};
pub use refusal::ObserveError;
pub use seen::{EndView, LookCost, Observed};
pub use started::Started;
pub use tally::{SideView, SizeSummary};

use counted::{Counted, Flow, command_of};
use refusal::must_be_traceable;
use sample::{Sampled, sample};
use tally::OneWay;

/// A program that makes fewer calls in a sample is hardly held up, and is looked at half of the time.
const CALLS_FEW: u64 = 500;

/// After a sample a busy program is left alone for so many times its length.
const REST: u32 = 4;

/// How often Ctrl-C and the program's end are looked for between samples.
const LOOK: Duration = Duration::from_millis(10);

/// Sockets whose TCP counts tell how fast the program was without us.
const COUNTED_SOCKETS: usize = 32;

/// Reads and writes, or TCP bytes, that it takes to compare rates.
const PROGRESS_MIN: u64 = 200;

/// What to look at.
#[derive(Clone, Debug)]
pub struct ToObserve {
    /// The process, with all its threads and its descendants.
    pub pid: u32,
    /// For how long in all.
    pub time: Duration,
    /// The length of a sample.
    pub sample: Duration,
    /// The process stands still until it is traced, and is then to go on: one that was started for this.
    pub stands_still: bool,
}

/// Looks at a program until its time is over, it ends, or `stop` is set.
///
/// # Errors
/// When it cannot be looked at, with what to do.
pub fn observe(watch: &ToObserve, stop: &AtomicBool) -> Result<Observed, ObserveError> {
    let pid = watch.pid;
    must_be_traceable(pid)?;
    let began = Instant::now();
    let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(0, |tasks| tasks.count() as u64);
    let limit = CgroupCpu::of(pid);
    let mut counted = Counted::default();
    let mut cost = LookCost::default();
    let mut traced = Progress::default();
    let mut alone = Progress::default();
    let mut ended = false;
    let named = (end::name_of(pid), command_of(pid));
    let mut stands_still = watch.stands_still;
    while !ended && !stop.load(Ordering::Relaxed) && began.elapsed() < watch.time {
        let length = watch.sample.min(watch.time.saturating_sub(began.elapsed()));
        let before = Stand::read(pid, &counted);
        let sampled = sample(pid, length, stands_still, stop, &mut counted)?;
        stands_still = false;
        ended = sampled.ended || descendants::is_stopped(pid).is_none();
        if let Some(before) = before {
            traced.add(&before, Stand::read(pid, &counted).as_ref(), sampled.length);
        }
        counted.find_peers();
        add(&mut cost, &sampled);
        if !ended {
            let rest = sampled.length * if sampled.calls < CALLS_FEW { 1 } else { REST };
            let rest = rest.min(watch.time.saturating_sub(began.elapsed()));
            let before = Stand::read(pid, &counted);
            let from = Instant::now();
            pause(rest, stop, pid);
            cost.alone_ns += from.elapsed().as_nanos() as u64;
            if let Some(before) = before {
                alone.add(&before, Stand::read(pid, &counted).as_ref(), from.elapsed());
            }
        }
    }
    cost.slowed = alone.times_faster_than(&traced);
    let (program, command) = counted.became.remove(&pid).unwrap_or(named);
    let processes = counted.seen.len().max(1) as u64;
    let (waits, uring) = (counted.waits, counted.uring);
    Ok(Observed {
        program,
        pid,
        command,
        processes,
        threads,
        ends: counted.views(),
        waits,
        uring,
        user_ns_per_byte: alone.user_per(alone.bytes + alone.tcp_bytes),
        user_ns_per_call: alone.user_per(alone.calls),
        cpus: (alone.elapsed_ns >= 1_000_000).then(|| alone.cpu_ns as f64 / alone.elapsed_ns as f64),
        limit_cpus: limit.as_ref().and_then(|limit| limit.limit_cpus),
        throttled: CgroupCpu::of(pid)
            .and_then(|now| now.nr_throttled)
            .zip(limit.and_then(|before| before.nr_throttled))
            .map(|(now, before)| now.saturating_sub(before)),
        ended,
        interrupted: stop.load(Ordering::Relaxed),
        cost,
    })
}

fn add(cost: &mut LookCost, sampled: &Sampled) {
    let length_ns = sampled.length.as_nanos() as u64;
    cost.samples += 1;
    cost.traced_ns += length_ns;
    cost.longest_ns = cost.longest_ns.max(length_ns);
    cost.stops += sampled.cost.stops;
    cost.held_ns += sampled.cost.held_ns;
}

fn pause(time: Duration, stop: &AtomicBool, pid: u32) {
    let until = Instant::now() + time;
    while Instant::now() < until && !stop.load(Ordering::Relaxed) && descendants::is_stopped(pid).is_some() {
        thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
    }
}

/// What a program has done by a moment, by what the kernel counts of it anyway.
#[derive(Debug)]
struct Stand {
    calls: u64,
    bytes: u64,
    tcp_bytes: u64,
    user_ns: u64,
    cpu_ns: u64,
}

impl Stand {
    fn read(pid: u32, counted: &Counted) -> Option<Stand> {
        let mut stand = Stand { calls: 0, bytes: 0, tcp_bytes: 0, user_ns: 0, cpu_ns: 0 };
        for pid in descendants::tree(pid).ok()? {
            // rchar and wchar count what read(2), write(2) and their kin moved, of sockets as well; recv(2) and send(2) are
            // not among them (proc_pid_io(5)).
            let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
            let field = |name: &str| -> u64 {
                io.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()).unwrap_or(0)
            };
            stand.calls += field("syscr:") + field("syscw:");
            stand.bytes += field("rchar:") + field("wchar:");
            stand.user_ns += descendants::user_ns(pid).unwrap_or(0);
            stand.cpu_ns += bytegauge_sys::process::cpu_time_ns(pid).unwrap_or(0);
        }
        let by_name = |flow: &&Flow| [&flow.read, &flow.written].iter().any(|side| is_of_sockets_alone(side));
        let open = counted.open.iter().filter(|(_, flow)| by_name(flow)).take(COUNTED_SOCKETS);
        stand.tcp_bytes = open.filter_map(|((pid, fd), flow)| end::tcp_bytes(*pid, *fd, &flow.end.link)).sum();
        Some(stand)
    }
}

/// Calls that the counts of a process leave out.
fn is_of_sockets_alone(side: &OneWay) -> bool {
    side.names.keys().any(|name| name.starts_with("recv") || name.starts_with("send"))
}

/// What was done in some time.
#[derive(Debug, Default)]
struct Progress {
    elapsed_ns: u64,
    calls: u64,
    bytes: u64,
    tcp_bytes: u64,
    user_ns: u64,
    cpu_ns: u64,
}

impl Progress {
    fn add(&mut self, before: &Stand, after: Option<&Stand>, elapsed: Duration) {
        let Some(after) = after else { return };
        self.elapsed_ns += elapsed.as_nanos() as u64;
        self.calls += after.calls.saturating_sub(before.calls);
        self.bytes += after.bytes.saturating_sub(before.bytes);
        self.tcp_bytes += after.tcp_bytes.saturating_sub(before.tcp_bytes);
        self.user_ns += after.user_ns.saturating_sub(before.user_ns);
        self.cpu_ns += after.cpu_ns.saturating_sub(before.cpu_ns);
    }

    /// CPU time in user mode for each of so many things.
    fn user_per(&self, count: u64) -> Option<f64> {
        (count >= PROGRESS_MIN).then(|| self.user_ns as f64 / count as f64)
    }

    fn times_faster_than(&self, traced: &Progress) -> Option<f64> {
        let rate = |of: &Progress, count: u64| count as f64 / of.elapsed_ns.max(1) as f64;
        let by = |alone: u64, in_samples: u64| {
            let enough = alone >= PROGRESS_MIN && in_samples > 0;
            enough.then(|| rate(self, alone) / rate(traced, in_samples))
        };
        by(self.calls, traced.calls).or_else(|| by(self.tcp_bytes, traced.tcp_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_much_slower_it_was_needs_something_to_compare() {
        let of = |calls, tcp_bytes| Progress { elapsed_ns: 1_000, calls, tcp_bytes, ..Progress::default() };
        assert_eq!(of(1000, 0).times_faster_than(&of(100, 0)), Some(10.0));
        assert_eq!(of(0, 4000).times_faster_than(&of(0, 1000)), Some(4.0));
        assert_eq!(of(3, 0).times_faster_than(&of(1, 0)), None);
        assert_eq!(of(1000, 0).times_faster_than(&Progress::default()), None);
        assert_eq!(Progress { user_ns: 500, ..of(0, 0) }.user_per(1000), Some(0.5));
        assert_eq!(of(0, 0).user_per(0), None);
    }
}
