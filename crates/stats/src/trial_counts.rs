//! Counts of several trials, summed.
//!
//! Sums over trials first, ratios of sums after: a mean of ratios would give short trials the weight of
//! long ones. A count that no trial recorded stays `None`.

use bytegauge_model::{EndCounts, EndReport, EndRole, Spec, Trial, Workload};

/// Bytes of a GiB.
pub const GIB: f64 = (1u64 << 30) as f64;
/// Machine-wide figures come in ticks of 10 ms: below 1 s of observation they are rounding.
const MACHINE_WALL_MIN_NS: u64 = 1_000_000_000;

/// One end's counts summed over trials, and its windows one after another; `None` without reports.
fn sums<'a>(reports: impl Iterator<Item = &'a EndReport>) -> Option<EndCounts> {
    let completed = |report: &EndReport| EndCounts {
        cpu_ns: report.cpu_time_ns(),
        total_bytes: report.total_bytes.max(report.bytes),
        ..report.counts
    };
    reports
        .map(completed)
        .reduce(|sum, more| EndCounts { window_ns: sum.window_ns.saturating_add(more.window_ns), ..sum.plus(&more) })
}

/// Time that `threads` threads of an end waited for a CPU, summed over its reports, ns; `None` if any lacks it. At most what their
/// CPU time leaves of a window: the kernel counts a wait when it is over, so one that began before a short window is
/// counted with it as a whole.
pub fn queued_ns<'a>(reports: impl Iterator<Item = &'a EndReport>, threads: u64) -> Option<u64> {
    let within = |report: &EndReport| {
        let all_ns = report.window_ns.saturating_mul(threads.max(1));
        report.queued_ns.get().map(|ns| ns.min(all_ns.saturating_sub(report.cpu_time_ns())))
    };
    reports.map(within).try_fold(0, |sum: u64, ns| Some(sum.saturating_add(ns?)))
}

/// `a / b` where that means something.
pub fn ratio(a: u64, b: u64) -> Option<f64> {
    (b > 0).then(|| a as f64 / b as f64)
}

/// The writing end over the trials.
pub fn source_sums(trials: &[&Trial]) -> Option<EndCounts> {
    sums(trials.iter().filter_map(|trial| trial.source_side()))
}

/// The reading end over the trials.
pub fn sink_sums(trials: &[&Trial]) -> Option<EndCounts> {
    sums(trials.iter().filter_map(|trial| trial.sink_side()))
}

/// Rates of two ends that are further apart were counted at different moments: with one trial of some milliseconds, a buffer's
/// fill or a turn of the scheduler.
const APART: f64 = 0.25;

/// Whether both ends of a stream saw its bytes pass at one rate, each within its own window: only then is the CPU time of one for
/// a byte, together with that of the other end the cost of the stream. Fewer datagrams arrive than were sent.
pub fn windows_agree(levels: &Spec, trials: &[&Trial]) -> bool {
    let lossy = levels.transport().is_some_and(bytegauge_model::Transport::is_datagram);
    let rate = |end: Option<EndCounts>| end.and_then(|end| ratio(end.bytes, end.window_ns)).filter(|rate| *rate > 0.0);
    match (rate(source_sums(trials)), rate(sink_sums(trials))) {
        (Some(source), Some(sink)) if levels.workload() == Workload::Stream && !lossy => {
            source.max(sink) / source.min(sink) <= 1.0 + APART
        }
        _ => true,
    }
}

/// Sums of what the machine did.
pub struct MachineSums {
    wall_ns: u64,
    busy_ns: u64,
    softirq_ns: u64,
    bytes: u64,
    net_rx: Vec<u64>,
}

impl MachineSums {
    /// `None` below 1 s of observation.
    pub fn of(trials: &[&Trial]) -> Option<MachineSums> {
        let mut sums = MachineSums { wall_ns: 0, busy_ns: 0, softirq_ns: 0, bytes: 0, net_rx: Vec::new() };
        for trial in trials {
            let (Some(machine), Some(sink)) = (&trial.machine, trial.sink_side()) else { continue };
            sums.wall_ns = sums.wall_ns.saturating_add(machine.wall_ns);
            let relay_host_ns = trial.end(EndRole::Relay).and_then(|end| end.relay.as_ref()?.host_busy_ns).unwrap_or(0);
            sums.busy_ns = sums.busy_ns.saturating_add(machine.busy_ns).saturating_add(relay_host_ns);
            sums.softirq_ns = sums.softirq_ns.saturating_add(machine.softirq_ns);
            // The machine was watched over warm-up and drain too: so must the bytes be.
            sums.bytes = sums.bytes.saturating_add(sink.total_bytes.max(sink.bytes));
            sums.net_rx.resize(sums.net_rx.len().max(machine.net_rx.len()), 0);
            for (sum, count) in sums.net_rx.iter_mut().zip(&machine.net_rx) {
                *sum = sum.saturating_add(*count);
            }
        }
        (sums.wall_ns >= MACHINE_WALL_MIN_NS).then_some(sums)
    }

    /// CPU time of the whole machine per GiB, seconds.
    pub fn busy_s_per_gib(&self) -> Option<f64> {
        ratio(self.busy_ns, self.bytes).map(|ns| ns * GIB / 1e9)
    }

    /// CPUs that handled soft interrupts, on average.
    pub fn softirq_cpus(&self) -> Option<f64> {
        ratio(self.softirq_ns, self.wall_ns)
    }

    /// Share of the CPU that received most packets in all receive interrupts.
    pub fn net_rx_busiest_share(&self) -> Option<f64> {
        let all = self.net_rx.iter().copied().fold(0, u64::saturating_add);
        ratio(self.net_rx.iter().copied().max()?, all)
    }
}

/// The writers' `TCP_INFO`, over flows and trials.
#[derive(Default)]
pub struct TcpSums {
    /// Segments sent again.
    pub retransmits: Option<u64>,
    busy_us: Option<u64>,
    /// Time in which the receiver's window was the limit, µs.
    pub rwnd_limited_us: Option<u64>,
    /// Time in which the send buffer was the limit, µs.
    pub sndbuf_limited_us: Option<u64>,
    /// Smallest round-trip time, µs.
    pub min_rtt_us: Option<u64>,
}

impl TcpSums {
    /// Adds the reports of all writers.
    pub fn of(trials: &[&Trial]) -> TcpSums {
        let mut tcp = TcpSums::default();
        let flows = trials.iter().filter_map(|trial| trial.source_side()).flat_map(|source| &source.flows);
        for report in flows.filter_map(|flow| flow.tcp.as_deref()) {
            add(&mut tcp.retransmits, report.retransmits.get());
            add(&mut tcp.busy_us, report.busy_us.get());
            add(&mut tcp.rwnd_limited_us, report.rwnd_limited_us.get());
            add(&mut tcp.sndbuf_limited_us, report.sndbuf_limited_us.get());
            tcp.min_rtt_us = [tcp.min_rtt_us, report.min_rtt_us.get()].into_iter().flatten().min();
        }
        tcp
    }

    /// Share of the time with data outstanding.
    pub fn limited_share(&self, limited_us: Option<u64>) -> Option<f64> {
        ratio(limited_us?, self.busy_us?)
    }
}

fn add(sum: &mut Option<u64>, value: Option<u64>) {
    if let Some(value) = value {
        *sum = Some(sum.unwrap_or(0).saturating_add(value));
    }
}
