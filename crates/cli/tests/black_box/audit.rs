//! The audit: long trials of the choice and its rivals, after the blocks of an analysis and within its share of the time.

use serde_json::Value;

use crate::bench::Bench;
use crate::contract::check_document;
use crate::raw::{Raw, name, number};

/// Two sizes; half of the time goes into the audit, so that it carries several blocks.
const HALF: &str =
    "stream --transport unix --profile sum --read-size 4K,64K --write-size 64K --blocks 6 --long-trials 50% --seed 1";

fn of_stage<'a>(lines: &'a [Value], stage: &'a str) -> impl Iterator<Item = &'a Value> {
    lines.iter().filter(move |line| line["stage"] == stage)
}

#[test]
fn analysis_ends_with_long_trials() {
    let bench = Bench::new();
    let document = bench.run(&format!("{HALF} --quiet --format json")).exits(0).json();
    check_document(&document);
    let raw = Raw::of(&bench, 1);
    raw.check_sound();
    let last_confirmed = of_stage(&raw.blocks, "confirm").map(|line| number(&line["index"])).max();
    let audited: Vec<u64> = of_stage(&raw.blocks, "audit").map(|line| number(&line["index"])).collect();
    assert!(!audited.is_empty() && audited.iter().all(|index| Some(*index) > last_confirmed), "{audited:?}");
    let choice = name(&document["groups"][0]["recommendation"]["cell"]);
    for index in audited {
        let trials: Vec<&Value> =
            of_stage(&raw.trials, "audit").filter(|trial| number(&trial["block"]) == index).collect();
        assert!(trials.iter().any(|trial| name(&trial["cell"]) == choice) && trials.len() == 2, "{trials:?}");
        assert!(trials.iter().all(|trial| number(&trial["wall_ns"]) > 100_000_000), "{trials:?}");
    }
    assert_eq!(name(&document["groups"][0]["audit"]["choice"]), choice);
    assert_eq!(number(&document["cells"][0]["trials"]), 6, "its estimate uses confirmation only");
    // The next analysis has an audit of its own, and those before it count as well.
    let before = of_stage(&raw.blocks, "audit").count();
    bench.run(&format!("{HALF} --resume --quiet")).exits(0);
    assert!(of_stage(&Raw::of(&bench, 1).blocks, "audit").count() > before);
}

#[test]
fn missing_long_trials_are_reported() {
    let bench = Bench::new();
    // A tenth of it holds no two trials of 250 ms, although a busy machine takes several times as long.
    let words =
        "stream --transport unix --profile sum --read-size 4K,64K --write-size 64K --blocks 6 --trial-time 10ms";
    for (audit, expected) in [
        ("--long-trials off", "Connections older than those measured may differ (--long-trials)"),
        ("", "Connections older than those measured may differ (--long-trials)"),
    ] {
        let ran = bench.run(&format!("{words} {audit} --quiet --full")).exits(0);
        let text = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(expected), "{text}");
    }
    assert_eq!(of_stage(&Raw::of(&bench, 1).blocks, "audit").count(), 0);
}

#[test]
fn the_dry_run_counts_it() {
    let bench = Bench::new();
    let plan = "stream --transport unix --read-size 4K,64K --write-size 64K --time 60s --dry-run --format json";
    let shown = bench.run("stream --transport unix --read-size 4K,64K --write-size 64K --time 60s --dry-run").exits(0);
    shown.prints(&[" for long trials"]);
    assert!((bench.run(plan).exits(0).json()["audit"].as_f64().unwrap_or_default() - 0.1).abs() < 1e-9);
    bench.run("stream --transport unix --long-trials 99%").exits(2).complains(&[
        "--long-trials",
        "0% to 50%",
        "or off",
    ]);
}
