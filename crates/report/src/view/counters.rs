//! The counts of the trials behind an estimate, summed, and their CPU time.
//!
//! Sums over trials first, ratios of sums after: a mean of ratios would give short trials the weight of
//! long ones. A count that no trial recorded stays `None`.

use bytegauge_model::{EndCounts, EndReport, EndRole, Spec, Trial, Workload};
use bytegauge_stats::quantile::median;

use super::document::{Counters, CpuView, EndCpu, PerFlow};
use super::options;
use super::threads::threads;

const GIB: f64 = (1u64 << 30) as f64;
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

fn cpu_view(end: &EndCounts, threads: u64) -> EndCpu {
    let per_gib = |ns: u64| (end.cpu_ns > 0).then(|| ratio(ns, end.bytes)).flatten().map(|ns| ns * GIB / 1e9);
    EndCpu {
        user_s_per_gib: per_gib(end.user_ns),
        system_s_per_gib: per_gib(end.system_ns),
        total_s_per_gib: per_gib(end.cpu_ns),
        cpus: end.cpus(),
        utilisation: end.cpus().map(|cpus| cpus / threads.max(1) as f64),
    }
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

/// Counts everything in the trials behind an estimate.
pub fn counters(levels: &Spec, trials: &[&Trial]) -> Counters {
    let (source, sink) = (source_sums(trials), sink_sums(trials));
    // An import may lack an end's report or single counts of it: zero calls are calls that no end counted.
    // A ring reads and writes nothing: its counts are its own.
    let moves = trials.iter().all(|trial| trial.ring().is_none());
    // And an end of calls counts those, not what it read and wrote for them.
    let calls =
        |end: Option<EndCounts>| end.filter(|end| moves && end.calls > 0 && levels.workload() == Workload::Stream);
    let (writer, reader) = (calls(source), calls(sink));
    let switches =
        |end: Option<EndCounts>, read: fn(&EndCounts) -> u64| end.filter(|end| end.cpu_ns > 0).as_ref().map(read);
    let tcp = Tcp::of(trials);
    Counters {
        bytes: (moves && !trials.is_empty())
            .then(|| trials.iter().map(|trial| trial.bytes).fold(0, u64::saturating_add)),
        reads: reader.map(|end| end.calls),
        writes: writer.map(|end| end.calls),
        short_reads: reader.map(|end| end.short_calls),
        short_writes: writer.map(|end| end.short_calls),
        short_read_share: reader.and_then(|end| ratio(end.short_calls.min(end.calls), end.calls)),
        short_write_share: writer.and_then(|end| ratio(end.short_calls.min(end.calls), end.calls)),
        bytes_per_read: reader.and_then(|end| ratio(end.bytes, end.calls)),
        bytes_per_write: writer.and_then(|end| ratio(end.bytes, end.calls)),
        source_voluntary_switches: switches(source, |end| end.voluntary_switches),
        source_involuntary_switches: switches(source, |end| end.involuntary_switches),
        sink_voluntary_switches: switches(sink, |end| end.voluntary_switches),
        sink_involuntary_switches: switches(sink, |end| end.involuntary_switches),
        retransmits: tcp.retransmits,
        rwnd_limited_share: tcp.limited_share(tcp.rwnd_limited_us),
        sndbuf_limited_share: tcp.limited_share(tcp.sndbuf_limited_us),
        delivery_rate: median(&tcp.delivery_rates),
        min_rtt_us: tcp.min_rtt_us,
        snd_wscale: tcp.snd_wscale,
        rcv_wscale: tcp.rcv_wscale,
        source_socket_memory: socket_memory(trials.iter().filter_map(|trial| trial.source_side())),
        sink_socket_memory: socket_memory(trials.iter().filter_map(|trial| trial.sink_side())),
        sink_queued_bytes: queued(trials.iter().filter_map(|trial| trial.sink_side())),
        verified_bytes: [sink, source]
            .into_iter()
            .flatten()
            .map(|end| end.verified_bytes)
            .find(|verified| *verified > 0),
        options: options::of_cell(levels, trials),
        per_flow: per_flow(trials),
    }
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

/// The CPU time of a cell.
pub fn cpu(levels: &Spec, trials: &[&Trial], irq_accounting: Option<bool>) -> CpuView {
    let (source, sink) = (source_sums(trials), sink_sums(trials));
    // A program of the user is no end of a path: its CPU time is that of a run.
    let is_program = trials.iter().any(|trial| trial.task().is_some());
    let agree = windows_agree(levels, trials) && !is_program;
    let per_gib = |end: Option<EndCounts>| end.and_then(|end| cpu_view(&end, 1).total_s_per_gib).filter(|_| agree);
    let view = |end: EndCounts, threads: u64| {
        let view = cpu_view(&end, threads);
        let reported = |value: Option<f64>| value.filter(|_| agree);
        EndCpu {
            user_s_per_gib: reported(view.user_s_per_gib),
            system_s_per_gib: reported(view.system_s_per_gib),
            total_s_per_gib: reported(view.total_s_per_gib),
            ..view
        }
    };
    let ends = match (source, per_gib(source), per_gib(sink)) {
        (Some(_), Some(a), Some(b)) => Some(a + b),
        (None, _, Some(b)) => Some(b),
        _ => None,
    };
    let threads = threads(levels);
    let machine = Machine::of(trials);
    let busy = machine.as_ref().and_then(Machine::busy_s_per_gib);
    CpuView {
        source: source.map(|end| view(end, threads[0])),
        sink: sink.map(|end| view(end, threads[1])),
        ends_s_per_gib: ends,
        machine_busy_s_per_gib: busy,
        unattributed_s_per_gib: busy.zip(ends).map(|(busy, ends)| busy - ends),
        softirq_cpus: machine.as_ref().and_then(Machine::softirq_cpus),
        net_rx_busiest_share: machine.as_ref().and_then(Machine::net_rx_busiest_share),
        softirq_billed_to_interrupted: irq_accounting.map(|on| !on),
    }
}

/// Sums of what the machine did.
struct Machine {
    wall_ns: u64,
    busy_ns: u64,
    softirq_ns: u64,
    bytes: u64,
    net_rx: Vec<u64>,
}

impl Machine {
    /// `None` below 1 s of observation.
    fn of(trials: &[&Trial]) -> Option<Machine> {
        let mut sums = Machine { wall_ns: 0, busy_ns: 0, softirq_ns: 0, bytes: 0, net_rx: Vec::new() };
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

    fn busy_s_per_gib(&self) -> Option<f64> {
        ratio(self.busy_ns, self.bytes).map(|ns| ns * GIB / 1e9)
    }

    fn softirq_cpus(&self) -> Option<f64> {
        ratio(self.softirq_ns, self.wall_ns)
    }

    fn net_rx_busiest_share(&self) -> Option<f64> {
        let all = self.net_rx.iter().copied().fold(0, u64::saturating_add);
        ratio(self.net_rx.iter().copied().max()?, all)
    }
}

/// The writers' `TCP_INFO`, over flows and trials.
#[derive(Default)]
struct Tcp {
    retransmits: Option<u64>,
    busy_us: Option<u64>,
    rwnd_limited_us: Option<u64>,
    sndbuf_limited_us: Option<u64>,
    delivery_rates: Vec<f64>,
    min_rtt_us: Option<u64>,
    snd_wscale: Option<u8>,
    rcv_wscale: Option<u8>,
}

impl Tcp {
    fn of(trials: &[&Trial]) -> Tcp {
        let mut tcp = Tcp::default();
        for source in trials.iter().filter_map(|trial| trial.source_side()) {
            let mut delivery: Option<u64> = None;
            for report in source.flows.iter().filter_map(|flow| flow.tcp.as_deref()) {
                add(&mut tcp.retransmits, report.retransmits.get());
                add(&mut tcp.busy_us, report.busy_us.get());
                add(&mut tcp.rwnd_limited_us, report.rwnd_limited_us.get());
                add(&mut tcp.sndbuf_limited_us, report.sndbuf_limited_us.get());
                add(&mut delivery, report.delivery_rate.get());
                tcp.min_rtt_us = match (tcp.min_rtt_us, report.min_rtt_us.get()) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
                tcp.snd_wscale = tcp.snd_wscale.or(report.snd_wscale);
                tcp.rcv_wscale = tcp.rcv_wscale.or(report.rcv_wscale);
            }
            tcp.delivery_rates.extend(delivery.map(|rate| rate as f64));
        }
        tcp
    }

    fn limited_share(&self, limited_us: Option<u64>) -> Option<f64> {
        ratio(limited_us?, self.busy_us?)
    }
}

fn add(sum: &mut Option<u64>, value: Option<u64>) {
    if let Some(value) = value {
        *sum = Some(sum.unwrap_or(0).saturating_add(value));
    }
}

fn queued<'a>(reports: impl Iterator<Item = &'a EndReport>) -> Option<u64> {
    reports.flat_map(|report| &report.flows).filter_map(|flow| flow.queued_bytes.get()).max()
}

fn socket_memory<'a>(reports: impl Iterator<Item = &'a EndReport>) -> Option<u64> {
    let held: Vec<f64> = reports
        .filter_map(|report| {
            let flows = report.flows.iter().filter_map(|flow| flow.socket_memory.get());
            flows.reduce(u64::saturating_add).map(|bytes| bytes as f64)
        })
        .collect();
    median(&held).map(|bytes| bytes.round() as u64)
}

fn per_flow(trials: &[&Trial]) -> Option<PerFlow> {
    let mut rates: Vec<Vec<f64>> = Vec::new();
    for sink in trials.iter().filter_map(|trial| trial.sink_side()) {
        rates.resize(rates.len().max(sink.flows.len()), Vec::new());
        for (flow, rates) in sink.flows.iter().zip(&mut rates) {
            rates.extend(ratio(flow.bytes, flow.window_ns).map(|per_ns| per_ns * 1e9));
        }
    }
    if rates.len() < 2 {
        return None;
    }
    let rates: Vec<f64> = rates.iter().filter_map(|rates| median(rates)).collect();
    Some(PerFlow {
        min: rates.iter().copied().reduce(f64::min)?,
        median: median(&rates)?,
        max: rates.iter().copied().reduce(f64::max)?,
        rates,
    })
}
