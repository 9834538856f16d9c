//! `serve`: external clients, here the sockets of the standard library, get their replies.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::bench::{Bench, Ran, Running};
use crate::running_relays::free_address;

/// The serving engines; missing ones are reported and skipped.
const ENGINES: [&str; 9] = [
    "blocking",
    "epoll",
    "epoll:edge",
    "epoll:batch",
    "tokio",
    "uring:plain",
    "uring:multishot",
    "uring:bundle",
    "uring:zc",
];

/// The longest wait of a read or write; a longer one hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts a server and waits for its address. `None`: this machine lacks the engine.
fn serving(bench: &Bench, words: &str) -> Option<(Running, String)> {
    let mut running = bench.start(&format!("serve {words}"));
    let deadline = Instant::now() + PATIENCE;
    loop {
        let message = running.stdout();
        if let Some(place) = message.strip_suffix('\n').and_then(|message| message.strip_prefix("listening on ")) {
            return Some((running, place.to_owned()));
        }
        if running.stderr().contains("bytegauge:") && words.contains("uring") {
            let ran = running.wait().exits(5);
            eprintln!("SKIPPED: {}", ran.stderr);
            return None;
        }
        assert!(Instant::now() < deadline, "serve {words} prints nothing");
        running.until("a moment", |_| true);
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn connect(place: &str) -> TcpStream {
    let stream = TcpStream::connect(place).unwrap_or_else(|error| panic!("{place}: {error}"));
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn ended(running: Running, signal: &str) -> Ran {
    running.signal(signal);
    running.wait().exits(0)
}

/// A pattern that no shift of itself resembles.
fn bytes(count: usize, seed: u32) -> Vec<u8> {
    (0..count as u32).map(|i| (i.wrapping_add(seed).wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Sends all and shuts down, while everything that comes is collected.
fn exchanged(mut stream: TcpStream, sent: &[u8]) -> Vec<u8> {
    let mut returned = Vec::new();
    let mut reader = stream.try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            stream.write_all(sent).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        });
        reader.read_to_end(&mut returned).unwrap();
    });
    returned
}

#[test]
fn echo_serves_two_half_closing_clients() {
    for engine in ENGINES {
        let bench = Bench::new();
        let Some((running, place)) = serving(&bench, &format!("echo --engine {engine} --threads 2")) else { continue };
        // Both connections are open before the first byte.
        let clients = [connect(&place), connect(&place)];
        std::thread::scope(|scope| {
            for (seed, client) in clients.into_iter().enumerate() {
                scope.spawn(move || {
                    let sent = bytes(1 << 20, seed as u32);
                    let returned = exchanged(client, &sent);
                    assert!(returned == sent, "{engine}: {} of {} bytes, or others", returned.len(), sent.len());
                });
            }
        });
        let (ran, both) = (ended(running, "TERM"), 2 << 20);
        ran.complains(&["served 2 connections, ", &format!("{both} bytes in, {both} bytes out"), "CPU seconds"]);
    }
}

#[test]
fn an_echo_returns_a_byte_at_once() {
    let bench = Bench::new();
    let (running, place) = serving(&bench, "echo --listen localhost:0").unwrap();
    let mut client = connect(&place);
    for byte in [1, 2, 3] {
        client.write_all(&[byte]).unwrap();
        let mut returned = [0];
        client.read_exact(&mut returned).unwrap();
        assert_eq!(returned, [byte]);
    }
    // The client is still there when the server leaves.
    ended(running, "INT").complains(&["served 1 connection, 3 bytes in, 3 bytes out"]);
    assert_eq!(client.read(&mut [0]).unwrap_or(0), 0);
}

#[test]
fn sink_takes_everything_and_sends_nothing() {
    for engine in ENGINES {
        let bench = Bench::new();
        let Some((running, place)) = serving(&bench, &format!("sink --engine {engine}")) else { continue };
        assert!(exchanged(connect(&place), &bytes(3_000_000, 1)).is_empty());
        ended(running, "TERM").complains(&["served 1 connection, 3000000 bytes in, 0 bytes out"]);
    }
}

#[test]
fn source_survives_leaving_readers() {
    for engine in ENGINES {
        let bench = Bench::new();
        let Some((running, place)) = serving(&bench, &format!("source --engine {engine}")) else { continue };
        for _ in 0..2 {
            let mut client = connect(&place);
            let mut got = vec![0; 5_000_000];
            client.read_exact(&mut got).unwrap();
            assert!(got.iter().all(|byte| *byte == got[0]));
        }
        ended(running, "INT").complains(&["served 2 connections, 0 bytes in"]);
    }
}

#[test]
fn client_that_never_reads_blocks_no_other() {
    for engine in ENGINES {
        let bench = Bench::new();
        let Some((running, place)) = serving(&bench, &format!("source --engine {engine}")) else { continue };
        let silent = connect(&place);
        let mut client = connect(&place);
        client.read_exact(&mut vec![0; 1 << 20]).unwrap();
        // Not even the server's end, though the silent one is full.
        ended(running, "TERM").complains(&["served 2 connections"]);
        drop(silent);
    }
}

#[test]
fn a_unix_socket_is_removed_in_the_end() {
    let bench = Bench::new();
    let path = bench.path("socket");
    let words = format!("echo --listen unix:{}", path.display());
    let (running, place) = serving(&bench, &words).unwrap();
    assert_eq!(place, format!("unix:{}", path.display()));
    let mut client = UnixStream::connect(&path).unwrap();
    client.write_all(b"hello").unwrap();
    let mut returned = [0; 5];
    client.read_exact(&mut returned).unwrap();
    assert_eq!(&returned, b"hello");
    bench.run(&format!("serve {words}")).exits(5).complains(&["exists: remove it"]);
    assert!(path.exists(), "a second server took the first one's socket away");
    ended(running, "TERM");
    assert!(!path.exists());
}

#[test]
fn taken_port_gets_advice() {
    let bench = Bench::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = taken.local_addr().unwrap();
    let ran = bench.run(&format!("serve sink --listen {place}")).exits(5);
    ran.complains(&["cannot listen on", &format!("port {} is taken: use another one", place.port())]);
}

#[test]
fn a_port_can_be_taken_again_at_once() {
    let bench = Bench::new();
    // No other socket gets this port automatically between the two servers.
    let (running, place) = serving(&bench, &format!("echo --listen {}", free_address())).unwrap();
    let mut client = connect(&place);
    client.write_all(b"x").unwrap();
    client.read_exact(&mut [0]).unwrap();
    // The server closes first, so its side lingers in TIME_WAIT.
    ended(running, "TERM");
    drop(client);
    let (running, again) = serving(&bench, &format!("echo --listen {place}")).unwrap();
    assert_eq!(again, place);
    ended(running, "TERM");
}

#[test]
fn wrong_words_are_refused() {
    let bench = Bench::new();
    let check = |words: &str, code: i32, text: &str| {
        bench.run(&format!("serve {words}")).exits(code).complains(&[text]);
    };
    check("echo --listen 7000", 2, "is not a place");
    check("echo --listen 127.0.0.1:99999", 2, "is not a place");
    check("echo --listen unix:", 2, "is not a place");
    check("echo --listen 192.0.2.1:0", 5, "is no address of this machine");
    check("echo --listen unix:/no/such/folder/x", 5, "cannot be made");
    check("echo --engine steam", 2, "--engine");
    check("echo --engine null", 2, "null moves no bytes");
    check("echo --threads 0", 2, "0 is not in 1..=1024");
    check("tea", 2, "tea");
    check("", 2, "serve");
}
