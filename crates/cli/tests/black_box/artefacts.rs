//! Misleading effects of published benchmarks, planted: the product must name each of them.
//!
//! Those that a simulation plants (serial order, pooled samples, the best of noise) are negative controls of
//! the verification table; faults of a path are in `faults`.

use serde_json::Value;

use crate::bench::Bench;
use crate::raw::number;

const TWO: &str =
    "stream --transport /dev/zero --profile drain --read-size 64K,128K --trial-time 5ms --seed 1 --time 5s";

#[test]
fn differing_control_is_reported() {
    let bench = Bench::new();
    // A millisecond a read: more than a hundred times as slow as the cell that it repeats, whatever else runs.
    let ran = bench.run(&format!("{TWO} --blocks 12 --plant c2t@spin:1000000 --format json")).exits(0);
    let document = ran.json();
    for test in document["tests"].as_array().unwrap() {
        assert_eq!(test["recommended"], Value::Null, "{test}");
    }
    let found = document["findings"].as_array().unwrap().iter().map(|found| &found["fact"]);
    let widened: Vec<f64> =
        found.filter(|fact| fact["kind"] == "control-differs").map(|fact| fact["widened"].as_f64().unwrap()).collect();
    assert!(!widened.is_empty() && widened.iter().all(|share| *share > 1.0), "{document}");
    // Open, or without a bound where a machine's mood makes blocks resemble each other: never as if it were proven.
    let strict = bench.run("report --strict");
    assert!(matches!(strict.status.code(), Some(3 | 4)), "{strict}");
}

/// Runs the binary in a control group that gets 2 ms of every 10 ms: less than it gets next to two busy loops on every
/// CPU, so that the limit always applies. Removes the group in any case.
const THROTTLED: &str = r#"
root=/sys/fs/cgroup
if [ -f $root/cgroup.controllers ]; then
    group=$root/bytegauge-test-$$ && mkdir $group && echo "2000 10000" > $group/cpu.max || exit 77
else
    group=$root/cpu/bytegauge-test-$$ && mkdir $group || exit 77
    echo 10000 > $group/cpu.cfs_period_us && echo 2000 > $group/cpu.cfs_quota_us || exit 77
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
    let environment = &ran.exits(0).json()["environment"];
    assert_eq!(environment["grade"], "D", "{environment}");
    let reasons = environment["reasons"].as_array().unwrap();
    assert!(reasons.iter().any(|text| text.as_str().is_some_and(|text| text.contains("throttled"))), "{reasons:?}");
}

/// The confirmation's trials of a session, as its export has them.
fn confirmed(bench: &Bench) -> Vec<Value> {
    let lines = bench.run("report export").exits(0).json_lines();
    let trials = lines.into_iter().filter_map(|mut line| line.get_mut("trial").map(Value::take));
    trials.filter(|trial| trial["stage"] == "confirm").collect()
}

/// The report of such trials is tested with planted ones: `report/tests/all/view.rs`.
#[test]
fn a_placement_with_two_modes() {
    const READ_NS: u64 = 1_000_000;
    let bench = Bench::new();
    // A millisecond a read in every other block.
    let words = "stream --transport /dev/zero --profile drain --read-size 64K --trial-time 20ms --blocks 12 --time 5s";
    bench.run(&format!("{words} --seed 1 --plant c1@modes:{READ_NS} --quiet")).exits(0);
    let trials = confirmed(&bench);
    // This holds on any busy machine: the window has this number of reads, one more or less.
    let slow = |trial: &Value| number(&trial["ends"]["sink"]["calls"]) <= number(&trial["wall_ns"]) / READ_NS + 2;
    let all_slow = |parity: u64| {
        let of_block = |trial: &&Value| number(&trial["block"]) % 2 == parity && trial["cell"] == "c1";
        trials.iter().filter(of_block).all(slow)
    };
    assert_ne!(all_slow(0), all_slow(1), "every other block is slow: {trials:?}");
}

#[test]
fn the_first_place_in_a_block_goes_round() {
    let bench = Bench::new();
    bench.run(&format!("{TWO} --blocks 12 --quiet")).exits(0);
    let trials = confirmed(&bench);
    assert!(trials.iter().all(|trial| trial["warmup_ns"].as_u64() > Some(0)), "every trial warms up");
    let firsts: std::collections::BTreeSet<&str> =
        trials.iter().filter(|trial| trial["position"] == 0).filter_map(|trial| trial["cell"].as_str()).collect();
    assert!(firsts.len() > 1, "the same cell came first in every block: {firsts:?}");
}
