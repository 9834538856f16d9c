//! The limit of a cell: rules over recorded numbers, in the order in which one cause hides another.
//!
//! A rule needs evidence and shows it; if none applies the answer is "unknown". Never guesses, never treats a factor's level as
//! evidence of its effect.
//!
//! Long because the rules of streams are read together: their order decides.

pub mod call;
pub mod relay;
pub mod ring;
pub mod task;
use std::collections::BTreeMap;

use bytegauge_model::unit::{byte_rate, significant};

use self::relay::RelaySigns;
use crate::view::document::{LimitDoubt, LimitView};

/// The input of the rules, from the trials of a cell's estimate. Shares are between 0 and 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Signs {
    /// There is a writer at the other end.
    pub two_ended: bool,
    /// Both ends were pinned to one CPU.
    pub same_cpu: bool,
    /// The engine moves nothing, so that the harness itself is measured.
    pub moves_nothing: bool,
    /// Threads of each end.
    pub threads: u64,
    /// CPUs that the session might use.
    pub cpus: Option<u64>,
    /// CPU time of the writing end over its window, in CPUs.
    pub source_cpus: Option<f64>,
    /// CPU time of the reading end over its window, in CPUs.
    pub sink_cpus: Option<f64>,
    /// Share of the reading end's CPU time that the kernel took.
    pub sink_system_share: Option<f64>,
    /// Idle time of the writer between two voluntary switches, µs.
    pub source_idle_per_sleep_us: Option<f64>,
    /// Idle time of the reader between two voluntary switches, µs.
    pub sink_idle_per_sleep_us: Option<f64>,
    /// Share of its window in which the writer could have run but waited for a CPU.
    pub source_queued_share: Option<f64>,
    /// The same of the reader.
    pub sink_queued_share: Option<f64>,
    /// Soft interrupts of the busiest CPU, in CPUs: all of them times the share of `NET_RX` there.
    pub softirq_busiest_cpus: Option<f64>,
    /// Share of the connections' busy time in which the receiver's window was the limit.
    pub rwnd_limited_share: Option<f64>,
    /// Share of the connections' busy time in which the send buffer was the limit.
    pub sndbuf_limited_share: Option<f64>,
    /// A cell that differs only in one larger kernel buffer, and how much faster it is.
    pub larger_buffer: Option<(&'static str, f64)>,
    /// Bytes per second that the plan offered.
    pub offered_rate: Option<f64>,
    /// Bytes of data per second that an emulated link can carry at most, of both directions together if both are used.
    pub link_rate: Option<f64>,
    /// Bytes per second at the sink.
    pub rate: Option<f64>,
    /// Share of the writer's window in planned pauses.
    pub think_share: Option<f64>,
    /// The harness's floor over the cell's time per call.
    pub floor_share: Option<f64>,
    /// The relay between the ends, if any.
    pub relay: Option<RelaySigns>,
}

/// From this share of a call on the rate is mostly that of the harness. Smaller shares are a caveat, and something else is the
/// limit.
const HARNESS_SHARE: f64 = 0.5;
/// A paced writer within 5 % of its rate is limited by that rate, not by the path: from this share on an offered load counts as
/// answered, in texts and in figures.
pub const OFFERED_SHARE: f64 = 0.95;
/// A rate closer than this to the offered one is shown as all of it: 99.9 % is no useful difference.
const ALL_OF_IT: f64 = 0.99;

/// `were offered and answered`, or the share that was.
fn offered_and(what: &str, offered: f64, rate: f64) -> String {
    if rate >= ALL_OF_IT * offered {
        format!("were offered and {what}")
    } else {
        format!("were offered and {} of them {what}", percent(rate / offered))
    }
}
/// A writer that pauses for half its time is limited by the pause.
const THINK_SHARE: f64 = 0.5;
/// A thread that runs 90 % of the time can gain at most a tenth from anything but CPU; clocks of the window and of the CPU agree
/// to better than that at 10 ms.
const BUSY: f64 = 0.90;
/// The difference of clocks of the window and of the CPU in trials of some milliseconds.
const CLOCKS: f64 = 0.25;
/// Two busy ends this close are a balanced pipeline: neither alone is the limit.
const BALANCED: f64 = 0.05;
/// One CPU shared by both ends loses a few per cent to switching between them.
const SHARED_BUSY: f64 = 0.95;
/// A link used to nine tenths can gain at most a tenth from anything else.
const LINK_FULL: f64 = 0.90;
/// Soft interrupts are counted in 10 ms ticks and split among CPUs by `NET_RX` counts: four fifths of a CPU remain clear after
/// both roundings.
const SOFTIRQ_BUSY: f64 = 0.8;
/// `TCP_INFO` counts limits in jiffies (1 to 10 ms): below a third of the busy time the count is mostly
/// rounding, and other waits are at least as long.
const TCP_LIMITED: f64 = 0.33;
/// A larger kernel buffer with all else equal must gain this much, well above noise and the bias of selecting the best
/// sibling.
const BUFFER_GAIN: f64 = 0.10;
/// An end that waits a fifth of the time for a CPU loses more to the threads running there than to the path.
const QUEUED: f64 = 0.20;
/// Idle time in pieces shorter than this is the cost of waking up (some 5 to 50 µs, more in a virtual machine); longer pieces
/// are waits for something else.
const WAKE_UP_US: f64 = 200.0;

/// One rule: its name, and its test of the trials of a workload.
pub struct Rule<S> {
    /// The limit that it finds.
    pub name: &'static str,
    test: fn(&S) -> Option<Evidence>,
}

struct Evidence {
    sentence: String,
    evidence: Vec<(&'static str, f64)>,
}

/// The rules in their order: limits of the plan or the harness come before those of a CPU, a full CPU before a full window (a
/// slow reader fills the window, not the other way round), and waiting for each other last, since every blocked pair looks
/// like that.
pub const RULES: &[Rule<Signs>] = &[
    Rule { name: "the harness", test: harness },
    Rule { name: "offered load", test: offered_load },
    Rule { name: "the source itself", test: source_itself },
    Rule { name: "the link", test: link },
    Rule { name: "shared CPU", test: shared_cpu },
    Rule { name: "both CPUs", test: both_cpus },
    Rule { name: "sender CPU", test: sender_cpu },
    Rule { name: "receiver CPU", test: receiver_cpu },
    Rule { name: relay::RELAY, test: |signs| relay::relay_cpu(signs.relay.as_ref()) },
    Rule { name: relay::ALL, test: |signs| relay::all_cpus(signs.relay.as_ref()) },
    Rule { name: relay::SHARED, test: |signs| relay::shared_cpu(waits(signs), signs.relay.as_ref()) },
    Rule { name: "other programs", test: other_programs },
    Rule { name: "softirq", test: softirq },
    Rule { name: "window", test: window },
    Rule { name: "socket buffer", test: socket_buffer },
    Rule { name: "wake-ups", test: wake_ups },
];

/// The name if no rule applies.
pub const UNKNOWN: &str = "unknown";

/// Every name that a cell's limit can have.
pub fn names() -> impl Iterator<Item = &'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    for name in [of(RULES), of(call::RULES), of(ring::RULES), task::NAMES.to_vec()].concat() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.into_iter().chain([UNKNOWN])
}

fn of<S>(rules: &[Rule<S>]) -> Vec<&'static str> {
    rules.iter().map(|rule| rule.name).collect()
}

/// The first rule that applies, with its evidence.
pub fn find(signs: &Signs) -> LimitView {
    let (name, finding) = first(RULES, signs, unknown);
    view(name, finding)
}

fn first<S>(rules: &[Rule<S>], signs: &S, unknown: impl Fn(&S) -> Evidence) -> (&'static str, Evidence) {
    let fired = rules.iter().find_map(|rule| (rule.test)(signs).map(|finding| (rule.name, finding)));
    fired.unwrap_or_else(|| (UNKNOWN, unknown(signs)))
}

fn view(name: &'static str, finding: Evidence) -> LimitView {
    let evidence: BTreeMap<_, _> = finding.evidence.into_iter().filter(|(_, value)| value.is_finite()).collect();
    if let Some((what, value)) = evidence.iter().find(|(what, value)| cannot_be(what, **value)) {
        let sentence =
            format!("no limit is named: the numbers behind it cannot be true ({what} {})", significant(*value, 3));
        return settled(UNKNOWN, sentence, BTreeMap::new());
    }
    settled(name, finding.sentence, evidence)
}

fn settled(name: &'static str, sentence: String, evidence: BTreeMap<&'static str, f64>) -> LimitView {
    let title = crate::phrase::limit_title(name, None);
    LimitView { name, title, brief: sentence.clone(), sentence, evidence, doubt: None }
}

/// Calls without a server.
pub fn of_floor() -> LimitView {
    settled("the harness", "there is no server: this is the client's own bookkeeping".into(), BTreeMap::new())
}

/// Whether a share is more than the whole, or a thread busier than always, by more than clocks differ.
fn cannot_be(what: &str, value: f64) -> bool {
    (what.ends_with("_share") || what.ends_with("_busy")) && !(0.0..=1.0 + CLOCKS).contains(&value)
}

/// No measurement, so no limit.
pub fn not_measured() -> LimitView {
    settled(UNKNOWN, "nothing was measured".into(), BTreeMap::new())
}

/// From this share of trials on, a limit that single trials show may be the cell's too.
const MANY_TRIALS: f64 = 0.25;
/// With fewer trials chance looks like a rule.
const TRIALS_MIN: usize = 6;
/// Counted in ticks that are coarser than a trial: only all trials together show it.
const OF_TICKS: &str = "softirq";

/// Whether single trials, each with its own limit, make another limit as likely as that of all of them together.
pub fn doubt(name: &'static str, by_trial: &[&'static str]) -> Option<LimitDoubt> {
    let count = |name: &str| by_trial.iter().filter(|one| **one == name).count();
    let trials = by_trial.len();
    if trials < TRIALS_MIN || name == OF_TICKS {
        return None;
    }
    let others = by_trial.iter().copied().filter(|one| *one != name);
    let other = others.max_by_key(|one| (count(one), std::cmp::Reverse(*one)))?;
    let show_other = count(other);
    let is_near = show_other as f64 >= MANY_TRIALS * trials as f64;
    let mut doubt = LimitDoubt { trials, agree: count(name), other, show_other, text: String::new() };
    doubt.text = crate::phrase::limit_doubt(name, &doubt);
    is_near.then_some(doubt)
}

fn harness(signs: &Signs) -> Option<Evidence> {
    if signs.moves_nothing {
        let sentence = "the engine moves nothing: this is the harness's own loop, and the reader's work if it has any";
        let evidence = signs.sink_cpus.map(|cpus| ("receiver_cpus", cpus)).into_iter().collect();
        return Some(Evidence { sentence: sentence.into(), evidence });
    }
    let share = signs.floor_share.filter(|share| *share >= HARNESS_SHARE)?;
    Some(Evidence {
        sentence: format!(
            "measuring takes {} of each call, so the system is faster than this rate shows",
            percent(share)
        ),
        evidence: vec![("floor_share", share)],
    })
}

fn offered_load(signs: &Signs) -> Option<Evidence> {
    if let Some((offered, rate)) = signs.offered_rate.zip(signs.rate)
        && rate >= OFFERED_SHARE * offered
    {
        return Some(Evidence {
            sentence: format!(
                "{} {}: compare CPU, not rates",
                byte_rate(offered),
                offered_and("arrived", offered, rate)
            ),
            evidence: vec![("offered_bytes_per_s", offered), ("rate_bytes_per_s", rate)],
        });
    }
    planned_pauses("the writer pauses", signs.think_share)
}

/// The rule for ends that pause because the plan has them pause; `who` begins its sentence.
fn planned_pauses(who: &str, think_share: Option<f64>) -> Option<Evidence> {
    let share = think_share.filter(|share| *share >= THINK_SHARE)?;
    Some(Evidence {
        sentence: format!("{who} {} of the time by order of the plan", percent(share)),
        evidence: vec![("think_share", share)],
    })
}

fn source_itself(signs: &Signs) -> Option<Evidence> {
    if signs.two_ended {
        return None;
    }
    let busy = signs.per_thread(signs.sink_cpus)?;
    let system = signs.sink_system_share?;
    let evidence = vec![("receiver_busy", busy), ("receiver_system_share", system)];
    if busy >= BUSY {
        // With most of the time in user mode, the reader's own work is the limit.
        (system > 0.5).then(|| Evidence {
            sentence: format!(
                "the reader runs {} of the time, {} of it inside read(2)",
                percent(busy),
                percent(system)
            ),
            evidence,
        })
    } else if signs.sink_queued_share.is_some_and(|share| share >= QUEUED) {
        None
    } else {
        let idle = signs.sink_idle_per_sleep_us?;
        Some(Evidence {
            sentence: format!("the reader runs {} of the time and waits for the source in between", percent(busy)),
            evidence: [evidence, vec![("receiver_idle_per_sleep_us", idle)]].concat(),
        })
    }
}

fn shared_cpu(signs: &Signs) -> Option<Evidence> {
    if !signs.two_ended {
        return None;
    }
    let both = signs.source_cpus? + signs.sink_cpus?;
    let capacity = signs.capacity_cpus()?;
    (capacity > 0.0 && both >= SHARED_BUSY * capacity).then(|| Evidence {
        sentence: if capacity == 1.0 {
            format!("both ends share one CPU, which they keep {} busy", percent(both))
        } else {
            format!("both ends keep {} of the {capacity} CPUs they may use busy", percent(both / capacity))
        },
        evidence: vec![("both_cpus", both), ("capacity_cpus", capacity)],
    })
}

fn both_cpus(signs: &Signs) -> Option<Evidence> {
    let (source, sink) = signs.both_ends()?;
    (source.min(sink) >= BUSY && (source - sink).abs() < BALANCED).then(|| Evidence {
        sentence: format!("both ends run nearly all the time: writer {}, reader {}", percent(source), percent(sink)),
        evidence: vec![("sender_busy", source), ("receiver_busy", sink)],
    })
}

fn sender_cpu(signs: &Signs) -> Option<Evidence> {
    let source = signs.per_thread(signs.source_cpus)?;
    let Some(sink) = signs.per_thread(signs.sink_cpus) else {
        return (source >= BUSY).then(|| Evidence {
            sentence: format!("the writer runs {} of the time; the reader's use was not recorded", percent(source)),
            evidence: vec![("sender_busy", source)],
        });
    };
    (source >= BUSY && source >= sink).then(|| Evidence {
        sentence: format!("the writer runs {} of the time, the reader {}", percent(source), percent(sink)),
        evidence: vec![("sender_busy", source), ("receiver_busy", sink)],
    })
}

fn receiver_cpu(signs: &Signs) -> Option<Evidence> {
    let sink = signs.per_thread(signs.sink_cpus).filter(|busy| *busy >= BUSY)?;
    match signs.per_thread(signs.source_cpus) {
        Some(source) => Some(Evidence {
            sentence: format!("the reader runs {} of the time, the writer {}", percent(sink), percent(source)),
            evidence: vec![("receiver_busy", sink), ("sender_busy", source)],
        }),
        // One-ended: the previous rule took the case in which the kernel has most of the time. Two-ended without a report of
        // the writer: a busy reader alone does not show which end waits.
        None => (!signs.two_ended).then(|| Evidence {
            sentence: format!("the reader runs {} of the time, most of it its own work", percent(sink)),
            evidence: vec![("receiver_busy", sink)],
        }),
    }
}

/// The largest share of time that an end waits for a CPU, unless it waits for the other end: ends that share CPUs by the
/// plan wait for each other there; other programs took only CPU time that both together lack.
fn waits(signs: &Signs) -> Option<f64> {
    let sink = signs.sink_queued_share?;
    let source = if signs.two_ended { signs.source_queued_share? } else { 0.0 };
    let taken = match (signs.capacity_cpus(), signs.source_cpus.zip(signs.sink_cpus)) {
        (Some(capacity), Some((source, sink))) => 1.0 - (source + sink) / capacity,
        _ => 1.0,
    };
    (taken >= QUEUED).then_some(source.max(sink))
}

fn other_programs(signs: &Signs) -> Option<Evidence> {
    let (sink, source) = (signs.sink_queued_share?, signs.source_queued_share.unwrap_or(0.0));
    (relay::taken_by_others(waits(signs)?, signs.relay.as_ref()) >= QUEUED).then(|| Evidence {
        sentence: match signs.two_ended {
            true => format!(
                "the ends could run but wait for a CPU that others have: writer {} of the time, reader {}",
                percent(source),
                percent(sink)
            ),
            false => format!("the reader could run but waits {} of the time for a CPU that others have", percent(sink)),
        },
        evidence: [("receiver_queued_share", sink)]
            .into_iter()
            .chain(signs.two_ended.then_some(("sender_queued_share", source)))
            .collect(),
    })
}

fn link(signs: &Signs) -> Option<Evidence> {
    let (carries, rate) = signs.link_rate.zip(signs.rate)?;
    (rate >= LINK_FULL * carries).then(|| Evidence {
        sentence: format!("the emulated link is full: it carries {} of data at most", byte_rate(carries)),
        evidence: vec![("link_bytes_per_s", carries), ("rate_bytes_per_s", rate)],
    })
}

fn softirq(signs: &Signs) -> Option<Evidence> {
    let busiest = signs.softirq_busiest_cpus.filter(|cpus| *cpus >= SOFTIRQ_BUSY)?;
    Some(Evidence {
        sentence: format!("one CPU spends {} of its time on soft interrupts", percent(busiest)),
        evidence: vec![("softirq_busiest_cpus", busiest)],
    })
}

fn window(signs: &Signs) -> Option<Evidence> {
    let share = signs.rwnd_limited_share.filter(|share| *share >= TCP_LIMITED)?;
    let whose = if signs.relay.is_some() { "relay" } else { "receiver" };
    (share >= signs.sndbuf_limited_share.unwrap_or(0.0)).then(|| Evidence {
        sentence: format!("the sender waits for the {whose}'s window {} of its busy time", percent(share)),
        evidence: vec![("rwnd_limited_share", share)],
    })
}

fn socket_buffer(signs: &Signs) -> Option<Evidence> {
    if let Some(share) = signs.sndbuf_limited_share.filter(|share| *share >= TCP_LIMITED) {
        return Some(Evidence {
            sentence: format!("the send buffer was the limit {} of the connection's busy time", percent(share)),
            evidence: vec![("sndbuf_limited_share", share)],
        });
    }
    // Unix sockets and pipes count no limits. Only a sibling with a larger buffer proves it there: blocked writers and
    // readers look alike whether the buffer is small or waking up is slow.
    let (name, gain) = signs.larger_buffer.filter(|(_, gain)| *gain >= BUFFER_GAIN)?;
    Some(Evidence {
        sentence: format!("with a larger {name} and all else equal it is {} faster", percent(gain)),
        evidence: vec![("larger_buffer_gain", gain)],
    })
}

fn wake_ups(signs: &Signs) -> Option<Evidence> {
    let (source, sink) = signs.both_ends()?;
    let (source_idle, sink_idle) = (signs.source_idle_per_sleep_us?, signs.sink_idle_per_sleep_us?);
    (source.max(sink) < BUSY && source_idle.max(sink_idle) <= WAKE_UP_US).then(|| Evidence {
        sentence: format!(
            "the ends wait for each other in many short pieces: writer {} busy, idle {} µs at a time; reader {}, {} µs",
            percent(source),
            significant(source_idle, 2),
            percent(sink),
            significant(sink_idle, 2)
        ),
        evidence: vec![
            ("sender_busy", source),
            ("receiver_busy", sink),
            ("sender_idle_per_sleep_us", source_idle),
            ("receiver_idle_per_sleep_us", sink_idle),
        ],
    })
}

fn unknown(signs: &Signs) -> Evidence {
    let busy = [
        ("sender_busy", "writer", signs.per_thread(signs.source_cpus)),
        ("receiver_busy", "reader", signs.per_thread(signs.sink_cpus)),
    ];
    let known: Vec<_> = busy.into_iter().filter_map(|(key, who, busy)| Some((key, who, busy?))).collect();
    let sentence = match known.is_empty() {
        true => "CPU time was not recorded".into(),
        false => {
            let ends: Vec<String> =
                known.iter().map(|(_, who, busy)| format!("{who} {} busy", percent(*busy))).collect();
            format!("{}: no recorded number explains the rest", ends.join(", "))
        }
    };
    Evidence { sentence, evidence: known.into_iter().map(|(key, _, busy)| (key, busy)).collect() }
}

impl Signs {
    /// CPUs that both ends share, if they have fewer than one per thread.
    fn capacity_cpus(&self) -> Option<f64> {
        match (self.same_cpu, self.cpus) {
            // If the plan requested it, each flow's two ends share one CPU, as long as there are CPUs.
            (true, cpus) => Some(self.threads.min(cpus.unwrap_or(self.threads)) as f64),
            (false, Some(cpus)) if self.threads.saturating_mul(2) > cpus => Some(cpus as f64),
            _ => None,
        }
    }

    /// CPUs' worth of an end, per thread.
    fn per_thread(&self, cpus: Option<f64>) -> Option<f64> {
        cpus.map(|cpus| cpus / self.threads.max(1) as f64)
    }

    fn both_ends(&self) -> Option<(f64, f64)> {
        self.per_thread(self.source_cpus).zip(self.per_thread(self.sink_cpus))
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[cfg(test)]
mod tests;
