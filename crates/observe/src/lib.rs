//! Observes a user's program while it works: its reads and writes, its peers, and their CPU time.
//!
//! The program is traced in short samples and undisturbed between them ([`bytegauge_sys::trace`]): sizes come from the
//! samples, CPU time from the pauses, and the slowdown by tracing from both. Nothing is stored, nothing of the program
//! is changed, and the bytes that it sends are never read.
#![forbid(unsafe_code)]

mod call_counts;
mod counted;
mod descriptor;
mod observations;
mod pace;
mod proposed_test;
mod refusal;
mod sample;
mod tune_command;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytegauge_sys::copy_probe;
use bytegauge_sys::environment::CgroupCpu;
use bytegauge_sys::owner::OwnerProcess;
use bytegauge_sys::process;

pub use call_counts::{SideView, SizeSummary};
pub use descriptor::{Leads, PeerProcess};
pub use observations::{Diagnosed, EndView, Observed, TracingCost};
pub use proposed_test::{DerivedTest, ProgramKind};
pub use refusal::{ObserveError, refused};
pub use sample::Started;
pub use tune_command::Suggested;

use counted::ProgramCounts;
use observations::most;
use pace::{CountDifferences, ProgramPace};
use refusal::must_be_traceable;
use sample::{Sampled, sample};

/// A program that makes fewer calls in a sample is hardly slowed, and is sampled half of the time.
const CALLS_FEW: u64 = 500;

/// After a sample a busy program is undisturbed for this multiple of the sample's length.
const REST: u32 = 4;

/// How often Ctrl-C and the program's end are checked between samples.
const LOOK: Duration = Duration::from_millis(10);

/// The observed process and the length of the observation.
#[derive(Clone, Debug)]
pub struct ToObserve {
    /// The process, with all its threads and its descendants.
    pub pid: u32,
    /// Total time.
    pub time: Duration,
    /// The length of a sample.
    pub sample: Duration,
    /// The process is stopped until it is traced, and then continues: it was started for this observation.
    pub is_stopped: bool,
}

/// The user's signals.
#[derive(Clone, Debug, Default)]
pub struct Signals {
    /// The observation ends.
    pub stop: Arc<AtomicBool>,
    /// This process stops until it is continued (Ctrl-Z). It does so between samples alone: a thread that a stopped tracer holds
    /// would stay stopped, too.
    pub suspend: Arc<AtomicBool>,
}

impl Signals {
    fn stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn any(&self) -> bool {
        self.stop() || self.suspend.load(Ordering::Relaxed)
    }
}

/// Observes a program until its time is over, it ends, or `stop` is set.
///
/// # Errors
/// If it cannot be observed; the message gives the next step.
pub fn observe(watch: &ToObserve, signals: &Signals) -> Result<Observed, ObserveError> {
    let process = must_be_traceable(watch.pid)?;
    let mut began = Instant::now();
    let mut observation = ObservedProgram {
        pid: watch.pid,
        process,
        limit: CgroupCpu::of(watch.pid),
        counted: ProgramCounts::default(),
        cost: TracingCost::default(),
        pace: ProgramPace::of(watch.pid),
        first: CountDifferences::default(),
        traced: CountDifferences::default(),
        alone: CountDifferences::default(),
        is_stopped: watch.is_stopped,
        ended: false,
    };
    if !watch.is_stopped {
        observation.counted.met(watch.pid);
    }
    while !observation.ended && !signals.stop() && began.elapsed() < watch.time {
        let length = watch.sample.min(watch.time.saturating_sub(began.elapsed()));
        let Some(sampled) = observation.sample(length, signals)? else { break };
        if !observation.ended {
            let rest = sampled.length * if sampled.calls < CALLS_FEW { 1 } else { REST };
            observation.rest(rest.min(watch.time.saturating_sub(began.elapsed())), signals);
        }
        if signals.suspend.swap(false, Ordering::Relaxed) {
            let stopped = Instant::now();
            process::stop_self();
            began += stopped.elapsed();
        }
    }
    Ok(observation.over(signals.stop()))
}

/// An observation in progress.
struct ObservedProgram {
    pid: u32,
    /// Numbers are reused: another program with this one is not observed.
    process: OwnerProcess,
    /// The CPU limit of its control group when it began.
    limit: Option<CgroupCpu>,
    counted: ProgramCounts,
    cost: TracingCost,
    pace: ProgramPace,
    /// Its pace in the sample in which it started, in later samples, and undisturbed. A program's start shows nothing about its
    /// pace.
    first: CountDifferences,
    traced: CountDifferences,
    alone: CountDifferences,
    is_stopped: bool,
    ended: bool,
}

impl ObservedProgram {
    /// Traces the program for a moment. `None` if it ended a moment ago: then the earlier observations are reported.
    fn sample(&mut self, length: Duration, signals: &Signals) -> Result<Option<Sampled>, ObserveError> {
        let (process, pace) = ((self.pid, self.process), &mut self.pace);
        pace.begin();
        let progress = if self.is_stopped { &mut self.first } else { &mut self.traced };
        let sampled = sample(process, length, self.is_stopped, signals, &mut self.counted, &mut || pace.step(progress));
        let sampled = match sampled {
            Err(_) if self.cost.samples > 0 && !self.process.is_alive() => {
                self.ended = true;
                return Ok(None);
            }
            sampled => sampled?,
        };
        pace.read(progress);
        self.is_stopped = false;
        self.ended = sampled.ended || !self.process.is_alive();
        self.counted.find_peers();
        let (cost, length_ns) = (&mut self.cost, sampled.length.as_nanos() as u64);
        cost.samples += 1;
        cost.traced_ns += length_ns;
        cost.longest_ns = cost.longest_ns.max(length_ns);
        cost.stops += sampled.cost.stops;
        cost.held_ns += sampled.cost.held_ns;
        Ok(Some(sampled))
    }

    /// Lets the program work undisturbed.
    fn rest(&mut self, rest: Duration, signals: &Signals) {
        let from = Instant::now();
        self.pace.begin();
        while from.elapsed() < rest && !signals.any() && self.process.is_alive() {
            thread::sleep(LOOK.min(rest.saturating_sub(from.elapsed())));
            self.pace.step(&mut self.alone);
        }
        self.pace.read(&mut self.alone);
        self.cost.alone_ns += from.elapsed().as_nanos() as u64;
        self.ended = !self.process.is_alive();
    }

    fn over(self, interrupted: bool) -> Observed {
        let ObservedProgram { pid, limit, mut counted, mut cost, pace, first, mut traced, alone, ended, .. } = self;
        if !counted.is_coming_to_life() {
            traced.merge(&first);
        }
        let by_sockets = counted.by_sockets_alone();
        match alone.times_faster_than(&traced, by_sockets) {
            Ok(times) => cost.slowed = Some(times),
            Err(why) => cost.unknown = Some(why),
        }
        let summary = counted.summary(pid);
        let ProgramCounts { programs, waits, uring, .. } = counted;
        let name = |pid| programs.get(&pid).map_or_else(|| descriptor::name_of(pid), |program| program.name.clone());
        let under = PeerProcess { ended, pid, name: name(pid) };
        let reads = most(&summary.ends, |end| end.reads.as_ref());
        let offset = reads.filter(|reads| reads.slow_addresses > 0.5).and_then(|reads| reads.page_offset.as_ref());
        let slow_copies = offset.and_then(|offset| copy_probe::ratio_at(offset.most_often as usize).ok());
        Observed {
            program: name(summary.worker),
            pid: summary.worker,
            under: (summary.worker != pid).then_some(under),
            command: programs.get(&pid).map(|program| program.command.clone()).unwrap_or_default(),
            processes: programs.len().max(1) as u64,
            threads: summary.threads.0,
            threads_at_once: summary.threads.1,
            ends: summary.ends,
            connection_waits: pace.waits.waits.clone(),
            waits,
            uring,
            slow_copies,
            user_ns_per_byte: alone.user_per_byte(by_sockets),
            user_ns_per_call: alone.user_per_call().filter(|_| !by_sockets),
            cpus: alone.cpus(),
            limit_cpus: limit.as_ref().and_then(|limit| limit.limit_cpus),
            throttled: CgroupCpu::of(pid)
                .and_then(|now| now.nr_throttled)
                .zip(limit.and_then(|before| before.nr_throttled))
                .map(|(now, before)| now.saturating_sub(before)),
            ended,
            started: false,
            interrupted,
            cost,
        }
    }
}
