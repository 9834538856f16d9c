//! Harm on real traffic: an option whose clients wait without an answer is not best for its rate, and a sound one has none.

use serde_json::Value;

use crate::bench::Bench;

/// One of two servers has room for two of 32 connections, and needs a millisecond for a call. A client that found no room tries
/// again after a second, longer than a trial.
const WORDS: &str = "call --transport tcp --flows 32 --request 1K --response 100 --connect-per-call on --backlog 1,1024 \
                     --work 1000ns --server-engine epoll --trial-time 400ms --blocks 2 --long-trials off --time 12s --quiet";

/// The harm of the cell with a backlog.
fn harm(document: &Value, backlog: u64) -> &Value {
    let is_it = |cell: &&Value| cell["kind"] == "candidate" && cell["factors"]["backlog"] == backlog;
    &document["cells"].as_array().unwrap().iter().find(is_it).unwrap()["harm"]
}

#[test]
fn small_backlog_starves_clients() {
    let bench = Bench::new();
    // A call of a server with little CPU takes so long that no client counts as starved: other sessions are tried then.
    let starved = (1..=5).find_map(|session| {
        let document = bench.run(&format!("{WORDS} --format json")).exits(0).json();
        (harm(&document, 1)["starved_share"].as_f64() > Some(0.02)).then_some((session, document))
    });
    let (session, document) = starved.expect("starved clients in one of five sessions");
    let (small, large) = (harm(&document, 1), harm(&document, 1024));
    assert!(small["overflow_share"].as_f64() > Some(0.001), "{small}");
    assert!(small["starved_share"].as_f64() > Some(0.02), "{small}");
    assert!(small["longest_ns"].as_u64() >= Some(300_000_000), "{small}");
    // The count is that of its own listener: other servers of this machine do not matter.
    assert_eq!(large["overflow_share"], 0.0, "{large}");
    let test = &document["tests"][0];
    let options = test["options"].as_array().unwrap();
    let of = |backlog: u64| options.iter().find(|option| option["settings"]["backlog"] == backlog).unwrap();
    let kinds: Vec<&str> = of(1)["harm"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(kinds.contains(&"starved-clients") && kinds.contains(&"listen-overflows"), "{kinds:?}");
    assert!(of(1024)["harm"].is_null(), "{}", of(1024));
    assert_ne!(test["recommended"], of(1)["id"], "{test}");
    bench.run(&format!("report {session}")).exits(0).prints(&["starved"]);
    bench.run(&format!("report {session} --full")).exits(0).prints(&["starved", "longest"]);
}
