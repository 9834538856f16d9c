//! The counts of the trials behind an estimate, summed, and their CPU time; those of datagrams and of rings.

use std::collections::BTreeMap;

use bytegauge_model::{
    CellKind, DatagramReport, Deaths, EndCounts, EndRole, Level, RingReport, Side, Spec, Trial, UdpUse, Workload,
};
use bytegauge_stats::trial_counts::{GIB, MachineSums, TcpSums, ratio, sink_sums, source_sums, windows_agree};

use super::counted_trials::Settled;
use super::numbers::{Counters, CpuView, DatagramView, EndCpu, RingView};
use super::options;

fn cpu_view(end: &EndCounts) -> EndCpu {
    let per_gib = |ns: u64| (end.cpu_ns > 0).then(|| ratio(ns, end.bytes)).flatten().map(|ns| ns * GIB / 1e9);
    EndCpu {
        user_s_per_gib: per_gib(end.user_ns),
        system_s_per_gib: per_gib(end.system_ns),
        total_s_per_gib: per_gib(end.cpu_ns),
        cpus: end.cpus(),
    }
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
    let tcp = TcpSums::of(trials);
    Counters {
        bytes: (moves && !trials.is_empty())
            .then(|| trials.iter().map(|trial| trial.bytes).fold(0, u64::saturating_add)),
        reads: reader.map(|end| end.calls),
        writes: writer.map(|end| end.calls),
        short_reads: reader.map(|end| end.short_calls),
        short_writes: writer.map(|end| end.short_calls),
        short_read_share: reader.and_then(|end| ratio(end.short_calls.min(end.calls), end.calls)),
        bytes_per_read: reader.and_then(|end| ratio(end.bytes, end.calls)),
        bytes_per_write: writer.and_then(|end| ratio(end.bytes, end.calls)),
        retransmits: tcp.retransmits,
        tcp_drops: tcp_drops(trials),
        rwnd_limited_share: tcp.limited_share(tcp.rwnd_limited_us),
        sndbuf_limited_share: tcp.limited_share(tcp.sndbuf_limited_us),
        min_rtt_us: tcp.min_rtt_us,
        verified_bytes: [sink, source]
            .into_iter()
            .flatten()
            .map(|end| end.verified_bytes)
            .find(|verified| *verified > 0),
        options: options::of_cell(levels, trials),
    }
}

fn tcp_drops(trials: &[&Trial]) -> BTreeMap<String, u64> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for (name, count) in trials.iter().filter_map(|trial| trial.machine.as_ref()).flat_map(|machine| &machine.tcp_drops)
    {
        let sum = sums.entry(name.clone()).or_default();
        *sum = sum.saturating_add(*count);
    }
    sums
}

/// The CPU time of a cell.
pub fn cpu(levels: &Spec, trials: &[&Trial]) -> CpuView {
    let (source, sink) = (source_sums(trials), sink_sums(trials));
    // A program of the user is no end of a path: its CPU time is that of a run.
    let is_program = trials.iter().any(|trial| trial.task().is_some());
    let agree = windows_agree(levels, trials) && !is_program;
    let per_gib = |end: Option<EndCounts>| end.and_then(|end| cpu_view(&end).total_s_per_gib).filter(|_| agree);
    let view = |end: EndCounts| {
        let view = cpu_view(&end);
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
    let machine = MachineSums::of(trials);
    CpuView {
        source: source.map(view),
        sink: sink.map(view),
        ends_s_per_gib: ends,
        machine_busy_s_per_gib: machine.as_ref().and_then(MachineSums::busy_s_per_gib),
        softirq_cpus: machine.as_ref().and_then(MachineSums::softirq_cpus),
        net_rx_busiest_share: machine.as_ref().and_then(MachineSums::net_rx_busiest_share),
    }
}

/// The datagrams of a cell; `None` where no trial counted any at both ends.
pub fn datagrams(settled: &Settled) -> Option<DatagramView> {
    let trials = settled.trials.as_slice();
    let mut sums: Option<(DatagramReport, DatagramReport, Deaths)> = None;
    for trial in trials {
        let counted = |role| trial.end(role)?.datagrams.as_deref();
        let Some((source, sink)) = counted(EndRole::Source).zip(counted(EndRole::Sink)) else { continue };
        let deaths = Deaths::of(source, sink);
        sums = Some(match sums {
            None => (*source, *sink, deaths),
            Some(sum) => (sum.0.plus(source), sum.1.plus(sink), sum.2.plus(&deaths)),
        });
    }
    let (source, sink, deaths) = sums?;
    // Earlier versions did not count the bursts that lost any.
    let burst = settled.cell.factors.burst().filter(|_| deaths.lost == 0 || sink.lossy_bursts > 0);
    // A call that sends several datagrams may begin in a burst and end in the next one.
    let share = |part, of| ratio(part, of).map(|share| share.min(1.0));
    Some(DatagramView {
        sent: source.total,
        arrived: sink.total,
        lost: deaths.lost,
        lost_share: ratio(deaths.lost, source.total),
        lost_at_socket: deaths.at_socket,
        lost_unknown: deaths.unknown,
        lossy_burst_share: burst.and_then(|size| share(sink.lossy_bursts, source.total.div_ceil(size.max(1)))),
        worst_burst_share: burst.and_then(|size| share(sink.worst_burst, size)),
        reordered: sink.reordered,
        duplicated: sink.duplicated,
        truncated: sink.truncated,
        cut_bytes: sink.cut_bytes,
        sends_refused: source.refused,
        datagrams_per_packet: ratio(sink.total, sink.total_packets),
        // Where they arrive on another host, it would be this one's that is blamed.
        namespace: namespace(trials).filter(|_| arrives_here(&settled.cell.factors)),
    })
}

fn arrives_here(levels: &Spec) -> bool {
    levels.far().is_none_or(|(_, direction)| direction.far_side() == Side::Source)
}

/// The kernel's counts of UDP meanwhile, of all programs.
pub(super) fn namespace(trials: &[&Trial]) -> Option<UdpUse> {
    let counted = trials.iter().filter_map(|trial| trial.machine.as_ref()?.udp.as_deref().copied());
    counted.reduce(|one, other| one.plus(&other))
}

/// The ring of a cell; `None` where none ran.
pub fn ring(settled: &Settled) -> Option<RingView> {
    let reports: Vec<&RingReport> = settled.trials.iter().filter_map(|trial| trial.ring()).collect();
    let first = reports.first()?;
    let sum = |read: fn(&RingReport) -> u64| reports.iter().map(|report| read(report)).fold(0, u64::saturating_add);
    let completed = settled.trials.iter().map(|trial| trial.calls).fold(0, u64::saturating_add);
    Some(RingView {
        submitted: sum(|report| report.submitted),
        completed,
        checked: sum(|report| report.checked),
        left: sum(|report| report.left),
        nops_per_enter: ratio(completed, sum(|report| report.enters)).filter(|n| *n > 0.0),
        overflowed_after_rounds: first.overflowed_after_rounds,
        kernel_thread_cpus: kernel_thread_cpus(&settled.trials),
    })
}

/// The kernel's thread lives as long as its ring: its CPU time is divided by completions.
fn kernel_thread_cpus(trials: &[&Trial]) -> Option<f64> {
    let part = |trial: &&Trial| {
        let (end, ring) = (trial.end(EndRole::Ring)?, trial.ring()?);
        let ns = end.engine.as_ref()?.kernel_threads_ns? as f64;
        Some((ns * end.calls as f64 / ring.total_completed.max(1) as f64, end.window_ns as f64))
    };
    let parts = trials.iter().filter_map(part);
    let (busy_ns, window_ns) = parts.fold((0.0, 0.0), |sums, (busy, window)| (sums.0 + busy, sums.1 + window));
    (busy_ns > 0.0 && window_ns > 0.0).then(|| busy_ns / window_ns)
}

/// Why a cell is shown and not compared: a loop that takes no completion measures something else.
pub fn artefact(settled: &Settled, ring: Option<&RingView>) -> Option<String> {
    if settled.cell.kind != CellKind::Artefact {
        return None;
    }
    let rounds = ring?.overflowed_after_rounds?;
    Some(format!(
        "an artefact, not compared: its loop never takes a completion; after {rounds} rounds the completion queue has \
         overflowed, and what it counts are submissions"
    ))
}

/// For each cell of a group the cheapest operation among the cells with the same ring and set-up, whatever their
/// size, ns: the remaining time when many operations share a system call.
pub fn cheapest_siblings(cells: &[(&Settled, Option<f64>)]) -> Vec<Option<f64>> {
    let ring = |levels: &Spec| ["implementation", "setup"].map(|name| levels.get(name).clone());
    let mut cheapest: BTreeMap<[Level; 2], f64> = BTreeMap::new();
    for (settled, rate) in cells {
        if let Some(rate) = rate.filter(|rate| *rate > 0.0) {
            let ns = cheapest.entry(ring(&settled.cell.factors)).or_insert(f64::INFINITY);
            *ns = ns.min(1e9 / rate);
        }
    }
    cells.iter().map(|(settled, _)| cheapest.get(&ring(&settled.cell.factors)).copied()).collect()
}
