//! A page and its documents over HTTP on loopback, for whoever knows the address with its token.
//!
//! A thread a connection, a few at a time, one request each, everything with a deadline: a browser that never reads, or
//! never asks, keeps its own place for a few seconds and nothing else. Knows nothing of what it serves.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bytegauge_sys::process::unmade_advice;

use crate::exit::Failure;

/// Connections at a time; those beyond it are closed unheard.
const CONNECTIONS_MAX: usize = 16;

/// How long a request may take to come, and a reply to be read.
const PATIENCE: Duration = Duration::from_secs(10);

/// The largest head of a request, and the most headers.
const HEAD_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;

/// What a page is told not to do, beyond its own policy: be kept, framed, guessed at, or named to others.
const HEADERS: &str = "Cache-Control: no-store\r\nContent-Security-Policy: frame-ancestors 'none'\r\n\
    X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n\
    Connection: close\r\n";

/// What is served.
#[derive(Debug, Default)]
pub struct PageContent {
    /// The page.
    pub page: String,
    /// Its documents, as JSON.
    pub documents: String,
    /// What tells these documents from others.
    pub version: u64,
    /// Nothing comes after these.
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
    /// Whether somebody asked since [`PageServer::was_asked`] was asked.
    asked: AtomicBool,
    last: Mutex<Option<Instant>>,
    connections: AtomicUsize,
}

impl PageServer {
    /// Listens.
    ///
    /// # Errors
    /// When the port is taken or may not be had, or no thread can be made.
    pub fn start(place: SocketAddr, first: PageContent) -> Result<PageServer, Failure> {
        let listener = TcpListener::bind(place).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied => Failure::failed(format!(
                "--port: port {} cannot be had ({error}): choose another, or leave --port out for any that is free",
                place.port()
            )),
            _ => Failure::failed(format!("cannot listen on {place}: {error}")),
        })?;
        let failed = |error: io::Error| Failure::failed(format!("cannot serve: {error}{}", unmade_advice(&error)));
        let mut token = [0; 16];
        getrandom::fill(&mut token)
            .map_err(|error| Failure::failed(format!("the system gives no random bytes: {error}")))?;
        let token: String = token.iter().map(|byte| format!("{byte:02x}")).collect();
        let address = format!("http://{}/{token}/", listener.local_addr().map_err(failed)?);
        let shared = Arc::new(Shared {
            token,
            served: Mutex::new(Arc::new(first)),
            asked: AtomicBool::new(false),
            last: Mutex::new(None),
            connections: AtomicUsize::new(0),
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

    /// Whether somebody has asked since this was asked.
    pub fn was_asked(&self) -> bool {
        self.shared.asked.swap(false, Ordering::Relaxed)
    }

    /// Whether somebody asked within a time.
    pub fn is_looked_at(&self, within: Duration) -> bool {
        lock(&self.shared.last).is_some_and(|last| last.elapsed() <= within)
    }
}

/// What a thread that panicked left behind is whole: it is replaced at once or not at all.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // Out of descriptors, most likely: others are given back soon.
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        if shared.connections.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
            shared.connections.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let own = Arc::clone(shared);
        let serve = move || {
            // Whoever leaves in between is gone, and that is all.
            let _ = answer(&stream, &own);
            own.connections.fetch_sub(1, Ordering::Relaxed);
        };
        if thread::Builder::new().name("page".into()).spawn(serve).is_err() {
            shared.connections.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// What is answered to a request.
#[derive(Debug, PartialEq)]
enum Reply {
    Page,
    Documents,
    /// The documents are those that the asker has.
    Same,
    Refused(&'static str),
}

fn answer(stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let served = || Arc::clone(&lock(&shared.served));
    let (reply, served) = match head(stream, deadline)? {
        Ok(head) => {
            let served = served();
            (reply(&head, &shared.token, &tag(&served)), served)
        }
        Err(status) => (Reply::Refused(status), served()),
    };
    if !matches!(reply, Reply::Refused(_)) {
        shared.asked.store(true, Ordering::Relaxed);
        *lock(&shared.last) = Some(Instant::now());
    }
    let tag = format!("ETag: {}\r\n", tag(&served));
    let (status, kind, tag, body) = match reply {
        Reply::Page => ("200 OK", "text/html; charset=utf-8", "", served.page.as_str()),
        Reply::Documents => ("200 OK", "application/json", tag.as_str(), served.documents.as_str()),
        Reply::Same => ("304 Not Modified", "application/json", tag.as_str(), ""),
        Reply::Refused(status) => (status, "text/plain", "", status),
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

/// What a whole head asks for. Who does not know the token learns nothing.
fn reply(head: &[u8], token: &str, tag: &str) -> Reply {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    if request.parse(head).is_err() {
        return Reply::Refused("400 Bad Request");
    }
    let path = request.path.unwrap_or_default();
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    let Some((given, rest)) = path.strip_prefix('/').and_then(|path| path.split_once('/')) else {
        return Reply::Refused("404 Not Found");
    };
    if !is_same(given.as_bytes(), token.as_bytes()) {
        return Reply::Refused("404 Not Found");
    }
    if request.method != Some("GET") {
        return Reply::Refused("405 Method Not Allowed");
    }
    let has =
        |header: &httparse::Header| header.name.eq_ignore_ascii_case("if-none-match") && header.value == tag.as_bytes();
    match rest {
        "" => Reply::Page,
        "data" if request.headers.iter().any(has) => Reply::Same,
        "data" => Reply::Documents,
        _ => Reply::Refused("404 Not Found"),
    }
}

/// In a time that does not tell where they differ.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

fn send(mut stream: &TcpStream, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        // For each system call: a reader of one byte now and then has the same time as all others.
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

    fn check(request: &str, expected: &Reply) {
        assert_eq!(reply(format!("{request}\r\n\r\n").as_bytes(), "0a1b", "\"7\""), *expected, "{request}");
    }

    #[test]
    fn the_token_is_asked_before_anything_else() {
        let missing = || Reply::Refused("404 Not Found");
        check("GET /0a1b/ HTTP/1.1", &Reply::Page);
        check("GET /0a1b/data HTTP/1.1", &Reply::Documents);
        check("GET /0a1b/data?x HTTP/1.1\r\nIf-None-Match: \"6\"", &Reply::Documents);
        check("GET /0a1b/data HTTP/1.1\r\nif-none-match: \"7\"", &Reply::Same);
        check("GET /0a1b/other HTTP/1.1", &missing());
        check("POST /0a1b/ HTTP/1.1", &Reply::Refused("405 Method Not Allowed"));
        for path in ["/", "/0a1b", "//", "/0a1c/", "/0a1/", "/0a1bb/", "*"] {
            check(&format!("GET {path} HTTP/1.1"), &missing());
            check(&format!("POST {path} HTTP/1.1"), &missing());
        }
    }
}
