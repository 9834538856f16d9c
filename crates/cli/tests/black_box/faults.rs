//! Failed trials: the reason is in the cell, the rest is measured, nothing hangs.

use std::time::Duration;

use serde_json::Value;

use crate::bench::{Bench, Ran, signal};
use crate::contract::{check_document, check_schema};
use crate::raw::Raw;

/// One cell.
const ONE: &str = "stream --connection-age fresh --transport unix --profile drain --read-size 4K --write-size 64K --trial-time 20ms --blocks 6 \
                   --time 2s --seed 1 --format json";

/// Two cells.
const TWO: &str = "stream --connection-age fresh --transport tcp --profile drain --read-size 4K,64K --write-size 64K --trial-time 20ms --blocks 6 \
                   --time 2s --seed 1 --format json";

/// A fault in the only cell: exit code 5, its reason in the cell, and a document all the same.
#[track_caller]
fn check_all_fail(flags: &str, reason: &str) {
    let bench = Bench::new();
    // Several flows share their window: a busy machine may keep all of them from a short one.
    let one = if flags.contains("--flows") { ONE.replace("20ms", "200ms") } else { ONE.to_owned() };
    let ran = bench.run(&format!("{one} {flags}")).exits(5);
    assert!(!ran.stderr.contains("panicked"), "{ran}");
    let document = ran.json();
    check_document(&document);
    let cell = &document["cells"][0];
    assert_eq!(cell["outcome"], "failed", "{cell}");
    assert!(cell["reason"].as_str().is_some_and(|text| text.contains(reason)), "{reason} is not in {}", cell["reason"]);
    assert!(cell["estimate"]["median"].is_null(), "{cell}");
    let raw = Raw::of(&bench, 1);
    raw.check_sound();
    assert!(raw.troubles().iter().all(|stored| stored.contains(reason)), "{:?}", raw.reasons());
    bench.run("report --full").exits(5).prints(&["Nothing was measured"]);
}

/// A fault in the first of two cells: the second is measured as if nothing had been.
#[track_caller]
fn check_one_fails(flags: &str, fault: &str, reason: &str) -> Ran {
    let bench = Bench::new();
    let ran = bench.run(&format!("{TWO} {flags} --plant c1@{fault}")).exits(0);
    let document = ran.json();
    check_document(&document);
    let (first, second) = (&document["cells"][0], &document["cells"][1]);
    assert_eq!((&first["outcome"], &second["outcome"]), (&"failed".into(), &"measured".into()), "{ran}");
    assert!(first["reason"].as_str().is_some_and(|text| text.contains(reason)), "{first}");
    assert_eq!(second["trials"], 6, "{second}");
    let raw = Raw::of(&bench, 1);
    raw.check_sound();
    assert_eq!(raw.confirmed()["g1"], 6, "blocks that broke are repeated whole");
    ran
}

#[test]
fn a_sink_that_dies() {
    check_all_fail("--plant die:5000", "died");
    check_all_fail("--plant die:5000 --ends processes", "the sink died in the middle of a trial");
    check_one_fails("", "die:5000", "died");
    check_one_fails("--ends processes", "die:5000", "the sink died");
}

#[test]
fn a_trial_that_stalls() {
    check_all_fail("--plant stall:5000 --grace 300ms", "stalled");
    check_all_fail("--plant stall:5000 --grace 300ms --ends processes", "stalled");
    check_one_fails("--grace 300ms", "stall:5000", "watchdog");
}

#[test]
fn a_path_that_corrupts() {
    check_all_fail("--plant corrupt:100000 --verify", "byte 100000 arrived as");
    check_all_fail("--plant corrupt:0 --verify --ends processes", "the path corrupts data");
    check_one_fails("--verify", "corrupt:12345", "flow 0: byte 12345");
    // Without the check the fault is not detected, which is the purpose of the flag.
    let bench = Bench::new();
    bench.run(&format!("{ONE} --plant corrupt:100000")).exits(0);
}

#[test]
fn what_is_whole_is_verified() {
    let bench = Bench::new();
    let check = |words: &str, duration_ms: u32| {
        let flags = "--verify --blocks 2 --time 2s --seed 1 --quiet --format json";
        let document = bench.measures(&format!("{words} {flags} --trial-time {duration_ms}ms")).json();
        check_schema(&document);
        let cells = document["cells"].as_array().expect("cells");
        assert!(cells.iter().any(|cell| cell["kind"] == "floor"), "{words}: the harness's cost is measured as well");
        // On a busy machine the harness's own loop may get no CPU within its window.
        let no_cpu = |cell: &Value| cell["reason"].as_str().is_some_and(|reason| reason.contains("kept from a CPU"));
        let is_whole = |cell: &Value| cell["outcome"] == "measured" || cell["kind"] == "floor" && no_cpu(cell);
        assert!(cells.iter().all(is_whole), "{words}: {cells:?}");
    };
    check("stream --connection-age fresh --transport unix --profile drain --read-size 64K --write-size 64K", 100);
    check("stream --transport udp --profile drain --read-size 1K --write-size 1K", 100);
    check("call --transport unix --profile echo --server-engine blocking", 200);
}

#[test]
fn a_sink_that_loses_count() {
    check_all_fail("--plant overcount:7", "the path loses or invents data");
    check_one_fails("", "overcount:7", "counted");
}

#[test]
fn all_flows_end_with_the_one_that_dies() {
    check_all_fail("--flows 3 --plant die:5000", "died");
    check_all_fail("--flows 3 --plant stall:5000 --grace 300ms", "stalled");
}

#[test]
fn ends_as_processes_measure_the_same_way() {
    let bench = Bench::new();
    let document = bench.run(&format!("{TWO} --ends processes")).exits(0).json();
    check_document(&document);
    Raw::of(&bench, 1).check_sound();
    assert_eq!(document["cells"][0]["outcome"], "measured");
}

/// A long trial over processes, and what a signal to one of them does. The block is repeated.
fn check_signal(name: &str, reason: &str) {
    let bench = Bench::new();
    let words = "stream --connection-age fresh --transport unix --profile drain --read-size 64K --write-size 64K --trial-time 900ms --blocks 1 \
                 --time 2s --ends processes";
    let mut running = bench.start(words);
    running.until("confirmation", |running| running.stderr().contains("confirmation: "));
    // Those of the block before may still be there, or leave between looking and sending.
    running.until("two ends", |_| bench.ends().len() == 2);
    std::thread::sleep(Duration::from_millis(300));
    // An end that has not started yet would block its starter.
    running.until("a victim", |_| bench.ends().first().is_some_and(|end| signal(*end, name)));
    running.wait().exits(0);
    let raw = Raw::of(&bench, 1);
    raw.check_sound();
    assert_eq!(raw.confirmed()["g1"], 1, "the block that broke was repeated");
    let reasons = raw.troubles();
    assert!(reasons.len() <= 1 && reasons.iter().all(|stored| stored.contains(reason)), "{reasons:?}");
}

#[test]
fn an_end_that_is_killed() {
    check_signal("KILL", "signal: 9");
}

#[test]
fn an_end_that_is_frozen() {
    check_signal("STOP", "did not answer in time");
}

#[test]
fn missing_transport_is_skipped() {
    let bench = Bench::new();
    let missing = bench.path("missing").display().to_string();
    let words = format!(
        "stream --connection-age fresh --transport unix,{missing} --profile drain --read-size 64K --write-size 64K --trial-time 20ms --blocks 6 \
         --time 2s --format json"
    );
    let document = bench.run(&words).exits(0).json();
    check_document(&document);
    let outcomes: Vec<&Value> = document["cells"]
        .as_array()
        .expect("cells")
        .iter()
        .filter(|cell| cell["kind"] == "candidate")
        .map(|cell| &cell["outcome"])
        .collect();
    assert_eq!(outcomes, ["measured", "skipped"]);
    assert!(document["cells"][1]["reason"].as_str().is_some_and(|reason| reason.contains("No such file")));
}

#[test]
fn a_file_is_read_again_and_again() {
    let bench = Bench::new();
    let file = bench.write("data.bin", &"0123456789".repeat(1000));
    let words = format!(
        "stream --transport {file} --profile drain --read-size 4K,64K --trial-time 20ms --blocks 6 --time 2s --format json"
    );
    let document = bench.run(&words).exits(0).json();
    check_document(&document);
    let cell = &document["cells"][0];
    assert!(cell["counters"]["bytes"].as_u64().is_some_and(|bytes| bytes > 10_000), "{cell}");
    assert!(
        cell["counters"]["options"]["page_cache_share"]["sink"].as_f64().is_some_and(|share| share > 0.9),
        "{cell}"
    );
}

#[test]
fn resets_of_a_server_are_explained() {
    // No buffer holds the request: whenever the server reads, the client has more to write.
    let words = "call --transport tcp --flows 4 --connect-per-call on --request 1M --request-chunk 64K --response 100 \
                 --read-once on --server-engine epoll --profile rpc --rcvbuf 16K,64K --sndbuf 64K --trial-time 100ms \
                 --blocks 2 --time 3s --quiet --format json";
    let bench = Bench::new();
    let document = bench.run(words).exits(5).json();
    check_schema(&document);
    let screen = bench.run("report").prints(&["othing was measured: ", "Next bytegauge call --transport tcp"]).stdout;
    assert!(screen.contains("reset"), "{screen}");
    for cell in document["cells"].as_array().unwrap().iter().filter(|cell| cell["kind"] == "candidate") {
        let (errors, reason) = (cell["call"]["errors"].as_array().unwrap(), cell["reason"].as_str().unwrap());
        assert!(reason.starts_with("no call was completed") && reason.contains("of the request unread"), "{reason}");
        let reset = errors.iter().find(|error| error["class"] == "reset").expect("a reset");
        assert!(reset["explanation"].as_str().unwrap().contains("with bytes of the request unread"), "{reset}");
    }
}
