//! The user's own program where some of it fails: each failure is reported in the place and the unit that belong to it.

use serde_json::Value;

use crate::bench::Bench;
use crate::check::{check, reason};

/// The first value of the list fails: the unit of the others is that of the metric.
#[test]
fn a_failing_first_value_leaves_the_unit() {
    let bench = Bench::new();
    let script = "test {value} = 1 && exit 7; echo {value}";
    let flags = ["--values", "1,2,3", "--metric", "bytes:64M", "--format", "json"];
    let document = check(&bench, &flags, script).exits(0).json();
    assert_eq!(reason(&document, "1"), "the command exited with 7");
    let cells = document["cells"].as_array().expect("cells").iter().map(|cell| &cell["estimate"]["unit"]);
    let units: Vec<&Value> = std::iter::once(&document["tests"][0]["unit"]).chain(cells).collect();
    assert!(units.iter().all(|unit| *unit == "bytes/s"), "{units:?}");
}
