//! Questions that were asked in public and once had a wrong or an unreadable result: the harm is named, both named levels have
//! a figure, units are checked, and the time is acceptable. Rates are not compared, except where the kernel fixes them.

use serde_json::Value;

use crate::bench::Bench;
use crate::raw::Raw;

/// The options of the only test, each with the level of a factor.
fn options(document: &Value) -> Vec<Value> {
    document["tests"][0]["options"].as_array().expect("options").clone()
}

fn with<'a>(options: &'a [Value], factor: &str, level: &Value) -> &'a Value {
    options.iter().find(|option| option["settings"][factor] == *level).expect("an option")
}

/// Bursts of thirty datagrams at a reader that needs longer for each than the writer: a buffer of 8 KiB has room for seven. The
/// loss of the worst burst is shown, and its place.
#[test]
fn small_receive_buffer_loses_bursts() {
    let bench = Bench::new();
    let words = "stream --transport udp --write-size 1452 --engine mmsg --batch 30 --burst 30 --every 10ms --rcvbuf 8K,200K \
                 --work 20ns --trial-time 50ms --blocks 2 --long-trials off --time 12s --quiet";
    let document = bench.run(&format!("{words} --format json")).exits(0).json();
    let options = options(&document);
    let (small, large) = (with(&options, "rcvbuf", &8192.into()), with(&options, "rcvbuf", &204_800.into()));
    let cells = document["cells"].as_array().expect("cells");
    let cell = cells.iter().find(|cell| cell["id"] == small["id"]).expect("the cell of an option");
    assert!(cell["datagrams"]["lost_share"].as_f64() > Some(0.1), "{cell}");
    let bursts = |name: &str| cell["datagrams"][name].as_f64();
    assert!(bursts("lossy_burst_share") > Some(0.5) && bursts("worst_burst_share") > Some(0.1), "{cell}");
    assert_eq!(small["harm"], serde_json::json!(["lost-datagrams"]), "{small}");
    assert!(large["harm"].as_array().is_none_or(Vec::is_empty), "{large}");
    assert_ne!(document["tests"][0]["recommended"], small["id"], "{document}");
    bench.run("report 1").exits(0).prints(&["lost", "Avoid SO_RCVBUF 8K", "of the datagrams lost"]);
    bench.run("report 1 --full").exits(0).prints(&[
        "worst burst",
        "of the bursts lost some",
        "at the receiver's full socket buffer",
    ]);
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

/// A session keeps what its user wants to compare: its later reports have the same result.
#[test]
fn an_objective_is_kept() {
    let bench = Bench::new();
    let words = "call --transport unix --flows 2 --server-engine blocking,epoll --profile echo --trial-time 50ms --blocks 2 \
                 --long-trials off --time 5s --quiet --objective p99 --format json";
    let compares = |words: &str| bench.run(words).exits(0).json()["tests"][0]["compares"].clone();
    assert_eq!(compares(words), "p99");
    assert_eq!(compares("report 1 --format json"), "p99");
    assert_eq!(compares("report 1 --objective time --format json"), "time");
    bench.run("report 1 --objective gap-p99").exits(2).complains(&["session 1 has no replies in parts"]);
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
    assert!(!ran.stdout.contains("compare the levels of"), "{ran}");
}

/// The same of two ways to write a client; the CPU time is then that of the client.
#[test]
fn named_client_engines_can_be_compared_next() {
    let bench = Bench::new();
    let short = "--flows 2 --server-engine epoll --client-engine epoll,blocking --profile echo --trial-time 400ms --blocks 2 \
                 --long-trials off --time 10s --quiet";
    let ran = bench.run(&format!("call {short}")).exits(0);
    ran.prints(&["--compare client-engine"]);
    let ran = bench.run(&format!("call --compare client-engine {short}")).exits(0);
    let ran = ran.prints(&["CPU µs/call"]);
    assert!(!ran.stdout.contains("compare the levels of"), "{ran}");
    bench.run("report --full").exits(0).prints(&["CPU µs/call"]);
}

/// One connection, its messages in two parts: the second one waits for the acknowledgement of the first, 40 ms, unless an option
/// prevents it.
const IN_PARTS: &str = "call --transport tcp --flows 1 --server-engine epoll --profile echo --trial-time 600ms --blocks 2 \
                        --long-trials off --time 12s --quiet --format json";

/// The rates of two options that differ in a switch: with it, and without.
fn switched(factor: &str, words: &str) -> [f64; 2] {
    let document = Bench::new().run(&format!("{IN_PARTS} {words}")).exits(0).json();
    let options = options(&document);
    [true, false].map(|on| with(&options, factor, &on.into())["rate"].as_f64().expect("a rate"))
}

#[test]
fn repeated_quickack_ends_the_wait() {
    let words = "--request 200 --request-chunk 100 --nodelay off --quickack on --quickack-again on,off";
    let [again, once] = switched("quickack_again", words);
    assert!(once < 30.0 && again > once, "{again} {once}");
}

#[test]
fn relay_without_nodelay_waits() {
    let words =
        "--relay read-write --response 200 --response-chunk 100 --response-gap 5ms --nodelay on --relay-nodelay on,off";
    let [on, off] = switched("relay_nodelay", words);
    assert!(off < 30.0 && on > off, "{on} {off}");
}

/// The reports of an end in every trial that moved data, each with a level of its cell.
fn reports(raw: &Raw, end: &str, factor: &str) -> Vec<(Value, Value)> {
    let level =
        |id: &Value| raw.cells.iter().find(|line| line["cell"]["id"] == *id).map(|line| &line["cell"]["factors"]);
    let trials = raw.trials.iter().filter(|trial| trial["ends"][end]["bytes"].as_u64() > Some(0));
    let all = trials.filter_map(|trial| Some((level(&trial["cell"])?[factor].clone(), trial["ends"][end].clone())));
    all.filter(|(level, _)| !level.is_null()).collect()
}

#[test]
fn nodelay_is_set_at_the_named_ends() {
    let bench = Bench::new();
    let short = "--trial-time 50ms --blocks 1 --analyses 1 --long-trials off --time 5s --seed 1 --quiet";
    bench.run(&format!(
        "call --transport tcp --flows 1 --server-engine epoll --profile echo --nodelay on --nodelay-at both,client,server {short}"
    ));
    let raw = Raw::of(&bench, 1);
    for (end, other) in [("client", "server"), ("server", "client")] {
        let set: Vec<(Value, bool)> = reports(&raw, end, "nodelay_at")
            .iter()
            .flat_map(|(level, report)| report["flows"].as_array().unwrap().iter().map(move |flow| (level, flow)))
            .filter_map(|(level, flow)| Some((level.clone(), flow["options"]["nodelay"].as_bool()?)))
            .collect();
        for at in ["both", "client", "server"] {
            let of_level: Vec<bool> = set.iter().filter(|(level, _)| *level == at).map(|(_, on)| *on).collect();
            assert!(!of_level.is_empty(), "{end}, {at}: {:?}", raw.reasons());
            assert!(of_level.iter().all(|on| *on == (at != other)), "{end}, {at}: {of_level:?}");
        }
    }
}

#[test]
fn reader_without_gro_takes_single_datagrams() {
    let bench = Bench::new();
    let short = "--trial-time 50ms --blocks 1 --analyses 1 --long-trials off --time 5s --seed 1 --quiet";
    bench.run(&format!("stream --transport udp --engine gso --write-size 1400 --read-size 64K --gro on,off {short}"));
    let raw = Raw::of(&bench, 1);
    let reports = reports(&raw, "sink", "gro");
    for on in [true, false] {
        let of_level = reports.iter().filter(|(level, _)| *level == on);
        let counts =
            of_level.map(|(_, report)| ["total", "total_packets"].map(|name| report["datagrams"][name].as_u64()));
        let counts: Vec<_> = counts.collect();
        assert!(!counts.is_empty(), "{:?}", raw.reasons());
        assert!(counts.iter().all(|[datagrams, packets]| (datagrams > packets) == on), "{on}: {counts:?}");
    }
}
