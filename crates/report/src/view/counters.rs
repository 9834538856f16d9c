//! The counts of the trials behind an estimate, summed, and their CPU time; those of datagrams and of rings.

use std::collections::BTreeMap;

use bytegauge_model::{
    CallDatagrams, CellKind, DatagramReport, Deaths, EndCounts, EndRole, Level, RingReport, Side, Spec, Trial, UdpUse,
    Workload,
};
use bytegauge_stats::quantile::median;
use bytegauge_stats::trial_counts::{GIB, MachineSums, TcpSums, ratio, sink_sums, source_sums, windows_agree};

use super::counted_trials::Settled;
use super::numbers::{CallDatagramView, Counters, CpuView, DatagramView, EndCpu, RingView};
use super::options;

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
    // A program of the user is no end of a path: its CPU time is that of a run.
    let is_program = trials.iter().any(|trial| trial.task().is_some());
    let agree = windows_agree(levels, trials) && !is_program;
    let view = |end: EndCounts| {
        let is_known = agree && end.cpu_ns > 0;
        let per_gib = |ns: u64| ratio(ns, end.bytes).filter(|_| is_known).map(|ns| ns * GIB / 1e9);
        EndCpu {
            user_s_per_gib: per_gib(end.user_ns),
            system_s_per_gib: per_gib(end.system_ns),
            total_s_per_gib: per_gib(end.cpu_ns),
            cpus: end.cpus(),
        }
    };
    let (source, sink) = (source_sums(trials).map(view), sink_sums(trials).map(view));
    let total = |end: &Option<EndCpu>| end.as_ref()?.total_s_per_gib;
    let ends = match source {
        Some(_) => total(&source).zip(total(&sink)).map(|(source, sink)| source + sink),
        None => total(&sink),
    };
    let machine = MachineSums::of(trials);
    CpuView {
        ends_s_per_gib: ends,
        source,
        sink,
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
    // Where they arrive on another host, it would be this one's kernel that is blamed.
    let arrive_here = settled.cell.factors.far().is_none_or(|(_, direction)| direction.far_side() == Side::Source);
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
        namespace: namespace(trials).filter(|_| arrive_here),
    })
}

/// The kernel's counts of UDP meanwhile, of all programs.
fn namespace(trials: &[&Trial]) -> Option<UdpUse> {
    let counted = trials.iter().filter_map(|trial| trial.machine.as_ref()?.udp.as_deref().copied());
    counted.reduce(|one, other| one.plus(&other))
}

/// The datagrams of calls, and where they were lost; `None` if calls had connections. Only replies are rated; the datagrams sent for them
/// only explain losses.
pub fn call_datagrams(settled: &Settled) -> Option<CallDatagramView> {
    let trials = &settled.trials;
    let of_client = |trial: &Trial| trial.client()?.datagrams;
    let of_server = |trial: &Trial| trial.end(EndRole::Server)?.call.as_ref()?.datagrams;
    let of_rival = |trial: &Trial| trial.end(EndRole::Competitor)?.call.as_ref()?.datagrams;
    let sum = |of: &dyn Fn(&Trial) -> Option<CallDatagrams>| {
        trials.iter().filter_map(|trial| of(trial)).reduce(|a, b| a.plus(&b))
    };
    let client = [sum(&of_client), sum(&of_rival)].into_iter().flatten().reduce(|a, b| a.plus(&b))?;
    let server = sum(&of_server);
    let response = settled.cell.factors.response().or_else(|| settled.cell.factors.request());
    let rates: Vec<f64> = trials.iter().filter_map(|trial| trial.rate()).collect();
    let rate = median(&rates);
    Some(CallDatagramView {
        reply_bytes_per_second: rate.zip(response).map(|(rate, bytes)| rate * bytes as f64),
        requests_sent: client.sent,
        requests_dropped: server.map(|server| server.dropped),
        requests_truncated: server.map(|server| server.truncated),
        requests_lost_elsewhere: server.map(|server| lost(client.sent, server.received, server.dropped)),
        replies_unsent: server.map(|server| server.unsent),
        replies_dropped: client.dropped,
        replies_lost_elsewhere: server.map(|server| lost(server.sent, client.received, client.dropped)),
        late: client.late,
        duplicated: client.duplicated,
        overtaken: client.overtaken,
        strange: client.strange,
        namespace: namespace(trials),
    })
}

/// Datagrams that were sent, did not arrive, and are in no count of drops.
fn lost(sent: u64, came: u64, dropped: u64) -> u64 {
    sent.saturating_sub(came).saturating_sub(dropped)
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
