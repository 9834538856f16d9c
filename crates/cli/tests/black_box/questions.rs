//! Questions that were asked in public and once had a wrong or an unreadable result: the harm is named, both named levels have
//! a figure, units are checked, and the time is acceptable. Rates are not compared, except where the kernel fixes them.

use serde_json::Value;

use crate::bench::Bench;

/// The options of the only test, each with the level of a factor.
fn options(document: &Value) -> Vec<Value> {
    document["tests"][0]["options"].as_array().expect("options").clone()
}

fn with<'a>(options: &'a [Value], factor: &str, level: &Value) -> &'a Value {
    options.iter().find(|option| option["settings"][factor] == *level).expect("an option")
}

/// Bursts of thirty datagrams at a reader that needs longer for each than the writer: a buffer of 8 KiB has room for seven.
#[test]
fn small_receive_buffer_loses_bursts() {
    let bench = Bench::new();
    let words = "stream --transport udp --write-size 1452 --engine mmsg --batch 30 --think-time 10ms --rcvbuf 8K,200K \
                 --work 20ns --trial-time 50ms --blocks 2 --long-trials off --time 12s --quiet";
    let document = bench.run(&format!("{words} --format json")).exits(0).json();
    let options = options(&document);
    let (small, large) = (with(&options, "rcvbuf", &8192.into()), with(&options, "rcvbuf", &204_800.into()));
    let cells = document["cells"].as_array().expect("cells");
    let cell = cells.iter().find(|cell| cell["id"] == small["id"]).expect("the cell of an option");
    assert!(cell["datagrams"]["lost_share"].as_f64() > Some(0.1), "{cell}");
    assert_eq!(small["harm"], serde_json::json!(["lost-datagrams"]), "{small}");
    assert!(large["harm"].as_array().is_none_or(Vec::is_empty), "{large}");
    assert_ne!(document["tests"][0]["recommended"], small["id"], "{document}");
    bench.run("report 1").exits(0).prints(&["lost", "Avoid SO_RCVBUF 8K", "of the datagrams lost"]);
}

/// A request in two parts waits for a delayed acknowledgement of 40 ms, with Nagle's algorithm.
#[test]
fn both_levels_of_nagle_have_a_figure() {
    let bench = Bench::new();
    let words = "call --transport tcp --flows 1 --request 200 --request-chunk 100 --nodelay on,off --server-engine epoll \
                 --profile echo --trial-time 600ms --blocks 2 --long-trials off --time 12s --quiet";
    let document = bench.run(&format!("{words} --format json")).exits(0).json();
    let options = options(&document);
    let rate = |on: bool| with(&options, "nodelay", &on.into())["rate"].as_f64().expect("a rate");
    assert!(rate(false) < 30.0 && rate(true) > rate(false), "{} {}", rate(true), rate(false));
    bench.run("report 1").exits(0).prints(&["calls/s", "\n  on ", "\n  off "]);
}

#[test]
fn busy_polling_over_loopback_is_a_caveat() {
    let bench = Bench::new();
    let words = "call --transport tcp --busy-poll auto,50us --flows 1 --server-engine epoll --profile echo --trial-time 300ms \
                 --blocks 2 --long-trials off --time 5s --quiet";
    bench.run(words).exits(0).prints(&["SO_BUSY_POLL has no effect here: loopback has no device queue to poll"]);
}

#[test]
fn imported_delay_needs_a_unit() {
    let bench = Bench::new();
    let import = |delay: &str| {
        let rows = format!(
            "link_delay,transport,read_size,throughput_mib_s,rcvbuf\\n{delay},tcp,64K,1.3,128K\\n{delay},tcp,64K,2.4,256K\\n"
        );
        bench.shell(&format!("printf '{rows}' | \"$BYTEGAUGE\" report import -"))
    };
    import("91").exits(2).complains(&["link_delay", "`91` has no unit"]);
    import("91ms").exits(0);
    let document = bench.run("report --format json").exits(0).json();
    assert_eq!(document["groups"][0]["factors"]["link_delay"], 91_000_000, "{}", document["groups"][0]);
}

/// A user who names two buffers waits for them, and not for all sizes of reads and writes.
#[test]
fn two_named_buffers_take_a_few_minutes() {
    let bench = Bench::new();
    let ran = bench.run("stream --link-delay 91ms --rcvbuf 128K,256K --dry-run").exits(0);
    ran.prints(&["2 options in 1 test", "128K 256K"]);
    let plan = bench.run("stream --link-delay 91ms --rcvbuf 128K,256K --dry-run --format json").exits(0).plan();
    assert!(plan["budget_ns"].as_u64() < Some(300_000_000_000), "{}", plan["budget_ns"]);
}

/// A user who names two transports, and nothing else twice, may want to know which is faster.
#[test]
fn named_transports_can_be_compared_next() {
    let bench = Bench::new();
    let short = "--trial-time 50ms --blocks 2 --long-trials off --time 5s --quiet";
    let ran = bench.run(&format!("stream --transport unix,tcp --read-size 64K --write-size 64K {short}")).exits(0);
    ran.prints(&["--compare transport"]);
    let ran = bench.run(&format!("stream --transport unix,tcp --compare transport {short}")).exits(0);
    assert!(!ran.stdout.contains("Next     bytegauge stream --transport unix,tcp"), "{ran}");
}

/// The same of two ways to write a client; the CPU time is then that of the client.
#[test]
fn named_client_engines_can_be_compared_next() {
    let bench = Bench::new();
    let short = "--flows 2 --server-engine epoll --client-engine epoll,blocking --profile echo --trial-time 50ms --blocks 2 \
                 --long-trials off --time 5s --quiet";
    let ran = bench.run(&format!("call {short}")).exits(0);
    ran.prints(&["--compare client-engine"]);
    let ran = bench.run(&format!("call --compare client-engine {short}")).exits(0);
    let ran = ran.prints(&["CPU µs/call"]);
    assert!(!ran.stdout.contains("compare the levels of"), "{ran}");
    bench.run("report --full").exits(0).prints(&["CPU µs/call"]);
}
