//! Each exit code, reached in the shortest way, and listed by `--help` and the manual page.

use crate::bench::{Bench, QUICK};
use crate::far::{LONG, agent, under_way};

/// One group of two sizes, in a moment.
const TINY: &str =
    "stream --connection-age fresh --transport unix --write-size 64K --trial-time 2ms --analyses 1 --seed 1 --quiet";

#[test]
fn success_is_0() {
    Bench::new().run(&format!("{QUICK} --quiet")).exits(0);
}

#[test]
fn regression_is_1() {
    // Numbers without noise: pairs of real runs are called dependent in one session of twenty, which decides nothing.
    let sides = ["--metric", "time:took (.*)", "--a", "cmd:echo took 1", "--b", "cmd:echo took 2"];
    let words = ["--time", "5s", "--quiet", "--seed", "1"];
    Bench::new().run_args(&[&["ab"], &sides[..], &words].concat()).exits(1);
}

#[test]
fn wrong_usage_is_2() {
    Bench::new().run("stream --no-such-flag").exits(2);
    Bench::new().run("report").exits(2);
}

#[test]
fn insignificant_result_is_3_with_strict() {
    Bench::with_known_session().run("report --strict").exits(3);
    // It throws bytes away: no result for use, however clear it is. On a busy machine it may have no interval either.
    let ran = Bench::new().run(&format!("{TINY} --profile drain --read-size 256,64K --blocks 12 --time 2s --strict"));
    assert!(matches!(ran.status.code(), Some(3 | 4)), "{ran}");
}

#[test]
fn missing_interval_is_4_with_strict() {
    Bench::new().run(&format!("{TINY} --profile sum --read-size 4K,64K --blocks 1 --time 2s --strict")).exits(4);
}

#[test]
fn failure_is_5() {
    Bench::new().run_args(&["tune", "--values", "1,2", "--time", "2s", "--quiet", "--", "false", "{value}"]).exits(5);
}

#[test]
fn lost_host_is_6() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, "");
    let session = under_way(&bench, &LONG.replace("--json-stream", "--json-stream --host-wait 1ms"), &place);
    agent.kill();
    session.wait().exits(6).complains(&["--resume"]);
}

#[test]
fn interrupt_is_130() {
    let bench = Bench::new();
    let mut running =
        bench.start(&format!("{TINY} --profile drain --read-size 4K,64K --blocks 500 --time 60s --json-stream"));
    running.until("a trial", |running| running.stdout().contains("\"event\":\"trial\""));
    running.signal("INT");
    running.wait().exits(130);
}

#[test]
fn help_and_manual_list_all_codes() {
    let bench = Bench::new();
    for words in ["--help", "man"] {
        let ran = bench.run(words).exits(0).prints(&["Exit codes", "a far host was lost", "wrong usage"]);
        for code in ["0", "1", "2", "3", "4", "5", "6", "130"] {
            assert!(ran.stdout.lines().any(|line| line.split_whitespace().next() == Some(code)), "{code}: {ran}");
        }
    }
}
