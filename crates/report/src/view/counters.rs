//! The counts of the trials behind an estimate, summed, and their CPU time; those of datagrams and of rings.
//!
//! Also the options in force, and the rules of harm.

use std::collections::BTreeMap;

use bytegauge_model::option::{self, OPTIONS, OptionRow};
use bytegauge_model::trial::effective;
use bytegauge_model::{
    CallDatagrams, CellKind, DatagramReport, Deaths, EffectiveOptions, EndCounts, EndRole, EngineReport, Level,
    LossShare, RingReport, Side, Spec, Trial, UdpUse, Workload, factor,
};
use bytegauge_stats::call_times::{ObservedCalls, observed};
use bytegauge_stats::quantile::median;
use bytegauge_stats::trial_counts::{GIB, MachineSums, TcpSums, ratio, sink_sums, source_sums, windows_agree};
use serde_json::Value;

use super::calls::listen_overflows;
use super::counted_trials::Settled;
use super::numbers::schema::json_of;
use super::numbers::{
    CallDatagramView, CellView, Counters, CpuView, DatagramView, EndCpu, HarmKind, HarmView, OptionView, RingView,
};

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
    let mut verified = [sink, source].into_iter().flatten().map(|end| end.verified_bytes);
    Counters {
        bytes: trials.iter().map(|trial| trial.bytes).reduce(u64::saturating_add).filter(|_| moves),
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
        verified_bytes: verified.find(|verified| *verified > 0),
        options: of_cell(levels, trials),
    }
}

fn tcp_drops(trials: &[&Trial]) -> BTreeMap<String, u64> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    let machines = trials.iter().filter_map(|trial| trial.machine.as_ref());
    for (name, count) in machines.flat_map(|machine| &machine.tcp_drops) {
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
    let counted = |trial: &&Trial| -> Option<(DatagramReport, DatagramReport, Deaths)> {
        let of = |role| trial.end(role)?.datagrams.as_deref();
        let (source, sink) = of(EndRole::Source).zip(of(EndRole::Sink))?;
        Some((*source, *sink, Deaths::of(source, sink)))
    };
    let sums = trials.iter().filter_map(counted);
    let (source, sink, deaths) = sums.reduce(|a, b| (a.0.plus(&b.0), a.1.plus(&b.1), a.2.plus(&b.2)))?;
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

// Options of sockets and pipes, as asked for and as they are in force. Linux changes many requests in silence; here
// every one is compared with what it should have become.

/// Every option that was requested, or that an end reports.
fn of_cell(levels: &Spec, trials: &[&Trial]) -> BTreeMap<&'static str, OptionView> {
    let source = effective(trials, Trial::source_side);
    let sink = effective(trials, Trial::sink_side);
    let at = |end: Option<&EffectiveOptions>, name: &str| end.map(|end| json_of(end.get(name))).unwrap_or_default();
    let shown = OPTIONS.iter().map(|row| {
        let view = OptionView {
            requested: json_of(&levels.get(row.factor)),
            source: at(source, row.factor),
            sink: at(sink, row.factor),
            as_asked: as_asked(row, levels, [source, sink]),
        };
        (row.factor, view)
    });
    let share = |end: Option<&EffectiveOptions>| end.map(|end| Value::from(end.page_cache_share)).unwrap_or_default();
    let cached = OptionView { source: share(source), sink: share(sink), ..OptionView::default() };
    shown.chain([("page_cache_share", cached)]).filter(|(_, option)| *option != OptionView::default()).collect()
}

/// The options that an end of the cell's workload should have in force, by the end's side: source first, then sink.
fn expected(row: &OptionRow, levels: &Spec) -> Option<(Level, [bool; 2])> {
    let level = option::asked(levels, row)?;
    let ends = levels.workload().path_ends()?;
    let (setters, _) = (row.sites)(levels);
    Some((row.expected(&level), ends.map(|end| setters.contains(&end))))
}

/// Whether a request is in force at every end that made it; `None` without a request, or where it is not known.
fn as_asked(row: &OptionRow, levels: &Spec, ends: [Option<&EffectiveOptions>; 2]) -> Option<bool> {
    let (expected, sets) = expected(row, levels)?;
    let reported = ends.into_iter().zip(sets).filter(|(_, sets)| *sets);
    let reported = reported.filter_map(|(end, _)| Some(end?.get(row.factor)).filter(|level| **level != Level::Absent));
    reported.map(|level| *level == expected).reduce(|one, other| one && other)
}

/// Notes on requests that the kernel changed.
pub fn option_notes(cells: &[CellView]) -> Vec<String> {
    let mut changed: Vec<String> = Vec::new();
    for cell in cells.iter().filter(|cell| cell.kind == CellKind::Candidate) {
        for (name, view) in cell.counters.options.iter().filter(|(_, view)| view.as_asked == Some(false)) {
            let text = change(name, cell, view);
            changed.extend(text.filter(|text| !changed.contains(text)));
        }
    }
    changed
}

fn change(name: &str, cell: &CellView, view: &OptionView) -> Option<String> {
    let (row, factor) = (option::of_factor(name)?, factor::find(name)?);
    let levels = &cell.factors;
    let (expected, sets) = expected(row, levels)?;
    let shown = |value: &Value| serde_json::from_value(value.clone()).map(|level: Level| factor.kind.show(&level)).ok();
    let ends = levels.workload().path_ends()?.into_iter().zip([&view.source, &view.sink]).zip(sets);
    let differ = ends.filter(|((_, found), sets)| *sets && !found.is_null() && **found != json_of(&expected));
    let differ: Vec<(EndRole, &Value)> = differ.map(|(end, _)| end).collect();
    let found = differ.iter().map(|(end, found)| Some(format!("{} at the {end}", shown(found)?)));
    let found: Vec<String> = found.collect::<Option<_>>()?;
    let in_force: Level = serde_json::from_value(differ.first()?.1.clone()).ok()?;
    let (asked, why) = (shown(&view.requested)?, row.explained(&expected, &in_force));
    Some(format!("--{} {asked}: {} is {}: {why}", factor.flag(), row.name, found.join(" and ")))
}

// Harm that a rate does not show: clients without an answer, overflows of a listener's queue, time-outs of TCP, failed calls, lost
// datagrams, and zero-copy sends that were copied.
//
// An option with more harm than another one of its test is never recommended for its rate. The options of a test are compared
// with each other, since harm that all of them have is no reason to choose one. Computes no intervals: the thresholds are
// shares that a user would notice.

/// A kind of harm, how it is read, and by how much it must exceed the least of the test.
struct HarmRule {
    kind: HarmKind,
    read: fn(&HarmView) -> Option<f64>,
    noticed: f64,
}

const RULES: &[HarmRule] = &[
    HarmRule { kind: HarmKind::StarvedClients, read: |harm| harm.starved_share, noticed: 0.02 },
    HarmRule { kind: HarmKind::ListenOverflows, read: |harm| harm.overflow_share, noticed: 0.001 },
    HarmRule { kind: HarmKind::TimeOuts, read: |harm| harm.timeout_share, noticed: 0.001 },
    HarmRule { kind: HarmKind::FailedCalls, read: |harm| harm.failed_share, noticed: 0.002 },
    HarmRule { kind: HarmKind::LostDatagrams, read: |harm| harm.lost_share, noticed: 0.005 },
    HarmRule { kind: HarmKind::CopiedSends, read: |harm| harm.copied_share, noticed: 0.5 },
];

/// A call is starved when it takes this many times the median, and at least the measured time of a trial. If the times of calls
/// are exponentially distributed, 1.6 % of them (2^-6) take so long, which is less than what counts.
const STARVED_TIMES: u64 = 6;

/// The harm of one option.
pub fn harm(settled: &Settled) -> HarmView {
    let trials = settled.trials.as_slice();
    let calls = trials.iter().filter_map(|trial| trial.client());
    let (begun, failed) = calls.fold((0u64, 0u64), |(begun, failed), report| {
        let errors = report.errors.iter().map(|error| error.count).fold(0, u64::saturating_add);
        (begun.saturating_add(report.begun), failed.saturating_add(errors))
    });
    let observed: Vec<(u64, ObservedCalls)> =
        trials.iter().filter_map(|trial| Some((trial.wall_ns, observed(trial.client()?)?))).collect();
    let engines = || trials.iter().flat_map(|trial| sending_engines(trial));
    let zero_copy: u64 = engines().map(|engine| engine.zero_copy).sum();
    let copied: u64 = engines().map(|engine| engine.zero_copy_copied).sum();
    HarmView {
        starved_share: starved(&settled.cell.factors, &observed),
        overflow_share: listen_overflows(settled).filter(|_| begun > 0).and_then(|times| ratio(times, begun)),
        timeout_share: timeouts(settled),
        failed_share: ratio(failed, begun.max(failed)),
        lost_share: datagrams(settled).and_then(|seen| seen.lost_share),
        copied_share: ratio(copied, zero_copy),
        longest_ns: observed.iter().map(|(_, observed)| observed.longest_ns).max(),
    }
}

fn sending_engines(trial: &Trial) -> impl Iterator<Item = &EngineReport> {
    let roles = [EndRole::Source, EndRole::Client, EndRole::Server];
    roles.into_iter().filter_map(|role| trial.end(role)?.engine.as_deref())
}

/// Time-outs of TCP for each call, the median of the trials: the kernel counts those of all connections of this host, and other
/// programs have theirs in some trials only. None are its own where no connection of both ends sent a segment again. An emulated link
/// that loses packets causes time-outs by chance.
fn timeouts(settled: &Settled) -> Option<f64> {
    let resent = |trial: &&Trial| {
        let of = |role| {
            let flows = trial.end(role)?.flows.iter().filter_map(|flow| flow.tcp.as_deref()?.retransmits.get());
            flows.reduce(u64::saturating_add)
        };
        Some(of(EndRole::Client)?.saturating_add(of(EndRole::Server)?))
    };
    let spec = &settled.cell.factors;
    let loses = spec.link_loss().is_some_and(|loss| loss > LossShare(0));
    let keeps = spec.connect_per_call() != Some(true);
    if loses || (keeps && settled.trials.iter().all(|trial| resent(trial) == Some(0))) {
        return None;
    }
    let share = |trial: &&Trial| ratio(trial.machine.as_ref()?.timeouts.get()?, trial.client()?.begun);
    median(&settled.trials.iter().filter_map(share).collect::<Vec<f64>>())
}

/// The share of the clients whose call lasted through a whole trial. Where the plan fixes the rate, a client may have no call.
fn starved(levels: &Spec, trials: &[(u64, ObservedCalls)]) -> Option<f64> {
    let closed = levels.workload() == Workload::Call && levels.offered_rate().is_none() && levels.slo().is_none();
    let clients = levels.flows().unwrap_or(1).saturating_mul(levels.depth().unwrap_or(1));
    if !closed || trials.is_empty() {
        return None;
    }
    let share = |(wall_ns, observed): &(u64, ObservedCalls)| {
        let least_ns = (*wall_ns).max(observed.median_ns.saturating_mul(STARVED_TIMES));
        let starved: u64 = observed.left.iter().filter(|(age_ns, _)| *age_ns >= least_ns).map(|(_, count)| count).sum();
        (starved as f64 / clients.max(1) as f64).min(1.0)
    };
    Some(trials.iter().map(share).sum::<f64>() / trials.len() as f64)
}

/// The number of parts of the trials that must all show a kind of harm.
const PARTS: usize = 3;

/// The kinds of harm of each option of a test in which it exceeds another one: in all trials, and in each third of them. What happens
/// in one moment of a busy machine is no property of an option.
pub fn lasting(options: &[&Settled]) -> Vec<Vec<HarmKind>> {
    let found = |part: usize, parts: usize| {
        found(&options.iter().map(|settled| harm(&settled.part(part, parts))).collect::<Vec<_>>())
    };
    let mut kinds = found(0, 1);
    for seen in (0..PARTS).map(|part| found(part, PARTS)) {
        kinds.iter_mut().zip(seen).for_each(|(kinds, seen)| kinds.retain(|kind| seen.contains(kind)));
    }
    kinds
}

/// The harm of a kind that is compared between options.
pub fn compared_share(harm: &HarmView, kind: HarmKind) -> Option<f64> {
    (RULES.iter().find(|rule| rule.kind == kind)?.read)(harm)
}

/// The kinds of harm of which each option has noticeably more than another one. An option for which something was not counted has none
/// of it.
fn found(options: &[HarmView]) -> Vec<Vec<HarmKind>> {
    let least = |rule: &HarmRule| options.iter().map(|harm| (rule.read)(harm).unwrap_or(0.0)).reduce(f64::min);
    let bounds: Vec<f64> = RULES.iter().map(|rule| least(rule).unwrap_or(0.0) + rule.noticed).collect();
    let of = |own: &HarmView| {
        let exceeds = |(rule, bound): &(&HarmRule, &f64)| (rule.read)(own).is_some_and(|share| share >= **bound);
        RULES.iter().zip(&bounds).filter(exceeds).map(|(rule, _)| rule.kind).collect()
    };
    options.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(given: &[(&str, &str)]) -> Spec {
        given.iter().map(|(name, text)| (*name, factor::find(name).unwrap().kind.parse(text).unwrap())).collect()
    }

    /// Whether the request is in force as asked, where each end reports these levels.
    fn check(asked: &[(&str, &str)], source: &[(&str, &str)], sink: &[(&str, &str)], expected: Option<bool>) {
        let reported = |found| EffectiveOptions { levels: levels(found).into(), page_cache_share: None };
        let row = option::of_factor(asked[0].0).unwrap();
        let found = as_asked(row, &levels(asked), [Some(&reported(source)), Some(&reported(sink))]);
        assert_eq!(found, expected, "{asked:?} {source:?} {sink:?}");
    }

    #[test]
    fn requests_are_compared_where_they_were_made() {
        check(&[("sndbuf", "50K")], &[("sndbuf", "100K")], &[("sndbuf", "1K")], Some(true));
        check(&[("sndbuf", "50K")], &[("sndbuf", "60K")], &[], Some(false));
        check(&[("rcvbuf", "50K")], &[("rcvbuf", "1K")], &[("rcvbuf", "100K")], Some(true));
        check(&[("nodelay", "on"), ("request", "512")], &[("nodelay", "on")], &[("nodelay", "off")], Some(false));
        check(&[("nodelay", "on")], &[("nodelay", "on")], &[("nodelay", "off")], Some(true));
        check(&[("busy_poll", "1500ns")], &[], &[("busy_poll", "2us")], Some(true));
    }

    #[test]
    fn options_without_a_request_have_no_note() {
        check(&[("sndbuf", "auto")], &[("sndbuf", "100K")], &[], None);
        check(&[("sndbuf", "50K")], &[], &[("sndbuf", "100K")], None);
    }
}

#[cfg(test)]
mod tests_of_harm {
    use super::*;

    fn check(options: &[HarmView], expected: &[&[HarmKind]]) {
        assert_eq!(found(options), expected);
    }

    #[test]
    fn harm_counts_where_options_differ() {
        let lost = |share| HarmView { lost_share: Some(share), ..HarmView::default() };
        check(&[lost(0.016), lost(0.0)], &[&[HarmKind::LostDatagrams], &[]]);
        check(&[lost(0.93), lost(0.929)], &[&[], &[]]);
        let starved = |share, overflows| HarmView {
            starved_share: Some(share),
            overflow_share: Some(overflows),
            ..HarmView::default()
        };
        let both = [HarmKind::StarvedClients, HarmKind::ListenOverflows];
        check(&[starved(0.3, 0.004), starved(0.0, 0.0)], &[&both, &[]]);
        check(&[starved(0.01, 0.0004), starved(0.0, 0.0)], &[&[], &[]]);
    }

    #[test]
    fn copied_sends_count_as_harm() {
        let copied = HarmView { copied_share: Some(0.99), ..HarmView::default() };
        check(&[copied, HarmView::default()], &[&[HarmKind::CopiedSends], &[]]);
        check(&[copied, copied], &[&[], &[]]);
    }

    #[test]
    fn client_without_an_answer_is_starved() {
        let mut levels = Spec::of(Workload::Call);
        levels.set("flows", Level::Number(200));
        let trial = |left: Vec<(u64, u64)>, median_ns| {
            (100_000_000, ObservedCalls { median_ns, longest_ns: 130_000_000, left })
        };
        let check = |trials: &[(u64, ObservedCalls)], expected| assert_eq!(starved(&levels, trials), expected);
        check(&[trial(vec![(4_000_000, 129), (120_000_000, 71)], 4_000_000)], Some(71.0 / 200.0));
        check(&[trial(vec![(4_000_000, 200)], 4_000_000), trial(vec![(120_000_000, 20)], 4_000_000)], Some(0.05));
        // Calls that usually take as long as a trial show nothing.
        check(&[trial(vec![(120_000_000, 71)], 90_000_000)], Some(0.0));
        check(&[], None);
        levels.set("call_rate", Level::Number(1000));
        assert_eq!(starved(&levels, &[trial(vec![(120_000_000, 71)], 4_000_000)]), None);
    }
}
