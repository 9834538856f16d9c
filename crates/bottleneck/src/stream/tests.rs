//! Tests of limits.

use super::*;
use crate::UNKNOWN;

fn pair(source: f64, sink: f64) -> StreamSigns {
    StreamSigns {
        two_ended: true,
        threads: 1,
        cpus: Some(2),
        source_cpus: Some(source),
        sink_cpus: Some(sink),
        ..StreamSigns::default()
    }
}

fn device(sink: f64, system: f64) -> StreamSigns {
    StreamSigns { threads: 1, sink_cpus: Some(sink), sink_system_share: Some(system), ..StreamSigns::default() }
}

fn check(signs: StreamSigns, name: &str, sentence: &str) {
    let found = find(&signs);
    assert_eq!((found.name, found.sentence.as_str()), (name, sentence), "{signs:?}");
    assert!(name == UNKNOWN || !found.evidence.is_empty(), "{name} shows no evidence");
}

#[test]
fn each_rule_fires_on_planted_numbers() {
    check(
        StreamSigns { floor_share: Some(0.6), ..pair(0.99, 0.5) },
        "the harness",
        "measuring takes 60 % of each call, so the system is faster than this rate shows",
    );
    check(
        StreamSigns { offered_rate: Some(104_857_600.0), rate: Some(104_000_000.0), ..pair(0.99, 0.5) },
        "offered load",
        "100 MiB/s were offered and arrived: compare CPU, not rates",
    );
    check(
        StreamSigns { moves_nothing: true, ..device(0.99, 0.0) },
        "the harness",
        "the engine moves nothing: this is the harness's own loop, and the reader's work if it has any",
    );
    check(
        StreamSigns { think_share: Some(0.7), ..pair(0.2, 0.2) },
        "offered load",
        "the writer pauses 70 % of the time by order of the plan",
    );
    check(device(0.99, 0.98), "the source itself", "the reader runs 99 % of the time, 98 % of it inside read(2)");
    check(
        StreamSigns { sink_idle_per_sleep_us: Some(900.0), ..device(0.3, 0.9) },
        "the source itself",
        "the reader runs 30 % of the time and waits for the source in between",
    );
    check(
        StreamSigns { link_rate: Some(12_066_667.0), rate: Some(11e6), ..pair(0.99, 0.2) },
        "the link",
        "the emulated link is full: it carries 11.5 MiB/s of data at most",
    );
    check(
        StreamSigns { link_rate: Some(12e6), rate: Some(10e6), ..pair(0.99, 0.2) },
        "sender CPU",
        "the writer runs 99 % of the time, the reader 20 %",
    );
    check(
        StreamSigns { same_cpu: true, ..pair(0.5, 0.48) },
        "shared CPU",
        "both ends share one CPU, which they keep 98 % busy",
    );
    check(
        StreamSigns { threads: 4, ..pair(1.2, 0.76) },
        "shared CPU",
        "both ends keep 98 % of the 2 CPUs they may use busy",
    );
    check(pair(0.97, 0.96), "both CPUs", "both ends run nearly all the time: writer 97 %, reader 96 %");
    check(pair(0.98, 0.6), "sender CPU", "the writer runs 98 % of the time, the reader 60 %");
    check(pair(0.5, 0.98), "receiver CPU", "the reader runs 98 % of the time, the writer 50 %");
    check(device(0.98, 0.2), "receiver CPU", "the reader runs 98 % of the time, most of it its own work");
    check(
        StreamSigns { source_queued_share: Some(0.1), sink_queued_share: Some(0.45), ..pair(0.4, 0.5) },
        "other programs",
        "the ends could run but wait for a CPU that others have: writer 10 % of the time, reader 45 %",
    );
    check(
        StreamSigns { sink_queued_share: Some(0.5), ..device(0.5, 0.98) },
        "other programs",
        "the reader could run but waits 50 % of the time for a CPU that others have",
    );
    check(
        StreamSigns { softirq_busiest_cpus: Some(0.93), ..pair(0.5, 0.5) },
        "softirq",
        "one CPU spends 93 % of its time on soft interrupts",
    );
    check(
        StreamSigns { rwnd_limited_share: Some(0.6), ..pair(0.5, 0.5) },
        "window",
        "the sender waits for the receiver's window 60 % of the time in which it has data to send",
    );
    check(
        StreamSigns { sndbuf_limited_share: Some(0.7), rwnd_limited_share: Some(0.4), ..pair(0.5, 0.5) },
        "socket buffer",
        "the send buffer was the limit 70 % of the time in which the sender has data",
    );
    check(
        StreamSigns { larger_buffer: Some(("sndbuf", 0.34)), ..pair(0.6, 0.7) },
        "socket buffer",
        "with a larger sndbuf and all else equal it is 34 % faster",
    );
    check(
        StreamSigns { source_idle_per_sleep_us: Some(21.0), sink_idle_per_sleep_us: Some(14.2), ..pair(0.7, 0.75) },
        "wake-ups",
        "the ends wait for each other in many short pieces: writer 70 % busy, idle 21 µs at a time; reader 75 %, 14 µs",
    );
}

#[test]
fn without_evidence_it_is_unknown() {
    check(StreamSigns::default(), UNKNOWN, "CPU time was not recorded");
    check(pair(0.5, 0.5), UNKNOWN, "writer 50 % busy, reader 50 % busy: no recorded number explains the rest");
    let long_waits =
        StreamSigns { source_idle_per_sleep_us: Some(9_000.0), sink_idle_per_sleep_us: Some(20.0), ..pair(0.5, 0.5) };
    assert_eq!(find(&long_waits).name, UNKNOWN);
    let small_gain = StreamSigns { larger_buffer: Some(("sndbuf", 0.04)), ..pair(0.5, 0.5) };
    assert_eq!(find(&small_gain).name, UNKNOWN);
    let busy_reader_alone = StreamSigns { source_cpus: None, ..pair(0.0, 0.99) };
    assert_eq!(find(&busy_reader_alone).name, UNKNOWN);
}

#[test]
fn ends_on_one_cpu_wait_for_each_other() {
    let queued = StreamSigns { source_queued_share: Some(0.5), sink_queued_share: Some(0.4), ..pair(0.5, 0.42) };
    assert_eq!(find(&StreamSigns { same_cpu: true, ..queued }).name, UNKNOWN);
    let alone = StreamSigns { same_cpu: true, source_cpus: Some(0.3), sink_cpus: Some(0.3), ..queued };
    assert_eq!(find(&alone).name, "other programs");
}

#[test]
fn a_relay_is_no_other_program() {
    let relay = RelaySigns { cpus: 0.6, capacity: 2.0, ends_cpus: 1.0, machine_cpus: Some(2) };
    let queued = StreamSigns { source_queued_share: Some(0.1), sink_queued_share: Some(0.45), ..pair(0.4, 0.5) };
    check(
        StreamSigns { relay: Some(relay), ..queued },
        "CPU shared with the relay",
        "an end could run but waits 45 % of the time for a CPU, and the relay uses 0.6 CPUs",
    );
    assert_eq!(find(&StreamSigns { relay: Some(RelaySigns { cpus: 0.1, ..relay }), ..queued }).name, "other programs");
}

#[test]
fn a_busy_reader_hides_a_full_window() {
    let signs = StreamSigns { rwnd_limited_share: Some(0.9), ..pair(0.4, 0.99) };
    assert_eq!(find(&signs).name, "receiver CPU");
}

#[test]
fn writer_without_reader_data_may_be_the_limit() {
    let alone = StreamSigns { source_cpus: Some(0.97), sink_cpus: None, ..pair(0.97, 0.0) };
    let found = find(&alone);
    assert!(found.name == "sender CPU" && found.sentence.contains("was not recorded"), "{found:?}");
    assert_eq!(find(&StreamSigns { source_cpus: Some(0.5), ..alone }).name, UNKNOWN);
}

#[test]
fn unreached_rate_is_no_offered_load() {
    let signs = StreamSigns { offered_rate: Some(1e9), rate: Some(5e8), ..pair(0.99, 0.4) };
    assert_eq!(find(&signs).name, "sender CPU");
}
