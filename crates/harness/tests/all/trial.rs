//! One trial over every transport: bytes are conserved, content is checked, and planted faults are named.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use crate::support::{in_mode, is_short, run, run_until};
use bytegauge_harness::trial::{TrialResult, measure};
use bytegauge_model::name_tables::{ENGINES, EngineEnd, TRANSPORTS};
use bytegauge_model::{Direction, EndReport, EndRole, Ends, Engine, FactorKey, Outcome, Spec, Transport};
use bytegauge_traffic::setup::GRACE_NS;
use bytegauge_traffic::{EndPool, PlantedFault, Setup};

pub fn setup(transport: &str) -> Setup {
    let levels = Spec::from([
        ("transport", transport.into()),
        ("read_size", (16 << 10).into()),
        ("write_size", (64 << 10).into()),
    ]);
    let mut setup = Setup::of(&levels).unwrap();
    setup.warmup_ns = 1_000_000;
    setup.window_ns = 10_000_000;
    setup.seed = 7;
    setup
}

/// IPv6 and what some rings need may be missing on the machine that tests; everything else must work.
pub fn check_measured(setup: &Setup) -> Option<TrialResult> {
    // Each end's window is its own, and a busy machine may keep any of them from that.
    let measured = run_until(setup, |measured| {
        let ran = |end: &EndReport| end.bytes > 0 && end.cpu_ns > 0;
        measured.ends.iter().all(|(_, end)| ran(end)) && in_mode(measured)
    });
    let may_lack = setup.transport().to_string() == "tcp6" || matches!(setup.engine(), Engine::Uring(_));
    if may_lack && matches!(&measured.outcome, Outcome::Skipped(reason) if !reason.is_empty()) {
        return None;
    }
    assert_eq!(measured.outcome, Outcome::Measured, "{setup:?}");
    let (bytes, wall_ns) = measured.throughput();
    let sink = measured.end(EndRole::Sink).unwrap();
    assert!(bytes > 0 && wall_ns > 0 && sink.calls > 0);
    let ways = if setup.goes_both_ways() { 2 } else { 1 };
    assert_eq!(sink.flows.len(), setup.flows() * ways);
    assert!(sink.cpu_ns > 0, "a sink that moved bytes used CPU time");
    if let Some(source) = measured.end(EndRole::Source) {
        assert_eq!(source.total_bytes, sink.total_bytes);
        assert!(source.total_bytes >= source.bytes && source.bytes > 0, "{setup:?} {source:?}");
    }
    if setup.verify {
        assert_eq!(sink.verified_bytes, sink.total_bytes);
    }
    Some(measured)
}

#[test]
fn bytes_both_ways_are_conserved_per_direction() {
    let suits = |engine: Engine| engine != Engine::Null && engine.carries(EngineEnd::Stream, &Transport::Tcp);
    for engine in ENGINES.iter().map(|row| row.value).filter(|engine| suits(*engine)) {
        for flows in [1, 3] {
            let mut both = Setup { verify: true, ..setup("tcp") };
            both.spec.put(FactorKey::engine, engine);
            both.spec.put(FactorKey::flows, flows);
            both.spec.put(FactorKey::direction, Direction::Both);
            let Some(measured) = check_measured(&both) else { continue };
            let of = |role, back: bool| {
                let flows = measured.end(role).unwrap().flows.iter().enumerate();
                let flows: Vec<_> =
                    flows.filter(|(at, flow)| flow.back == back && (*at >= both.flows()) == back).collect();
                assert_eq!(flows.len(), both.flows(), "{engine}");
                flows
                    .iter()
                    .map(|(_, flow)| (flow.total_bytes, flow.bytes))
                    .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
            };
            for back in [false, true] {
                assert_eq!(of(EndRole::Source, back).0, of(EndRole::Sink, back).0, "{engine}");
                assert!(of(EndRole::Sink, back).1 > 0, "{engine}");
            }
            let (bytes, wall_ns) = measured.throughput();
            assert_eq!(bytes, of(EndRole::Sink, false).1 + of(EndRole::Sink, true).1);
            // Both ways over one window, however it was lengthened.
            assert_eq!(wall_ns % both.window_ns, 0, "{engine}");
        }
    }
}

/// Flows that hardly ran must not be credited with the rate of the moments in which they did.
#[test]
fn the_rate_of_flows_has_one_window() {
    for transport in ["unix", "tcp"] {
        let mut setup = setup(transport);
        setup.spec.put(FactorKey::flows, 12);
        let measured = run(&setup);
        assert_eq!(measured.outcome, Outcome::Measured);
        let (bytes, wall_ns) = measured.throughput();
        let sink = measured.end(EndRole::Sink).unwrap();
        // The trial may have been lengthened, and every flow by the same factor.
        assert_eq!(wall_ns % setup.window_ns, 0, "{transport}");
        assert!(sink.flows.iter().all(|flow| flow.window_ns == wall_ns), "{transport}: {:?}", sink.flows);
        assert_eq!(bytes, sink.flows.iter().map(|flow| flow.bytes).sum::<u64>());
    }
}

#[test]
fn every_transport_conserves_bytes() {
    let of_bytes = |name: &str| !name.parse::<Transport>().unwrap().is_datagram();
    let is_here = |name: &str| bytegauge_traffic::transport::missing(&name.parse().unwrap()).is_none();
    for row in TRANSPORTS.iter().filter(|row| of_bytes(row.name) && is_here(row.name)) {
        for flows in [1, 3] {
            for verify in [false, true] {
                let mut setup = Setup { verify, ..setup(row.name) };
                setup.spec.put(FactorKey::flows, flows);
                if setup.transport().keeps_bounds() {
                    setup.spec.set_level(FactorKey::read_size, setup.spec.level(FactorKey::write_size));
                }
                check_measured(&setup);
            }
        }
    }
}

#[test]
fn packets_that_would_be_cut_are_skipped() {
    let skipped = |read: u64, write: u64| {
        let mut setup = setup("unix-seqpacket");
        setup.spec.put(FactorKey::read_size, read);
        setup.spec.put(FactorKey::write_size, write);
        let Outcome::Skipped(reason) = run(&setup).outcome else { panic!("{write} B do not fit") };
        reason
    };
    let reason = skipped(1000, 1001);
    assert!(reason.contains("a read of 1000 B loses the rest of a write of 1001 B: use a --read-size"), "{reason}");
    let reason = skipped(1 << 30, 1 << 30);
    assert!(reason.contains("exceeds") && reason.contains("larger --sndbuf"), "{reason}");
}

#[test]
fn devices_and_files_are_endless() {
    check_measured(&setup_one_ended("/dev/zero"));
    let file = tempfile::NamedTempFile::new().unwrap();
    // Smaller than one read, so that every call meets the end.
    std::fs::write(file.path(), vec![1; 5000]).unwrap();
    let again = |measured: &TrialResult| measured.end(EndRole::Sink).is_some_and(|sink| sink.bytes > 5000);
    let measured = run_until(&setup_one_ended(file.path().to_str().unwrap()), again);
    assert!(again(&measured), "{measured:?}");
    let sink = measured.end(EndRole::Sink).unwrap();
    assert_eq!(sink.short_calls, sink.calls);
    assert_eq!(sink.flows[0].options.page_cache_share, Some(1.0));
}

fn setup_one_ended(path: &str) -> Setup {
    let levels = Spec::from([("transport", path.into()), ("read_size", (16 << 10).into())]);
    Setup { spec: Setup::of(&levels).unwrap().spec, ..setup("unix") }
}

#[test]
fn the_null_engine_moves_nothing_and_counts() {
    let mut null = setup("tcp");
    null.spec.put(FactorKey::engine, Engine::Null);
    let measured = run(&null);
    assert_eq!(measured.outcome, Outcome::Measured);
    assert!(measured.end(EndRole::Source).is_none());
    let sink = measured.end(EndRole::Sink).unwrap();
    assert_eq!(sink.bytes, sink.calls * (16 << 10));
}

#[test]
fn an_offered_load_is_kept() {
    check_paced(&setup("unix"));
}

/// Never more is written than what is due, and one write: a stall of the machine does not change that.
fn check_paced(setup: &Setup) {
    let mut paced = Setup { window_ns: 60_000_000, ..setup.clone() };
    paced.spec.put(FactorKey::rate, 20 << 20);
    let began = Instant::now();
    let measured = run(&paced);
    let sink = measured.end(EndRole::Sink).unwrap();
    let due = began.elapsed().as_secs_f64() * f64::from(20 << 20) + (64 << 10) as f64;
    assert!(
        sink.bytes > 0 && sink.total_bytes as f64 <= due,
        "{} of {due} bytes by {}",
        sink.total_bytes,
        paced.engine()
    );
}

#[test]
fn work_and_walk_and_fill_run() {
    use bytegauge_model::{Fill, Work};
    for work in [Work::Sum, Work::Copy, Work::NsPerByte(0.1)] {
        let mut setup = setup("unix");
        setup.spec.put(FactorKey::work, work);
        setup.spec.put(FactorKey::working_set, 4096);
        setup.spec.put(FactorKey::writer_work, Fill::Touch);
        check_measured(&setup);
    }
    let mut setup = setup("unix");
    setup.spec.put(FactorKey::writer_work, Fill::NsPerByte(0.1));
    setup.spec.put(FactorKey::think_time, 10_000);
    check_measured(&setup);
}

#[test]
fn a_series_covers_warmup_and_window() {
    let with = Setup { series: true, ..setup("unix") };
    // On a busy machine a lap may be longer than all bins of a short window.
    let covers = |measured: &TrialResult| {
        let sink = measured.end(EndRole::Sink).unwrap();
        sink.flows[0].series.iter().map(|bin| bin.bytes).sum::<u64>() >= sink.bytes
    };
    assert!(covers(&run_until(&with, covers)));
    assert!(run(&setup("unix")).end(EndRole::Sink).unwrap().flows[0].series.is_empty());
}

/// How long a flow may be late: a stall is waited for, and nothing else may be taken for one.
fn grace_ns(plant: PlantedFault) -> u64 {
    if matches!(plant, PlantedFault::Stall(_)) { 300_000_000 } else { GRACE_NS }
}

/// Checks that a planted fault fails the trial with this text.
fn check_planted(plant: PlantedFault, verify: bool, expected: &str) {
    for transport in ["unix", "tcp"] {
        let planted = Setup { plant: Some(plant), verify, grace_ns: grace_ns(plant), ..setup(transport) };
        let Outcome::Failed(reason) = run_until(&planted, |measured| measured.outcome != Outcome::Measured).outcome
        else {
            panic!("{plant:?} over {transport} went unnoticed")
        };
        assert!(reason.contains(expected), "{transport}: {reason}");
    }
}

#[test]
fn a_corrupting_path_is_caught_in_verify_mode() {
    check_planted(PlantedFault::Corrupt(100_000), true, "flow 0: byte 100000 arrived as");
    // Without verify mode the same fault passes: that is what the mode is for.
    let planted = Setup { plant: Some(PlantedFault::Corrupt(100_000)), ..setup("unix") };
    assert_eq!(run(&planted).outcome, Outcome::Measured);
}

#[test]
fn a_sink_that_counts_too_much_is_caught() {
    check_planted(PlantedFault::Overcount(1), false, "the path loses or invents data");
}

#[test]
fn a_dying_sink_is_a_failure() {
    check_planted(PlantedFault::Die(1 << 20), false, "died");
}

#[test]
fn the_watchdog_ends_a_stalled_trial() {
    check_planted(PlantedFault::Stall(1 << 20), false, "stalled: reading from");
}

#[test]
fn ends_that_were_sound_serve_again() {
    let mut pool = EndPool::new(Ends::Threads, Path::new("unused"));
    let stop = AtomicBool::new(false);
    for plant in [None, Some(PlantedFault::Corrupt(0)), None] {
        let mut planted = Setup { plant, verify: true, ..setup("unix") };
        let measured = loop {
            let measured = measure(&mut pool, &planted, &stop).unwrap();
            assert!(measured.ends_are_sound);
            if !is_short(&measured) || planted.window_ns > 2_000_000_000 {
                break measured;
            }
            planted.window_ns *= 4;
        };
        assert_eq!(measured.outcome == Outcome::Measured, plant.is_none(), "{:?}", measured.outcome);
    }
}

#[test]
fn one_bad_flow_ends_the_trial_early() {
    let mut planted = Setup {
        verify: true,
        plant: Some(PlantedFault::Corrupt(100_000)),
        // Far longer than this test may take: if the healthy flows waited for it, the test would hang.
        grace_ns: 600_000_000_000,
        ..setup("unix")
    };
    planted.spec.put(FactorKey::flows, 3);
    // On a busy machine the bad flow may not come to its bytes.
    let measured = run_until(&planted, |measured| measured.outcome != Outcome::Measured);
    let Outcome::Failed(reason) = &measured.outcome else { panic!("the corruption went unnoticed") };
    assert!(reason.contains("byte 100000 arrived as"), "{reason}");
    assert!(measured.ends_are_sound);
    assert_eq!(measured.end(EndRole::Sink).unwrap().flows.len(), 3);
}

#[test]
fn refused_pinning_is_a_skip_with_a_fix() {
    // The kernel refuses a CPU that this process may not use as it refuses one in a sandbox.
    let planted = Setup { cpus: [(EndRole::Sink, vec![100_000])].into(), ..setup("unix") };
    let Outcome::Skipped(reason) = run(&planted).outcome else { panic!("no machine has that CPU") };
    assert!(reason.contains("pinning to CPU 100000 is not permitted"), "{reason}");
    assert!(reason.contains("--placement unpinned"), "{reason}");
}

/// A window in which an engine surely moves something: a submission thread shares the test's CPUs with everything
/// else.
fn window_ns(engine: Engine) -> u64 {
    if matches!(engine, Engine::Uring(mode) if mode.sqpoll) { 100_000_000 } else { 30_000_000 }
}

/// Engines that carry all flows of an end in one thread.
fn carrying() -> impl Iterator<Item = Engine> {
    use Engine::{Epoll, Tokio, Uring};
    let engines = ENGINES.iter().map(|row| row.value);
    engines.filter(|engine| matches!(engine, Epoll(_) | Tokio | Uring(_)))
}

#[test]
fn thread_sharing_engines_conserve_a_stream() {
    for engine in carrying() {
        for transport in ["unix", "tcp", "tcp6", "pipe"] {
            if !engine.carries(EngineEnd::Stream, &transport.parse().unwrap()) {
                continue;
            }
            for (flows, verify) in [(1, false), (3, true)] {
                let mut setup = Setup { verify, ..setup(transport) };
                setup.spec.put(FactorKey::engine, engine);
                setup.spec.put(FactorKey::write_size, 4096);
                setup.spec.put(FactorKey::flows, flows);
                check_measured(&setup);
            }
        }
    }
}

#[test]
fn thread_sharing_engines_catch_faults() {
    for engine in carrying() {
        let with = |plant| {
            let verify = matches!(plant, PlantedFault::Corrupt(_));
            let mut planted = Setup { verify, plant: Some(plant), window_ns: window_ns(engine), ..setup("tcp") };
            planted.spec.put(FactorKey::engine, engine);
            // Work of its own fails nothing; the others may not come to their bytes on a busy machine.
            let harmless = matches!(plant, PlantedFault::Spin(_));
            let shows = |measured: &TrialResult| harmless || measured.outcome != Outcome::Measured;
            run_until(&Setup { grace_ns: grace_ns(plant), ..planted }, shows).outcome
        };
        if matches!(with(PlantedFault::Spin(1.0)), Outcome::Skipped(_)) {
            continue;
        }
        for (plant, expected) in [
            (PlantedFault::Corrupt(100_000), "flow 0: byte 100000 arrived as"),
            (PlantedFault::Overcount(1), "the path loses or invents data"),
            (PlantedFault::Die(100_000), "died"),
            (PlantedFault::Stall(100_000), "stalled"),
        ] {
            let outcome = with(plant);
            let Outcome::Failed(reason) = outcome else { panic!("{engine}: {plant:?} went unnoticed: {outcome:?}") };
            assert!(reason.contains(expected), "{engine}: {reason}");
        }
        let mut setup = setup("tcp");
        setup.spec.put(FactorKey::engine, engine);
        check_paced(&setup);
    }
}
