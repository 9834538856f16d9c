//! Other traffic of a far host than a stream one way: datagrams, and bytes both ways at once.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::bench::{Bench, Ran};
use crate::far::{STREAM, agent, check_cells, ends_of, stopped};
use crate::raw::{Raw, number};

/// A stream of datagrams, by every engine that joins or cuts none by itself, and one that does.
pub const DATAGRAMS: &str = "stream --transport udp --profile drain --read-size 64K --write-size 1000 \
                      --engine plain,mmsg,gso --trial-time 100ms --blocks 2 --analyses 1 --long-trials off --time 6s --seed 1 --quiet \
                      --format json";

/// Each trial of both ways has the bytes of each way, and the rate of a cell is their sum.
#[track_caller]
fn check_both_ways(ran: &Ran, bench: &Bench) {
    let document = ran.json();
    let raw = Raw::of(bench, document["session"].as_i64().unwrap());
    raw.check_sound();
    let both = |trial: &&Value| trial["cell"] == "c1" && trial["outcome"]["kind"] == "measured";
    assert!(raw.trials.iter().any(|trial| both(&trial)));
    for trial in raw.trials.iter().filter(both) {
        for back in [false, true] {
            let of = |role: &str, count: &str| -> u64 {
                let flows = trial["ends"][role]["flows"].as_array().unwrap().iter();
                flows
                    .filter(|flow| flow["back"].as_bool().unwrap_or(false) == back)
                    .map(|flow| number(&flow[count]))
                    .sum()
            };
            assert_eq!(of("source", "total_bytes"), of("sink", "total_bytes"), "{trial}");
            assert!(of("sink", "bytes") > 0, "{trial}");
        }
    }
    let cell = document["cells"].as_array().unwrap().iter().find(|cell| cell["id"] == "c1").unwrap();
    for name in ["to_bytes_per_second", "from_bytes_per_second", "near_cpus", "far_cpus"] {
        assert!(cell["more"][name]["median"].as_f64() > Some(0.0), "{name}: {cell}");
    }
}

#[test]
fn streams_go_both_ways_at_once() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, "");
    // Longer than a busy machine keeps a reader from running.
    let words = STREAM
        .replace("--trial-time 100ms --blocks 2", "--trial-time 1s --blocks 1 --time 9s")
        .replace("--time 3s ", "");
    for flags in ["--verify", "--flows 3 --ends processes", "--engine epoll --flows 3", "--engine tokio --verify"] {
        let ran = bench.run(&format!("{words} --host {place} --key-file key --direction both {flags}")).exits(0);
        check_cells(&ran, &place, ["source", "sink"], &bench);
        check_both_ways(&ran, &bench);
    }
    bench.run("report --full").exits(0).prints(&["TCP to and from the host", " there ", " near CPUs "]);
    assert_eq!(ends_of(&bench), 0);
    stopped(agent);
    let ran = bench.run(&format!("{STREAM} --transport tcp --direction both")).exits(0);
    check_both_ways(&ran, &bench);
}

/// Every datagram of each cell is accounted for by the counts of both ends.
#[track_caller]
pub fn check_datagrams(document: &Value) {
    let cells = document["cells"].as_array().unwrap().iter().filter(|cell| cell["kind"] == "candidate");
    let measured: Vec<&Value> = cells.filter(|cell| cell["outcome"] == "measured").collect();
    assert!(!measured.is_empty(), "{document}");
    for cell in measured {
        let of = |name: &str| number(&cell["datagrams"][name]);
        assert!(of("arrived") > 0, "{cell}");
        assert_eq!(of("sent"), of("arrived") - of("duplicated") + of("lost"), "{cell}");
        assert_eq!(of("lost"), of("lost_at_socket") + of("lost_unknown"), "{cell}");
    }
}

#[test]
fn far_datagrams_are_all_accounted_for() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, "");
    for flags in ["--verify", "--direction from --flows 3", "--flows 3 --ends processes"] {
        let ran = bench.run(&format!("{DATAGRAMS} --host {place} --key-file key {flags}")).exits(0);
        check_cells(&ran, &place, ["source", "sink"], &bench);
        check_datagrams(&ran.json());
    }
    assert_eq!(ends_of(&bench), 0);
    stopped(agent);
    // No session keeps the agent's port.
    let (agent, place) = crate::far::agent(&bench, "--max-sessions 2");
    let ran = bench.run(&format!("{DATAGRAMS} --host {place} --key-file key")).exits(0);
    check_datagrams(&ran.json());
    stopped(agent);
}

/// Datagrams came each way, and of each way no more than were sent.
#[track_caller]
fn check_datagrams_both_ways(ran: &Ran, bench: &Bench) {
    check_datagrams(&ran.json());
    let raw = Raw::of(bench, ran.json()["session"].as_i64().unwrap());
    let both = |trial: &&Value| trial["cell"] != "floor" && trial["outcome"]["kind"] == "measured";
    let mut came_back = 0;
    for trial in raw.trials.iter().filter(both).filter(|trial| !trial["ends"]["source"].is_null()) {
        for back in [false, true] {
            let of = |role: &str| -> u64 {
                let flows = trial["ends"][role]["flows"].as_array().unwrap().iter();
                let flows = flows.filter(|flow| flow["back"].as_bool().unwrap_or(false) == back);
                flows.map(|flow| number(&flow["datagrams"]["total"])).sum()
            };
            let (sent, came) = (of("source"), of("sink"));
            assert!(came > 0 && came <= sent, "{trial}");
            came_back += if back { came } else { 0 };
        }
    }
    assert!(came_back > 0, "{ran}");
}

#[test]
fn datagrams_go_both_ways_at_once() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, "");
    // Longer than a busy machine keeps a reader from running; a cell that it keeps so all the same is left out.
    let words = DATAGRAMS.replace("--trial-time 100ms", "--trial-time 400ms").replace("--time 6s", "--time 15s");
    let of_processes = words.replace("plain,mmsg,gso", "mmsg");
    for (words, flags) in [(&words, "--verify"), (&of_processes, "--flows 3 --ends processes")] {
        let ran = bench.run(&format!("{words} --host {place} --key-file key --direction both {flags}")).exits(0);
        check_datagrams_both_ways(&ran, &bench);
    }
    assert_eq!(ends_of(&bench), 0);
    stopped(agent);
    let ran = bench.run(&format!("{words} --direction both --verify")).exits(0);
    check_datagrams_both_ways(&ran, &bench);
}

/// Calls over datagrams.
const CALLS: &str = "call --transport udp --work none --timeout 5s --trial-time 100ms --blocks 2 --analyses 1 --long-trials off --time 6s \
                     --rate 2k --seed 1 --quiet --format json";

/// In every trial each request and each reply that came was sent, and each call ended once.
#[track_caller]
fn check_calls(ran: &Ran, bench: &Bench) {
    let raw = Raw::of(bench, ran.json()["session"].as_i64().unwrap());
    // On a machine that is busy enough a server finds every datagram alone, and few calls come through a window.
    let starved = ["no call moved more than one datagram", "are mostly their first ones"];
    let unexpected = |trouble: &String| !starved.iter().any(|reason| trouble.contains(reason));
    assert_eq!(raw.troubles().into_iter().filter(unexpected).collect::<Vec<_>>(), Vec::<String>::new());
    for trial in raw.trials.iter().filter(|trial| trial["cell"] == "c1" && trial["outcome"]["kind"] == "measured") {
        let of = |role: &str, count: &str| number(&trial["ends"][role]["call"]["datagrams"][count]);
        assert!(of("server", "received") <= of("client", "sent"), "{trial}");
        assert!(of("client", "received") <= of("server", "sent"), "{trial}");
        assert_eq!(of("client", "strange"), 0, "{trial}");
    }
}

#[test]
fn datagram_calls_cross_hosts_in_both_directions() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, "");
    // At a low rate a server may find each datagram alone, which is no work for mmsg.
    let at_once = CALLS.replace(" --rate 2k", "");
    for (words, flags) in [
        (at_once.as_str(), "--flows 4 --server-engine plain,mmsg --depth 16"),
        (CALLS, "--flows 3 --direction from --verify --ends processes"),
    ] {
        let ran = bench.run(&format!("{words} --host {place} --key-file key {flags}")).exits(0);
        check_cells(&ran, &place, ["client", "server"], &bench);
        check_calls(&ran, &bench);
    }
    let short = bench.run(&format!("{CALLS} --host {place} --key-file key --read-size 16 --request 8"));
    assert!(format!("{short}").contains("--read-size of 36 or more"), "{short}");
    assert_eq!(ends_of(&bench), 0);
    stopped(agent);
    // No session keeps the agent's port.
    let (agent, place) = crate::far::agent(&bench, "--max-sessions 2");
    let ran = bench.run(&format!("{CALLS} --host {place} --key-file key --flows 4")).exits(0);
    check_calls(&ran, &bench);
    stopped(agent);
}

#[test]
fn unauthenticated_datagrams_get_no_reply() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, "");
    let outsider = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (over, sent) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Nothing, garbage, as much as is shown, one byte more, and more than any of them.
            let messages: [&[u8]; 5] = [&[], b"GET / HTTP/1.1\r\n\r\n", &[7; 36], &[7; 37], &[0; 9000]];
            while !over.load(Ordering::SeqCst) {
                for message in messages {
                    let taken = outsider.send_to(message, &place).is_ok();
                    sent.fetch_add(usize::from(taken), Ordering::SeqCst);
                }
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        let streams = bench.run(&format!("{DATAGRAMS} --flows 2 --verify --host {place} --key-file key"));
        // Their server receives unauthenticated datagrams all the time.
        let calls = bench.run(&format!("{CALLS} --flows 2 --verify --host {place} --key-file key"));
        over.store(true, Ordering::SeqCst);
        let (streams, calls) = (streams.exits(0), calls.exits(0));
        check_datagrams(&streams.json());
        let raw = Raw::of(&bench, streams.json()["session"].as_i64().unwrap());
        assert_eq!(raw.troubles(), Vec::<String>::new());
        check_calls(&calls, &bench);
    });
    assert!(sent.load(Ordering::SeqCst) > 0);
    outsider.set_nonblocking(true).unwrap();
    assert_eq!(outsider.recv(&mut [0; 64]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    stopped(agent);
}

/// Streams load the path of calls over a session of their own.
#[test]
fn streams_load_the_path_of_calls_between_hosts() {
    let bench = Bench::new();
    let call = "call --profile echo --flows 2 --rate 500 --load-flows 0,2 --trial-time 300ms --blocks 2 --analyses 1 \
                --long-trials off --time 6s --seed 1 --quiet --format json --key-file key --host";
    let (one, place) = agent(&bench, "");
    bench.run(&format!("{call} {place}")).exits(5).complains(&["--load-flows", "--max-sessions 2"]);
    stopped(one);
    let (two, place) = agent(&bench, "--max-sessions 2");
    let ran = bench.run(&format!("{call} {place}")).exits(0);
    check_cells(&ran, &place, ["client", "server"], &bench);
    stopped(two);
    let raw = Raw::of(&bench, ran.json()["session"].as_i64().unwrap());
    let measured = || raw.trials.iter().filter(|trial| trial["outcome"]["kind"] == "measured");
    // In both directions: a source and a sink at each host, in the loaded trials alone.
    let loaded = |trial: &&Value| trial["ends"]["sink"]["bytes"].as_u64().is_some_and(|bytes| bytes > 0);
    assert!(measured().any(|trial| loaded(&trial)) && measured().any(|trial| !loaded(&trial)), "{ran}");
}
