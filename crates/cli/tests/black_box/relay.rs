//! Relays as their users meet them: wrong words, bytes on both legs, planted faults, and ends that go.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::bench::{Bench, session_of};
use crate::contract::check_schema;
use crate::raw::{Raw, name, number, scope};

/// Short, and everything but the relay fixed.
const SHORT: &str = "--trial-time 100ms --blocks 1 --analyses 1 --time 4s --seed 1 --quiet --format json";

/// Every method but `direct`.
const METHODS: &str = "read-write,std-copy,copy-buffer,bufio,readv-writev,pipe,splice,sendfile,hybrid,epoll,uring,\
                       uring-multishot,uring-bundle,zerocopy,tokio";

const STREAM: &str = "stream --profile drain --read-size 64K --write-size 64K";

const CALL: &str = "call --profile echo --flows 4 --request 10K --server-engine epoll";

#[track_caller]
fn check_refused(words: &str, expected: &[&str]) {
    let bench = Bench::new();
    let ran = bench.run(words).exits(2).complains(expected);
    assert_eq!(ran.stdout, "", "{ran}");
    assert!(!bench.path("data").exists(), "wrong usage makes no store: {ran}");
}

#[test]
fn wrong_words_name_the_next_step() {
    check_refused("stream --relay splyce", &["--relay", "did you mean `splice`?"]);
    check_refused("stream --relay-buffer 4K", &["--relay-buffer has no effect without a --relay"]);
    check_refused("stream --relay-placement own", &["--relay-placement has no effect without --relay"]);
    check_refused(
        "stream --relay read-write --relay-pipe 1M",
        &["--relay-pipe has no effect", "splice, sendfile, hybrid"],
    );
    check_refused("stream --relay std-copy --relay-buffer 1M", &["--relay-buffer has no effect"]);
    check_refused("stream --relay tokio --relay-threads one", &["--relay-threads has no effect"]);
    check_refused("stream --relay splice --relay-buffer 0", &["--relay-buffer", "out of range"]);
    check_refused("stream --relay splice --transport pipe", &["--relay fits none", "unix, tcp, tcp6"]);
    check_refused("call --relay splice --transport udp", &["--relay fits none"]);
    check_refused("ring --relay splice", &["--relay"]);
    check_refused(
        "stream --relay splice --connect 127.0.0.1:9",
        &["--relay does not work with --connect", "use the workload call"],
    );
    check_refused(
        "stream --relay splice --placement unpinned --relay-placement own",
        &["the ends, which are unpinned", "use --relay-placement unpinned"],
    );
}

#[test]
fn plan_is_shown_before_it_runs() {
    let bench = Bench::new();
    let words = format!("{STREAM} --transport tcp --relay direct,splice,read-write --relay-buffer 16K,64K --dry-run");
    // Splicing has no buffer; the path without a relay is a cell too.
    bench.run(&words).exits(0).prints(&["3 options in 1 test"]);
    bench.run("run relay-copy --dry-run").exits(0).prints(&["relay-copy", "hybrid"]);
    bench.run("run relay-copy --relay all --dry-run").exits(0).prints(&[
        "copy-buffer",
        "uring-bundle",
        "until analysis 1 of",
    ]);
    bench
        .run("run buffer-size --role relay --dry-run")
        .exits(0)
        .prints(&["5 options in 1 test", "relay-buffer  compared"]);
    bench.run("run relay-calls --dry-run").exits(0).prints(&["relay-calls", "request  fixed     10K"]);
}

/// The trials of a session of which the relay is a method, with what each end counted.
fn relayed(bench: &Bench) -> Vec<Value> {
    let raw = Raw::of(bench, 1);
    let reasons = raw.trials.iter().filter_map(|trial| trial["outcome"]["reason"].as_str());
    // A path whose first calls fill the window, or a floor that got no CPU, is measured once more.
    let failed: Vec<&str> =
        reasons.filter(|reason| !reason.contains("for longer") && !reason.contains("longer --trial-time")).collect();
    assert!(failed.is_empty(), "{failed:?}");
    raw.trials.into_iter().filter(|trial| !trial["ends"]["relay"].is_null()).collect()
}

#[test]
fn relay_passes_all_bytes() {
    let bench = Bench::new();
    let short = SHORT.replace("100ms", "40ms");
    let words = format!("{STREAM} --transport tcp,unix --verify --relay direct,{METHODS} {short}");
    let document = bench.run(&words).exits(0).json();
    check_schema(&document);
    let cells = document["cells"].as_array().expect("a list");
    let of_kind = |kind: &str| cells.iter().filter(|cell| cell["kind"] == kind).count();
    assert_eq!((of_kind("candidate"), of_kind("ceiling")), (2 * METHODS.split(',').count(), 2));
    let reported = scope(&document);
    assert_eq!(reported.iter().filter(|text| text.contains("without a relay")).count(), 2, "{reported:?}");
    // One that was too short is measured again.
    let mut trials = relayed(&bench);
    trials.retain(|trial| trial["outcome"]["kind"] == "measured");
    let cells: BTreeSet<String> = trials.iter().map(|trial| name(&trial["cell"])).collect();
    // Not all of them are for Unix sockets.
    assert!(cells.len() >= 2 * METHODS.split(',').count() - 1);
    for trial in &trials {
        let (ends, relay) = (&trial["ends"], &trial["ends"]["relay"]["relay"]);
        let sent = number(&ends["source"]["total_bytes"]);
        let through = [&relay["taken_up"], &relay["given_up"], &ends["sink"]["total_bytes"]].map(number);
        assert_eq!(through, [sent; 3], "{trial}");
        assert_eq!(number(&ends["sink"]["verified_bytes"]), sent, "{trial}");
        assert_eq!((number(&relay["connections"]), number(&relay["broken"])), (1, 0), "{trial}");
        // One that got no CPU while the window was open has none to tell of.
        assert!(number(&ends["relay"]["cpu_ns"]) > 0 || number(&ends["relay"]["window_ns"]) == 0, "{trial}");
    }
    assert!(trials.iter().any(|trial| number(&trial["ends"]["relay"]["cpu_ns"]) > 0));
    assert!(
        trials.iter().any(|trial| trial["ends"]["relay"]["relay"]["kernel_up"].as_u64() > Some(0)),
        "TCP counts, too"
    );
    bench.run("report --full").exits(0).prints(&["CPU s/GiB", "without a relay"]);
    bench.run("report --format markdown").exits(0).prints(&["without a relay"]);
}

#[test]
fn own_relay_competes_like_a_program() {
    let bench = Bench::new();
    let words =
        format!("{STREAM} --transport tcp --relay read-write --trial-time 300ms --blocks 200 --analyses 1 --quiet");
    let mut running = bench.start(&words);
    let relays = |bench: &Bench| -> Vec<u32> {
        let is_relay = |id: &u32| {
            let words = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            words.split(|byte| *byte == 0).skip(1).take(2).eq([&b"end"[..], b"relay"])
        };
        bench.processes().into_iter().filter(is_relay).collect()
    };
    // Before it is another program it is not yet looked at, and between two trials there is none.
    let mut seen = None;
    running.until("a relay", |_| {
        seen = relays(&bench).into_iter().find_map(|id| Some((id, session_of(id)?)));
        seen.is_some()
    });
    running.insist("INT").exits(130);
    let (id, session) = seen.unwrap();
    assert_eq!(session, id, "it leads a session of its own, as a relay by its command does");
}

#[test]
fn relay_works_with_external_servers() {
    let bench = Bench::new();
    let mut server = bench.start("serve echo --listen 127.0.0.1:0");
    let place = server.place();
    let words = "--transport tcp --flows 2 --request 1K --relay read-write --trial-time 100ms --blocks 2 --analyses 1 --time 4s --quiet";
    bench.run(&format!("call {words} --connect {place}")).exits(0);
    server.signal("TERM");
    server.wait().exits(0);
    let behind = relayed(&bench);
    assert!(!behind.is_empty());
    for trial in behind.iter().filter(|trial| trial["outcome"]["kind"] == "measured") {
        let (client, relay) = (&trial["ends"]["client"]["call"], &trial["ends"]["relay"]["relay"]);
        assert!(number(&client["completed"]) > 0 && trial["ends"]["server"].is_null(), "{trial}");
        assert!(number(&relay["given_down"]) >= number(&client["completed"]) * 1024, "{trial}");
    }
    // Whatever it finds, as on a machine that does much else: each of its probes went through the relay.
    let bench = Bench::new();
    let words = "--transport tcp --server-engine epoll --placement unpinned --flows 4 --request 100 --work none --relay epoll \
                 --slo p50=50ms --trial-time 100ms --blocks 1 --time 30s --quiet";
    let code = bench.run(&format!("call {words}")).status.code();
    assert!([Some(0), Some(5)].contains(&code), "{code:?}");
    let searched =
        |trial: &&Value| trial["ends"]["client"]["call"]["search"].as_array().is_some_and(|probes| probes.len() > 1);
    let trials = Raw::of(&bench, 1).trials;
    let searches: Vec<&Value> = trials.iter().filter(searched).collect();
    assert!(!searches.is_empty(), "{trials:?}");
    assert!(searches.iter().all(|trial| number(&trial["ends"]["relay"]["relay"]["given_up"]) > 0), "{searches:?}");
}

#[test]
fn calls_go_through_relays() {
    // One connection per call with one relay of each kind: the relays' own tests cover the rest.
    let kinds = [("off", METHODS), ("on", "read-write,splice,epoll,uring,tokio")];
    for (per_call, methods) in kinds {
        let bench = Bench::new();
        let words = format!(
            "{CALL} --transport tcp --connect-per-call {per_call} --verify --relay direct,{methods} --rate 2k {SHORT}"
        );
        bench.run(&words).exits(0);
        let trials = relayed(&bench);
        assert!(trials.len() >= methods.split(',').count());
        // Options that the first check skipped are measured again.
        for trial in trials.iter().filter(|trial| trial["outcome"]["kind"] == "measured") {
            let (client, relay) = (&trial["ends"]["client"]["call"], &trial["ends"]["relay"]["relay"]);
            let completed = number(&client["completed"]);
            assert!(completed > 0 && client["errors"].as_array().is_none_or(Vec::is_empty), "{trial}");
            assert!(number(&relay["given_down"]) >= completed * 10_240, "{trial}");
            let connections = number(&relay["connections"]);
            assert!(if per_call == "on" { connections >= completed } else { connections == 4 }, "{trial}");
        }
    }
}

#[test]
fn one_thread_carries_many_connections() {
    let bench = Bench::new();
    let words = format!(
        "{CALL} --transport tcp --relay read-write,readv-writev,splice,sendfile,hybrid --relay-threads direction,one \
         --relay-placement client,server --rate 2k {SHORT}"
    );
    bench.run(&words).exits(0);
    for trial in relayed(&bench) {
        let cpus = &trial["cpus"];
        let shared = ["client", "server"].into_iter().find(|end| cpus[end] == cpus["relay"]);
        assert!(shared.is_some() && !cpus["relay"].is_null(), "{trial}");
    }
}

#[test]
fn a_broken_relay_is_caught() {
    let check = |words: &str, expected: &str| {
        let bench = Bench::new();
        let ran = bench.run(&format!("{words} --relay read-write {SHORT}")).exits(5);
        assert!(!ran.stderr.contains("panicked"), "{ran}");
        let raw = Raw::of(&bench, 1);
        let message =
            |trial: &Value| trial["outcome"]["reason"].as_str().is_some_and(|reason| reason.contains(expected));
        assert!(raw.trials.iter().any(message), "{words}: {:?}", raw.trials);
    };
    check(&format!("{STREAM} --transport tcp --plant relay-loses:20000"), "the relay loses or invents data");
    check(&format!("{STREAM} --transport tcp --verify --plant relay-corrupts:20000"), "the path corrupts data");
    check(&format!("{CALL} --transport tcp --verify --plant relay-corrupts:20000"), "the path corrupts data");
}

#[test]
fn lost_end_behind_relay_fails_the_trial() {
    for (plant, expected) in [("die:100000", "the sink died"), ("stall:100000", "stalled")] {
        for relay in ["splice", "read-write --relay-threads one", "uring", "tokio"] {
            let bench = Bench::new();
            let words = format!("{STREAM} --transport tcp --ends processes --grace 1s --plant {plant} --relay {relay}");
            let ran = bench.run(&format!("{words} {SHORT}")).exits(5);
            assert!(!ran.stderr.contains("panicked"), "{ran}");
            let raw = Raw::of(&bench, 1);
            let message = |trial: &Value| trial["outcome"]["reason"].as_str().is_some_and(|why| why.contains(expected));
            assert!(raw.trials.iter().any(message), "{words}: {:?}", raw.trials);
            assert_eq!(bench.processes(), [0; 0], "no process is left");
        }
    }
}
