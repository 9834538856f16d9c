//! Looks at a program of the user's while it works: what it reads and writes, with whom, and what that costs it.
//!
//! The program is traced in short samples and left alone between them ([`bytegauge_sys::trace`]): sizes come from the
//! samples, CPU time from between them, and how much slower it was while it was traced from both. Nothing is stored and
//! nothing of the program is changed; what it sends is never read.

mod ask;
mod end;
mod sample;
mod started;
mod tally;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytegauge_sys::environment::CgroupCpu;
use bytegauge_sys::trace::{self, Way};
use bytegauge_sys::{descendants, holders};
use serde::Serialize;

pub use ask::{Asked, Kind};
pub use end::{Leads, Peer};
pub use started::Started;
pub use tally::{SideView, SizeSummary};

use end::End;
use sample::{Sampled, sample};
use tally::Side;

/// Calls after which a sample is long enough: a program that makes many is held up for less time.
const CALLS_MAX: u64 = 5_000;

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
pub struct Watch {
    /// The process, with all its threads and its descendants.
    pub pid: u32,
    /// For how long in all.
    pub time: Duration,
    /// The length of a sample.
    pub sample: Duration,
    /// The process stands still until it is traced, and is then to go on: one that was started for this.
    pub stands_still: bool,
}

/// Why a program cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// There is no such process.
    #[error("there is no process {0}: `ps -ef` lists them, `pgrep NAME` finds one by its name")]
    NoProcess(u32),
    /// A debugger or another tracer has it.
    #[error("process {pid} is traced by process {tracer} ({name}), and only one may: end that one, then try again")]
    Traced {
        /// The process.
        pid: u32,
        /// Who traces it.
        tracer: u32,
        /// The tracer's name.
        name: String,
    },
    /// The system does not allow it.
    #[error("process {pid} may not be traced: {reason}")]
    NotAllowed {
        /// The process.
        pid: u32,
        /// Why, and what to do.
        reason: String,
    },
    /// A 32-bit program.
    #[error(
        "process {0} is a 32-bit program, whose system calls have other numbers: build it for 64 bits, or count with `strace -c -f -p {0}`"
    )]
    Foreign(u32),
    /// The architecture is not known.
    #[error("programs can be looked at on x86-64 and aarch64 alone: use `strace -c -f -p PID` here")]
    Architecture,
    /// Something else went wrong.
    #[error("looking at process {pid}: {source}")]
    System {
        /// The process.
        pid: u32,
        /// What the kernel said.
        source: io::Error,
    },
}

/// Where bytes go to or come from, with all descriptors of that sort together.
#[derive(Clone, Debug, Serialize)]
pub struct EndView {
    /// In words.
    pub label: String,
    /// What it is.
    pub leads: Leads,
    /// Descriptors that moved bytes.
    pub flows: u64,
    /// What was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads: Option<SideView>,
    /// What was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writes: Option<SideView>,
    /// Times that a read followed a write on one descriptor, or a write a read: twice as many as calls that were answered.
    pub turns: u64,
    /// Programs at the other end, on this machine.
    pub peers: BTreeSet<Peer>,
    /// Options in force on one of the descriptors, as the kernel tells them: buffers with its own overhead.
    pub options: BTreeMap<&'static str, String>,
    /// Why sockets could not be asked what they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unasked: Option<String>,
}

/// What looking itself did to the program.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Cost {
    /// Samples.
    pub samples: u64,
    /// Time in samples, nanoseconds.
    pub traced_ns: u64,
    /// Time between them, in which the program was left alone, nanoseconds.
    pub alone_ns: u64,
    /// The longest sample, nanoseconds.
    pub longest_ns: u64,
    /// Times that one of its threads was stopped.
    pub stops: u64,
    /// Time that threads stood still while we looked, nanoseconds; waking them comes on top.
    pub held_ns: u64,
    /// How many times slower the program was while it was traced, by its own reads and writes or TCP's bytes; absent where
    /// it made too few to tell, or was never left alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slowed: Option<f64>,
}

/// What a program was seen to do.
#[derive(Clone, Debug, Serialize)]
pub struct Observed {
    /// Its name.
    pub program: String,
    /// Its number.
    pub pid: u32,
    /// Its command line. It may hold secrets, and is shown nowhere but to whoever asked.
    pub command: Vec<String>,
    /// Processes that were looked at, itself included.
    pub processes: u64,
    /// Threads at the beginning.
    pub threads: u64,
    /// Where bytes went, those with the most first.
    pub ends: Vec<EndView>,
    /// Waits until descriptors could be read or written.
    pub waits: u64,
    /// Operations handed to io_uring, and the calls that did so: their sizes are not to be seen by system calls.
    pub uring: (u64, u64),
    /// CPU time in user mode per byte read or written while it was left alone, nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_ns_per_byte: Option<f64>,
    /// CPU time in user mode between one read or write and the next, on average, nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_ns_per_call: Option<f64>,
    /// CPUs that it kept busy while it was left alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// The CPU limit of its control group, in CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_cpus: Option<f64>,
    /// Periods in which the limit stopped it, meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttled: Option<u64>,
    /// It ended meanwhile, with this status of waitpid(2) where that is known.
    pub ended: bool,
    /// Somebody pressed Ctrl-C.
    pub interrupted: bool,
    /// What looking cost.
    pub cost: Cost,
}

/// What is counted of one descriptor.
#[derive(Debug)]
struct Flow {
    end: End,
    read: Side,
    written: Side,
    last: Option<Way>,
    turns: u64,
}

/// All that was counted so far.
#[derive(Debug, Default)]
struct Counted {
    /// By process and descriptor: those that are open, as far as we know.
    open: BTreeMap<(u32, i32), Flow>,
    closed: Vec<Flow>,
    waits: u64,
    uring: (u64, u64),
    seen: BTreeSet<u32>,
    /// What a process became that was started for this: its name and its command line.
    became: BTreeMap<u32, (String, Vec<String>)>,
}

/// Looks at a program until its time is over, it ends, or `stop` is set.
///
/// # Errors
/// When it cannot be looked at, with what to do.
pub fn observe(watch: &Watch, stop: &AtomicBool) -> Result<Observed, ObserveError> {
    let pid = watch.pid;
    must_be_traceable(pid)?;
    let began = Instant::now();
    let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(0, |tasks| tasks.count() as u64);
    let throttled = || CgroupCpu::of(pid).and_then(|limit| limit.nr_throttled);
    let (limit, throttled_before) = (CgroupCpu::of(pid), throttled());
    let mut counted = Counted::default();
    let mut cost = Cost::default();
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
        limit_cpus: limit.and_then(|limit| limit.limit_cpus),
        throttled: throttled().zip(throttled_before).map(|(now, before)| now.saturating_sub(before)),
        ended,
        interrupted: stop.load(Ordering::Relaxed),
        cost,
    })
}

fn add(cost: &mut Cost, sampled: &Sampled) {
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

fn command_of(pid: u32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = bytes.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
    let mut words: Vec<String> = words.collect();
    // Every word ends with a zero.
    words.pop();
    words
}

/// What can be known before the first sample.
fn must_be_traceable(pid: u32) -> Result<(), ObserveError> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).map_err(|_| ObserveError::NoProcess(pid))?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    if descendants::is_stopped(pid).is_none() {
        return Err(ObserveError::NoProcess(pid));
    }
    // A thread's number would do for the kernel, and mean a part of a program.
    if field("Tgid:") != Some(&pid.to_string()) {
        return Err(ObserveError::NotAllowed {
            pid,
            reason: format!("it is a thread of process {}: name that", field("Tgid:").unwrap_or("?")),
        });
    }
    if pid == std::process::id() {
        return Err(ObserveError::NotAllowed { pid, reason: "it is this one, which looks on".into() });
    }
    if let Some(tracer) = field("TracerPid:").and_then(|text| text.parse().ok()).filter(|tracer| *tracer > 0) {
        return Err(ObserveError::Traced { pid, tracer, name: end::name_of(tracer) });
    }
    match trace::is_32_bit(pid) {
        Some(true) => Err(ObserveError::Foreign(pid)),
        _ => Ok(()),
    }
}

/// Why the kernel refused.
fn refused(pid: u32, error: io::Error) -> ObserveError {
    match error.kind() {
        io::ErrorKind::NotFound => ObserveError::NoProcess(pid),
        io::ErrorKind::Unsupported => ObserveError::Architecture,
        io::ErrorKind::PermissionDenied => {
            let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
            ObserveError::NotAllowed { pid, reason: why_not(scope.trim(), owner(pid), owner(std::process::id())) }
        }
        _ if error.raw_os_error() == Some(bytegauge_sys::errno::ESRCH) => ObserveError::NoProcess(pid),
        _ => ObserveError::System { pid, source: error },
    }
}

/// The reason by what the system says of itself (Documentation/admin-guide/LSM/Yama.rst).
fn why_not(ptrace_scope: &str, owner: Option<u32>, own: Option<u32>) -> String {
    match ptrace_scope {
        "3" => "tracing is switched off until the next boot (kernel.yama.ptrace_scope = 3)".into(),
        _ if owner != own => {
            "it is another user's: run bytegauge as that user, or as root (sudo bytegauge observe …)".into()
        }
        "1" => "only what was started by the tracer may be traced (kernel.yama.ptrace_scope = 1): run as root, start it \
                from here (bytegauge observe -- COMMAND), or sudo sysctl -w kernel.yama.ptrace_scope=0"
            .into(),
        "2" => "only root may trace (kernel.yama.ptrace_scope = 2): sudo bytegauge observe …".into(),
        _ => "the kernel refuses: it may have more rights than you (setuid, capabilities), or a container forbids ptrace \
              (docker run --cap-add SYS_PTRACE)"
            .into(),
    }
}

/// The user that a process belongs to.
fn owner(pid: u32) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(format!("/proc/{pid}")).ok().map(|of| of.uid())
}

impl Counted {
    fn flow(&mut self, pid: u32, fd: i32) -> Option<&mut Flow> {
        match self.open.entry((pid, fd)) {
            std::collections::btree_map::Entry::Occupied(flow) => Some(flow.into_mut()),
            std::collections::btree_map::Entry::Vacant(place) => {
                let end = End::look(pid, fd)?;
                Some(place.insert(Flow { end, read: Side::default(), written: Side::default(), last: None, turns: 0 }))
            }
        }
    }

    fn moved(&mut self, pid: u32, name: &'static str, transfer: &trace::Transfer) {
        let Some(flow) = self.flow(pid, transfer.fd) else { return };
        let side = match transfer.way {
            Way::In => &mut flow.read,
            Way::Out => &mut flow.written,
        };
        side.add(name, transfer.asked, transfer.moved, transfer.pieces, transfer.messages);
        if transfer.moved > 0 {
            flow.turns += u64::from(flow.last.is_some_and(|last| last != transfer.way));
            flow.last = Some(transfer.way);
        }
    }

    fn ended(&mut self, pid: u32, fd: i32) {
        self.closed.extend(self.open.remove(&(pid, fd)));
    }

    /// Between samples any descriptor may have become another one.
    fn check_open(&mut self) {
        let gone = |((pid, fd), flow): (&(u32, i32), &Flow)| {
            let now = fs::read_link(format!("/proc/{pid}/fd/{fd}"));
            now.map_or(true, |now| now.as_os_str() != &*flow.end.link).then_some((*pid, *fd))
        };
        let gone: Vec<(u32, i32)> = self.open.iter().filter_map(gone).collect();
        gone.into_iter().for_each(|(pid, fd)| self.ended(pid, fd));
    }

    /// Forgets what a process did before it became another program.
    fn executed(&mut self, pid: u32) {
        self.open.retain(|(of, _), _| *of != pid);
        self.became.insert(pid, (end::name_of(pid), command_of(pid)));
    }

    /// Who is at the other ends that are on this machine.
    fn find_peers(&mut self) {
        let unknown = |flow: &&mut Flow| flow.end.peers.is_empty() && flow.end.other.is_some();
        let wanted: BTreeSet<String> =
            self.open.values_mut().filter(unknown).filter_map(|flow| flow.end.other.clone()).collect();
        if wanted.is_empty() {
            return;
        }
        let found = holders::of(&wanted);
        for ((pid, _), flow) in &mut self.open {
            let Some(holders) = flow.end.other.as_ref().and_then(|other| found.get(other)) else { continue };
            // Both ends of a pipe have one name: whoever else has it is at the other.
            flow.end.peers.extend(holders.iter().filter(|holder| *holder != pid && **holder != std::process::id()));
            // Asked once: who is not found now hides from us.
            flow.end.other = None;
        }
    }

    fn views(mut self) -> Vec<EndView> {
        self.closed.extend(std::mem::take(&mut self.open).into_values());
        let mut grouped: BTreeMap<String, (EndView, Side, Side)> = BTreeMap::new();
        for flow in self.closed {
            if flow.read.calls + flow.written.calls == 0 {
                continue;
            }
            let label = flow.end.leads.label();
            let (view, read, written) = grouped.entry(label.clone()).or_insert_with(|| {
                let view = EndView {
                    label,
                    leads: flow.end.leads.clone(),
                    flows: 0,
                    reads: None,
                    writes: None,
                    turns: 0,
                    peers: BTreeSet::new(),
                    options: flow.end.options.clone(),
                    unasked: flow.end.unasked.clone(),
                };
                (view, Side::default(), Side::default())
            });
            view.flows += 1;
            view.turns += flow.turns;
            let peers = flow.end.peers.into_iter().map(|pid| Peer { pid, name: end::name_of(pid) });
            view.peers.extend(peers);
            read.merge(&flow.read);
            written.merge(&flow.written);
        }
        let whole = |(view, read, written): (EndView, Side, Side)| EndView {
            reads: read.view(),
            writes: written.view(),
            ..view
        };
        let mut views: Vec<EndView> = grouped.into_values().map(whole).collect();
        views.sort_by_key(|view| u64::MAX - view.bytes());
        views
    }
}

impl EndView {
    /// Bytes both ways.
    pub fn bytes(&self) -> u64 {
        [&self.reads, &self.writes].into_iter().flatten().map(|side| side.bytes).sum()
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
fn is_of_sockets_alone(side: &Side) -> bool {
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
    fn a_refusal_names_the_next_step() {
        for (scope, owner, expected) in [
            ("1", 1000, "observe -- COMMAND"),
            ("2", 1000, "sudo"),
            ("3", 1000, "until the next boot"),
            ("0", 0, "another user's"),
            ("", 1000, "SYS_PTRACE"),
        ] {
            let reason = why_not(scope, Some(owner), Some(1000));
            assert!(reason.contains(expected), "{scope}: {reason}");
        }
    }

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
