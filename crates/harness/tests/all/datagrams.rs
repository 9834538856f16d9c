//! Streams of datagrams, end to end: sent datagrams are counted, losses are seen, planted faults are found.

use std::time::Instant;

use crate::support::{in_mode, run, run_until};
use bytegauge_harness::trial::TrialResult;
use bytegauge_model::name_tables::{ENGINES, TRANSPORTS};
use bytegauge_model::{
    DatagramReport, Deaths, Direction, EndRole, Engine, FactorKey, Level, Outcome, Spec, Transport, Work,
};
use bytegauge_sys::snmp::backlog_drops;
use bytegauge_traffic::{PlantedFault, Setup};

fn setup(transport: &str, engine: &str) -> Setup {
    let levels = Spec::from([
        ("transport", transport.into()),
        ("engine", engine.into()),
        ("read_size", 65_536.into()),
        ("write_size", 1000.into()),
    ]);
    let mut setup = Setup::of(&levels).unwrap();
    setup.warmup_ns = 1_000_000;
    setup.window_ns = 20_000_000;
    setup.seed = 7;
    setup
}

/// The same setup with each end on a CPU of its own: a sender that moves to another CPU can reorder its datagrams.
fn pinned(setup: Setup) -> Setup {
    let allowed = bytegauge_sys::affinity::allowed_cpus().unwrap();
    let cpus = [(EndRole::Source, vec![allowed[0]]), (EndRole::Sink, vec![allowed[allowed.len() - 1]])].into();
    Setup { cpus, ..setup }
}

/// Runs a trial that has to be measured, or is skipped with a reason.
fn measured(setup: &Setup) -> Option<TrialResult> {
    measured_until(setup, |_| true)
}

fn measured_until(setup: &Setup, shows: impl Fn(&TrialResult) -> bool) -> Option<TrialResult> {
    let measured =
        run_until(setup, |measured| in_mode(measured) && (measured.outcome != Outcome::Measured || shows(measured)));
    if let Outcome::Skipped(reason) = &measured.outcome {
        assert!(!reason.is_empty());
        return None;
    }
    assert_eq!(measured.outcome, Outcome::Measured, "{} over {}", setup.engine(), setup.transport());
    assert!(measured.ends_are_sound);
    Some(measured)
}

fn deaths(measured: &TrialResult) -> Deaths {
    let of = |role| *measured.end(role).unwrap().datagrams.clone().unwrap();
    Deaths::of(&of(EndRole::Source), &of(EndRole::Sink))
}

#[test]
fn every_engine_carries_its_transports() {
    for transport in TRANSPORTS.iter().filter(|row| row.name.parse::<Transport>().unwrap().is_datagram()) {
        let suits = |engine: &Engine| *engine != Engine::Null && engine.suits(&transport.name.parse().unwrap());
        for engine in ENGINES.iter().map(|row| row.value).filter(suits) {
            for (flows, verify, size) in [(1, false, 1000), (2, true, 1000), (1, true, 3), (1, false, 60_000)] {
                let engine = engine.to_string();
                let mut setup = Setup { verify, ..pinned(setup(transport.name, &engine)) };
                setup.spec.put(FactorKey::flows, flows);
                setup.spec.put(FactorKey::write_size, size);
                let Some(measured) = measured(&setup) else { continue };
                let (source, sink) = (measured.end(EndRole::Source).unwrap(), measured.end(EndRole::Sink).unwrap());
                let (sent, came) = (source.datagrams.as_ref().unwrap(), sink.datagrams.as_ref().unwrap());
                assert!(sink.bytes > 0 && came.datagrams > 0 && came.packets > 0);
                assert_eq!(sink.total_bytes, came.total * size, "{engine} over {}", transport.name);
                assert_eq!((came.truncated, came.duplicated), (0, 0), "{engine}");
                // Receives that are in flight at once may complete in another order than that of the datagrams.
                assert!(came.reordered == 0 || engine == "uring:plain", "{engine}: {came:?}");
                // No number below the highest one is missing, except lost datagrams.
                assert!(came.missing <= sent.total - came.total);
                assert!(!setup.verify || sink.verified_bytes == sink.total_bytes);
            }
        }
    }
}

#[test]
fn datagrams_both_ways_are_counted_per_direction() {
    let udp = Transport::Udp;
    let suits = |engine: &Engine| *engine != Engine::Null && engine.suits(&udp);
    for engine in ENGINES.iter().map(|row| row.value).filter(suits) {
        let mut both = Setup { verify: true, ..setup("udp", &engine.to_string()) };
        both.spec.put(FactorKey::flows, 2);
        both.spec.put(FactorKey::direction, Direction::Both);
        // Either end's window is its own, and a busy machine may keep any of its threads from it.
        let came_both_ways = |measured: &TrialResult| {
            let sink = measured.end(EndRole::Sink);
            sink.is_some_and(|sink| sink.flows.iter().all(|flow| flow.bytes > 0))
        };
        let Some(measured) = measured_until(&both, came_both_ways) else { continue };
        for back in [false, true] {
            let of = |role| {
                let flows = measured.end(role).unwrap().flows.iter().filter(|flow| flow.back == back);
                let flows: Vec<DatagramReport> = flows.map(|flow| *flow.datagrams.clone().unwrap()).collect();
                assert_eq!(flows.len(), 2, "{engine}");
                (flows.iter().map(|flow| flow.total).sum::<u64>(), flows.iter().map(|flow| flow.missing).sum::<u64>())
            };
            let ((sent, _), (came, missing)) = (of(EndRole::Source), of(EndRole::Sink));
            assert!(
                came > 0 && came <= sent && missing <= sent - came,
                "{engine}: {came} of {sent}, {missing} missing"
            );
        }
        let (bytes, _) = measured.throughput();
        let sink = measured.end(EndRole::Sink).unwrap();
        assert_eq!(bytes, sink.flows.iter().map(|flow| flow.bytes).sum::<u64>());
        assert_eq!(sink.verified_bytes, sink.total_bytes);
    }
}

#[test]
fn the_socket_reports_losses_of_a_fast_sender() {
    // The reader is far slower than the sender, and its buffer holds a few datagrams only.
    let mut slow = Setup { window_ns: 50_000_000, ..setup("udp", "plain") };
    slow.spec.put(FactorKey::work, Work::NsPerByte(100.0));
    slow.spec.set("rcvbuf", Level::Number(20_000));
    let before = backlog_drops().unwrap();
    let measured = measured_until(&slow, |measured| deaths(measured).lost > 0).unwrap();
    let elsewhere = backlog_drops().unwrap() - before;
    let deaths = deaths(&measured);
    assert!(deaths.lost > 0);
    // Over loopback datagrams are only lost in the socket, or in the kernel's own queue.
    assert_eq!(deaths.at_socket + deaths.unknown, deaths.lost, "{deaths:?}");
    assert!(deaths.unknown <= elsewhere, "{deaths:?}, {elsewhere} elsewhere");
}

#[test]
fn unix_datagrams_wait_for_their_reader() {
    let mut slow = setup("unix-dgram", "mmsg");
    slow.spec.put(FactorKey::work, Work::NsPerByte(20.0));
    assert_eq!(deaths(&measured(&slow).unwrap()), Deaths::default());
}

#[test]
fn planted_faults_are_counted_by_kind() {
    for engine in ["plain", "mmsg", "gso"] {
        // Slow enough that nothing else happens to the datagrams.
        let planted = |plant| {
            let mut setup = Setup { plant: Some(plant), ..setup("udp", engine) };
            setup.spec.put(FactorKey::rate, 50_000_000);
            pinned(setup)
        };
        let counts = |measured: &TrialResult| *measured.end(EndRole::Sink).unwrap().datagrams.clone().unwrap();
        let came = |plant, shows: fn(&DatagramReport) -> bool| {
            let measured = measured_until(&planted(plant), |measured| shows(&counts(measured))).unwrap();
            (counts(&measured), deaths(&measured))
        };
        let (sink, deaths) = came(PlantedFault::Lose(10), |sink| sink.missing > 0);
        assert!(sink.missing > 0 && deaths.lost >= sink.missing, "{engine}: {sink:?}");
        // Their place of loss is unknown, and shown as unknown. Drops by a socket whose reader gets no CPU are
        // counted in packets, each of which held about as many datagrams as the others.
        assert!(deaths.unknown >= sink.missing || deaths.at_socket > 0, "{engine}: {deaths:?}, {sink:?}");
        let (sink, _) = came(PlantedFault::Swap(10), |sink| sink.reordered > 0);
        assert!(sink.reordered > 0 && sink.duplicated == 0, "{engine}: {sink:?}");
        let (sink, _) = came(PlantedFault::Repeat(10), |sink| sink.duplicated > 0);
        assert!(sink.duplicated > 0 && sink.reordered == 0, "{engine}: {sink:?}");
    }
}

#[test]
fn a_flipped_bit_fails_the_trial() {
    for engine in ["plain", "mmsg", "gso"] {
        let plant = Some(PlantedFault::Corrupt(500));
        let outcome = run(&Setup { plant, verify: true, ..setup("udp", engine) }).outcome;
        assert!(outcome.reason().unwrap().contains("byte 500 arrived as"), "{outcome:?}");
    }
}

#[test]
fn invented_datagrams_fail_the_trial() {
    let plant = Some(PlantedFault::Overcount(1_000_000_000));
    let outcome = run(&Setup { plant, ..setup("udp", "plain") }).outcome;
    assert!(outcome.reason().unwrap().contains("the path invents data"), "{outcome:?}");
}

#[test]
fn every_engine_detects_a_small_buffer() {
    for engine in ["plain", "mmsg", "uring:plain", "uring:multishot"] {
        let mut small = Setup { verify: true, ..setup("udp", engine) };
        small.spec.put(FactorKey::read_size, 4096);
        small.spec.put(FactorKey::write_size, 8192);
        let Some(measured) = measured(&small) else { continue };
        let sink = measured.end(EndRole::Sink).unwrap();
        let came = sink.datagrams.as_ref().unwrap();
        assert_eq!((came.truncated, came.cut_bytes), (came.total, came.total * 4096), "{engine}");
        // Truncated datagrams do not count as arrived.
        assert_eq!(sink.total_bytes, came.total * 4096, "{engine}");
    }
    // The part of a joined receive that exceeds the buffer is lost: 4 of 64 datagrams and a part of the fifth stay.
    let mut small = setup("udp", "gso");
    small.spec.put(FactorKey::read_size, 4096);
    let measured = measured(&small).unwrap();
    let sink = measured.end(EndRole::Sink).unwrap();
    let came = sink.datagrams.as_ref().unwrap();
    assert_eq!(came.truncated, came.total_packets * 60, "{came:?}");
    assert_eq!(sink.total_bytes, came.total_packets * 4096);
}

#[test]
fn the_watchdog_ends_a_stalled_receiver() {
    for transport in ["udp", "unix-dgram"] {
        let plant = Some(PlantedFault::Stall(10_000));
        let stalled = Setup { plant, grace_ns: 200_000_000, ..setup(transport, "plain") };
        let outcome = run_until(&stalled, |measured| measured.outcome != Outcome::Measured).outcome;
        assert!(outcome.reason().is_some_and(|reason| reason.starts_with("stalled")), "{transport}: {outcome:?}");
    }
}

#[test]
fn a_receiver_that_dies_is_noticed() {
    let plant = Some(PlantedFault::Die(10_000));
    let dying = Setup { plant, grace_ns: 500_000_000, ..setup("udp", "plain") };
    let outcome = run_until(&dying, |measured| measured.outcome != Outcome::Measured).outcome;
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
}

#[test]
fn too_large_datagrams_are_skipped() {
    for (transport, size) in [("udp", 65_508), ("unix-dgram", 16 << 20)] {
        let mut large = setup(transport, "plain");
        large.spec.put(FactorKey::write_size, size);
        let outcome = run(&large).outcome;
        let Outcome::Skipped(reason) = &outcome else { panic!("{transport}: {outcome:?}") };
        assert!(reason.contains("use a smaller --write-size"), "{reason}");
    }
}

#[test]
fn a_pace_is_kept() {
    let nothing_dies = |rate: u64| {
        let mut paced = Setup { window_ns: 100_000_000, ..setup("udp", "plain") };
        paced.spec.put(FactorKey::rate, rate);
        let began = Instant::now();
        let measured = measured(&paced).unwrap();
        // Never more than what is due, and one datagram.
        let due = began.elapsed().as_secs_f64() * rate as f64 + 1000.0;
        assert!(measured.end(EndRole::Source).unwrap().total_bytes as f64 <= due);
        deaths(&measured) == Deaths::default()
    };
    // All of it fits into the sink's buffer, unless the machine stalls: at the lowest rate for a second.
    assert!([10_000_000, 2_000_000, 100_000].into_iter().any(nothing_dies));
}
