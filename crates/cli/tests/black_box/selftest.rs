//! `bytegauge doctor --selftest` at a small scale, with an exit code that agrees with it.
//!
//! The result of a row depends on the machine and on chance: few repetitions may miss a target. Only the report and
//! the counts are checked here.

use crate::bench::Bench;
use crate::raw::{name, number};

/// Rows that come from the harness, from the simulations, and from a method crippled on purpose.
const ROWS: [&str; 3] =
    ["comparisons of equal options", "best set keeps the best, 48 blocks", "fixed standard error, 8 blocks"];

#[test]
fn table_has_requests_and_results() {
    let bench = Bench::new();
    let ran = bench.run("doctor --selftest --scale test --format json");
    let document = ran.json();
    assert_eq!(document["seed"], 1);
    let (failed, rows) = (number(&document["failed"]), document["rows"].as_array().expect("rows"));
    // 0 if every row is as it should be, 5 if not.
    assert_eq!(ran.status.code(), Some(if failed == 0 { 0 } else { 5 }), "{ran}");
    assert!(!ran.stderr.contains("panicked"), "{ran}");
    assert_eq!(rows.iter().filter(|row| row["passed"] == false).count() as u64, failed);
    assert!(rows.iter().filter(|row| row["negative_control"] == true).count() >= 4);
    for row in rows {
        assert!(row["got"].is_number() || row["got"].is_null(), "{row}");
        assert!(["name", "target", "unit", "note"].iter().all(|key| row[key].is_string()), "{row}");
    }
    for expected in ROWS {
        assert!(rows.iter().any(|row| name(&row["name"]).contains(expected)), "{expected}");
    }
}
