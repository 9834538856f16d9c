//! The user's own program where some of it fails: each failure is reported in the place and the unit that belong to it.

use serde_json::Value;

use crate::bench::{Bench, python};
use crate::check::{check, reason, serve};
use crate::contract::check_schema;
use crate::raw::Raw;
use crate::running_relays::free_address;

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

/// A server that listens at another port does so with every value: one wait is enough.
#[test]
fn a_wrong_port_is_waited_for_once() {
    let Some(python) = python("the server is written in Python", "import socket") else { return };
    let bench = Bench::new();
    let (port, wrong) = (free_address().port(), free_address().port());
    let flags = ["--timeout", "4s", "--format", "json"];
    let document = serve(&bench, &python, port, "", &format!("tcp:{wrong}"), &flags).exits(5).json();
    check_schema(&document);
    let advice = format!("it listens at port {port}: use --ready tcp:{port}");
    let cells = document["cells"].as_array().expect("cells");
    let is_advised = |cell: &&Value| cell["reason"].as_str().is_some_and(|reason| reason.ends_with(&advice));
    assert!(cells.len() >= 2 && cells.iter().filter(is_advised).count() == cells.len(), "{document:#}");
    assert_eq!(Raw::of(&bench, 1).trials.len(), 1, "one trial");
}
