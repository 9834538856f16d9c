//! `bytegauge selftest`, in small: the same table as text and as JSON, with an exit code that agrees with it.
//!
//! What a row says is the machine's and chance's: so few repetitions may miss a target. Only that it is said, and
//! counted, is checked here.

use serde_json::Value;

use crate::bench::{Bench, Ran};
use crate::raw::{name, number};

/// Rows that come from the harness, from the simulations, and from a method crippled on purpose.
const ROWS: [&str; 3] =
    ["A against A on this machine", "best set keeps the best, 48 blocks", "fixed standard error, 8 blocks"];

/// 0 if every row is as it should be, 5 if not.
#[track_caller]
fn check_code(ran: &Ran, failed: u64) {
    assert_eq!(ran.status.code(), Some(if failed == 0 { 0 } else { 5 }), "{ran}");
    assert!(!ran.stderr.contains("panicked"), "{ran}");
}

fn rows(ran: &Ran) -> (u64, Vec<Value>) {
    let document = ran.json();
    assert_eq!(document["seed"], 1);
    (number(&document["failed"]), document["rows"].as_array().expect("rows").clone())
}

#[test]
fn the_table_says_what_was_asked_for_and_what_came_out() {
    let bench = Bench::new();
    let ran = bench.run("selftest --scale test --format json");
    let (failed, rows) = rows(&ran);
    check_code(&ran, failed);
    assert_eq!(rows.iter().filter(|row| row["passed"] == false).count() as u64, failed);
    assert!(rows.iter().filter(|row| row["negative_control"] == true).count() >= 4);
    for row in &rows {
        assert!(row["got"].is_number() || row["got"].is_null(), "{row}");
        assert!(["name", "target", "unit", "note"].iter().all(|key| row[key].is_string()), "{row}");
    }
    for expected in ROWS {
        assert!(rows.iter().any(|row| name(&row["name"]).contains(expected)), "{expected}");
    }
}

#[test]
fn the_text_holds_every_row_and_their_count() {
    let bench = Bench::new();
    let ran = bench.run("selftest --scale test --seed 1").prints(&ROWS);
    let starting =
        |marks: &[&str]| ran.stdout.lines().filter(|line| marks.iter().any(|mark| line.starts_with(mark))).count();
    let (good, failed) = (starting(&["ok    ", "ok (-)", "told  "]), starting(&["FAILED"]));
    assert!(starting(&["told  "]) > 0 && !ran.stdout.contains("published\n"), "what has no target passes none: {ran}");
    check_code(&ran, failed as u64);
    assert!(starting(&["ok (-)"]) > 0, "{ran}");
    let counted = format!("{} rows, {failed} failed, seed 1. ", good + failed);
    assert!(ran.stdout.lines().last().is_some_and(|line| line.starts_with(&counted)), "{counted}: {ran}");
}
