//! Standard output and standard error that fail: full disks and readers that leave.
//!
//! No write may panic or lose a session. A closed pipe ends printing alone; a full standard output is exit code 5.

use std::path::Path;

use crate::bench::{Bench, QUICK};

/// Every command that prints results; `{QUICK}` is a short session.
const PRINTING: &[&str] = &[
    "",
    "--help",
    "--version",
    "report",
    "report --full",
    "report --group g1",
    "report --format json",
    "report --format csv",
    "report --format markdown",
    "report --format junit",
    "report --format go-bench",
    "report --html page.html",
    "report --across 1 2",
    "report compare 1 2",
    "report list",
    "report export",
    "report export --format csv",
    "report import exported.jsonl",
    "doctor --time 100ms",
    "completions bash",
    "man",
    "stream --help",
    "stream -h",
    "--version",
    "run buffer-size --dry-run",
    "run buffer-size --dry-run --format json",
    "run survey --dry-run",
    "{QUICK} --no-page",
    "{QUICK} --json-stream",
    "tune --values 1,2 --time 2s --quiet -- true {value}",
];

fn command(words: &str) -> String {
    words.replace("{QUICK}", QUICK)
}

/// A bench with two sessions and an export.
fn measured() -> Bench {
    let bench = Bench::new();
    (0..2).for_each(|_| drop(bench.run(&format!("{QUICK} --quiet")).exits(0)));
    bench.run("report export 1 --output exported.jsonl").exits(0);
    bench
}

fn complete_sessions(bench: &Bench) -> usize {
    let listed = bench.run("--store r.db report list").exits(0);
    listed.stdout.lines().filter(|line| line.contains(" complete ") && line.contains(" stream ")).count()
}

#[test]
fn closed_pipe_ends_printing_alone() {
    let bench = measured();
    for words in PRINTING.iter().map(|words| command(words)) {
        let whole = bench.run(&words).status.code().expect("an exit code");
        // The reader is gone before the first byte: it closes its end, then the command starts.
        let script = format!(
            "mkfifo gone; {{ exec 3>gone; : >ready; while [ ! -e closed ]; do sleep 0.01; done; \
             \"$BYTEGAUGE\" {words} >&3 2>error; echo $? >code; }} & exec 4<gone; while [ ! -e ready ]; do sleep 0.01; done; \
             exec 4<&-; : >closed; wait; cat code error; rm gone ready closed code error"
        );
        let ran = bench.shell(&script).exits(0);
        let (code, error) = ran.stdout.split_once('\n').expect("a code");
        assert_eq!(code, whole.to_string(), "{words}: {ran}");
        assert!(!error.contains("panicked") && !error.contains("incomplete"), "{words}: {ran}");
    }
}

#[test]
fn full_standard_output_is_exit_code_5() {
    let bench = measured();
    for words in PRINTING.iter().map(|words| command(words)) {
        let ran = bench.shell(&format!("exec \"$BYTEGAUGE\" {words} >/dev/full")).exits(5);
        assert!(!ran.stderr.contains("panicked"), "{ran}");
        ran.complains(&["standard output is incomplete", "No space left", "bytegauge report"]);
    }
}

#[test]
fn selftest_reports_incomplete_output() {
    // Its rows may fail on a busy machine, which is exit code 5 as well.
    let ran = Bench::new().shell("exec \"$BYTEGAUGE\" doctor --selftest --scale test >/dev/full").exits(5);
    ran.complains(&["standard output is incomplete"]);
}

#[test]
fn full_standard_error_changes_no_exit_code() {
    let bench = measured();
    for words in PRINTING.iter().map(|words| command(words)) {
        let whole = bench.run(&words).status.code().expect("an exit code");
        bench.shell(&format!("exec \"$BYTEGAUGE\" {words} 2>/dev/full")).exits(whole);
    }
    for wrong in ["stream --no-such-flag", "report 999", "run missing.toml", "serve echo --engine null"] {
        bench.shell(&format!("exec \"$BYTEGAUGE\" {wrong} 2>/dev/full")).exits(2);
    }
}

#[test]
fn failing_outputs_lose_no_session() {
    let bench = Bench::new();
    let mut kept = 0;
    for (outputs, code) in [
        ("2>/dev/full", 0),
        (">/dev/full", 5),
        (">/dev/full 2>&1", 5),
        (">&- 2>&-", 0),
        ("2>&1 >/dev/null | head -3", 0),
        ("2>&1 | true", 0),
    ] {
        let script = match outputs.split_once('|') {
            Some((outputs, reader)) => {
                format!(
                    "{{ \"$BYTEGAUGE\" --store r.db {QUICK} {outputs}; echo $? >code; }} | {reader}; exit $(cat code)"
                )
            }
            None => format!("exec \"$BYTEGAUGE\" --store r.db {QUICK} {outputs}"),
        };
        let ran = bench.shell(&script).exits(code);
        assert!(!ran.stdout.contains("panicked") && !ran.stderr.contains("panicked"), "{ran}");
        kept += 1;
        assert_eq!(complete_sessions(&bench), kept, "{outputs}");
    }
    assert!(Path::new(&bench.path("r.pages/1.html")).exists());
}

#[test]
fn servers_end_in_order_with_full_standard_error() {
    let bench = Bench::new();
    bench.run("agent --init --key-file key").exits(0);
    for words in ["serve echo", "agent --listen 127.0.0.1:0 --key-file key"] {
        let script = format!(
            "rm -f out; \"$BYTEGAUGE\" {words} >out 2>/dev/full & \
             while ! grep -q listening out 2>/dev/null; do sleep 0.01; done; kill -TERM $!; wait $!"
        );
        bench.shell(&script).exits(0);
    }
}

#[test]
fn survey_goes_on_without_standard_output() {
    let bench = Bench::new();
    let words = "--store r.db run survey --time 20s --only buffer-size,pipe-sizes --no-page";
    let ran = bench.shell(&format!("exec \"$BYTEGAUGE\" {words} >/dev/full"));
    assert_eq!(ran.status.code(), Some(5), "{ran}");
    let listed = bench.run("--store r.db report list").exits(0);
    assert!(listed.stdout.contains("buffer-size") && listed.stdout.contains("pipe-sizes"), "{listed}");
}
