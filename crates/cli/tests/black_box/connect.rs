//! `call --connect`: servers that are not ours, here written with the standard library's sockets, good and bad.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::bench::{Bench, Ran, unused_address};

/// A server of the test: each connection has a thread, until the test is over.
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    over: Arc<AtomicBool>,
}

impl Server {
    fn start(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, over) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let ended = Arc::clone(&over);
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                let serve = serve.clone();
                std::thread::spawn(move || serve(connection.unwrap()));
            }
        });
        Server { address, over }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // Its listener waits for a client.
        let _ = TcpStream::connect(self.address);
    }
}

/// Answers each `request` bytes by what `reply` makes of them, until the client leaves.
pub fn answering(request: usize, reply: impl Fn(&mut Vec<u8>) + Clone + Send + 'static) -> Server {
    Server::start(move |mut stream| {
        let mut bytes = vec![0; request];
        stream.set_nodelay(true).unwrap();
        while stream.read_exact(&mut bytes).is_ok() {
            let mut answer = bytes.clone();
            reply(&mut answer);
            if stream.write_all(&answer).is_err() {
                return;
            }
        }
    })
}

const FLAGS: &str = "--flows 3 --trial-time 100ms --blocks 2 --long-trials off --time 4s --request 100";

/// For clients that wait without a reply.
const SOON: &str = "--timeout 100ms";

/// A call waits longer for its reply than a busy machine delays it.
fn calling(bench: &Bench, at: &str, flags: &str) -> Ran {
    let patience = if flags.contains("--timeout") { "" } else { "--timeout 5s" };
    bench.run(&format!("call --connect {at} {FLAGS} {patience} {flags}"))
}

/// A run against a server that fails every call reports why.
fn check_failure(server: &Server, flags: &str, parts: &[&str]) {
    let bench = Bench::new();
    let ran = calling(&bench, &server.address.to_string(), flags);
    let ran = ran.exits(5);
    let reasons = bench.run("report --format csv").stdout;
    for part in parts {
        assert!(reasons.contains(part), "no `{part}` in {reasons}\n{ran}");
    }
}

#[test]
fn an_echo_is_measured_from_outside() {
    let server = answering(100, |_| {});
    let at = server.address.to_string();
    for flags in ["", "--verify", "--client-engine blocking", "--connect-per-call", "--ends processes", "--rate 500"] {
        let bench = Bench::new();
        let ran = calling(&bench, &at, &format!("{flags} --format json")).exits(0);
        let document = ran.json();
        let text = document.to_string();
        assert!(
            text.contains(&format!("the server at {at} is external")) && text.contains("cannot be measured"),
            "{text}"
        );
        let cell = &document["cells"][0];
        assert_eq!(
            (&cell["outcome"], &cell["factors"]["connect"]),
            (&"measured".into(), &at.clone().into()),
            "{flags}"
        );
        assert_eq!(cell["call"]["failed"], 0, "{flags}: {cell}");
        bench.run("report --full").exits(0).prints(&[&at, "is external"]);
    }
}

#[test]
fn two_servers_are_compared() {
    let (quick, slow) = (answering(100, |_| {}), answering(100, |_| std::thread::sleep(Duration::from_millis(1))));
    let bench = Bench::new();
    let ran = calling(&bench, &format!("{},{}", quick.address, slow.address), "--full").exits(0);
    ran.prints(&[&quick.address.to_string(), &slow.address.to_string()]);
    // The compared bytes are not visible.
    let ran = calling(&bench, &format!("{},{}", quick.address, slow.address), "--rate 300 --format json").exits(0);
    let document = ran.json();
    let text = document["sentence"].as_str().unwrap_or_default();
    assert!(text.contains("leave out --rate"), "{text}");
}

#[test]
fn own_servers_work_as_external_ones() {
    let bench = Bench::new();
    let path = bench.path("socket").display().to_string();
    let mut server = bench.start(&format!("serve echo --listen unix:{path}"));
    server.until("listening", |server| server.stdout().contains('\n'));
    calling(&bench, &format!("unix:{path}"), "--depth 4").exits(0);
    server.signal("TERM");
    server.wait().exits(0);
}

#[test]
fn a_datagram_comes_back() {
    let bench = Bench::new();
    let mut server = bench.start("serve echo --listen udp:127.0.0.1:0");
    let at = server.place();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket.send_to(b"there and back", &at).unwrap();
    let mut bytes = [0; 64];
    let (length, from) = socket.recv_from(&mut bytes).unwrap();
    assert_eq!((&bytes[..length], from.to_string()), (b"there and back".as_slice(), at));
    server.signal("TERM");
    let served = server.wait().exits(0).stderr;
    assert!(served.contains("served 1 datagram, 14 bytes in, 14 bytes out"), "{served}");
    for (words, part) in [
        ("sink --listen udp:127.0.0.1:0", "is for serve echo"),
        ("echo --listen udp:unix:/x", "udp: needs HOST:PORT"),
        ("echo --listen udp:127.0.0.1:0 --engine uring", "leave it out"),
    ] {
        bench.run(&format!("serve {words}")).exits(2).complains(&[part]);
    }
}

#[test]
fn other_reply_is_checked_by_length() {
    let server = answering(100, |answer| *answer = vec![1; 300]);
    let bench = Bench::new();
    calling(&bench, &server.address.to_string(), "--response 300").exits(0);
    let same = answering(100, |answer| answer.fill(1));
    calling(&bench, &same.address.to_string(), "--response 100").exits(0);
    check_failure(&server, "--response 200", &["longer than they should be"]);
}

#[test]
fn changed_bytes_are_no_echo() {
    let server = answering(100, |answer| answer.fill(1));
    check_failure(&server, "", &["replies were not the bytes sent", "give --response"]);
}

#[test]
fn garbage_differs_from_a_reply() {
    let server = Server::start(|mut stream| {
        let _ = stream.write_all(b"220 who are you?\r\n");
        let _ = stream.read(&mut [0; 1]);
        let _ = stream.write_all(&[0xff; 999]);
        while stream.read(&mut [0; 4096]).is_ok_and(|n| n > 0) {}
    });
    check_failure(&server, "", &["the server does not reply as it should"]);
}

#[test]
fn silent_server_costs_only_time_outs() {
    let server = Server::start(|mut stream| while stream.read(&mut [0; 4096]).is_ok_and(|n| n > 0) {});
    check_failure(&server, SOON, &["no call was completed", "times timed-out in phase first-byte"]);
}

#[test]
fn server_that_never_accepts_costs_time_outs() {
    // Connections wait in its backlog.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let bench = Bench::new();
    let at = listener.local_addr().unwrap().to_string();
    calling(&bench, &at, SOON).exits(5);
    let reasons = bench.run("report --format csv").stdout;
    assert!(reasons.contains("timed-out"), "{reasons}");
}

#[test]
fn a_server_that_closes_early_gives_short_replies() {
    let server = Server::start(|mut stream| {
        let mut bytes = [0; 100];
        if stream.read_exact(&mut bytes).is_ok() {
            let _ = stream.write_all(&bytes[..10]);
        }
    });
    check_failure(&server, "", &["no call was completed", "times short-reply in phase reply"]);
}

#[test]
fn missing_server_is_reported_first() {
    let bench = Bench::new();
    let (_unused, at) = unused_address();
    calling(&bench, &at, "").exits(5).complains(&[&format!("cannot connect to {at}"), "start the server"]);
    assert!(!bench.path("data").exists());
    calling(&bench, "unix:/no/such/socket", "").exits(5).complains(&["cannot connect to unix:/no/such/socket"]);
}

#[test]
fn a_server_that_goes_away_ends_the_session() {
    // Its listener is closed after a few connections, and so is every connection.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap().to_string();
    let serving = std::thread::spawn(move || {
        for _ in 0..5 {
            let (mut stream, _) = listener.accept().unwrap();
            std::thread::spawn(move || {
                let mut bytes = [0; 100];
                for _ in 0..50 {
                    if stream.read_exact(&mut bytes).and_then(|()| stream.write_all(&bytes)).is_err() {
                        return;
                    }
                }
            });
        }
    });
    let bench = Bench::new();
    calling(&bench, &at, SOON).exits(5);
    serving.join().unwrap();
}

#[test]
fn what_is_of_our_server_is_refused() {
    let bench = Bench::new();
    let check = |flags: &str, text: &str| {
        calling(&bench, "127.0.0.1:9", flags).exits(2).complains(&[text, "--connect"]);
    };
    check("--server-engine epoll", "--server-engine does not work");
    check("--engine epoll", "--client-engine");
    check("--server-threads 2", "--server-threads does not work");
    check("--backlog 5", "--backlog does not work");
    check("--reuseport", "--reuseport does not work");
    check("--linger 0", "--linger does not work");
    check("--rcvbuf 5000 --rcvbuf-on listener", "--rcvbuf-on does not work");
    check("--rcvbuf 5000 --rcvbuf-on accepted", "--rcvbuf-on does not work");
    check("--response 5 --verify", "--verify does not work");
    for bad in ["127.0.0.1", "nowhere:x", "unix:", "::1:80"] {
        bench.run(&format!("call --connect {bad}")).exits(2).complains(&["--connect", "is not a place"]);
    }
    bench.run("call --connect no-such-name.invalid:7").exits(2).complains(&["cannot be resolved"]);
}

#[test]
fn dry_run_connects_to_no_server() {
    let bench = Bench::new();
    let ran = calling(&bench, "localhost:9", "--transport tcp --dry-run");
    if ran.status.code() == Some(2) {
        // A machine on which that name is an IPv6 address first.
        ran.complains(&["--transport does not work"]);
        return;
    }
    ran.exits(0).prints(&["127.0.0.1:9", "cannot be measured"]);
}

/// A socket that takes datagrams and does with each what the test wants, until the test is over.
fn taking_datagrams(answer: impl Fn(&UdpSocket, &[u8], SocketAddr) + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 2048];
        while let Ok((len, peer)) = socket.recv_from(&mut buffer) {
            answer(&socket, &buffer[..len], peer);
        }
    });
    address
}

fn calling_by_datagrams(bench: &Bench, at: SocketAddr, flags: &str) -> Ran {
    calling(bench, &at.to_string(), &format!("--transport udp {flags}"))
}

#[test]
fn an_echo_of_datagrams_is_measured_from_outside() {
    let at = taking_datagrams(|socket, bytes, peer| drop(socket.send_to(bytes, peer)));
    for flags in ["", "--verify --client-engine mmsg --depth 4", "--ends processes", "--rate 500"] {
        let bench = Bench::new();
        let ran = calling_by_datagrams(&bench, at, &format!("{flags} --format json")).exits(0);
        let document = ran.json();
        let cell = &document["cells"][0];
        assert_eq!((&cell["outcome"], &cell["factors"]["transport"]), (&"measured".into(), &"udp".into()), "{flags}");
        let datagrams = &cell["call"]["datagrams"];
        assert!(datagrams["requests_sent"].as_u64() > Some(0) && datagrams["requests_dropped"].is_null(), "{cell}");
        assert!(datagrams["reply_bytes_per_second"].as_f64() > Some(0.0), "{cell}");
    }
}

#[test]
fn silent_datagram_server_costs_only_time_outs() {
    let at = taking_datagrams(|_, _, _| {});
    let bench = Bench::new();
    calling_by_datagrams(&bench, at, SOON).exits(5);
    let reasons = bench.run("report --format csv").stdout;
    assert!(
        reasons.contains("no call was completed") && reasons.contains("timed-out in phase first-byte"),
        "{reasons}"
    );
}

#[test]
fn refused_datagrams_are_reported() {
    // It has the port and receives only from itself.
    let deaf = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = deaf.local_addr().unwrap();
    deaf.connect(at).unwrap();
    let bench = Bench::new();
    calling_by_datagrams(&bench, at, "").exits(5);
    let reasons = bench.run("report --format csv").stdout;
    assert!(reasons.contains("refused in phase first-byte"), "{reasons}");
    calling(&bench, "unix:/no/such/socket", "--transport unix-dgram").exits(5).complains(&["cannot connect to unix:"]);
}

#[test]
fn datagrams_that_were_cut_off_are_named() {
    // The buffer of a well-known benchmark.
    let at = taking_datagrams(|socket, bytes, peer| drop(socket.send_to(&bytes[..bytes.len().min(40)], peer)));
    let bench = Bench::new();
    calling_by_datagrams(&bench, at, "").exits(5);
    let reasons = bench.run("report --format csv").stdout;
    assert!(reasons.contains("short-reply in phase reply"), "{reasons}");
}
