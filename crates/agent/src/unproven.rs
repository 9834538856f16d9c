//! Connections whose peer has not yet proved that it holds the key and is alive.
//!
//! All of them wait in the agent's one thread. Each costs a descriptor and at most a few KiB, and has [`PROVE_WITHIN`] in
//! total. Only a proof ([`bytegauge_wire::Responder`]) makes a connection a caller; until then all connections are treated
//! alike, whatever they have sent.
//!
//! If the room is full, a network with more than its share loses its oldest connection; if there is none, the oldest of all
//! is refused. A host that opens many connections therefore loses its own first. Against a crowd of hosts only time counts,
//! so that a network with a few callers fares no worse than one with a single unauthenticated peer.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytegauge_sys::epoll::{Epoll, Events, Ready};
use bytegauge_sys::resource_limit::raise_open_files;
use bytegauge_traffic::{EndError, lock};
use bytegauge_wire::{FIRST_FRAME_MAX, Key, LineError, OpeningStep, Proven, Receiver, Responder, Sender};

/// How often the listener checks whether to stop.
const LOOK_AFTER: Duration = Duration::from_millis(250);

/// Connections accepted, or events handled, before other work has a turn.
const TURN: usize = 64;

/// Longest time of a connection to prove itself and to ask for a session.
const PROVE_WITHIN: Duration = Duration::from_secs(10);

/// Most waiting connections. At 3,000 new ones per second each still has more than a second.
const PENDING_MAX: usize = 4096;

/// The fraction of the room that a network may use before it loses its own first.
const NETWORK_SHARE: usize = 16;

/// The fraction of the process's descriptors for waiting connections; the ends of sessions need the others.
const DESCRIPTOR_SHARE: u64 = 4;

/// Bytes of a refused connection that are read and discarded. Closing with unread bytes would reset the connection before the
/// answer arrives (RFC 1122, 4.2.2.13).
const DROPPED_MAX: usize = 4 << 10;

/// The token of the listener; connections have their numbers.
const LISTENER: u64 = u64::MAX;

/// A listener whose connections have to prove that they hold the key: that of an agent, and those of other services, such as rank 0
/// of a mesh. One thread serves all connections without a proof.
pub struct ProvenListener {
    listener: TcpListener,
    epoll: Epoll,
    key: Key,
    version: u16,
    room: usize,
    conns: Mutex<Conns>,
}

#[derive(Default)]
struct Conns {
    next: u64,
    by_number: BTreeMap<u64, Pending>,
    by_network: HashMap<IpAddr, BTreeSet<u64>>,
    /// Networks by number of connections.
    by_count: BTreeSet<(usize, IpAddr)>,
}

struct Pending {
    stream: TcpStream,
    peer: SocketAddr,
    responder: Responder,
    until: Instant,
}

/// The end of a wait.
pub(super) enum PendingOutcome {
    /// It is a caller.
    Proven(ProvenCaller),
    /// It was refused, for this reason.
    Refused(SocketAddr, String),
}

/// A connection that has proved that its peer holds the key and is alive.
pub struct ProvenCaller {
    pub(super) stream: TcpStream,
    pub(super) proven: Box<Proven>,
    /// The address of the peer.
    pub peer: SocketAddr,
    /// When its first message must have been received.
    pub until: Instant,
}

/// Something that a listener reports to its owner.
pub(super) enum ListenerEvent {
    /// A connection no longer waits.
    Settled(PendingOutcome),
    /// No connection can be accepted, for this reason: descriptors ran out.
    Exhausted(io::Error),
    /// Some time has passed.
    Passed(Instant),
}

impl ProvenListener {
    /// Takes over a listener. `version`: that of the callers' messages.
    ///
    /// # Errors
    /// [`EndError::Io`] if the kernel refuses to watch it.
    pub fn new(listener: TcpListener, key: Key, version: u16) -> Result<ProvenListener, EndError> {
        listener.set_nonblocking(true).map_err(EndError::io("making a listener not block"))?;
        let epoll = Epoll::new().map_err(EndError::io("watching a port"))?;
        epoll.add(listener.as_fd(), Ready::IN, LISTENER).map_err(EndError::io("watching a port"))?;
        let descriptors = raise_open_files().soft / DESCRIPTOR_SHARE;
        let room = usize::try_from(descriptors).unwrap_or(PENDING_MAX).clamp(1, PENDING_MAX);
        Ok(ProvenListener { listener, epoll, key, version, room, conns: Mutex::default() })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// If the kernel does not report it.
    pub fn place(&self) -> Result<SocketAddr, EndError> {
        self.listener.local_addr().map_err(EndError::io("reading a listener's port"))
    }

    /// Passes callers on until `stop` is set.
    pub fn serve(&self, stop: &AtomicBool, mut admit: impl FnMut(ProvenCaller)) {
        self.run(stop, |event| {
            if let ListenerEvent::Settled(PendingOutcome::Proven(caller)) = event {
                admit(caller);
            }
        });
    }

    /// Passes all events on until `stop` is set.
    pub(super) fn run(&self, stop: &AtomicBool, mut handle: impl FnMut(ListenerEvent)) {
        let mut events = Events::with_room(TURN);
        let mut looked = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            for number in self.wait(&mut events, LOOK_AFTER.as_nanos() as u64) {
                match number {
                    LISTENER => self.accept(&mut handle),
                    number => self.proceed(number).map(ListenerEvent::Settled).into_iter().for_each(&mut handle),
                }
            }
            let now = Instant::now();
            if now.saturating_duration_since(looked) >= LOOK_AFTER {
                looked = now;
                self.expire(now).into_iter().map(ListenerEvent::Settled).for_each(&mut handle);
                handle(ListenerEvent::Passed(now));
            }
        }
    }

    /// Waits until something is ready: the numbers of connections, or [`LISTENER`].
    fn wait(&self, events: &mut Events, timeout_ns: u64) -> Vec<u64> {
        // An interrupted wait has no event.
        let count = self.epoll.wait(events, timeout_ns).unwrap_or(0);
        (0..count).map(|index| events.at(index).0).collect()
    }

    /// Accepts waiting connections, a few at a time. Without a descriptor for more, a pending connection is removed; if there is
    /// none, it rests.
    fn accept(&self, handle: &mut impl FnMut(ListenerEvent)) {
        for _ in 0..TURN {
            match self.listener.accept() {
                Ok((stream, peer)) => {
                    self.add(stream, peer, &[]).into_iter().map(ListenerEvent::Settled).for_each(&mut *handle);
                }
                Err(error) if bytegauge_sys::socket::is_exhausted(&error) => {
                    handle(ListenerEvent::Exhausted(error));
                    match self.crowd_out() {
                        Some(outcome) => handle(ListenerEvent::Settled(outcome)),
                        None => std::thread::sleep(LOOK_AFTER),
                    }
                    return;
                }
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(_) => return,
            }
        }
    }

    /// Adds a connection of which an end has already read `received`. The outcomes: its own, and that of a connection removed
    /// to make room.
    pub(super) fn add(&self, stream: TcpStream, peer: SocketAddr, received: &[u8]) -> Vec<PendingOutcome> {
        let mut conns = lock(&self.conns);
        let crowded_out = if conns.by_number.len() >= self.room { conns.crowd_out(self.room) } else { None };
        let number = conns.next;
        conns.next += 1;
        let responder = Responder::new(&self.key, self.version);
        let pending = Pending { stream, peer, responder, until: Instant::now() + PROVE_WITHIN };
        let prepared = self.prepare(&pending.stream, number);
        conns.insert(number, pending);
        let own = match prepared {
            Ok(()) => self.advance(&mut conns, number, received),
            Err(error) => conns.refuse(number, &error.to_string()),
        };
        crowded_out.into_iter().chain(own).collect()
    }

    fn prepare(&self, stream: &TcpStream, number: u64) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        self.epoll.add(stream.as_fd(), Ready::IN | Ready::RDHUP | Ready::ET, number)
    }

    /// Continues with a ready connection.
    fn proceed(&self, number: u64) -> Option<PendingOutcome> {
        self.advance(&mut lock(&self.conns), number, &[])
    }

    /// Refuses connections whose time is over.
    fn expire(&self, now: Instant) -> Vec<PendingOutcome> {
        let mut conns = lock(&self.conns);
        let late = |(number, pending): (&u64, &Pending)| (pending.until <= now).then_some(*number);
        let late: Vec<u64> = conns.by_number.iter().filter_map(late).collect();
        late.into_iter().filter_map(|number| conns.refuse(number, &LineError::Late.to_string())).collect()
    }

    /// Frees a descriptor. `None` if no connection waits.
    fn crowd_out(&self) -> Option<PendingOutcome> {
        lock(&self.conns).crowd_out(self.room)
    }

    fn advance(&self, conns: &mut Conns, number: u64, received: &[u8]) -> Option<PendingOutcome> {
        // An event of a connection already removed.
        let pending = conns.by_number.get_mut(&number)?;
        match pending.advance(received) {
            Ok(None) => None,
            Ok(Some(proven)) => {
                let Pending { stream, peer, until, .. } = conns.remove(number)?;
                let blocking = self.epoll.remove(stream.as_fd()).and_then(|()| stream.set_nonblocking(false));
                Some(match blocking {
                    Ok(()) => PendingOutcome::Proven(ProvenCaller { stream, proven, peer, until }),
                    Err(error) => PendingOutcome::Refused(peer, error.to_string()),
                })
            }
            Err(why) => conns.refuse(number, &why),
        }
    }
}

impl ProvenCaller {
    /// The address of this host that the peer reached.
    ///
    /// # Errors
    /// If the connection is gone.
    pub fn near(&self) -> io::Result<SocketAddr> {
        self.stream.local_addr()
    }

    /// The line to the caller.
    ///
    /// # Errors
    /// [`LineError::Broken`] if the connection is gone.
    pub fn line(self) -> Result<(Sender, Receiver), LineError> {
        self.proven.line(self.stream)
    }
}

impl Pending {
    /// Processes bytes read before, then those of the connection.
    fn advance(&mut self, mut received: &[u8]) -> Result<Option<Box<Proven>>, String> {
        let mut room = [0; FIRST_FRAME_MAX];
        loop {
            let wants = self.responder.wants().min(room.len());
            let bytes = &mut room[..wants];
            let read = if received.is_empty() { self.stream.read(bytes) } else { received.read(bytes) };
            let step = match read {
                Ok(0) => return Err(LineError::Broken(ErrorKind::UnexpectedEof.into()).to_string()),
                Ok(read) => self.responder.take(&bytes[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(LineError::Broken(error).to_string()),
            };
            match step {
                Ok(OpeningStep::Wants) => {}
                // The answer fits into the empty send buffer of a new connection.
                Ok(OpeningStep::Answer(answer)) => {
                    self.stream.write_all(&answer).map_err(|error| LineError::Broken(error).to_string())?;
                }
                Ok(OpeningStep::Proven(proven)) => return Ok(Some(proven)),
                Err(refusal) => {
                    if let Some(answer) = refusal.answer {
                        self.part_with(&answer);
                    }
                    return Err(reason(&refusal.error));
                }
            }
        }
    }

    /// Sends a last answer so that it arrives, unless the peer is gone.
    fn part_with(&mut self, answer: &[u8]) {
        let _ = self.stream.write_all(answer).and_then(|()| self.stream.shutdown(Shutdown::Write));
        let mut dropped = [0; DROPPED_MAX];
        let _ = self.stream.read(&mut dropped);
    }
}

fn reason(error: &LineError) -> String {
    match error {
        LineError::OtherProtocol => "its first bytes are not those of a bytegauge caller".into(),
        error => error.to_string(),
    }
}

impl Conns {
    fn insert(&mut self, number: u64, pending: Pending) {
        let network = network(pending.peer.ip());
        let numbers = self.by_network.entry(network).or_default();
        self.by_count.remove(&(numbers.len(), network));
        numbers.insert(number);
        self.by_count.insert((numbers.len(), network));
        self.by_number.insert(number, pending);
    }

    fn remove(&mut self, number: u64) -> Option<Pending> {
        let pending = self.by_number.remove(&number)?;
        let network = network(pending.peer.ip());
        if let Some(numbers) = self.by_network.get_mut(&network) {
            self.by_count.remove(&(numbers.len(), network));
            numbers.remove(&number);
            match numbers.len() {
                0 => drop(self.by_network.remove(&network)),
                left => drop(self.by_count.insert((left, network))),
            }
        }
        Some(pending)
    }

    fn refuse(&mut self, number: u64, why: &str) -> Option<PendingOutcome> {
        let pending = self.remove(number)?;
        Some(PendingOutcome::Refused(pending.peer, format!("was refused: {why}")))
    }

    /// Refuses the oldest connection of a network with more than its share of the room, or else the oldest of all.
    fn crowd_out(&mut self, room: usize) -> Option<PendingOutcome> {
        let largest = self.by_count.last().filter(|(count, _)| *count > room / NETWORK_SHARE);
        let of_largest = largest.and_then(|(_, network)| self.by_network.get(network)?.first().copied());
        let oldest = of_largest.or_else(|| self.by_number.keys().next().copied())?;
        let waiting = self.by_number.len();
        self.refuse(oldest, &format!("{waiting} connections without a proof of the key are too many"))
    }
}

/// The addresses of one host: an IPv4 address, or the /64 network of an IPv6 address.
pub(super) fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use bytegauge_wire::connect;

    use super::*;
    use crate::protocol::VERSION;

    /// Connections of a network that may wait.
    const SHARE: usize = 2;

    /// Connections that may wait.
    const ROOM: usize = SHARE * NETWORK_SHARE;

    struct Bench {
        key: Key,
        pending: ProvenListener,
    }

    impl Bench {
        fn new() -> Bench {
            let folder = tempfile::tempdir().unwrap();
            let key = Key::create(&folder.path().join("key")).unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let pending = ProvenListener::new(listener, key.clone(), VERSION).unwrap();
            Bench { key, pending: ProvenListener { room: ROOM, ..pending } }
        }

        /// Adds a connection as if it came from this address: its other side, and the outcomes.
        fn add(&self, from: [u8; 4]) -> (TcpStream, Vec<PendingOutcome>) {
            let stream = TcpStream::connect(self.pending.place().unwrap()).unwrap();
            let accepted = std::iter::repeat_with(|| self.pending.listener.accept()).find_map(Result::ok);
            let (accepted, peer) = accepted.unwrap();
            let peer = SocketAddr::new(Ipv4Addr::from(from).into(), peer.port());
            (stream, self.pending.add(accepted, peer, &[]))
        }

        /// Serves connections until one of them has an outcome.
        fn outcome(&self) -> PendingOutcome {
            let mut events = Events::with_room(8);
            let until = Instant::now() + Duration::from_secs(60);
            while Instant::now() < until {
                for number in self.pending.wait(&mut events, 1_000_000_000) {
                    if let Some(outcome) = self.pending.proceed(number) {
                        return outcome;
                    }
                }
            }
            panic!("no outcome");
        }
    }

    fn refused(outcomes: &[PendingOutcome]) -> Vec<SocketAddr> {
        let peer = |outcome: &PendingOutcome| match outcome {
            PendingOutcome::Refused(peer, why) => {
                assert!(why.contains("too many"), "{why}");
                *peer
            }
            PendingOutcome::Proven(_) => panic!("no connection proved anything"),
        };
        outcomes.iter().map(peer).collect()
    }

    #[test]
    fn network_beyond_its_share_loses_its_oldest() {
        let bench = Bench::new();
        let (one, many) = ([192, 0, 2, 1], [192, 0, 2, 2]);
        let first: Vec<_> = (0..SHARE).map(|_| bench.add(one)).collect();
        assert!(first.iter().all(|(_, outcomes)| outcomes.is_empty()));
        let flood: Vec<_> = (0..3 * ROOM).map(|_| bench.add(many)).collect();
        let ports: Vec<u16> = flood.iter().map(|(stream, _)| stream.local_addr().unwrap().port()).collect();
        // Once the room is full, each replaces the oldest of its own network.
        let left = ROOM - SHARE;
        for (number, (_, outcomes)) in flood.iter().enumerate() {
            let expected: Vec<SocketAddr> =
                (number >= left).then(|| (many, ports[number - left]).into()).into_iter().collect();
            assert_eq!(refused(outcomes), expected, "{number}");
        }
    }

    #[test]
    fn oldest_is_refused_if_shares_are_kept() {
        let bench = Bench::new();
        // Callers of one network, then connections of many networks.
        let callers: Vec<_> = (0..SHARE).map(|_| bench.add([192, 0, 2, 1])).collect();
        let unproven: Vec<_> = (0..=ROOM).map(|host| bench.add([198, 51, 100, host as u8])).collect();
        let port = |(stream, _): &(TcpStream, Vec<PendingOutcome>)| stream.local_addr().unwrap().port();
        let room = ROOM - SHARE;
        assert!(unproven[..room].iter().all(|(_, outcomes)| outcomes.is_empty()));
        // Oldest first, whatever the network.
        assert_eq!(refused(&unproven[room].1), [([192, 0, 2, 1], port(&callers[0])).into()]);
        assert_eq!(refused(&unproven[room + SHARE].1), [([198, 51, 100, 0], port(&unproven[0])).into()]);
    }

    #[test]
    fn ipv6_host_counts_as_its_network() {
        let network = |text: &str| network(text.parse().unwrap());
        assert_eq!(network("2001:db8:1:2:3::4"), network("2001:db8:1:2:ffff::9"));
        assert_ne!(network("2001:db8:1:2::4"), network("2001:db8:1:3::4"));
        assert_eq!(network("::ffff:192.0.2.1"), network("192.0.2.1"));
        assert_ne!(network("192.0.2.1"), network("192.0.2.2"));
    }

    #[test]
    fn caller_is_proven_by_its_first_frame_alone() {
        let bench = Bench::new();
        let (stream, none) = bench.add([192, 0, 2, 1]);
        assert!(none.is_empty());
        let key = bench.key.clone();
        let until = Instant::now() + Duration::from_secs(60);
        let calling = std::thread::spawn(move || connect(stream, &key, VERSION, until).unwrap());
        let mut events = Events::with_room(8);
        while !calling.is_finished() {
            for number in bench.pending.wait(&mut events, 1_000_000) {
                assert!(bench.pending.proceed(number).is_none(), "its handshake is no proof");
            }
        }
        let (mut sender, _receiver) = calling.join().unwrap();
        sender.send(&"alive").unwrap();
        let PendingOutcome::Proven(caller) = bench.outcome() else { panic!("its first frame is a proof") };
        let (_, mut receiver) = caller.line().unwrap();
        assert_eq!(receiver.receive::<String>(100, Some(until)).unwrap(), "alive");
        assert!(bench.pending.crowd_out().is_none(), "it no longer waits");
    }

    #[test]
    fn slow_connection_is_refused() {
        let bench = Bench::new();
        let (mut slow, _) = bench.add([192, 0, 2, 1]);
        slow.write_all(b"bgf").unwrap();
        let now = Instant::now();
        assert!(bench.pending.expire(now).is_empty());
        let over = bench.pending.expire(now + PROVE_WITHIN);
        assert!(matches!(&over[..], [PendingOutcome::Refused(_, why)] if why.contains("nothing arrived in time")));
        assert_eq!(slow.read(&mut [0]).unwrap_or(0), 0);
    }
}
