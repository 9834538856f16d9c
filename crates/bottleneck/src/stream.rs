//! The limit of streams and datagrams: rules over recorded numbers.
//!
//! The rules are read together: their order decides.

use bytegauge_model::unit::{byte_rate, significant};

use super::relay::{self, RelaySigns};
use super::{
    BALANCED, BUSY, CellLimit, Evidence, OFFERED_SHARE, QUEUED, Rule, SHARED_BUSY, WAKE_UP_US, busy_ends, first, limit,
    offered_and, percent, planned_pauses,
};

/// The input of the rules, from the trials of a cell's estimate. Shares are between 0 and 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamSigns {
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

/// A link used to nine tenths can gain at most a tenth from anything else.
const LINK_FULL: f64 = 0.90;
/// `TCP_INFO` counts limits in jiffies (1 to 10 ms): below a third of the busy time the count is mostly
/// rounding, and other waits are at least as long.
const TCP_LIMITED: f64 = 0.33;
/// A larger kernel buffer with all else equal must gain this much, well above noise and the bias of selecting the best
/// sibling.
const BUFFER_GAIN: f64 = 0.10;
/// The rules in their order: limits of the plan or the harness come before those of a CPU, a full CPU before a full window (a
/// slow reader fills the window, not the other way round), and waiting for each other last, since every blocked pair looks
/// like that.
pub const RULES: &[Rule<StreamSigns>] = &[
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
    Rule { name: "softirq", test: |signs| super::softirq(signs.softirq_busiest_cpus) },
    Rule { name: "window", test: window },
    Rule { name: "socket buffer", test: socket_buffer },
    Rule { name: "wake-ups", test: wake_ups },
];

/// The first rule that applies, with its evidence.
pub fn find(signs: &StreamSigns) -> CellLimit {
    let (name, finding) = first(RULES, signs, unknown);
    limit(name, finding)
}

fn harness(signs: &StreamSigns) -> Option<Evidence> {
    if signs.moves_nothing {
        let sentence = "the engine moves nothing: this is the harness's own loop, and the reader's work if it has any";
        let evidence = signs.sink_cpus.map(|cpus| ("receiver_cpus", cpus)).into_iter().collect();
        return Some(Evidence { sentence: sentence.into(), evidence });
    }
    super::harness(signs.floor_share, |share| {
        format!("measuring takes {share} of each call, so the system is faster than this rate shows")
    })
}

fn offered_load(signs: &StreamSigns) -> Option<Evidence> {
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

fn source_itself(signs: &StreamSigns) -> Option<Evidence> {
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

fn shared_cpu(signs: &StreamSigns) -> Option<Evidence> {
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

fn both_cpus(signs: &StreamSigns) -> Option<Evidence> {
    let (source, sink) = signs.both_ends()?;
    (source.min(sink) >= BUSY && (source - sink).abs() < BALANCED).then(|| Evidence {
        sentence: format!("both ends run nearly all the time: writer {}, reader {}", percent(source), percent(sink)),
        evidence: vec![("sender_busy", source), ("receiver_busy", sink)],
    })
}

fn sender_cpu(signs: &StreamSigns) -> Option<Evidence> {
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

fn receiver_cpu(signs: &StreamSigns) -> Option<Evidence> {
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
fn waits(signs: &StreamSigns) -> Option<f64> {
    let sink = signs.sink_queued_share?;
    let source = if signs.two_ended { signs.source_queued_share? } else { 0.0 };
    let taken = match (signs.capacity_cpus(), signs.source_cpus.zip(signs.sink_cpus)) {
        (Some(capacity), Some((source, sink))) => 1.0 - (source + sink) / capacity,
        _ => 1.0,
    };
    (taken >= QUEUED).then_some(source.max(sink))
}

fn other_programs(signs: &StreamSigns) -> Option<Evidence> {
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

fn link(signs: &StreamSigns) -> Option<Evidence> {
    let (carries, rate) = signs.link_rate.zip(signs.rate)?;
    (rate >= LINK_FULL * carries).then(|| Evidence {
        sentence: format!("the emulated link is full: it carries {} of data at most", byte_rate(carries)),
        evidence: vec![("link_bytes_per_s", carries), ("rate_bytes_per_s", rate)],
    })
}

fn window(signs: &StreamSigns) -> Option<Evidence> {
    let share = signs.rwnd_limited_share.filter(|share| *share >= TCP_LIMITED)?;
    let whose = if signs.relay.is_some() { "relay" } else { "receiver" };
    (share >= signs.sndbuf_limited_share.unwrap_or(0.0)).then(|| Evidence {
        sentence: format!(
            "the sender waits for the {whose}'s window {} of the time in which it has data to send",
            percent(share)
        ),
        evidence: vec![("rwnd_limited_share", share)],
    })
}

fn socket_buffer(signs: &StreamSigns) -> Option<Evidence> {
    if let Some(share) = signs.sndbuf_limited_share.filter(|share| *share >= TCP_LIMITED) {
        return Some(Evidence {
            sentence: format!(
                "the send buffer was the limit {} of the time in which the sender has data",
                percent(share)
            ),
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

fn wake_ups(signs: &StreamSigns) -> Option<Evidence> {
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

fn unknown(signs: &StreamSigns) -> Evidence {
    let ends = [
        ("sender_busy", "writer", signs.per_thread(signs.source_cpus)),
        ("receiver_busy", "reader", signs.per_thread(signs.sink_cpus)),
    ];
    busy_ends(ends, "no recorded number explains the rest")
}

impl StreamSigns {
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

#[cfg(test)]
mod tests;
