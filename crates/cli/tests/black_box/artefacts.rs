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

/// Runs the binary in a control group that gets a third of a CPU; removes the group whatever comes.
const THROTTLED: &str = r#"
root=/sys/fs/cgroup
if [ -f $root/cgroup.controllers ]; then
    group=$root/bytegauge-test-$$ && mkdir $group && echo "30000 100000" > $group/cpu.max || exit 77
else
    group=$root/cpu/bytegauge-test-$$ && mkdir $group || exit 77
    echo 100000 > $group/cpu.cfs_period_us && echo 30000 > $group/cpu.cfs_quota_us || exit 77
fi
sh -c "echo \$\$ > $group/cgroup.procs && exec \"$BYTEGAUGE\" $WORDS"
code=$?
rmdir $group
exit $code
"#;

#[test]
fn a_throttled_cpu() {
    let bench = Bench::new();
    let ran = bench.shell(&format!("WORDS='{TWO} --blocks 12 --format json'\n{THROTTLED}"));
    if ran.status.code() == Some(77) {
        eprintln!("SKIPPED: no control group can be limited here: {}", ran.stderr);
        return;
    }
    check_unfit(&ran.exits(0).json(), "throttled");
}

#[test]
fn a_placement_with_two_modes() {
    let bench = Bench::alone();
    // Every other block far slower than the rest.
    let ran = bench.run(&format!("{TWO} --blocks 40 --plant c1@modes:20000 --format json")).exits(0);
    let document = ran.json();
    let planted = document["cells"].as_array().unwrap().iter().find(|cell| cell["id"] == "c1").unwrap();
    let modes = planted["modes"]["modes"].as_array().unwrap();
    assert_eq!(modes.len(), 2, "{modes:?}");
    bench.run("report").exits(0).prints(&["c1 (", "has more than one mode"]);
}

#[test]
fn a_first_case_that_pays_the_warm_up() {
    let bench = Bench::alone();
    let words = "stream --transport /dev/zero --profile drain --read-size 64K --seed 1 --blocks 6 --budget 20s";
    // 30 ms of slow reads at the beginning of every trial: left out as far as a trial allows.
    let document = bench.run(&format!("{words} --plant cold:30000000 --format json")).exits(0).json();
    assert_eq!(document["groups"][0]["warmup_ns"], 2_500_000, "{}", document["groups"][0]);
    // 200 of the 300 ms of a calibration trial.
    bench.run(&format!("{words} --plant cold:200000000")).exits(0).prints(&["not steady"]);
}

#[test]
fn the_first_place_in_a_block_goes_round() {
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
