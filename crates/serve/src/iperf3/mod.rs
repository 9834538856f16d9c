//! A server for iperf3 clients. Each test runs in threads of its own, so clients do not wait for each other.
//!
//! A client that disappears holds its own threads for `test::IDLE` at most. All waits are bounded. Never measures for
//! bytegauge's own statistics: it counts bytes and time as iperf3 does, and reports each test.

mod admission;
mod flow;
mod opening;
mod refusals;
mod test;

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytegauge_model::Place;
use serde::Serialize;
use socket2::{Domain, Socket, Type};

use admission::Admission;
use bytegauge_traffic::end_error::EndError;
use bytegauge_traffic::iperf3::message::{COOKIE_LEN, Cookie};
use bytegauge_traffic::server_lookup::{self, unbindable};
use refusals::Refusals;

/// How long a new connection may take to send its cookie.
const COOKIE_TIME: Duration = Duration::from_secs(5);

/// Connections that have not sent their cookie yet, at most.
const GREETED_MAX: usize = 256;

/// The pause after a connection that could not be accepted.
const PAUSE: Duration = Duration::from_millis(50);

/// Limits of a server, which hold for each client, and how often it reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Iperf3Limits {
    /// Tests at the same time.
    pub clients: usize,
    /// Whether tests run one after another; further clients wait.
    pub exclusive: bool,
    /// The longest test.
    pub time: Duration,
    /// The most bytes of a test.
    pub bytes: Option<u64>,
    /// The highest rate of a test, bytes per second.
    pub rate: Option<u64>,
    /// The time between two [`Iperf3Notice::Interval`]; `None`: there are none.
    pub interval: Option<Duration>,
}

/// A test that ended, and what it moved.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Iperf3Test {
    /// The client's control connection.
    pub client: SocketAddr,
    /// The client's version, where it sends one.
    pub version: Option<String>,
    /// `tcp` or `udp`.
    pub transport: &'static str,
    /// Whether this server wrote.
    pub server_writes: bool,
    /// Data connections.
    pub connections: usize,
    /// Bytes that this server read or wrote.
    pub bytes: u64,
    /// Bytes that the client wrote or read, if it reported them.
    pub client_bytes: Option<u64>,
    /// Duration, seconds.
    pub seconds: f64,
    /// Segments that this server sent again.
    pub retransmits: Option<u64>,
    /// Datagrams that this server received or sent.
    pub datagrams: Option<u64>,
    /// Datagrams that this server misses.
    pub lost: Option<u64>,
    /// Jitter of received datagrams (RFC 3550), seconds.
    pub jitter_seconds: Option<f64>,
    /// The reason, if the test did not end as planned.
    pub problem: Option<String>,
}

/// Bytes of a test in one interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Iperf3Interval {
    /// The client's control connection.
    pub client: SocketAddr,
    /// Start of the interval, seconds since the start of the test.
    pub from_seconds: f64,
    /// Its end.
    pub to_seconds: f64,
    /// Bytes that this server read or wrote in it.
    pub bytes: u64,
}

/// An event for the server's user.
#[derive(Clone, Debug)]
pub enum Iperf3Notice {
    /// An interval of a test ended.
    Interval(Iperf3Interval),
    /// A test ended.
    Ended(Box<Iperf3Test>),
    /// A connection was not served.
    Refused {
        /// Its address.
        client: SocketAddr,
        /// The reason.
        why: String,
    },
    /// This number of refused connections had no notice of their own: too many came.
    LeftOut(u64),
}

/// Receives the events.
pub type Iperf3Log = Box<dyn Fn(Iperf3Notice) + Send + Sync>;

/// A server at work.
pub struct Iperf3Server {
    shared: Arc<Iperf3Shared>,
    acceptor: Option<JoinHandle<()>>,
}

/// State that all threads of a server share.
struct Iperf3Shared {
    place: SocketAddr,
    limits: Iperf3Limits,
    log: Iperf3Log,
    admission: Admission,
    refusals: Refusals,
    /// Tests that wait for data connections, by cookie.
    waiting: Mutex<BTreeMap<Cookie, SyncSender<TcpStream>>>,
    /// Receives the first datagram of each UDP connection. The test that holds the lock is the only one that opens any.
    udp: Mutex<UdpSocket>,
    greeted: AtomicUsize,
    tests: AtomicUsize,
    stops: AtomicBool,
}

impl Iperf3Server {
    /// Listens on TCP and UDP, and serves until it is stopped.
    ///
    /// # Errors
    /// [`EndError::Missing`] with the next step if it cannot listen there.
    pub fn start(place: &Place, limits: Iperf3Limits, log: Iperf3Log) -> Result<Iperf3Server, EndError> {
        let (listener, place) = server_lookup::listen(&server_lookup::resolved(place)?)?;
        let Place::Ip(place) = place else {
            server_lookup::clear(&place);
            return Err(EndError::Missing("iperf3 clients use TCP and UDP: give --listen HOST:PORT".into()));
        };
        let listener = TcpListener::from(listener);
        listener.set_nonblocking(false).map_err(EndError::io("preparing to listen"))?;
        let shared = Arc::new(Iperf3Shared {
            place,
            limits,
            log,
            admission: Admission::new(if limits.exclusive { 1 } else { limits.clients }, limits.exclusive),
            refusals: Refusals::default(),
            waiting: Mutex::default(),
            udp: Mutex::new(udp_socket(place)?),
            greeted: AtomicUsize::new(0),
            tests: AtomicUsize::new(0),
            stops: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        let acceptor = std::thread::Builder::new().name("iperf3".into()).spawn(move || accept(&accepting, &listener));
        let acceptor = Some(acceptor.map_err(EndError::io("starting a thread"))?);
        Ok(Iperf3Server { shared, acceptor })
    }

    /// The address, with the port that it got.
    pub fn place(&self) -> SocketAddr {
        self.shared.place
    }

    /// Stops all tests and ends. Each client is notified.
    pub fn stop(mut self) {
        self.shared.stops.store(true, Ordering::Relaxed);
        // The acceptor waits for a connection.
        let ip: IpAddr = match self.shared.place.ip() {
            ip if !ip.is_unspecified() => ip,
            IpAddr::V4(_) => IpAddr::from([127, 0, 0, 1]),
            IpAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        };
        let _ = TcpStream::connect_timeout(&(ip, self.shared.place.port()).into(), COOKIE_TIME);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        // Tests look at the flag several times a second.
        for _ in 0..100 {
            if self.shared.tests.load(Ordering::Relaxed) == 0 {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// A UDP socket at an address that further sockets share.
fn udp_socket(place: SocketAddr) -> Result<UdpSocket, EndError> {
    let fault = |source| EndError::Io { doing: format!("listening on udp {place}"), source };
    let socket = Socket::new(Domain::for_address(place), Type::DGRAM, None).map_err(fault)?;
    socket.set_reuse_address(true).map_err(fault)?;
    socket.bind(&place.into()).map_err(|error| unbindable(&Place::Ip(place), error))?;
    Ok(socket.into())
}

/// Accepts connections; each is identified in a thread of its own.
fn accept(shared: &Arc<Iperf3Shared>, listener: &TcpListener) {
    while !shared.stops() {
        let Ok((connection, client)) = listener.accept() else {
            // The process has no descriptor left, or the connection is gone already.
            std::thread::sleep(PAUSE);
            continue;
        };
        if shared.greeted.fetch_add(1, Ordering::Relaxed) >= GREETED_MAX {
            shared.greeted.fetch_sub(1, Ordering::Relaxed);
            shared.refuse(client, "too many connections have not sent a cookie".into());
            continue;
        }
        let serving = Arc::clone(shared);
        let started = std::thread::Builder::new().name("iperf3-client".into()).spawn(move || {
            let cookie = cookie(&connection, COOKIE_TIME);
            serving.greeted.fetch_sub(1, Ordering::Relaxed);
            match cookie {
                Ok(cookie) => serving.identified(connection, client, cookie),
                Err(why) => serving.refuse(client, why),
            }
        });
        if started.is_err() {
            shared.greeted.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Reads the cookie at the start of a connection within a time, however slowly it arrives.
fn cookie(mut connection: &TcpStream, patience: Duration) -> Result<Cookie, String> {
    let (mut bytes, mut have) = ([0; COOKIE_LEN], 0);
    let deadline = Instant::now() + patience;
    let none = |why: &str| format!("no cookie of iperf3 arrived ({why})");
    while have < COOKIE_LEN {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(none("its time is over"));
        }
        match connection.set_read_timeout(Some(left)).and_then(|()| connection.read(&mut bytes[have..])) {
            Ok(0) => return Err(none("the connection ended")),
            Ok(n) => have += n,
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(none(&error.to_string())),
        }
    }
    Cookie::parse(bytes).map_err(|error| error.to_string())
}

impl Iperf3Shared {
    fn stops(&self) -> bool {
        self.stops.load(Ordering::Relaxed)
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<Cookie, SyncSender<TcpStream>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refuse(&self, client: SocketAddr, why: String) {
        if !self.stops() {
            self.report_briefly(Iperf3Notice::Refused { client, why });
        }
    }

    /// Reports a connection that moved nothing, unless many did.
    fn report_briefly(&self, notice: Iperf3Notice) {
        let Some(left_out) = self.refusals.enter(Instant::now()) else { return };
        if left_out > 0 {
            (self.log)(Iperf3Notice::LeftOut(left_out));
        }
        (self.log)(notice);
    }

    /// A cookie that is new begins a test; one that a test waits for is of a data connection.
    fn identified(&self, connection: TcpStream, client: SocketAddr, cookie: Cookie) {
        if let Some(test) = self.waiting().get(&cookie) {
            // Connections beyond those of a test are closed: otherwise one client could hold all descriptors.
            let _ = test.try_send(connection);
            return;
        }
        self.tests.fetch_add(1, Ordering::Relaxed);
        test::serve(self, connection, client, cookie);
        self.tests.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether an error is only a time that is over or an interruption.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn slow_cookie_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap();
        let client = std::thread::spawn(move || {
            let mut connection = TcpStream::connect(place).unwrap();
            // Each byte arrives long before the time is over, the last one long after it.
            for byte in Cookie::of_random([7; COOKIE_LEN - 1]).bytes() {
                if connection.write_all(&[*byte]).is_err() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let connection = listener.accept().unwrap().0;
        let refused = cookie(&connection, Duration::from_millis(200)).unwrap_err();
        assert!(refused.contains("no cookie of iperf3 arrived"), "{refused}");
        drop(connection);
        client.join().unwrap();
    }
}
