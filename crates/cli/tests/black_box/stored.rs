//! Stored sessions are reported again, from the store alone and always the same.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use crate::bench::{BINARY, Bench, QUICK};
use crate::contract::check_document;
use crate::raw::Raw;

#[test]
fn a_report_is_what_the_run_printed() {
    let bench = Bench::new();
    let at_the_end = bench.run(&format!("{QUICK} --quiet")).exits(0).stdout;
    assert_eq!(bench.run("report").exits(0).stdout, at_the_end);
    assert_eq!(bench.run("report 1").exits(0).stdout, at_the_end);
    for format in ["text", "json", "csv", "markdown"] {
        let once = bench.run(&format!("report 1 --format {format}")).exits(0).stdout;
        assert!(!once.is_empty());
        assert_eq!(bench.run(&format!("report 1 --format {format}")).exits(0).stdout, once, "{format}");
    }
    check_document(&bench.run("report --format json").exits(0).json());
}

#[test]
fn page_contains_its_sessions() {
    let bench = Bench::new();
    for _ in 0..2 {
        bench.run(&format!("{QUICK} --quiet")).exits(0);
    }
    bench.run("report 2 1 2 --html page.html").exits(0).prints(&["the page is in ", "page.html"]);
    let page = fs::read_to_string(bench.path("page.html")).expect("the page");
    let data = bytegauge_report::render::page::documents_in(&page).expect("the data");
    let documents: serde_json::Value = serde_json::from_str(&data).expect("JSON");
    let reported: Vec<_> = documents.as_array().expect("a list").iter().map(|one| one["session"].as_i64()).collect();
    assert_eq!(reported, [Some(2), Some(1)], "each once, in the order in which they were named");
    assert!(page.contains("default-src 'none'"));
    bench.run("report 1 2").exits(2).complains(&["--html page.html"]);
    bench.run("report --html nowhere/page.html").exits(5).complains(&["cannot write nowhere/page.html", "--html"]);
}

#[test]
fn sessions_are_listed_separately() {
    let bench = Bench::new();
    bench.run(&format!("{QUICK} --quiet")).exits(0);
    let null = "stream --engine null --connection-age fresh --transport pipe --read-size 8K --write-size 8K --trial-time 1ms --blocks 1 --time 1s";
    bench.run(&format!("{null} --quiet")).exits(0);
    let listed = bench.run("report list").exits(0).prints(&["complete", "stream", "bytegauge report"]);
    let numbers: Vec<&str> = listed.stdout.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(numbers[1..3], ["2", "1"], "the newest first: {listed}");
    bench.run("report --full").exits(0).prints(&["stream #2", "moves nothing"]);
    bench.run("report 1").exits(0).prints(&["#1"]);
}

#[test]
fn store_can_be_anywhere() {
    let bench = Bench::new();
    let store = bench.path("new folder/my results.db").display().to_string();
    let mut words: Vec<&str> = QUICK.split_whitespace().collect();
    words.extend(["--quiet", "--store", &store]);
    bench.run_args(&words).exits(0);
    bench.run_args(&["--store", &store, "report", "list"]).exits(0).prints(&["complete"]);
    assert!(bench.path("new folder/my results.db").is_file() && !bench.path("data").exists());
}

#[test]
fn an_export_holds_every_trial() {
    let bench = Bench::new();
    let lines = bench.run(&format!("{QUICK} --json-stream")).exits(0).json_lines();
    let reported: Vec<_> = lines.iter().filter(|line| line["event"] == "trial").collect();
    let raw = Raw::of(&bench, 1);
    raw.check_sound();
    assert_eq!(raw.status(), "complete");
    assert_eq!(raw.confirmed().into_values().collect::<Vec<_>>(), [6]);
    assert_eq!(raw.trials.len(), reported.len());
    for (stored, reported) in raw.trials.iter().zip(reported) {
        assert_eq!(
            (&stored["cell"], &stored["bytes"], &stored["wall_ns"]),
            (&reported["cell"], &reported["bytes"], &reported["wall_ns"])
        );
    }
    for facts in [&raw.session["machine"], &raw.session["machine_after"]] {
        assert!(facts["kernel_release"].is_string(), "the machine before and after: {facts}");
    }
    let csv = bench.run("report export 1 --format csv").exits(0).stdout;
    assert_eq!(csv.lines().count() - 1, raw.trials.len());
    bench.run("report export 1 -o out.jsonl").exits(0);
    assert_eq!(
        fs::read_to_string(bench.path("out.jsonl")).expect("the file"),
        bench.run("report export 1").exits(0).stdout
    );
    bench.run("report export 1 -o /no/such/folder/x").exits(5).complains(&["/no/such/folder/x", "--output"]);
}

#[test]
fn read_only_store_can_be_reported() {
    let bench = Bench::new();
    bench.run(&format!("{QUICK} --quiet")).exits(0);
    let before = bench.run("report").exits(0).stdout;
    // Root may write anything: without its capabilities, in a user namespace, it may not.
    let drop =
        if crate::bench::possible("a user without rights", "unshare", &["-U", "true"]) { "unshare -U" } else { "" };
    let script = format!(
        "PATH=${{BYTEGAUGE%/*}}:$PATH; chmod 444 data/bytegauge/results.db && chmod 555 data/bytegauge && \
         {drop} bytegauge report; code=$?; chmod 755 data/bytegauge; exit $code"
    );
    assert_eq!(bench.shell(&script).exits(0).stdout, before);
}

#[test]
fn two_sessions_at_once_share_a_store() {
    let bench = Bench::new();
    let words = "stream --engine null --connection-age fresh --transport unix --read-size 4K,8K --write-size 4K --trial-time 10ms --blocks 8 --time 2s -q";
    let both = [bench.start(words), bench.start(words)];
    for running in both {
        running.wait().exits(0);
    }
    for session in [1, 2] {
        let raw = Raw::of(&bench, session);
        raw.check_sound();
        assert_eq!(raw.status(), "complete");
    }
}

#[test]
fn strict_is_for_scripts() {
    let bench = Bench::new();
    // One row a cell: not even a bound can be given of it.
    bench.write(
        "t.csv",
        "transport,read_size,write_size,duration_s,bytes\nunix,4096,4096,1,1000000\nunix,8192,4096,1,900000\n",
    );
    bench.run("report import t.csv").exits(0);
    bench.run("report").exits(0);
    bench.run("report --strict").exits(4);
}

#[test]
fn several_sessions_of_a_plan_are_judged_together() {
    let bench = Bench::new();
    let words = "stream --transport unix --connection-age fresh --profile sum --read-size 1,64K --write-size 64K --trial-time 20ms \
                 --blocks 6 --time 1s --long-trials off --quiet";
    bench.run(&format!("{words} --seed 1")).exits(0);
    bench.run("report --across").exits(2).complains(&["only one session of this plan", "bytegauge report list"]);
    bench.run(&format!("{words} --seed 2")).exits(0);
    // At least three; more until one recommends something, since a session whose blocks depend on each other does not.
    let judged = (3..=20).find_map(|seed: usize| {
        bench.run(&format!("{words} --seed {seed}")).exits(0);
        let document = bench.run("report --across --format json").exits(0).json();
        let mut sessions = document["tests"][0]["sessions"].as_array().expect("a list").iter();
        sessions.any(|session| session["recommended"].is_string()).then_some((seed, document))
    });
    let (count, document) = judged.expect("a session that recommends something");
    let question = &document["tests"][0];
    assert_eq!(document["tests"].as_array().map(Vec::len), Some(1), "{document}");
    assert_eq!(question["sessions"].as_array().map(Vec::len), Some(count), "{document}");
    // One byte a read loses whatever else the machine does.
    assert_eq!(question["recommended"].as_str(), Some("64K"), "{document}");
    let named: Vec<&str> =
        question["sessions"].as_array().unwrap().iter().filter_map(|session| session["recommended"].as_str()).collect();
    assert!(!named.is_empty() && named.iter().all(|named| named.ends_with("64K")), "{document}");
    assert_eq!(question["recommended_in"].as_u64(), Some(named.len() as u64), "{document}");
    assert!(question["slower_upper"].is_number(), "{document}");
    let two = bench.run("report --across 1 3 --format json").exits(0).json();
    assert_eq!((two["sessions"].as_array().map(Vec::len), two["tests"][0]["slower_upper"].is_null()), (Some(2), true));
    let all: Vec<String> = (1..=count).map(|session| session.to_string()).collect();
    let text = bench.run(&format!("report --across {}", all.join(" "))).exits(0).stdout;
    assert!(text.contains(&format!("{count} sessions in one boot")), "{text}");
    bench.run("report --across --format csv").exits(2).complains(&["text or json"]);
    bench.run("report --across 1 99").exits(2).complains(&["99"]);
}

#[test]
fn empty_session_report_has_a_reason() {
    let bench = Bench::new();
    // It is killed while it prepares its first run.
    let words = [
        "tune",
        "--values",
        "1,2",
        "--prepare",
        "echo > prepares; exec sleep 3600",
        "--quiet",
        "--",
        "true",
        "{value}",
    ];
    let mut command = std::process::Command::new(BINARY);
    command.args(words);
    let mut running = bench.spawn(command, words.join(" "));
    running.until("its preparation", |_| bench.path("prepares").exists());
    running.kill();
    let ran = bench.run("report").exits(5).prints(&["bytegauge tune --resume 1"]);
    ran.complains(&["session 1", "interrupted before anything was measured"]);
}

#[test]
fn store_path_need_not_be_text() {
    let bench = Bench::new();
    let store = OsStr::from_bytes(b"results-\xff '.db");
    let run = |words: &str| {
        let mut command = std::process::Command::new(BINARY);
        command.args(words.split_whitespace()).arg("--store").arg(store);
        bench.spawn(command, words.to_owned()).wait()
    };
    run(&format!("{QUICK} --quiet")).exits(0);
    assert!(bench.path("").join(store).exists());
    run("report list").exits(0);
    run("report").exits(0);
    run("report export").exits(0).prints(&["\"kind\":\"trial\""]);
}
