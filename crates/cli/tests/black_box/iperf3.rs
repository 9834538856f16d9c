//! Interoperation with iperf3 itself: `stream --connect iperf3://` against its server. Skipped where it is not installed.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;

use serde_json::Value;

use crate::bench::{Bench, Running, possible, unused_address};
use crate::raw::Raw;

const SHORT: &str = "--profile drain --trial-time 100ms --blocks 2 --long-trials off --time 6s --seed 1";

/// Without a profile, which is the server's where it reads.
const WRITES: &str = "--trial-time 100ms --blocks 2 --long-trials off --time 6s --seed 1";

fn is_here() -> bool {
    possible("the peer is iperf3", "iperf3", &["--version"])
}

/// An iperf3 server on a free port of loopback.
struct Iperf3 {
    running: Running,
    port: u16,
}

impl Iperf3 {
    fn start(bench: &Bench) -> Iperf3 {
        // Another program may take the port in between.
        for _ in 0..5 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let words = format!("-s -p {port} --forceflush");
            let mut command = Command::new("iperf3");
            command.args(words.split(' '));
            let mut running = bench.spawn(command, words);
            if running.comes_to("a listener", |server| server.stdout().contains("Server listening")) {
                return Iperf3 { running, port };
            }
        }
        panic!("iperf3 does not listen");
    }

    fn place(&self) -> String {
        format!("iperf3://127.0.0.1:{}", self.port)
    }

    fn stop(self) -> String {
        self.running.kill().stdout
    }
}

/// The reports of an iperf3 server in the last session, each next to that of the end here.
fn reports(bench: &Bench, end: &str) -> Vec<(Value, Value)> {
    let raw = Raw::of(bench, 1);
    assert_eq!(raw.troubles(), [""; 0]);
    let with = raw.trials.iter().map(|trial| &trial["ends"][end]).filter(|end| !end["iperf3"].is_null());
    let reports: Vec<_> = with.map(|end| (end.clone(), end["iperf3"].clone())).collect();
    assert!(!reports.is_empty(), "a report of the server");
    reports
}

#[test]
fn iperf3_server_reads() {
    if !is_here() {
        return;
    }
    let bench = Bench::new();
    let server = Iperf3::start(&bench);
    let flags = "--write-size 16K,256K --flows 2 --engine blocking,epoll";
    let ran = bench.run(&format!("stream --connect {} {WRITES} {flags} --format json", server.place())).exits(0);
    for cell in ran.json()["cells"].as_array().unwrap().iter().filter(|cell| cell["kind"] == "candidate") {
        assert_eq!(cell["outcome"], "measured", "{cell}");
    }
    let notes = ran.json()["notes"].to_string();
    assert!(notes.contains("the iperf3 server counted"), "{notes}");
    for (end, report) in reports(&bench, "source") {
        let (written, read) = (end["total_bytes"].as_u64().unwrap(), report["bytes"].as_u64().unwrap());
        assert!(0 < read && read <= written, "{read} of {written}");
        assert!(report["duration_ns"].as_u64() > Some(0) && report["datagrams"].is_null(), "{report}");
    }
    let printed = server.stop();
    assert!(printed.contains("[SUM]") && !printed.contains("error"), "{printed}");
}

#[test]
fn iperf3_server_writes() {
    if !is_here() {
        return;
    }
    let bench = Bench::new();
    let server = Iperf3::start(&bench);
    for (session, flags) in ["--engine blocking,epoll --flows 2", "--rate 10M --read-size 64K"].into_iter().enumerate()
    {
        let bench = if session == 0 { &bench } else { &Bench::new() };
        let words = format!("stream --connect {} --role reader {SHORT} {flags} --format json", server.place());
        bench.run(&words).exits(0);
        for (end, report) in reports(bench, "sink") {
            // Whatever it counts as written has arrived.
            let (came, written) = (end["total_bytes"].as_u64().unwrap(), report["bytes"].as_u64().unwrap());
            assert!(0 < written && written <= came, "{came} of {written}");
        }
    }
    let printed = server.stop();
    assert!(!printed.contains("error"), "{printed}");
}

#[test]
fn datagrams_are_counted_by_both() {
    if !is_here() {
        return;
    }
    let bench = Bench::new();
    let server = Iperf3::start(&bench);
    let flags = "--transport udp --write-size 1000 --engine plain,mmsg --rate 5M";
    bench.run(&format!("stream --connect {} {WRITES} {flags}", server.place())).exits(0);
    for (end, report) in reports(&bench, "source") {
        let (sent, highest) = (end["datagrams"]["total"].as_u64().unwrap(), report["datagrams"].as_u64().unwrap());
        assert!(0 < highest && highest <= sent, "{highest} of {sent}");
        assert!(report["lost"].as_u64().unwrap() < highest, "{report}");
    }
    let bench = Bench::new();
    bench.run(&format!("stream --connect {} --role reader {SHORT} {flags}", server.place())).exits(0);
    for (end, report) in reports(&bench, "sink") {
        let (came, sent) = (end["datagrams"]["total"].as_u64().unwrap(), report["datagrams"].as_u64().unwrap());
        assert!(0 < came && came <= sent, "{came} of {sent}");
    }
    server.stop();
}

#[test]
fn absent_server_is_reported_before_anything_is_measured() {
    let bench = Bench::new();
    let (_unused, at) = unused_address();
    let (_, port) = at.rsplit_once(':').unwrap();
    let ran = bench.run(&format!("stream --connect iperf3://{at} {WRITES}")).exits(5);
    ran.complains(&["cannot connect to the iperf3 server", &format!("iperf3 -s -p {port}")]);
}

#[test]
fn other_server_is_no_iperf3_server() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((mut socket, _)) = listener.accept() {
            let _ = socket.read(&mut [0; 64]);
            let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let bench = Bench::new();
    let ran = bench.run(&format!("stream --connect iperf3://{at} {WRITES}")).exits(5);
    ran.complains(&["state 72", "the peer is no iperf3"]);
}

#[test]
fn busy_server_is_reported() {
    if !is_here() {
        return;
    }
    let bench = Bench::new();
    let server = Iperf3::start(&bench);
    let mut command = Command::new("iperf3");
    command.args(["-c", "127.0.0.1", "-p", &server.port.to_string(), "-t", "100", "-b", "1M", "--forceflush"]);
    let mut client = bench.spawn(command, "a client".into());
    client.until("a test", |client| client.stdout().contains("connected to"));
    let ran = bench.run(&format!("stream --connect {} {WRITES}", server.place())).exits(5);
    ran.complains(&["serves one client at a time", "iperf3 -s -p PORT"]);
    client.kill();
    server.stop();
}
