//! Gathers the input of the rules of [`bytegauge_bottleneck`]. Decides nothing.

use bytegauge_bottleneck::path::{EndSigns, PathSigns, RelaySigns, SharedCpus};
use bytegauge_bottleneck::ring::RingSigns;
use bytegauge_model::spec::derived::{flows, threads, ways};
use bytegauge_model::{
    EndCounts, EndReport, Placement, RelayMethod, RelayPlacement, RelayThreads, Spec, Transport, Trial, Workload,
};
use bytegauge_stats::quantile::median;
use bytegauge_stats::trial_counts::{queued_ns, sink_sums, source_sums};

use super::calls::{self, listen_overflows, not_accepted};
use super::counted_trials::Settled;
use super::moves_nothing;
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
    /// The time of all its threads.
    fn thread_ns(&self) -> f64 {
        self.sums.window_ns as f64 * self.threads as f64
    }

    fn idle_per_sleep_us(&self) -> Option<f64> {
        let awake_ns = self.sums.cpu_ns as f64 + self.queued_ns.unwrap_or(0) as f64;
        let idle_ns = self.thread_ns() - awake_ns;
        let is_known = self.sums.cpu_ns > 0 && self.sums.voluntary_switches > 0;
        is_known.then(|| idle_ns.max(0.0) / self.sums.voluntary_switches as f64 / 1e3)
    }

    fn queued_share(&self) -> Option<f64> {
        let all_ns = self.thread_ns();
        Some(self.queued_ns? as f64 / all_ns).filter(|_| all_ns > 0.0)
    }
}

/// The end that connects, and the one that is connected to.
fn ends(known: &Known) -> [Option<Watched>; 2] {
    let trials = &known.settled.trials;
    let [near, far] = threads(&known.settled.cell.factors);
    let watched = |sums: Option<EndCounts>, side: fn(&Trial) -> Option<&EndReport>, threads: u64| {
        let queued_ns = queued_ns(trials.iter().filter_map(|trial| side(trial)), threads);
        Some(Watched { sums: sums?, threads, queued_ns })
    };
    [watched(source_sums(trials), Trial::source_side, near), watched(sink_sums(trials), Trial::sink_side, far)]
}

/// Threads of both ends.
fn threads_of_ends(levels: &Spec) -> u64 {
    threads(levels).into_iter().fold(0, u64::saturating_add)
}

/// The same with those of streams that load the path.
fn own_threads(levels: &Spec) -> u64 {
    threads_of_ends(levels).saturating_add(levels.load_flows().unwrap_or(0))
}

/// Gathers the signs of one cell of a stream or of calls.
pub fn gather(known: &Known, call: Option<&CallView>) -> PathSigns {
    let levels = &known.settled.cell.factors;
    let ends = ends(known);
    let of_each = |of: &dyn Fn(&Watched) -> Option<f64>| ends.each_ref().map(|end| end.as_ref().and_then(of));
    let own_cpus = own_cpus(known);
    let busy = of_each(&|end| Some(end.sums.cpus()? / own_cpus(end.threads)));
    let idle = of_each(&Watched::idle_per_sleep_us);
    let queued = of_each(&Watched::queued_share);
    let sign = |at: usize| EndSigns { busy: busy[at], idle_per_sleep_us: idle[at], queued_share: queued[at] };
    let two_ended = levels.transport().map_or(ends[0].is_some(), Transport::two_ended) || call.is_some();
    let signs = PathSigns {
        two_ended,
        ends: [sign(0), sign(1)],
        shared: shared_cpus(known, &ends).filter(|_| two_ended),
        crowded: known.cpus.map(|cpus| (own_threads(levels), cpus)).filter(|(threads, cpus)| threads > cpus),
        softirq_busiest_cpus: known
            .cpu
            .softirq_cpus
            .zip(known.cpu.net_rx_busiest_share)
            .map(|(all, share)| all * share),
        offered_rate: offered_rate(levels),
        rate: known.rate,
        relay: gather_of_relay(known),
        ..PathSigns::default()
    };
    let floor_share = |call_ns: Option<f64>| known.floor_ns.zip(call_ns).map(|(floor, call)| floor / call);
    let Some(call) = call else {
        let call_ns = of_each(&|end| call_ns(&end.sums, end.threads)).into_iter().flatten().reduce(f64::min);
        return PathSigns {
            moves_nothing: moves_nothing(levels),
            think_share: ends[0].as_ref().and_then(|end| think_share(&end.sums, levels)),
            floor_share: floor_share(call_ns),
            reader_system_share: system_share(ends[1].as_ref()),
            rwnd_limited_share: known.counters.rwnd_limited_share,
            sndbuf_limited_share: known.counters.sndbuf_limited_share,
            link_rate: link_rate(levels),
            ..signs
        };
    };
    let share = |count: u64| (call.begun > 0).then(|| count as f64 / call.begun as f64);
    let listen_overflows = listen_overflows(known.settled);
    let client_call_ns = ends[0].as_ref().filter(|_| call.calls > 0).map(|end| end.thread_ns() / call.calls as f64);
    let pauses = levels.think_time().zip(known.rate);
    PathSigns {
        calls: true,
        think_share: pauses.map(|(ns, rate)| ns as f64 / 1e9 * rate / flows(levels) as f64),
        floor_share: floor_share(client_call_ns),
        objective: call.knee.as_ref().map(|knee| knee.objective),
        waits: calls::waiting(call, known.counters),
        failed_share: share(call.failed),
        not_accepted_share: share(not_accepted(&call.errors, listen_overflows)),
        listen_overflows,
        ..signs
    }
}

/// CPUs that the session might use. Two hosts have none in common, and the number of the other's is unknown here.
fn usable_cpus(known: &Known) -> u64 {
    if known.settled.cell.factors.spans_hosts() { u64::MAX } else { known.cpus.unwrap_or(u64::MAX).max(1) }
}

/// CPUs that an end with this number of threads can use: pinned to two places, each end has half of them. The flows of a stream that
/// are on the same CPUs, or more than there are pairs of CPUs, may be on any.
fn own_cpus(known: &Known) -> impl Fn(u64) -> f64 {
    let (cpus, levels) = (usable_cpus(known), &known.settled.cell.factors);
    let pinned = levels.placement().is_some_and(|place| place != Placement::Unpinned);
    let is_mixed = levels.placement() == Some(Placement::SameCpu) || threads_of_ends(levels) > cpus;
    let halves = pinned && !(levels.workload() == Workload::Stream && is_mixed);
    move |threads| threads.min(if halves { (cpus / 2).max(1) } else { cpus }).max(1) as f64
}

/// The CPUs that both ends share, on one CPU by the plan, or where they have fewer than one for each thread.
fn shared_cpus(known: &Known, ends: &[Option<Watched>; 2]) -> Option<SharedCpus> {
    let levels = &known.settled.cell.factors;
    let used: f64 = ends.iter().map(|end| end.as_ref()?.sums.cpus()).sum::<Option<f64>>()?;
    let (cpus, threads): (u64, u64) = (usable_cpus(known), threads_of_ends(levels));
    let shared = match levels.placement() {
        // A stream's flows have a CPU each, as long as there are CPUs.
        Some(Placement::SameCpu) if levels.workload() == Workload::Stream => (threads / 2).min(cpus),
        Some(Placement::SameCpu) => 1,
        _ if threads <= cpus => return None,
        None | Some(Placement::Unpinned) => cpus,
        _ if levels.workload() == Workload::Stream => cpus,
        _ => return None,
    };
    Some(SharedCpus { cpus: shared as f64, busy: used / shared as f64 })
}

fn system_share(end: Option<&Watched>) -> Option<f64> {
    let spent = end.map(|end| &end.sums).filter(|end| end.user_ns > 0 || end.system_ns > 0)?;
    Some(spent.system_ns as f64 / (spent.user_ns as f64 + spent.system_ns as f64))
}

/// Gathers the signs of a relay, if there is one.
fn gather_of_relay(known: &Known) -> Option<RelaySigns> {
    let levels = &known.settled.cell.factors;
    let per_trial: Vec<f64> = known.settled.trials.iter().filter_map(|trial| trial.relay_cpus()).collect();
    // An external program may use as many as there are.
    let method = levels.relay()?.method();
    let alone = method.is_some_and(RelayMethod::has_one_thread) || levels.relay_threads() == Some(RelayThreads::One);
    let pinned = levels.relay_placement().is_some_and(|place| place != RelayPlacement::Unpinned);
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
    let [_, end] = ends(known);
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
