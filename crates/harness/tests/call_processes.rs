//! Calls between processes: a second group of clients competes, and ends are killed in the middle.
//!
//! Not a test of the usual kind: an end is this very program, run as `PROGRAM end`.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytegauge_harness::trial::measure;
use bytegauge_model::{Ends, Level, Levels, Outcome};
use bytegauge_traffic::{Channel, Pair, PathSetup, Plant};

fn main() {
    if std::env::args().nth(1).as_deref() == Some("end") {
        return bytegauge_traffic::end::serve_stdio().expect("standard output is open");
    }
    // A test runner that lists or filters gets nothing to list.
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    two_groups_of_clients_are_both_reported(Ends::Threads);
    two_groups_of_clients_are_both_reported(Ends::Processes);
    a_server_that_is_killed_is_noticed();
    a_client_that_is_killed_is_noticed();
    println!("test result: ok. 4 passed");
}

fn setup() -> PathSetup {
    let mut levels = Levels::default();
    for (name, level) in [("transport", "tcp"), ("engine", "epoll")] {
        levels.set(name, Level::Name(level.into()));
    }
    for (name, level) in [("request", 64), ("flows", 3)] {
        levels.set(name, Level::Number(level));
    }
    let mut setup = PathSetup::of(&levels).unwrap();
    setup.window_ns = 30_000_000;
    setup
}

fn pair(ends: Ends) -> Pair {
    Pair::start(ends, &std::env::current_exe().unwrap()).unwrap()
}

fn two_groups_of_clients_are_both_reported(ends: Ends) {
    let mut setup = setup();
    setup.call.as_mut().unwrap().competing_flows = 2;
    let mut pair = pair(ends);
    for _ in 0..2 {
        let measured = measure(&mut pair, &setup, &AtomicBool::new(false)).unwrap();
        assert_eq!(measured.outcome, Outcome::Measured);
        let calls = |end: &Option<bytegauge_model::EndReport>| end.as_ref().unwrap().call.clone().unwrap();
        let (ours, theirs) = (calls(&measured.source), calls(&measured.competing));
        assert!(ours.calls > 0 && theirs.calls > 0);
        assert_eq!(calls(&measured.sink).completed, ours.completed + theirs.completed);
        assert!(measured.pair_is_sound);
    }
    let expected = if ends == Ends::Threads { 1 } else { 3 };
    assert_eq!(pair.channels().filter_map(Channel::process_id).count(), expected);
}

fn a_server_that_is_killed_is_noticed() {
    let mut setup = PathSetup { plant: Some(Plant::Die { after_bytes: 100_000 }), ..setup() };
    setup.window_ns = 3_600_000_000_000;
    let measured = measure(&mut pair(Ends::Processes), &setup, &AtomicBool::new(false)).unwrap();
    let Outcome::Failed(reason) = measured.outcome else { panic!("it died") };
    assert!(reason.contains("the sink died in the middle of a trial"), "{reason}");
    assert!(measured.source.unwrap().call.unwrap().calls > 0, "what was counted is kept");
}

fn a_client_that_is_killed_is_noticed() {
    let setup = PathSetup { window_ns: 3_600_000_000_000, ..setup() };
    let mut pair = pair(Ends::Processes);
    let client = pair.source.process_id().unwrap();
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        let killed = std::process::Command::new("kill").args(["-9", &client.to_string()]).status().unwrap();
        assert!(killed.success());
    });
    let measured = measure(&mut pair, &setup, &AtomicBool::new(false)).unwrap();
    killer.join().unwrap();
    let Outcome::Failed(reason) = measured.outcome else { panic!("it was killed") };
    assert!(reason.contains("the source died in the middle of a trial"), "{reason}");
    let served = measured.sink.unwrap().call.unwrap();
    assert!(served.completed > 0 && !measured.pair_is_sound, "the server is free, and tells what it saw");
}
