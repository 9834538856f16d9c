//! A session is looked at while it goes on: by those who know the address, and without the session hearing of it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use crate::bench::{Bench, Running};

/// A session that runs until it is stopped. Its load is low and its trials are few: on a busy machine the watcher would not keep up
/// with a session that takes all CPU time and grows by 50 trials a second.
const ENDLESS: &str = "stream --connection-age fresh --transport unix --profile drain --read-size 4K,64K --write-size 64K \
                       --rate 10M --trial-time 200ms --blocks 100000 --analyses 1 --time 180m --seed 1 --quiet";

/// The longest wait for a reply.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running session and its watcher, with the printed address.
fn watched(bench: &Bench) -> (Running, Running, String) {
    let mut session = bench.start(ENDLESS);
    session.until("a lock", |_| lock(bench).exists());
    let mut watch = bench.start("report --watch");
    watch.until("an address", |watch| watch.stdout().contains("until it ends"));
    let reported = watch.stdout();
    let address = reported.split_whitespace().find(|word| word.starts_with("http://127.0.0.1:")).expect("an address");
    (session, watch, address.to_owned())
}

fn lock(bench: &Bench) -> std::path::PathBuf {
    let store = bench.store();
    store.with_file_name(format!("{}.session-1.lock", store.file_name().expect("a name").display()))
}

/// Host with port, and the path with the token.
fn parts(address: &str) -> (&str, String) {
    let (place, token) = address.trim_start_matches("http://").split_once('/').expect("a path");
    (place, format!("/{token}"))
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(parts(address).0).expect("a server");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    stream
}

/// Sends a request and reads the whole reply.
fn ask(address: &str, request: &str) -> String {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).expect("a request");
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).expect("a reply");
    String::from_utf8(reply).expect("text")
}

fn get(address: &str, path: &str, header: &str) -> String {
    let host = parts(address).0;
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{header}\r\n"))
}

#[test]
fn only_the_secret_address_shows_the_session() {
    let bench = Bench::new();
    let (session, watch, address) = watched(&bench);
    let (_, token) = parts(&address);
    let page = get(&address, &token, "");
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page:.200}");
    assert!(page.contains("default-src 'none'; connect-src 'self'") && page.contains("\"every_ms\""));
    let data = get(&address, &format!("{token}data"), "");
    let (head, body) = data.split_once("\r\n\r\n").expect("a head");
    let documents: serde_json::Value = serde_json::from_str(body).expect("JSON");
    assert_eq!((&documents[0]["session"], &documents[0]["status"]), (&1.into(), &"running".into()));
    let tag = head.lines().find_map(|line| line.strip_prefix("ETag: ")).expect("a tag");
    // A request was made, so newer documents may have replaced it.
    let again = get(&address, &format!("{token}data"), &format!("If-None-Match: {tag}\r\n"));
    assert!(["HTTP/1.1 304 ", "HTTP/1.1 200 "].iter().any(|status| again.starts_with(status)), "{again:.200}");
    for path in ["/", "/data", "/0123456789abcdef0123456789abcdef/", &token[..token.len() - 2]] {
        let refused = get(&address, path, "");
        assert!(refused.starts_with("HTTP/1.1 404 ") && !refused.contains("unix"), "{path}: {refused:.200}");
    }
    let post = format!("POST {token} HTTP/1.1\r\nHost: {}\r\n\r\n", parts(&address).0);
    assert!(ask(&address, &post).starts_with("HTTP/1.1 405 "));
    let elsewhere = ask(&address, &format!("GET {token} HTTP/1.1\r\nHost: evil.example\r\n\r\n"));
    assert!(elsewhere.starts_with("HTTP/1.1 421 ") && !elsewhere.contains("unix"), "{elsewhere:.200}");
    assert!(ask(&address, "\0\x01\x02 what\r\n\r\n").starts_with("HTTP/1.1 400 "));
    // The watcher leaves; the session goes on.
    watch.signal("INT");
    watch.wait().exits(0);
    assert!(lock(&bench).exists());
    session.signal("INT");
    session.wait().exits(130);
}

#[test]
fn browser_that_never_reads_blocks_no_other() {
    let bench = Bench::new();
    let (session, watch, address) = watched(&bench);
    let (_, token) = parts(&address);
    let request = format!("GET {token} HTTP/1.1\r\nHost: {}\r\n\r\n", parts(&address).0);
    let silent: Vec<TcpStream> = (0..6)
        .map(|at| {
            let mut stream = connect(&address);
            // Some ask and never read, some never ask.
            stream.write_all(if at % 2 == 0 { request.as_bytes() } else { b"GET " }).expect("a request");
            stream
        })
        .collect();
    assert!(get(&address, &token, "").starts_with("HTTP/1.1 200 OK"));
    session.signal("INT");
    session.wait().exits(130);
    watch.wait().exits(0).prints(&["session 1 was interrupted: continue with --resume 1", "report 1 --html"]);
    drop(silent);
}

#[test]
fn page_ends_with_its_session() {
    let bench = Bench::new();
    let (session, watch, _) = watched(&bench);
    // As after a power failure: the end is not recorded.
    session.kill();
    watch.wait().exits(0).prints(&["session 1 was cut off: continue with --resume 1"]);
    bench.run("report --watch").exits(2).complains(&["no session of this store is running", "report --html"]);
    bench.run("report --watch 1").exits(2).complains(&["session 1 is not running", "report 1 --html"]);
    bench.run("report --watch 7").exits(2).complains(&["session 7"]);
}

#[test]
fn unwatchable_session_gets_advice() {
    let bench = Bench::new();
    bench.run("report --watch").exits(2).complains(&["bytegauge run buffer-size"]);
    let mut session = bench.start(ENDLESS);
    session.until("a lock", |_| lock(&bench).exists());
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("its number").port();
    bench.run(&format!("report --watch --port {port}")).exits(5).complains(&["is not available", "--port"]);
    bench.run("report --watch --port 65536").exits(2);
    session.signal("INT");
    session.wait().exits(130);
}

#[test]
fn a_session_starts_its_own_page() {
    let bench = Bench::new();
    let mut session = bench.start(&format!("{ENDLESS} --watch"));
    session.until("an address", |session| session.stderr().contains("session 1 is at http://127.0.0.1:"));
    session.signal("INT");
    session.wait().exits(130);
}
