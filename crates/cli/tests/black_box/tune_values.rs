//! The user's own program: values that differ, gains over the present value, and each way in which a program can misbehave:
//! reported, cleaned up, and nothing lost.
//!
//! Comparisons use what programs print, which is the same on every machine, and never their times.

use serde_json::Value;

use crate::bench::{Bench, Ran, python};
use crate::contract::check_schema;
use crate::raw::Raw;

/// Six blocks of two values and an A/A control.
pub(crate) const QUICK: [&str; 7] = ["tune", "--blocks", "6", "--analyses", "1", "--seed", "1"];

/// Checks a script of `sh` over values.
pub(crate) fn check(bench: &Bench, flags: &[&str], script: &str) -> Ran {
    let words: Vec<&str> = QUICK.iter().chain(flags).chain(&["--", "sh", "-c", script]).copied().collect();
    bench.run_args(&words)
}

/// The reason of the cell with a value.
pub(crate) fn reason(document: &Value, value: &str) -> String {
    let cells = document["cells"].as_array().expect("cells");
    let cell = cells.iter().find(|cell| cell["factors"]["value"] == value && cell["kind"] == "candidate");
    cell.expect("a cell").get("reason").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// No process of the bench is left; those that end are given time.
pub(crate) fn check_no_process_is_left(bench: &Bench) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !bench.processes().is_empty() {
        assert!(std::time::Instant::now() < deadline, "left behind: {:?}", bench.processes());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn better_value_has_a_gain() {
    let bench = Bench::new();
    let flags = ["--values", "0.002,0.06", "--now", "0.06", "--metric", "time:took (.*)"];
    let ran = check(&bench, &flags, "echo took {value}").exits(0);
    let ran = ran.prints(&["tune", "Use 0.002, not 0.06: ", " times as fast"]);
    assert!(!ran.stdout.contains("--ends"), "a program is a process anyway: {ran}");
    let document = bench.run("report --format json").exits(0).json();
    check_schema(&document);
    let gain = &document["tune"]["gains"][0];
    assert!(gain["lower"].as_f64() > Some(0.0) && gain["lower"].as_f64() <= gain["gain"].as_f64(), "{gain}");
    // The rate over all runs is that of the printed times, not of the runs; and its CPU time is that of a run.
    for cell in document["cells"].as_array().expect("cells").iter().filter(|cell| cell["kind"] == "candidate") {
        let [all, median] =
            [&cell["total_rate"], &cell["estimate"]["median"]].map(|rate| rate.as_f64().expect("a rate"));
        assert!((all / median - 1.0).abs() < 1e-6 && cell["cpu"]["ends_s_per_gib"].is_null(), "{cell}");
    }
    assert_eq!((&document["tune"]["program"], &document["plan"]["workload"]), (&"sh".into(), &"tune".into()));
    let raw = Raw::of(&bench, 1);
    raw.check_sound();
    assert_eq!(raw.confirmed()["g1"], 6);
    bench.run("report --full").exits(0).prints(&["sh", "a run"]);
    bench.run("report --format csv").exits(0).prints(&["ns_per_run", "0.06"]);
    bench.run("report --format markdown").exits(0);
    bench.run("report export --format csv").exits(0).prints(&["rate_per_second", "run_timeout"]);
    check_no_process_is_left(&bench);
}

#[test]
fn sizes_are_passed_as_bytes() {
    let bench = Bench::new();
    let written = bench.path("written");
    let script = format!("echo {{value}} {{1M/value}} >> {}", written.display());
    check(&bench, &["--values", "4K,64K", "--metric", "bytes:1M"], &script).exits(0).prints(&["value", "iB/s"]);
    let lines = std::fs::read_to_string(written).expect("the output of the runs");
    assert!(lines.lines().all(|line| line == "4096 256" || line == "65536 16"), "{lines}");
    // Three to measure the length of a run with either value, six blocks of two values and an A/A control.
    let values: Vec<&str> = lines.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!((&values[..3], values.len()), (&["65536", "4096", "65536"][..], 3 + 6 * 3));
}

#[test]
fn a_list_may_begin_with_a_negative_value() {
    Bench::new().run("tune --values -1,0 --dry-run -- echo {value}").exits(0).prints(&["compared  -1 0"]);
}

#[test]
fn printed_number_is_a_rate_or_time() {
    let bench = Bench::new();
    let rate = ["--values", "100,500", "--now", "100", "--metric", r"regex:([0-9.]+) MB/s"];
    check(&bench, &rate, "echo 1 MB/s; echo {value} MB/s >&2").exits(0).prints(&["printed", "Use 500, not 100"]);
    let time = ["--values", "1,5", "--now", "5", "--metric", r"time:took ([0-9.]+)"];
    check(&bench, &time, "echo took {value}").exits(0).prints(&["Use 1, not 5: a run takes 1 s instead of 5 s"]);
    let silent =
        check(&bench, &["--values", "1,2", "--metric", "regex:([0-9]+) ops", "--format", "json"], "echo {value}");
    let document = silent.exits(5).json();
    assert!(reason(&document, "1").starts_with("the command printed no number: nothing matches"), "{document}");
}

/// Sends a number of datagrams to itself.
const SENDER: &str = "import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('127.0.0.1', 0))
for _ in range(int(sys.argv[1])): s.sendto(b'x', s.getsockname())
";

#[test]
fn kernel_counters_can_be_the_metric() {
    let Some(python) = python("the program is written in Python", "import socket") else { return };
    let bench = Bench::new();
    let sender = bench.write("sender.py", SENDER);
    let flags = ["--values", "10,2000", "--now", "2000", "--metric", "counter:Udp.OutDatagrams", "--format", "json"];
    let few = ["tune", "--blocks", "2", "--analyses", "1", "--seed", "1"];
    let words: Vec<&str> =
        few.iter().chain(&flags).chain(&["--", &python, "-S", &sender, "{value}"]).copied().collect();
    let document = bench.run_args(&words).exits(0).json();
    check_schema(&document);
    assert_eq!(document["tune"]["metric"], "counter:Udp.OutDatagrams");
    let cells = document["cells"].as_array().expect("cells");
    assert!(cells.iter().all(|cell| cell["estimate"]["metric"] == "events"), "{document}");
    // Others may send meanwhile, and what was sent cannot be missed.
    for (value, sent) in [("10", 10.0), ("2000", 2000.0)] {
        let is_it = |cell: &&Value| cell["factors"]["value"] == value && cell["kind"] == "candidate";
        let cell = cells.iter().find(is_it).unwrap_or_else(|| panic!("no {sent} in {document:#}"));
        assert!(cell["more"]["events_per_run"]["median"].as_f64() >= Some(sent), "{cell:#}");
    }
    Raw::of(&bench, 1).check_sound();
    bench.run("report --full").exits(0).prints(&["events"]);
    bench.run("report --format csv").exits(0).prints(&["events_per_run"]);
    bench.run("report --format go-bench").exits(0).prints(&["events/op"]);
    bench.run("report export --format csv").exits(0).prints(&["left_behind,events"]);
}

#[test]
fn wrong_usage_is_reported_first() {
    let bench = Bench::new();
    let mark = bench.path("ran");
    let touch = format!("touch {}", mark.display());
    let wrong = |words: &[&str], message: &str| {
        let words: Vec<&str> = QUICK.iter().chain(words).copied().collect();
        bench.run_args(&words).exits(2).complains(&[message]);
    };
    wrong(&["--values", "1,2", "--", "sh", "-c", &touch], "{value} is not in the command");
    wrong(&["--", "no-such-program-at-all", "{value}"], "`no-such-program-at-all` was not found");
    wrong(&["--values", "4K"], "a command to measure is missing");
    wrong(&["--values", "4K", "--start", "./server {value}"], "as --load 'CLIENT …'");
    wrong(&["--start", &touch, "--ready", "tcp", "--", "true", "{value}"], "is not a test that a server is ready");
    wrong(&["--start", &touch, "--", "true", "{value}"], "--ready");
    wrong(&["--ready", "tcp:9", "--", "true", "{value}"], "--start");
    wrong(&["--metric", "cuonter:x", "--", "true", "{value}"], "is not a metric");
    wrong(&["--metric", "counter:TcpExt.BacklogDorp", "--", "true", "{value}"], "is counted nowhere: use a count");
    wrong(&["--metric", "counter:cylces", "--", "true", "{value}"], "as nstat names it");
    wrong(&["--metric", "regex:(", "--", "true", "{value}"], "is no regular expression");
    wrong(&["--start", &touch, "--ready", "tcp:9", "--stop", "TREM", "--", "true", "{value}"], "is no signal");
    wrong(&["--placement", "cross-core", "--", "true", "{value}"], "separates two programs");
    wrong(&["--now", "1,2", "--", "true", "{value}"], "is several values");
    wrong(&["--values", "3K,4K", "--", "dd", "count={1M/value}"], "does not divide");
    wrong(&["--values", "recommended", "--", "true", "{value}"], "no results");
    assert!(!mark.exists() && !bench.store().exists());
}

#[test]
fn failing_value_is_dropped_and_others_compared() {
    let bench = Bench::new();
    let script = "case {value} in 1) exit 7;; 2) echo no room >&2; kill -SEGV $$;; esac; sleep 0.00{value}";
    let ran = check(&bench, &["--values", "1,2,3,4", "--now", "1", "--format", "json"], script).exits(0);
    let document = ran.json();
    check_schema(&document);
    assert_eq!(reason(&document, "1"), "the command exited with 7");
    assert_eq!(reason(&document, "2"), "the command was ended by SIGSEGV: it printed “no room”");
    assert_eq!(document["groups"][0]["blocks"]["used"], 6);
    assert!(document["tune"]["gains"][0]["gain"].is_null(), "the present value was not measured");
    // Each is named; where one value alone is left, nothing was compared.
    bench.run("report 1").exits(0).prints(&["1 failed: ", "2 failed: "]);
    let script = "case {value} in 3) ;; *) exit 7;; esac";
    check(&bench, &["--values", "1,2,3"], script).exits(5).prints(&["2 failed: the command exited with 7"]);
    // Where all fail in the same way, the reason is printed once.
    let ran = check(&bench, &["--values", "1,2"], "exit 7; : {value}").exits(5);
    let ran = ran.prints(&["Nothing was measured: the command exited with 7."]);
    assert_eq!(ran.stdout.matches("exited with 7").count(), 1, "{ran}");
}

/// The first run takes half of the time, as with cold caches.
#[test]
fn cold_first_run_does_not_set_the_plan() {
    let bench = Bench::new();
    let script = "test -e warm || sleep 4; touch warm; : {value}";
    let words = ["tune", "--time", "8s", "--analyses", "1", "--values", "1,2", "--quiet", "--", "sh", "-c", script];
    bench.run_args(&words).exits(0);
}

/// The length of a run is unknown at first: if it exceeds the budget, the runs that fit are measured.
#[test]
fn long_runs_fill_the_budget() {
    let bench = Bench::new();
    let words =
        ["tune", "--time", "3s", "--analyses", "1", "--values", "1,2", "--", "sh", "-c", "sleep 0.5; : {value}"];
    let ran = bench.run_args(&words).exits(0);
    ran.complains(&["the minimum of 6 blocks", "show large effects only; for others give --time"]);
    // One value decides nothing, however long it is measured: the next step asks for no more time.
    let words = ["tune", "--time", "2s", "--save", "v1", "--values", "1", "--", "sh", "-c", "sleep 1.5; : {value}"];
    let ran = bench.run_args(&words).exits(0);
    assert!(!ran.stderr.contains("give --time"), "{ran}");
    let document = bench.run("report --format json").exits(0).json();
    assert_eq!(document["status"], "complete");
    assert!(document["cells"][0]["trials"].as_u64() >= Some(1), "{document}");
}

#[test]
fn hanging_program_and_children_are_ended() {
    let bench = Bench::new();
    // Both ignore signals; one is the child of the other, in its own session.
    let script = "test {value} = 1 || exit 0; trap '' TERM; setsid sleep 3600 & sleep 3600; wait";
    let flags = ["--values", "1,2", "--timeout", "300ms", "--format", "json"];
    // One of two is left: nothing was compared.
    let document = check(&bench, &flags, script).exits(5).json();
    assert!(reason(&document, "1").starts_with("the command took longer than 300 ms and was ended"), "{document}");
    check_no_process_is_left(&bench);
}

#[test]
fn forked_processes_are_ended_and_reported() {
    let bench = Bench::new();
    let ran = check(&bench, &["--values", "1,2"], "setsid sleep 360{value} & :").exits(0);
    ran.prints(&["Processes were left behind, and ended, after"]);
    check_no_process_is_left(&bench);
}

#[test]
fn flood_of_output_does_not_block() {
    let bench = Bench::new();
    let script = "head -c {value} /dev/zero | tr '\\0' x >&2; head -c {value} /dev/zero; echo 5 MB/s >&2";
    let flags = ["--values", "4M,8M", "--metric", "regex:([0-9]+) MB/s"];
    check(&bench, &flags, script).exits(0).prints(&["printed"]);
}

#[test]
fn program_gets_no_terminal() {
    let bench = Bench::new();
    let script = "read line < /dev/tty && test {value}";
    let document = check(&bench, &["--values", "1,2", "--format", "json"], script).exits(5).json();
    let reason = reason(&document, "1");
    assert!(reason.contains("exited with") && reason.contains("programs have no terminal here"), "{reason}");
}

#[test]
fn interrupt_ends_the_program_and_keeps_trials() {
    let bench = Bench::new();
    let script =
        bench.write("run.sh", "test $1 = 1 && test -e $0.hang && { setsid sleep 3600 & sleep 3600; }; echo took=$1\n");
    let flags = "--blocks 40 --analyses 1 --values 1,2 --now 2 --metric time:took=(.*) --seed 1 --save v1";
    let mut running = bench.start(&format!("tune {flags} --json-stream -- sh {script} {{value}}"));
    // Six blocks and more, of which intervals could be made, and not all.
    running.until("some trials", |running| running.stdout().matches("\"event\":\"trial\"").count() >= 3 + 6 * 3);
    std::fs::write(format!("{script}.hang"), "").expect("a file");
    running.until("the program hangs", |_| {
        bench
            .processes()
            .iter()
            .any(|id| std::fs::read(format!("/proc/{id}/cmdline")).is_ok_and(|c| c.ends_with(b"3600\0")))
    });
    running.signal("INT");
    running.wait().exits(130).complains(&["interrupted", "--resume 1"]);
    check_no_process_is_left(&bench);
    let before = Raw::of(&bench, 1);
    before.check_sound();
    assert!(before.trials.len() >= 4 && before.status() == "incomplete");
    let reported = bench.run("report 1").exits(0);
    reported.prints(&["the session stopped before its first analysis"]);
    bench.run("report compare v1 1").exits(2).complains(&["`v1` is not complete (session 1)"]);
    std::fs::remove_file(format!("{script}.hang")).expect("the file");
    bench.run("tune --resume 1 -q").exits(0).prints(&["report 1 --full"]);
    let after = Raw::of(&bench, 1);
    after.check_sound();
    assert_eq!((after.status(), after.confirmed()["g1"]), ("complete", 40));
}

#[test]
fn resumed_session_reaches_the_minimum_of_blocks() {
    let bench = Bench::new();
    // One block takes longer than the budget and the half of it that is overrun for the fewest, until the file is gone.
    let script = bench.write("run.sh", "test -e $0.slow && sleep 1.6; echo took=$1\n");
    std::fs::write(format!("{script}.slow"), "").expect("a file");
    let flags = "--values 1,2 --now 2 --metric time:took=(.*) --time 3s";
    let ran = bench.run(&format!("tune {flags} -- sh {script} {{value}}"));
    ran.exits(0).complains(&["the blocks of analysis 1 stopped after 1 of 6", "--resume measures what"]);
    let before = Raw::of(&bench, 1);
    assert_eq!((before.status(), before.confirmed()["g1"]), ("incomplete", 1));
    bench.run("report list").exits(0).prints(&["incomplete"]);
    bench
        .run("report 1")
        .exits(0)
        .prints(&["the session stopped before its first analysis, after 1 of 6 blocks", "tune --resume 1"]);
    std::fs::remove_file(format!("{script}.slow")).expect("the file");
    let ran = bench.run("tune --resume 1").exits(0);
    assert!(!ran.stderr.contains("a run takes about"), "how long runs take is settled: {ran}");
    let after = Raw::of(&bench, 1);
    after.check_sound();
    assert_eq!((after.status(), after.confirmed()["g1"]), ("complete", 6));
    let calibrated = |raw: &Raw| raw.trials.iter().filter(|trial| trial["stage"] == "calibrate").count();
    assert_eq!(calibrated(&after), calibrated(&before), "calibrated once");
    let notes = after.session["notes"].to_string();
    assert!(!notes.contains("stopped after"), "the missing blocks are there: {notes}");
}

#[test]
fn killed_session_leaves_no_program() {
    let bench = Bench::new();
    let mut running = bench.start("tune --blocks 6 --values 3600,3601 -q -- sleep {value}");
    running.until("the program runs", |running| {
        bench.processes().iter().any(|id| {
            *id != running.id()
                && std::fs::read(format!("/proc/{id}/cmdline")).is_ok_and(|command| command.starts_with(b"sleep"))
        })
    });
    running.kill();
    check_no_process_is_left(&bench);
}

#[test]
fn the_advice_of_a_stored_answer_is_tried() {
    let bench = Bench::new();
    // One session in twenty has no recommendation: that independent blocks resemble each other is found at 5 %.
    let answered = (1..=6).find_map(|session: u64| {
        bench.run(crate::bench::QUICK).exits(0);
        let document = bench.run("report --format json").json();
        (!document["groups"][0]["recommendation"]["cell"].is_null()).then_some((session, document))
    });
    let (session, document) = answered.expect("a session that recommends something");
    let recommended = &document["groups"][0]["recommendation"]["cell"];
    let tests = document["tests"].clone();
    let cells = document["cells"].as_array().expect("a list");
    let cell = cells.iter().find(|cell| cell["id"] == *recommended).expect("an option");
    let advised = cell["factors"]["read_size"].as_u64().expect("a read size");
    let other = if advised == 4096 { "64K" } else { "4K" };
    let flags = ["--values", "recommended", "--now", other, "--metric", "time:took (.*)", "--format", "json"];
    let script = format!("test {{value}} = {advised} && echo took 2 || echo took 1");
    let document = check(&bench, &flags, &script).exits(0).json();
    check_schema(&document);
    let tried: Vec<u64> = document["cells"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|cell| cell["factors"]["value"].as_u64())
        .collect();
    for option in tests[0]["options"].as_array().expect("a list") {
        let is_as_good = ["use", "as-good", "undecided"].iter().any(|status| option["status"] == **status);
        assert!(!is_as_good || tried.contains(&option["settings"]["read_size"].as_u64().expect("a size")), "{option}");
    }
    let advice = &document["tune"]["advice"][0];
    assert_eq!(advice["session"], session, "{advice}");
    let held = |ran: &Ran| {
        let findings = ran.json()["findings"].clone();
        let facts = findings.as_array().expect("a list").iter().map(|finding| finding["fact"].clone());
        facts.filter(|fact| fact["kind"] == "advice").map(|fact| fact["held"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(held(&bench.run("report --format json")), [serde_json::json!(false)]);
    bench.run("report").exits(0).prints(&["the recommendation of session ", "does not hold here: it takes "]);
    // The better one of two shows nothing about the best of all.
    let script = format!("test {{value}} = {advised} && echo took 1 || echo took 2");
    let flags = [
        "--values",
        if advised == 4096 { "4K" } else { "64K" },
        "--now",
        other,
        "--recommendation",
        &session.to_string(),
        "--metric",
        "time:took (.*)",
    ];
    check(&bench, &flags, &script)
        .exits(0)
        .prints(&["the recommendation of session ", "does not show that it is the best"]);
    assert_eq!(held(&bench.run("report --format json")), [Value::Null]);
}

#[test]
fn export_can_redact_secrets() {
    let bench = Bench::new();
    let script = "test {value} = 2 && exit 0; echo token-hunter2 >&2; exit 3";
    check(&bench, &["--values", "1,2", "--prepare", "true hunter2"], script).exits(5);
    let plain = bench.run("report export").exits(0).stdout;
    assert!(plain.contains("token-hunter2") && plain.contains("true hunter2"));
    for format in ["jsonl", "csv"] {
        let redacted = bench.run(&format!("report export --redact --format {format}")).exits(0).stdout;
        assert!(!redacted.contains("hunter2"), "{redacted}");
    }
    bench.run("report export --redact -o kept.jsonl").exits(0);
    bench.run("report import kept.jsonl").exits(0);
    bench.run("report 2").exits(5).prints(&["(redacted)"]);
}
