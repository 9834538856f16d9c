//! Gathers the input of the rules of [`bytegauge_bottleneck`]. Decides nothing.

use std::collections::BTreeMap;

use bytegauge_bottleneck::call::{CallSigns, Waits};
use bytegauge_bottleneck::relay::RelaySigns;
use bytegauge_bottleneck::ring::RingSigns;
use bytegauge_bottleneck::stream::StreamSigns;
use bytegauge_model::cell::{BUFFERS, buffer_size};
use bytegauge_model::spec::derived::{flows, lanes, threads, ways};
use bytegauge_model::{
    EndCounts, Level, Placement, RelayChoice, RelayMethod, RelayPlacement, RelayThreads, Role, Spec, Workload,
};
use bytegauge_stats::quantile::median;
use bytegauge_stats::trial_counts::{queued_ns, sink_sums, source_sums};

use super::calls;
use super::counted_trials::Settled;
use super::knee::objective;
use super::levels::moves_nothing;
use super::listener_queue::{listen_overflows, not_accepted};
use super::numbers::{CallView, Counters, CpuView, RingView};

/// The known properties of a cell before its limit is determined.
pub struct Known<'a> {
    /// The cell and its trials.
    pub settled: &'a Settled<'a>,
    /// Its median rate, bytes per second.
    pub rate: Option<f64>,
    /// Its counters.
    pub counters: &'a Counters,
    /// Its CPU time.
    pub cpu: &'a CpuView,
    /// CPUs that the session might use.
    pub cpus: Option<u64>,
    /// The null engine's time per call, ns.
    pub floor_ns: Option<f64>,
    /// See [`larger_buffers`].
    pub larger_buffer: Option<(&'static str, f64)>,
    /// See [`super::counters::cheapest_siblings`].
    pub cheapest_nop_ns: Option<f64>,
}

/// An end over the trials of a cell.
struct Watched {
    sums: EndCounts,
    threads: u64,
    /// See [`queued_ns`]; `None` too if the cause of a wait is unknown.
    queued_ns: Option<u64>,
}

impl Watched {
    fn idle_per_sleep_us(&self) -> Option<f64> {
        let awake_ns = self.sums.cpu_ns as f64 + self.queued_ns.unwrap_or(0) as f64;
        let idle_ns = self.sums.window_ns as f64 * self.threads as f64 - awake_ns;
        let is_known = self.sums.cpu_ns > 0 && self.sums.voluntary_switches > 0;
        is_known.then(|| idle_ns.max(0.0) / self.sums.voluntary_switches as f64 / 1e3)
    }

    fn queued_share(&self) -> Option<f64> {
        let all_ns = self.sums.window_ns as f64 * self.threads as f64;
        Some(self.queued_ns? as f64 / all_ns).filter(|_| all_ns > 0.0)
    }
}

/// The end that connects, and the one that is connected to.
fn ends(known: &Known) -> (Option<Watched>, Option<Watched>) {
    let trials = &known.settled.trials;
    let [near, far] = threads(&known.settled.cell.factors);
    let if_charged = |ns: Option<u64>| ns.filter(|_| !is_uncharged(known));
    let source = source_sums(trials).map(|sums| {
        let queued_ns = if_charged(queued_ns(trials.iter().filter_map(|trial| trial.source_side()), near));
        Watched { sums, threads: near, queued_ns }
    });
    let sink = sink_sums(trials).map(|sums| {
        let queued_ns = if_charged(queued_ns(trials.iter().filter_map(|trial| trial.sink_side()), far));
        Watched { sums, threads: far, queued_ns }
    });
    (source, sink)
}

/// Gathers the signs of one cell.
pub fn gather(known: &Known) -> StreamSigns {
    let levels = &known.settled.cell.factors;
    let (source, sink) = ends(known);
    let call_ns =
        [&source, &sink].into_iter().flatten().filter_map(|end| call_ns(&end.sums, end.threads)).reduce(f64::min);
    let busy = |end: &Option<Watched>| end.as_ref().and_then(|end| end.sums.cpus());
    StreamSigns {
        two_ended: levels.transport().map_or(source.is_some(), bytegauge_model::Transport::two_ended),
        moves_nothing: moves_nothing(levels),
        same_cpu: levels.placement() == Some(Placement::SameCpu),
        threads: lanes(levels),
        // Two hosts have none in common.
        cpus: known.cpus.filter(|_| !levels.spans_hosts()),
        source_cpus: busy(&source),
        sink_cpus: busy(&sink),
        sink_system_share: system_share(sink.as_ref()),
        source_idle_per_sleep_us: source.as_ref().and_then(Watched::idle_per_sleep_us),
        sink_idle_per_sleep_us: sink.as_ref().and_then(Watched::idle_per_sleep_us),
        source_queued_share: source.as_ref().and_then(Watched::queued_share),
        sink_queued_share: sink.as_ref().and_then(Watched::queued_share),
        softirq_busiest_cpus: known
            .cpu
            .softirq_cpus
            .zip(known.cpu.net_rx_busiest_share)
            .map(|(all, share)| all * share),
        rwnd_limited_share: known.counters.rwnd_limited_share,
        sndbuf_limited_share: known.counters.sndbuf_limited_share,
        larger_buffer: known.larger_buffer,
        offered_rate: offered_rate(levels),
        link_rate: link_rate(levels),
        rate: known.rate,
        think_share: source.as_ref().and_then(|end| think_share(&end.sums, levels)),
        floor_share: known.floor_ns.zip(call_ns).map(|(floor, call)| floor / call),
        relay: gather_of_relay(known),
    }
}

fn system_share(end: Option<&Watched>) -> Option<f64> {
    let spent = end.map(|end| &end.sums).filter(|end| end.user_ns > 0 || end.system_ns > 0)?;
    Some(spent.system_ns as f64 / (spent.user_ns as f64 + spent.system_ns as f64))
}

/// Whether the kernel relays without charging a process: then an end that waits for a CPU may wait for that, not for other
/// programs.
fn is_uncharged(known: &Known) -> bool {
    let method = known.settled.cell.factors.relay().and_then(RelayChoice::method);
    method.is_some_and(|method| !method.has_back_pressure())
}

/// Gathers the signs of a relay, if there is one.
fn gather_of_relay(known: &Known) -> Option<RelaySigns> {
    let levels = &known.settled.cell.factors;
    let per_trial: Vec<f64> = known.settled.trials.iter().filter_map(|trial| trial.relay_cpus()).collect();
    // An external program may use as many as there are.
    let method = levels.relay()?.method();
    if is_uncharged(known) {
        return None;
    }
    let alone = method.is_some_and(RelayMethod::has_one_thread) || levels.relay_threads() == Some(RelayThreads::One);
    let pinned = levels
        .relay_placement()
        .is_some_and(|place| !matches!(place, RelayPlacement::Unpinned | RelayPlacement::Follows));
    let each = if levels.workload() == Workload::Call { 2 } else { 1 };
    let threads = if method.is_some() { flows(levels) * each } else { u64::MAX };
    let ends = [source_sums(&known.settled.trials), sink_sums(&known.settled.trials)];
    Some(RelaySigns {
        cpus: median(&per_trial)?,
        capacity: if alone || pinned { 1.0 } else { threads.min(known.cpus.unwrap_or(1).max(1)) as f64 },
        ends_cpus: ends.into_iter().flatten().filter_map(|end| end.cpus()).sum(),
        machine_cpus: known.cpus,
    })
}

/// Gathers the signs of one cell of rings.
pub fn gather_of_rings(known: &Known, ring: &RingView) -> RingSigns {
    let (_, end) = ends(known);
    let end = end.as_ref();
    let nop_ns = known.rate.filter(|rate| *rate > 0.0).map(|rate| 1e9 / rate);
    RingSigns {
        moves_nothing: moves_nothing(&known.settled.cell.factors),
        nop_ns,
        cheapest_nop_ns: known.cheapest_nop_ns,
        nops_per_enter: ring.nops_per_enter,
        busy: end.and_then(|end| end.sums.cpus()),
        system_share: system_share(end),
        kernel_thread_cpus: ring.kernel_thread_cpus,
        queued_share: end.and_then(Watched::queued_share),
        floor_share: known.floor_ns.zip(nop_ns).map(|(floor, nop)| floor / nop),
    }
}

/// Gathers the signs of one cell of calls.
pub fn gather_of_calls(known: &Known, call: &CallView) -> CallSigns {
    let levels = &known.settled.cell.factors;
    let (client, server) = ends(known);
    let (client, server) = (client.as_ref(), server.as_ref());
    let [client_lanes, server_lanes] = threads(levels);
    let placement = levels.placement();
    let (pinned, same_cpu) =
        (placement.is_some_and(|place| place != Placement::Unpinned), placement == Some(Placement::SameCpu));
    // Pinned to two places each end has half of the CPUs; on one CPU, or without pinning, they share all.
    // Two hosts have none in common, and the number of the other's is unknown here.
    let cpus = if levels.spans_hosts() { u64::MAX } else { known.cpus.unwrap_or(1).max(1) };
    let own = |lanes: u64| lanes.min(if pinned { (cpus / 2).max(1) } else { cpus }) as f64;
    let cpus_of = |end: Option<&Watched>| end.and_then(|end| end.sums.cpus());
    let busy = |end: Option<&Watched>| cpus_of(end).zip(end).map(|(used, end)| used / own(end.threads));
    let together = if same_cpu { 1.0 } else { (client_lanes + server_lanes).min(cpus) as f64 };
    let shares = same_cpu || (!pinned && client_lanes + server_lanes > cpus);
    let used = cpus_of(client).zip(cpus_of(server));
    let share = |count: u64| (call.begun > 0).then(|| count as f64 / call.begun as f64);
    let listen_overflows = listen_overflows(known.settled);
    let client_call_ns = client
        .and_then(|end| (call.calls > 0).then(|| end.sums.window_ns as f64 * client_lanes as f64 / call.calls as f64));
    CallSigns {
        same_cpu,
        client_busy: busy(client),
        server_busy: busy(server),
        both_busy: used.filter(|_| shares).map(|(client, server)| (client + server) / together),
        client_idle_per_sleep_us: client.and_then(Watched::idle_per_sleep_us),
        server_idle_per_sleep_us: server.and_then(Watched::idle_per_sleep_us),
        client_queued_share: client.and_then(Watched::queued_share),
        server_queued_share: server.and_then(Watched::queued_share),
        softirq_busiest_cpus: known
            .cpu
            .softirq_cpus
            .zip(known.cpu.net_rx_busiest_share)
            .map(|(all, share)| all * share),
        offered_rate: levels.offered_rate().map(|rate| rate as f64),
        objective: call.knee.as_ref().and_then(objective),
        rate: known.rate,
        think_share: levels.think_time().zip(known.rate).map(|(ns, rate)| {
            let per_flow = rate / flows(levels) as f64;
            ns as f64 / 1e9 * per_flow
        }),
        waits: waits(known, call),
        failed_share: share(call.failed),
        not_accepted_share: share(not_accepted(&call.errors, listen_overflows)),
        listen_overflows,
        floor_share: known.floor_ns.zip(client_call_ns).map(|(floor, call)| floor / call),
        relay: gather_of_relay(known),
    }
}

/// Waiting for delayed acknowledgements.
fn waits(known: &Known, call: &CallView) -> Option<Waits> {
    let seen = calls::waiting(call, known.counters)?;
    Some(Waits { slow_share: seen.slow_share, time_share: seen.slow_time_share, acks: seen.acks })
}

/// The share of an offered load that trials answered: all together, at the rate `total`, or the median one, whichever is more. A pause of
/// the machine in a few trials shows nothing of an option.
pub fn carried_share(total: Option<f64>, median: Option<f64>, levels: &Spec) -> Option<f64> {
    Some(total?.max(median?) / offered_rate(levels)?)
}

/// Offered bytes or calls per second, of both directions together if both are used; `None` for the maximum.
fn offered_rate(levels: &Spec) -> Option<f64> {
    Some(levels.offered_rate()? as f64 * ways(levels) as f64)
}

/// Bytes of data per second that an emulated link can carry at most, of both directions together if both are used; `None` without
/// a link.
pub fn link_rate(levels: &Spec) -> Option<f64> {
    Some(levels.emulated_link()?.data_rate() * ways(levels) as f64)
}

/// Wall time of a thread per call, ns.
pub fn call_ns(end: &EndCounts, flows: u64) -> Option<f64> {
    (end.calls > 0 && end.window_ns > 0).then(|| end.window_ns as f64 * flows as f64 / end.calls as f64)
}

fn think_share(end: &EndCounts, levels: &Spec) -> Option<f64> {
    let think_ns = levels.think_time().filter(|ns| *ns > 0)? as f64;
    // The last pause may end after the window.
    (end.window_ns > 0).then(|| (think_ns * end.calls as f64 / (end.window_ns as f64 * flows(levels) as f64)).min(1.0))
}

/// A cell among those that differ in one buffer alone: the buffer's size, the rate, and its place.
type Sibling = (u64, f64, usize);

/// For each cell the kernel buffer whose larger size, all else equal and in the same stage, gains most, and the gain as a share.
/// Cells of one group, with their median rates.
pub fn larger_buffers(cells: &[(&Settled, Option<f64>)]) -> Vec<Option<(&'static str, f64)>> {
    let mut gains: Vec<Option<(&'static str, f64)>> = vec![None; cells.len()];
    for buffer in BUFFERS {
        let mut families: BTreeMap<(Spec, bool), Vec<Sibling>> = BTreeMap::new();
        for (at, (settled, rate)) in cells.iter().enumerate() {
            let levels = &settled.cell.factors;
            let size = buffer_size(buffer, levels, &settled.trials);
            if let (Some(size), Some(rate)) = (size, *rate)
                && levels.get(buffer) != Level::Absent
            {
                let mut others = levels.of_role(Role::Choice);
                others.retain(|name| name != buffer);
                families.entry((others, settled.is_confirmed())).or_default().push((size, rate, at));
            }
        }
        for family in families.values_mut() {
            // Largest first; cells of one size must not count as larger than each other.
            family.sort_by_key(|(size, _, at)| (std::cmp::Reverse(*size), *at));
            let mut fastest_larger = 0.0_f64;
            for same_size in family.chunk_by(|a, b| a.0 == b.0) {
                for (_, rate, at) in same_size {
                    let gain = fastest_larger / rate - 1.0;
                    if gain > gains[*at].map_or(0.0, |(_, gain)| gain) {
                        gains[*at] = Some((buffer, gain));
                    }
                }
                fastest_larger = same_size.iter().map(|(_, rate, _)| *rate).fold(fastest_larger, f64::max);
            }
        }
    }
    gains
}
