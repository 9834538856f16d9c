//! kill -9 at random moments: the store opens, reported trials are there, at most the trial in flight is lost.

use std::time::Duration;

use serde_json::Value;

use crate::bench::{Bench, clock_seed, killed_by};
use crate::raw::{Raw, number};

/// Real sockets at a small scale: begun, calibrated and confirmed within about a second.
const SMALL: &str = "stream --connection-age fresh --transport unix --profile drain --read-size 4K,64K --write-size 64K --trial-time 2ms \
                     --blocks 40 --time 1s --json-stream";

/// The last moment of a kill after the start. Later, most sessions are over.
const LATEST_US: u64 = 600_000;

/// Set to the seed that a failure printed to see it again.
const SEED: &str = "BYTEGAUGE_TEST_SEED";

/// Numbers that look random (SplitMix64, Steele, Lea and Flood 2014).
struct Moments(u64);

impl Moments {
    fn seeded() -> Moments {
        Moments(std::env::var(SEED).ok().and_then(|text| text.parse().ok()).unwrap_or_else(clock_seed))
    }

    fn next_us(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % LATEST_US
    }
}

/// Kills `rounds` sessions, each at a random moment, and looks at the store after each.
fn check_kills(rounds: u64, flags: &str) {
    let mut moments = Moments::seeded();
    let seed = moments.0;
    let bench = Bench::new();
    let mut cut_off = Vec::new();
    for round in 0..rounds {
        let moment_us = moments.next_us();
        let at = format!("{SEED}={seed}, round {round}, killed after {moment_us} µs");
        let mut running = bench.start(&format!("{SMALL} --seed {round} {flags}"));
        // Every other moment is in the middle: a busy machine may begin the others later.
        let is_counted_from_within = round % 2 == 1;
        if is_counted_from_within {
            running.until("a trial", |running| running.stdout().contains("\"event\":\"trial\""));
        }
        std::thread::sleep(Duration::from_micros(if is_counted_from_within { moment_us / 4 } else { moment_us }));
        let ran = running.kill();
        assert!(killed_by(ran.status) == Some(9) || ran.status.success(), "{at}: {ran}");
        let lines = ran.json_lines();
        let listed = bench.run("report list");
        // The kill may have come before the store was there.
        assert!(listed.status.success() || (listed.status.code() == Some(2) && lines.is_empty()), "{at}: {listed}");
        let Some(session) = lines.first().map(|line| number(&line["session"]) as i64) else { continue };
        let reported: Vec<&Value> = lines.iter().filter(|line| line["event"] == "trial").collect();
        let raw = Raw::of(&bench, session);
        raw.check_sound();
        // A trial is reported once it is stored: the next one can be stored without a report.
        let (kept, known) = (raw.trials.len(), reported.len());
        assert!((known..=known + 1).contains(&kept), "{at}: {known} trials were reported, {kept} are kept");
        for (stored, reported) in raw.trials.iter().zip(reported) {
            assert_eq!((&stored["cell"], &stored["bytes"]), (&reported["cell"], &reported["bytes"]), "{at}");
        }
        if raw.status() == "running" {
            cut_off.push((session, raw));
        }
    }
    assert!(!cut_off.is_empty(), "{SEED}={seed}: no session was cut off in {rounds} rounds");
    for (session, before) in cut_off.iter().step_by(cut_off.len().div_ceil(2)) {
        check_resumed(&bench, *session, before, seed);
    }
    assert_nothing_is_left(&bench);
}

fn check_resumed(bench: &Bench, session: i64, before: &Raw, seed: u64) {
    bench.run(&format!("stream --resume {session} --quiet")).exits(0);
    let after = Raw::of(bench, session);
    after.check_sound();
    assert_eq!(after.status(), "complete", "{SEED}={seed}, session {session}");
    assert_eq!(after.trials[..before.trials.len()], before.trials, "{SEED}={seed}, session {session}");
    assert_eq!(after.confirmed()["g1"], 40, "{SEED}={seed}, session {session}");
}

#[test]
fn at_random_moments_with_threads() {
    check_kills(16, "");
}

#[test]
fn at_random_moments_with_processes() {
    check_kills(8, "--ends processes");
}

/// An end whose parent was killed must not go on.
fn assert_nothing_is_left(bench: &Bench) {
    for _ in 0..100 {
        if bench.processes().is_empty() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("outlived their parents: {:?}", bench.processes());
}
