//! `stream --connect`: our writer and readers that are not ours, good and bad.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use serde_json::Value;

use crate::bench::{Bench, Ran, json_lines, unused_address};

const FLAGS: &str = "--write-size 64K --trial-time 100ms --blocks 2 --time 4s --grace 300ms";

fn feeding(bench: &Bench, at: &str, flags: &str) -> Ran {
    bench.run(&format!("stream --connect {at} {FLAGS} {flags}"))
}

/// A server that does `serve` with each connection, in a thread that ends with it.
fn reader(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    // Waits for connections until the test's process is over.
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            std::thread::spawn(move || serve(stream));
        }
    });
    at
}

fn read_all(mut stream: TcpStream, pause: Duration) {
    let mut bytes = [0; 64 << 10];
    while stream.read(&mut bytes).is_ok_and(|n| n > 0) {
        std::thread::sleep(pause);
    }
}

/// A run into a server that takes nothing reports why.
fn check_failure(at: SocketAddr, flags: &str, parts: &[&str]) {
    let bench = Bench::new();
    let ran = feeding(&bench, &at.to_string(), flags).exits(5);
    let reasons = bench.run("report --format csv").stdout;
    for part in parts {
        assert!(reasons.contains(part), "no `{part}` in {reasons}\n{ran}");
    }
}

/// Bytes that our writers wrote in all trials of a session.
fn written(bench: &Bench) -> u64 {
    let lines = json_lines(&bench.run("report export 1").exits(0).stdout);
    let source = |line: &Value| line["trial"]["ends"]["source"]["total_bytes"].as_u64();
    lines.iter().filter_map(source).sum()
}

#[test]
fn what_was_written_is_what_a_sink_received() {
    for (place, flags) in [
        ("127.0.0.1:0", ""),
        ("127.0.0.1:0", "--engine epoll --flows 3"),
        ("127.0.0.1:0", "--ends processes --flows 2"),
        ("unix", ""),
        ("unix", "--engine tokio"),
    ] {
        let bench = Bench::new();
        let place = if place == "unix" { format!("unix:{}", bench.path("socket").display()) } else { place.into() };
        let mut server = bench.start(&format!("serve sink --listen {place}"));
        let at = server.place();
        let document = feeding(&bench, &at, &format!("{flags} --format json")).exits(0).json();
        let cell = &document["cells"][0];
        assert_eq!((&cell["outcome"], &cell["factors"]["connect"]), (&"measured".into(), &at.clone().into()), "{cell}");
        assert!(cell["factors"]["read_size"].is_null() && cell["cpu"]["sink"].is_null(), "{cell}");
        let text = document.to_string();
        assert!(
            text.contains(&format!("the server at {at} is external")) && text.contains("not bytes that it has read")
        );
        server.signal("TERM");
        let served = server.wait().exits(0).stderr;
        let received = format!(" {} bytes in", written(&bench));
        assert!(served.contains(&received), "written{received}, {served} ({flags})");
        bench.run("report --full").exits(0).prints(&[&at, "is external"]);
    }
}

#[test]
fn two_sinks_are_compared() {
    let (quick, slow) = (
        reader(|stream| read_all(stream, Duration::ZERO)),
        reader(|stream| read_all(stream, Duration::from_millis(1))),
    );
    let bench = Bench::new();
    let ran = feeding(&bench, &format!("{quick},{slow}"), "--full").exits(0);
    ran.prints(&[&quick.to_string(), &slow.to_string()]);
    // The compared bytes are not visible.
    let document = feeding(&bench, &format!("{quick},{slow}"), "--rate 50M --format json");
    let text = document.exits(0).json()["sentence"].as_str().unwrap_or_default().to_owned();
    assert!(text.contains("leave out --rate"), "{text}");
}

#[test]
fn server_that_never_reads_costs_little_time() {
    // Held for longer than the test may take, and never read.
    let silent = reader(|stream| {
        std::thread::sleep(Duration::from_secs(120));
        drop(stream);
    });
    check_failure(silent, "", &["takes nothing more", "does it read?"]);
    // A writer without CPU before its window fills the queues within it: those bytes count, so this run decides nothing.
    let has_reason = |_| {
        let ran = feeding(&Bench::new(), &silent.to_string(), "--engine epoll");
        format!("{ran}").contains("read no byte within the window")
    };
    assert!((0..5).any(has_reason));
}

#[test]
fn a_server_that_never_accepts_is_no_different() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    check_failure(listener.local_addr().unwrap(), "", &["takes nothing more"]);
}

#[test]
fn full_backlog_has_one_text() {
    // The queue of a Unix listener is full after the first connection that is not accepted; connect(2) then waits.
    let bench = Bench::new();
    let path = bench.path("socket");
    let listener = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
    listener.bind(&socket2::SockAddr::unix(&path).unwrap()).unwrap();
    listener.listen(0).unwrap();
    let _first = std::os::unix::net::UnixStream::connect(&path).unwrap();
    // A TCP listener's too; the connection then goes on, also beyond an interrupted connect(2).
    let narrow = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    narrow.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    narrow.listen(0).unwrap();
    let at = narrow.local_addr().unwrap().as_socket().unwrap();
    let _first_of_tcp = TcpStream::connect(at).unwrap();
    for place in [format!("unix:{}", path.display()), at.to_string()] {
        for words in ["stream --write-size 64K", "call --request 64"] {
            let ran = bench.run(&format!("{words} --connect {place} --time 2s")).exits(5);
            ran.complains(&["there is no answer: the server is stalled, or its backlog is full", "start the server"]);
        }
    }
    // Room for the analysis before the session, and for no more.
    drop(listener);
    let path = bench.path("narrow");
    let listener = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
    listener.bind(&socket2::SockAddr::unix(&path).unwrap()).unwrap();
    listener.listen(0).unwrap();
    bench.run(&format!("stream --connect unix:{} {FLAGS}", path.display())).exits(5);
    bench.run("report --format csv").prints(&["there is no answer: the server is stalled, or its backlog is full"]);
}

#[test]
fn an_echo_is_no_sink() {
    let echo = reader(|mut stream| {
        // Full at once, however slow the machine is.
        socket2::SockRef::from(&stream).set_send_buffer_size(4 << 10).unwrap();
        let mut bytes = [0; 64 << 10];
        while let Ok(n @ 1..) = stream.read(&mut bytes) {
            if stream.write_all(&bytes[..n]).is_err() {
                return;
            }
        }
    });
    // Its buffers grow now and then: the writer may be stuck for ever, or for the whole window.
    check_failure(echo, "", &["wait for a reader of the bytes that it sends"]);
}

#[test]
fn a_server_that_leaves_fails_the_cell() {
    // At once; and with data unread, which is a reset.
    for before in [0, 100_000] {
        let leaving = reader(move |mut stream| {
            let _ = stream.read_exact(&mut vec![0; before]);
        });
        let bench = Bench::new();
        feeding(&bench, &leaving.to_string(), "").exits(5);
        let reasons = bench.run("report --format csv").stdout;
        assert!(reasons.contains("closed in the middle") || reasons.contains("connecting to"), "{reasons}");
    }
}

#[test]
fn missing_server_is_reported_first() {
    let bench = Bench::new();
    let (_unused, at) = unused_address();
    feeding(&bench, &at, "").exits(5).complains(&[&format!("cannot connect to {at}"), "start the server"]);
    assert!(!bench.path("data").exists());
}

#[test]
fn what_is_of_our_reader_is_refused() {
    let bench = Bench::new();
    let check = |flags: &str, parts: &[&str]| {
        feeding(&bench, "127.0.0.1:9", flags).exits(2).complains(parts);
    };
    check("--read-size 4K", &["--read-size does not work with --connect", "bytegauge's own server"]);
    check("--rcvbuf 4K", &["--rcvbuf does not work with --connect"]);
    check("--rcvlowat 4K", &["--rcvlowat does not work with --connect"]);
    check("--work sum", &["--work does not work with --connect"]);
    check("--profile drain", &["--profile does not work with --connect"]);
    check("--verify", &["--verify does not work with --connect"]);
    check("--transport unix", &["--transport does not work with --connect"]);
    check("--placement same-cpu", &["--placement does not work with --connect"]);
    bench.run("stream --connect 127.0.0.1").exits(2).complains(&["--connect", "is not a place"]);
    feeding(&bench, "127.0.0.1:9", "--dry-run").exits(0).prints(&["127.0.0.1:9", "cannot be measured"]);
}
