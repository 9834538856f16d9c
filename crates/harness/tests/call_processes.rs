//! Calls between processes: a second group of clients competes, and ends are killed in the middle.
//!
//! Not a test of the usual kind: an end is this very program, run as `PROGRAM end`.
// It prints its result as a test harness does.
#![allow(clippy::print_stdout, clippy::disallowed_methods)]

use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::time::Duration;

use bytegauge_harness::trial::{TrialResult, measure};
use bytegauge_model::name_tables::ENGINES;
use bytegauge_model::{CallReport, EndRole, Ends, Engine, ErrorClass, FactorKey, Outcome, Spec, Transport, Workload};
use bytegauge_traffic::engine::missing_requirement;
use bytegauge_traffic::{Channel, EndPool, PlantedFault, Setup};

/// Length of a trial that is never waited for.
const AN_HOUR_NS: u64 = 3_600_000_000_000;

/// Ends are free within about a second. Far longer than any machine is busy, and far shorter than the trial.
const PATIENCE: Duration = Duration::from_secs(100);

/// How long an end runs before it is killed: longer if a busy machine had completed no call by then.
const PAUSES: [Duration; 3] = [Duration::from_millis(100), Duration::from_secs(1), Duration::from_secs(8)];

fn main() {
    if std::env::args().nth(1).as_deref() == Some("end") {
        return bytegauge_traffic::end::serve_stdio().expect("standard output is open");
    }
    // A test runner that lists, or asks for other tests, gets nothing.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (options, names): (Vec<&String>, Vec<&String>) = arguments.iter().partition(|text| text.starts_with('-'));
    let asked = names.is_empty() || names.iter().any(|name| "call_processes".contains(name.as_str()));
    if !asked || options.iter().any(|option| ["--list", "--ignored"].contains(&option.as_str())) {
        return;
    }
    two_groups_of_clients_are_both_reported(Ends::Threads);
    two_groups_of_clients_are_both_reported(Ends::Processes);
    streams_load_the_path_of_calls(Ends::Threads);
    streams_load_the_path_of_calls(Ends::Processes);
    a_server_that_dies_of_itself_is_noticed();
    for engine in servers() {
        a_server_that_is_killed_is_noticed(engine);
        a_client_that_is_killed_is_noticed(engine);
    }
    println!("test result: ok. 6 passed");
}

/// Every kind of server that this kernel has; a submission thread changes nothing about dying.
fn servers() -> impl Iterator<Item = Engine> {
    let engines = ENGINES.iter().map(|row| row.value).filter(|engine| engine.suits(&Transport::Tcp));
    engines.filter(|engine| match engine {
        Engine::Null => false,
        Engine::Uring(mode) if mode.sqpoll => false,
        engine => missing_requirement(*engine).is_none(),
    })
}

fn setup() -> Setup {
    let levels = [("transport", "tcp".into()), ("engine", "epoll".into()), ("request", 64.into()), ("flows", 3.into())];
    let levels = Spec::from(levels).with_workload(Workload::Call);
    let mut setup = Setup::of(&levels).unwrap();
    setup.window_ns = 30_000_000;
    setup
}

fn pool(ends: Ends) -> EndPool {
    EndPool::new(ends, &std::env::current_exe().unwrap())
}

fn calls(measured: &TrialResult, role: EndRole) -> CallReport {
    measured.end(role).and_then(|end| end.call.as_deref().cloned()).unwrap_or_default()
}

fn two_groups_of_clients_are_both_reported(ends: Ends) {
    let mut setup = setup();
    setup.spec.put(FactorKey::competing_flows, 2);
    let mut pool = pool(ends);
    for _ in 0..2 {
        let measured = loop {
            let measured = measure(&mut pool, &setup, &AtomicBool::new(false)).unwrap();
            let both = calls(&measured, EndRole::Client).calls > 0 && calls(&measured, EndRole::Competitor).calls > 0;
            if both || setup.window_ns > 2_000_000_000 {
                break measured;
            }
            // A busy machine kept one of them from its window.
            setup.window_ns *= 4;
        };
        assert_eq!(measured.outcome, Outcome::Measured);
        let (ours, theirs) = (calls(&measured, EndRole::Client), calls(&measured, EndRole::Competitor));
        assert!(ours.calls > 0 && theirs.calls > 0);
        assert_eq!(calls(&measured, EndRole::Server).completed, ours.completed + theirs.completed);
        assert!(measured.ends_are_sound);
    }
    let expected = if ends == Ends::Threads { 1 } else { 3 };
    assert_eq!(pool.channels().filter_map(Channel::process_id).count(), expected);
}

fn streams_load_the_path_of_calls(ends: Ends) {
    let mut setup = setup();
    setup.spec.put(FactorKey::load_flows, 2);
    // Flows that share a window need time on a busy machine.
    setup.window_ns = 200_000_000;
    let mut pool = pool(ends);
    for _ in 0..2 {
        let measured = loop {
            let measured = measure(&mut pool, &setup, &AtomicBool::new(false)).unwrap();
            if !measured.outcome.moved_nothing() || setup.window_ns > 5_000_000_000 {
                break measured;
            }
            setup.window_ns *= 4;
        };
        assert_eq!(measured.outcome, Outcome::Measured);
        assert!(measured.ends_are_sound && calls(&measured, EndRole::Client).calls > 0);
        let sink = measured.end(EndRole::Sink).unwrap();
        let ways =
            [false, true].map(|back| sink.flows.iter().filter(|flow| flow.back == back && flow.bytes > 0).count());
        assert_eq!(ways, [2, 2], "{:?}", sink.flows);
        // The trial is one of calls all the same.
        let client = measured.end(EndRole::Client).unwrap();
        assert_eq!(measured.throughput().0, client.bytes);
    }
}

/// Measures, and panics if it takes as long as without a death.
fn soon(mut pool: EndPool, setup: Setup) -> TrialResult {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let measured = measure(&mut pool, &setup, &AtomicBool::new(false)).unwrap();
        sender.send(measured).expect("the receiver waits");
    });
    receiver.recv_timeout(PATIENCE).expect("the remaining ends stop")
}

fn a_server_that_dies_of_itself_is_noticed() {
    let plant = Some(PlantedFault::Die(100_000));
    let measured = soon(pool(Ends::Processes), Setup { plant, window_ns: AN_HOUR_NS, ..setup() });
    let Outcome::Failed(reason) = &measured.outcome else { panic!("it died") };
    assert!(reason.contains("the server died in the middle of a trial"), "{reason}");
    assert!(calls(&measured, EndRole::Client).calls > 0, "its counts are kept");
}

/// A long trial of which one end is killed, and what the other one had completed by then.
fn killed(dead: EndRole, server: Engine) -> (TrialResult, CallReport) {
    let mut setup = Setup { window_ns: AN_HOUR_NS, ..setup() };
    setup.spec.put(FactorKey::server_engine, server);
    let mut tries = PAUSES.into_iter().map(|pause| {
        let mut pool = pool(Ends::Processes);
        let victim = pool.end(dead).unwrap().process_id().unwrap().to_string();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(pause);
            let killed = std::process::Command::new("kill").args(["-9", &victim]).status().unwrap();
            assert!(killed.success());
        });
        let measured = soon(pool, setup.clone());
        killer.join().unwrap();
        let left = calls(&measured, if dead == EndRole::Server { EndRole::Client } else { EndRole::Server });
        (measured, left)
    });
    tries
        .find(|(_, left)| left.completed > 0)
        .unwrap_or_else(|| panic!("{server}: no call was completed, or none kept"))
}

fn a_server_that_is_killed_is_noticed(server: Engine) {
    let (measured, client) = killed(EndRole::Server, server);
    let Outcome::Failed(reason) = &measured.outcome else { panic!("{server}: it was killed") };
    assert!(reason.contains("the server died in the middle of a trial"), "{server}: {reason}");
    assert!(
        measured.end(EndRole::Server).is_none() && !measured.ends_are_sound,
        "{server}: a killed end has no report"
    );
    let refused: u64 =
        client.errors.iter().filter(|error| error.class == ErrorClass::Refused).map(|error| error.count).sum();
    assert!(refused > 0, "{server}: {client:?}");
}

fn a_client_that_is_killed_is_noticed(server: Engine) {
    let (measured, served) = killed(EndRole::Client, server);
    let Outcome::Failed(reason) = &measured.outcome else { panic!("{server}: it was killed") };
    assert!(reason.contains("the client died in the middle of a trial"), "{server}: {reason}");
    assert!(
        measured.end(EndRole::Client).is_none() && !measured.ends_are_sound,
        "{server}: a killed end has no report"
    );
    // The server is free, and tells what it saw.
    assert!(served.begun >= served.completed, "{server}: {served:?}");
}
