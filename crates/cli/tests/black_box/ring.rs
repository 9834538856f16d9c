//! Rings as their users meet them: wrong words, counts that agree, planted faults, and the published loop.

use serde_json::Value;

use crate::bench::Bench;
use crate::contract::check_schema;
use crate::raw::{Raw, number};

/// Short, and everything but the ring fixed.
const SHORT: &str = "--trial-time 5ms --blocks 6 --time 4s --grace 1m --seed 1 --quiet --format json";

#[track_caller]
fn check_refused(words: &str, expected: &[&str]) {
    let bench = Bench::new();
    let ran = bench.run(&format!("ring {words}")).exits(2).complains(expected);
    assert_eq!(ran.stdout, "", "{ran}");
    assert!(!bench.path("data").exists(), "wrong usage makes no store: {ran}");
}

fn list<'a>(document: &'a Value, key: &str) -> &'a Vec<Value> {
    document[key].as_array().expect("a list")
}

#[test]
fn wrong_words_name_the_next_step() {
    check_refused("--entries 100", &["--entries: 100 is not a power of two", "use 64 or 128"]);
    check_refused("--entries 65536", &["--entries: 65536 is out of range: use 1 to 32768"]);
    check_refused("--entries 0", &["--entries: 0 is out of range"]);
    check_refused("--entries many", &["--entries"]);
    check_refused(
        "--entries 64 --submit-batch 65",
        &["65 operations do not fit a ring of 64 --entries", "use 64 or fewer"],
    );
    check_refused("--implementation liburin", &["--implementation", "did you mean `liburing`?"]);
    check_refused("--user-data uniq", &["--user-data", "did you mean `unique`?"]);
    check_refused("--setup single-isuer", &["--setup", "did you mean `single-issuer`?"]);
    check_refused("--mode cheked", &["--mode", "did you mean `checked`?"]);
    check_refused("--implementation liburing-undrained", &["never measured alone", "add liburing to --implementation"]);
    check_refused("--verify", &["leave it out", "use --mode checked"]);
    check_refused("--transport tcp", &["--transport"]);
}

#[test]
fn unsupported_combination_is_skipped() {
    let bench = Bench::new();
    // No release permits them together: work cannot be both deferred to us and done by a thread.
    let words = "ring --entries 8 --implementation raw --mode ceiling --setup default,single-issuer+sqpoll --dry-run";
    let ran = bench.run(words).exits(0);
    ran.prints(&[
        "1 option in 1 test",
        "skipped: the kernel refuses the set-up single-issuer+sqpoll",
        "use a newer kernel",
    ]);
}

#[test]
fn completions_are_counted_and_checked() {
    for ends in ["threads", "processes"] {
        let bench = Bench::new();
        let words = "ring --entries 1,8 --implementation raw,io-uring --setup default --user-data none,boxed --mode ceiling,checked";
        let document = bench.run(&format!("{words} --ends {ends} {SHORT}")).exits(0).json();
        check_schema(&document);
        assert_eq!((list(&document, "groups").len(), list(&document, "tests").len()), (4, 4));
        let compared = list(&document, "cells").iter().filter(|cell| cell["kind"] == "candidate");
        for cell in compared {
            let ring = &cell["ring"];
            assert_eq!((&cell["outcome"], &cell["estimate"]["unit"]), (&"measured".into(), &"NOPs/s".into()), "{cell}");
            assert!(number(&ring["completed"]) > 0, "{cell}");
            assert_eq!((&ring["submitted"], &ring["left"]), (&ring["completed"], &0.into()), "{cell}");
            let checked = cell["factors"]["mode"] == "checked";
            assert_eq!(number(&ring["checked"]) >= number(&ring["completed"]), checked, "{cell}");
            assert!(ring["overflowed_after_rounds"].is_null() && cell["counters"]["reads"].is_null(), "{cell}");
        }
        let raw = Raw::of(&bench, 1);
        assert_eq!(raw.troubles(), [""; 0]);
        bench.run("report --full").exits(0).prints(&["NOPs through io_uring", "NOPs/s"]);
        bench.run("report --format csv").exits(0).prints(&["NOPs/s", "cpu_ns_per_nop"]);
        bench.run("report --format markdown").exits(0).prints(&["NOPs through io", "ns a NOP"]);
        bench.run("report export --format csv").exits(0).prints(&["completed_nops", "submitted_nops"]);
    }
}

#[test]
fn what_is_exported_can_be_imported() {
    let bench = Bench::new();
    let words = "ring --entries 8 --implementation raw,io-uring --setup default --mode checked";
    bench.run(&format!("{words} {SHORT}")).exits(0);
    bench.run("report export -o ring.jsonl").exits(0);
    bench.run("report import ring.jsonl").exits(0);
    let rates = |session: u64| -> Vec<Value> {
        let document = bench.run(&format!("report {session} --format json")).exits(0).json();
        list(&document, "cells").iter().map(|cell| cell["estimate"]["median"].clone()).collect()
    };
    assert_eq!(rates(1), rates(2));
}

#[test]
fn a_planted_fault_fails_its_cell_alone() {
    for (fault, reason) in [
        ("untaken:50", "the completion queue overflowed"),
        ("wrong-user-data:50", "which does not match a submission"),
        ("overcount:1", "the counts do not match"),
    ] {
        let bench = Bench::new();
        let words = "ring --entries 8 --implementation raw,io-uring --setup default --mode checked --user-data unique";
        let document = bench.run(&format!("{words} {SHORT} --plant c1@{fault}")).exits(0).json();
        check_schema(&document);
        let (first, second) = (&document["cells"][0], &document["cells"][1]);
        assert_eq!((&first["outcome"], &second["outcome"]), (&"failed".into(), &"measured".into()));
        assert!(first["reason"].as_str().is_some_and(|text| text.contains(reason)), "{first}");
    }
}

#[test]
fn the_published_loop_is_shown_and_never_compared() {
    let bench = Bench::new();
    let words = "ring --entries 8,64 --implementation raw,liburing,liburing-undrained --setup default --mode ceiling";
    let ran =
        bench.run(&format!("{words} --trial-time 5ms --blocks 6 --time 4s --grace 1m --seed 1 --format json")).exits(0);
    let document = ran.json();
    check_schema(&document);
    let artefacts: Vec<&Value> = list(&document, "cells").iter().filter(|cell| cell["kind"] == "artefact").collect();
    if artefacts.is_empty() {
        assert!(ran.stderr.contains("liburing"), "{ran}");
        eprintln!("SKIPPED: built without liburing");
        return;
    }
    assert_eq!(artefacts.len(), 2);
    for cell in artefacts {
        assert!(cell["estimate"]["median"].is_null(), "it has no rate to win with: {cell}");
        assert_eq!((&cell["ring"]["completed"], &cell["ring"]["overflowed_after_rounds"]), (&0.into(), &3.into()));
        assert!(number(&cell["ring"]["left"]) >= number(&cell["ring"]["submitted"]), "{cell}");
        assert!(cell["reason"].as_str().is_some_and(|text| text.starts_with("an artefact, not compared")), "{cell}");
        assert!(cell["more"]["submissions_per_second"]["median"].is_f64(), "{cell}");
        let (group, test) = (&document["groups"][0], &document["tests"][0]);
        assert!(list(group, "best_set").iter().all(|id| id != &cell["id"]), "{group}");
        assert!(list(test, "options").iter().all(|option| option["id"] != cell["id"]), "{test}");
    }
    bench.run("report --full").exits(0).prints(&["it counts", "an artefact, not compared"]);
}

#[test]
fn ring_states_its_scope() {
    let bench = Bench::new();
    let ring = "ring --entries 8 --implementation raw,io-uring --setup default --mode ceiling --trial-time 5ms --blocks 6 \
                --time 4s --grace 1m --seed 1 --quiet --full";
    bench.run(ring).exits(0).prints(&["a NOP is an upper bound for every io_uring program here"]);
}
