//! `serve iperf3`: iperf3 itself as the client, and clients that misbehave.

use std::io::ErrorKind::WouldBlock;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use serde_json::Value;

use crate::bench::{Bench, Running, possible};
use crate::raw::Raw;

/// A server of the product, with its port.
fn started(bench: &Bench, flags: &str) -> (Running, u16) {
    let mut server = bench.start(&format!("serve iperf3 --listen 127.0.0.1:0 --format json {flags}"));
    server.until("a place", |server| server.stdout().contains('\n'));
    let place = server.stdout().lines().next().unwrap().rsplit_once(':').unwrap().1.parse().unwrap();
    (server, place)
}

/// The tests that a server reported.
fn tests(server: &Running) -> Vec<Value> {
    lines(server).into_iter().filter(|line| !line["connections"].is_null()).collect()
}

/// All lines after the first.
fn lines(server: &Running) -> Vec<Value> {
    let text = server.stdout();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn is_here() -> bool {
    possible("the peer is iperf3", "iperf3", &["--version"])
}

fn client(bench: &Bench, port: u16, flags: &str) -> Running {
    let words = format!("-c 127.0.0.1 -p {port} {flags}");
    let mut command = Command::new("iperf3");
    command.args(words.split_whitespace());
    bench.spawn(command, words)
}

#[test]
fn iperf3_client_is_served() {
    if !is_here() {
        return;
    }
    let bench = Bench::new();
    let (mut server, port) = started(&bench, "--interval 200ms");
    let cases = [
        ("-t 1 -b 20M", "tcp", false, 1),
        ("-t 1 -b 20M -R -P 3", "tcp", true, 3),
        ("-t 1 -b 2M -u -l 1000 -P 2", "udp", false, 2),
        ("-t 1 -b 2M -u -l 1000 -R --udp-counters-64bit", "udp", true, 1),
        ("-n 100K -N -C reno", "tcp", false, 1),
    ];
    for (index, (flags, transport, server_writes, connections)) in cases.into_iter().enumerate() {
        let ran = client(&bench, port, &format!("{flags} --json")).wait().exits(0);
        server.until("the test", |server| tests(server).len() > index);
        let test = &tests(&server)[index];
        assert_eq!((&test["transport"], &test["server_writes"]), (&transport.into(), &server_writes.into()), "{test}");
        assert_eq!((&test["connections"], &test["problem"]), (&connections.into(), &Value::Null), "{test}");
        let (ours, theirs) = (test["bytes"].as_u64().unwrap(), test["client_bytes"].as_u64().unwrap());
        let (written, read) = if server_writes { (ours, theirs) } else { (theirs, ours) };
        assert!(0 < read && read <= written, "{flags}: {test}");
        let end = &ran.json()["end"];
        assert!(end["streams"].as_array().is_some_and(|streams| streams.len() == connections), "{ran}");
        // Each of the tests that last has intervals.
        let intervals: Vec<Value> =
            lines(&server).into_iter().filter(|line| line["client"] == test["client"]).collect();
        assert!(flags.starts_with("-n") || intervals.iter().any(|line| line["to_seconds"].is_f64()), "{intervals:?}");
        if transport == "udp" {
            assert!(test["datagrams"].as_u64() > Some(0), "{test}");
        }
    }
    server.signal("TERM");
    server.wait().exits(0);
}

#[test]
fn own_client_is_served() {
    let bench = Bench::new();
    let (mut server, port) = started(&bench, "");
    let flags = "--trial-time 100ms --blocks 2 --long-trials off --time 6s --seed 1 --flows 2";
    let words = format!("stream --connect iperf3://127.0.0.1:{port} {flags} --write-size 64K");
    bench.run(&words).exits(0);
    for trial in Raw::of(&bench, 1).trials.iter().filter(|trial| !trial["ends"]["source"]["iperf3"].is_null()) {
        let source = &trial["ends"]["source"];
        assert_eq!(source["total_bytes"], source["iperf3"]["bytes"], "{trial}");
    }
    let other = Bench::new();
    other.run(&words.replace("--write-size 64K", "--role reader --profile drain --read-size 64K")).exits(0);
    server.until("tests of both", |server| {
        let tests = tests(server);
        [false, true].iter().all(|writes| tests.iter().any(|test| test["server_writes"] == *writes))
    });
    server.signal("TERM");
    server.wait().exits(0);
}

#[test]
fn clients_are_served_at_once() {
    if !is_here() {
        return;
    }
    let bench = Bench::new();
    let (mut server, port) = started(&bench, "--max-clients 2");
    // They run until the server stops.
    let mut clients = ["-t 100 -b 1M", "-t 100 -b 1M -R"].map(|flags| {
        let mut client = client(&bench, port, &format!("{flags} --forceflush"));
        client.until("a test", |client| client.stdout().contains("connected to"));
        client
    });
    // Both are past their opening when each has an interval.
    clients.iter_mut().for_each(|client| client.until("data", |client| client.stdout().contains("/sec")));
    let refused = client(&bench, port, "-t 1").wait();
    assert!(refused.stderr.contains("the server is busy"), "{refused}");
    server.until("a refusal", |server| server.stderr().contains("--max-clients"));
    server.signal("TERM");
    let ran = server.wait().exits(0);
    assert!(ran.stdout.contains("the server stops"), "{ran}");
    for client in clients {
        let ran = client.wait();
        assert!(ran.stderr.contains("the server has terminated"), "{ran}");
    }
}

#[test]
fn exclusive_server_queues_clients() {
    if !is_here() {
        return;
    }
    let bench = Bench::new();
    let (mut server, port) = started(&bench, "--exclusive");
    let mut first = client(&bench, port, "-t 100 -b 1M --forceflush");
    first.until("a test", |client| client.stdout().contains("/sec"));
    // One leaves the queue, the next one has its turn when the first one is killed.
    let vanishes = client(&bench, port, "-t 1 -b 1M");
    let second = client(&bench, port, "-t 1 -b 1M");
    vanishes.kill();
    first.kill();
    second.wait().exits(0);
    server.until("both tests", |server| tests(server).len() >= 2);
    let problems: Vec<bool> = tests(&server).iter().map(|test| test["problem"].is_null()).collect();
    assert_eq!(problems.iter().filter(|fine| **fine).count(), 1, "{problems:?}");
    server.signal("TERM");
    server.wait().exits(0);
}

#[test]
fn limits_end_tests() {
    if !is_here() {
        return;
    }
    let bench = Bench::new();
    let (mut server, port) = started(&bench, "--max-time 2s --max-rate 40Mbit --max-bytes 8M");
    let check = |flags: &str, part: &str| {
        let ran = client(&bench, port, flags).wait();
        assert!(ran.stderr.contains(part), "{flags}: {ran}");
    };
    check("-t 3", "test duration too long");
    check("-u -b 100M -t 1", "larger than server limit");
    check("-n 100M", "larger than server limit");
    let ran = client(&bench, port, "-t 1 --json").wait().exits(0);
    let rate = ran.json()["end"]["sum_received"]["bits_per_second"].as_f64().unwrap();
    assert!(rate < 80e6, "{rate}");
    server.until("the tests", |server| tests(server).len() >= 4);
    server.signal("TERM");
    server.wait().exits(0);
}

#[test]
fn broken_clients_block_no_other() {
    let bench = Bench::new();
    let (mut server, port) = started(&bench, "");
    let connect = || TcpStream::connect(("127.0.0.1", port)).unwrap();
    // Silent; another program; a cookie alone; an announced text that is too long; parameters and no connection.
    let _silent = connect();
    connect().write_all(b"GET / HTTP/1.1\r\nHost: x\r\nUser-Agent: y\r\n\r\n").unwrap();
    let cookie = |letter: u8| [&[letter; 36][..], &[0]].concat();
    let mut alone = connect();
    alone.write_all(&cookie(b'a')).unwrap();
    let mut long = connect();
    long.write_all(&[cookie(b'b'), vec![0xff; 4]].concat()).unwrap();
    let mut waits = connect();
    let text = br#"{"tcp":true,"time":1,"parallel":2,"len":1000}"#;
    waits.write_all(&[cookie(b'c'), (text.len() as u32).to_be_bytes().to_vec(), text.to_vec()].concat()).unwrap();
    let mut states = [0; 2];
    waits.read_exact(&mut states).unwrap();
    assert_eq!(states, [9, 10]);
    server.until("refusals", |server| server.stderr().contains("another program"));
    server.until("the limit", |server| server.stderr().contains("the limit is"));
    let flags = "--trial-time 100ms --blocks 2 --long-trials off --time 6s --write-size 64K";
    bench.run(&format!("stream --connect iperf3://127.0.0.1:{port} {flags}")).exits(0);
    drop((alone, waits));
    server.until("early ends", |server| server.stdout().contains("the client left"));
    server.signal("TERM");
    server.wait().exits(0);
}

#[test]
fn surplus_connections_of_a_test_are_closed() {
    const OPENED: usize = 200;
    let bench = Bench::new();
    let (mut server, port) = started(&bench, "");
    let connect = || TcpStream::connect(("127.0.0.1", port)).unwrap();
    let cookie = [&[b'd'; 36][..], &[0]].concat();
    let mut control = connect();
    let text = br#"{"tcp":true,"time":5,"parallel":1,"len":1000}"#;
    control.write_all(&[cookie.clone(), (text.len() as u32).to_be_bytes().to_vec(), text.to_vec()].concat()).unwrap();
    let mut states = [0; 2];
    control.read_exact(&mut states).unwrap();
    assert_eq!(states, [9, 10]);
    let opened: Vec<TcpStream> = (0..OPENED).map(|_| connect()).collect();
    opened.iter().for_each(|mut stream| stream.write_all(&cookie).unwrap());
    control.read_exact(&mut states).unwrap();
    assert_eq!(states, [1, 2], "it begins");
    opened.iter().for_each(|stream| stream.set_nonblocking(true).unwrap());
    let is_closed = |mut stream: &TcpStream| !matches!(stream.read(&mut [0]), Err(error) if error.kind() == WouldBlock);
    server.until("one to be left", |_| opened.iter().filter(|stream| is_closed(stream)).count() == OPENED - 1);
    server.signal("TERM");
    server.wait().exits(0);
}

#[test]
fn impossible_servers_are_refused() {
    let bench = Bench::new();
    let check = |flags: &str, part: &str| bench.run(&format!("serve iperf3 {flags}")).exits(2).complains(&[part]);
    check("--listen unix:/x", "HOST:PORT");
    check("--max-clients 0", "use 1 to 256");
    check("--max-time 10ms", "use 1s or more");
    check("--max-rate max", "100Mbit");
    check("--interval 10ms", "100ms or more");
}
