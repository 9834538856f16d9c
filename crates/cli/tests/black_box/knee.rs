//! `call --slo`: the highest rate that keeps a latency, with real servers, planted slow ones, and external ones.
//!
//! Rates are checked by laws: a server with a known service time answers no more calls than that allows, on any
//! machine. The distance of the result from it is tested on a quiet machine (`quiet`).

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

use crate::bench::{Bench, Ran};
use crate::raw::Raw;

/// One search of one small cell: a block is too few for an interval, and enough for a median.
const FLAGS: &str = "--transport unix --server-engine epoll --placement unpinned --flows 4 --request 100 --blocks 1 --long-trials off --time 60s";

fn searching(bench: &Bench, flags: &str) -> Ran {
    bench.run(&format!("call {FLAGS} --trial-time 100ms {flags}"))
}

/// The number at the end of a path of keys.
fn number(value: &Value, path: &[&str]) -> f64 {
    let found = path.iter().fold(value, |value, key| &value[*key]);
    found.as_f64().unwrap_or_else(|| panic!("no number at {path:?} in {value}"))
}

#[test]
fn knee_is_stored_with_its_probes() {
    let bench = Bench::new();
    // So lenient that even a machine that does much else keeps it at some rate.
    let document = searching(&bench, "--work none --slo p50=50ms --arrivals poisson --format json").exits(0).json();
    let cell = &document["cells"][0];
    let knee = &cell["call"]["knee"];
    assert_eq!((&cell["outcome"], &knee["slo"]), (&"measured".into(), &"p50=50ms".into()), "{cell}");
    assert_eq!(cell["call"]["timing"], "from the intended send (open loop)");
    assert_eq!((&cell["factors"]["slo"], &cell["factors"]["call_rate"]), (&"p50=50ms".into(), &Value::Null));
    assert!(number(knee, &["at_knee_ns"]) <= 50e6, "{knee}");
    assert!(number(knee, &["closed_per_second"]) > 0.0, "{knee}");
    assert!(knee["probes"].as_array().is_some_and(|probes| !probes.is_empty()), "{knee}");
    assert!(number(knee, &["overall_per_second"]) > 0.0 && number(knee, &["searches"]) >= 1.0, "{knee}");
    let full = bench.run("report --full").exits(0);
    full.prints(&["p50 ≤ 50ms", "from the moment when the call should begin", "overall"]);
    let raw = bench.run("report export 1").exits(0).stdout;
    assert!(raw.contains("\"search\"") && raw.contains("\"offered\""), "no probes in {raw}");
    // A rate keeps the objective only if its own probe did.
    let trials = Raw::of(&bench, 1).trials;
    let probes = trials.iter().filter_map(|trial| trial["ends"]["client"]["call"]["search"].as_array()).flatten();
    let kept: Vec<&Value> = probes.filter(|probe| probe["kept"] == true).collect();
    let keeps = |probe: &&Value| probe["percentile_ns"].as_u64().is_some_and(|ns| ns <= 50_000_000);
    assert!(!kept.is_empty() && kept.iter().all(keeps), "{kept:?}");
}

#[test]
fn impossible_limit_is_reported() {
    let bench = Bench::new();
    searching(&bench, "--work 2000ns --slo p50=100us").exits(5);
    let reasons = bench.run("report --format csv").stdout;
    bench.run("report list").exits(0).prints(&["  failed  ", "failed: no option has a result"]);
    for part in ["p50 was ", " even at ", "(clients that wait for each reply reach "] {
        assert!(reasons.contains(part), "no `{part}` in {reasons}");
    }
}

#[test]
fn too_rare_percentile_is_reported() {
    let bench = Bench::new();
    // Ten milliseconds a call: a hundred a second, of which no 99.9th percentile is to be had.
    let flags = "--transport unix --server-engine epoll --placement unpinned --flows 1 --request 100 --work 100000ns \
                 --trial-time 1s --blocks 1 --time 60s --slo p99.9=1s";
    bench.run(&format!("call {flags}")).exits(5);
    let reasons = bench.run("report --format csv").stdout;
    assert!(reasons.contains("p99.9 needs 10000 calls") && reasons.contains("use a lower percentile"), "{reasons}");
}

/// A server whose calls wait for each other, `pause` each. It ends with the test, after the last connection.
fn one_at_a_time(pause: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let turn = Arc::new(Mutex::new(()));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let turn = Arc::clone(&turn);
            std::thread::spawn(move || {
                let mut bytes = [0; 100];
                while stream.read_exact(&mut bytes).is_ok() {
                    {
                        let _held = turn.lock();
                        std::thread::sleep(pause);
                    }
                    if stream.write_all(&bytes).is_err() {
                        return;
                    }
                }
            });
        }
    });
    at
}

#[test]
fn knee_agrees_with_the_service_time() {
    let (quick, slow) = (one_at_a_time(Duration::from_micros(200)), one_at_a_time(Duration::from_millis(2)));
    let flags = "--flows 2 --request 100 --trial-time 100ms --blocks 1 --time 60s --slo p50=100ms --long-trials off --format json";
    let document = Bench::new().run(&format!("call --connect {quick},{slow} {flags}")).exits(0).json();
    for (at, cell) in [&quick, &slow].into_iter().zip(document["cells"].as_array().unwrap()) {
        assert_eq!(cell["factors"]["connect"], at.to_string());
    }
    // No sleep is shorter than asked for: 500 calls a second at most, and in a window of 0.1 s two that had begun before
    // it and one that ends with it.
    let median = number(&document["cells"][1], &["estimate", "median"]);
    assert!(median <= 530.0, "{document}");
}

#[test]
fn what_is_no_search_is_wrong_usage() {
    let bench = Bench::new();
    let check = |flags: &str, parts: &[&str]| {
        searching(&bench, flags).exits(2).complains(parts);
    };
    for bad in ["p95=2ms", "p99", "p99=", "99=2ms", "p99=2", "p99=0ns", "p99=5s", "p100=1ms"] {
        check(&format!("--slo {bad}"), &["--slo", "is not an objective", "p50, p90, p99, p99.9, p99.99"]);
    }
    check("--slo p99=2ms --rate 10k", &["--rate has no effect without --slo none", "leave one of them out"]);
    check("--slo p99=2ms --think-time 1ms", &["--think-time has no effect without --slo none"]);
    bench.run("stream --slo p99=2ms").exits(2).complains(&["--slo"]);
    assert!(!bench.path("data").exists());
}

#[test]
fn a_dry_run_shows_what_searching_takes() {
    let bench = Bench::new();
    bench.run("call --slo p99=2ms --dry-run").exits(0).prints(&["p99=2ms", "about 180 s"]);
    bench.run("call --slo p99.99=2ms --dry-run").exits(2).complains(&["is too short", "--time"]);
}
