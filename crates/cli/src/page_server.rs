//! A page and its documents over HTTP on loopback, for clients that have the address with its token.
//!
//! Each connection has a thread and one request. A request must arrive and a reply must be read within a deadline. When all
//! places are taken, a new connection replaces the oldest one that has sent no request yet. Only requests whose Host header
//! names this machine are answered, so that no other web site can reach the page through its own name (DNS rebinding).

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use bytegauge_sys::process::spawn_error_hint;

use crate::exit_code::Failure;
use bytegauge_traffic::lock;

/// Connections at a time. One beyond it replaces the oldest that waits for its request, or is closed where none waits.
const CONNECTIONS_MAX: usize = 16;

/// Time in which the head of a request must arrive.
const HEAD_TIME: Duration = Duration::from_secs(3);

/// Time in which a reply must be read.
const REPLY_TIME: Duration = Duration::from_secs(10);

/// Names and addresses of this machine, as a Host header has them before the port.
const LOCAL_HOSTS: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// The largest head of a request, and the most headers.
const HEAD_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;

/// Headers that forbid to cache, frame or guess the type of a page, and to send its address to other sites.
const HEADERS: &str = "Cache-Control: no-store\r\nContent-Security-Policy: frame-ancestors 'none'\r\n\
    X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n\
    Connection: close\r\n";

/// The served content.
#[derive(Debug, Default)]
pub struct PageContent {
    /// The page.
    pub page: String,
    /// Its documents, as JSON.
    pub documents: String,
    /// The version of these documents.
    pub version: u64,
    /// No later version follows.
    pub over: bool,
}

/// A server, which lives as long as the process.
pub struct PageServer {
    address: String,
    shared: Arc<Shared>,
}

struct Shared {
    token: String,
    served: Mutex<Arc<PageContent>>,
    /// Whether there was a request since [`PageServer::was_asked`] was called.
    asked: AtomicBool,
    last: Mutex<Option<Instant>>,
    port: u16,
    connections: Mutex<Connections>,
}

/// The open connections, the oldest first.
#[derive(Default)]
struct Connections {
    open: Vec<Connection>,
    opened: u64,
}

struct Connection {
    number: u64,
    stream: Arc<TcpStream>,
    /// It has sent no whole request yet.
    is_idle: bool,
}

impl Connections {
    /// Admits a connection, in place of the oldest idle one if all places are taken. `None` if none is idle.
    fn admit(&mut self, stream: &Arc<TcpStream>) -> Option<u64> {
        if self.open.len() >= CONNECTIONS_MAX {
            let idle = self.open.iter().position(|connection| connection.is_idle)?;
            // Its thread wakes up, finds the end of the stream, and ends. A closed connection needs no shutdown.
            let _ = self.open.remove(idle).stream.shutdown(Shutdown::Both);
        }
        self.opened += 1;
        self.open.push(Connection { number: self.opened, stream: Arc::clone(stream), is_idle: true });
        Some(self.opened)
    }

    /// Keeps a connection until its reply is sent.
    fn is_served(&mut self, number: u64) {
        self.open.iter_mut().filter(|one| one.number == number).for_each(|one| one.is_idle = false);
    }

    fn remove(&mut self, number: u64) {
        self.open.retain(|connection| connection.number != number);
    }
}

impl PageServer {
    /// Listens.
    ///
    /// # Errors
    /// When the port is taken or may not be had, or no thread can be made.
    pub fn start(place: SocketAddr, first: PageContent) -> Result<PageServer, Failure> {
        let listener = TcpListener::bind(place).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied => Failure::failed(format!(
                "--port: port {} is not available ({error}): use another, or leave out --port for a free one",
                place.port()
            )),
            _ => Failure::failed(format!("cannot listen on {place}: {error}")),
        })?;
        let failed = |error: io::Error| Failure::failed(format!("cannot serve: {error}{}", spawn_error_hint(&error)));
        let mut token = [0; 16];
        getrandom::fill(&mut token)
            .map_err(|error| Failure::failed(format!("the system gives no random bytes: {error}")))?;
        let token: String = token.iter().map(|byte| format!("{byte:02x}")).collect();
        let place = listener.local_addr().map_err(failed)?;
        let address = format!("http://{place}/{token}/");
        let shared = Arc::new(Shared {
            token,
            served: Mutex::new(Arc::new(first)),
            asked: AtomicBool::new(false),
            last: Mutex::new(None),
            port: place.port(),
            connections: Mutex::default(),
        });
        let own = Arc::clone(&shared);
        thread::Builder::new().name("page".into()).spawn(move || accept(&listener, &own)).map_err(failed)?;
        Ok(PageServer { address, shared })
    }

    /// Where the page is, with its token.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Serves this from now on.
    pub fn serve(&self, next: PageContent) {
        *lock(&self.shared.served) = Arc::new(next);
    }

    /// Whether there was a request since the last call.
    pub fn was_asked(&self) -> bool {
        self.shared.asked.swap(false, Ordering::Relaxed)
    }

    /// Whether there was a request within a time.
    pub fn is_looked_at(&self, within: Duration) -> bool {
        lock(&self.shared.last).is_some_and(|last| last.elapsed() <= within)
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // Out of descriptors, most likely: others are given back soon.
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        let stream = Arc::new(stream);
        let Some(number) = lock(&shared.connections).admit(&stream) else { continue };
        let own = Arc::clone(shared);
        let serve = move || {
            // A peer that leaves before its reply is sent is no failure.
            let _ = answer(&stream, number, &own);
            lock(&own.connections).remove(number);
        };
        if thread::Builder::new().name("page".into()).spawn(serve).is_err() {
            lock(&shared.connections).remove(number);
        }
    }
}

/// The reply to a request.
#[derive(Debug, PartialEq)]
enum HttpReply {
    Page,
    Documents,
    /// The client has these documents already.
    Same,
    Refused(&'static str),
}

fn answer(stream: &TcpStream, number: u64, shared: &Shared) -> io::Result<()> {
    let head = head(stream, Instant::now() + HEAD_TIME)?;
    lock(&shared.connections).is_served(number);
    let deadline = Instant::now() + REPLY_TIME;
    let served = Arc::clone(&lock(&shared.served));
    let reply = match head {
        Ok(head) => reply(&head, shared.port, &shared.token, &tag(&served)),
        Err(status) => HttpReply::Refused(status),
    };
    if !matches!(reply, HttpReply::Refused(_)) {
        shared.asked.store(true, Ordering::Relaxed);
        *lock(&shared.last) = Some(Instant::now());
    }
    let tag = format!("ETag: {}\r\n", tag(&served));
    let (status, kind, tag, body) = match reply {
        HttpReply::Page => ("200 OK", "text/html; charset=utf-8", "", served.page.as_str()),
        HttpReply::Documents => ("200 OK", "application/json", tag.as_str(), served.documents.as_str()),
        HttpReply::Same => ("304 Not Modified", "application/json", tag.as_str(), ""),
        HttpReply::Refused(status) => (status, "text/plain", "", status),
    };
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{HEADERS}{tag}\r\n", body.len());
    send(stream, head.as_bytes(), deadline)?;
    send(stream, body.as_bytes(), deadline)
}

fn tag(served: &PageContent) -> String {
    format!("\"{}{}\"", served.version, if served.over { "-over" } else { "" })
}

/// The head of a request with its headers, or the status that refuses it.
fn head(mut stream: &TcpStream, deadline: Instant) -> io::Result<Result<Vec<u8>, &'static str>> {
    let (mut bytes, mut piece) = (Vec::new(), [0; 2048]);
    loop {
        stream.set_read_timeout(Some(left(deadline)?))?;
        match stream.read(&mut piece)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => bytes.extend_from_slice(&piece[..count]),
        }
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        match httparse::Request::new(&mut headers).parse(&bytes) {
            Ok(status) if status.is_complete() => return Ok(Ok(bytes)),
            Ok(_) if bytes.len() <= HEAD_MAX => {}
            Ok(_) | Err(httparse::Error::TooManyHeaders) => return Ok(Err("431 Request Header Fields Too Large")),
            Err(_) => return Ok(Err("400 Bad Request")),
        }
    }
}

/// The reply to a whole head. A request for another host, or without the token, gets no information.
fn reply(head: &[u8], port: u16, token: &str, tag: &str) -> HttpReply {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    if request.parse(head).is_err() {
        return HttpReply::Refused("400 Bad Request");
    }
    if !is_for_this_machine(request.headers, port) {
        return HttpReply::Refused("421 Misdirected Request");
    }
    let path = request.path.unwrap_or_default();
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    let Some((given, rest)) = path.strip_prefix('/').and_then(|path| path.split_once('/')) else {
        return HttpReply::Refused("404 Not Found");
    };
    if !is_same(given.as_bytes(), token.as_bytes()) {
        return HttpReply::Refused("404 Not Found");
    }
    if request.method != Some("GET") {
        return HttpReply::Refused("405 Method Not Allowed");
    }
    let has =
        |header: &httparse::Header| header.name.eq_ignore_ascii_case("if-none-match") && header.value == tag.as_bytes();
    match rest {
        "" => HttpReply::Page,
        "data" if request.headers.iter().any(has) => HttpReply::Same,
        "data" => HttpReply::Documents,
        _ => HttpReply::Refused("404 Not Found"),
    }
}

/// Whether there is one Host header and it names this machine with our port (RFC 9110, section 7.2).
fn is_for_this_machine(headers: &[httparse::Header], port: u16) -> bool {
    let mut hosts = headers.iter().filter(|header| header.name.eq_ignore_ascii_case("host"));
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    let is_ours = |local: &str| host.value.eq_ignore_ascii_case(format!("{local}:{port}").as_bytes());
    LOCAL_HOSTS.iter().any(|local| is_ours(local))
}

/// Compares in a time that does not depend on the place of a difference.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

fn send(mut stream: &TcpStream, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        // For each system call: a client that reads one byte at a time has the same limit as all others.
        stream.set_write_timeout(Some(left(deadline)?))?;
        match stream.write(bytes)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => bytes = &bytes[count..],
        }
    }
    Ok(())
}

fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(request: &str, expected: &HttpReply) {
        check_host(request, "\r\nHost: 127.0.0.1:80", expected);
    }

    fn check_host(request: &str, host: &str, expected: &HttpReply) {
        let head = format!("{request}{host}\r\n\r\n");
        assert_eq!(reply(head.as_bytes(), 80, "0a1b", "\"7\""), *expected, "{head}");
    }

    #[test]
    fn requests_for_other_hosts_are_refused() {
        let page = |host: &str, expected: &HttpReply| check_host("GET /0a1b/ HTTP/1.1", host, expected);
        for host in ["127.0.0.1:80", "localhost:80", "LOCALHOST:80", "[::1]:80"] {
            page(&format!("\r\nhost: {host}"), &HttpReply::Page);
        }
        let refused = HttpReply::Refused("421 Misdirected Request");
        for host in ["", "evil.example:80", "evil.example", "127.0.0.1", "localhost:81", "127.0.0.1:80.evil.example"] {
            page(&format!("\r\nHost: {host}"), &refused);
        }
        page("", &refused);
        page("\r\nHost: localhost:80\r\nHost: evil.example", &refused);
    }

    #[test]
    fn idle_connections_give_way_to_requests() {
        let content = PageContent { page: "the page".into(), ..PageContent::default() };
        let server = PageServer::start((std::net::Ipv4Addr::LOCALHOST, 0).into(), content).unwrap();
        let (place, path) = server.address().trim_start_matches("http://").split_once('/').unwrap();
        let idle: Vec<TcpStream> = (0..3 * CONNECTIONS_MAX).map(|_| TcpStream::connect(place).unwrap()).collect();
        let mut stream = TcpStream::connect(place).unwrap();
        stream.write_all(format!("GET /{path} HTTP/1.1\r\nHost: {place}\r\n\r\n").as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        assert!(reply.starts_with("HTTP/1.1 200 OK") && reply.ends_with("the page"), "{reply}");
        drop(idle);
    }

    #[test]
    fn served_connections_are_never_replaced() {
        let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).unwrap();
        let stream = Arc::new(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        let mut connections = Connections::default();
        let admitted: Vec<u64> = (0..CONNECTIONS_MAX).map(|_| connections.admit(&stream).unwrap()).collect();
        admitted.iter().skip(1).for_each(|number| connections.is_served(*number));
        assert!(connections.admit(&stream).is_some());
        assert!(connections.open.iter().all(|one| one.number != admitted[0]), "the idle one was replaced");
        connections.is_served(connections.opened);
        assert_eq!(connections.admit(&stream), None);
        connections.remove(admitted[1]);
        assert!(connections.admit(&stream).is_some());
    }

    #[test]
    fn the_token_is_asked_before_anything_else() {
        let missing = || HttpReply::Refused("404 Not Found");
        check("GET /0a1b/ HTTP/1.1", &HttpReply::Page);
        check("GET /0a1b/data HTTP/1.1", &HttpReply::Documents);
        check("GET /0a1b/data?x HTTP/1.1\r\nIf-None-Match: \"6\"", &HttpReply::Documents);
        check("GET /0a1b/data HTTP/1.1\r\nif-none-match: \"7\"", &HttpReply::Same);
        check("GET /0a1b/other HTTP/1.1", &missing());
        check("POST /0a1b/ HTTP/1.1", &HttpReply::Refused("405 Method Not Allowed"));
        for path in ["/", "/0a1b", "//", "/0a1c/", "/0a1/", "/0a1bb/", "*"] {
            check(&format!("GET {path} HTTP/1.1"), &missing());
            check(&format!("POST {path} HTTP/1.1"), &missing());
        }
    }
}
