//! The limit of calls: rules over recorded numbers, as those of streams.
//!
//! The client is the instrument. If it is the limit, the server could do more than the rate shows, so this is checked before
//! any statement about the server.

use bytegauge_model::unit::{Nanos, call_rate, significant};

use super::relay::{self, RelaySigns};
use super::{
    BALANCED, BUSY, CellLimit, Evidence, OFFERED_SHARE, QUEUED, Rule, SHARED_BUSY, WAKE_UP_US, busy_ends, first, limit,
    offered_and, percent, planned_pauses,
};

/// The input of the rules, from the trials of a cell's estimate. Shares are between 0 and 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CallSigns {
    /// Both ends were pinned to one CPU.
    pub same_cpu: bool,
    /// CPU time of the client's threads over the capacity of its CPUs.
    pub client_busy: Option<f64>,
    /// The same of the server.
    pub server_busy: Option<f64>,
    /// CPU time of both ends over the capacity of all their CPUs, if they share them.
    pub both_busy: Option<f64>,
    /// Idle time of the client's threads between two voluntary switches, µs.
    pub client_idle_per_sleep_us: Option<f64>,
    /// The same of the server's.
    pub server_idle_per_sleep_us: Option<f64>,
    /// Share of its window in which a client's thread could have run but waited for a CPU.
    pub client_queued_share: Option<f64>,
    /// The same of the server's.
    pub server_queued_share: Option<f64>,
    /// Soft interrupts of the busiest CPU, in CPUs.
    pub softirq_busiest_cpus: Option<f64>,
    /// Calls per second that the plan offered.
    pub offered_rate: Option<f64>,
    /// The latency objective that more calls per second would break.
    pub objective: Option<Objective>,
    /// Calls per second that were answered.
    pub rate: Option<f64>,
    /// Share of a flow's time in planned pauses.
    pub think_share: Option<f64>,
    /// Waiting for delayed acknowledgements, if that is possible.
    pub waits: Option<Waits>,
    /// Share of the calls begun that failed.
    pub failed_share: Option<f64>,
    /// Share of the calls begun that failed because the server's backlog was full.
    pub not_accepted_share: Option<f64>,
    /// How often a listener's queue was full, if the kernel counts it.
    pub listen_overflows: Option<u64>,
    /// The harness's floor over the client's time per call.
    pub floor_share: Option<f64>,
    /// The relay between the ends, if any.
    pub relay: Option<RelaySigns>,
}

/// Calls that take as long as the timer of a delayed acknowledgement, which expired as often.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waits {
    /// Their share of all calls.
    pub slow_share: f64,
    /// Their share of the time of all calls.
    pub time_share: f64,
    /// Acknowledgements sent because the timer expired.
    pub acks: u64,
}

/// A latency objective at its knee and beyond.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Objective {
    /// Its percentile: `p99`.
    pub percentile: &'static str,
    /// The limit, nanoseconds.
    pub limit_ns: u64,
    /// Its value at the knee, nanoseconds.
    pub at_knee_ns: f64,
    /// The lowest rate that exceeds it, calls per second.
    pub beyond_per_second: f64,
    /// Its value there, nanoseconds; `None` if too few calls were completed.
    pub at_beyond_ns: Option<f64>,
    /// The rate of a closed loop on the same connections, calls per second.
    pub closed_per_second: f64,
}

/// The limit of a client that waits for acknowledgements.
pub const DELAYED_ACKS: &str = "delayed acknowledgements";

/// From this share on calls consist mainly of waiting.
const WAITING_SHARE: f64 = 0.5;

/// A failed call takes a flow's time and answers nothing: beyond this share the rate is that of failures.
const FAILED_SHARE: f64 = 0.05;

/// The rules in their order: errors, limits of the plan or the harness, full CPUs, and waiting for each other last, since every
/// closed loop with few flows looks like that.
pub const RULES: &[Rule<CallSigns>] = &[
    Rule { name: "the harness", test: harness },
    Rule { name: "backlog", test: backlog },
    Rule { name: "errors", test: errors },
    Rule { name: "latency objective", test: latency_objective },
    Rule { name: DELAYED_ACKS, test: delayed_acknowledgements },
    Rule { name: "offered load", test: offered_load },
    Rule { name: "shared CPU", test: shared_cpu },
    Rule { name: "both CPUs", test: both_cpus },
    Rule { name: "client CPU", test: client_cpu },
    Rule { name: "server CPU", test: server_cpu },
    Rule { name: relay::RELAY, test: |signs| relay::relay_cpu(signs.relay.as_ref()) },
    Rule { name: relay::ALL, test: |signs| relay::all_cpus(signs.relay.as_ref()) },
    Rule { name: relay::SHARED, test: |signs| relay::shared_cpu(waits(signs), signs.relay.as_ref()) },
    Rule { name: "other programs", test: other_programs },
    Rule { name: "softirq", test: |signs| super::softirq(signs.softirq_busiest_cpus) },
    Rule { name: "wake-ups", test: wake_ups },
];

/// The first rule that applies, with its evidence. Names an offered load that was not reached.
pub fn find(signs: &CallSigns) -> CellLimit {
    let (name, mut finding) = first(RULES, signs, unknown);
    if let Some((offered, rate)) = signs.offered_rate.zip(signs.rate).filter(|(o, rate)| *rate < OFFERED_SHARE * o) {
        finding.sentence =
            format!("{} were offered and {} answered: {}", call_rate(offered), call_rate(rate), finding.sentence);
        finding.evidence.extend([("offered_calls_per_s", offered), ("rate_calls_per_s", rate)]);
    }
    limit(name, finding)
}

fn harness(signs: &CallSigns) -> Option<Evidence> {
    super::harness(signs.floor_share, |share| {
        format!("the client's own bookkeeping takes {share} of its time per call: the number is ours, not the server's")
    })
}

fn backlog(signs: &CallSigns) -> Option<Evidence> {
    let share = signs.not_accepted_share.filter(|share| *share >= FAILED_SHARE)?;
    let overflows = signs.listen_overflows.map(|times| ("listen_overflows", times as f64));
    Some(Evidence {
        sentence: format!("{} of the calls found no place in the server's backlog", percent(share)),
        evidence: [("not_accepted_share", share)].into_iter().chain(overflows).collect(),
    })
}

fn errors(signs: &CallSigns) -> Option<Evidence> {
    let share = signs.failed_share.filter(|share| *share >= FAILED_SHARE)?;
    Some(Evidence {
        sentence: format!("{} of the calls failed: the rate is that of failing", percent(share)),
        evidence: vec![("failed_share", share)],
    })
}

/// Beyond the knee the limit is exceeded; the maximum of a closed loop shows which CPU is full by then.
fn latency_objective(signs: &CallSigns) -> Option<Evidence> {
    let Objective { percentile, limit_ns, at_knee_ns, beyond_per_second, at_beyond_ns, closed_per_second } =
        signs.objective?;
    let time = |ns: f64| Nanos(ns as u64);
    let beyond = match at_beyond_ns.filter(|ns| *ns > limit_ns as f64) {
        Some(ns) => format!("it is {} at {}", time(ns), call_rate(beyond_per_second)),
        None => format!("of {} not all are completed in time", call_rate(beyond_per_second)),
    };
    let at_beyond = at_beyond_ns.map(|ns| ("at_beyond_ns", ns));
    Some(Evidence {
        sentence: format!(
            "{percentile} is {} of the {} allowed, and {beyond}; clients that wait for each reply reach {}",
            time(at_knee_ns),
            Nanos(limit_ns),
            call_rate(closed_per_second)
        ),
        evidence: [("limit_ns", limit_ns as f64), ("at_knee_ns", at_knee_ns)]
            .into_iter()
            .chain(at_beyond)
            .chain([("beyond_calls_per_s", beyond_per_second), ("closed_calls_per_s", closed_per_second)])
            .collect(),
    })
}

/// Nagle's algorithm (RFC 9293, 3.7.4) delays a small write while data is unacknowledged, and the receiver, which has nothing
/// to send before the request is whole, delays the acknowledgement (RFC 9293, 3.8.6.3).
fn delayed_acknowledgements(signs: &CallSigns) -> Option<Evidence> {
    let waits = signs.waits.filter(|waits| waits.time_share >= WAITING_SHARE)?;
    Some(Evidence {
        sentence: format!(
            "{} of the clients' time goes into calls of 40 ms and more, as long as an acknowledgement may be delayed, and \
             {} were: Nagle's algorithm holds the rest of a message back until it comes",
            percent(waits.time_share),
            waits.acks
        ),
        evidence: vec![
            ("slow_time_share", waits.time_share),
            ("slow_share", waits.slow_share),
            ("delayed_acks", waits.acks as f64),
        ],
    })
}

fn offered_load(signs: &CallSigns) -> Option<Evidence> {
    if let Some((offered, rate)) = signs.offered_rate.zip(signs.rate)
        && rate >= OFFERED_SHARE * offered
    {
        return Some(Evidence {
            sentence: format!(
                "{} {}: compare CPU and latency, not rates",
                call_rate(offered),
                offered_and("answered", offered, rate)
            ),
            evidence: vec![("offered_calls_per_s", offered), ("rate_calls_per_s", rate)],
        });
    }
    planned_pauses("the clients pause", signs.think_share)
}

fn shared_cpu(signs: &CallSigns) -> Option<Evidence> {
    let both = signs.both_busy.filter(|both| *both >= SHARED_BUSY)?;
    Some(Evidence {
        sentence: match signs.same_cpu {
            true => format!("client and server share one CPU, which they keep {} busy", percent(both)),
            false => format!("client and server keep the CPUs they share {} busy", percent(both)),
        },
        evidence: vec![("both_busy", both)],
    })
}

fn both_cpus(signs: &CallSigns) -> Option<Evidence> {
    let (client, server) = signs.client_busy.zip(signs.server_busy)?;
    (client.min(server) >= BUSY && (client - server).abs() < BALANCED).then(|| Evidence {
        sentence: format!(
            "both ends run nearly all the time: client {}, server {}; a better server would need a better client to \
             be seen",
            percent(client),
            percent(server)
        ),
        evidence: vec![("client_busy", client), ("server_busy", server)],
    })
}

fn client_cpu(signs: &CallSigns) -> Option<Evidence> {
    let client = signs.client_busy.filter(|busy| *busy >= BUSY)?;
    let server = signs.server_busy.filter(|server| *server <= client)?;
    Some(Evidence {
        sentence: format!(
            "the client, which measures, runs {} of the time and the server {}: the server could do more than the \
             number shows",
            percent(client),
            percent(server)
        ),
        evidence: vec![("client_busy", client), ("server_busy", server)],
    })
}

fn server_cpu(signs: &CallSigns) -> Option<Evidence> {
    let server = signs.server_busy.filter(|busy| *busy >= BUSY)?;
    let client = signs.client_busy?;
    Some(Evidence {
        sentence: format!("the server runs {} of the time, the client {}", percent(server), percent(client)),
        evidence: vec![("server_busy", server), ("client_busy", client)],
    })
}

/// The largest share of time that an end waits for a CPU, unless its threads wait for each other there.
fn waits(signs: &CallSigns) -> Option<f64> {
    let (client, server) = signs.client_queued_share.zip(signs.server_queued_share)?;
    let idle = |busy: Option<f64>| busy.is_some_and(|busy| busy < BUSY);
    let alone = signs.both_busy.is_none() && idle(signs.client_busy) && idle(signs.server_busy);
    alone.then_some(client.max(server))
}

fn other_programs(signs: &CallSigns) -> Option<Evidence> {
    let (client, server) = signs.client_queued_share.zip(signs.server_queued_share)?;
    (relay::taken_by_others(waits(signs)?, signs.relay.as_ref()) >= QUEUED).then(|| Evidence {
        sentence: format!(
            "the ends could run but wait for a CPU that others have: client {} of the time, server {}",
            percent(client),
            percent(server)
        ),
        evidence: vec![("client_queued_share", client), ("server_queued_share", server)],
    })
}

fn wake_ups(signs: &CallSigns) -> Option<Evidence> {
    let (client, server) = signs.client_busy.zip(signs.server_busy)?;
    let (client_idle, server_idle) = signs.client_idle_per_sleep_us.zip(signs.server_idle_per_sleep_us)?;
    (client.max(server) < BUSY && client_idle.max(server_idle) <= WAKE_UP_US).then(|| Evidence {
        sentence: format!(
            "the ends wait for each other's messages in many short pieces: client {} busy, idle {} µs at a time; \
             server {}, {} µs",
            percent(client),
            significant(client_idle, 2),
            percent(server),
            significant(server_idle, 2)
        ),
        evidence: vec![
            ("client_busy", client),
            ("server_busy", server),
            ("client_idle_per_sleep_us", client_idle),
            ("server_idle_per_sleep_us", server_idle),
        ],
    })
}

fn unknown(signs: &CallSigns) -> Evidence {
    let rest = match signs.server_busy {
        Some(_) => "no recorded number explains the rest",
        None => "the server's CPU time was not recorded, so whether it is the limit is not known",
    };
    busy_ends([("client_busy", "client", signs.client_busy), ("server_busy", "server", signs.server_busy)], rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UNKNOWN;

    fn ends(client: f64, server: f64) -> CallSigns {
        CallSigns { client_busy: Some(client), server_busy: Some(server), ..CallSigns::default() }
    }

    fn check(signs: CallSigns, name: &str, part: &str) {
        let found = find(&signs);
        assert!(found.name == name && found.sentence.contains(part), "{found:?}");
        assert!(name == UNKNOWN || !found.evidence.is_empty(), "{name} shows no evidence");
    }

    #[test]
    fn each_rule_fires_on_planted_numbers() {
        check(CallSigns { floor_share: Some(0.6), ..ends(0.99, 0.5) }, "the harness", "60 % of its time per call");
        check(
            CallSigns { not_accepted_share: Some(0.1), failed_share: Some(0.1), ..ends(0.1, 0.1) },
            "backlog",
            "10 % of the calls found no place",
        );
        check(CallSigns { failed_share: Some(0.5), ..ends(0.1, 0.1) }, "errors", "50 % of the calls failed");
        check(
            CallSigns { offered_rate: Some(20_000.0), rate: Some(19_990.0), ..ends(0.4, 0.4) },
            "offered load",
            "20 k calls/s were offered and answered",
        );
        check(
            CallSigns { offered_rate: Some(2_000.0), rate: Some(1_940.0), ..ends(0.4, 0.4) },
            "offered load",
            "2 k calls/s were offered and 97 % of them answered: compare CPU",
        );
        let objective = Objective {
            percentile: "p99",
            limit_ns: 2_000_000,
            at_knee_ns: 1_600_000.0,
            beyond_per_second: 36_000.0,
            at_beyond_ns: Some(3_100_000.0),
            closed_per_second: 41_000.0,
        };
        check(
            CallSigns { objective: Some(objective), ..ends(0.4, 0.99) },
            "latency objective",
            "p99 is 1.6 ms of the 2 ms allowed, and it is 3.1 ms at 36 k calls/s; clients that wait for each reply reach 41 k calls/s",
        );
        let unfinished = Objective { at_beyond_ns: None, ..objective };
        check(
            CallSigns { objective: Some(unfinished), ..ends(0.4, 0.99) },
            "latency objective",
            "of 36 k calls/s not all are completed in time",
        );
        let waits = Waits { slow_share: 0.4, time_share: 0.97, acks: 380 };
        check(
            CallSigns { waits: Some(waits), ..ends(0.02, 0.01) },
            "delayed acknowledgements",
            "97 % of the clients' time goes into calls of 40 ms and more",
        );
        check(CallSigns { waits: Some(Waits { time_share: 0.1, ..waits }), ..ends(0.98, 0.7) }, "client CPU", "");
        check(CallSigns { think_share: Some(0.9), ..ends(0.1, 0.1) }, "offered load", "pause 90 %");
        check(
            CallSigns { same_cpu: true, both_busy: Some(0.98), ..ends(0.5, 0.48) },
            "shared CPU",
            "share one CPU, which they keep 98 % busy",
        );
        check(ends(0.97, 0.96), "both CPUs", "client 97 %, server 96 %");
        check(ends(0.98, 0.7), "client CPU", "the server could do more than the number shows");
        check(ends(0.6, 0.98), "server CPU", "the server runs 98 % of the time, the client 60 %");
        check(
            CallSigns { client_queued_share: Some(1.75), server_queued_share: Some(0.1), ..ends(0.5, 0.5) },
            "unknown",
            "the numbers behind it cannot be true (client_queued_share 1.75)",
        );
        check(
            CallSigns { client_queued_share: Some(0.3), server_queued_share: Some(0.1), ..ends(0.5, 0.5) },
            "other programs",
            "client 30 % of the time",
        );
        let relay = RelaySigns { cpus: 0.6, capacity: 2.0, ends_cpus: 1.0, machine_cpus: Some(2) };
        check(
            CallSigns {
                relay: Some(relay),
                client_queued_share: Some(0.3),
                server_queued_share: Some(0.1),
                ..ends(0.5, 0.5)
            },
            "CPU shared with the relay",
            "waits 30 % of the time for a CPU, and the relay uses 0.6 CPUs",
        );
        check(CallSigns { softirq_busiest_cpus: Some(0.9), ..ends(0.5, 0.5) }, "softirq", "90 % of its time");
        check(
            CallSigns { client_idle_per_sleep_us: Some(12.0), server_idle_per_sleep_us: Some(9.0), ..ends(0.5, 0.5) },
            "wake-ups",
            "idle 12 µs at a time",
        );
    }

    #[test]
    fn unreached_load_has_its_cause() {
        let signs = CallSigns { offered_rate: Some(200_000.0), rate: Some(140_000.0), ..ends(0.5, 0.99) };
        check(signs, "server CPU", "200 k calls/s were offered and 140 k calls/s answered: the server runs 99 %");
    }

    #[test]
    fn without_evidence_it_is_unknown() {
        check(CallSigns::default(), UNKNOWN, "CPU time was not recorded");
        check(ends(0.5, 0.5), UNKNOWN, "client 50 % busy, server 50 % busy: no recorded number explains the rest");
    }
}
