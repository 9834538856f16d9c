//! Looks: how many there are is declared beforehand, and every block beyond the first analysis's was asked for.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::bench::Bench;
use crate::contract::check_document;
use crate::interrupt::patch;
use crate::raw::{Raw, name, number, scope};

/// Two cells that hardly differ, and a margin that hardly any number of blocks proves.
const ALIKE: &str = "stream --connection-age fresh --transport unix --profile sum --read-size 60K,64K --write-size 64K --trial-time 2ms \
                     --margin 0.1% --time 2s --seed 1";

/// A fact of every group.
fn facts(raw: &Raw, fact: &str) -> BTreeMap<String, u64> {
    raw.groups.iter().map(|line| (name(&line["group"]["id"]), number(&line["facts"][fact]))).collect()
}

fn check_blocks(bench: &Bench, blocks: u64, analysis: u64) -> Raw {
    let raw = Raw::of(bench, 1);
    raw.check_sound();
    assert_eq!(raw.status(), "complete");
    assert_eq!((raw.confirmed()["g1"], facts(&raw, "look")["g1"]), (blocks, analysis));
    assert_eq!((facts(&raw, "looks")["g1"], facts(&raw, "blocks_fixed")["g1"]), (3, 6));
    raw
}

#[test]
fn complete_session_resumes_for_its_next_analysis() {
    let bench = Bench::new();
    let first = bench.run(&format!("{ALIKE} --blocks 6 --quiet --format json")).exits(0).json();
    assert_eq!(first["groups"][0]["analysis"]["done"], 1);
    let mut before = check_blocks(&bench, 6, 1);
    for (analysis, blocks) in [(2, 12), (3, 24)] {
        let document = bench.run(&format!("{ALIKE} --resume --quiet --format json")).exits(0).json();
        check_document(&document);
        assert_eq!((&document["groups"][0]["analysis"]["done"], &document["session"]), (&json!(analysis), &json!(1)));
        let after = check_blocks(&bench, blocks, analysis);
        assert_eq!(after.trials[..before.trials.len()], before.trials, "earlier trials stay as they are");
        before = after;
    }
    let over = ["session 1 is over", "analyses: 3 of 3", "without --resume"];
    bench.run("stream --resume 1 --quiet").exits(2).complains(&over);
    bench.run("stream --resume --quiet").exits(2).complains(&["no session of plan stream", "can be resumed"]);
    check_blocks(&bench, 24, 3);
}

#[test]
fn every_group_declares_its_own_blocks() {
    let bench = Bench::new();
    let toml = "placement = \"unpinned,same-cpu\"\n";
    let plan = bench.write("mine.toml", toml);
    let factors = "--connection-age fresh --transport unix --profile drain --read-size 4K,64K --write-size 64K --trial-time 1ms --time 2s";
    bench.run(&format!("run {plan} {factors} --blocks 18 --quiet")).exits(0);
    let raw = Raw::of(&bench, 1);
    let fixed: Vec<u64> = facts(&raw, "blocks_fixed").into_values().collect();
    assert_eq!(fixed, [18, 18]);
    assert_eq!(facts(&raw, "blocks_fixed"), raw.confirmed());
    bench.run(&format!("run {plan} --resume 1 --quiet")).exits(0);
    let doubled: BTreeMap<String, u64> = raw.confirmed().into_iter().map(|(id, blocks)| (id, 2 * blocks)).collect();
    assert_eq!(Raw::of(&bench, 1).confirmed(), doubled);
}

/// Resumes a session for its second analysis of 20 further blocks, and returns it in the midst of that.
fn in_the_second_analysis(bench: &Bench) -> crate::bench::Running {
    bench.run(&format!("{ALIKE} --blocks 20 --quiet")).exits(0);
    let mut running = bench.start("stream --resume 1 --json-stream");
    running.until("a trial", |running| running.stdout().contains("\"event\":\"trial\""));
    running
}

#[test]
fn an_interrupted_analysis_leaves_the_one_before_it() {
    let bench = Bench::new();
    let running = in_the_second_analysis(&bench);
    running.signal("INT");
    let ran = running.wait().exits(130).complains(&["interrupted", "--resume 1"]);
    let document = ran.json_lines().pop().expect("a last line")["report"].clone();
    check_document(&document);
    let analysis = &document["groups"][0]["analysis"];
    assert_eq!(
        (&document["status"], &analysis["done"], &analysis["blocks"]),
        (&json!("incomplete"), &json!(1), &json!(20))
    );
    let so_far = Raw::of(&bench, 1).confirmed()["g1"] - 20;
    assert_eq!(analysis["so_far"], so_far);
    let valid = scope(&document).join(" ");
    assert_eq!(valid.contains("measured since then count at the next"), so_far > 0, "{valid}");
    bench.run("stream --resume 1 --quiet").exits(0);
    let raw = Raw::of(&bench, 1);
    assert_eq!((raw.status(), raw.confirmed()["g1"], facts(&raw, "look")["g1"]), ("complete", 40, 2));
}

#[test]
fn cap_keeps_an_interrupted_analysis() {
    let bench = Bench::new();
    let running = in_the_second_analysis(&bench);
    running.signal("INT");
    running.wait().exits(130);
    let before = Raw::of(&bench, 1);
    bench.run("stream --resume 1 --until conclusive --max-time 1ms --quiet").exits(0);
    let after = Raw::of(&bench, 1);
    assert_eq!((after.status(), &after.trials), ("incomplete", &before.trials), "its blocks are still missing");
    bench.run("stream --resume 1 --quiet").exits(0);
    assert_eq!(Raw::of(&bench, 1).confirmed()["g1"], 40);
}

#[test]
fn a_killed_analysis_is_taken_to_its_end() {
    let bench = Bench::new();
    in_the_second_analysis(&bench).kill();
    assert_eq!(Raw::of(&bench, 1).status(), "running");
    bench.run("stream --resume 1 --quiet").exits(0);
    let raw = Raw::of(&bench, 1);
    raw.check_sound();
    assert_eq!((raw.status(), raw.confirmed()["g1"], facts(&raw, "look")["g1"]), ("complete", 40, 2));
}

/// The analyses in the output of a run.
fn reported(ran: &crate::bench::Ran) -> Vec<Value> {
    ran.json_lines().into_iter().filter(|line| line["event"] == "analysis").collect()
}

#[test]
fn until_conclusive_continues_to_the_end() {
    let bench = Bench::new();
    let ran = bench.run(&format!("{ALIKE} --blocks 6 --until conclusive --json-stream")).exits(0);
    let analyses = reported(&ran);
    let settled = analyses.last().is_some_and(|analysis| analysis["settled"] == analysis["groups"]);
    // The result of two such cells is unknown; but the run continued exactly as long as it was inconclusive.
    let last = if settled { analyses.len() as u64 } else { 3 };
    assert!(
        analyses.iter().rev().skip(1).all(|analysis| analysis["settled"] == 0 && analysis["groups"] == 1),
        "{analyses:?}"
    );
    let raw = check_blocks(&bench, 6 << (last - 1), last);
    let saved = raw.session["notes"].to_string().contains(" saved");
    assert_eq!(saved, settled, "{}", raw.session["notes"]);
    let lines = ran.json_lines();
    let stages: Vec<u64> =
        lines.iter().filter(|line| line["stage"] == "confirm").filter_map(|line| line["blocks"].as_u64()).collect();
    assert_eq!(stages, [6, 6, 12][..last as usize], "{lines:?}");
}

#[test]
fn what_compares_nothing_is_settled_at_once() {
    let bench = Bench::new();
    let words = "stream --engine null --connection-age fresh --transport unix --profile drain --read-size 4K,8K --write-size 64K --trial-time 1ms";
    let ran = bench.run(&format!("{words} --blocks 6 --time 1s --until conclusive --json-stream")).exits(0);
    let raw = check_blocks(&bench, 6, 1);
    let notes = raw.session["notes"].to_string();
    assert!(notes.contains("ended after analysis 1 of 3: more blocks would not help, ") && notes.contains(" saved"));
    assert_eq!(reported(&ran).len(), 1);
}

#[test]
fn until_proven_keeps_to_its_cap() {
    let bench = Bench::new();
    let ran = bench.run(&format!("{ALIKE} --blocks 6 --until conclusive --max-time 1ms --json-stream")).exits(0);
    let raw = check_blocks(&bench, 6, 1);
    assert!(raw.session["notes"].to_string().contains("ended after analysis 1 of 3"), "{}", raw.session["notes"]);
    let analyses = reported(&ran);
    assert!(analyses.len() == 1 && analyses[0]["next_ns"].as_u64() > Some(0), "{analyses:?}");
    // Earlier trials count: nothing more fits.
    let within = bench.run("stream --resume 1 --until conclusive --max-time 1ms --no-page").exits(0);
    within.complains(&["nothing more is measured: analysis 2 of 3 would take about", "give --max-time"]);
    check_blocks(&bench, 6, 1);
    // Another command may allow for more.
    bench.run("stream --resume 1 --until conclusive --quiet").exits(0);
    let raw = Raw::of(&bench, 1);
    assert!([12, 24].contains(&raw.confirmed()["g1"]), "{:?}", raw.confirmed());
}

#[test]
fn analysis_keeps_a_differing_control() {
    let bench = Bench::new();
    let words = "stream --connection-age fresh --transport unix --profile sum --read-size 4K,64K --write-size 64K --trial-time 10ms --blocks 12 \
                 --time 2s --seed 1 --plant c2t@spin:5000000 --until conclusive --json-stream";
    // A machine under load can hide the plant from a whole session.
    let raised = (1..=5).find_map(|session| {
        let document = bench.run(words).exits(0).json_lines().pop().expect("a last line")["report"].clone();
        let group = document["groups"][0].clone();
        (group["twin"]["alarm"] == json!(true)).then_some((session, group))
    });
    let (session, group) = raised.expect("an alarm in one of five sessions");
    assert_eq!(group["recommendation"]["proven"], json!(false), "{group}");
    // The analysis that raised the alarm was the last, whichever that was: a busy machine may hide the plant from the first.
    let done = group["analysis"]["done"].as_u64().expect("an analysis");
    let blocks = match done {
        1 => 12,
        2 => 24,
        _ => 48,
    };
    assert_eq!(Raw::of(&bench, session).confirmed()["g1"], blocks, "{group}");
}

#[test]
fn every_block_counts() {
    let bench = Bench::new();
    let document = bench.run(&format!("{ALIKE} --blocks 2 --quiet --format json")).exits(0).json();
    let raw = Raw::of(&bench, 1);
    let confirmed = |id: &Value| {
        let of_cell = raw.trials.iter().filter(|trial| trial["cell"] == *id && trial["stage"] == "confirm");
        of_cell.count() as u64
    };
    for cell in document["cells"].as_array().expect("cells") {
        let id = &cell["id"];
        // The harness's own loop may get no CPU in so short a window.
        if cell["kind"] == "floor" && number(&cell["failed_trials"]) > 0 {
            continue;
        }
        assert_eq!((number(&cell["trials"]), number(&cell["failed_trials"])), (confirmed(id), 0), "{id}");
    }
    assert_eq!((raw.confirmed()["g1"], raw.troubles()), (2, Vec::new()));
}

#[test]
fn sessions_with_a_gone_level_are_shown_only() {
    let bench = Bench::new();
    bench.run(&format!("{ALIKE} --blocks 6 --quiet")).exits(0);
    patch(&bench, r#""engine":"blocking""#, r#""engine":"bygone:a""#);
    bench.run("stream --resume 1 --quiet").exits(2).complains(&["begun by another version", "run it again"]);
    bench.run("report 1").exits(0);
}

#[test]
fn sessions_of_older_versions_declared_no_analyses() {
    let bench = Bench::new();
    bench.run(&format!("{ALIKE} --blocks 6 --quiet")).exits(0);
    patch(&bench, "\"analyses\":3", "\"analyzes\":3");
    bench.run("stream --resume 1 --quiet").exits(2).complains(&["begun by another version", "run it again"]);
    bench.run("report 1").exits(0);
}

#[test]
fn one_analysis_has_no_next() {
    let bench = Bench::new();
    let document = bench.run(&format!("{ALIKE} --blocks 6 --analyses 1 --quiet --format json")).exits(0).json();
    let analysis = &document["groups"][0]["analysis"];
    assert_eq!(
        (&analysis["of"], &analysis["level"], &analysis["next_blocks"]),
        (&json!(1), &json!(0.95), &Value::Null)
    );
    bench.run("stream --resume 1 --quiet").exits(2).complains(&["analyses: 1 of 1"]);
    bench.run("stream --analyses 1 --until conclusive").exits(2).complains(&["--until", "--analyses 1"]);
    bench.run("stream --analyses 7").exits(2).complains(&["--analyses: `7`", "1 to 6"]);
}
