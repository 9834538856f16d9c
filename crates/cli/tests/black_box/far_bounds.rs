//! An agent whose caller has the key and is hostile: its ends move a bounded number of bytes, whatever the caller sends or omits.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytegauge_agent::AgentLink;
use bytegauge_model::{EndRole, Ends, Spec};
use bytegauge_traffic::path::{FarPath, SHOWN, Ticket};
use bytegauge_traffic::{Address, Command, EndPool, RemoteHost, Reply, Setup};
use bytegauge_wire::Key;

use crate::bench::{BINARY, Bench, signal};
use crate::far::{agent, stopped, until_no_end};

/// A longer wait means that the test hangs.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The bytes that an end may move, far more than a lap or the bytes until the next
/// check.
pub const ALLOWED: &str = "--max-bytes 1M";
pub const TOO_MUCH: usize = 1 << 30;

/// A caller with an agent's key, and its end of one trial.
pub struct Caller {
    link: Arc<dyn RemoteHost>,
    cast: EndPool,
    role: EndRole,
    pub setup: Setup,
    pub ticket: Ticket,
}

impl Caller {
    pub fn of(bench: &Bench, place: &str, role: EndRole, levels: &Spec) -> Caller {
        let key = Key::read(&bench.path("key")).unwrap();
        let link: Arc<dyn RemoteHost> = Arc::new(AgentLink::open(place.parse().unwrap(), &key, 0).unwrap());
        Caller::over(link, role, levels)
    }

    fn over(link: Arc<dyn RemoteHost>, role: EndRole, levels: &Spec) -> Caller {
        let ticket = Ticket::fresh().unwrap();
        let far = match role {
            EndRole::Relay => FarPath { end: None, relay: Some(link.agent()), ticket },
            role => FarPath::to(link.agent(), role.side(), ticket),
        };
        let mut cast = EndPool::new(Ends::Processes, Path::new(BINARY)).with_links(vec![Arc::clone(&link)]);
        cast.joined(Some(far), None, 0).unwrap();
        let mut setup = Setup::of(levels).unwrap();
        setup.far = Some(far);
        (setup.window_ns, setup.grace_ns) = (100_000_000, 200_000_000);
        Caller { link, cast, role, setup, ticket }
    }

    pub fn tell(&mut self, command: Command) {
        self.cast.end(self.role).unwrap().send(command).unwrap();
    }

    pub fn hear(&mut self) -> Reply {
        self.cast.end(self.role).unwrap().reply(PATIENCE).unwrap()
    }

    pub fn open(&mut self, connects_to: Option<SocketAddr>) -> Reply {
        let setup = Box::new(self.setup.clone());
        self.tell(Command::Open(self.role, setup, connects_to.map(Address::Ip)));
        self.hear()
    }

    /// The agent's messages about an end that has moved its allowed bytes, and about the next trial.
    pub fn refused_more(mut self) {
        self.tell(Command::Stop);
        let hears_why = |reply: Reply| match reply {
            Reply::Skipped(reason) => assert!(reason.contains("--max-bytes"), "{reason}"),
            other => panic!("{other:?}"),
        };
        hears_why(self.hear());
        hears_why(self.open(Some(([127, 0, 0, 1], 9).into())));
    }
}

fn stream(transport: &str, engine: &str) -> Spec {
    Spec::from([
        ("transport", transport.into()),
        ("engine", engine.into()),
        ("read_size", 65_536.into()),
        ("write_size", 16_384.into()),
    ])
}

/// Bytes of datagrams from a source at an agent until it ends.
fn datagrams(caller: &mut Caller) -> usize {
    let here = UdpSocket::bind("127.0.0.1:0").unwrap();
    here.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert_eq!(caller.open(Some(here.local_addr().unwrap())), Reply::Ready);
    caller.tell(Command::Go);
    let (mut came, mut bytes, deadline) = (0, vec![0; 65_536], Instant::now() + PATIENCE);
    loop {
        assert!(came < TOO_MUCH && Instant::now() < deadline, "it goes on");
        // The agent hears of us all the time, but never that it is enough.
        assert!(caller.link.used_ns().is_some());
        for _ in 0..1000 {
            match here.recv_from(&mut bytes) {
                Ok((SHOWN, source)) => drop(here.send_to(&[1], source)),
                Ok((0, source)) => {
                    here.send_to(&[], source).unwrap();
                    return came;
                }
                Ok((len, _)) => came += len,
                Err(_) => break,
            }
        }
    }
}

#[test]
fn unstopped_datagram_source_ends_at_its_limit() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, ALLOWED);
    for engine in ["plain", "mmsg", "gso"] {
        let mut caller = Caller::of(&bench, &place, EndRole::Source, &stream("udp", engine));
        caller.setup.window_ns = PATIENCE.as_nanos() as u64;
        assert!(datagrams(&mut caller) > 0, "{engine}");
        caller.refused_more();
    }
    stopped(agent);
}

#[test]
fn unstopped_source_ends_after_its_trial() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, "");
    let mut levels = stream("udp", "plain");
    levels.set("rate", 1_000_000.into());
    let mut caller = Caller::of(&bench, &place, EndRole::Source, &levels);
    assert!(datagrams(&mut caller) > 0);
    caller.tell(Command::Stop);
    assert!(matches!(caller.hear(), Reply::Done(_)));
    stopped(agent);
}

/// The connection that shows the ticket, and the bytes that it has sent: a port that was another test's may get late connections
/// for that one. One that ends before its ticket is that of an end that failed.
fn accepted(listener: &TcpListener, ticket: &Ticket) -> (TcpStream, usize) {
    loop {
        let mut stream = listener.accept().unwrap().0;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut shown = [0; SHOWN];
        match stream.read_exact(&mut shown) {
            Ok(()) if ticket.admits(&shown).is_none() => {}
            Ok(()) => return (stream, SHOWN),
            Err(_) => return (stream, 0),
        }
    }
}

#[test]
fn unstopped_source_ends_at_its_limit() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, ALLOWED);
    for engine in ["blocking", "epoll", "tokio", "uring:plain"] {
        let mut caller = Caller::of(&bench, &place, EndRole::Source, &stream("tcp", engine));
        caller.setup.window_ns = PATIENCE.as_nanos() as u64;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        match caller.open(Some(listener.local_addr().unwrap())) {
            Reply::Ready => {}
            Reply::Skipped(reason) if engine == "uring:plain" && !reason.is_empty() => continue,
            other => panic!("{engine}: {other:?}"),
        }
        caller.tell(Command::Go);
        let (mut reads, mut came) = accepted(&listener, &caller.ticket);
        let mut bytes = vec![0; 65_536];
        while let Ok(n @ 1..) = reads.read(&mut bytes) {
            came += n;
            assert!(came < TOO_MUCH, "{engine}: it goes on");
        }
        if came > SHOWN {
            caller.refused_more();
        } else {
            // No ring can be made there.
            assert_eq!(engine, "uring:plain");
        }
    }
    stopped(agent);
}

/// The socket takes much more than the limit before a write waits, so each lap ends between two writes. Tokio's limit is checked every
/// 20 ms, in which it fills the socket.
#[test]
fn source_that_never_waits_keeps_its_limit() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, "--max-bytes 64K");
    for engine in ["blocking", "epoll"] {
        let mut caller = Caller::of(&bench, &place, EndRole::Source, &stream("tcp", engine));
        caller.setup.window_ns = PATIENCE.as_nanos() as u64;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(caller.open(Some(listener.local_addr().unwrap())), Reply::Ready);
        caller.tell(Command::Go);
        let (mut reads, mut came) = accepted(&listener, &caller.ticket);
        // Time for a source without a limit to fill the socket.
        std::thread::sleep(Duration::from_millis(200));
        let mut bytes = vec![0; 65_536];
        while let Ok(n @ 1..) = reads.read(&mut bytes) {
            came += n;
            assert!(came < 1 << 20, "{engine}: it goes on");
        }
        caller.refused_more();
    }
    stopped(agent);
}

#[test]
fn server_keeps_its_limit_before_a_trial() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, ALLOWED);
    for engine in ["blocking", "epoll", "tokio"] {
        let levels = Spec::from([
            ("transport", "tcp".into()),
            ("server_engine", engine.into()),
            ("request", 16_384.into()),
            ("response", 16_384.into()),
        ]);
        let mut caller = Caller::of(&bench, &place, EndRole::Server, &levels);
        let Reply::Listening(Address::Ip(at)) = caller.open(None) else { panic!("{engine}") };
        assert_eq!(caller.hear(), Reply::Ready);
        let mut calls = TcpStream::connect(at).unwrap();
        calls.set_read_timeout(Some(PATIENCE)).unwrap();
        calls.write_all(&caller.ticket.shown_by(0)).unwrap();
        let (mut came, mut bytes) = (0, vec![7; 16_384]);
        while calls.write_all(&bytes).is_ok() && calls.read_exact(&mut bytes).is_ok() {
            came += bytes.len();
            assert!(came < TOO_MUCH, "{engine}: it goes on");
        }
        assert!(came > 0, "{engine}");
        caller.refused_more();
    }
    stopped(agent);
}

/// Calls of datagrams of 16 KiB.
fn calls(side: &'static str) -> Spec {
    Spec::from([
        ("transport", "udp".into()),
        (side, "plain".into()),
        ("read_size", 65_536.into()),
        ("request", 16_384.into()),
        ("response", 16_384.into()),
    ])
}

#[test]
fn datagram_server_requires_a_ticket_and_keeps_limits() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, ALLOWED);
    let mut caller = Caller::of(&bench, &place, EndRole::Server, &calls("server_engine"));
    let Reply::Listening(Address::Ip(at)) = caller.open(None) else { panic!() };
    assert_eq!(caller.hear(), Reply::Ready);
    let connected = |here: &str| {
        let socket = UdpSocket::bind(here).unwrap();
        socket.connect(at).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        socket
    };
    let (request, mut heard) = (vec![7; 16_384], vec![0; 65_536]);
    // Without a ticket, with another one, and with what was overheard, from elsewhere.
    let outsiders = ["127.0.0.1:0", "127.0.0.1:0", "127.0.0.2:0"].map(connected);
    outsiders[1].send(&Ticket::fresh().unwrap().shown_by(0)).unwrap();
    outsiders[2].send(&caller.ticket.shown_by(0)).unwrap();
    for outsider in &outsiders {
        outsider.send(&request).unwrap();
    }
    let (admitted, deadline) = (connected("127.0.0.1:0"), Instant::now() + PATIENCE);
    while admitted.recv(&mut heard).is_err() {
        assert!(Instant::now() < deadline, "it admits no client");
        admitted.send(&caller.ticket.shown_by(0)).unwrap();
    }
    let (mut came, mut silent) = (0, 0);
    // A server at its limit sends nothing: requests and replies count together.
    while silent < 20 || 2 * came < 1 << 20 {
        let Ok(_) = admitted.send(&request) else { break };
        silent += 1;
        if let Ok(len @ 16_384..) = admitted.recv(&mut heard) {
            (came, silent) = (came + len, 0);
        }
        assert!(came < TOO_MUCH && Instant::now() < deadline, "it goes on");
    }
    assert!(came > 0);
    for outsider in &outsiders {
        outsider.set_nonblocking(true).unwrap();
        assert!(outsider.recv(&mut heard).is_err(), "a reply without a ticket");
    }
    caller.refused_more();
    stopped(agent);
}

#[test]
fn unstopped_datagram_clients_end_at_their_limit() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, ALLOWED);
    let mut caller = Caller::of(&bench, &place, EndRole::Client, &calls("client_engine"));
    caller.setup.window_ns = PATIENCE.as_nanos() as u64;
    let here = UdpSocket::bind("127.0.0.1:0").unwrap();
    here.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let (at, ticket) = (here.local_addr().unwrap(), caller.ticket);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let echoes = scope.spawn(|| {
            let (mut came, mut bytes) = (0, vec![0; 65_536]);
            let deadline = Instant::now() + 2 * PATIENCE;
            while !over.load(Ordering::Relaxed) && Instant::now() < deadline {
                let Ok((len, source)) = here.recv_from(&mut bytes) else { continue };
                let answers = if len == SHOWN { SHOWN - 4 } else { len };
                came += if len == SHOWN { 0 } else { len };
                assert!(len != SHOWN || bytes[..SHOWN] == ticket.shown_by(0));
                let _ = here.send_to(&bytes[..answers], source);
            }
            came
        });
        assert_eq!(caller.open(Some(at)), Reply::Ready);
        caller.tell(Command::Go);
        let mut message = caller.hear();
        if message == Reply::Closed {
            message = caller.hear();
        }
        over.store(true, Ordering::Relaxed);
        let came = echoes.join().unwrap();
        assert!(came > 0 && came < TOO_MUCH, "{came}");
        match message {
            Reply::Skipped(reason) => assert!(reason.contains("--max-bytes"), "{reason}"),
            other => panic!("{other:?}"),
        }
    });
    stopped(agent);
}

/// Otherwise a queue of them would move the session's bytes once each.
#[test]
fn an_end_is_not_opened_twice_at_once() {
    let again = |caller: &mut Caller| {
        let setup = Box::new(caller.setup.clone());
        caller.tell(Command::Open(caller.role, setup, None));
    };
    // An agent that has heard enough ends the session.
    let often = |caller: &mut Caller| {
        (0..20).for_each(|_| drop(caller.cast.end(caller.role).map(|end| end.send(Command::Go))));
    };
    for (asks, why) in
        [(again as fn(&mut Caller), "opened before it has reported"), (often, "too many commands for a trial")]
    {
        let bench = Bench::new();
        let (agent, place) = agent(&bench, ALLOWED);
        let mut caller = Caller::of(&bench, &place, EndRole::Sink, &stream("tcp", "blocking"));
        assert!(matches!(caller.open(None), Reply::Listening(_)));
        asks(&mut caller);
        until_no_end(&bench);
        drop(caller);
        stopped(agent).complains(&[why]);
    }
}

#[test]
fn what_ends_moved_that_were_let_die_counts() {
    let bench = Bench::new();
    let (agent, place) = agent(&bench, ALLOWED);
    let mut caller = Caller::of(&bench, &place, EndRole::Source, &stream("tcp", "blocking"));
    caller.setup.window_ns = PATIENCE.as_nanos() as u64;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = Some(listener.local_addr().unwrap());
    assert_eq!(caller.open(at), Reply::Ready);
    caller.tell(Command::Go);
    let (mut reads, came) = accepted(&listener, &caller.ticket);
    assert_eq!(came, SHOWN);
    reads.read_exact(&mut [0]).unwrap();
    let link = Arc::clone(&caller.link);
    for end in bench.ends() {
        assert!(signal(end, "KILL"));
    }
    drop(caller);
    let mut caller = Caller::over(link, EndRole::Source, &stream("tcp", "blocking"));
    match caller.open(at) {
        // No more than it was bound to.
        Reply::Skipped(reason) => {
            assert!(
                reason.contains("1 MiB of them charged for ends that died") && reason.contains("--max-bytes"),
                "{reason}"
            );
        }
        other => panic!("{other:?}"),
    }
    drop(caller);
    until_no_end(&bench);
    stopped(agent);
}
