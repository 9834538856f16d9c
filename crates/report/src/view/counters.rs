//! The counts of the trials behind an estimate, summed, and their CPU time.

use bytegauge_model::threads::threads;
use bytegauge_model::{EndCounts, Spec, Trial, Workload};
use bytegauge_stats::quantile::median;
use bytegauge_stats::trial_counts::{
    GIB, MachineSums, TcpSums, queued, ratio, sink_sums, socket_memory, source_sums, windows_agree,
};

use super::document::{Counters, CpuView, EndCpu, PerFlow};
use super::options;

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
    let tcp = TcpSums::of(trials);
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
    let machine = MachineSums::of(trials);
    let busy = machine.as_ref().and_then(MachineSums::busy_s_per_gib);
    CpuView {
        source: source.map(|end| view(end, threads[0])),
        sink: sink.map(|end| view(end, threads[1])),
        ends_s_per_gib: ends,
        machine_busy_s_per_gib: busy,
        unattributed_s_per_gib: busy.zip(ends).map(|(busy, ends)| busy - ends),
        softirq_cpus: machine.as_ref().and_then(MachineSums::softirq_cpus),
        net_rx_busiest_share: machine.as_ref().and_then(MachineSums::net_rx_busiest_share),
        softirq_billed_to_interrupted: irq_accounting.map(|on| !on),
    }
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
