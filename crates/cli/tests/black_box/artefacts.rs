//! The misleading things of published benchmarks, planted: the product must name each of them.
//!
//! Those that a simulation plants (serial order, pooled samples, the best of noise) are negative controls of
//! the verification table; faults of a path stand in `faults`.

use serde_json::Value;

use crate::bench::Bench;

const TWO: &str =
    "stream --transport /dev/zero --profile drain --read-size 64K,128K --duration 5ms --seed 1 --budget 5s";

/// Nothing may be recommended by this document.
#[track_caller]
fn check_unfit(document: &Value, reason: &str) {
    assert_eq!(document["environment"]["grade"], "D", "{}", document["environment"]);
    let reasons = document["environment"]["reasons"].as_array().unwrap();
    assert!(reasons.iter().any(|text| text.as_str().is_some_and(|text| text.contains(reason))), "{reasons:?}");
    for verdict in document["verdicts"].as_array().unwrap() {
        assert_eq!(verdict["recommendation"]["proven"], false, "{verdict}");
    }
}

#[test]
fn a_twin_that_differs() {
    let bench = Bench::new();
    // Ten times as slow as the cell that it repeats.
    let ran = bench.run(&format!("{TWO} --blocks 12 --plant c2t@spin:30000 --format json")).exits(0);
    check_unfit(&ran.json(), "twin");
    bench.run("report --strict").exits(4);
}

#[test]
fn a_throttled_cpu() {
    let bench = Bench::new();
    bench.run(&format!("{TWO} --blocks 6 --quiet")).exits(0);
    let told = bench.run("export").exits(0).stdout;
    let throttled: Vec<String> = told
        .lines()
        .map(|line| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            if let Some(surroundings) = line.pointer_mut("/block/surroundings") {
                surroundings["throttled_us"] = 9_000.into();
            }
            line.to_string()
        })
        .collect();
    assert_ne!(throttled.join("\n"), told.trim_end(), "no block was marked");
    let file = bench.write("throttled.jsonl", &throttled.join("\n"));
    bench.run(&format!("import {file}")).exits(0);
    check_unfit(&bench.run("report 2 --format json").exits(0).json(), "throttled");
}

#[test]
fn a_placement_with_two_modes() {
    let bench = Bench::new();
    let mut table = "transport,read_size,write_size,duration_sec,throughput (MiB/s)\n".to_owned();
    for trial in 0..60 {
        // One CPU or two, as the scheduler likes: each mode tight, the mean in neither.
        let rate = if trial % 2 == 0 { 3900.0 } else { 9300.0 } + f64::from(trial % 7);
        table.push_str(&format!("unix,65536,262144,0.04,{rate}\n"));
    }
    let file = bench.write("modes.csv", &table);
    bench.run(&format!("import {file}")).exits(0);
    bench.run("report").exits(0).prints(&["more than one mode"]);
    let document = bench.run("report --format json").exits(0).json();
    let modes = document["cells"][0]["modes"]["modes"].as_array().unwrap();
    assert_eq!(modes.len(), 2, "{modes:?}");
}

#[test]
fn a_first_case_that_pays_the_warm_up() {
    let bench = Bench::new();
    bench.run(&format!("{TWO} --blocks 12 --quiet")).exits(0);
    let told = bench.run("export").exits(0).stdout;
    let trials: Vec<Value> = told
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).unwrap().get("trial").cloned())
        .filter(|trial| trial["stage"] == "confirm")
        .collect();
    assert!(trials.iter().all(|trial| trial["warmup_ns"].as_u64() > Some(0)), "every trial warms up");
    let firsts: std::collections::BTreeSet<&str> =
        trials.iter().filter(|trial| trial["position"] == 0).filter_map(|trial| trial["cell"].as_str()).collect();
    assert!(firsts.len() > 1, "the same cell came first in every block: {firsts:?}");
}
