//! The JSON document that other programs build upon: one document, every key, numbers that agree.

use std::collections::BTreeSet;

use bytegauge_model::{Workload, factor};
use serde_json::Value;

use crate::bench::{Bench, QUICK};
use crate::raw::{Raw, name, number};

const SCHEMA: &str = include_str!("../../../report/schema/report.schema.json");

const TOP: &[&str] = &["schema_version", "session", "plan", "environment", "cells", "groups"];
const CELL: &[&str] =
    &["id", "group", "stage", "factors", "outcome", "reason", "trials", "estimate", "more", "counters", "cpu", "limit"];
const ESTIMATE: &[&str] = &["metric", "unit", "median", "lower", "upper"];
const GROUP: &[&str] = &["id", "factors", "twin_reach", "best_set", "recommendation", "cost_model"];
const RECOMMENDATION: &[&str] = &["cell", "proven", "margin", "bound"];
const LINEAR: &[&str] = &["per_call_ns", "per_byte_ns"];

/// Documents of all workloads match the published schema.
#[track_caller]
pub fn check_schema(document: &Value) {
    check_against(SCHEMA, document);
}

/// The document of `compare` matches its schema.
#[track_caller]
pub fn check_compare_schema(document: &Value) {
    check_against(include_str!("../../../compare/schema/compare.schema.json"), document);
}

#[track_caller]
fn check_against(schema: &str, document: &Value) {
    let schema: Value = serde_json::from_str(schema).expect("the schema is JSON");
    let validator = jsonschema::draft202012::new(&schema).expect("the schema is a schema");
    let errors: Vec<String> =
        validator.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

/// Checks that hold for every document.
#[track_caller]
pub fn check_document(document: &Value) {
    check_schema(document);
    check_keys(document, TOP);
    check_keys(&document["environment"], &["grade", "reasons"]);
    let ids: BTreeSet<&str> = list(&document["cells"]).iter().filter_map(|cell| cell["id"].as_str()).collect();
    let groups: BTreeSet<&str> = list(&document["groups"]).iter().filter_map(|group| group["id"].as_str()).collect();
    assert_eq!(ids.len(), list(&document["cells"]).len(), "cells have names of their own");
    for cell in list(&document["cells"]) {
        assert!(groups.contains(cell["group"].as_str().unwrap_or_default()), "{cell}");
        check_cell(cell);
        if document["status"] != "imported" {
            check_measured_here(cell);
        }
        if document["status"] == "complete" {
            let reason = cell["reason"].as_str().unwrap_or_default();
            assert!(!reason.contains("--resume"), "there is nothing to resume: {cell}");
        }
    }
    for group in list(&document["groups"]) {
        check_group(group, &ids);
    }
}

#[track_caller]
fn check_cell(cell: &Value) {
    check_keys(cell, CELL);
    check_keys(&cell["estimate"], ESTIMATE);
    let factors = cell["factors"].as_object().expect("factors");
    assert!(factor::of(Workload::Stream).all(|factor| factors.contains_key(factor.name)), "{cell}");
    assert!(number(&cell["factors"]["read_size"]) > 0, "sizes are whole bytes: {cell}");
    assert_eq!(cell["estimate"]["unit"], "bytes/s");
    for estimate in cell["more"].as_object().expect("more").values().chain([&cell["estimate"]]) {
        check_ordered(estimate);
    }
}

/// The facts that a measured session has of every cell; an imported table can have fewer.
#[track_caller]
fn check_measured_here(cell: &Value) {
    let two_ended = !name(&cell["factors"]["transport"]).starts_with(['/', '.']);
    assert_eq!(cell["factors"]["write_size"].is_u64(), two_ended, "{cell}");
    assert!(two_ended || cell["factors"]["write_size"].is_null(), "{cell}");
    if cell["estimate"]["median"].is_f64() && cell["kind"] != "floor" {
        check_counters(cell);
    }
}

#[track_caller]
fn check_counters(cell: &Value) {
    let counters = &cell["counters"];
    let (reads, bytes) = (number(&counters["reads"]), number(&counters["bytes"]));
    assert!(bytes > 0 && reads * number(&cell["factors"]["read_size"]) >= bytes, "{cell}");
    assert!(number(&counters["short_reads"]) <= reads, "{cell}");
    let writes = cell["factors"]["engine"] != "null" && cell["factors"]["write_size"].is_u64();
    // A writer that the machine held up may have finished no write in its window.
    assert!(writes || counters["writes"].is_null(), "{cell}");
    assert!(cell["cpu"]["sink"].is_object(), "{cell}");
    assert_eq!(cell["cpu"]["source"].is_object(), writes, "{cell}");
    assert!(!name(&cell["limit"]["name"]).is_empty() && !name(&cell["limit"]["sentence"]).is_empty(), "{cell}");
}

#[track_caller]
fn check_group(group: &Value, cells: &BTreeSet<&str>) {
    check_keys(group, GROUP);
    check_keys(&group["recommendation"], RECOMMENDATION);
    check_keys(&group["cost_model"]["linear"], LINEAR);
    let recommended = [&group["recommendation"]["cell"]].into_iter().filter(|cell| !cell.is_null());
    for id in list(&group["best_set"]).iter().chain(recommended) {
        assert!(cells.contains(id.as_str().unwrap_or_default()), "{id} is no cell");
    }
    assert!(group["recommendation"]["proven"].is_boolean());
}

/// Lower end, median and upper end in this order, as far as they are known.
#[track_caller]
fn check_ordered(estimate: &Value) {
    let ends: Vec<f64> = ["lower", "median", "upper"].iter().filter_map(|key| estimate[key].as_f64()).collect();
    assert!(ends.windows(2).all(|pair| pair[0] <= pair[1]), "{estimate}");
}

#[track_caller]
fn check_keys(object: &Value, keys: &[&str]) {
    for key in keys {
        assert!(object.get(key).is_some(), "no key `{key}` in {object:#}");
    }
}

#[track_caller]
fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}

#[test]
fn sockets_and_a_device_in_one_document() {
    let bench = Bench::new();
    let ran = bench
        .run(
            "stream --connection-age fresh --transport unix,tcp,/dev/zero --read-size 4K,64K --write-size 64K --profile drain \
             --trial-time 5ms --blocks 6 --time 2s --seed 7 --format json",
        )
        .exits(0);
    let document = ran.json();
    check_document(&document);
    assert_eq!(document["schema_version"], 4);
    assert_eq!(document["status"], "complete");
    assert_eq!(document["seed"], 7);
    assert_eq!(document["plan"]["name"], "stream");
    let collapsed = "write-size does not apply to /dev/zero: collapsed there";
    assert!(list(&document["notes"]).iter().any(|note| note == collapsed), "{}", document["notes"]);
    let candidates: Vec<&Value> = list(&document["cells"]).iter().filter(|cell| cell["kind"] == "candidate").collect();
    assert_eq!((candidates.len(), list(&document["groups"]).len()), (6, 3));
    for cell in candidates {
        assert_eq!((&cell["outcome"], &cell["stage"]), (&"measured".into(), &"confirm".into()), "{cell}");
        assert_eq!(cell["trials"], 6, "{cell}");
        let interval = cell["estimate"]["lower"].is_f64() && cell["estimate"]["upper"].is_f64();
        assert_eq!(interval, number(&cell["trials"]) >= 6, "{cell}");
    }
}

#[test]
fn what_is_not_known_is_null() {
    let bench = Bench::new();
    // One trial: a median, but no interval.
    let document = bench
        .run(
            "stream --transport /dev/zero --read-size 64K --profile drain --trial-time 20ms --blocks 1 --time 2s \
             --format json",
        )
        .exits(0)
        .json();
    check_document(&document);
    let cell = &document["cells"][0];
    assert!(cell["estimate"]["median"].is_f64(), "{cell}");
    for unknown in [
        &cell["estimate"]["lower"],
        &cell["estimate"]["upper"],
        &cell["counters"]["writes"],
        &cell["counters"]["retransmits"],
        &cell["counters"]["verified_bytes"],
        &cell["factors"]["placement"],
        &document["groups"][0]["twin_reach"],
    ] {
        assert!(unknown.is_null(), "{unknown} in {cell}");
    }
}

#[test]
fn verified_means_every_byte() {
    let bench = Bench::new();
    let document = bench
        .run(
            "stream --connection-age fresh --transport unix,tcp,pipe --profile drain --read-size 16K --write-size 64K --trial-time 20ms \
             --blocks 2 --time 2s --verify --format json",
        )
        .exits(0)
        .json();
    check_document(&document);
    for cell in list(&document["cells"]).iter().filter(|cell| cell["kind"] == "candidate") {
        assert!(number(&cell["counters"]["verified_bytes"]) >= number(&cell["counters"]["bytes"]), "{cell}");
    }
    let raw = Raw::of(&bench, 1);
    raw.check_sound();
    let real: Vec<&Value> = raw.trials.iter().filter(|trial| !trial["ends"]["source"].is_null()).collect();
    assert!(!real.is_empty());
    for trial in real {
        assert_eq!(trial["ends"]["sink"]["verified_bytes"], trial["ends"]["sink"]["total_bytes"], "{trial}");
    }
}

#[test]
fn flows_are_reported_separately() {
    let bench = Bench::new();
    let words = "stream --connection-age fresh --transport unix --profile drain --read-size 64K --write-size 64K --flows 3 --trial-time 100ms \
                 --blocks 3 --time 4s --format json";
    let document = bench.run(words).exits(0).json();
    check_document(&document);
    let raw = Raw::of(&bench, 1);
    raw.check_sound();
    assert!(raw.trials.iter().all(|trial| list(&trial["ends"]["sink"]["flows"]).len() == 3));
}

#[test]
fn long_trials_keep_their_series() {
    let bench = Bench::new();
    let words = "stream --connection-age fresh --transport unix --profile drain --read-size 64K --write-size 64K --trial-time 1100ms \
                 --blocks 1 --analyses 1 --long-trials off --time 20s --quiet";
    bench.run(words).exits(0);
    let raw = Raw::of(&bench, 1);
    let confirmed = |trial: &&Value| trial["stage"] == "confirm" && !trial["ends"]["source"].is_null();
    let trial = raw.trials.iter().find(confirmed).expect("a long trial");
    let series = list(&trial["ends"]["sink"]["flows"][0]["series"]);
    assert!(series.len() > 50, "{} bins", series.len());
    let bytes: u64 = series.iter().map(|bin| number(&bin["bytes"])).sum();
    assert!(bytes <= number(&trial["ends"]["sink"]["total_bytes"]) && bytes > 0);
}

#[test]
fn options_are_reported_as_requested_and_set() {
    let bench = Bench::new();
    let words = "stream --connection-age fresh --transport tcp --profile drain --read-size 64K --write-size 64K --sndbuf 100K --rcvbuf 50K \
                 --nodelay on --trial-time 20ms --blocks 1 --time 2s --format json";
    let document = bench.run(words).exits(0).json();
    check_document(&document);
    let options = &document["cells"][0]["counters"]["options"];
    // The kernel doubles what is asked for (socket(7)).
    assert_eq!((&options["sndbuf"]["requested"], &options["sndbuf"]["source"]), (&102_400.into(), &204_800.into()));
    assert_eq!((&options["rcvbuf"]["requested"], &options["rcvbuf"]["sink"]), (&51_200.into(), &102_400.into()));
    assert_eq!(options["nodelay"]["source"], true);
    assert!(["sndbuf", "rcvbuf", "nodelay"].iter().all(|name| options[name]["as_asked"] == true), "{options}");
}

#[test]
fn options_in_force_are_reported() {
    let bench = Bench::new();
    let command = "stream --connection-age fresh --transport tcp --read-size 64K --write-size 64K --sndbuf 1G --trial-time 200ms --blocks 1 --analyses 1 --long-trials off \
         --time 4s --format json";
    let document = bench.run(command).exits(0).json();
    let option = &document["cells"][0]["counters"]["options"]["sndbuf"];
    // Nothing below the largest int that a machine allows is 2 GiB.
    assert!(option["as_asked"] == false && option["source"].as_u64() < Some(2 << 30), "{option}");
    let notes = document["notes"].to_string();
    assert!(notes.contains("--sndbuf 1 GiB: SO_SNDBUF is ") && notes.contains("net.core.wmem_max"), "{notes}");
}

#[test]
fn the_harness_is_measured_in_every_session() {
    let bench = Bench::new();
    let document = bench.run(&format!("{QUICK} --format json")).exits(0).json();
    let floor = &document["floor"];
    assert!(floor["trials"].as_u64() > Some(0), "{floor}");
    // One that lost its CPU is not known, and then null.
    if let Some(ns) = floor["ns_per_call"].as_f64() {
        assert!(ns > 0.0 && floor["fastest_ns_per_call"].as_f64() >= Some(ns), "{floor}");
    }
    let floors: Vec<&Value> = list(&document["cells"]).iter().filter(|cell| cell["kind"] == "floor").collect();
    assert_eq!(floors.len(), 1);
    assert_eq!(floors[0]["factors"]["engine"], "null");
}

#[test]
fn null_engine_is_an_option() {
    let bench = Bench::new();
    let words = "stream --engine null --transport unix,tcp --profile drain --read-size 4K,64K --write-size 64K \
                 --trial-time 5ms --blocks 6 --time 1s --seed 3 --format json";
    let document = bench.run(words).exits(0).json();
    check_document(&document);
    for cell in list(&document["cells"]) {
        assert_eq!(cell["factors"]["engine"], "null", "{cell}");
    }
    // An engine that moves nothing is not recommended.
    for group in list(&document["groups"]) {
        assert_eq!(group["recommendation"]["proven"], false, "{group}");
    }
}

#[test]
fn calls_that_take_long_get_long_trials() {
    // 41 ms of work a call: a trial of the usual length completes none.
    let bench = Bench::new();
    let words = "call --transport unix --flows 1 --request 8K --work 5000ns --server-engine epoll \
                 --blocks 1 --time 3s --quiet --format json";
    let document = bench.run(words).exits(0).json();
    for cell in document["cells"].as_array().unwrap().iter().filter(|cell| cell["kind"] == "candidate") {
        assert_eq!(cell["outcome"], "measured", "{document}");
        let rate = cell["estimate"]["median"].as_f64().unwrap();
        // A trial holds some ten calls, and one that began before it counts as a whole.
        assert!(rate > 0.0 && rate < 1e9 / (8192.0 * 5_000.0) * 1.5, "{rate} calls/s: {document}");
    }
}

#[test]
fn delayed_acknowledgements_are_reported() {
    // The second piece waits by Nagle's algorithm for an acknowledgement that the server delays by 40 ms.
    let limit = |nodelay: &str| {
        let words = format!(
            "call --transport tcp --flows 1 --request 512 --request-chunk 64 --response 100 --server-engine blocking \
             --nodelay {nodelay} --trial-time 500ms --blocks 1 --time 3s --quiet --format json"
        );
        let document = Bench::new().run(&words).exits(0).json();
        check_schema(&document);
        let mut cells = list(&document["cells"]).iter();
        let cell = cells.find(|cell| cell["kind"] == "candidate").expect("a server").clone();
        (cell["limit"]["name"].as_str().expect("a name").to_owned(), cell)
    };
    let (name, cell) = limit("off");
    let waits = &cell["call"]["delayed_acks"];
    assert!(number(&waits["acks"]) >= 1 && number(&waits["slow_calls"]) >= 1, "{cell}");
    // Ends that got no CPU for long wait less for acknowledgements: the kernel sends them at once after such a pause; and a
    // harness without CPU is reported first.
    if waits["slow_time_share"].as_f64().is_some_and(|share| share >= 0.5) {
        assert!(["delayed acknowledgements", "the harness"].contains(&name.as_str()), "{cell}");
    }
    let (name, cell) = limit("on");
    assert_ne!(name, "delayed acknowledgements", "{cell}");
}

#[test]
fn full_backlog_is_reported() {
    // A millisecond of work a call, and room for two of 32 connections.
    // A server without a CPU completes none in a short window.
    let ran = |window: &str| {
        let words = "call --transport tcp --flows 32 --request 1K --response 100 --connect-per-call on --backlog 1 \
                     --work 1000ns --server-engine epoll --timeout 100ms --blocks 1 --time 20s --quiet --format json";
        Bench::new().run(&format!("{words} --trial-time {window}"))
    };
    let document = ["500ms", "5s"].into_iter().map(ran).find(|ran| ran.status.success()).expect("a call").json();
    check_schema(&document);
    let mut cells = list(&document["cells"]).iter();
    let cell = cells.find(|cell| cell["kind"] == "candidate").expect("a server");
    assert_eq!(cell["limit"]["name"], "backlog", "{cell}");
    assert!(cell["limit"]["evidence"]["listen_overflows"].as_f64().is_some_and(|times| times > 0.0), "{cell}");
    let errors = list(&cell["call"]["errors"]);
    let silence = errors.iter().find(|error| error["class"] == "timed-out" && error["phase"] == "connect");
    let explanation = silence.expect("connections that timed out")["explanation"].as_str().expect("a text");
    assert!(explanation.contains("the server's backlog was full"), "{explanation}");
}

#[test]
fn gentle_runs_rest_as_long_as_they_measure() {
    let bench = Bench::new();
    let words = "stream --connection-age fresh --transport unix --profile drain --read-size 4K,64K --write-size 64K --trial-time 50ms \
                 --blocks 2 --time 2s --quiet --half-load";
    bench.run(words).exits(0);
    let raw = Raw::of(&bench, 1);
    raw.check_sound();
    let mut pairs = 0;
    for pair in raw.trials.windows(2).filter(|pair| pair[0]["block"] == pair[1]["block"]) {
        let apart_ns = number(&pair[1]["started_unix_ns"]) - number(&pair[0]["started_unix_ns"]);
        let measured_ns = number(&pair[0]["wall_ns"]) + number(&pair[0]["warmup_ns"]);
        assert!(apart_ns >= 2 * measured_ns, "{apart_ns} ns from one to the next of {measured_ns} ns");
        pairs += 1;
    }
    assert!(pairs > 0, "{raw:?}");
}
