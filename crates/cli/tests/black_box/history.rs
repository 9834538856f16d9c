//! Sessions before and after a change: the claims with a history, and their absence without one.
//!
//! Results depend on what a program prints, so sessions differ by a number that the test writes into a file.

use serde_json::Value;

use crate::bench::{Bench, Ran};
use crate::contract::check_compare_schema;

/// One session of a program that takes as long as the file of the bench states.
fn session(bench: &Bench, took: &str, more: &[&str]) -> Ran {
    let file = bench.write("took", took);
    let script = format!("test {{value}} = 1 && echo took $(cat {file}) || echo took 9");
    let words = ["tune", "--blocks", "6", "--analyses", "1", "--values", "1,2", "--metric", "time:took (.*)", "-q"];
    bench.run_args(&words.iter().chain(more).chain(&["--", "sh", "-c", &script]).copied().collect::<Vec<_>>())
}

const BEFORE: [&str; 5] = ["2.00", "2.01", "1.99", "2.02", "1.98"];

#[test]
fn history_reports_worse_and_equal_results() {
    let bench = Bench::new();
    for took in &BEFORE[..4] {
        session(&bench, took, &["--save", "main"]).exits(0);
    }
    bench.run("report compare 1 2").exits(0).prints(&["undecided: 1 session before the change is too few"]);
    let early = session(&bench, "3", &["--against", "main"]).exits(0);
    early.prints(&["Result: undecided: 4 sessions before the change are too few", "no interval (4 sessions before)"]);
    session(&bench, "3", &["--against", "main", "--strict"]).exits(3);
    session(&bench, BEFORE[4], &["--save", "main"]).exits(0);
    let worse = session(&bench, "3", &["--against", "main"]).exits(1);
    worse.prints(&["before: 1, 2, 3, 4, 7 · after: 8", "Result: worse: 1 of 1 test slower by more than 5 %"]);
    session(&bench, "2.01", &["--against", "main", "--strict"]).exits(0).prints(&["Result: equivalent: 0 of 1 test"]);
    session(&bench, "1", &["--against", "main"]).exits(0).prints(&["Result: better: all of 1 test faster"]);
    let reported: Value = bench.run("report compare main 8 --format json").exits(1).json();
    check_compare_schema(&reported);
    assert_eq!((&reported["verdict"], &reported["lacking"]), (&"worse".into(), &0.into()), "{reported}");
    assert_eq!(
        (&reported["lines"][0]["sessions_before"], &reported["lines"][0]["sessions_after"]),
        (&5.into(), &1.into())
    );
    assert!(reported["lines"][0]["lower"].as_f64() > Some(0.05), "{reported}");
    bench.run("report compare main 8 --margin 90%").exits(0);
    bench.run("report list").exits(0).prints(&["saved as", "main"]);
    // A number stands for the older ones of the same program as well.
    bench
        .run("report compare 9 10 --strict")
        .exits(0)
        .prints(&["before: 1, 2, 3, 4, 5, 6, 7, 8, 9 · after: 10", "Result: better"]);
    // Nothing of it is in the way of the session's own report.
    bench.run("report 8").exits(0).prints(&["report 8 --full"]);
}

#[test]
fn a_report_compares_with_the_earlier_session() {
    let bench = Bench::new();
    let script = format!("echo took $(cat {}{{value}})", bench.path("took").display());
    let run = |took: [&str; 2]| {
        bench.write("took1", took[0]);
        bench.write("took2", took[1]);
        let words = ["tune", "--blocks", "6", "--analyses", "1", "--values", "1,2", "--metric", "time:took (.*)"];
        bench.run_args(&words.iter().chain(&["--", "sh", "-c", &script]).copied().collect::<Vec<_>>()).exits(0)
    };
    assert!(!run(["2", "9"]).stdout.contains("contradict"));
    assert!(!run(["2", "9"]).stdout.contains("contradict"));
    run(["9", "2"]).prints(&["recommended by session 2", "contradict each other"]);
    assert!(!bench.run("report 2").exits(0).stdout.contains("contradict"));
    bench.run("report 3").exits(0).prints(&["recommended by session 2", "contradict each other"]);
}

#[test]
fn wrong_names_are_reported_first() {
    let bench = Bench::new();
    session(&bench, "1", &["--save", "7"]).exits(2).complains(&["--save: `7` is not a name"]);
    session(&bench, "1", &["--against", "main"]).exits(2).complains(&["no session is saved as `main`", "--save main"]);
    session(&bench, "1", &[]).exits(0);
    bench.run("report compare main 1").exits(2).complains(&["no session is saved as `main`"]);
    bench.run("report compare 1 99").exits(2).complains(&["99"]);
    bench.run("report compare 1 1").exits(2).complains(&["session 1 is on both sides"]);
    let ab = bench.run("ab --a cmd:true --b cmd:true --save main");
    ab.exits(2).complains(&["ab compares within one"]);
}

#[test]
fn what_has_nothing_in_common_is_not_compared() {
    let bench = Bench::new();
    session(&bench, "1", &[]).exits(0);
    bench.run(crate::bench::QUICK).exits(0);
    bench.run("report compare 1 2").exits(5).prints(&["not comparable"]);
    bench.run("tune --blocks 1 --analyses 1 --values 1,2 -q -- true {value}").exits(0);
    bench.run("report compare 1 3").exits(5).prints(&["not comparable", "did not all run the same", "exit code 5"]);
    bench.run("tune --blocks 1 --analyses 1 --values 3,4 -q -- true {value}").exits(0);
    bench.run("report compare 3 4").exits(5).prints(&[
        "Not compared, because there is no result after: ",
        "not compared: the sessions have no result in common",
    ]);
    check_compare_schema(&bench.run("report compare 1 2 --format json").exits(5).json());
    // Also measured, but not comparable, so it passes no gate.
    let check = |words: &str| bench.run(&format!("tune --blocks 1 --analyses 1 --values 1,2 -q {words} {{value}}"));
    check("--save main -- true").exits(0);
    check("--against main -- true").exits(0);
    check("--against main -- /bin/true").exits(5).prints(&["not comparable"]);
}

#[test]
fn a_failed_session_shows_its_reasons() {
    let bench = Bench::new();
    session(&bench, "1", &["--save", "main"]).exits(0);
    let failed = session(&bench, "nothing", &["--against", "main"]).exits(5);
    failed.prints(&["1 failed: "]).complains(&["nothing could be measured or compared"]);
}
