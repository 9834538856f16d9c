//! Tests of limits.

use super::*;
use crate::UNKNOWN;

fn ends(near: f64, far: f64) -> [EndSigns; 2] {
    [near, far].map(|busy| EndSigns { busy: Some(busy), ..EndSigns::default() })
}

fn pair(writer: f64, reader: f64) -> PathSigns {
    PathSigns { two_ended: true, ends: ends(writer, reader), ..PathSigns::default() }
}

fn calls(client: f64, server: f64) -> PathSigns {
    PathSigns { calls: true, ..pair(client, server) }
}

fn device(busy: f64, system: f64) -> PathSigns {
    let reader = EndSigns { busy: Some(busy), ..EndSigns::default() };
    PathSigns { ends: [EndSigns::default(), reader], reader_system_share: Some(system), ..PathSigns::default() }
}

fn queued(signs: PathSigns, shares: [f64; 2]) -> PathSigns {
    let mut ends = signs.ends;
    ends.iter_mut().zip(shares).for_each(|(end, share)| end.queued_share = Some(share));
    PathSigns { ends, ..signs }
}

fn idle(signs: PathSigns, times: [f64; 2]) -> PathSigns {
    let mut ends = signs.ends;
    ends.iter_mut().zip(times).for_each(|(end, us)| end.idle_per_sleep_us = Some(us));
    PathSigns { ends, ..signs }
}

fn check(signs: PathSigns, name: &str, part: &str) {
    let found = find(&signs);
    assert!(found.name == name && found.sentence.contains(part), "{found:?}");
    assert!(name == UNKNOWN || !found.evidence.is_empty(), "{name} shows no evidence");
}

#[test]
fn limits_of_streams_have_evidence() {
    let harness = "measuring takes 60 % of each call, so the system is faster than this rate shows";
    check(PathSigns { floor_share: Some(0.6), ..pair(0.99, 0.5) }, "the harness", harness);
    check(
        PathSigns { offered_rate: Some(104_857_600.0), rate: Some(104_000_000.0), ..pair(0.99, 0.5) },
        "offered load",
        "100 MiB/s were offered and arrived: compare CPU, not rates",
    );
    let nothing = "the engine moves nothing: this is the harness's own loop, and the reader's work if it has any";
    check(PathSigns { moves_nothing: true, ..device(0.99, 0.0) }, "the harness", nothing);
    let pauses = "the writer pauses 70 % of the time by order of the plan";
    check(PathSigns { think_share: Some(0.7), ..pair(0.2, 0.2) }, "offered load", pauses);
    check(device(0.99, 0.98), "the source itself", "the reader runs 99 % of the time, 98 % of it inside read(2)");
    let waits = "the reader runs 30 % of the time and waits for the source in between";
    check(idle(device(0.3, 0.9), [0.0, 900.0]), "the source itself", waits);
    check(
        PathSigns { link_rate: Some(12_066_667.0), rate: Some(11e6), ..pair(0.99, 0.2) },
        "the link",
        "the emulated link is full: it carries 11.5 MiB/s of data at most",
    );
    check(
        PathSigns { link_rate: Some(12e6), rate: Some(10e6), ..pair(0.99, 0.2) },
        "sender CPU",
        "the writer runs 99 % of the time, the reader 20 %",
    );
    let one = SharedCpus { cpus: 1.0, busy: 0.98 };
    let shares = "both ends share one CPU, which they keep 98 % busy";
    check(PathSigns { shared: Some(one), ..pair(0.5, 0.48) }, "shared CPU", shares);
    check(
        PathSigns { shared: Some(SharedCpus { cpus: 2.0, ..one }), ..pair(0.6, 0.38) },
        "shared CPU",
        "both ends keep 98 % of the 2 CPUs they may use busy",
    );
    check(pair(0.97, 0.96), "both CPUs", "both ends run nearly all the time: writer 97 %, reader 96 %");
    check(pair(0.98, 0.6), "sender CPU", "the writer runs 98 % of the time, the reader 60 %");
    check(pair(0.5, 0.98), "receiver CPU", "the reader runs 98 % of the time, the writer 50 %");
    check(device(0.98, 0.2), "receiver CPU", "the reader runs 98 % of the time, most of it its own work");
    check(
        queued(pair(0.4, 0.5), [0.1, 0.45]),
        "other programs",
        "wait for a CPU that others have: writer 10 % of the time, reader 45 % of the time",
    );
    check(
        PathSigns { crowded: Some((8, 2)), ..queued(pair(0.4, 0.5), [0.1, 0.45]) },
        "too few CPUs",
        "8 threads of the test share 2 CPUs: they wait for a CPU: writer 10 % of the time",
    );
    let mut alone = device(0.5, 0.98);
    alone.ends[1].queued_share = Some(0.5);
    check(alone, "other programs", "that others have: reader 50 % of the time");
    let softirq = "one CPU spends 93 % of its time on soft interrupts";
    check(PathSigns { softirq_busiest_cpus: Some(0.93), ..pair(0.5, 0.5) }, "softirq", softirq);
    check(
        PathSigns { rwnd_limited_share: Some(0.6), ..pair(0.5, 0.5) },
        "window",
        "the sender waits for the receiver's window 60 % of the time in which it has data to send",
    );
    check(
        PathSigns { sndbuf_limited_share: Some(0.7), rwnd_limited_share: Some(0.4), ..pair(0.5, 0.5) },
        "socket buffer",
        "the send buffer was the limit 70 % of the time in which the sender has data",
    );
    check(
        idle(pair(0.7, 0.75), [21.0, 14.2]),
        "wake-ups",
        "the ends wait for each other in many short pieces: writer 70 % busy, idle 21 µs at a time; reader 75 % \
         busy, idle 14 µs at a time",
    );
}

#[test]
fn limits_of_calls_have_evidence() {
    check(PathSigns { floor_share: Some(0.6), ..calls(0.99, 0.5) }, "the harness", "60 % of each call");
    check(
        PathSigns { not_accepted_share: Some(0.1), failed_share: Some(0.1), ..calls(0.1, 0.1) },
        "backlog",
        "10 % of the calls found no place",
    );
    check(PathSigns { failed_share: Some(0.5), ..calls(0.1, 0.1) }, "errors", "50 % of the calls failed");
    check(
        PathSigns { offered_rate: Some(20_000.0), rate: Some(19_990.0), ..calls(0.4, 0.4) },
        "offered load",
        "20 k calls/s were offered and answered",
    );
    check(
        PathSigns { offered_rate: Some(2_000.0), rate: Some(1_940.0), ..calls(0.4, 0.4) },
        "offered load",
        "2 k calls/s were offered and 97 % of them answered: compare CPU",
    );
    let objective = Objective {
        percentile: "p99",
        limit_ns: 2_000_000,
        at_knee_ns: Some(1_600_000.0),
        beyond_per_second: Some(36_000.0),
        at_beyond_ns: Some(3_100_000.0),
        closed_per_second: Some(41_000.0),
    };
    check(
        PathSigns { objective: Some(objective), ..calls(0.4, 0.99) },
        "latency objective",
        "p99 is 1.6 ms of the 2 ms allowed, and it is 3.1 ms at 36 k calls/s; clients that wait for each reply reach 41 k calls/s",
    );
    let unfinished = Objective { at_beyond_ns: None, ..objective };
    check(
        PathSigns { objective: Some(unfinished), ..calls(0.4, 0.99) },
        "latency objective",
        "of 36 k calls/s not all are completed in time",
    );
    let waits = DelayedAcks { slow_share: 0.4, slow_time_share: 0.97, acks: 380, ..DelayedAcks::default() };
    check(
        PathSigns { waits: Some(waits), ..calls(0.02, 0.01) },
        "delayed acknowledgements",
        "97 % of the clients' time goes into calls of 40 ms and more",
    );
    check(
        PathSigns { waits: Some(DelayedAcks { slow_time_share: 0.1, ..waits }), ..calls(0.98, 0.7) },
        "client CPU",
        "",
    );
    check(PathSigns { think_share: Some(0.9), ..calls(0.1, 0.1) }, "offered load", "pauses 90 %");
    check(calls(0.97, 0.96), "both CPUs", "client 97 %, server 96 %");
    check(calls(0.98, 0.7), "client CPU", "the client runs 98 % of the time, the server 70 %");
    check(calls(0.6, 0.98), "server CPU", "the server runs 98 % of the time, the client 60 %");
    let impossible = "the numbers behind it cannot be true (client_queued_share 1.75)";
    check(queued(calls(0.5, 0.5), [1.75, 0.1]), UNKNOWN, impossible);
    check(queued(calls(0.5, 0.5), [0.3, 0.1]), "other programs", "client 30 % of the time");
    check(idle(calls(0.5, 0.5), [12.0, 9.0]), "wake-ups", "idle 12 µs at a time");
}

#[test]
fn without_evidence_it_is_unknown() {
    check(PathSigns::default(), UNKNOWN, "CPU time was not recorded");
    check(pair(0.5, 0.5), UNKNOWN, "writer 50 % busy, reader 50 % busy: no recorded number explains the rest");
    check(calls(0.5, 0.5), UNKNOWN, "client 50 % busy, server 50 % busy: no recorded number explains the rest");
    assert_eq!(find(&idle(pair(0.5, 0.5), [9_000.0, 20.0])).name, UNKNOWN, "long waits");
    for missing in 0..2 {
        let mut alone = calls(0.99, 0.99);
        alone.ends[missing].busy = None;
        check(alone, UNKNOWN, "was not recorded, so whether it is the limit is not known");
    }
}

#[test]
fn ends_on_one_cpu_wait_for_each_other() {
    let shared = |busy| Some(SharedCpus { cpus: 1.0, busy });
    let both = queued(pair(0.5, 0.42), [0.5, 0.4]);
    assert_eq!(find(&PathSigns { shared: shared(0.92), ..both }).name, UNKNOWN);
    let alone = PathSigns { shared: shared(0.6), ..queued(pair(0.3, 0.3), [0.5, 0.4]) };
    assert_eq!(find(&alone).name, "other programs");
}

#[test]
fn relay_is_told_from_other_programs() {
    let relay = RelaySigns { cpus: 0.6, capacity: 2.0, ends_cpus: 1.0, machine_cpus: Some(2) };
    let waits = |cpus, share| {
        let signs = PathSigns { relay: Some(RelaySigns { cpus, ..relay }), ..queued(pair(0.4, 0.5), [0.1, share]) };
        find(&signs).name
    };
    assert_eq!((waits(0.6, 0.45), waits(0.1, 0.45), waits(0.4, 0.5)), (RELAY_SHARED, "other programs", RELAY_SHARED));
    let of = |relay| find(&PathSigns { relay: Some(relay), ..pair(0.5, 0.5) }).name;
    assert_eq!(of(RelaySigns { cpus: 0.95, capacity: 1.0, ends_cpus: 0.5, ..relay }), RELAY);
    assert_eq!(of(RelaySigns { cpus: 0.7, capacity: 1.0, ends_cpus: 1.2, ..relay }), ALL);
    assert_eq!(of(RelaySigns { cpus: 0.7, capacity: 1.0, ends_cpus: 0.9, ..relay }), UNKNOWN);
}

#[test]
fn a_busy_reader_hides_a_full_window() {
    let signs = PathSigns { rwnd_limited_share: Some(0.9), ..pair(0.4, 0.99) };
    assert_eq!(find(&signs).name, "receiver CPU");
}

#[test]
fn unreached_rate_is_no_offered_load() {
    let signs = PathSigns { offered_rate: Some(1e9), rate: Some(5e8), ..pair(0.99, 0.4) };
    assert_eq!(find(&signs).name, "sender CPU");
}
