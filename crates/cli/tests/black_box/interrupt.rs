//! Ctrl-C: the measured trials are kept and reported, and `--resume` continues.

use std::fs;
use std::time::Duration;

use serde_json::Value;

use crate::bench::{BINARY, Bench};
use crate::contract::check_document;
use crate::raw::{Raw, name};

/// Long enough to be interrupted, short enough to be finished afterwards.
const LONGER: &str = "stream --connection-age fresh --transport unix --profile drain --read-size 4K,64K --write-size 64K --trial-time 5ms \
                      --blocks 24 --analyses 1 --time 2s --seed 1";

/// Its blocks.
const BLOCKS: u64 = 24;

/// Trials so far on a stream of JSON lines.
fn reported(text: &str) -> usize {
    text.lines().filter(|line| line.contains("\"event\":\"trial\"")).count()
}

/// Interrupts a session after some trials and returns its report.
fn interrupted(bench: &Bench, signal: &str, flags: &str, trials: usize) -> usize {
    let mut running = bench.start(&format!("{LONGER} --json-stream {flags}"));
    running.until("some trials", |running| reported(&running.stdout()) >= trials);
    running.signal(signal);
    let ran = running.wait().exits(130).complains(&["interrupted", "--resume 1"]);
    let lines = ran.json_lines();
    let last = lines.last().expect("a last line");
    assert_eq!(last["event"], "report", "{last}");
    check_document(&last["report"]);
    assert_eq!(last["report"]["status"], "incomplete");
    reported(&ran.stdout)
}

fn check_resumed(bench: &Bench, before: &Raw) {
    let after = Raw::of(bench, 1);
    after.check_sound();
    assert_eq!(after.status(), "complete");
    assert_eq!(after.trials[..before.trials.len()], before.trials, "earlier trials stay as they are");
    assert_eq!(after.confirmed()["g1"], BLOCKS);
    let cells = after.cells.iter().filter(|line| line["cell"]["kind"] == "candidate").count();
    assert_eq!(cells, 2);
    let measured = |stage: &str| after.trials.iter().filter(|trial| trial["stage"] == stage).count();
    assert_eq!(measured("calibrate"), 3, "calibrated once");
}

#[test]
fn everything_measured_is_kept_and_gone_on_with() {
    for (signal, flags) in [("INT", ""), ("TERM", "--ends processes"), ("HUP", "")] {
        let bench = Bench::new();
        let reported = interrupted(&bench, signal, flags, 12);
        let before = Raw::of(&bench, 1);
        before.check_sound();
        assert_eq!((before.status(), before.trials.len()), ("incomplete", reported));
        assert!(before.confirmed()["g1"] < BLOCKS);
        bench.run("report list").exits(0).prints(&["incomplete"]);
        bench.run("report").exits(0).prints(&["incomplete"]);
        let ran = bench.run(&format!("{LONGER} --resume --format json")).exits(0);
        let document = ran.json();
        check_document(&document);
        assert_eq!((&document["status"], &document["session"]), (&"complete".into(), &1.into()));
        check_resumed(&bench, &before);
        bench.run(&format!("{LONGER} --resume")).exits(2).complains(&["no session of plan stream", "can be resumed"]);
    }
}

#[test]
fn signals_that_come_together_are_one_wish() {
    let bench = Bench::new();
    interrupted(&bench, "INT", "", 1);
    // As `timeout` sends them: to the process and to its group.
    let mut running = bench.start("stream --resume 1 --json-stream");
    running.until("some trials", |running| reported(&running.stdout()) >= 5);
    // By system calls: the session could end before a shell has started.
    ["INT", "INT", "TERM"].iter().for_each(|name| running.signal(name));
    let ran = running.wait().exits(130).complains(&["interrupted"]);
    assert_eq!(ran.json_lines().last().map(|line| line["event"].clone()), Some("report".into()), "{ran}");
    assert_eq!(Raw::of(&bench, 1).status(), "incomplete");
}

#[test]
fn nohup_is_respected() {
    let bench = Bench::new();
    let script = format!("trap '' HUP; exec \"$BYTEGAUGE\" {LONGER} --json-stream");
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &script]).env("BYTEGAUGE", BINARY);
    let mut running = bench.spawn(command, script);
    running.until("some trials", |running| reported(&running.stdout()) >= 1);
    running.signal("HUP");
    running.wait().exits(0);
}

/// The state and the result of every test of a document.
fn results(document: &Value) -> Vec<(String, String)> {
    let tests = document["tests"].as_array().expect("a list");
    tests
        .iter()
        .map(|test| (name(&test["claim"]["kind"]), test["claim"]["reason"].as_str().unwrap_or_default().to_owned()))
        .collect()
}

#[test]
fn stopping_when_it_looks_good_proves_nothing() {
    let bench = Bench::new();
    let words = "stream --connection-age fresh --transport unix --profile sum --read-size 256,64K --write-size 64K --trial-time 10ms --blocks 60 \
                 --time 3s --seed 1 --json-stream";
    let mut running = bench.start(words);
    // Twenty blocks of four trials: more than enough to tell such sizes apart.
    running.until("blocks", |running| running.stdout().matches("\"stage\":\"confirm\"").count() >= 80);
    running.signal("INT");
    running.wait().exits(130);
    let blocks = Raw::of(&bench, 1).confirmed()["g1"];
    assert!((6..60).contains(&blocks), "{blocks}");
    let stopped = bench.run("report 1 --format json").exits(0).json();
    for (state, result) in results(&stopped) {
        assert_eq!((state.as_str(), result.as_str()), ("invalid", "interrupted"));
    }
    // On a busy machine other advice comes first.
    let mut commands = stopped["next"].as_array().expect("a list").iter().map(|next| name(&next["command"]));
    assert!(commands.any(|command| command.contains("--resume")), "{}", stopped["next"]);
    let document = bench.run("stream --resume 1 --format json").exits(0).json();
    for (_, result) in results(&document) {
        assert!(!result.contains("interrupted"), "{result}");
    }
}

#[test]
fn a_session_may_be_interrupted_again_and_again() {
    let bench = Bench::new();
    let mut trials = interrupted(&bench, "INT", "", 1);
    let mut rounds = 0;
    loop {
        let mut running = bench.start("stream --resume 1 --json-stream");
        running.until("some trials", |running| {
            reported(&running.stdout()) >= 25 || running.stdout().contains("\"report\"")
        });
        running.signal("INT");
        let ran = running.wait();
        trials += reported(&ran.stdout);
        rounds += 1;
        match ran.status.code() {
            Some(0) => break,
            Some(130) => assert!(rounds < 40, "{ran}"),
            _ => panic!("{ran}"),
        }
    }
    let raw = Raw::of(&bench, 1);
    raw.check_sound();
    assert_eq!((raw.status(), raw.trials.len()), ("complete", trials));
    assert_eq!(raw.confirmed()["g1"], BLOCKS);
}

#[test]
fn before_the_first_trial_too() {
    let bench = Bench::new();
    let mut running = bench.start(&format!("{LONGER} --json-stream"));
    running.until("the session", |running| running.stdout().contains("\"event\":\"session\""));
    running.signal("INT");
    let ran = running.wait();
    // Nothing at all may have been measured, but it was interrupted, not failed.
    let ran = ran.exits(130);
    assert_eq!(ran.json_lines().last().map(|line| line["event"].clone()), Some("report".into()));
    bench.run("stream --resume 1 --quiet").exits(0);
    let raw = Raw::of(&bench, 1);
    raw.check_sound();
    assert_eq!(raw.confirmed()["g1"], BLOCKS);
}

/// A wait for a trial or a grace of an hour would exceed the two minutes of the bench.
const LONG: &str = "stream --profile drain --read-size 64K --write-size 64K --trial-time 3600s --time 2s";

#[test]
fn a_long_trial_is_not_waited_for() {
    for ends in ["threads", "processes"] {
        let bench = Bench::new();
        let mut running = bench.start(&format!("{LONG} --transport unix,tcp --blocks 1 --ends {ends}"));
        running.until("confirmation", |running| running.stderr().contains("confirmation: "));
        // In the middle of it on most machines; a busy one may not have begun, which must end it as well.
        std::thread::sleep(Duration::from_millis(100));
        running.signal("INT");
        running.wait().exits(130).prints(&["incomplete"]);
        Raw::of(&bench, 1).check_sound();
    }
}

#[test]
fn a_second_interrupt_ends_at_once() {
    let bench = Bench::new();
    let words = format!("{LONG} --transport unix --blocks 5 --plant stall:1000 --grace 3600s");
    let mut running = bench.start(&words);
    running.until("confirmation", |running| running.stderr().contains("confirmation: "));
    // The first alone would wait for the end of a trial that has none.
    running.insist("INT").exits(130);
    bench.run("report list").exits(0);
}

#[test]
fn resuming_tells_which_plan_it_goes_on_with() {
    let bench = Bench::new();
    interrupted(&bench, "INT", "", 5);
    // Other factors than those of the session: going on silently with the old ones would answer another question.
    let ran =
        bench.run("stream --connection-age fresh --transport tcp --read-size 1K --write-size 1K --resume --quiet");
    ran.exits(2).complains(&["session 1 was begun with another --transport", "without --resume"]);
    for words in ["run --resume 1 --transport tcp", "run --resume 1 --time 7s"] {
        bench.run(words).exits(2).complains(&["session 1 was begun with another --"]);
    }
    let before = Raw::of(&bench, 1).trials;
    for words in ["run buffer-size", "run relay-copy", "run relay-calls", "call", "ring", "tune", "ab"] {
        let refused = bench.run(&format!("{words} --resume 1 --quiet")).exits(2);
        refused.complains(&["session 1 ", "continue it with `bytegauge run --resume 1`"]);
    }
    let named = bench.run(&format!("--store {} call --resume 1", bench.store().display())).exits(2);
    // The default needs no name; another place is a part of the command.
    named.complains(&["with `bytegauge run --resume 1`"]);
    fs::copy(bench.store(), bench.path("other.db")).expect("a copy");
    bench.run("--store other.db call --resume 1").exits(2).complains(&["other.db run --resume 1`"]);
    assert_eq!(Raw::of(&bench, 1).trials, before, "nothing was measured");
    bench.run("run --resume 1 --quiet").exits(0);
    assert_eq!(Raw::of(&bench, 1).status(), "complete");
}

#[test]
fn running_session_is_not_resumed() {
    let bench = Bench::new();
    let mut running = bench.start(&format!("{LONGER} --json-stream"));
    running.until("some trials", |running| reported(&running.stdout()) >= 12);
    let second = bench.run("stream --resume 1 --quiet");
    running.wait().exits(0);
    assert!(matches!(second.status.code(), Some(2 | 5)), "{second}");
    second.complains(&["session 1"]);
    let raw = Raw::of(&bench, 1);
    raw.check_sound();
    assert_eq!((raw.status(), raw.confirmed()["g1"]), ("complete", BLOCKS));
}

/// Writes other bytes of the same length over every occurrence of a text in the store.
pub fn patch(bench: &Bench, text: &str, other: &str) {
    assert_eq!(text.len(), other.len());
    let mut bytes = fs::read(bench.store()).expect("the store");
    let places: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at..].starts_with(text.as_bytes())).collect();
    assert!(!places.is_empty(), "{text} is not in the store in one piece");
    for at in places {
        bytes[at..at + text.len()].copy_from_slice(other.as_bytes());
    }
    fs::write(bench.store(), bytes).expect("the store");
}

#[test]
fn a_session_of_another_boot_is_not_resumed() {
    let bench = Bench::new();
    interrupted(&bench, "INT", "", 5);
    let boot = name(&Raw::of(&bench, 1).session["machine"]["boot_id"]);
    let other = boot.chars().map(|c| if c == '0' { '1' } else { '0' }).collect::<String>();
    patch(&bench, &boot, &other);
    let before = Raw::of(&bench, 1);
    let ran = bench.run("stream --resume 1 --quiet").exits(2);
    ran.complains(&["session 1 cannot be resumed", "in another boot", "bytegauge report 1", "without --resume"]);
    let after = Raw::of(&bench, 1);
    assert_eq!((after.status(), &after.trials), ("incomplete", &before.trials), "it is left as it was");
    patch(&bench, &other, &boot);
    bench.run("stream --resume 1 --quiet").exits(0);
}
