//! Committed trials survive kill -9 and a log with a torn tail.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::*;
use bytegauge_store::Store;
use proptest::prelude::*;

/// Set for the child that records until it is killed.
const VICTIM: &str = "BYTEGAUGE_TEST_VICTIM_STORE";

#[test]
fn a_killed_process_loses_at_most_one_trial() {
    if let Some(path) = std::env::var_os(VICTIM) {
        record_until_killed(Path::new(&path));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for round in 0..8_usize {
        let path = folder.path().join(format!("{round}.db"));
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "durability::a_killed_process_loses_at_most_one_trial", "--nocapture"])
            .env(VICTIM, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Each line is a commit that has returned; the kill comes during a later one.
        let stop_at = 1 + round * 37;
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut committed = 0;
        for _ in lines.filter(|line| line.ends_with("committed")).take(stop_at) {
            committed += 1;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(committed, stop_at, "the child must outlive the kill");

        let mut store = Store::open(&path).unwrap();
        let session = store.latest_session().unwrap().unwrap();
        let trials = store.trials(session).unwrap();
        assert!(trials.len() >= committed, "{} of {committed} trials", trials.len());
        for (n, trial) in trials.iter().enumerate() {
            assert_eq!(*trial, plain_trial(n as u64));
        }
        store.record_trial(session, &plain_trial(0)).unwrap();
    }
}

fn record_until_killed(path: &Path) {
    let (mut store, session) = begin(path);
    // Bounded, so that a child ends if its parent died.
    for n in 0..50_000 {
        store.record_trial(session, &plain_trial(n)).unwrap();
        println!("\n{n} committed");
    }
}

/// Kinds of damage to the tail.
#[derive(Clone, Copy, Debug)]
enum Tear {
    Cut,
    Garbage,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_torn_log_keeps_a_prefix(share in 0.0..1.0f64, tear in prop_oneof![Just(Tear::Cut), Just(Tear::Garbage)]) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.db");
        let (store, session) = begin(&path);
        drop(store);
        // Closed once, so that the session is in the file; the trials are only in the log.
        let mut store = Store::open(&path).unwrap();
        for n in 0..20 {
            store.record_trial(session, &plain_trial(n)).unwrap();
        }
        let copy = folder.path().join("copy.db");
        fs::copy(&path, &copy).unwrap();
        let mut log = fs::read(folder.path().join("results.db-wal")).unwrap();
        let at = (log.len() as f64 * share) as usize;
        match tear {
            Tear::Cut => log.truncate(at),
            Tear::Garbage => log[at..].fill(0xa5),
        }
        fs::write(folder.path().join("copy.db-wal"), &log).unwrap();

        let mut copy = Store::open(&copy).unwrap();
        let trials = copy.trials(session).unwrap();
        for (n, trial) in trials.iter().enumerate() {
            prop_assert_eq!(trial, &plain_trial(n as u64));
        }
        // Each trial has one or two frames; all complete ones before the damage are kept.
        prop_assert!(trials.len() + 2 >= (20.0 * share * 0.8) as usize, "{} trials at {}", trials.len(), share);
        copy.record_trial(session, &plain_trial(99)).unwrap();
    }
}

#[test]
fn several_processes_may_share_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results.db");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let (mut store, session) = begin(&path);
                for n in 0..50 {
                    store.record_trial(session, &plain_trial(n)).unwrap();
                }
            });
        }
    });
    let trials: Vec<_> = Store::open(&path).unwrap().sessions().unwrap().iter().map(|s| s.trials).collect();
    assert_eq!(trials, [50; 4]);
}

#[test]
fn several_processes_may_make_a_file_at_once() {
    for _ in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.db");
        let start = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    start.wait();
                    begin(&path);
                });
            }
        });
        assert_eq!(Store::open(&path).unwrap().sessions().unwrap().len(), 8);
    }
}
