//! The limit of a path between two ends: rules over recorded numbers, of streams, datagrams and calls.
//!
//! The rules are read together: their order decides. Rules that need numbers of one workload alone are in `stream` and `call`. Of calls
//! the client is the instrument: if it is the limit, the server could do more than the rate shows.

use bytegauge_model::unit::{byte_rate, call_rate, significant};

use super::call::{self, Objective, Waits};
use super::{
    BALANCED, BUSY, CellLimit, Evidence, OFFERED_SHARE, QUEUED, Rule, SHARED_BUSY, WAKE_UP_US, evidence, offered_and,
    percent, planned_pauses, stream,
};

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
    /// The relay between the ends, if any.
    pub relay: Option<RelaySigns>,
    /// Share of the reader's CPU time that the kernel took.
    pub reader_system_share: Option<f64>,
    /// Share of the connections' busy time in which the receiver's window was the limit.
    pub rwnd_limited_share: Option<f64>,
    /// Share of the connections' busy time in which the send buffer was the limit.
    pub sndbuf_limited_share: Option<f64>,
    /// A cell that differs only in one larger kernel buffer, and how much faster it is.
    pub larger_buffer: Option<(&'static str, f64)>,
    /// Bytes of data per second that an emulated link can carry at most, of both directions together if both are used.
    pub link_rate: Option<f64>,
    /// The latency objective that more calls per second would break.
    pub objective: Option<Objective>,
    /// Waiting for delayed acknowledgements, if that is possible.
    pub waits: Option<Waits>,
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
    Rule { name: "backlog", test: call::backlog },
    Rule { name: "errors", test: call::errors },
    Rule { name: "latency objective", test: call::latency_objective },
    Rule { name: call::DELAYED_ACKS, test: call::delayed_acknowledgements },
    Rule { name: "offered load", test: offered_load },
    Rule { name: "the source itself", test: stream::source_itself },
    Rule { name: "the link", test: stream::link },
    Rule { name: "shared CPU", test: shared_cpu },
    Rule { name: "both CPUs", test: both_cpus },
    Rule { name: "sender CPU", test: |signs| busy_end(signs, "sender CPU") },
    Rule { name: "receiver CPU", test: |signs| busy_end(signs, "receiver CPU") },
    Rule { name: "client CPU", test: |signs| busy_end(signs, "client CPU") },
    Rule { name: "server CPU", test: |signs| busy_end(signs, "server CPU") },
    Rule { name: RELAY, test: relay_cpu },
    Rule { name: ALL, test: all_cpus },
    Rule { name: RELAY_SHARED, test: shared_with_relay },
    Rule { name: "other programs", test: other_programs },
    Rule { name: "softirq", test: |signs| super::softirq(signs.softirq_busiest_cpus) },
    Rule { name: "window", test: stream::window },
    Rule { name: "socket buffer", test: stream::socket_buffer },
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

fn offered_load(signs: &PathSigns) -> Option<Evidence> {
    if let Some((offered, rate)) = signs.offered_rate.zip(signs.rate)
        && rate >= OFFERED_SHARE * offered
    {
        let (shown, instead, numbers) = match signs.calls {
            true => (
                format!("{} {}", call_rate(offered), offered_and("answered", offered, rate)),
                "CPU and latency",
                [("offered_calls_per_s", offered), ("rate_calls_per_s", rate)],
            ),
            false => (
                format!("{} {}", byte_rate(offered), offered_and("arrived", offered, rate)),
                "CPU",
                [("offered_bytes_per_s", offered), ("rate_bytes_per_s", rate)],
            ),
        };
        let sentence = format!("{shown}: compare {instead}, not rates");
        return Some(evidence(sentence, numbers));
    }
    planned_pauses(signs.words()[0].name, signs.think_share)
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
    let [near, far] = signs.busy()?;
    let words = signs.words();
    let sentence = format!(
        "both ends run nearly all the time: {} {}, {} {}",
        words[0].name,
        percent(near),
        words[1].name,
        percent(far)
    );
    (near.min(far) >= BUSY && (near - far).abs() < BALANCED)
        .then(|| evidence(sentence, [(words[0].key("busy"), near), (words[1].key("busy"), far)]))
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

fn other_programs(signs: &PathSigns) -> Option<Evidence> {
    let queued = signs.ends.iter().zip(signs.words()).filter_map(|(end, words)| Some((words, end.queued_share?)));
    let queued: Vec<(&EndWords, f64)> = queued.collect();
    (signs.taken_by_others(signs.queued()?) >= QUEUED).then(|| {
        let each = queued.iter().map(|(words, share)| format!("{} {} of the time", words.name, percent(*share)));
        let each = each.collect::<Vec<_>>().join(", ");
        let sentence = format!("threads could run but wait for a CPU that others have: {each}");
        evidence(sentence, queued.iter().map(|(words, share)| (words.key("queued_share"), *share)))
    })
}

fn wake_ups(signs: &PathSigns) -> Option<Evidence> {
    let [near, far] = signs.busy()?;
    let (near_idle, far_idle) = (signs.ends[0].idle_per_sleep_us?, signs.ends[1].idle_per_sleep_us?);
    let words = signs.words();
    let sentence = format!(
        "the ends wait for each other in many short pieces: {} {} busy, idle {} µs at a time; {} {}, {} µs",
        words[0].name,
        percent(near),
        significant(near_idle, 2),
        words[1].name,
        percent(far),
        significant(far_idle, 2)
    );
    (near.max(far) < BUSY && near_idle.max(far_idle) <= WAKE_UP_US).then(|| {
        evidence(
            sentence,
            [
                (words[0].key("busy"), near),
                (words[1].key("busy"), far),
                (words[0].key("idle_per_sleep_us"), near_idle),
                (words[1].key("idle_per_sleep_us"), far_idle),
            ],
        )
    })
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

#[cfg(test)]
mod tests;
