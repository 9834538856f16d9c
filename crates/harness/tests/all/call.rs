//! Trials of calls: their measurements, their failures, and the guarantees for reports.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::faulty_server::{self, Fault};
use crate::support::{in_mode, run, run_until};
use bytegauge_harness::trial::{TrialResult, measure};
use bytegauge_model::name_tables::ENGINES;
use bytegauge_model::{
    CallError, CallReport, EndRole, Ends, Engine, ErrorClass, FactorKey, Outcome, Place, Spec, Transport, UringKind,
    UringMode, Workload,
};
use bytegauge_traffic::{EndPool, PlantedFault, Setup};

fn setup(transport: &str, engine: Engine) -> Setup {
    let levels = Spec::from([
        ("transport", transport.into()),
        ("engine", engine.to_string().into()),
        ("request", 64.into()),
        ("flows", 3.into()),
    ])
    .with_workload(Workload::Call);
    let mut setup = Setup::of(&levels).unwrap();
    setup.warmup_ns = 2_000_000;
    // A submission thread shares the test's CPUs with everything else.
    setup.window_ns = if matches!(engine, Engine::Uring(mode) if mode.sqpoll) { 300_000_000 } else { 20_000_000 };
    setup.seed = 7;
    setup
}

/// Calls over UDP whose server may move many datagrams per call.
fn by_batches(flows: u64, depth: u64, batch: u64) -> Setup {
    let mut setup = setup("udp", Engine::Mmsg);
    setup.spec.put(FactorKey::flows, flows);
    setup.spec.put(FactorKey::client_engine, Engine::Plain);
    setup.spec.put(FactorKey::depth, depth);
    setup.spec.put(FactorKey::batch, batch);
    setup
}

#[test]
fn batches_run_or_fail_the_trial() {
    assert_eq!(run_until(&by_batches(50, 1, 64), in_mode).outcome, Outcome::Measured);
    assert_eq!(run_until(&by_batches(1, 8, 64), in_mode).outcome, Outcome::Measured);
    // One per call was requested.
    assert_eq!(run(&by_batches(1, 1, 1)).outcome, Outcome::Measured);
    let alone = run(&by_batches(1, 1, 64)).outcome;
    let reason = alone.reason().unwrap();
    assert!(
        reason.starts_with("engine mmsg did not run in its mode: no call moved more than one datagram"),
        "{reason}"
    );
}

#[test]
fn calls_are_measured_with_every_engine() {
    for row in ENGINES.iter().filter(|row| row.value.suits(&Transport::Tcp)) {
        for connect_per_call in [false, true] {
            let mut setup = setup("tcp", row.value);
            setup.spec.put(FactorKey::connect_per_call, connect_per_call);
            // One message at a time fills no bundle, and one per connection no multishot: the trial must
            // report that the mode did not run.
            let lacks_load = match row.value {
                Engine::Uring(UringMode { kind: UringKind::Bundle, .. }) => true,
                Engine::Uring(UringMode { kind: UringKind::Multishot, .. }) => connect_per_call,
                _ => false,
            };
            let measured = run_until(&setup, |measured| match measured.outcome {
                Outcome::Measured => measured.throughput().0 > 0,
                _ => lacks_load || in_mode(measured),
            });
            if let Outcome::Skipped(reason) = &measured.outcome {
                // Some engines need features that this kernel may lack, and report it.
                assert!(!reason.is_empty());
                continue;
            }
            if let (true, Outcome::Failed(reason)) = (lacks_load, &measured.outcome) {
                assert!(reason.contains("did not run in its mode"), "{reason}");
                continue;
            }
            assert_eq!(measured.outcome, Outcome::Measured, "{}", row.name);
            assert!(measured.ends_are_sound);
            let (bytes, wall_ns) = measured.throughput();
            assert!(bytes > 0 && wall_ns > 0);
            assert_eq!(measured.end(EndRole::Server).is_none(), row.value == Engine::Null);
            assert!(client(&measured).calls > 0);
        }
    }
}

#[test]
fn calls_over_datagrams_are_measured_with_their_engines() {
    for transport in [Transport::Udp, Transport::UnixDatagram] {
        for row in ENGINES.iter().filter(|row| row.value.suits(&transport) && row.value != Engine::Gso) {
            let mut setup = setup(&transport.to_string(), row.value);
            setup.window_ns = 200_000_000;
            if row.value != Engine::Null {
                setup.spec.put(FactorKey::client_engine, Engine::Plain);
            }
            let measured = run_until(&setup, in_mode);
            if let Outcome::Skipped(reason) = &measured.outcome {
                assert!(!reason.is_empty());
                continue;
            }
            assert_eq!(measured.outcome, Outcome::Measured, "{transport} {}", row.name);
            let client = client(&measured);
            assert!(measured.ends_are_sound && client.calls > 0 && client.datagrams.is_some());
            assert_eq!(measured.end(EndRole::Server).is_none(), row.value == Engine::Null);
        }
    }
}

fn client(measured: &TrialResult) -> &CallReport {
    measured.end(EndRole::Client).unwrap().call.as_ref().unwrap()
}

fn errors(measured: &TrialResult) -> Vec<CallError> {
    let client = measured.end(EndRole::Client).and_then(|client| client.call.as_ref());
    client.map_or_else(Vec::new, |call| call.errors.clone())
}

#[test]
fn lost_datagrams_count_truncated_ones_are_named() {
    let mut lossy = setup("udp", Engine::Plain);
    let server = faulty_server::over_udp(Fault::Lost, |reply| reply % 10 == 0);
    lossy.spec.put(FactorKey::connect, Place::Ip(server));
    lossy.spec.put(FactorKey::timeout, 5_000_000);
    let lost = |measured: &TrialResult| measured.outcome == Outcome::Measured && !errors(measured).is_empty();
    let measured = run_until(&lossy, lost);
    assert_eq!(measured.outcome, Outcome::Measured);
    let errors = errors(&measured);
    assert!(!errors.is_empty() && errors.iter().all(|error| error.class == ErrorClass::TimedOut), "{errors:?}");
    let mut short = setup("udp", Engine::Plain);
    short.spec.put(FactorKey::read_size, 4096);
    short.spec.put(FactorKey::request, 8192);
    short.spec.put(FactorKey::response, 8192);
    let Outcome::NothingMoved(reason) = run(&short).outcome else { panic!("no reply was complete") };
    assert!(
        reason.contains("short-reply") && reason.contains("MSG_TRUNC") && reason.contains("--read-size"),
        "{reason}"
    );
}

#[test]
fn one_cast_serves_streams_and_calls_in_turn() {
    let mut pool = EndPool::new(Ends::Threads, Path::new("unused"));
    let levels = Spec::from([("transport", "unix".into()), ("read_size", 4096.into()), ("write_size", 4096.into())]);
    let stream = Setup { window_ns: 5_000_000, ..Setup::of(&levels).unwrap() };
    let calls = setup("unix", "epoll".parse().unwrap());
    for setup in [&stream, &calls, &calls, &stream] {
        // A busy machine may keep an end from a short window.
        let within = |times: u64| {
            let setup = Setup { window_ns: setup.window_ns * times, ..setup.clone() };
            let measured = measure(&mut pool, &setup, &AtomicBool::new(false)).unwrap();
            assert!(measured.ends_are_sound);
            measured.outcome == Outcome::Measured
        };
        assert!([1, 10, 100].into_iter().any(within), "{setup:?}");
    }
}

#[test]
fn corrupted_replies_fail_short_ones_count() {
    let epoll = "epoll".parse().unwrap();
    let seen = |measured: &TrialResult| measured.outcome != Outcome::Measured || !errors(measured).is_empty();
    let spoiled = |fault| {
        let mut setup = setup("tcp", epoll);
        let server = faulty_server::over_tcp(setup.request(), fault, |reply| reply % 100 == 0);
        setup.spec.put(FactorKey::connect, Place::Ip(server));
        run_until(&setup, seen)
    };
    let refused = |fault, count: &str, none: &str| {
        let Outcome::Failed(reason) = spoiled(fault).outcome else { panic!("{fault:?} was not noticed") };
        assert!(reason.contains(count) && !reason.contains(none), "{reason}");
    };
    refused(Fault::Corrupt, "replies were not the bytes sent", ": 0 replies");
    refused(Fault::Long, "were longer than they should be", ", 0 were longer");
    let short = spoiled(Fault::Short);
    assert_eq!(short.outcome, Outcome::Measured);
    assert_eq!(client(&short).errors[0].class, ErrorClass::ShortReply);
}

#[test]
fn a_dying_server_fails_the_trial_counts_stay() {
    let mut setup = setup("tcp", "epoll".parse().unwrap());
    setup.plant = Some(PlantedFault::Die(10_000));
    setup.warmup_ns = 0;
    setup.window_ns = 3_600_000_000_000;
    let measured = run(&setup);
    assert!(matches!(measured.outcome, Outcome::Failed(_)), "{measured:?}");
    assert!(client(&measured).calls > 0);
}

#[test]
fn a_window_without_a_call_has_a_reason() {
    let mut setup = setup("unix", "epoll".parse().unwrap());
    setup.plant = Some(PlantedFault::Stall(1));
    setup.spec.put(FactorKey::timeout, 10_000_000);
    let Outcome::NothingMoved(reason) = run(&setup).outcome else { panic!("nothing was completed") };
    assert!(reason.contains("timed-out in phase first-byte"), "{reason}");
}

#[test]
fn a_long_trial_can_be_interrupted() {
    let mut setup = setup("unix", "epoll".parse().unwrap());
    setup.window_ns = 3_600_000_000_000;
    let mut pool = EndPool::new(Ends::Threads, Path::new("unused"));
    assert!(measure(&mut pool, &setup, &AtomicBool::new(true)).is_none());
}
