//! The parts of the engines' conformance suite: tiny flows, a party that provides them, and a thread that runs them under a
//! guard against hanging.

pub mod caller;
pub mod echo;
pub mod faulty_server;
pub mod habits;
pub mod mirror;
pub mod relay;
pub mod relayed;
pub mod running;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use bytegauge_model::name_tables::ENGINES;
use bytegauge_model::{Engine, Transport, UringKind, UringMode};
use bytegauge_sys::clock::monotonic_ns;
use bytegauge_sys::errno;
use bytegauge_sys::option::{self, SocketOption};
use bytegauge_traffic::flow::{Flow, Opener, Party};
use bytegauge_traffic::pattern::Pattern;
use socket2::{Domain, Socket, Type};

use self::running::Running;

/// A plain peer gives up after this: a test that hangs fails instead.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Size of the buffers in which these flows compose messages: far smaller than some of the messages.
pub const ROOM: usize = 50_000;

/// Copies the first unsent bytes into a buffer, and returns their number.
pub fn put(bytes: &[u8], room: &mut [u8]) -> usize {
    let len = bytes.len().min(room.len());
    room[..len].copy_from_slice(&bytes[..len]);
    len
}

/// System calls of the calling thread through the file layer, as of read(2) but not recv(2) (proc(5), `syscr`). Absent if the
/// kernel keeps no count.
pub fn file_reads() -> Option<u64> {
    let account = std::fs::read_to_string("/proc/thread-self/io").ok()?;
    account.lines().find_map(|line| line.strip_prefix("syscr: "))?.parse().ok()
}

/// Far away: a flow that waits for this time has failed.
pub fn in_a_minute_ns() -> u64 {
    monotonic_ns() + 60_000_000_000
}

/// Every engine that drives parties and that this machine supports; the others are named with the reason.
pub fn engines() -> Vec<Engine> {
    let can_run = |engine: &Engine| match running::probe(*engine) {
        Ok(()) => true,
        Err(reason) => {
            println!("skipped: {engine}: {reason}");
            false
        }
    };
    let connections = |engine: &Engine| *engine != Engine::Null && engine.suits(&Transport::Tcp);
    ENGINES.iter().map(|row| row.value).filter(connections).filter(can_run).collect()
}

/// Runs a check over every engine, and names a failed one.
pub fn for_all(check: impl Fn(Engine)) {
    for engine in engines() {
        println!("engine {engine}");
        check(engine);
    }
}

/// Runs a check over every engine that carries Unix sockets: they take no zero-copy sends.
pub fn for_all_over_unix(check: impl Fn(Engine)) {
    for_all(|engine| {
        if !matches!(engine, Engine::Uring(UringMode { kind: UringKind::ZeroCopy, .. })) {
            check(engine);
        }
    });
}

/// Gives a flow its partner.
pub type Pairing<F> = Box<dyn FnMut(&mut F) -> Option<F> + Send>;

/// Flows to begin with, flows for accepted connections, and an address to connect to.
pub struct Group<F: Flow> {
    pub first: Vec<(F, Option<OwnedFd>)>,
    pub welcome: Box<dyn FnMut(BorrowedFd<'_>) -> Option<F> + Send>,
    /// The partner of a flow.
    pub pair: Pairing<F>,
    pub connect_to: Option<SocketAddr>,
    /// Opens connections instead of the group.
    pub opener: Option<Opener>,
    /// Connections that the group opened.
    pub connected: usize,
    pub options: Vec<SocketOption>,
    pub left: Vec<(F, Option<OwnedFd>)>,
}

impl<F: Flow> Group<F> {
    /// A server that gives every connection a flow.
    pub fn server(mut flow: impl FnMut() -> F + Send + 'static) -> Group<F> {
        let welcome = Box::new(move |_: BorrowedFd<'_>| Some(flow()));
        let pair = Box::new(|_: &mut F| None);
        Group {
            first: Vec::new(),
            welcome,
            pair,
            connect_to: None,
            opener: None,
            connected: 0,
            options: Vec::new(),
            left: Vec::new(),
        }
    }

    /// Clients that connect there.
    pub fn clients(flows: Vec<F>, connect_to: SocketAddr) -> Group<F> {
        Group {
            first: flows.into_iter().map(|flow| (flow, None)).collect(),
            welcome: Box::new(|_| None),
            pair: Box::new(|_| None),
            connect_to: Some(connect_to),
            opener: None,
            connected: 0,
            options: Vec::new(),
            left: Vec::new(),
        }
    }

    /// Flows on open connections.
    pub fn joined(flows: Vec<(F, OwnedFd)>) -> Group<F> {
        let mut group = Group::clients(Vec::new(), ([127, 0, 0, 1], 9).into());
        group.first = flows.into_iter().map(|(flow, fd)| (flow, Some(fd))).collect();
        group
    }

    /// Socket options of every connection.
    pub fn with(mut self, options: &[SocketOption]) -> Group<F> {
        self.options = options.to_vec();
        self
    }

    /// The flows that were returned.
    pub fn flows(&self) -> impl Iterator<Item = &F> {
        self.left.iter().map(|(flow, _)| flow)
    }
}

impl<F: Flow + Send + 'static> Party for Group<F> {
    type Flow = F;

    fn first(&mut self) -> Option<(F, Option<OwnedFd>)> {
        self.first.pop()
    }

    fn accepted(&mut self, connection: BorrowedFd<'_>, _now_ns: u64) -> Option<F> {
        for option in &self.options {
            option::set(connection, option).unwrap();
        }
        (self.welcome)(connection)
    }

    fn connect(&mut self, _flow: &mut F) -> io::Result<OwnedFd> {
        self.connected += 1;
        let to = self.connect_to.expect("an address");
        let socket = Socket::new(Domain::for_address(to), Type::STREAM.nonblocking(), None)?;
        for option in &self.options {
            option::set(socket.as_fd(), option).unwrap();
        }
        match socket.connect(&to.into()) {
            Err(error) if error.raw_os_error() != Some(errno::EINPROGRESS) => Err(error),
            _ => Ok(socket.into()),
        }
    }

    fn opener(&self) -> Option<Opener> {
        self.opener.clone()
    }

    fn partner(&mut self, flow: &mut F) -> Option<(F, Option<OwnedFd>)> {
        (self.pair)(flow).map(|partner| (partner, None))
    }

    fn left(&mut self, flow: F, connection: Option<OwnedFd>) {
        self.left.push((flow, connection));
    }
}

/// A non-blocking TCP listener on loopback.
pub fn listener() -> (TcpListener, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    socket.listen(4096).unwrap();
    let listener = TcpListener::from(socket);
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// An address without a listener, reserved while this is held, so that no other socket gets its port by chance.
pub fn no_listener() -> (Socket, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    (socket, address)
}

/// A plain client connection that gives up rather than hang.
pub fn plain(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// A message with its length before it, as [`echo::Echo`] expects it, filled by the pattern of a flow.
pub fn message(flow: usize, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; 4 + len];
    bytes[..4].copy_from_slice(&(len as u32).to_le_bytes());
    Pattern::new(1, flow).fill(0, &mut bytes[4..]);
    bytes
}

/// Sends a message and compares the reply, byte for byte.
pub fn plain_call(stream: &mut TcpStream, flow: usize, len: usize) {
    let sent = message(flow, len);
    std::thread::scope(|scope| {
        let mut writer = stream.try_clone().unwrap();
        scope.spawn({
            let sent = &sent;
            move || writer.write_all(sent).unwrap()
        });
        expect(stream, &sent);
    });
}

/// Reads as many bytes as are expected and compares them.
pub fn expect(stream: &mut TcpStream, expected: &[u8]) {
    let mut got = vec![0; expected.len()];
    stream.read_exact(&mut got).unwrap();
    // The position is searched only after a difference: comparing byte by byte is slow in a build for tests.
    let differs = || got.iter().zip(expected).position(|(a, b)| a != b);
    assert!(got == expected, "byte {:?} differs", differs());
}

/// Closes a connection by a reset.
pub fn reset(stream: TcpStream) {
    option::set(stream.as_fd(), &option::LINGER.to(0)).unwrap();
    drop(stream);
}

/// Waits for an event in another thread; fails if it never happens.
#[track_caller]
pub fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < PATIENCE, "timed out: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A send buffer far smaller than a message, so that it is sent in parts, none of which waits for the acknowledgement of the
/// one before.
pub fn small_parts() -> [SocketOption; 2] {
    [option::SEND_BUFFER.to(16_384), option::NO_DELAY.to(true)]
}

/// An engine that serves echoes, and its address.
pub fn echo_server(engine: Engine, buffer_size: usize, options: &[SocketOption]) -> (Running<echo::Echo>, SocketAddr) {
    let (listener, address) = listener();
    let group = Group::server(echo::Echo::default).with(options);
    (Running::start(engine, group, Some(listener.into()), buffer_size), address)
}

/// An echo server with small send buffers, and the number of its connections that failed.
pub fn telling_server(engine: Engine) -> (Running<echo::Echo>, SocketAddr, Arc<AtomicUsize>) {
    let (listener, address) = listener();
    let broken = Arc::new(AtomicUsize::new(0));
    let welcome = {
        let broken = Arc::clone(&broken);
        move || echo::Echo::telling(&broken)
    };
    let group = Group::server(welcome).with(&small_parts());
    (Running::start(engine, group, Some(listener.into()), 4096), address, broken)
}
