//! The limit of a path between two ends: rules over recorded numbers, of streams, datagrams and calls.
//!
//! The rules are read together: their order decides. Rules that need numbers of one workload alone follow the common ones. Of calls
//! the client is the instrument: if it is the limit, the server could do more than the rate shows.

use bytegauge_model::unit::{Nanos, byte_rate, call_rate, counted, significant};
use schemars::JsonSchema;
use serde::Serialize;

use super::{BUSY, CellLimit, Evidence, OFFERED_SHARE, QUEUED, Rule, evidence, percent};

/// A rate closer than this to the offered one is shown as all of it: 99.9 % is no useful difference.
const ALL_OF_IT: f64 = 0.99;
/// A writer that pauses for half its time is limited by the pause.
const THINK_SHARE: f64 = 0.5;
/// Two busy ends this close are a balanced pipeline: neither alone is the limit.
const BALANCED: f64 = 0.05;
/// One CPU shared by both ends loses a few per cent to switching between them.
const SHARED_BUSY: f64 = 0.95;
/// Soft interrupts are counted in 10 ms ticks and split among CPUs by `NET_RX` counts: four fifths of a CPU remain clear after
/// both roundings.
const SOFTIRQ_BUSY: f64 = 0.8;
/// Idle time in pieces shorter than this is the cost of waking up (some 5 to 50 µs, more in a virtual machine); longer pieces
/// are waits for something else.
const WAKE_UP_US: f64 = 200.0;

/// The input of the rules, from the trials of a cell's estimate. Shares are between 0 and 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PathSigns {
    /// A client and a server make calls; else a writer and a reader move bytes.
    pub calls: bool,
    /// There is an end at both sides; else a file or a device is read.
    pub two_ended: bool,
    /// The engine moves nothing, so that the harness itself is measured.
    pub moves_nothing: bool,
    /// The writer or the client, then the reader or the server.
    pub ends: [EndSigns; 2],
    /// The CPUs that both ends share, if they have fewer than one for each thread.
    pub shared: Option<SharedCpus>,
    /// Soft interrupts of the busiest CPU, in CPUs: all of them times the share of `NET_RX` there.
    pub softirq_busiest_cpus: Option<f64>,
    /// Bytes or calls per second that the plan offered.
    pub offered_rate: Option<f64>,
    /// Bytes per second at the sink, or calls per second that were answered.
    pub rate: Option<f64>,
    /// Share of a flow's time in planned pauses.
    pub think_share: Option<f64>,
    /// The harness's floor over the cell's time per call.
    pub floor_share: Option<f64>,
    /// Threads of the test and CPUs for them, where there are more threads.
    pub crowded: Option<(u64, u64)>,
    /// The relay between the ends, if any.
    pub relay: Option<RelaySigns>,
    /// Share of the reader's CPU time that the kernel took.
    pub reader_system_share: Option<f64>,
    /// Share of the connections' busy time in which the receiver's window was the limit.
    pub rwnd_limited_share: Option<f64>,
    /// Share of the connections' busy time in which the send buffer was the limit.
    pub sndbuf_limited_share: Option<f64>,
    /// Bytes of data per second that an emulated link can carry at most, of both directions together if both are used.
    pub link_rate: Option<f64>,
    /// The latency objective that more calls per second would break.
    pub objective: Option<Objective>,
    /// Waiting for delayed acknowledgements, if that is possible.
    pub waits: Option<DelayedAcks>,
    /// Share of the calls begun that failed.
    pub failed_share: Option<f64>,
    /// Share of the calls begun that failed because the server's backlog was full.
    pub not_accepted_share: Option<f64>,
    /// How often a listener's queue was full, if the kernel counts it.
    pub listen_overflows: Option<u64>,
}

/// One end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EndSigns {
    /// CPU time of its threads over the capacity of the CPUs that they can use.
    pub busy: Option<f64>,
    /// Idle time of its threads between two voluntary switches, µs.
    pub idle_per_sleep_us: Option<f64>,
    /// Share of its window in which a thread could have run but waited for a CPU.
    pub queued_share: Option<f64>,
}

/// CPUs that both ends share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharedCpus {
    /// Their number.
    pub cpus: f64,
    /// CPU time of both ends over their capacity.
    pub busy: f64,
}

/// A relay between the ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RelaySigns {
    /// CPU time of the relay's process over its window, in CPUs.
    pub cpus: f64,
    /// CPUs that its threads could keep busy: one if a thread works for all connections.
    pub capacity: f64,
    /// CPU time of both ends, in CPUs.
    pub ends_cpus: f64,
    /// CPUs that the session might use.
    pub machine_cpus: Option<u64>,
}

/// How an end is called: in sentences, and in its limit and the keys of its numbers.
struct EndWords {
    name: &'static str,
    key: &'static str,
}

const STREAM_ENDS: [EndWords; 2] =
    [EndWords { name: "writer", key: "sender" }, EndWords { name: "reader", key: "receiver" }];

const CALL_ENDS: [EndWords; 2] =
    [EndWords { name: "client", key: "client" }, EndWords { name: "server", key: "server" }];

impl EndWords {
    fn key(&self, number: &str) -> String {
        format!("{}_{number}", self.key)
    }
}

/// The limit of a relay whose threads are busy all the time.
pub(super) const RELAY: &str = "relay CPU";
/// The limit of an end that waits while the relay uses its CPU.
pub(super) const RELAY_SHARED: &str = "CPU shared with the relay";
/// The limit of three programs on too few CPUs.
pub(super) const ALL: &str = "all CPUs";

/// The rules in their order: errors, and limits of the plan or the harness, come before those of a CPU, a full CPU before a full window
/// (a slow reader fills the window, not the other way round), and waiting for each other last, since every blocked pair looks like
/// that.
pub const RULES: &[Rule<PathSigns>] = &[
    Rule { name: "the harness", test: harness },
    Rule { name: "backlog", test: backlog },
    Rule { name: "errors", test: errors },
    Rule { name: "latency objective", test: latency_objective },
    Rule { name: DELAYED_ACKS, test: delayed_acknowledgements },
    Rule { name: "offered load", test: offered_load },
    Rule { name: "the source itself", test: source_itself },
    Rule { name: "the link", test: link },
    Rule { name: "shared CPU", test: shared_cpu },
    Rule { name: "both CPUs", test: both_cpus },
    Rule { name: "sender CPU", test: |signs| busy_end(signs, "sender CPU") },
    Rule { name: "receiver CPU", test: |signs| busy_end(signs, "receiver CPU") },
    Rule { name: "client CPU", test: |signs| busy_end(signs, "client CPU") },
    Rule { name: "server CPU", test: |signs| busy_end(signs, "server CPU") },
    Rule { name: RELAY, test: relay_cpu },
    Rule { name: ALL, test: all_cpus },
    Rule { name: RELAY_SHARED, test: shared_with_relay },
    Rule { name: "too few CPUs", test: too_few_cpus },
    Rule { name: "other programs", test: other_programs },
    Rule { name: "softirq", test: softirq },
    Rule { name: "window", test: window },
    Rule { name: "socket buffer", test: socket_buffer },
    Rule { name: "wake-ups", test: wake_ups },
];

/// The first rule that applies, with its evidence.
pub fn find(signs: &PathSigns) -> CellLimit {
    super::find(RULES, signs, unknown)
}

impl PathSigns {
    fn words(&self) -> &'static [EndWords; 2] {
        if self.calls { &CALL_ENDS } else { &STREAM_ENDS }
    }

    fn busy(&self) -> Option<[f64; 2]> {
        Some([self.ends[0].busy?, self.ends[1].busy?])
    }

    /// The largest share of time that an end waits for a CPU, unless it waits for the other end: ends that share CPUs by the
    /// plan wait for each other there; other programs took only CPU time that both together lack.
    fn queued(&self) -> Option<f64> {
        let far = self.ends[1].queued_share?;
        let near = if self.two_ended { self.ends[0].queued_share? } else { 0.0 };
        let taken = self.shared.map_or(1.0, |shared| 1.0 - shared.busy);
        (taken >= QUEUED).then_some(near.max(far))
    }

    /// The part of that which the relay cannot explain: only its CPU time is known, not where it ran.
    fn taken_by_others(&self, queued: f64) -> f64 {
        (queued - self.relay.map_or(0.0, |relay| relay.cpus)).max(0.0)
    }
}

fn harness(signs: &PathSigns) -> Option<Evidence> {
    if signs.moves_nothing {
        let sentence = "the engine moves nothing: this is the harness's own loop, and the reader's work if it has any";
        return Some(evidence(sentence, signs.ends[1].busy.map(|busy| ("receiver_busy", busy))));
    }
    super::harness(signs.floor_share, |share| {
        format!("measuring takes {share} of each call, so the system is faster than this rate shows")
    })
}

/// The rate or the pauses of the plan.
fn offered_load(signs: &PathSigns) -> Option<Evidence> {
    if let Some((offered, rate)) = signs.offered_rate.zip(signs.rate)
        && rate >= OFFERED_SHARE * offered
    {
        let part = match rate >= ALL_OF_IT * offered {
            true => String::new(),
            false => format!("{} of them ", percent(rate / offered)),
        };
        let (shown, done, instead, unit) = match signs.calls {
            true => (call_rate(offered), "answered", "CPU and latency", "calls_per_s"),
            false => (byte_rate(offered), "arrived", "CPU", "bytes_per_s"),
        };
        let sentence = format!("{shown} were offered and {part}{done}: compare {instead}, not rates");
        return Some(evidence(sentence, [(format!("offered_{unit}"), offered), (format!("rate_{unit}"), rate)]));
    }
    let share = signs.think_share.filter(|share| *share >= THINK_SHARE)?;
    let sentence = format!("the {} pauses {} of the time by order of the plan", signs.words()[0].name, percent(share));
    Some(evidence(sentence, [("think_share", share)]))
}

fn shared_cpu(signs: &PathSigns) -> Option<Evidence> {
    let SharedCpus { cpus, busy } = signs.shared.filter(|shared| shared.busy >= SHARED_BUSY)?;
    let sentence = match cpus == 1.0 {
        true => format!("both ends share one CPU, which they keep {} busy", percent(busy)),
        false => format!("both ends keep {} of the {cpus} CPUs they may use busy", percent(busy)),
    };
    Some(evidence(sentence, [("both_busy", busy), ("shared_cpus", cpus)]))
}

fn both_cpus(signs: &PathSigns) -> Option<Evidence> {
    let busy = signs.busy()?;
    let ends = || signs.words().iter().zip(busy);
    let each: Vec<String> = ends().map(|(end, busy)| format!("{} {}", end.name, percent(busy))).collect();
    let sentence = format!("both ends run nearly all the time: {}", each.join(", "));
    let [near, far] = busy;
    (near.min(far) >= BUSY && (near - far).abs() < BALANCED)
        .then(|| evidence(sentence, ends().map(|(end, busy)| (end.key("busy"), busy))))
}

/// The end with this limit runs all the time, and the other one less. A busy end alone does not show which one waits.
fn busy_end(signs: &PathSigns, limit: &str) -> Option<Evidence> {
    let words = signs.words();
    let at = words.iter().position(|end| limit.strip_suffix(" CPU") == Some(end.key))?;
    let own = signs.ends[at].busy.filter(|busy| *busy >= BUSY)?;
    let (end, other) = (&words[at], &words[1 - at]);
    if !signs.two_ended {
        // A previous rule took the case in which the kernel has most of the time.
        let sentence = format!("the {} runs {} of the time, most of it its own work", end.name, percent(own));
        return Some(evidence(sentence, [(end.key("busy"), own)]));
    }
    let busy = signs.ends[1 - at].busy.filter(|busy| *busy <= own)?;
    let sentence = format!("the {} runs {} of the time, the {} {}", end.name, percent(own), other.name, percent(busy));
    Some(evidence(sentence, [(end.key("busy"), own), (other.key("busy"), busy)]))
}

fn relay_cpu(signs: &PathSigns) -> Option<Evidence> {
    let RelaySigns { cpus, capacity, .. } = signs.relay?;
    let busy = (capacity > 0.0).then(|| cpus / capacity)?;
    let sentence =
        format!("the relay's threads run {} of the time ({} CPUs)", percent(busy.min(1.0)), significant(cpus, 2));
    (busy >= BUSY).then(|| evidence(sentence, [("relay_busy", busy), ("relay_cpus", cpus)]))
}

fn all_cpus(signs: &PathSigns) -> Option<Evidence> {
    let RelaySigns { cpus, ends_cpus, machine_cpus, .. } = signs.relay?;
    let all = machine_cpus? as f64;
    let sentence = format!(
        "relay and ends together keep {} of {} CPUs busy (the relay {})",
        significant(cpus + ends_cpus, 2),
        all,
        significant(cpus, 2)
    );
    (cpus + ends_cpus >= BUSY * all).then(|| evidence(sentence, [("relay_cpus", cpus), ("ends_cpus", ends_cpus)]))
}

/// An end that waits, and a relay that ran for as long.
fn shared_with_relay(signs: &PathSigns) -> Option<Evidence> {
    let (queued, RelaySigns { cpus, .. }) = (signs.queued()?, signs.relay?);
    let sentence = format!(
        "an end could run but waits {} of the time for a CPU, and the relay uses {} CPUs",
        percent(queued),
        significant(cpus, 2)
    );
    (queued >= QUEUED && signs.taken_by_others(queued) < QUEUED)
        .then(|| evidence(sentence, [("queued_share", queued), ("relay_cpus", cpus)]))
}

/// Threads of the test that wait for each other's CPU.
fn too_few_cpus(signs: &PathSigns) -> Option<Evidence> {
    let (threads, cpus) = signs.crowded?;
    waits_for_cpu(
        signs,
        &format!("{threads} threads of the test share {}: they wait for a CPU", counted(cpus as usize, "CPU")),
    )
}

fn other_programs(signs: &PathSigns) -> Option<Evidence> {
    waits_for_cpu(signs, "threads could run but wait for a CPU that others have")
}

fn waits_for_cpu(signs: &PathSigns, what: &str) -> Option<Evidence> {
    let queued = signs.ends.iter().zip(signs.words()).filter_map(|(end, words)| Some((words, end.queued_share?)));
    let queued: Vec<(&EndWords, f64)> = queued.collect();
    (signs.taken_by_others(signs.queued()?) >= QUEUED).then(|| {
        let each = queued.iter().map(|(words, share)| format!("{} {} of the time", words.name, percent(*share)));
        let each = each.collect::<Vec<_>>().join(", ");
        let sentence = format!("{what}: {each}");
        evidence(sentence, queued.iter().map(|(words, share)| (words.key("queued_share"), *share)))
    })
}

/// One CPU has hardly any time left next to soft interrupts.
fn softirq(signs: &PathSigns) -> Option<Evidence> {
    let busiest = signs.softirq_busiest_cpus.filter(|cpus| *cpus >= SOFTIRQ_BUSY)?;
    Some(evidence(
        format!("one CPU spends {} of its time on soft interrupts", percent(busiest)),
        [("softirq_busiest_cpus", busiest)],
    ))
}

fn wake_ups(signs: &PathSigns) -> Option<Evidence> {
    let busy = signs.busy()?;
    let idle = [signs.ends[0].idle_per_sleep_us?, signs.ends[1].idle_per_sleep_us?];
    let ends = || signs.words().iter().zip(busy).zip(idle);
    let each = ends().map(|((end, busy), idle)| {
        format!("{} {} busy, idle {} µs at a time", end.name, percent(busy), significant(idle, 2))
    });
    let each = each.collect::<Vec<_>>().join("; ");
    let sentence = format!("the ends wait for each other in many short pieces: {each}");
    let numbers =
        ends().flat_map(|((end, busy), idle)| [(end.key("busy"), busy), (end.key("idle_per_sleep_us"), idle)]);
    (busy[0].max(busy[1]) < BUSY && idle[0].max(idle[1]) <= WAKE_UP_US).then(|| evidence(sentence, numbers))
}

/// The known facts where no rule applies: how busy the ends are.
fn unknown(signs: &PathSigns) -> Evidence {
    let ends = || signs.ends.iter().zip(signs.words());
    let known: Vec<_> = ends().filter_map(|(end, words)| Some((words, end.busy?))).collect();
    let shown: Vec<String> =
        known.iter().map(|(words, busy)| format!("{} {} busy", words.name, percent(*busy))).collect();
    let missing = ends().find(|(end, _)| signs.two_ended && end.busy.is_none());
    let sentence = match (known.is_empty(), missing) {
        (true, _) => "CPU time was not recorded".into(),
        (_, Some((_, words))) => format!(
            "{}: the CPU time of the {} was not recorded, so whether it is the limit is not known",
            shown.join(", "),
            words.name
        ),
        (_, None) => format!("{}: no recorded number explains the rest", shown.join(", ")),
    };
    evidence(sentence, known.into_iter().map(|(words, busy)| (words.key("busy"), busy)))
}

// The limits that calls alone have: errors, an objective, delayed acknowledgements.

/// Acknowledgements that were sent only when their timer had run out, and the calls that are as long as it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "DelayedAcksView")]
pub struct DelayedAcks {
    /// How many there were in the network namespace during the trials.
    pub acks: u64,
    /// Calls that took at least as long as the timer, 40 ms.
    pub slow_calls: u64,
    /// The same as a share of all calls.
    pub slow_share: f64,
    /// Their share of the time that all calls took.
    pub slow_time_share: f64,
}

/// A latency objective at its knee and beyond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Objective {
    /// Its percentile: `p99`.
    pub percentile: &'static str,
    /// The limit, nanoseconds.
    pub limit_ns: u64,
    /// The percentile at the knee, nanoseconds.
    pub at_knee_ns: Option<f64>,
    /// The lowest rate above the knee that failed, calls per second; `null` if the closed loop's rate passed.
    pub beyond_per_second: Option<f64>,
    /// The percentile there, nanoseconds; `null` if too few calls were completed.
    pub at_beyond_ns: Option<f64>,
    /// The rate of a closed loop on the same connections, calls per second.
    pub closed_per_second: Option<f64>,
}

/// The limit of a client that waits for acknowledgements.
pub(super) const DELAYED_ACKS: &str = "delayed acknowledgements";

/// From this share on calls consist mainly of waiting.
const WAITING_SHARE: f64 = 0.5;

/// A failed call takes a flow's time and answers nothing: beyond this share the rate is that of failures.
const FAILED_SHARE: f64 = 0.05;

fn backlog(signs: &PathSigns) -> Option<Evidence> {
    let share = signs.not_accepted_share.filter(|share| *share >= FAILED_SHARE)?;
    let overflows = signs.listen_overflows.map(|times| ("listen_overflows", times as f64));
    let sentence = format!("{} of the calls found no place in the server's backlog", percent(share));
    Some(evidence(sentence, [("not_accepted_share", share)].into_iter().chain(overflows)))
}

fn errors(signs: &PathSigns) -> Option<Evidence> {
    let share = signs.failed_share.filter(|share| *share >= FAILED_SHARE)?;
    let sentence = format!("{} of the calls failed: the rate is that of failing", percent(share));
    Some(evidence(sentence, [("failed_share", share)]))
}

/// Beyond the knee the limit is exceeded; the maximum of a closed loop shows which CPU is full by then.
fn latency_objective(signs: &PathSigns) -> Option<Evidence> {
    let Objective { percentile, limit_ns, at_knee_ns, beyond_per_second, at_beyond_ns, closed_per_second } =
        signs.objective?;
    let (at_knee_ns, beyond_per_second, closed_per_second) = (at_knee_ns?, beyond_per_second?, closed_per_second?);
    let time = |ns: f64| Nanos(ns as u64);
    let beyond = match at_beyond_ns.filter(|ns| *ns > limit_ns as f64) {
        Some(ns) => format!("it is {} at {}", time(ns), call_rate(beyond_per_second)),
        None => format!("of {} not all are completed in time", call_rate(beyond_per_second)),
    };
    let at_beyond = at_beyond_ns.map(|ns| ("at_beyond_ns", ns));
    let sentence = format!(
        "{percentile} is {} of the {} allowed, and {beyond}; clients that wait for each reply reach {}",
        time(at_knee_ns),
        Nanos(limit_ns),
        call_rate(closed_per_second)
    );
    let rates = [("beyond_calls_per_s", beyond_per_second), ("closed_calls_per_s", closed_per_second)];
    let times = [("limit_ns", limit_ns as f64), ("at_knee_ns", at_knee_ns)];
    Some(evidence(sentence, times.into_iter().chain(at_beyond).chain(rates)))
}

/// Nagle's algorithm (RFC 9293, 3.7.4) delays a small write while data is unacknowledged, and the receiver, which has nothing
/// to send before the request is whole, delays the acknowledgement (RFC 9293, 3.8.6.3).
fn delayed_acknowledgements(signs: &PathSigns) -> Option<Evidence> {
    let waits = signs.waits.filter(|waits| waits.slow_time_share >= WAITING_SHARE)?;
    Some(evidence(
        format!(
            "{} of the clients' time goes into calls of 40 ms and more, as long as an acknowledgement may be delayed, and \
             {} were: Nagle's algorithm holds the rest of a message back until it comes",
            percent(waits.slow_time_share),
            waits.acks
        ),
        [
            ("slow_time_share", waits.slow_time_share),
            ("slow_share", waits.slow_share),
            ("delayed_acks", waits.acks as f64),
        ],
    ))
}

// The limits that streams alone have: the source, the link, a window, a buffer.

/// A link used to nine tenths can gain at most a tenth from anything else.
const LINK_FULL: f64 = 0.90;
/// `TCP_INFO` counts limits in jiffies (1 to 10 ms): below a third of the busy time the count is mostly
/// rounding, and other waits are at least as long.
const TCP_LIMITED: f64 = 0.33;

fn source_itself(signs: &PathSigns) -> Option<Evidence> {
    if signs.two_ended {
        return None;
    }
    let busy = signs.ends[1].busy?;
    let system = signs.reader_system_share?;
    let numbers = [("receiver_busy", busy), ("receiver_system_share", system)];
    if busy >= BUSY {
        // With most of the time in user mode, the reader's own work is the limit.
        (system > 0.5).then(|| {
            let (busy, system) = (percent(busy), percent(system));
            evidence(format!("the reader runs {busy} of the time, {system} of it inside read(2)"), numbers)
        })
    } else if signs.ends[1].queued_share.is_some_and(|share| share >= QUEUED) {
        None
    } else {
        let idle = signs.ends[1].idle_per_sleep_us?;
        let sentence = format!("the reader runs {} of the time and waits for the source in between", percent(busy));
        Some(evidence(sentence, numbers.into_iter().chain([("receiver_idle_per_sleep_us", idle)])))
    }
}

fn link(signs: &PathSigns) -> Option<Evidence> {
    let (carries, rate) = signs.link_rate.zip(signs.rate)?;
    let sentence = format!("the emulated link is full: it carries {} of data at most", byte_rate(carries));
    (rate >= LINK_FULL * carries)
        .then(|| evidence(sentence, [("link_bytes_per_s", carries), ("rate_bytes_per_s", rate)]))
}

fn window(signs: &PathSigns) -> Option<Evidence> {
    let share = signs.rwnd_limited_share.filter(|share| *share >= TCP_LIMITED)?;
    let whose = if signs.relay.is_some() { "relay" } else { "receiver" };
    let sentence = format!(
        "the sender waits for the {whose}'s window {} of the time in which it has data to send",
        percent(share)
    );
    (share >= signs.sndbuf_limited_share.unwrap_or(0.0)).then(|| evidence(sentence, [("rwnd_limited_share", share)]))
}

fn socket_buffer(signs: &PathSigns) -> Option<Evidence> {
    // Unix sockets and pipes count no limits: blocked writers and readers look alike whether the buffer is small or waking up is slow.
    let share = signs.sndbuf_limited_share.filter(|share| *share >= TCP_LIMITED)?;
    let sentence = format!("the send buffer was the limit {} of the time in which the sender has data", percent(share));
    Some(evidence(sentence, [("sndbuf_limited_share", share)]))
}

#[cfg(test)]
mod tests;
